//! The IPMI client against the fake BMC, over real sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use firesteel_bmc::ipmi::command::{BootDevice, BootFlags};
use firesteel_bmc::ipmi::{ConsoleData, ConsoleSet, Ipmi, IpmiAddress, IpmiClient};
use firesteel_bmc::{
    BmcBootMode, BmcCredentials, BootSet, Error, NextBootSource, OverrideReading, PowerAction, PowerSent, PowerState,
};
use firesteel_bmc_fakes::ipmi::{FakeIpmi, IpmiFault};
use firesteel_dial::{Dialer, Targets};
use tokio::net::UdpSocket;

fn credentials() -> BmcCredentials {
    BmcCredentials { username: "admin".into(), password: "correct horse".into() }
}

/// Dials what is here, as a lab lets it.
fn dialer() -> Dialer {
    Dialer::new(Targets::allowing(["127.0.0.0/8".parse().unwrap()]))
}

async fn start() -> (FakeIpmi, IpmiAddress) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = IpmiAddress::parse(&format!("ipmi://{}", socket.local_addr().unwrap())).unwrap();
    let fake = FakeIpmi::new(credentials(), 7);
    tokio::spawn(fake.clone().serve(socket));
    (fake, address)
}

async fn connect(address: &IpmiAddress) -> Result<IpmiClient, Error> {
    Ipmi::connect(&dialer(), address, &credentials()).await
}

#[tokio::test]
async fn identity_is_read_in_pieces_and_sessions_are_closed() {
    let (fake, address) = start().await;
    for most in [32, 16] {
        fake.state().fru_bytes_max = most;
        let client = connect(&address).await.unwrap();
        let seen = client.identify().await.unwrap();
        assert_eq!(seen.power, PowerState::Off);
        assert_eq!(seen.manufacturer.as_deref(), Some("Firesteel"));
        assert_eq!(seen.model.as_deref(), Some("Fake BMC"));
        assert_eq!(seen.serial.as_deref(), Some("FAKE-1"));
        assert!(seen.uuid.is_some_and(|uuid| uuid.contains("-4ff0-80f0-")));
        assert_eq!(seen.boot_enabled.as_deref(), Some("Disabled"));
        assert_eq!((seen.boot_mode, seen.macs.len()), (None, 0), "what IPMI does not tell is not told");
        assert_eq!(fake.state().sessions(), 1);
        client.close().await;
        assert_eq!(fake.state().places(), 0);
    }
}

#[tokio::test]
async fn a_bmc_without_inventory_and_guid_is_one_all_the_same() {
    let (fake, address) = start().await;
    fake.state().faults = vec![IpmiFault::Completes(0x0a, 0x10, 0xc1), IpmiFault::Completes(0x06, 0x37, 0xc1)];
    let seen = connect(&address).await.unwrap().identify().await.unwrap();
    assert_eq!((seen.power, seen.serial, seen.uuid), (PowerState::Off, None, None));
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
    assert_eq!(fake.state().controls, [1, 3, 5, 1]);
    fake.state().faults = vec![IpmiFault::Completes(0, 2, 0xd5)];
    let error = client.set_power(PowerAction::ForceOff).await.unwrap_err();
    assert!(error.to_string().contains("not possible in its present state"), "{error}");
}

#[tokio::test]
async fn a_bmc_that_ignores_power_on_is_seen_to_be_off() {
    let (fake, address) = start().await;
    fake.state().faults = vec![IpmiFault::IgnoresPower];
    let client = connect(&address).await.unwrap();
    assert_eq!(client.set_power(PowerAction::On).await, Ok(PowerSent::Sent));
    assert_eq!(client.power().await, Ok(PowerState::Off));
}

#[tokio::test]
async fn boot_flags_are_set_read_back_and_used_up_by_a_boot() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    assert_eq!(client.set_boot_once(NextBootSource::Pxe, BmcBootMode::Uefi).await, Ok(BootSet::Confirmed));
    assert_eq!(fake.state().boot_flags, [0xa0, 0x04, 0, 0, 0]);
    let seen = client.identify().await.unwrap();
    assert_eq!((seen.boot_target.as_deref(), seen.boot_enabled.as_deref()), (Some("Pxe"), Some("Once")));
    assert_eq!(client.read_once().await, Ok(OverrideReading::Left { seen: "Pxe once, UEFI".into() }));
    client.set_power(PowerAction::On).await.unwrap();
    assert_eq!(client.identify().await.unwrap().boot_enabled.as_deref(), Some("Disabled"));
    assert_eq!(client.read_once().await, Ok(OverrideReading::UsedUp));
    fake.state().faults = vec![IpmiFault::ClearsFlags];
    fake.state().flags_life = 0;
    client.set_boot_once(NextBootSource::Pxe, BmcBootMode::Uefi).await.unwrap();
    client.set_power(PowerAction::ForceRestart).await.unwrap();
    let unconfirmed = client.read_once().await;
    assert!(
        matches!(&unconfirmed, Ok(OverrideReading::Unconfirmed { why }) if why.contains("after a minute")),
        "{unconfirmed:?}"
    );
    fake.state().faults = vec![IpmiFault::Completes(0, 9, 0xc1)];
    assert!(matches!(client.read_once().await, Ok(OverrideReading::Unconfirmed { .. })));
    fake.state().faults.clear();
    let always = BootFlags::new(BootDevice::Cd, true, BmcBootMode::Legacy);
    assert_eq!(client.set_boot(always).await, Ok(BootSet::Confirmed));
    assert_eq!(client.identify().await.unwrap().boot_enabled.as_deref(), Some("Continuous"));
    assert_eq!(client.set_boot_once(NextBootSource::None, BmcBootMode::Uefi).await, Ok(BootSet::Confirmed));
    let error = client.set_boot_once(NextBootSource::UefiHttp, BmcBootMode::Uefi).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

