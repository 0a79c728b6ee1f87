//! The Redfish client against the fake service, over real sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use firesteel_bmc::fake::{Fake, Fault};
use firesteel_bmc::{
    Address, BootMode, BootSet, Client, Credentials, Error, PowerAction, PowerSent, PowerState, Redfish, Target, Tls,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;

const MAC: [u8; 6] = [0x52, 0x54, 0, 1, 2, 3];

fn credentials() -> Credentials {
    Credentials { username: "admin".into(), password: "correct horse".into() }
}

/// A fake that listens; the address names no system.
async fn start() -> (Fake, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::parse(&format!("redfish+http://{}", listener.local_addr().unwrap())).unwrap();
    let fake = Fake::new(credentials(), MAC);
    tokio::spawn(fake.clone().serve(listener));
    (fake, address)
}

async fn connect(address: &Address) -> Result<Client, Error> {
    Redfish::connect(address, &credentials(), &Tls::default()).await
}

#[tokio::test]
async fn identity_is_read() {
    let (_fake, address) = start().await;
    let seen = connect(&address).await.unwrap().identify().await.unwrap();
    assert_eq!(seen.system, "/redfish/v1/Systems/1");
    assert_eq!(seen.power, PowerState::Off);
    assert_eq!(seen.serial.as_deref(), Some("FAKE-1"));
    assert_eq!(seen.macs, [MAC]);
    assert_eq!(seen.boot_mode, Some(BootMode::Uefi));
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
async fn a_bmc_that_ignores_power_on_is_seen_to_be_off() {
    let (fake, address) = start().await;
    fake.state().faults = vec![Fault::IgnoresPower];
    let client = connect(&address).await.unwrap();
    assert_eq!(client.set_power(PowerAction::On).await, Ok(PowerSent::Sent));
    assert_eq!(client.power().await, Ok(PowerState::Off));
}

#[tokio::test]
async fn boot_once_is_set_read_back_and_used_up_by_a_boot() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    assert_eq!(client.set_boot_once(Target::Pxe, Some(BootMode::Legacy)).await, Ok(BootSet::Confirmed));
    let mode = fake.state().boot_mode.clone();
    assert_eq!(mode, "Legacy");
    client.set_power(PowerAction::On).await.unwrap();
    assert_eq!(client.identify().await.unwrap().boot_enabled.as_deref(), Some("Disabled"));
    client.set_boot_once(Target::UefiHttp, Some(BootMode::Uefi)).await.unwrap();
    assert_eq!(client.set_boot_once(Target::None, None).await, Ok(BootSet::Confirmed));
    assert_eq!(fake.state().boot_enabled, "Disabled");
}

/// Law 1: an override that was accepted is not an override that is set.
#[tokio::test]
async fn a_forgotten_override_is_told() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    fake.state().faults = vec![Fault::ForgetsBoot];
    let set = client.set_boot_once(Target::Pxe, None).await;
    assert_eq!(set, Ok(BootSet::Unverified { seen: "Disabled None".into() }));
    fake.state().faults = vec![Fault::SaysContinuous];
    assert_eq!(client.set_boot_once(Target::Pxe, None).await, Ok(BootSet::Confirmed));
}

#[tokio::test]
async fn an_etag_that_is_not_for_changes_is_left_out() {
    let (fake, address) = start().await;
    fake.state().faults = vec![Fault::PickyEtag];
    let client = connect(&address).await.unwrap();
    assert_eq!(client.set_boot_once(Target::Pxe, None).await, Ok(BootSet::Confirmed));
    assert_eq!(fake.state().requests.iter().filter(|request| request.starts_with("PATCH")).count(), 2);
}

#[tokio::test]
async fn wrong_passwords_are_tried_twice_at_most() {
    let (fake, address) = start().await;
    let wrong = Credentials { password: "wrong".into(), ..credentials() };
    let error = Redfish::connect(&address, &wrong, &Tls::default()).await.unwrap_err();
    assert_eq!(error, Error::Unauthorized);
    let with_login: Vec<String> =
        fake.state().requests.iter().filter(|request| *request != "GET /redfish/v1/").cloned().collect();
    assert_eq!(with_login, ["GET /redfish/v1/Systems", "POST /redfish/v1/SessionService/Sessions"]);
}

