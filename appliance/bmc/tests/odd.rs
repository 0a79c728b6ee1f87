//! The Redfish client against services that are odd: each oddity is data (see `firesteel_bmc_fakes::redfish::FakeQuirks`).

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use firesteel_bmc::bmc_queue::BmcQueue;
use firesteel_bmc::{
    BmcCredentials, BmcTimeouts, BmcUrl, BootSet, Error, NextBootSource, OverrideReading, PowerAction, PowerSet,
    PowerState, Redfish, RedfishClient, Tls,
};
use firesteel_bmc_fakes::redfish::Fake;
use firesteel_dial::{Dialer, Targets};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const PATIENCE: BmcTimeouts = BmcTimeouts {
    request: Duration::from_secs(30),
    read_back: Duration::from_millis(300),
    pause: Duration::from_millis(10),
};
const SYSTEM: &str = "/redfish/v1/Systems/1";

fn credentials() -> BmcCredentials {
    BmcCredentials { username: "admin".into(), password: "correct horse".into() }
}

/// Dials what is here, as a lab lets it.
fn dialer() -> Dialer {
    Dialer::new(Targets::allowing(["127.0.0.0/8".parse().unwrap()]))
}

/// A service with these quirks, and its origin.
async fn start(quirks: Value) -> (Fake, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("redfish+http://{}", listener.local_addr().unwrap());
    let fake = Fake::new(credentials(), [0x52, 0x54, 0, 1, 2, 3]);
    fake.state().set_quirks(serde_json::from_value(quirks).unwrap());
    tokio::spawn(fake.clone().serve(listener));
    (fake, origin)
}

async fn connect(address: &str) -> Result<RedfishClient, Error> {
    connect_on(Arc::default(), address).await
}

async fn connect_on(line: Arc<BmcQueue>, address: &str) -> Result<RedfishClient, Error> {
    let address = BmcUrl::parse(address).unwrap();
    Redfish::connect_on(line, &dialer(), &address, &credentials(), &Tls::default(), PATIENCE).await
}

#[tokio::test]
async fn a_session_is_deleted_wherever_its_place_is_said() {
    for location in ["header", "none", "id", "nowhere"] {
        let (fake, origin) = start(json!({"location": location, "session_limit": 1})).await;
        for _ in 0..3 {
            let client = connect(&origin).await.unwrap();
            assert_eq!(client.power().await, Ok(PowerState::Off), "{location}");
            assert!(!client.is_in_place_of_session().await, "{location}");
            client.close().await;
            assert_eq!(fake.state().sessions, [""; 0], "{location}");
        }
    }
    // A session whose place is not said, beside those of others: none is ended that may be another's.
    let (fake, origin) = start(json!({"location": "nowhere", "session_taken": 1})).await;
    connect(&origin).await.unwrap().close().await;
    assert_eq!(fake.state().sessions, ["another-0", "session-1"]);
}

#[tokio::test]
async fn without_a_place_for_a_session_it_is_basic_or_an_error_that_says_so() {
    let (_fake, origin) = start(json!({"session_limit": 4, "session_taken": 4})).await;
    let client = connect(&origin).await.unwrap();
    assert_eq!(client.power().await, Ok(PowerState::Off));
    assert!(client.is_in_place_of_session().await);
    let (fake, origin) = start(json!({"session_limit": 4, "session_taken": 4, "no_basic": true})).await;
    let line = Arc::<BmcQueue>::default();
    for _ in 0..5 {
        let error = connect_on(Arc::clone(&line), &origin).await.unwrap_err();
        assert_eq!(error, Error::NoSessionNorBasic);
        assert!(error.is_temporary() && !error.may_count_as_login());
    }
    let shown = fake.state().requests.iter().filter(|made| made.contains("/Systems")).count();
    assert_eq!(shown, 1, "no account is locked by showing the password again and again");
    fake.state().sessions.clear();
    connect_on(line, &origin).await.unwrap().close().await;
}

/// Part of a connection: the session ends, its place is taken by another, and Basic is not taken.
#[tokio::test]
async fn a_session_that_is_lost_under_way_counts_as_no_refused_login() {
    let (fake, origin) = start(json!({"session_limit": 1, "no_basic": true})).await;
    let client = connect(&origin).await.unwrap();
    fake.state().sessions = vec!["another".into()];
    assert_eq!(client.power().await, Err(Error::NoSessionNorBasic));
}

#[tokio::test]
async fn redirects_on_the_same_origin_are_followed_with_login_and_body() {
    for code in [301, 302, 307, 308] {
        let methods = ["GET", "POST", "PATCH", "DELETE"];
        let (fake, origin) = start(json!({"redirect": {"code": code, "methods": methods}})).await;
        let client = connect(&format!("{origin}{SYSTEM}")).await.unwrap();
        assert_eq!(client.set_boot_once(NextBootSource::Pxe, None).await, Ok(BootSet::Confirmed), "{code}");
        assert_eq!(client.change_power(PowerAction::On).await, Ok(PowerSet::Confirmed), "{code}");
        client.close().await;
        assert_eq!(fake.state().sessions, [""; 0], "{code}: the session is deleted by a redirect as well");
        assert_eq!(fake.state().resets, ["On"], "{code}");
    }
}