/// Law 1: an override that was accepted is not an override that is set.
#[tokio::test]
async fn forgotten_and_doubtful_flags_are_told() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    for (fault, seen) in [
        (IpmiFault::ForgetsBoot, "None once, Legacy, not marked valid"),
        (IpmiFault::NeverValid, "Pxe once, UEFI, not marked valid"),
        (IpmiFault::Completes(0, 9, 0xc1), "nothing: its boot flags cannot be read"),
    ] {
        fake.state().faults = vec![fault];
        let set = client.set_boot_once(NextBootSource::Pxe, BmcBootMode::Uefi).await;
        assert_eq!(set, Ok(BootSet::Unverified { seen: seen.into() }));
    }
    // Set System Boot Options is a command that it does not know.
    fake.state().faults = vec![IpmiFault::Completes(0, 8, 0xc1)];
    let set = client.set_boot_once(NextBootSource::Pxe, BmcBootMode::Uefi).await;
    assert!(matches!(&set, Ok(BootSet::NotOffered { why }) if why.starts_with("it cannot do ")), "{set:?}");
}

#[tokio::test]
async fn logins_fail_with_their_reason() {
    let (fake, address) = start().await;
    let with = |username: &str, password: &str| BmcCredentials { username: username.into(), password: password.into() };
    for (login, error) in
        [(with("root", "correct horse"), Error::UnknownUser), (with("admin", "wrong"), Error::WrongPassword)]
    {
        assert_eq!(Ipmi::connect(&dialer(), &address, &login).await.unwrap_err(), error);
        assert_eq!(fake.state().sessions(), 0);
    }
    fake.state().faults = vec![IpmiFault::OperatorOnly];
    let error = connect(&address).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    assert_eq!(fake.state().places(), 0, "what was opened was closed");
    let operator = IpmiAddress::parse(&format!("{address}?privilegelevel=OPERATOR")).unwrap();
    assert!(connect(&operator).await.is_ok());
}

#[tokio::test]
async fn a_bad_way_slows_and_changes_nothing() {
    let (fake, address) = start().await;
    fake.state().faults = vec![IpmiFault::Malformed, IpmiFault::Repeats, IpmiFault::Loses(17)];
    let client = connect(&address).await.unwrap();
    client.set_power(PowerAction::On).await.unwrap();
    client.set_power(PowerAction::ForceRestart).await.unwrap();
    assert_eq!(client.power().await, Ok(PowerState::On));
    assert_eq!(fake.state().controls, [1, 3]);
}

async fn said(client: &IpmiClient, bytes: usize) -> String {
    let mut all = Vec::new();
    while all.len() < bytes {
        let spoken = client.receive_console_data(Duration::from_secs(60)).await.unwrap();
        assert!(!spoken.characters.is_empty() && !spoken.is_lossy, "after {}", String::from_utf8_lossy(&all));
        all.extend(spoken.characters);
    }
    String::from_utf8(all).unwrap()
}

/// Over a socket the console speaks unasked, beside the other sessions and over a line that loses some.
#[tokio::test]
async fn a_serial_port_is_heard_beside_the_work_of_others() {
    let (fake, address) = start().await;
    let lines: Vec<Vec<u8>> = (0..60).map(|number| format!("line {number}\r\n").into_bytes()).collect();
    let text = String::from_utf8(lines.concat()).unwrap();
    fake.state().serial = Some(lines.into());
    let console = connect(&address).await.unwrap();
    assert_eq!(console.open_console().await, Ok(ConsoleSet::Listening));
    let other = connect(&address).await.unwrap();
    assert_eq!(other.open_console().await, Ok(ConsoleSet::Taken));
    assert_eq!(other.power().await, Ok(PowerState::Off));
    fake.state().faults = vec![IpmiFault::Loses(7)];
    assert_eq!(said(&console, text.len()).await, text);
    fake.state().faults = Vec::new();
    other.close().await;
    assert!(fake.state().is_listened_to(), "the end of another session is not its end");
    assert_eq!(
        console.receive_console_data(Duration::from_millis(1)).await,
        Some(ConsoleData::default()),
        "nothing is said"
    );
    fake.state().end_console();
    assert_eq!(console.receive_console_data(Duration::from_secs(60)).await, None, "the BMC has ended it");
    console.close().await;
    assert_eq!(fake.state().places(), 0);
}

#[tokio::test]
async fn a_console_is_given_back_before_its_session() {
    let (fake, address) = start().await;
    fake.state().serial = Some(Default::default());
    let console = connect(&address).await.unwrap();
    assert_eq!(console.open_console().await, Ok(ConsoleSet::Listening));
    console.close().await;
    let requests = fake.state().requests.clone();
    assert_eq!(requests[requests.len() - 2..], [(0x06, 0x49), (0x06, 0x3c)], "deactivated, then closed");
    assert!(!fake.state().is_listened_to() && fake.state().places() == 0);
}

#[tokio::test]
async fn a_bmc_without_a_console_says_so() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    let refused = client.open_console().await.unwrap();
    assert_eq!(refused, ConsoleSet::NotOffered { why: "the BMC has none, completion code 0xc1".into() });
    fake.state().serial = Some(Default::default());
    fake.state().faults = vec![IpmiFault::Completes(0x06, 0x48, 0x81)];
    let refused = client.open_console().await.unwrap();
    assert_eq!(refused, ConsoleSet::NotOffered { why: "it is switched off in the BMC, completion code 0x81".into() });
    fake.state().faults = vec![IpmiFault::Completes(0x06, 0x48, 0xd5)];
    let error = client.open_console().await.unwrap_err();
    assert!(error.to_string().contains("not possible in its present state"), "{error}");
}
