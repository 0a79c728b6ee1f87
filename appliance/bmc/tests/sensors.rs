//! Sensors by the Redfish client from the fake service, over real sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use firesteel_bmc::bmc_queue::BmcQueue;
use firesteel_bmc::sensors::{SENSORS_MAX, Sensor, SensorHealth, SensorKind, SensorLayout, SensorReading, SensorUnit};
use firesteel_bmc::{BmcCredentials, BmcTimeouts, BmcUrl, Error, Redfish, RedfishClient, Tls};
use firesteel_bmc_fakes::redfish::{Fake, NO_ANSWER, RedfishFault, SensorForm};
use firesteel_dial::{Dialer, Targets};
use serde_json::json;
use tokio::net::TcpListener;

const WITHIN: Duration = Duration::from_secs(60);

fn credentials() -> BmcCredentials {
    BmcCredentials { username: "admin".into(), password: "correct horse".into() }
}

async fn start() -> (Fake, BmcUrl) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = BmcUrl::parse(&format!("redfish+http://{}", listener.local_addr().unwrap())).unwrap();
    let fake = Fake::new(credentials(), [0x52, 0x54, 0, 1, 2, 3]);
    // The chassis names the drives here.
    fake.state().drives = 0;
    tokio::spawn(fake.clone().serve(listener));
    (fake, address)
}

fn dialer() -> Dialer {
    Dialer::new(Targets::allowing(["127.0.0.0/8".parse().unwrap()]))
}

async fn connect(address: &BmcUrl) -> RedfishClient {
    connect_on(Arc::default(), address, BmcTimeouts::default()).await
}

async fn connect_on(line: Arc<BmcQueue>, address: &BmcUrl, patience: BmcTimeouts) -> RedfishClient {
    Redfish::connect_giving_way(line, &dialer(), address, &credentials(), &Tls::default(), patience).await.unwrap()
}

/// A client that waits a quarter of a second for an answer.
async fn connect_in_haste(address: &BmcUrl) -> RedfishClient {
    let patience = BmcTimeouts { request: Duration::from_millis(250), ..BmcTimeouts::default() };
    connect_on(Arc::default(), address, patience).await
}

/// Has resources below the chassis answer this status.
fn spoil(fake: &Fake, paths: &[&str], status: u16) {
    fake.state().sensors.statuses = paths.iter().map(|path| ((*path).to_owned(), status)).collect();
}

/// How many requests for this path were made since the last call.
fn asked(requests: &[String], end: &str) -> usize {
    requests.iter().filter(|made| made.ends_with(end)).count()
}

/// The requests that were made since the last call.
fn requests(fake: &Fake) -> Vec<String> {
    std::mem::take(&mut fake.state().requests)
}

fn names(reading: &SensorReading) -> Vec<String> {
    reading.sensors.iter().map(|sensor| format!("{} {}", sensor.kind.word(), sensor.name)).collect()
}

fn named<'a>(reading: &'a SensorReading, name: &str) -> &'a Sensor {
    reading.sensors.iter().find(|sensor| sensor.name == name).unwrap()
}

#[tokio::test]
async fn both_forms_of_resources_show_the_same_machine() {
    for (form, expands) in [(SensorForm::Older, false), (SensorForm::Newer, false), (SensorForm::Newer, true)] {
        let (fake, address) = start().await;
        (fake.state().sensors.form, fake.state().sensors.expands) = (form, expands);
        fake.state().sensors.set_fan_health(1, "Critical");
        let client = connect(&address).await;
        let reading = client.sensors(&mut SensorLayout::default(), WITHIN).await.unwrap();
        let power = if form == SensorForm::Older { "power System Power Control" } else { "power Power" };
        let mut found = names(&reading);
        found.sort();
        let mut expected = vec!["temperature CPU1 Temp", "temperature Inlet Temp", "fan Fan 1", "fan Fan 2", power];
        expected.extend(["power PSU 1", "power PSU 2", "drive SSD 0", "drive SSD 1"]);
        expected.sort_unstable();
        assert_eq!(found, expected, "{form:?} {expands}");
        assert_eq!((reading.system, reading.left_out), (Some(SensorHealth::Warning), 0));
        let value = |name: &str| named(&reading, name).value.map(|value| (value.number, value.unit));
        assert_eq!(value("CPU1 Temp"), Some((49.0, SensorUnit::Celsius)));
        assert_eq!(value("Fan 1"), Some((5160.0, SensorUnit::Rpm)));
        assert_eq!(value(power.trim_start_matches("power ")), Some((312.0, SensorUnit::Watts)));
        assert_eq!(named(&reading, "Fan 2").health, Some(SensorHealth::Critical));
        assert_eq!(named(&reading, "SSD 0").health, Some(SensorHealth::Ok));
        client.close().await;
        assert_eq!(fake.state().sessions, [""; 0]);
    }
}

