//! Requests to the planner end with the appliance's answer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use firesteel_bmc::BmcCredentials;
use firesteel_bmc_fakes::redfish::Fake;
use firesteel_cli::{ApiClient, ConnectionOptions};
use firesteel_tests::appliance::Appliance;
use firesteel_tests::network::with_appliance;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";
const JOURNALS: &str = "/apis/firesteel.dev/v1alpha1/namespaces/default/hostjournals";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
const RETRY: &str = "firesteel.dev/retry";
const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(300);

/// An appliance that works on hosts, and its admin.
struct Site {
    appliance: Appliance,
    runtime: Runtime,
}

/// How a command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    error: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
    }
}

impl Ended {
    #[track_caller]
    fn is_done(&self, part: &str) {
        assert!(self.code == Some(0) && self.out.contains(part), "{:?} {} {}", self.code, self.out, self.error);
    }

    #[track_caller]
    fn is_refused(&self, part: &str) {
        assert!(self.code == Some(1) && self.error.contains(part), "{:?} {} {}", self.code, self.out, self.error);
        assert_eq!(self.out, "", "a refusal is no result");
    }
}

impl Site {
    fn run(&self, arguments: &[&str]) -> Ended {
        self.appliance.command().args(arguments).stdin(Stdio::null()).output().unwrap().into()
    }

    /// Begins a command that waits.
    fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = self.appliance.command();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Opens a client with the kubeconfig that the appliance has now.
    fn client(&self) -> ApiClient {
        let connection = ConnectionOptions { kubeconfig: Some(self.appliance.kubeconfig()), namespace: None };
        ApiClient::open(&connection).unwrap()
    }

    fn get(&self, path: &str) -> Value {
        self.runtime.block_on(self.client().get_if_there(path)).unwrap().unwrap_or_default()
    }

    /// Sets an annotation of a host, or removes it.
    fn annotate(&self, host: &str, key: &str, value: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.runtime.block_on(self.client().merge_patch(&format!("{HOSTS}/{host}"), &patch)).unwrap();
    }

    fn create(&self, collection: &str, object: &Value) {
        self.runtime.block_on(self.client().create(collection, object)).unwrap();
    }

    #[track_caller]
    fn until(&self, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let value = self.get(path);
            if is_it(&value) {
                return value;
            }
            assert!(Instant::now() < ends_at, "{path} still is {value:#}\n{}", self.appliance.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The answer to requests of this sort, as a script reads it.
    fn answer(&self, host: &str, request: &str) -> Value {
        let journal = self.get(&format!("{JOURNALS}/{host}"));
        let answers = journal["status"]["answers"]["newest"].as_array().cloned().unwrap_or_default();
        answers.into_iter().find(|answer| answer["request"] == request).unwrap_or_default()
    }
}

/// Runs a test with an appliance and two hosts: `os` has a BMC and an OS of its owner's, `bare` has neither.
fn with_hosts(test: impl FnOnce(&mut Site) + Send + 'static) {
    with_appliance(PROGRAM, |appliance| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut site = Site { appliance, runtime };
        let login = BmcCredentials { username: "admin".into(), password: "correct horse".into() };
        let fake = Fake::new(login.clone(), [0x52, 0x54, 0, 0x77, 3, 1]);
        let listener = site.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = format!("redfish+http://{}/redfish/v1/Systems/1", listener.local_addr().unwrap());
        site.runtime.spawn(fake.serve(listener));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
            "stringData": {"username": login.username, "password": login.password},
        });
        site.create("/api/v1/namespaces/default/secrets", &secret);
        let host = |name: &str, spec: Value| {
            let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost"});
            (host["metadata"], host["spec"]) = (json!({"name": name}), spec);
            host
        };
        let bmc = json!({"address": address, "credentialsName": "bmc"});
        let spec = json!({
            "online": true, "externallyProvisioned": true, "bootMACAddress": "52:54:00:77:03:01", "bmc": bmc,
        });
        site.create(HOSTS, &host("os", spec));
        site.create(HOSTS, &host("bare", json!({"online": true, "bootMACAddress": "52:54:00:77:03:02"})));
        let state = |host: &Value| host["status"]["provisioning"]["state"].clone();
        site.until(&format!("{HOSTS}/os"), |host| {
            state(host) == "externally provisioned" && host["status"]["poweredOn"] == true
        });
        site.until(&format!("{HOSTS}/bare"), |host| state(host) == "unmanaged");
        test(&mut site);
    });
}

