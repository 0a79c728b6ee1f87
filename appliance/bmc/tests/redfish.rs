//! The Redfish client against the fake service, over real sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use firesteel_bmc::inventory::{DRIVES_MAX, SecureBootSeen};
use firesteel_bmc::{
    BmcBootMode, BmcCredentials, BmcQueues, BmcTimeouts, BmcUrl, BootSet, Error, NextBootSource, OverrideReading,
    PowerAction, PowerSent, PowerSet, PowerState, Redfish, RedfishClient, Tls, WantedBootOverride,
};
use firesteel_bmc_fakes::redfish::{Fake, RedfishFault};
use firesteel_dial::{Dialer, Targets};
use firesteel_facts::Mac;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const MAC: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];

fn credentials() -> BmcCredentials {
    BmcCredentials { username: "admin".into(), password: "correct horse".into() }
}

/// Dials what is here, as a lab lets it.
fn dialer() -> Dialer {
    Dialer::new(Targets::allowing(["127.0.0.0/8".parse().unwrap()]))
}

/// A fake that listens; the address names no system.
async fn start() -> (Fake, BmcUrl) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = BmcUrl::parse(&format!("redfish+http://{}", listener.local_addr().unwrap())).unwrap();
    let fake = Fake::new(credentials(), MAC);
    tokio::spawn(fake.clone().serve(listener));
    (fake, address)
}

/// Waits for what a fake does after some looks, and not long for what it never does.
const PATIENCE: BmcTimeouts = BmcTimeouts {
    request: Duration::from_secs(30),
    read_back: Duration::from_millis(1500),
    pause: Duration::from_millis(10),
};

async fn connect(address: &BmcUrl) -> Result<RedfishClient, Error> {
    connect_with(address, &credentials(), PATIENCE).await
}

async fn connect_with(
    address: &BmcUrl,
    credentials: &BmcCredentials,
    patience: BmcTimeouts,
) -> Result<RedfishClient, Error> {
    Redfish::connect_on(Arc::default(), &dialer(), address, credentials, &Tls::default(), patience).await
}

/// One who gives up at once.
fn patient() -> BmcTimeouts {
    BmcTimeouts { read_back: Duration::from_secs(60), ..PATIENCE }
}

fn hasty() -> BmcTimeouts {
    BmcTimeouts { read_back: Duration::ZERO, ..PATIENCE }
}

fn unverified(set: Result<BootSet, Error>) -> String {
    match set {
        Ok(BootSet::Unverified { seen }) => seen,
        other => panic!("{other:?}"),
    }
}

fn times(fake: &Fake, request: &str) -> usize {
    fake.state().requests.iter().filter(|made| made.starts_with(request)).count()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn identity_is_read() {
    let (_fake, address) = start().await;
    let seen = connect(&address).await.unwrap().identify().await.unwrap();
    assert_eq!(seen.system, "/redfish/v1/Systems/1");
    assert_eq!(seen.power, PowerState::Off);
    assert_eq!(seen.serial.as_deref(), Some("FAKE-1"));
    assert_eq!(seen.macs, [Mac(MAC)]);
    assert_eq!(seen.boot_mode, Some(BmcBootMode::Uefi));
    assert!(seen.resets_allowed.contains(&"ForceOff".to_owned()));
}

#[tokio::test]
async fn power_goes_on_off_and_round_and_nothing_is_sent_twice() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    assert_eq!(client.set_power(PowerAction::ForceOff).await, Ok(PowerSent::Nothing));
    assert_eq!(client.set_power(PowerAction::On).await, Ok(PowerSent::Sent));
    assert_eq!(client.set_power(PowerAction::On).await, Ok(PowerSent::Nothing));
    assert_eq!(client.power().await, Ok(PowerState::On));
    assert_eq!(client.set_power(PowerAction::ForceRestart).await, Ok(PowerSent::Sent));
    assert_eq!(client.set_power(PowerAction::GracefulOff).await, Ok(PowerSent::Sent));
    assert_eq!(client.set_power(PowerAction::ForceRestart).await, Ok(PowerSent::Sent));
    assert_eq!(fake.state().resets, ["On", "ForceRestart", "GracefulShutdown", "On"]);
}

