//! What cannot be undone asks first.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};

use firesteel_tests::appliance::Appliance;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const HOST: &str = "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: h1}\nspec: {online: true, \
                    consumerRef: {kind: HostClaim, namespace: team, name: db}}\n";

fn appliance() -> Appliance {
    let appliance = Appliance::start(PROGRAM);
    add_host(&appliance);
    appliance
}

fn add_host(appliance: &Appliance) {
    let host = appliance.folder().join("h1.yaml");
    fs::write(&host, HOST).unwrap();
    let applied = appliance.command().args(["apply", "--filename"]).arg(&host).output().unwrap();
    assert!(applied.status.success(), "{}", said(&applied));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command without a terminal: its code, and what it says.
fn alone(command: &mut Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), said(&output))
}

/// What a person sees who types this line on a terminal.
#[derive(Debug)]
struct Typed {
    code: Option<i32>,
    /// The terminal: the question and what was typed.
    seen: String,
    out: String,
}

fn type_line(command: &mut Command, line: &str) -> Typed {
    // The line waits in the terminal until it is asked for.
    type_line_after(command, "", line, || {})
}

/// Types the line once the terminal shows `question`, after something else.
fn type_line_after(command: &mut Command, question: &str, line: &str, meanwhile: impl FnOnce()) -> Typed {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut terminal_end = File::from(terminal.master);
    let other = terminal.slave.try_clone().unwrap();
    command.stdin(terminal.slave).stderr(other).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    // The terminal ends once no one has its other end: this process had it for the command alone.
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut seen = String::new();
    while !seen.contains(question) && read_more(&mut terminal_end, &mut seen) {}
    meanwhile();
    terminal_end.write_all(line.as_bytes()).unwrap();
    while read_more(&mut terminal_end, &mut seen) {}
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    Typed { code: output.status.code(), seen, out }
}

/// Reads what the terminal shows next; `false` at its end, which is an error.
fn read_more(terminal: &mut File, seen: &mut String) -> bool {
    let mut buffer = [0; 4096];
    let Ok(count @ 1..) = terminal.read(&mut buffer) else { return false };
    seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    true
}

fn exists(appliance: &Appliance, kind: &str, name: &str) -> bool {
    appliance.command().args(["get", kind, name]).output().unwrap().status.success()
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_done() {
    let appliance = appliance();
    for arguments in [
        &["release", "h1"][..],
        &["release", "h1", "--force"],
        &["delete", "host", "h1"],
        &["reboot", "h1", "--hard"],
        &["unfreeze", "h1", "--disk", "S1"],
        &["rotate-ca"],
        &["rotate-ca", "--finish", "--force"],
        &["rotate-ca", "--undo"],
        &["kubeconfig", "--revoke", "ann"],
        &["halt", "--reason", "a drill"],
        &["resume"],
        &["restore", "none", "--force", "--data", "none"],
    ] {
        let (code, why) = alone(appliance.command().args(arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {why}");
        assert!(why.contains("no terminal") && why.contains("--yes"), "{arguments:?}: {why}");
    }
    assert!(exists(&appliance, "hosts", "h1") && !exists(&appliance, "halts", "fleet"));
    let shown = appliance.command().args(["release", "h1", "--dry-run"]).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success() && text.contains("nothing was done"), "{text} {}", said(&shown));
    assert!(text.contains("HostClaim team/db") && exists(&appliance, "hosts", "h1"), "{text}");
    for form in ["--dry-run", "--dry-run=client"] {
        let shown = appliance.command().args(["delete", "host", "h1", form]).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.status.success() && text.contains("would be deleted; nothing was done"), "{text}");
        assert!(text.contains("HostClaim team/db") && exists(&appliance, "hosts", "h1"), "{text}");
    }
    // A flag that would do nothing is wrong use.
    for arguments in [&["reboot", "h1", "--yes"][..], &["retry", "h1", "--no-wait", "--timeout", "5s"]] {
        let (code, why) = alone(appliance.command().args(arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {why}");
    }
}

/// The command said nothing and ended with 0, however the host went.
#[test]
fn a_host_that_another_client_deleted_meanwhile_is_not_passed_over() {
    let appliance = appliance();
    let delete_after = |other: &[&str]| {
        let meanwhile = || assert!(appliance.command().args(other).output().unwrap().status.success(), "{other:?}");
        let mut command = appliance.command();
        type_line_after(command.args(["delete", "host", "h1"]), "Type h1 to go on:", "h1\n", meanwhile)
    };
    let typed = delete_after(&["delete", "host", "h1", "--yes"]);
    assert!(typed.code == Some(0) && typed.out.contains("h1 is gone"), "{typed:?}");
    assert!(typed.out.contains("h1 is not there any more: another client deleted it meanwhile"), "{typed:?}");
    add_host(&appliance);
    let typed = delete_after(&["release", "h1", "--force", "--yes", "--wait"]);
    assert!(typed.code == Some(1) && typed.seen.contains("forgot it by force meanwhile"), "{typed:?}");
}

#[test]
fn on_a_terminal_the_name_of_the_host_is_typed() {
    let appliance = appliance();
    let release = |line: &str, more: &[&str]| type_line(appliance.command().args(["release", "h1"]).args(more), line);
    for wrong in ["y\n", "h2\n", "\n", "\u{4}"] {
        let typed = release(wrong, &[]);
        assert!(typed.code == Some(1) && typed.seen.contains("nothing was done"), "{wrong:?}: {typed:?}");
        assert!(typed.out.is_empty() && exists(&appliance, "hosts", "h1"), "{typed:?}");
    }
    let typed = release("h2\n", &[]);
    for part in ["h1 in namespace default", "OS", "HostClaim team/db", "Type h1 to go on:"] {
        assert!(typed.seen.contains(part), "no {part:?} in {}", typed.seen);
    }
    let typed = release("h2\n", &["--force"]);
    assert!(typed.seen.contains("No disk is cleaned"), "{}", typed.seen);
    let delete = |line: &str| type_line(appliance.command().args(["delete", "host/h1", "--wait=false"]), line);
    let typed = delete("y\n");
    assert!(typed.code == Some(1) && typed.seen.contains("HostClaim team/db"), "{typed:?}");
    assert!(appliance.command().args(["lock", "h1", "--reason", "audit"]).output().unwrap().status.success());
    let (code, why) = alone(appliance.command().args(["delete", "host", "h1", "--yes"]));
    assert!(code == Some(1) && why.contains("audit") && why.contains("`firesteel unlock h1` first"), "{why}");
    assert!(appliance.command().args(["unlock", "h1"]).output().unwrap().status.success());
    assert!(exists(&appliance, "hosts", "h1"));
    let typed = release("h1\n", &["--no-wait"]);
    assert!(typed.code == Some(0) && !exists(&appliance, "hosts", "h1"), "{typed:?}");

    let halt = |line: &str| type_line(appliance.command().args(["halt", "--reason", "a drill"]), line);
    assert!(halt("n\n").code == Some(1) && !exists(&appliance, "halts", "fleet"));
    assert!(halt("y\n").code == Some(0) && exists(&appliance, "halts", "fleet"));
    let resume = |line: &str| type_line(appliance.command().arg("resume"), line);
    let kept = resume("n\n");
    assert!(kept.code == Some(1) && kept.seen.contains("a drill") && exists(&appliance, "halts", "fleet"), "{kept:?}");
    assert!(resume("y\n").code == Some(0) && !exists(&appliance, "halts", "fleet"));
}