#[tokio::test]
async fn what_was_found_is_not_looked_for_at_each_reading() {
    let (fake, address) = start().await;
    let (client, mut layout) = (connect(&address).await, SensorLayout::default());
    requests(&fake);
    client.sensors(&mut layout, WITHIN).await.unwrap();
    let first = requests(&fake);
    client.sensors(&mut layout, WITHIN).await.unwrap();
    let second = requests(&fake);
    assert!(first.iter().any(|made| made.ends_with("/Chassis/1")), "{first:?}");
    let expected = ["", "/Thermal", "/Power", "/Drives/0", "/Drives/1"];
    assert_eq!(second.len(), expected.len(), "{second:?}");
    assert!(second[1..].iter().zip(&expected[1..]).all(|(made, end)| made.ends_with(end)), "{second:?}");
}

#[tokio::test]
async fn a_reading_has_a_bound_of_requests_and_of_sensors() {
    let (fake, address) = start().await;
    {
        let mut state = fake.state();
        state.sensors.form = SensorForm::Newer;
        state.sensors.temperatures =
            (0..400).map(|number| json!({"Name": format!("T{number}"), "ReadingCelsius": 30})).collect();
        state.sensors.drives = (0..400).map(|number| json!({"Name": format!("D{number}")})).collect();
    }
    let (client, mut layout) = (connect(&address).await, SensorLayout::default());
    for _ in 0..3 {
        requests(&fake);
        let reading = client.sensors(&mut layout, WITHIN).await.unwrap();
        assert!(requests(&fake).len() <= 64);
        assert!(reading.sensors.len() <= SENSORS_MAX && reading.left_out > 100, "{}", reading.left_out);
    }
    fake.state().sensors.expands = true;
    let client = connect(&address).await;
    let reading = client.sensors(&mut SensorLayout::default(), WITHIN).await.unwrap();
    assert_eq!(reading.sensors.len(), SENSORS_MAX);
    assert!(reading.sensors.iter().any(|sensor| sensor.kind == SensorKind::Fan), "each kind comes to its place");
}

#[tokio::test]
async fn odd_members_do_not_hide_the_others_and_nothing_is_made_up() {
    let (fake, address) = start().await;
    {
        let mut state = fake.state();
        state.sensors.temperatures = vec![
            json!({"Name": "Text", "ReadingCelsius": "42", "Status": {"Health": "OK"}}),
            json!({"Name": "NaN", "ReadingCelsius": "NaN", "Status": "OK"}),
            json!({"Name": "Missing"}),
            json!(null),
            json!("not an object"),
            json!({"Name": "Absent", "Status": {"State": "Absent"}}),
        ];
        state.sensors.drawn = json!("N/A");
        state.sensors.supplies = Vec::new();
        state.sensors.drives = Vec::new();
    }
    let client = connect(&address).await;
    let reading = client.sensors(&mut SensorLayout::default(), WITHIN).await.unwrap();
    assert_eq!(
        names(&reading),
        ["temperature Text", "temperature NaN", "temperature Missing", "fan Fan 1", "fan Fan 2"]
    );
    assert_eq!(named(&reading, "Text").value.map(|value| value.number), Some(42.0));
    for name in ["NaN", "Missing"] {
        assert_eq!((named(&reading, name).value, named(&reading, name).health), (None, None), "{name}");
    }
}

#[tokio::test]
async fn a_bmc_without_sensors_has_none_and_a_broken_one_is_an_error() {
    let (fake, address) = start().await;
    fake.state().sensors.form = SensorForm::None;
    let client = connect(&address).await;
    let reading = client.sensors(&mut SensorLayout::default(), WITHIN).await.unwrap();
    assert_eq!(reading.sensors, []);
    fake.state().faults = vec![RedfishFault::Status(503)];
    let broken = client.sensors(&mut SensorLayout::default(), WITHIN).await;
    assert_eq!(broken, Err(Error::Busy { status: 503 }));
}

#[tokio::test]
async fn a_reading_stops_asking_when_its_time_is_over() {
    let (fake, address) = start().await;
    let client = connect(&address).await;
    let mut layout = SensorLayout::default();
    client.sensors(&mut layout, WITHIN).await.unwrap();
    requests(&fake);
    client.sensors(&mut layout, Duration::ZERO).await.unwrap();
    assert_eq!(requests(&fake).len(), 1, "the system alone");
}

/// A BMC that was too slow was taken for one without sensors.
#[tokio::test]
async fn a_search_that_is_cut_short_says_so() {
    let (fake, address) = start().await;
    let (client, mut layout) = (connect(&address).await, SensorLayout::default());
    let reading = client.sensors(&mut layout, Duration::ZERO).await.unwrap();
    assert!(reading.sensors.is_empty() && reading.left_out > 0, "{reading:?}");
    requests(&fake);
    client.sensors(&mut layout, WITHIN).await.unwrap();
    assert_eq!(asked(&requests(&fake), "/Chassis/1"), 0, "it is not repeated at once");
}