#[tokio::test]
async fn power_is_read_back_and_a_bmc_that_lies_is_named() {
    let (fake, address) = start().await;
    let client = connect_with(&address, &credentials(), patient()).await.unwrap();
    assert_eq!(client.change_power(PowerAction::ForceOff).await, Ok(PowerSet::Nothing));
    fake.state().faults = vec![RedfishFault::PowerLater(3)];
    assert_eq!(client.change_power(PowerAction::On).await, Ok(PowerSet::Confirmed), "it was waited for");
    assert_eq!(fake.state().power, PowerState::On);
    assert_eq!(client.change_power(PowerAction::ForceRestart).await, Ok(PowerSet::Unconfirmed));
    fake.state().faults = vec![RedfishFault::IgnoresPower];
    let hasty = connect_with(&address, &credentials(), hasty()).await.unwrap();
    let Ok(PowerSet::Unverified { seen }) = hasty.change_power(PowerAction::ForceOff).await else { panic!("off?") };
    let reset = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset with ForceOff was answered 204, and ";
    assert!(seen.starts_with(reset) && seen.ends_with(" s later PowerState says On"), "{seen}");
}

#[tokio::test]
async fn reset_types_are_found_where_the_action_says_that_they_are() {
    let (fake, address) = start().await;
    fake.state().faults = vec![RedfishFault::ResetsElsewhere];
    fake.state().resets_allowed = vec!["ForceOn".into(), "ForceOff".into()];
    let client = connect(&address).await.unwrap();
    assert_eq!(client.identify().await.unwrap().resets_allowed, ["ForceOn", "ForceOff"]);
    assert_eq!(client.set_power(PowerAction::On).await, Ok(PowerSent::Sent));
    assert_eq!(fake.state().resets, ["ForceOn"]);
    let error = client.set_power(PowerAction::GracefulOff).await.unwrap_err();
    assert!(error.to_string().contains("it offers only ForceOn, ForceOff"), "{error}");
}

#[tokio::test]
async fn boot_once_is_set_read_back_and_used_up_by_a_boot() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    assert_eq!(client.set_boot_once(NextBootSource::Pxe, Some(BmcBootMode::Legacy)).await, Ok(BootSet::Confirmed));
    let mode = fake.state().boot_mode.clone();
    assert_eq!(mode, "Legacy");
    assert_eq!(client.read_once().await, Ok(OverrideReading::Left { seen: "Once Pxe".into() }));
    client.set_power(PowerAction::On).await.unwrap();
    assert_eq!(client.read_once().await, Ok(OverrideReading::UsedUp));
    assert_eq!(client.identify().await.unwrap().boot_enabled.as_deref(), Some("Disabled"));
    client.set_boot_once(NextBootSource::UefiHttp, Some(BmcBootMode::Uefi)).await.unwrap();
    assert_eq!(client.set_boot_once(NextBootSource::None, None).await, Ok(BootSet::Confirmed));
    assert_eq!(fake.state().boot_enabled, "Disabled");
}

#[tokio::test]
async fn each_target_is_set_once_and_lasting() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    for target in [NextBootSource::Pxe, NextBootSource::UefiHttp, NextBootSource::Cd, NextBootSource::Hdd] {
        for is_lasting in [false, true] {
            let http_uri = (target == NextBootSource::UefiHttp).then_some("http://10.0.0.1/loader/ipxe.efi");
            let wish = WantedBootOverride { is_lasting, http_uri, ..WantedBootOverride::once(target) };
            assert_eq!(client.set_boot(&wish).await, Ok(BootSet::Confirmed), "{wish:?}");
            let state = fake.state();
            assert_eq!((&*state.boot_target, &*state.boot_enabled), (target.as_str(), wish.enabled()));
        }
    }
    assert_eq!(fake.state().http_boot_uri.as_deref(), Some("http://10.0.0.1/loader/ipxe.efi"));
    fake.state().http_boot_uri = None;
    let wish = WantedBootOverride {
        http_uri: Some("http://10.0.0.1/x"),
        ..WantedBootOverride::once(NextBootSource::UefiHttp)
    };
    assert_eq!(client.set_boot(&wish).await, Ok(BootSet::Confirmed), "without the property, the URL comes by DHCP");
}