/// They printed success, whatever the planner made of them.
#[test]
fn each_request_ends_with_what_the_planner_says() {
    with_hosts(|site| {
        site.run(&["retry", "os"]).is_refused("nothing to try again");
        site.run(&["reboot", "bare"]).is_refused("there is no BMC: reboot the host by hand");
        site.run(&["unfreeze", "os", "--disk", "S1", "--yes"]).is_refused("not frozen");
        site.run(&["extend-token", "os"]).is_refused("no OS of this appliance");
        site.run(&["accept-erasure", "os"]).is_refused("none is held");
        site.run(&["retry", "none"]).is_refused("there is no host none");
        let refused = site.answer("os", RETRY);
        assert_eq!((&refused["outcome"], refused["number"].as_u64()), (&json!("Refused"), Some(1)), "{refused:#}");

        site.run(&["reboot", "os", "--hard", "--yes"]).is_done("rebooted");
        let reboot = |site: &Site| site.answer("os", "reboot.metal3.io");
        let accepted = reboot(site);
        site.until(&format!("{JOURNALS}/os"), |_| reboot(site)["outcome"] == "Done");
        let done = reboot(site);
        assert!(done["number"].as_u64() > accepted["number"].as_u64() || accepted["outcome"] == "Done", "{done:#}");
        assert!(site.run(&["describe", "host", "os"]).out.contains("Requests\n"), "a person reads it, too");

        site.run(&["unlock", "os"]).is_done("it is not locked");
        site.run(&["lock", "os", "--reason", "audit"]).is_done("until `firesteel unlock os`");
        site.run(&["release", "os", "--yes"]).is_refused("`firesteel unlock os` first");
        assert!(site.get(&format!("{HOSTS}/os"))["metadata"]["deletionTimestamp"].is_null());
        site.until(&format!("{JOURNALS}/os"), |journal| !journal["status"]["memory"]["locked"].is_null());
        site.run(&["unlock", "os"]).is_done("written again");

        let shown = site.run(&["release", "os", "--dry-run"]);
        shown.is_done("nothing was done");
        assert!(shown.out.contains("externallyProvisioned keeps the OS"), "{}", shown.out);
        assert!(site.get(&format!("{HOSTS}/os"))["metadata"]["deletionTimestamp"].is_null());
        unlocking_what_is_deleted_asks(site);
        site.run(&["release", "bare", "--yes", "--wait"]).is_done("released, and gone");
        assert!(site.get(&format!("{HOSTS}/bare")).is_null());
        only_what_the_appliance_let_go_is_released(site);
    });
}

