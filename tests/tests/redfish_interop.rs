//! The Redfish client against sushy-tools' emulator with its fake driver: a service that was written to test
//! another client, and knows nothing of ours.
//!
//! It takes 1 to 11 s for each change of power, which is what the read-back waits for; "Once" is
//! "Continuous" to it; it has no sessions, and the Basic authentication of a file. On loopback, on a free
//! port; without the program a test says so and passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_bmc::inventory::SecureBootSeen;
use firesteel_bmc::{
    BmcBootMode, BmcCredentials, BmcTimeouts, BmcUrl, BootSet, Error, NextBootSource, PowerAction, PowerSet,
    PowerState, Redfish, RedfishClient, Tls,
};
use firesteel_facts::Mac;
use firesteel_tests::dialing::dialer;

const PYTHON: &str = "python-bmc-peers";
const EMULATOR: &str = "import sys; from sushy_tools.emulator.main import main; sys.exit(main())";
const ONE: &str = "27946b59-9e44-4fa7-8e91-f3527a1ef094";
const TWO: &str = "27946b59-9e44-4fa7-8e91-f3527a1ef095";
/// Of "correct horse", by bcrypt.
const HTPASSWD: &str = "admin:$2b$04$yrDh92sEtUTEgDv3D3TbNOBWJZYkeg4zX3v8QFzpyLtFOW2k5D40S\n";
/// Python takes a moment to start, and on a busy machine many.
const START_MAX: Duration = Duration::from_secs(120);
/// Three times the emulator's slowest change, for a machine that is busy.
const PATIENCE: BmcTimeouts = BmcTimeouts {
    request: Duration::from_secs(60),
    read_back: Duration::from_secs(60),
    pause: Duration::from_millis(300),
};

struct Emulator {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Emulator {
    /// `None` where there is no emulator.
    fn start() -> Option<Self> {
        let found = Command::new(PYTHON).args(["-c", "import sushy_tools"]).stdin(Stdio::null()).output();
        if !found.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no {PYTHON} with sushy-tools here; `./qemu/lab test` brings it");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("state")).unwrap();
        fs::write(path("htpasswd"), HTPASSWD).unwrap();
        let system = |uuid: &str, name: &str, power: &str, nics: &str| {
            format!("{{'uuid': '{uuid}', 'name': '{name}', 'power_state': '{power}', 'nics': [{nics}]}}")
        };
        let config = format!(
            "SUSHY_EMULATOR_AUTH_FILE = '{}'\nSUSHY_EMULATOR_STATE_DIR = '{}'\nSUSHY_EMULATOR_FAKE_SYSTEMS = [{}, {}]\n",
            path("htpasswd").display(),
            path("state").display(),
            system(ONE, "one", "Off", "{'mac': '52:54:00:01:02:03', 'ip': '192.0.2.9'}"),
            system(TWO, "two", "On", ""),
        );
        fs::write(path("emulator.conf"), config).unwrap();
        // Free a moment ago; nobody else on loopback looks for one of these.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(PYTHON)
            .args(["-c", EMULATOR, "--fake", "--interface", "127.0.0.1", "--port", &port.to_string(), "--config"])
            .arg(path("emulator.conf"))
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let emulator = Self { child, port, _folder: folder };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < START_MAX, "the emulator does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(emulator)
    }

    fn address(&self, scheme: &str, system: &str) -> BmcUrl {
        let system = if system.is_empty() { String::new() } else { format!("/redfish/v1/Systems/{system}") };
        BmcUrl::parse(&format!("{scheme}+http://127.0.0.1:{}{system}", self.port)).unwrap()
    }