/// Law 1: an override that was accepted is not an override that is set.
#[tokio::test]
async fn a_forgotten_override_is_told_and_a_late_one_waited_for() {
    let (fake, address) = start().await;
    let client = connect_with(&address, &credentials(), hasty()).await.unwrap();
    fake.state().faults = vec![RedfishFault::ForgetsBoot];
    let seen = unverified(client.set_boot_once(NextBootSource::Pxe, None).await);
    assert!(seen.starts_with("PATCH /redfish/v1/Systems/1 was answered 204, and "), "{seen}");
    assert!(seen.ends_with(" s later the system says Disabled None"), "{seen}");
    fake.state().faults = vec![RedfishFault::SaysContinuous];
    let seen = unverified(client.set_boot_once(NextBootSource::Pxe, None).await);
    assert!(seen.ends_with("the system says Continuous Pxe"), "{seen}");
    fake.state().faults = vec![RedfishFault::BootLater(4)];
    let patient = connect_with(&address, &credentials(), patient()).await.unwrap();
    assert_eq!(patient.set_boot_once(NextBootSource::Hdd, None).await, Ok(BootSet::Confirmed));
}

/// sushy-tools has one kind of override only.
#[tokio::test]
async fn an_override_that_stays_is_told_and_taken_back() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    assert_eq!(client.free_boot().await, Ok(None));
    {
        let mut state = fake.state();
        state.manufacturer = "Sushy Emulator".into();
        state.boot_targets_allowed = ["Pxe", "Cd", "Hdd"].map(str::to_owned).to_vec();
        state.faults = vec![RedfishFault::SaysContinuous];
    }
    assert!(unverified(client.set_boot_once(NextBootSource::Pxe, None).await).ends_with("Continuous Pxe"));
    assert_eq!(times(&fake, "PATCH"), 1);
    assert_eq!(client.free_boot().await, Ok(Some(BootSet::Confirmed)));
    assert_eq!(fake.state().boot_target, "Hdd");
    assert_eq!(client.free_boot().await, Ok(None));
    let other = Error::Unsupported { what: "boot by HTTP: it fetches the file itself and attaches it as a CD".into() };
    fake.state().boot_targets_allowed.push("UefiHttp".into());
    assert_eq!(client.set_boot_once(NextBootSource::UefiHttp, None).await, Err(other));
}

#[tokio::test]
async fn etags_are_sent_as_the_service_takes_them() {
    for (fault, patches) in [(RedfishFault::PickyEtag, 2), (RedfishFault::WeakEtag, 2), (RedfishFault::WantsEtag, 1)] {
        let (fake, address) = start().await;
        fake.state().faults = vec![fault.clone()];
        let client = connect(&address).await.unwrap();
        assert_eq!(client.set_boot_once(NextBootSource::Pxe, None).await, Ok(BootSet::Confirmed), "{fault:?}");
        assert_eq!(times(&fake, "PATCH"), patches, "{fault:?}");
    }
}

#[tokio::test]
async fn vendors_get_what_their_rows_say() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    fake.state().faults = vec![RedfishFault::WantsMode];
    assert!(matches!(client.set_boot_once(NextBootSource::Pxe, None).await, Err(Error::Refused { status: 400, .. })));
    fake.state().manufacturer = "Supermicro".into();
    assert_eq!(client.set_boot_once(NextBootSource::Pxe, None).await, Ok(BootSet::Confirmed));
    fake.state().manufacturer = "ASRockRack".into();
    fake.state().faults = vec![RedfishFault::BootInSettings];
    assert_eq!(client.set_boot_once(NextBootSource::Hdd, None).await, Ok(BootSet::Confirmed));
    assert_eq!(times(&fake, "PATCH /redfish/v1/Systems/1/SD"), 1);
    fake.state().faults = vec![RedfishFault::RefusesNone];
    assert!(matches!(client.set_boot_once(NextBootSource::None, None).await, Err(Error::Refused { status: 400, .. })));
    fake.state().manufacturer = "HPE".into();
    assert_eq!(client.set_boot_once(NextBootSource::None, None).await, Ok(BootSet::Confirmed));
    fake.state().faults = Vec::new();
    fake.state().manufacturer = "Dell Inc.".into();
    assert_eq!(client.set_boot_once(NextBootSource::Cd, None).await, Ok(BootSet::Confirmed));
    fake.state().faults = vec![RedfishFault::ModeByJob];
    let seen = unverified(client.set_boot_once(NextBootSource::Pxe, Some(BmcBootMode::Legacy)).await);
    assert!(seen.contains("says Once Pxe, mode UEFI, and changes the mode by a job"), "{seen}");
    fake.state().manager_firmware = "3.30.30.30".into();
    let seen = unverified(client.set_boot_once(NextBootSource::Cd, None).await);
    assert!(seen.contains("may be a drive in the machine"), "{seen}");
}

