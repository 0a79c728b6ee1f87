//! Serial consoles, read through BMCs that speak IPMI over real sockets: what one says is foreign text with secrets
//! in it, and whatever a BMC does with it, the host's work goes on.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use firesteel_bmc::BmcCredentials;
use firesteel_bmc_fakes::ipmi::FakeIpmi;
use firesteel_boot::{BootAsker, BootSeal, BootTokenClaims, Purpose, Sealer};
use firesteel_control::CONSOLE;
use firesteel_facts::Sha256;
use firesteel_kube::logs::{Logs as _, Pod};
use firesteel_resources::bare_metal_host::{BmcDetails, ProvisioningState};
use firesteel_resources::{Secret, secret::SecretBytes};
use firesteel_wire::{limits::LOG_LINE_BYTES_MAX, text::is_hidden};
use tokio::net::UdpSocket;

use crate::appliance::{Appliance, NAMESPACE, until};

const PASSWORD: &str = "correct horse";
/// To have the console opened (table 24-2).
const ACTIVATE: (u8, u8) = (0x06, 0x48);
/// Whether the host is on.
const STATUS: (u8, u8) = (0x00, 0x01);

/// A BMC and its host, whose console is read as soon as the host is worked on.
async fn add(appliance: &Appliance, change: impl FnOnce(&FakeIpmi)) -> FakeIpmi {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ipmi://{}", socket.local_addr().unwrap());
    let fake = FakeIpmi::new(BmcCredentials { username: "admin".into(), password: PASSWORD.into() }, 3);
    fake.state().serial = Some(VecDeque::new());
    change(&fake);
    tokio::spawn(fake.clone().serve(socket));
    let mut login = Secret::default();
    "login".clone_into(&mut login.metadata.name);
    NAMESPACE.clone_into(&mut login.metadata.namespace);
    for (key, value) in [("username", "admin"), ("password", PASSWORD)] {
        login.data.insert(key.to_owned(), SecretBytes(value.as_bytes().to_vec()));
    }
    appliance.secrets.create(&login).await.unwrap();
    let bmc = BmcDetails { address, credentials_name: "login".into(), ..BmcDetails::default() };
    appliance.add_with("host", "02:00:00:00:0c:01", None, |host| host.spec.bmc = Some(bmc)).await;
    fake
}

fn log(appliance: &Appliance) -> Vec<String> {
    let pod = Pod { namespace: NAMESPACE, name: "host", container: CONSOLE };
    appliance.control.logs().lines(&pod, 0).into_iter().map(|line| line.text).collect()
}

/// The host was switched on, and no call to its BMC is under way any more. The clock stands still: a wait must have
/// begun before it is moved on.
async fn waits_for_its_agent(appliance: &Appliance, fake: &FakeIpmi) {
    until("the host waits for its agent", async || {
        appliance.journal("host").await.status.reason.is_some_and(|reason| reason.text.contains("agent's hello"))
    })
    .await;
    until("only the console has a session", async || fake.state().places() == 1).await;
}

async fn is_told(appliance: &Appliance, part: &str) {
    until(&format!("the log has {part:?}"), async || log(appliance).iter().any(|line| line.contains(part))).await;
}