/// A host that another command had forgotten was called released, and gone.
fn only_what_the_appliance_let_go_is_released(site: &Site) {
    let host = |annotations: Value| {
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "again", "annotations": annotations},
            "spec": {"online": true, "bootMACAddress": "52:54:00:77:03:09"},
        })
    };
    // It is gone as soon as it is deleted, or a moment later.
    for _ in 0..5 {
        site.create(HOSTS, &host(json!({})));
        site.run(&["release", "again", "--yes", "--wait"]).is_done("released, and gone");
        site.create(HOSTS, &host(json!({})));
        site.run(&["delete", "host", "again", "--yes"]).is_done("baremetalhost.metal3.io/again is gone");
    }
    for command in [["release", "again", "--yes", "--wait"].as_slice(), &["delete", "host", "again", "--yes"]] {
        site.create(HOSTS, &host(json!({DETACHED: r#"{"deleteAction": "delay"}"#})));
        site.until(&format!("{HOSTS}/again"), |host| host["status"]["provisioning"]["state"] == "unmanaged");
        let waiting = site.begin(command);
        site.until(&format!("{HOSTS}/again"), |host| !host["metadata"]["deletionTimestamp"].is_null());
        site.run(&["release", "again", "--force", "--yes"]).is_done("again: ");
        let Ended { code, out, error } = Ended::from(waiting.wait_with_output().unwrap());
        assert!(code == Some(1) && error.contains("forgot it by force meanwhile"), "{code:?} {out} {error}");
    }
}

/// The cleaning of a host that is deleted began without a word when its lock went.
fn unlocking_what_is_deleted_asks(site: &Site) {
    let hold = |finalizers: Value| {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        site.runtime.block_on(site.client().merge_patch(&format!("{HOSTS}/kept"), &patch)).unwrap();
    };
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "kept"},
        "spec": {"online": true, "bootMACAddress": "52:54:00:77:03:03"},
    });
    site.create(HOSTS, &host);
    let path = format!("{HOSTS}/kept");
    site.until(&path, |host| host["status"]["provisioning"]["state"] == "unmanaged");
    hold(json!(["example.com/kept"]));
    site.run(&["delete", "host", "kept", "--yes", "--wait=false"]).is_done("kept");
    site.run(&["lock", "kept", "--reason", "audit"]).is_done("until `firesteel unlock kept`");
    let asked = site.run(&["unlock", "kept"]);
    assert!(asked.code == Some(2) && asked.error.contains("no terminal"), "{:?} {}", asked.code, asked.error);
    assert_eq!(site.get(&path)["metadata"]["annotations"]["firesteel.dev/lock"], "audit");
    site.run(&["unlock", "kept", "--yes"]).is_done("kept: ");
    hold(json!([]));
    site.until(&path, Value::is_null);
}

/// A wait goes on over a restart of the appliance, says why nothing comes, and ends with its host.
#[test]
fn a_wait_says_why_it_waits_goes_on_and_ends_with_its_host() {
    with_hosts(|site| {
        site.annotate("os", PAUSED, Some("ann"));
        let late = site.run(&["retry", "os", "--timeout", "1s"]);
        late.is_refused("has not answered within 1s");
        assert!(late.error.contains("paused by ann") && late.error.contains("the request stays"), "{}", late.error);
        // Taken back, so that the next one is written while the host is paused.
        site.annotate("os", RETRY, None);
        let waiting = site.begin(&["retry", "os"]);
        site.until(&format!("{HOSTS}/os"), |host| !host["metadata"]["annotations"][RETRY].is_null());
        site.appliance.kill_and_start_again();
        // Another one of its sort comes after it, and takes nothing away from it.
        let next = site.begin(&["retry", "os"]);
        site.annotate("os", PAUSED, None);
        Ended::from(waiting.wait_with_output().unwrap()).is_refused("nothing to try again");
        Ended::from(next.wait_with_output().unwrap()).is_refused("nothing to try again");
        assert_eq!(site.answer("os", RETRY)["number"], 2, "each was answered");

        let paused = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "short", "annotations": {PAUSED: ""}}, "spec": {"online": false},
        });
        site.create(HOSTS, &paused);
        let waiting = site.begin(&["retry", "short"]);
        site.until(&format!("{HOSTS}/short"), |host| !host["metadata"]["annotations"][RETRY].is_null());
        site.runtime.block_on(site.client().delete(&format!("{HOSTS}/short"))).unwrap();
        Ended::from(waiting.wait_with_output().unwrap()).is_refused("it is gone");
        site.run(&["release", "bare", "--yes", "--no-wait"]).is_done("asked");
    });
}