#[tokio::test]
async fn the_inventory_is_read_and_what_is_left_out_is_said() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    let seen = client.inventory(Duration::from_secs(60)).await.unwrap();
    assert_eq!((seen.health.as_deref(), seen.manager_health.as_deref()), (Some("Warning"), Some("OK")));
    assert_eq!((seen.bios_version.as_deref(), seen.manager_firmware.as_deref()), (Some("2.3.4"), Some("7.10")));
    assert_eq!((seen.vendor.as_deref(), seen.asset_tag), (Some("Firesteel"), None));
    let secure_boot =
        SecureBootSeen { is_enabled: Some(false), was_enabled: Some(true), mode: Some("UserMode".into()) };
    assert_eq!(seen.secure_boot, Some(secure_boot));
    assert_eq!((seen.memory_mib, seen.processor_count), (Some(65536), Some(2)));
    assert_eq!((seen.modules.len(), seen.processors.len(), seen.firmware.len()), (2, 2, 2));
    assert_eq!((&*seen.modules[1].slot, seen.modules[1].mib, seen.processors[0].cores), ("DIMM1", 32768, Some(32)));
    assert_eq!(seen.left_out, [""; 0]);
    let nic = seen.interfaces.iter().map(|nic| (nic.name.as_str(), nic.mbps, nic.has_link)).collect::<Vec<_>>();
    assert_eq!(nic, [("eth0", Some(25000), Some(true))]);
    let drives = seen.drives.iter().map(|drive| (drive.name.as_str(), drive.serial.as_deref(), drive.wwn.as_deref()));
    let expected = [
        ("Bay 0", Some("DRIVE-0"), Some("0x5000c500a1b20000")),
        ("Bay 1", Some("DRIVE-1"), Some("0x5000c500a1b20001")),
    ];
    assert_eq!(drives.collect::<Vec<_>>(), expected);
    assert_eq!((seen.drives[0].bytes, seen.volumes[0].raid.as_deref()), (480_103_981_056, Some("RAID1")));
    assert_eq!((seen.processors[0].arch.as_deref(), seen.processors[0].kind.as_deref()), (Some("x86_64"), Some("CPU")));
    fake.state().drives = 200;
    let seen = client.inventory(Duration::from_secs(60)).await.unwrap();
    assert_eq!(seen.drives.len(), DRIVES_MAX);
    fake.state().modules = 200;
    let seen = client.inventory(Duration::ZERO).await.unwrap();
    let left_out = [
        "processors: 2 of 2 were not asked for",
        "memory modules: 200 of 200 were not asked for",
        "network interfaces: 1 of 1 were not asked for",
        "storage controllers: 1 of 1 were not asked for",
        "firmware versions: 2 of 2 were not asked for",
    ];
    assert_eq!((seen.left_out, seen.memory_mib), (left_out.map(str::to_owned).to_vec(), Some(65536)));
}