#[tokio::test]
async fn what_is_encoded_unasked_is_read_or_named() {
    for quirks in [json!({"gzip": true}), json!({"encoding": "deflate"})] {
        let (_fake, origin) = start(quirks.clone()).await;
        let client = connect(&origin).await.unwrap();
        assert_eq!(client.identify().await.unwrap().manufacturer.as_deref(), Some("Firesteel"), "{quirks}");
        assert_eq!(client.change_power(PowerAction::On).await, Ok(PowerSet::Confirmed), "{quirks}");
    }
    let (_fake, origin) = start(json!({"encoding": "br"})).await;
    let error = connect(&origin).await.unwrap_err().to_string();
    assert!(error.contains("it is encoded as br, which was not asked for"), "{error}");
}

#[tokio::test]
async fn a_page_for_people_is_named_and_not_quoted() {
    let page = "<!DOCTYPE html><html><head><title>Please log in</title></head></html>";
    let (_fake, origin) = start(json!({"bodies": {SYSTEM: page}})).await;
    let error = connect(&format!("{origin}{SYSTEM}")).await.unwrap_err().to_string();
    assert!(error.contains("it is HTML, not JSON (content type text/html)") && !error.contains("log in"), "{error}");
}

#[tokio::test]
async fn a_bmc_without_boot_overrides_still_switches_power() {
    let none = json!({SYSTEM: {"Boot": {
        "BootSourceOverrideEnabled": null, "BootSourceOverrideTarget": null, "BootSourceOverrideMode": null,
        "BootSourceOverrideTarget@Redfish.AllowableValues": null, "AutomaticRetryConfig": "Disabled",
    }}});
    let refusal = json!({"status": 400, "id": "Base.1.13.0.PropertyUnknown", "message": "There is no such property."});
    let only_disk = json!({SYSTEM: {"Boot": {"BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Hdd"]}}});
    for (quirks, words) in [
        (json!({"merge": none, "refuse_patch": refusal}), "status 400: There is no such property."),
        (json!({"merge": none}), "later the system shows none"),
        (json!({"merge": only_disk}), "it offers only None, Hdd"),
    ] {
        let (_fake, origin) = start(quirks).await;
        let client = connect(&origin).await.unwrap();
        let Ok(BootSet::NotOffered { why }) = client.set_boot_once(NextBootSource::Pxe, None).await else {
            panic!("{words}")
        };
        assert!(why.contains(words), "{why}");
        assert_eq!(client.change_power(PowerAction::On).await, Ok(PowerSet::Confirmed));
    }
    // One that shows overrides and refuses them has something against this one.
    let (_fake, origin) = start(json!({"refuse_patch": refusal})).await;
    let refused = connect(&origin).await.unwrap().set_boot_once(NextBootSource::Pxe, None).await;
    assert!(matches!(refused, Err(Error::Refused { status: 400, .. })), "{refused:?}");
}

#[tokio::test]
async fn an_override_that_is_left_is_taken_back() {
    let (fake, origin) = start(json!({"once": "Continuous"})).await;
    let client = connect(&origin).await.unwrap();
    assert_eq!(client.take_boot_back().await, Ok(None));
    let set = client.set_boot_once(NextBootSource::Pxe, None).await;
    assert!(matches!(&set, Ok(BootSet::Unverified { seen }) if seen.ends_with("says Continuous Pxe")), "{set:?}");
    let left = OverrideReading::Left { seen: "Continuous Pxe".into() };
    assert_eq!(client.read_once().await, Ok(left));
    assert_eq!(client.take_boot_back().await, Ok(Some(BootSet::Confirmed)));
    assert_eq!(client.read_once().await, Ok(OverrideReading::UsedUp));
    assert_eq!(fake.state().boot_enabled, "Disabled");
    let refusal = json!({"status": 500, "id": "Base.1.8.InternalError", "message": "no"});
    let (_fake, origin) = start(json!({"once": "Continuous", "refuse_disable": refusal})).await;
    let client = connect(&origin).await.unwrap();
    drop(client.set_boot_once(NextBootSource::Pxe, None).await);
    assert!(matches!(client.take_boot_back().await, Err(Error::Refused { status: 500, .. })));
}

#[tokio::test]
async fn addresses_lead_to_the_system_that_they_mean() {
    for (quirks, path) in [
        (json!({"merge": {"/redfish/v1": {"Systems": null}}}), ""),
        (json!({}), "/redfish/v1"),
        (json!({"system": "cluster/node-0"}), "/redfish/v1/Systems/cluster/node-0"),
        (json!({"system": "cluster/node-0"}), ""),
        (json!({"prefix": "/bmc/7"}), "/bmc/7/redfish/v1/Systems/1"),
        (json!({"prefix": "/bmc/7"}), "/bmc/7/redfish/v1/"),
    ] {
        let (fake, origin) = start(quirks.clone()).await;
        let client = connect(&format!("{origin}{path}")).await.unwrap_or_else(|error| panic!("{quirks}: {error}"));
        assert_eq!(client.change_power(PowerAction::On).await, Ok(PowerSet::Confirmed), "{quirks} {path}");
        client.close().await;
        assert_eq!(fake.state().sessions, [""; 0], "{quirks} {path}");
        let prefix = quirks["prefix"].as_str().unwrap_or_default();
        let requests = fake.state().requests.clone();
        assert!(requests.iter().all(|made| made.contains(&format!(" {prefix}/redfish/"))), "{requests:?}");
    }
}
