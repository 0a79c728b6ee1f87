//! The line between an agent without a machine and the appliance: a key, a token of a boot, signed messages. What the
//! agent does and says is its test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use std::{fs, path::Path, sync::Arc};

use firesteel_boot::RoutePath;
use firesteel_wire::{
    HELLO_PATH, Hello, Identity, Program, PublicKey, REPORT_PATH, Report, SIGNATURE_HEADER, signing_input,
};
use reqwest::{Client, Response};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde::Serialize;

use crate::network::ADDRESS;

/// One boot of one machine.
#[derive(Debug)]
pub struct AgentLine {
    http: Client,
    pair: Ed25519KeyPair,
    mac: String,
    boot: u8,
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
            token: String::new(),
            reports: 0,
        }
    }

    /// Counts from 1.
    #[must_use]
    pub fn boot(&self) -> u8 {
        self.boot
    }

    /// Says hello with the token of a boot script that was fetched before.
    pub async fn hello_with(&mut self, script: &str, program: Program) -> Response {
        self.token = token_of(script).unwrap_or_else(|| panic!("no token of a kernel in {script}"));
        self.hello(program).await
    }

    /// Fetches the machine's boot script and says hello with its token; `None` while the script has none.
    pub async fn come(&mut self, program: Program) -> Option<Response> {
        let url = format!("http://{ADDRESS}:8080/boot.ipxe?mac={}&platform=efi", self.mac.replace(':', "-"));
        let script = self.http.get(url).send().await.ok()?.text().await.ok()?;
        self.token = token_of(&script)?;
        Some(self.hello(program).await)
    }

    async fn hello(&self, program: Program) -> Response {
        let hello = Hello {
            token: self.token.clone(),
            key: self.key(),
            identity: Identity { boot_mac: self.mac.clone(), ..Identity::default() },
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
    pub fn next_report(&mut self) -> Report {
        self.reports += 1;
        Report {
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
    pub async fn report(&self, report: &Report) -> Response {
        self.say(REPORT_PATH, report).await
    }

    async fn say(&self, path: &str, message: &impl Serialize) -> Response {
        let body = serde_json::to_vec(message).unwrap();
        let signature = hex::encode(self.pair.sign(&signing_input(path, &body)));
        let request = self.http.post(format!("https://{ADDRESS}:8443{path}")).header(SIGNATURE_HEADER, signature);
        request.header("content-type", "application/json").body(body).send().await.unwrap()
    }

    fn key(&self) -> PublicKey {
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

/// A client that trusts the appliance's own CA alone.
fn client(ca_pem: &[u8]) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem).unwrap()).unwrap();
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}
