//! An appliance with a network, its Provisioning object, and what a machine on the network is answered.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_tests::appliance::Appliance;
use firesteel_tests::network::{ADDRESS, PROVISIONING, with_appliance};
use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const NAME: &str = "provisioning-configuration";
/// Only what never comes is waited for so long.
const PATIENCE: Duration = Duration::from_secs(240);

/// An appliance that serves a network.
pub(crate) struct Site {
    pub(crate) appliance: Appliance,
}

/// Runs a test with an appliance in a network of its own.
pub(crate) fn with_site(test: impl FnOnce(&mut Site) + Send + 'static) {
    with_appliance(PROGRAM, |appliance| test(&mut Site { appliance }));
}

impl Site {
    /// Runs a command that must succeed.
    pub(crate) fn firesteel(&self, arguments: &[&str]) -> String {
        let output = self.appliance.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the object; null where there is none.
    pub(crate) fn object(&self) -> Value {
        let output = self.appliance.command().args(["get", "provisioning", NAME, "-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Sets fields of the spec; null takes one away.
    pub(crate) fn edit(&self, fields: &Value) {
        let text = fs::read_to_string(self.appliance.folder().join(PROVISIONING)).unwrap();
        let mut object: Value = serde_json::from_str(&text).unwrap();
        let spec = object["spec"].as_object_mut().unwrap();
        spec.extend(fields.as_object().unwrap().clone());
        spec.retain(|_, value| !value.is_null());
        let path = self.appliance.folder().join(PROVISIONING);
        fs::write(&path, object.to_string()).unwrap();
        self.firesteel(&["apply", "-f", path.to_str().unwrap()]);
    }

    /// Waits until the object is so.
    pub(crate) fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let object = self.object();
            if is_so(&object) {
                return object;
            }
            assert!(Instant::now() < ends_at, "the object stays {object:#}\n{}", self.appliance.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all services run and the image is there.
    pub(crate) fn until_complete(&self) {
        self.until(|object| {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(-1);
            object["status"]["observedGeneration"].as_i64() == Some(generation)
                && condition(object, "Available")["reason"] == "DeployComplete"
        });
    }

    /// Fetches a path of the boot listener: the status, and the body without following where it leads.
    pub(crate) fn get(&self, path: &str) -> (u16, Vec<u8>, Option<String>) {
        let url = format!("http://{ADDRESS}:8080{path}");
        runtime().block_on(async move {
            // Another test may have installed one.
            drop(rustls::crypto::ring::default_provider().install_default());
            let policy = reqwest::redirect::Policy::none();
            let client = reqwest::Client::builder().no_proxy().redirect(policy).build().unwrap();
            // After a start the API is there before the listeners for machines are.
            let ends_at = Instant::now() + PATIENCE;
            let answer = loop {
                match client.get(&url).send().await {
                    Ok(answer) => break answer,
                    Err(error) => assert!(Instant::now() < ends_at, "the boot listener does not answer: {error}"),
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            let location = answer.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
            (answer.status().as_u16(), answer.bytes().await.unwrap().to_vec(), location)
        })
    }

    /// Returns the names of the images in the store.
    pub(crate) fn images(&self) -> Vec<String> {
        let names = fs::read_dir(self.appliance.data().join("images")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".raw.zst")).collect();
        names.sort();
        names
    }

    /// Returns the lines of the log that say that services were started, adjusted or stopped.
    pub(crate) fn service_steps(&self) -> Vec<String> {
        let log = self.appliance.log();
        log.lines().filter(|line| line.contains("the service is ")).map(str::to_owned).collect()
    }

    /// Deletes the object, and says what the command said.
    pub(crate) fn delete(&self) -> (bool, String) {
        let mut command: Command = self.appliance.command();
        let output = command.args(["delete", "provisioning", NAME, "--yes"]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A client that trusts the appliance's CA, and compares the server's name.
pub(crate) fn trusting_client(appliance: &Appliance) -> reqwest::Client {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&appliance.ca_pem()).unwrap()).unwrap();
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}

pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|condition| condition["type"] == type_)).unwrap_or(&Value::Null)
}

/// The image of a disk that compresses like that of a system.
pub(crate) fn disk(mib: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0_u8; mib << 20];
    let mut state = 0x9e37_79b9_u32 ^ (u32::from(seed) << 8);
    for chunk in bytes.chunks_mut(3) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        chunk[0] = state.to_be_bytes()[0];
    }
    // The signature of a boot sector: bytes that mean nothing are no image.
    (bytes[510], bytes[511]) = (0x55, 0xaa);
    bytes
}

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The field that names an OS image.
pub(crate) fn os_image(url: &str) -> Value {
    json!({"provisioningOSDownloadURL": url})
}
