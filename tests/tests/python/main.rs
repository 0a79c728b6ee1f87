//! The Python client of Kubernetes against a real `firesteel serve`, over TLS with the admin's kubeconfig. What it
//! does and expects is in `suite.py`, one function a test.
//!
//! `./qemu/lab test` puts the client, at the versions and digests of `requirements.txt`, into an environment of its own
//! and the program `python-kubernetes` on the path; without it the tests say so.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test that cannot run here says so")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use firesteel_tests::appliance::Appliance;

const PYTHON: &str = "python-kubernetes";
const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/suite.py");
/// Seconds. Only what hangs takes so long.
const PATIENCE: &str = "120";

/// Runs a function of the suite. Each time it says `ready`, the appliance does what `meanwhile` is, and it
/// goes on.
fn with(function: &str, meanwhile: impl Fn(&mut Appliance)) {
    if Command::new(PYTHON).arg("-V").output().is_err() {
        println!("skipped: no {PYTHON} here; `./qemu/lab test` brings it");
        return;
    }
    let mut appliance = Appliance::start(env!("CARGO_BIN_EXE_firesteel-tested"));
    let mut python = start(&appliance, function);
    let output = BufReader::new(python.stdout.take().unwrap());
    let mut input = python.stdin.take().unwrap();
    let mut errors = python.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text)
    });
    for line in output.lines() {
        let line = line.unwrap();
        if line == "ready" {
            meanwhile(&mut appliance);
            input.write_all(b"done\n").unwrap();
        } else {
            println!("{line}");
        }
    }
    let ended = python.wait().unwrap();
    let errors = errors.join().unwrap().unwrap();
    assert!(ended.success(), "{function}: {ended}\n{errors}");
}

fn start(appliance: &Appliance, function: &str) -> Child {
    Command::new("timeout")
        .args([PATIENCE, PYTHON, "-B", SUITE, function])
        .current_dir(appliance.folder())
        .env("HOME", appliance.folder())
        .env("KUBECONFIG", appliance.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A function that needs nothing but the API.
fn runs(function: &str) {
    with(function, |_| panic!("nobody is to wait for the appliance"));
}

#[test]
fn python_manages_typed_objects() {
    runs("typed");
}

#[test]
fn python_manages_objects_of_kinds_it_discovers() {
    runs("discovered");
}

#[test]
fn python_patches_in_every_way() {
    runs("patches");
}

#[test]
fn python_applies_on_the_server() {
    runs("applies");
}

#[test]
fn python_watches_and_goes_on_where_it_was() {
    runs("watches");
}

#[test]
fn python_reads_page_by_page() {
    runs("pages");
}

#[test]
fn python_sees_what_is_refused() {
    runs("refused");
}

#[test]
fn python_writes_events() {
    runs("events");
}

#[test]
fn python_elects_one_leader() {
    runs("leader");
}

/// The appliance comes again with a history that begins after what the client has seen.
#[test]
fn python_recovers_from_a_history_that_is_gone() {
    with("recovers", Appliance::forget_history);
}

/// The client's own cache finds out what went and what came meanwhile.
#[test]
fn pythons_informer_recovers_from_a_history_that_is_gone() {
    with("informed", Appliance::forget_history);
}
