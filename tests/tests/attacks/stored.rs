//! What is stored against the next start: whatever the API took, the process starts with it, and its API answers.

mod drawn;

use std::time::{Duration, Instant};

use firesteel_resources::kind::{Kind, KindScope};
use firesteel_resources::kinds::PROVISIONING;
use firesteel_tests::agent_line::client;
use firesteel_tests::field::{Field, discover, judge, mac, with_field};
use firesteel_tests::network::Dhcp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::CLASS;
use drawn::Draw;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const NETWORK: &str = "/apis/metal3.io/v1alpha1/provisionings/provisioning-configuration";
/// What is drawn follows from it.
const SEED: &str = "FIRESTEEL_STORED_SEED";
/// Drawn for each kind; a start reads all of them.
const OBJECTS: usize = 8;
/// Networks that are stored one after the other, each with a start. One that is served takes some seconds, in which the
/// appliance listens for other servers.
const NETWORKS: usize = 8;
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(300);
/// Objects that are drawn for one that is taken, at most.
const DRAWS_MAX: usize = 400;

/// The administrator, by the API.
struct NetworkAdministrator<'a> {
    field: &'a Field,
    runtime: tokio::runtime::Runtime,
}

/// What came back.
struct Said {
    status: u16,
    warnings: Vec<String>,
    body: Value,
}

impl<'a> NetworkAdministrator<'a> {
    fn new(field: &'a Field) -> Self {
        Self { field, runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap() }
    }

    fn ask(&self, method: Method, path: &str, body: &Value) -> Said {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let appliance = &self.field.appliance;
        let request = client(&appliance.ca_pem()).request(method, format!("{}{path}", appliance.url()));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.bearer_auth(appliance.token()).header("content-type", kind).body(body);
        self.runtime.block_on(async {
            let answer = request.send().await.unwrap();
            let status = answer.status().as_u16();
            let warnings = answer.headers().get_all("warning").iter();
            let warnings = warnings.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned()).collect();
            let body = serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default();
            Said { status, warnings, body }
        })
    }

    fn get(&self, path: &str) -> Value {
        let said = self.ask(Method::GET, path, &Value::Null);
        assert_eq!(said.status, 200, "{path}: {}", said.body);
        said.body
    }

    /// Has the spec of the network be this, and nothing else. Its status may change meanwhile.
    fn network(&self, spec: &Value) -> Said {
        loop {
            let mut object = self.get(NETWORK);
            object["spec"] = spec.clone();
            let said = self.ask(Method::PUT, NETWORK, &object);
            if said.status != 409 {
                return said;
            }
        }
    }

    /// Waits until a condition of the network has this reason and such a message.
    fn until_condition(&self, type_: &str, reason: Option<&str>, is_it: impl Fn(&str) -> bool) {
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let object = self.get(NETWORK);
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|condition| condition["type"] == type_);
            let message = found.and_then(|found| found["message"].as_str()).unwrap_or_default();
            if found.and_then(|found| found["reason"].as_str()) == reason && is_it(message) {
                return;
            }
            assert!(Instant::now() < ends_at, "{type_} is not {reason:?}: {}", object["status"]);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn collection(kind: &Kind) -> String {
    let scope = if kind.scope == KindScope::Namespaced { "/namespaces/default" } else { "" };
    format!("/apis/{}/{}{scope}/{}", kind.group, kind.version, kind.plural)
}

fn served() -> Value {
    json!({"provisioningNetwork": "Managed", "provisioningInterface": "s0", "provisioningIP": "10.77.0.1",
        "provisioningNetworkCIDR": "10.77.0.0/24", "provisioningDHCPRange": "10.77.0.100,10.77.0.199"})
}

fn with(more: &Value) -> Value {
    let mut spec = served();
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

/// What the API takes and nothing serves: what the network is besides, the condition that says so with its reason, and
/// what it names.
fn unserved() -> [(&'static str, Value, [&'static str; 3], bool); 2] {
    let v6 = json!({"provisioningIP": "fd00::1", "provisioningNetworkCIDR": "fd00::/64",
        "provisioningDHCPRange": "fd00::10,fd00::20"});
    // 10.88.0.0/24 is behind a relay, by a flag.
    let overlapping = json!({"provisioningNetworkCIDR": "10.64.0.0/10"});
    [
        ("an IPv6 address", v6, ["Degraded", "InvalidConfiguration", "spec.provisioningIP"], true),
        ("a network behind a relay", overlapping, ["Progressing", "SyncingResources", "--relayed"], false),
    ]
}