#[tokio::test]
async fn one_resource_that_fails_hides_no_other() {
    for status in [500, 401, 403, NO_ANSWER] {
        let (fake, address) = start().await;
        spoil(&fake, &["Thermal"], status);
        let client = connect_in_haste(&address).await;
        let reading = client.sensors(&mut SensorLayout::default(), WITHIN).await.unwrap();
        let expected = ["power System Power Control", "power PSU 1", "power PSU 2", "drive SSD 0", "drive SSD 1"];
        assert_eq!(names(&reading), expected, "{status}");
        let is_known_to_be_there = matches!(status, 500 | NO_ANSWER);
        assert_eq!(reading.left_out, usize::from(is_known_to_be_there), "{status}");
        client.close().await;
        let logins = asked(&requests(&fake), "/Sessions");
        assert_eq!((logins, fake.state().sessions.len()), (1, 0), "{status}: no login is made for it");
    }
}

#[tokio::test]
async fn a_bmc_that_is_busy_or_hangs_is_asked_no_more() {
    let all = ["Thermal", "Power", "Drives/0", "Drives/1"];
    for (status, asked_for) in [(503, 1), (429, 1), (NO_ANSWER, 2), (401, 2)] {
        let (fake, address) = start().await;
        let (client, mut layout) = (connect_in_haste(&address).await, SensorLayout::default());
        client.sensors(&mut layout, WITHIN).await.unwrap();
        spoil(&fake, &all, status);
        requests(&fake);
        let reading = client.sensors(&mut layout, WITHIN).await.unwrap();
        let made = requests(&fake);
        assert_eq!(made.len(), 1 + asked_for, "{status}: {made:?}");
        // Their word of just now still holds.
        assert_eq!((names(&reading), reading.left_out), (vec!["drive SSD 0".into(), "drive SSD 1".into()], 2));
    }
}

/// By Basic authentication each request shows the password, and a BMC may count each that it refuses.
#[tokio::test]
async fn a_password_that_is_refused_meanwhile_is_not_shown_again() {
    let (fake, address) = start().await;
    fake.state().faults = vec![RedfishFault::NoSessions];
    let (client, mut layout) = (connect(&address).await, SensorLayout::default());
    client.sensors(&mut layout, WITHIN).await.unwrap();
    spoil(&fake, &["Thermal", "Power", "Drives/0"], 401);
    requests(&fake);
    assert_eq!(client.sensors(&mut layout, WITHIN).await, Err(Error::Unauthorized));
    assert_eq!(requests(&fake).len(), 2);
}

#[tokio::test]
async fn drives_have_their_turn_beside_many_sensors_and_empty_bays_are_not_left_out() {
    let (fake, address) = start().await;
    {
        let mut state = fake.state();
        state.sensors.form = SensorForm::Newer;
        let numbered = |letter: &str, count: usize| {
            (0..count).map(|number| json!({"Name": format!("{letter}{number}")})).collect::<Vec<_>>()
        };
        (state.sensors.temperatures, state.sensors.fans) = (numbered("T", 24), numbered("F", 24));
        state.sensors.supplies = numbered("P", 24);
        state.sensors.drives = numbered("D", 10);
        state.sensors.drives[0] = json!({"Name": "Bay 0", "Status": {"State": "Absent"}});
    }
    let (client, mut layout) = (connect(&address).await, SensorLayout::default());
    let drives = |reading: &SensorReading| reading.sensors.iter().filter(|one| one.kind == SensorKind::Drive).count();
    let first = client.sensors(&mut layout, WITHIN).await.unwrap();
    assert_eq!(drives(&first), 7, "eight are asked, and one of them is an empty bay");
    let second = client.sensors(&mut layout, WITHIN).await.unwrap();
    assert_eq!((drives(&second), second.sensors.len() + second.left_out), (9, 24 * 3 + 1 + 9), "each is counted once");
}

/// Many BMCs have places for few sessions, and control needs one at once.
#[tokio::test]
async fn a_reading_gives_its_session_up_to_another_caller_and_goes_on_after_it() {
    let (fake, address) = start().await;
    fake.state().sessions_max = 1;
    let line = Arc::<BmcQueue>::default();
    let reader = connect_on(Arc::clone(&line), &address, BmcTimeouts::default()).await;
    let mut layout = SensorLayout::default();
    reader.sensors(&mut layout, WITHIN).await.unwrap();
    assert_eq!(fake.state().sessions.len(), 1);
    let (lent, place, target) = (Arc::clone(&line), dialer(), address.clone());
    let control = async {
        let patience = BmcTimeouts::default();
        let client = Redfish::connect_on(lent, &place, &target, &credentials(), &Tls::default(), patience).await;
        let client = client.unwrap();
        assert!(!client.is_in_place_of_session().await, "it has the place");
        let of_reader = requests(&fake);
        client.power().await.unwrap();
        client.close().await;
        of_reader
    };
    let (reading, before) = tokio::join!(reader.sensors(&mut layout, WITHIN), control);
    assert_eq!((reading.unwrap().left_out, asked(&before, "/Thermal")), (0, 1), "{before:?}");
    reader.close().await;
    assert_eq!(fake.state().sessions.len(), 0);
}
