//! A real appliance that serves machines, in a network namespace of its own, with BMCs on its loopback.

use std::io::Write as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use firesteel_bmc::BmcCredentials;
use firesteel_bmc_fakes::redfish::Fake;
use firesteel_cli::{ApiClient, ConnectionOptions};
use firesteel_tests::appliance::Appliance;
use firesteel_tests::network::{with_appliance, with_bmc_only_appliance};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(300);
pub(crate) const MAC: &str = "52:54:00:77:03:01";
pub(crate) const SYSTEM: &str = "/redfish/v1/Systems/1";

pub(crate) struct Bench {
    pub(crate) appliance: Appliance,
    /// Its threads are in the namespace.
    pub(crate) runtime: Runtime,
}

/// Says what a case wanted and got.
pub(crate) fn say(case: &str, wanted: &str, got: &str) {
    println!("{case}: wanted: {wanted}; got: {got}");
}

/// Runs a test with an appliance, in a network namespace that ends with it.
pub(crate) fn with(test: impl FnOnce(&Bench) + Send + 'static) {
    with_appliance(env!("CARGO_BIN_EXE_firesteel-tested"), |appliance| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        test(&Bench { appliance, runtime });
    });
}

/// Runs a test with an appliance that has neither a provisioning interface nor files to boot, nor a Provisioning object.
pub(crate) fn with_bmc_only(test: impl FnOnce(&Bench) + Send + 'static) {
    with_bmc_only_appliance(env!("CARGO_BIN_EXE_firesteel-tested"), |appliance| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        test(&Bench { appliance, runtime });
    });
}

pub(crate) fn credentials() -> BmcCredentials {
    BmcCredentials { username: "admin".into(), password: "correct horse".into() }
}

/// A service with these quirks, which no host uses yet.
pub(crate) fn fake(quirks: &Value) -> Fake {
    let fake = Fake::new(credentials(), [0x52, 0x54, 0, 0x77, 3, 1]);
    fake.state().set_quirks(serde_json::from_value(quirks.clone()).unwrap());
    fake
}

impl Bench {
    /// A BMC with these quirks: what a test may look into, and where it is asked.
    pub(crate) fn bmc(&self, quirks: &Value) -> (Fake, String) {
        let fake = fake(quirks);
        let listener = self.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let origin = format!("redfish+http://{}", listener.local_addr().unwrap());
        self.runtime.spawn(fake.clone().serve(listener));
        (fake, origin)
    }

    /// Runs the command as its admin.
    pub(crate) fn firesteel(&self, arguments: &[&str]) -> Output {
        self.appliance.command().args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Applies the objects, which must be taken.
    pub(crate) fn apply(&self, objects: &[Value]) {
        let text = objects.iter().map(|object| format!("---\n{object}\n")).collect::<String>();
        let mut child = self
            .appliance
            .command()
            .args(["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "apply: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Changes the spec of a host, as `kubectl patch --type merge` does.
    pub(crate) fn edit(&self, name: &str, spec: &Value) {
        self.patch(name, &json!({"spec": spec}));
    }

    /// Sets an annotation of a host, or removes it.
    pub(crate) fn annotate(&self, name: &str, key: &str, value: Option<&str>) {
        self.patch(name, &json!({"metadata": {"annotations": {key: value}}}));
    }

    fn patch(&self, name: &str, patch: &Value) {
        let connection = ConnectionOptions { kubeconfig: Some(self.appliance.kubeconfig()), namespace: None };
        let path = format!("/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts/{name}");
        self.runtime.block_on(async {
            let client = ApiClient::open(&connection).unwrap();
            client.merge_patch(&path, patch).await.unwrap();
        });
    }

    /// A host that is to be on, with a BMC at this address.
    pub(crate) fn add(&self, name: &str, address: &str) {
        self.add_with(name, address, &json!({}));
    }

    /// The same with more in its spec; what is null there is left out.
    pub(crate) fn add_with(&self, name: &str, address: &str, more: &Value) {
        let login = credentials();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-bmc")},
            "stringData": {"username": login.username, "password": login.password},
        });
        let mut spec = json!({
            "online": true, "bootMACAddress": MAC,
            "bmc": {
                "address": address, "credentialsName": format!("{name}-bmc"),
                "disableCertificateVerification": address.starts_with("redfish://"),
            },
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let host = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "spec": spec,
            // Its agent speaks from the appliance's own address, which no lease is of.
            "metadata": {"name": name, "annotations": {"firesteel.dev/boot-address": "any"}},
        });
        self.apply(&[secret, host]);
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        let output = self.firesteel(&["get", "hosts", name, "-o", "json"]);
        let host: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        host["status"].clone()
    }

    /// The first of what is looked for that is there.
    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let ends_at = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            if Instant::now() > ends_at {
                let seen = self.firesteel(&["get", "hosts", "-o", "json"]).stdout;
                let (seen, log) = (String::from_utf8_lossy(&seen).into_owned(), self.appliance.log());
                panic!("waited in vain: {what}:\n{seen}\n{log}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The error that the host shows.
    pub(crate) fn error(&self, name: &str) -> String {
        self.until(&format!("{name} shows an error"), || {
            let error = self.status(name)["errorMessage"].as_str().unwrap_or_default().to_owned();
            (!error.is_empty()).then_some(error)
        })
    }

    /// The host was switched on through its BMC, and shows no error; what the BMC did.
    pub(crate) fn is_driven(&self, name: &str, fake: &Fake) -> String {
        self.until(&format!("{name} is on"), || {
            let status = self.status(name);
            (status["poweredOn"] == true).then_some(()).or_else(|| {
                let error = status["errorMessage"].as_str().unwrap_or_default();
                assert_eq!(error, "", "{name}");
                None
            })
        });
        format!("on, after {:?}", fake.state().resets)
    }

    /// A condition of the host, as soon as it is there.
    pub(crate) fn condition(&self, name: &str, kind: &str) -> Value {
        self.until(&format!("{name} has the condition {kind}"), || self.find_condition(name, kind))
    }

    pub(crate) fn find_condition(&self, name: &str, kind: &str) -> Option<Value> {
        let status = self.status(name);
        status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind).cloned()
    }
}