/// Each connection shows the password once, wherever it is wrong: the BMC counts as we do.
#[tokio::test]
async fn a_wrong_password_is_shown_once() {
    let wrong = BmcCredentials { password: "wrong".into(), ..credentials() };
    let no_place = RedfishFault::SessionRefused(503, "IDRAC.2.4.RAC0218".into());
    for (faults, told) in [
        (vec![], Error::Unauthorized),
        (vec![RedfishFault::NoSessions], Error::Unauthorized),
        (vec![no_place], Error::NoSessionNorBasic),
    ] {
        let (fake, address) = start().await;
        fake.state().faults = faults.clone();
        let error = connect_with(&address, &wrong, PATIENCE).await.unwrap_err();
        assert_eq!(error, told, "{faults:?}");
        assert_eq!(fake.state().logins_refused, 1, "{faults:?}");
    }
    // Statuses with which services refuse a login: Basic would be a second try.
    for (status, id) in [(400, "iLO.2.14.UnauthorizedLoginAttempt"), (403, "Base.1.0.AccessDenied"), (400, "")] {
        let (fake, address) = start().await;
        fake.state().faults = vec![RedfishFault::SessionRefused(status, id.into())];
        assert!(connect(&address).await.unwrap_err().may_count_as_login(), "{status} {id}");
        assert_eq!(fake.state().requests.len(), 2, "{:?}", fake.state().requests);
    }
}

#[tokio::test]
async fn a_locked_account_is_locked_for_the_right_password_too() {
    let (fake, address) = start().await;
    fake.state().locks_after = Some(5);
    let wrong = BmcCredentials { password: "wrong".into(), ..credentials() };
    for _ in 0..4 {
        connect_with(&address, &wrong, PATIENCE).await.unwrap_err();
    }
    assert!(!fake.state().is_locked());
    connect(&address).await.unwrap().close().await;
    assert_eq!(fake.state().logins_refused, 0, "it counts from nought again");
    for _ in 0..5 {
        connect_with(&address, &wrong, PATIENCE).await.unwrap_err();
    }
    assert!(fake.state().is_locked());
    assert_eq!(connect(&address).await.unwrap_err(), Error::Unauthorized);
}

#[tokio::test]
async fn a_session_serves_all_requests_is_renewed_when_it_ends_and_closed() {
    let (fake, address) = start().await;
    fake.state().faults = vec![RedfishFault::SessionsOnly];
    let client = connect(&address).await.unwrap();
    assert_eq!(fake.state().sessions, ["session-1"]);
    client.power().await.unwrap();
    assert_eq!(fake.state().sessions.len(), 1, "one session serves all requests");
    fake.state().sessions.clear();
    assert_eq!(client.set_power(PowerAction::On).await, Ok(PowerSent::Sent));
    assert_eq!(fake.state().sessions, ["session-2"]);
    client.close().await;
    assert_eq!(fake.state().sessions, [""; 0]);
}

#[tokio::test]
async fn basic_is_taken_where_there_are_no_sessions_or_no_place_for_one() {
    for fault in [
        RedfishFault::NoSessions,
        RedfishFault::SessionRefused(503, "Base.1.8.SessionLimitExceeded".into()),
        RedfishFault::SessionRefused(404, String::new()),
        RedfishFault::SessionRefused(500, String::new()),
    ] {
        let (fake, address) = start().await;
        fake.state().faults = vec![fault.clone()];
        let client = connect(&address).await.unwrap();
        assert_eq!(client.power().await, Ok(PowerState::Off), "{fault:?}");
        client.close().await;
        assert_eq!(times(&fake, "DELETE"), 0, "{fault:?}");
    }
}

/// A BMC has few places, and keeps a forgotten session for half an hour.
#[tokio::test]
async fn no_session_is_left_behind() {
    let (fake, address) = start().await;
    fake.state().sessions_max = 2;
    // The system is not there.
    let wrong = BmcUrl::parse(&format!("{address}/redfish/v1/Systems/7")).unwrap();
    connect(&wrong).await.unwrap_err();
    assert_eq!(fake.state().sessions, [""; 0]);
    // A call that is given up half-way.
    let client = connect(&address).await.unwrap();
    fake.state().faults = vec![RedfishFault::Silent];
    let call = tokio::spawn(async move { client.power().await });
    until("the request was made", || times(&fake, "GET /redfish/v1/Systems/1") == 2).await;
    call.abort();
    fake.state().faults = Vec::new();
    until("the session is closed", || fake.state().sessions.is_empty()).await;
    for _ in 0..5 {
        connect(&address).await.unwrap().close().await;
    }
    assert_eq!(times(&fake, "DELETE"), 7);
}