/// The host was switched on for its inspection, and nothing is said against it.
async fn is_worked_on(appliance: &Appliance, fake: &FakeIpmi) {
    until("the host is switched on", async || fake.state().is_on).await;
    let status = appliance.status("host").await;
    assert_eq!((status.provisioning.state, &*status.error_message), (ProvisioningState::Inspecting, ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_console_says_is_told_without_secrets_and_without_what_moves_a_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(folder.path()).await;
    let claims = BootTokenClaims {
        purpose: Purpose::Agent,
        subject: "421a9f10-5e2c-4b77-9120-525400010203".to_owned(),
        attempt: 1,
        expires_s: u64::MAX,
        boot: Some(BootSeal {
            grant: 1_800_000_000_000,
            asker: BootAsker::Leased([10, 77, 0, 100].into()),
            kernel: Sha256([1; 32]),
            initramfs: Sha256([2; 32]),
            agent: Some(Sha256([3; 32])),
        }),
    };
    let token = Sealer::new(&[7; 32]).seal(&claims).unwrap().into_string();
    let url = format!("http://192.0.2.1:8080/boot/{token}/initramfs... ok\r\n");
    let wrapped: Vec<u8> = url.as_bytes().chunks(80).flat_map(|line| [line, b"\r\n"].concat()).collect();
    let text = [
        &b"\x1b[2J\x1b[01;01H\x1b[=3hBdsDxe: loading Boot0001\r\n"[..],
        url.as_bytes(),
        &wrapped,
        b"root logs in with correct horse, \xff\x00\x07",
        &[b'x'; 5000],
        b"\x1b]0;title\x07\r\n\x1b[31mthe last line\x1b[0m",
    ]
    .concat();
    let fake = add(&appliance, |fake| fake.state().serial = Some(text.chunks(200).map(<[u8]>::to_vec).collect())).await;
    // It does not end its last line: that is told all the same.
    is_told(&appliance, "the last line").await;
    is_worked_on(&appliance, &fake).await;
    let told = log(&appliance);
    assert_eq!(told[..2], ["firesteel: the serial console is read", "BdsDxe: loading Boot0001"]);
    assert_eq!(told[2], "http://192.0.2.1:8080/boot/[redacted]/initramfs... ok");
    for line in &told {
        assert!(line.len() <= LOG_LINE_BYTES_MAX && !line.chars().any(is_hidden), "{line:?}");
        assert!(!line.contains(PASSWORD), "{line:?}");
    }
    let all = told.concat();
    for part in token.as_bytes().windows(12) {
        let part = std::str::from_utf8(part).unwrap();
        assert!(!all.contains(part), "{part} of {token} in {told:?}");
    }
    assert_eq!(all.matches('x').count(), 5000 + all.matches("Dxe").count(), "{told:?}");
    // Its end is the end of the console.
    let delete = appliance.hosts.delete(NAMESPACE, "host").await;
    assert!(delete.is_ok());
    until("the console is let go", async || !fake.state().is_listened_to()).await;
    until("so are all sessions", async || fake.state().places() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bmc_without_a_console_is_asked_once_and_its_host_worked_on() {
    let folder = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(folder.path()).await;
    let fake = add(&appliance, |fake| fake.state().serial = None).await;
    is_told(&appliance, "firesteel: the serial console cannot be read: the BMC has none").await;
    is_worked_on(&appliance, &fake).await;
    for _ in 0..5 {
        appliance.touch("host").await;
    }
    until("no session is left", async || fake.state().places() == 0).await;
    let asked = fake.state().requests.iter().filter(|request| **request == ACTIVATE).count();
    assert_eq!((asked, log(&appliance).len()), (1, 1));
}

/// Somebody else listens, and stops; then the password changes in the BMC: a console that knows it is wrong is quiet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_waits_for_others_and_never_tries_a_password_twice() {
    let folder = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(folder.path()).await;
    let fake = add(&appliance, |fake| fake.state().is_serial_taken = true).await;
    is_told(&appliance, "firesteel: somebody else listens to the serial console").await;
    is_worked_on(&appliance, &fake).await;
    {
        let mut state = fake.state();
        state.is_serial_taken = false;
        state.serial = Some(vec![b"it is free\n".to_vec()].into());
    }
    is_told(&appliance, "it is free").await;
    waits_for_its_agent(&appliance, &fake).await;
    {
        let mut state = fake.state();
        state.credentials.password = "another".into();
        state.end_console();
    }
    is_told(&appliance, "firesteel: the serial console has ended").await;
    is_told(&appliance, "the BMC has another password for this user").await;
    let opened = fake.state().opened;
    // Longer than the pause between two looks.
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    assert_eq!(fake.state().opened, opened, "it waits until the host's own work has logged in");
}

/// A BMC with room for one session: it is the work's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_gives_way_where_the_bmc_has_no_session_left() {
    let folder = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(folder.path()).await;
    let fake = add(&appliance, |_| {}).await;
    is_told(&appliance, "firesteel: the serial console is read").await;
    is_worked_on(&appliance, &fake).await;
    waits_for_its_agent(&appliance, &fake).await;
    fake.state().places_max = 1;
    // The host was to say hello: its BMC is asked whether it is on.
    let asked = |fake: &FakeIpmi| fake.state().requests.iter().filter(|request| **request == STATUS).count();
    let before = asked(&fake);
    appliance.ahead_s.fetch_add(61, Ordering::SeqCst);
    until("the BMC is asked", async || {
        appliance.touch("host").await;
        asked(&fake) > before
    })
    .await;
    is_told(&appliance, "firesteel: the serial console is let go for a while").await;
    assert_eq!(appliance.status("host").await.error_message, "");
}
