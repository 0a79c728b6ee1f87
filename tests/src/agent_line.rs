//! The line between an agent without a machine and the appliance: a key, a token of a boot, signed messages. What the
//! agent does and says is its test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firesteel_boot::RoutePath;
use firesteel_wire::{
    AgentReport, HELLO_PATH, Hello, Program, PublicKey, REPORT_PATH, SIGNATURE_HEADER, SmbiosIdentity, signing_input,
};
use reqwest::{Client, ClientBuilder, Response};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;

use crate::network::ADDRESS;

/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(50);

/// One boot of one machine.
#[derive(Debug)]
pub struct AgentLine {
    http: Client,
    pair: Ed25519KeyPair,
    mac: String,
    boot: u8,
    /// What its SMBIOS says.
    uuid: String,
    serial: String,
    token: String,
    reports: u64,
}

impl AgentLine {
    /// The machine with this MAC in its `boot`-th boot, against the appliance whose data are in the folder.
    #[must_use]
    pub fn new(data: &Path, mac: &str, boot: u8) -> Self {
        Self {
            http: client(&fs::read(data.join("pki/ca.crt")).unwrap()),
            pair: Ed25519KeyPair::from_seed_unchecked(&[boot; 32]).unwrap(),
            mac: mac.to_owned(),
            boot,
            uuid: String::new(),
            serial: String::new(),
            token: String::new(),
            reports: 0,
        }
    }

    /// Says so of its machine.
    pub fn is_machine(&mut self, uuid: &str, serial: &str) {
        (self.uuid, self.serial) = (uuid.to_owned(), serial.to_owned());
    }

    /// Counts from 1.
    #[must_use]
    pub fn boot(&self) -> u8 {
        self.boot
    }

    /// Boots by a boot script that was fetched before, and says hello.
    pub async fn hello_with(&mut self, script: &str, program: Program) -> Response {
        self.take(script);
        for file in ["kernel", "initramfs"] {
            assert_eq!(self.fetch(file, None).await, Some(200), "{file}");
        }
        self.hello(program).await
    }

    /// Takes the token of a boot script.
    pub fn take(&mut self, script: &str) {
        self.token = token_of(script).unwrap_or_else(|| panic!("no token of a kernel in {script}"));
    }

    /// Boots the machine, whose agent says hello; `None` while its boot script has no token, or is out of date.
    pub async fn come(&mut self, program: Program) -> Option<Response> {
        let url = format!("http://{ADDRESS}:8080/boot.ipxe?mac={}&platform=efi", self.mac.replace(':', "-"));
        let script = self.http.get(url).send().await.ok()?.text().await.ok()?;
        self.token = token_of(&script)?;
        for file in ["kernel", "initramfs"] {
            self.fetch(file, None).await.filter(|status| *status == 200)?;
        }
        Some(self.hello(program).await)
    }

    /// Fetches a file that belongs to the token, or a range of it; the status of the answer, which was read to its end.
    pub async fn fetch(&self, file: &str, range: Option<&str>) -> Option<u16> {
        self.fetch_bytes(file, range).await.map(|(status, _)| status)
    }

    /// Fetches a file that belongs to the token, or a range of it; status and body of the answer.
    pub async fn fetch_bytes(&self, file: &str, range: Option<&str>) -> Option<(u16, Bytes)> {
        let mut request = self.http.get(format!("http://{ADDRESS}:8080/boot/{}/{file}", self.token));
        if let Some(range) = range {
            request = request.header("range", range);
        }
        // After a start the API is there before the listeners for machines are, and old connections are dead.
        let ends_at = Instant::now() + PATIENCE;
        let answer = loop {
            match request.try_clone()?.send().await {
                Err(_) if Instant::now() < ends_at => tokio::time::sleep(AGAIN).await,
                answer => break answer.ok()?,
            }
        };
        let status = answer.status().as_u16();
        answer.bytes().await.ok().map(|bytes| (status, bytes))
    }

    /// Says hello with the token that it has.
    pub async fn hello(&self, program: Program) -> Response {
        let hello = Hello {
            token: self.token.clone(),
            key: self.key(),
            identity: SmbiosIdentity {
                boot_mac: self.mac.clone(),
                uuid: self.uuid.clone(),
                serial: self.serial.clone(),
                ..SmbiosIdentity::default()
            },
            agent_version: "0.1.0".to_owned(),
            kernel_version: "6.1".to_owned(),
            uptime_ms: 1000,
            boot_id: self.boot_id(),
            network: None,
            program,
        };
        self.say(HELLO_PATH, &hello).await
    }

    /// The next report, in which nothing is said so far.
    pub fn next_report(&mut self) -> AgentReport {
        self.reports += 1;
        AgentReport {
            token: self.token.clone(),
            key: self.key(),
            boot_id: self.boot_id(),
            sequence: self.reports,
            uptime_ms: 1000 * (self.reports + 1),
            plan: 0,
            steps: Vec::new(),
            receipts: Vec::new(),
            neighbours: Vec::new(),
            idle: false,
            leaving: false,
            log: Vec::new(),
        }
    }

    /// Sends a report.
    pub async fn report(&self, report: &AgentReport) -> Response {
        self.say(REPORT_PATH, report).await
    }

    async fn say(&self, path: &str, message: &impl Serialize) -> Response {
        let body = serde_json::to_vec(message).unwrap();
        let signature = hex::encode(self.pair.sign(&signing_input(path, &body)));
        let request = self.http.post(format!("https://{ADDRESS}:8443{path}")).header(SIGNATURE_HEADER, signature);
        let request = request.header("content-type", "application/json").body(body);
        let ends_at = Instant::now() + PATIENCE;
        loop {
            match request.try_clone().unwrap().send().await {
                Err(error) if error.is_connect() && Instant::now() < ends_at => tokio::time::sleep(AGAIN).await,
                answer => return answer.unwrap(),
            }
        }
    }

    /// The key of its boot.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        PublicKey(self.pair.public_key().as_ref().try_into().unwrap())
    }

    fn boot_id(&self) -> String {
        format!("boot-{}", self.boot)
    }
}

/// The token of the kernel in a boot script.
#[must_use]
pub fn token_of(script: &str) -> Option<String> {
    let base = format!("http://{ADDRESS}:8080");
    let mut paths = script.split_ascii_whitespace().filter_map(|word| word.strip_prefix(base.as_str()));
    paths.find_map(|path| match RoutePath::parse(path) {
        Some(RoutePath::Kernel { token }) => Some(token),
        Some(_) | None => None,
    })
}

/// A client that trusts the appliance's own CA alone; in an overlap both.
#[must_use]
pub fn client(ca_pem: &[u8]) -> Client {
    // A connection that is kept may have been closed by the other side, however short the pause seems to be.
    builder(ca_pem).pool_max_idle_per_host(0).build().unwrap()
}

/// The same, which keeps its connections: for who asks without a pause.
#[must_use]
pub fn keeping_client(ca_pem: &[u8]) -> Client {
    builder(ca_pem).build().unwrap()
}

fn builder(ca_pem: &[u8]) -> ClientBuilder {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(ca_pem) {
        roots.add(ca.unwrap()).unwrap();
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls).no_proxy()
}