#[tokio::test]
async fn a_service_with_several_systems_wants_one_named() {
    let (fake, address) = start().await;
    fake.state().systems = vec!["1".into(), "2".into()];
    let error = connect(&address).await.unwrap_err();
    assert_eq!(error, Error::SeveralSystems { count: 2, example: "/redfish/v1/Systems/1".into() });
    let named = BmcUrl::parse(&format!("{address}/redfish/v1/Systems/1")).unwrap();
    assert!(connect(&named).await.is_ok());
    let wrong = BmcUrl::parse(&format!("{address}/redfish/v1/Systems/7")).unwrap();
    assert_eq!(connect(&wrong).await.unwrap_err(), Error::NotFound { path: "/redfish/v1/Systems/7".into() });
}

/// CVE-2026-42997: a login that follows a redirect belongs to whoever wrote the redirect.
#[tokio::test]
async fn the_login_goes_to_no_other_server() {
    let (thief, _) = start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = format!("http://{}/redfish/v1/Systems/1", listener.local_addr().unwrap());
    tokio::spawn(thief.clone().serve(listener));

    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    fake.state().faults = vec![RedfishFault::Redirect(elsewhere.clone())];
    for result in [
        client.power().await.map(|_| ()),
        client.identify().await.map(|_| ()),
        client.set_boot_once(NextBootSource::Pxe, None).await.map(|_| ()),
        connect(&address).await.map(|_| ()),
    ] {
        assert!(matches!(&result, Err(Error::Redirected { to, .. }) if *to == elsewhere), "{result:?}");
    }
    fake.state().faults = vec![RedfishFault::ForeignReset(elsewhere)];
    let error = client.set_power(PowerAction::On).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert_eq!(thief.state().requests, [""; 0]);
}

#[tokio::test]
async fn bad_answers_are_bounded_and_named() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    for (fault, why) in [
        (RedfishFault::Garbage, "GET /redfish/v1/Systems/1"),
        (RedfishFault::Deep, "recursion limit"),
        (RedfishFault::Endless, "longer than 1048576 bytes"),
        (RedfishFault::EndsEarly, "GET /redfish/v1/Systems/1"),
    ] {
        fake.state().faults = vec![fault.clone()];
        let error = client.power().await.unwrap_err();
        assert!(matches!(error, Error::BadAnswer { .. }), "{fault:?}: {error:?}");
        assert!(error.to_string().contains(why), "{fault:?}: {error}");
        assert!(error.is_temporary());
    }
    for (status, temporary) in [(503, true), (500, true), (403, false), (404, false), (400, false)] {
        fake.state().faults = vec![RedfishFault::Status(status)];
        let error = client.power().await.unwrap_err();
        assert_eq!(error.is_temporary(), temporary, "{status}: {error}");
    }
    fake.state().faults = vec![RedfishFault::Redirect("/redfish/v1/Systems/1".into())];
    assert!(matches!(client.power().await.unwrap_err(), Error::BadAnswer { .. }), "a circle ends");
}

/// What never comes and what never ends both end, and say which request it was and how long it was given.
#[tokio::test]
async fn a_bmc_that_is_silent_or_never_ends_is_named() {
    let (fake, address) = start().await;
    let patience = BmcTimeouts { request: Duration::from_millis(700), ..PATIENCE };
    for fault in [RedfishFault::Silent, RedfishFault::Trickles] {
        fake.state().faults = Vec::new();
        let client = connect_with(&address, &credentials(), PATIENCE).await.unwrap();
        client.close().await;
        fake.state().faults = vec![fault.clone()];
        let error = connect_with(&address, &credentials(), patience).await.unwrap_err();
        assert_eq!(error, Error::Timeout { what: "GET /redfish/v1/ within 0.7 s".into() }, "{fault:?}");
        assert!(error.is_temporary());
    }
}

/// What a server sends before its answer has no end in HTTP, and kept a core busy for a minute.
#[tokio::test]
async fn informational_answers_without_end_are_cut_off() {
    /// More than the buffers of two sockets hold.
    const SENT_MAX: usize = 64 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = BmcUrl::parse(&format!("redfish+http://{}", listener.local_addr().unwrap())).unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        let mut sent = 0;
        let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
        while sent < SENT_MAX && stream.write_all(many.as_bytes()).await.is_ok() {
            sent += many.len();
        }
        sent
    });
    let error = connect(&address).await.unwrap_err();
    assert!(matches!(&error, Error::BadAnswer { detail, .. } if detail.contains("sends more than")), "{error:?}");
    assert!(server.await.unwrap() < SENT_MAX, "the connection was ended");
}