    async fn connect(&self, system: &str) -> RedfishClient {
        login(&self.address("redfish", system), "correct horse").await.unwrap()
    }
}

async fn login(address: &BmcUrl, password: &str) -> Result<RedfishClient, Error> {
    let credentials = BmcCredentials { username: "admin".into(), password: password.into() };
    Redfish::connect_on(Arc::default(), &dialer(), address, &credentials, &Tls::default(), PATIENCE).await
}

#[tokio::test]
async fn logins_systems_and_identity() {
    let Some(emulator) = Emulator::start() else { return };
    assert_eq!(login(&emulator.address("redfish", ONE), "wrong").await.unwrap_err(), Error::Unauthorized);
    let several = login(&emulator.address("redfish", ""), "correct horse").await.unwrap_err();
    assert!(matches!(several, Error::SeveralSystems { count: 2, .. }), "{several:?}");
    let missing = login(&emulator.address("redfish", "none-of-these"), "correct horse").await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing:?}");
    let client = login(&emulator.address("redfish-virtualmedia", ONE), "correct horse").await.unwrap();
    let seen = client.identify().await.unwrap();
    assert_eq!((seen.power, seen.macs), (PowerState::Off, vec![Mac([0x52, 0x54, 0, 1, 2, 3])]));
    assert_eq!((seen.manufacturer.as_deref(), seen.uuid.as_deref()), (Some("Sushy Emulator"), Some(ONE)));
    assert_eq!(seen.boot_mode, Some(BmcBootMode::Uefi));
    assert!(seen.resets_allowed.contains(&"ForceOff".to_owned()));
    let inventory = client.inventory(Duration::from_secs(60)).await.unwrap();
    assert_eq!((inventory.health.as_deref(), inventory.manager_firmware.as_deref()), (Some("OK"), Some("1.00")));
    let secure_boot =
        SecureBootSeen { is_enabled: Some(false), was_enabled: Some(false), mode: Some("DeployedMode".into()) };
    assert_eq!(inventory.secure_boot, Some(secure_boot));
    // It names these and does not have them.
    assert_eq!(inventory.left_out[0], "memory modules: the BMC answers 404");
    client.close().await;
}

#[tokio::test]
async fn power_is_read_back_however_long_it_takes() {
    let Some(emulator) = Emulator::start() else { return };
    let client = emulator.connect(ONE).await;
    assert_eq!(client.change_power(PowerAction::ForceOff).await, Ok(PowerSet::Nothing));
    assert_eq!(client.change_power(PowerAction::On).await, Ok(PowerSet::Confirmed));
    assert_eq!(client.power().await, Ok(PowerState::On));
    assert_eq!(client.change_power(PowerAction::ForceOff).await, Ok(PowerSet::Confirmed));
    assert_eq!(client.power().await, Ok(PowerState::Off));
    let two = emulator.connect(TWO).await;
    assert_eq!(two.change_power(PowerAction::GracefulOff).await, Ok(PowerSet::Unconfirmed), "the OS decides when");
    let begin = Instant::now();
    while two.power().await != Ok(PowerState::Off) {
        assert!(begin.elapsed() < PATIENCE.read_back, "it never goes off");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// What the emulator does with an override is told as it is, and taken back.
#[tokio::test]
async fn an_override_that_it_keeps_is_unverified_and_taken_back() {
    let Some(emulator) = Emulator::start() else { return };
    let client = emulator.connect(ONE).await;
    assert_eq!(client.free_boot().await, Ok(None), "the disk, always, is no override");
    for target in [NextBootSource::Pxe, NextBootSource::Cd] {
        let Ok(BootSet::Unverified { seen }) = client.set_boot_once(target, None).await else { panic!("{target:?}") };
        assert!(seen.ends_with(&format!("the system says Continuous {}", target.as_str())), "{seen}");
        assert_eq!(client.free_boot().await, Ok(Some(BootSet::Confirmed)));
        assert_eq!(client.identify().await.unwrap().boot_target.as_deref(), Some("Hdd"));
    }
    let legacy = client.set_boot_once(NextBootSource::Pxe, Some(BmcBootMode::Legacy)).await;
    assert!(matches!(legacy, Ok(BootSet::Unverified { .. })), "{legacy:?}");
    assert_eq!(client.identify().await.unwrap().boot_mode, Some(BmcBootMode::Legacy));
    client.set_boot_once(NextBootSource::None, Some(BmcBootMode::Uefi)).await.unwrap();
    // Not a boot by HTTP, so it is not passed off as one.
    let error = client.set_boot_once(NextBootSource::UefiHttp, None).await.unwrap_err();
    assert!(error.to_string().contains("attaches it as a CD"), "{error}");
}
