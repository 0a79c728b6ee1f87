//! An appliance that serves machines too, and an agent that speaks to it without a machine below it.
//!
//! ```text
//!   the test's thread, in a network namespace of its own
//!     s0 10.77.0.1 ── veth ── c0      firesteel serve, kubectl, the agent: all by 10.77.0.1
//! ```

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_boot::RoutePath;
use firesteel_tests::appliance::Appliance;
use firesteel_tests::network::{ADDRESS, BOOT_FILES, PROVISIONING, ip, prepare};
use firesteel_wire::{
    HELLO_PATH, Hello, Identity, LogLine, LogSource, PublicKey, REPORT_PATH, Report, SIGNATURE_HEADER, signing_input,
};
use nix::sched::{CloneFlags, unshare};
use reqwest::{Client, Response};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::client::{Kubectl, Version};

pub(crate) const MAC: &str = "52:54:00:77:02:01";
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);
const BOOT_ID: &str = "boot-1";

/// Runs a test with a kubectl of this version and such an appliance, in a network namespace that ends with it.
pub(crate) fn with_machines(version: Version, test: fn(&Kubectl)) {
    if !version.is_here() {
        return;
    }
    // A thread's namespace is its own: tests that run beside this one keep theirs.
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace of its own takes root");
        for command in [
            "link set lo up",
            "link add s0 type veth peer name c0",
            "address add 10.77.0.1/24 dev s0",
            "link set s0 up",
            "link set c0 up",
        ] {
            ip(command);
        }
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let arguments =
            ["--interface", "s0", "--provisioning", PROVISIONING, "--boot-files", BOOT_FILES, "--loaders", BOOT_FILES];
        let program = env!("CARGO_BIN_EXE_firesteel-tested");
        let appliance = Appliance::start_whole(program, &format!("{ADDRESS}:6443"), &arguments, folder);
        test(&Kubectl::new(version, appliance));
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// An agent that has said hello.
pub(crate) struct Agent {
    runtime: Runtime,
    http: Client,
    pair: Ed25519KeyPair,
    token: String,
    reports: u64,
    lines: u64,
}

impl Agent {
    /// Boots a machine of a host with this [`MAC`], as soon as the appliance knows the host.
    pub(crate) fn boot(kubectl: &Kubectl) -> Self {
        // On this thread alone, so that its sockets are in this namespace.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let http = client(&fs::read(kubectl.appliance.data().join("pki/ca.crt")).unwrap());
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let mut agent = Self { runtime, http, pair, token: String::new(), reports: 0, lines: 0 };
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let said = agent.token().map(|token| {
                agent.token = token;
                agent.hello()
            });
            match said.as_ref().map(|answer| answer.status().as_u16()) {
                Some(200) => return agent,
                // A machine that asked for its script before its host was known boots again.
                None | Some(410) => {}
                Some(_) => panic!("hello: {said:?}"),
            }
            assert!(Instant::now() < ends_at, "no boot script has a token:\n{}", kubectl.appliance.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The token of the kernel in the host's boot script.
    fn token(&self) -> Option<String> {
        let base = format!("http://{ADDRESS}:8080");
        let url = format!("{base}/boot.ipxe?mac={}&platform=efi", MAC.replace(':', "-"));
        let script = self.runtime.block_on(async { self.http.get(url).send().await.ok()?.text().await.ok() })?;
        let mut paths = script.split_ascii_whitespace().filter_map(|word| word.strip_prefix(base.as_str()));
        paths.find_map(|path| match RoutePath::parse(path) {
            Some(RoutePath::Kernel { token }) => Some(token),
            Some(_) | None => None,
        })
    }

    fn key(&self) -> PublicKey {
        PublicKey(self.pair.public_key().as_ref().try_into().unwrap())
    }

    fn hello(&self) -> Response {
        self.say(
            HELLO_PATH,
            &Hello {
                token: self.token.clone(),
                key: self.key(),
                identity: Identity { boot_mac: MAC.to_owned(), ..Identity::default() },
                agent_version: "0.1.0".to_owned(),
                kernel_version: "6.1".to_owned(),
                uptime_ms: 1000,
                boot_id: BOOT_ID.to_owned(),
                network: None,
                program: firesteel_wire::Program::default(),
            },
        )
    }

    /// Reports these lines.
    pub(crate) fn report(&mut self, lines: &[(LogSource, &str)]) {
        self.reports += 1;
        let numbered = (self.lines + 1..).zip(lines);
        let log = numbered.map(|(sequence, (source, text))| LogLine {
            sequence,
            uptime_ms: 1000,
            source: *source,
            severity: 6,
            text: (*text).to_owned(),
        });
        let report = Report {
            token: self.token.clone(),
            key: self.key(),
            boot_id: BOOT_ID.to_owned(),
            sequence: self.reports,
            uptime_ms: 1000,
            plan: 0,
            steps: Vec::new(),
            receipts: Vec::new(),
            neighbours: Vec::new(),
            idle: false,
            leaving: false,
            log: log.collect(),
        };
        self.lines += lines.len() as u64;
        let answer = self.say(REPORT_PATH, &report);
        assert_eq!(answer.status(), 200, "{answer:?}");
    }

    fn say(&self, path: &str, message: &impl Serialize) -> Response {
        let body = serde_json::to_vec(message).unwrap();
        let signature = hex::encode(self.pair.sign(&signing_input(path, &body)));
        let request = self.http.post(format!("https://{ADDRESS}:8443{path}")).header(SIGNATURE_HEADER, signature);
        let request = request.header("content-type", "application/json").body(body);
        self.runtime.block_on(request.send()).unwrap()
    }
}

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
