//! How the command ends, as a script sees it: by its exit code, and by what it says when nobody listens.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io;
use std::process::{Command, Output, Stdio};

use firesteel_tests::appliance::Appliance;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const HOST: &str = "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: h1}\nspec: {online: true}\n";
/// What a shell says of a program that SIGPIPE ended.
const PIPE_CLOSED: i32 = 141;

/// An appliance with one host.
fn appliance() -> Appliance {
    let appliance = Appliance::start(PROGRAM);
    let host = appliance.folder().join("h1.yaml");
    fs::write(&host, HOST).unwrap();
    let applied = appliance.command().args(["apply", "--filename"]).arg(&host).output().unwrap();
    assert!(applied.status.success(), "{}", said(&applied));
    appliance
}

/// The end of a pipe that nobody reads from, and never did.
fn closed_pipe() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ends the command with what it said on standard error.
fn ended(command: &mut Command, stdout: Stdio) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    (output.status.code(), said(&output))
}

/// It panicked: "failed printing to stdout: Broken pipe".
#[test]
fn a_closed_pipe_ends_each_command_without_a_word() {
    let appliance = appliance();
    let data = appliance.data();
    let data = data.to_str().unwrap();
    for arguments in [
        &["get", "hosts"][..],
        &["get", "hosts", "--output", "json"],
        &["describe", "host", "h1"],
        &["watch"],
        &["audit", "--follow"],
        &["image", "ls", "--data", data],
        &["receipt", "key"],
        &["serve", "--print-config", "--api-only", "--data", data],
        &["completions", "bash"],
    ] {
        let got = ended(appliance.command().args(arguments), closed_pipe());
        assert_eq!(got, (Some(PIPE_CLOSED), String::new()), "{arguments:?}");
    }
    // Who does not read the help either hears nothing.
    let (code, said) = ended(appliance.command().arg("--help"), closed_pipe());
    assert!(code.is_some() && said.is_empty(), "{code:?}: {said}");
    // The error has nowhere to go, and its code stays.
    let mut command = appliance.command();
    let status = command.args(["get", "hosts", "none"]).stdout(Stdio::null()).stderr(closed_pipe()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

/// These ended with 1, as what was refused.
#[test]
fn what_is_typed_wrong_ends_with_2() {
    let appliance = appliance();
    for (arguments, word) in [
        (&["serve", "--api-only"][..], "--data is needed"),
        (&["delete-damaged", "racks", "a"], "there is no kind \"racks\""),
    ] {
        let mut command = appliance.command();
        let (code, said) = ended(command.env_remove("FIRESTEEL_DATA").args(arguments), Stdio::null());
        assert!(code == Some(2) && said.contains(word), "{arguments:?}: {code:?}: {said}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let appliance = appliance();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (code, said) = ended(appliance.command().args(["get", "hosts"]), full.into());
    assert_eq!(code, Some(1));
    assert!(said.contains("could not write the result") && said.contains("room"), "{said}");
}

/// It waited for ever for a state that there is none of.
#[test]
fn a_watch_waits_for_states_that_there_are() {
    let unknown = Command::new(PROGRAM).args(["watch", "--until", "ready"]).output().unwrap();
    assert!(unknown.status.code().is_some_and(|code| code != 0), "{:?}", unknown.status);
    assert!(said(&unknown).contains("no host has this state") && said(&unknown).contains("provisioned"));
    let appliance = appliance();
    let listed = appliance.command().args(["get", "hosts", "h1", "--output", "json"]).output().unwrap();
    let host: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let state = host.pointer("/status/provisioning/state").and_then(serde_json::Value::as_str).unwrap_or_default();
    let state = if state.is_empty() { "new" } else { state };
    let reached = appliance.command().args(["watch", "h1", "--until", state]).output().unwrap();
    assert!(reached.status.success(), "{}", said(&reached));
}