/// A range of 196,352 addresses and an IPv6 address ended the process at each start, for ever.
#[test]
fn a_range_that_is_not_leased_is_refused_and_a_network_that_is_not_served_waits_beside_the_api() {
    with_field(PROGRAM, Dhcp::Managed, |field| {
        let wide =
            json!({"provisioningNetworkCIDR": "10.76.0.0/14", "provisioningDHCPRange": "10.77.1.0,10.79.255.255"});
        let said = NetworkAdministrator::new(field).network(&with(&wide));
        let at = said.body["details"]["causes"][0]["field"].as_str().unwrap_or_default().to_owned();
        judge("a range of 196,352 addresses", "422 spec.provisioningDHCPRange", &format!("{} {at}", said.status));
        field.appliance.kill_and_start_again();

        for (case, spec, [condition, reason, named], is_warned) in unserved() {
            let administrator = NetworkAdministrator::new(field);
            let said = administrator.network(&with(&spec));
            assert_eq!(said.status, 200, "{case}: {}", said.body);
            assert_eq!(said.warnings.iter().any(|text| text.contains("no machine is served")), is_warned, "{case}");
            drop(administrator);
            // A start serves what it can of it, and says what it cannot.
            field.appliance.kill_and_start_again();
            let administrator = NetworkAdministrator::new(field);
            administrator.until_condition(condition, Some(reason), |message| message.contains(named));
            if is_warned {
                administrator.until_condition("NoController", Some("FieldsNotActedOn"), |_| true);
            }
            // Corrected by the API, it is served by the same process, without another start.
            let id = field.appliance.id();
            let said = administrator.network(&served());
            assert_eq!(said.status, 200, "{case}: {}", said.body);
            drop(administrator);
            let leased = field.obtain(&discover(1, CLASS, &[7]));
            assert_eq!((leased.octets()[..3].to_vec(), field.appliance.id()), (vec![10, 77, 0], id), "{case}");
            NetworkAdministrator::new(field).until_condition("Available", Some("DeployComplete"), |_| true);
            judge(
                case,
                "stored, told, and served when it is corrected",
                "stored, told, and served when it is corrected",
            );
        }
    });
}

/// Whatever was taken, of every kind.
#[test]
fn the_process_starts_with_whatever_the_api_took() {
    with_field(PROGRAM, Dhcp::Managed, |field| {
        let seed = std::env::var(SEED).map_or(28, |seed| seed.parse().unwrap());
        println!("seed {seed}");
        let mut draw = Draw::new(seed);
        let mut lists = Vec::new();
        let administrator = NetworkAdministrator::new(field);
        for kind in drawn::kinds() {
            let (mut taken, mut refused) = (0, Vec::new());
            for number in 0..DRAWS_MAX {
                if taken == OBJECTS {
                    break;
                }
                let Some(object) = draw.object(kind, number) else { continue };
                let mut said = administrator.ask(Method::POST, &collection(kind), &object);
                if said.status == 409 {
                    // There is one of this name; of some kinds from the first start on.
                    let name = object["metadata"]["name"].as_str().unwrap();
                    said = administrator.ask(Method::PATCH, &format!("{}/{name}", collection(kind)), &object);
                }
                match said.status {
                    200 | 201 => taken += 1,
                    _ => refused.push(said.body["message"].to_string()),
                }
            }
            println!("{} {}: {taken} taken", kind.version, kind.kind);
            assert!(taken > 0, "nothing of {} is taken: {refused:?}", kind.kind);
            lists.push(collection(kind));
        }
        drop(administrator);
        field.appliance.kill_and_start_again();
        let administrator = NetworkAdministrator::new(field);
        for list in &lists {
            let items = administrator.get(list)["items"].as_array().map_or(0, Vec::len);
            assert!(items > 0, "{list}");
        }
        drop(administrator);
        // The one network, again and again: each is a start.
        let mut stored = 0;
        for number in 0..DRAWS_MAX {
            if stored == NETWORKS {
                break;
            }
            let Some(object) = draw.object(&PROVISIONING, number) else { continue };
            let said = NetworkAdministrator::new(field).network(&object["spec"]);
            if said.status == 200 {
                stored += 1;
                println!("a start with {}", object["spec"]);
                field.appliance.kill_and_start_again();
                NetworkAdministrator::new(field).get(NETWORK);
            }
        }
        assert!(stored > 0);
    });
}

/// It belongs to whoever writes statuses; the planner has its own memory.
#[test]
fn a_foreign_state_is_stored_and_never_read() {
    with_field(PROGRAM, Dhcp::Managed, |field| {
        field.add_host("victim", mac(1));
        let administrator = NetworkAdministrator::new(field);
        let path = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts/victim/status";
        let patch = json!({"status": {"provisioning": {"state": "match profile"}}});
        let said = administrator.ask(Method::PATCH, path, &patch);
        let state = &said.body["status"]["provisioning"]["state"];
        judge("a foreign state", "200 \"match profile\"", &format!("{} {state}", said.status));
        drop(administrator);
        field.appliance.kill_and_start_again();
        field.until(&["describe", "host", "victim"], |page| page.contains("waiting for the host to boot"));
        let negative = json!({"status": {"errorCount": -1}});
        let said = NetworkAdministrator::new(field).ask(Method::PATCH, path, &negative);
        let at = said.body["details"]["causes"][0]["field"].as_str().unwrap_or_default().to_owned();
        judge("a count below nothing", "422 status.errorCount", &format!("{} {at}", said.status));
    });
}
