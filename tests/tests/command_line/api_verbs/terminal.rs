//! What is printed into a terminal and into a pipe, letter by letter.
//!
//! After an intended change, run the tests with `UPDATE_GOLDEN=1`, which writes the texts again.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use firesteel_cli::{ApiClient, ConnectionOptions};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::Termios;
use serde_json::json;

use super::{CommandLine, text};

/// A URL that is longer than a terminal is wide.
const LONG_URL: &str = "https://images.example.org/streams/stable/builds/41.20260101.3.0/x86_64/fedora-coreos-41.20260101.3.0-metal.x86_64.raw.xz";

/// Pages that have no ages.
const PAGES: [&[&str]; 6] = [
    &["get", "hosts"],
    &["get", "hosts", "-A"],
    &["get", "hostgroups"],
    &["plan", "a"],
    &["receipt", "list"],
    &["explain", "hosts.spec.rootDeviceHints"],
];

/// Commands that fail, each in another way.
const ERRORS: [&[&str]; 14] = [
    &["get", "hosts", "none"],
    &["get", "racks"],
    &["get", "hosts", "-o", "yml"],
    &["get", "hosts", "a", "-A"],
    &["get", "hosts", "-l", "rack in r1"],
    &["describe", "host", "none"],
    &["describe", "host", "52:54:00:00:00:09"],
    &["plan", "none"],
    &["logs", "none"],
    &["delete", "hosts"],
    &["wait", "host/a", "--for=jsonpath={.spec.online}=false", "--timeout=0"],
    &["explain", "hosts.spec.imag"],
    &["receipt", "export", "a"],
    &["--kubeconfig", "lost.kubeconfig", "get", "hosts"],
];

/// Runs a command in a terminal of this width; returns what stands on its screen.
fn in_terminal(command: &mut Command, columns: u16) -> String {
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(&size, None::<&Termios>).unwrap();
    let end = || Stdio::from(terminal.slave.try_clone().unwrap());
    let mut child = command.stdout(end()).stderr(end()).spawn().unwrap();
    // The terminal ends when no process has it open, this one included.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    drop(terminal.slave);
    let (mut screen, mut buffer) = (Vec::new(), [0; 4096]);
    let mut master = File::from(terminal.master);
    while let Ok(count @ 1..) = master.read(&mut buffer) {
        screen.extend_from_slice(&buffer[..count]);
    }
    child.wait().unwrap();
    text(&screen).replace("\r\n", "\n")
}

/// What a command prints: into a terminal of this width, or into a pipe.
fn printed(line: &CommandLine, arguments: &[&str], columns: Option<u16>) -> String {
    let mut command = line.command(arguments);
    // The width of the terminal counts, and no variable.
    command.env_remove("COLUMNS").env("TERM", "dumb").env("NO_COLOR", "1");
    let shown = match columns {
        Some(columns) => in_terminal(&mut command, columns),
        None => {
            let output = command.output().unwrap();
            text(&output.stdout) + &text(&output.stderr)
        }
    };
    format!("$ firesteel {}\n{}\n", arguments.join(" "), without_times(&shown))
}

/// Puts one time in place of all.
fn without_times(shown: &str) -> String {
    const TIME: &str = "2026-01-01T00:00:00Z";
    let is_like = |own: u8, known: u8| own == known || own.is_ascii_digit() && known.is_ascii_digit();
    let is_time = |text: &str| text.bytes().zip(TIME.bytes()).all(|(own, known)| is_like(own, known));
    let mut text = shown.to_owned();
    for at in 0..shown.len() {
        if shown.get(at..at + TIME.len()).is_some_and(is_time) {
            text.replace_range(at..at + TIME.len(), TIME);
        }
    }
    text
}

fn compare(name: &str, shown: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/command_line/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, shown).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(shown, golden, "{}", path.display());
}

/// Gives a host the error that its image cannot be fetched, as the planner would.
fn set_error(line: &CommandLine) {
    let connection =
        ConnectionOptions { kubeconfig: Some(line.appliance.kubeconfig()), namespace: Some("default".to_owned()) };
    let error = format!("could not fetch the image: 404 Not Found ({LONG_URL})");
    let status = json!({"status": {"errorMessage": error, "errorType": "provisioning error", "poweredOn": true}});
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = ApiClient::open(&connection).unwrap();
        let path = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts/b/status";
        client.merge_patch(path, &status).await.unwrap();
    });
}

#[test]
fn pages_and_errors_are_as_they_were() {
    let line = CommandLine::start();
    line.ok(&["lock", "a", "--reason", "kept for the audit of the disks until Friday, as agreed with the owner"]);
    line.ok(&["halt", "--reason", "the wrong disks are wiped", "--yes"]);
    // Without machines to serve, the appliance says so of each host, and no more.
    for host in ["host/a", "host/b"] {
        line.ok(&["wait", host, "--for=condition=Ready=False", "--timeout=10m"]);
    }
    set_error(&line);
    let config = fs::read_to_string(line.appliance.kubeconfig()).unwrap();
    line.file("lost.kubeconfig", &config.replace(&line.appliance.url(), "https://127.0.0.1:1"));
    for (name, columns) in [("80", Some(80)), ("120", Some(120)), ("pipe", None)] {
        let pages: String = PAGES.iter().map(|arguments| printed(&line, arguments, columns)).collect();
        compare(&format!("pages.{name}"), &pages);
        let errors: String = ERRORS.iter().map(|arguments| printed(&line, arguments, columns)).collect();
        compare(&format!("errors.{name}"), &errors);
        let flat: String = pages.split_whitespace().collect();
        assert!(flat.contains(&LONG_URL.replace(' ', "")), "the error is there to its end: {pages}");
        let page = printed(&line, &["describe", "host", "b"], columns);
        let widest = page.lines().skip(1).map(|line| line.chars().count()).max();
        assert!(widest <= columns.map(usize::from).or(Some(usize::MAX)) && !page.contains('…'), "{page}");
    }
}