/// An address of the appliance itself is no BMC's, however it is written.
#[tokio::test]
async fn an_address_that_is_not_dialled_is_told_with_its_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let strict = Dialer::new(Targets::default());
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "localhost"] {
        let address = BmcUrl::parse(&format!("redfish+http://{host}:{port}")).unwrap();
        let error = Redfish::connect(&strict, &address, &credentials(), &Tls::default()).await.unwrap_err();
        assert!(matches!(error, Error::TargetRefused { .. }), "{host}: {error:?}");
        assert!(error.to_string().contains("--allow-target"), "{host}: {error}");
    }
    let nobody_came = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await.is_err();
    assert!(nobody_came, "no connection was made");
}

/// Until a service is known to be one of Redfish, it may be anything that the appliance reaches: nothing of what it
/// says is told, and the login is not shown to it.
#[tokio::test]
async fn what_is_no_service_is_not_quoted_and_gets_no_login() {
    for (status, body) in [
        ("200 OK", r#"{"token": "a planted secret"}"#),
        ("200 OK", r#""a planted secret""#),
        ("500 Internal Server Error", r#"{"error": {"message": "a planted secret"}}"#),
        ("403 Forbidden", r#"{"error": {"message": "a planted secret"}}"#),
        ("200 OK", "<html><title>a planted secret</title></html>"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = BmcUrl::parse(&format!("redfish+http://{}", listener.local_addr().unwrap())).unwrap();
        let server = tokio::spawn(async move {
            let mut requests = String::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                requests.push_str(&String::from_utf8_lossy(&request[..length]));
                let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all((head + body).as_bytes()).await.unwrap();
                if requests.contains("POST") {
                    break;
                }
            }
            requests
        });
        let error = connect(&address).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("planted"), "{status} {body}: {error}");
        assert!(!server.is_finished(), "{status} {body}: a login was shown");
        server.abort();
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = BmcUrl::parse(&format!("redfish+http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let error = connect(&address).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(!error.to_string().contains("correct horse"));
}

/// BMCs hang on two requests at once, also when these are for two hosts.
#[tokio::test]
async fn all_logins_at_one_bmc_share_its_line() {
    let (_fake, address) = start().await;
    let lines = BmcQueues::default();
    let begin = std::time::Instant::now();
    let calls: Vec<_> = (0..4)
        .map(|_| (lines.to(&address.place()), address.clone()))
        .map(|(line, address)| {
            tokio::spawn(async move {
                let client =
                    Redfish::connect_on(line, &dialer(), &address, &credentials(), &Tls::default(), PATIENCE).await;
                let client = client.unwrap();
                let power = client.power().await;
                client.close().await;
                power
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(PowerState::Off));
    }
    // Each looks for the service, logs in, finds the systems and the system, reads it and logs out.
    assert!(begin.elapsed() >= (4 * 6 - 1) * firesteel_bmc::bmc_queue::GAP, "the gaps were kept");
}

/// A fake behind TLS, and its self-signed certificate.
async fn start_tls() -> (BmcUrl, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let certificate = made.cert.der().clone();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = BmcUrl::parse(&format!("redfish://{}", listener.local_addr().unwrap())).unwrap();
    let fake = Fake::new(credentials(), MAC);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (fake, acceptor) = (fake.clone(), acceptor.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    fake.converse(stream).await;
                }
            });
        }
    });
    (address, certificate)
}

#[tokio::test]
async fn certificates_are_checked_unless_told_otherwise() {
    let (address, certificate) = start_tls().await;
    let with = |tls: Tls| {
        let address = address.clone();
        async move { Redfish::connect(&dialer(), &address, &credentials(), &tls).await }
    };
    let error = with(Tls::default()).await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
    with(Tls { authorities: vec![certificate], is_verification_disabled: false }).await.unwrap();
    with(Tls { authorities: Vec::new(), is_verification_disabled: true }).await.unwrap();
}