#[tokio::test]
async fn sessions_are_opened_where_basic_is_off_renewed_when_they_end_and_closed() {
    let (fake, address) = start().await;
    fake.state().faults = vec![Fault::SessionsOnly];
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
async fn a_service_with_several_systems_wants_one_named() {
    let (fake, address) = start().await;
    fake.state().systems = vec!["1".into(), "2".into()];
    let error = connect(&address).await.unwrap_err();
    assert_eq!(error, Error::SeveralSystems { count: 2, example: "/redfish/v1/Systems/1".into() });
    let named = Address::parse(&format!("{address}/redfish/v1/Systems/1")).unwrap();
    assert!(connect(&named).await.is_ok());
    let wrong = Address::parse(&format!("{address}/redfish/v1/Systems/7")).unwrap();
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
    fake.state().faults = vec![Fault::Redirect(elsewhere.clone())];
    for result in [
        client.power().await.map(|_| ()),
        client.identify().await.map(|_| ()),
        client.set_boot_once(Target::Pxe, None).await.map(|_| ()),
        connect(&address).await.map(|_| ()),
    ] {
        assert!(matches!(&result, Err(Error::Redirected { to, .. }) if *to == elsewhere), "{result:?}");
    }
    fake.state().faults = vec![Fault::ForeignReset(elsewhere)];
    let error = client.set_power(PowerAction::On).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert_eq!(thief.state().requests, [""; 0]);
}

#[tokio::test]
async fn bad_answers_are_bounded_and_named() {
    let (fake, address) = start().await;
    let client = connect(&address).await.unwrap();
    for (fault, why) in [(Fault::Garbage, "GET /redfish/v1/Systems/1"), (Fault::Endless, "longer than 1048576 bytes")] {
        fake.state().faults = vec![fault.clone()];
        let error = client.power().await.unwrap_err();
        assert!(matches!(error, Error::BadAnswer { .. }), "{fault:?}: {error:?}");
        assert!(error.to_string().contains(why), "{fault:?}: {error}");
        assert!(error.is_temporary());
    }
    for (status, temporary) in [(503, true), (500, true), (403, false), (404, false), (400, false)] {
        fake.state().faults = vec![Fault::Status(status)];
        let error = client.power().await.unwrap_err();
        assert_eq!(error.is_temporary(), temporary, "{status}: {error}");
    }
    fake.state().faults = vec![Fault::Redirect("/redfish/v1/Systems/1".into())];
    assert!(matches!(client.power().await.unwrap_err(), Error::BadAnswer { .. }), "a circle ends");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::parse(&format!("redfish+http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let error = connect(&address).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(!error.to_string().contains("correct horse"));
}

/// BMCs hang on two requests at once.
#[tokio::test]
async fn many_callers_make_one_request_at_a_time() {
    let (_fake, address) = start().await;
    let client = Arc::new(connect(&address).await.unwrap());
    let begin = std::time::Instant::now();
    let calls: Vec<_> =
        (0..5).map(|_| Arc::clone(&client)).map(|client| tokio::spawn(async move { client.power().await })).collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(PowerState::Off));
    }
    assert!(begin.elapsed() >= std::time::Duration::from_millis(4 * 50), "the gaps were kept");
}

/// A fake behind TLS, and its self-signed certificate.
async fn start_tls() -> (Address, CertificateDer<'static>) {
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
    let address = Address::parse(&format!("redfish://{}", listener.local_addr().unwrap())).unwrap();
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
        async move { Redfish::connect(&address, &credentials(), &tls).await }
    };
    let error = with(Tls::default()).await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
    with(Tls { authorities: vec![certificate], is_verification_disabled: false }).await.unwrap();
    with(Tls { authorities: Vec::new(), is_verification_disabled: true }).await.unwrap();
}
