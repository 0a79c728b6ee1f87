//! `firesteel watch` shows a whole fleet: on a screen, and as lines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pseudo_terminal;
mod vt_screen;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use firesteel_cli::{ApiClient, ConnectionOptions};
use firesteel_tests::appliance::Appliance;
use serde_json::{Value, json};

use pseudo_terminal::PseudoTerminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";
const HINTS: &str = "rootDeviceHints match no disk: minSizeGigabytes 900 is more than each disk has: /dev/nvme0n1 (model \
                     SAMSUNG MZQL2960, serial S64GNE0R, 480 GB), /dev/sda (model MICRON 5300, serial 2117E5, 240 GB)";

/// An appliance without machines, with hosts whose status the test writes.
struct SimulatedFleet {
    appliance: Appliance,
    runtime: tokio::runtime::Runtime,
}

impl SimulatedFleet {
    fn start(names: &[String]) -> Self {
        let appliance = Appliance::start(PROGRAM);
        let host = |name: &String| {
            let head = "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\n";
            format!("---\n{head}metadata: {{name: {name}}}\nspec: {{online: true}}\n")
        };
        let file = appliance.folder().join("hosts.yaml");
        fs::write(&file, names.iter().map(host).collect::<String>()).unwrap();
        let file = file.to_str().unwrap().to_owned();
        let fleet = Self { appliance, runtime: tokio::runtime::Runtime::new().unwrap() };
        fleet.run(&["apply", "--filename", &file]);
        fleet
    }

    /// Writes the status of a host, as its planner would.
    fn set(&self, name: &str, state: &str, error: &str) {
        self.patch(name, &json!({"errorMessage": error, "provisioning": {"ID": "", "state": state}}));
    }

    fn patch(&self, name: &str, status: &Value) {
        let mut whole = json!({"errorCount": 0, "errorMessage": "", "operationalStatus": "OK", "poweredOn": true,
            "hardwareProfile": "", "provisioning": {"ID": "", "state": ""}});
        let (whole_map, status) = (whole.as_object_mut().unwrap(), status.as_object().unwrap());
        whole_map.extend(status.clone());
        let kubeconfig = Some(self.appliance.kubeconfig());
        let client = ApiClient::open(&ConnectionOptions { kubeconfig, namespace: None }).unwrap();
        let path = format!("{HOSTS}/{name}/status");
        self.runtime.block_on(client.merge_patch(&path, &json!({"status": whole}))).unwrap();
    }

    fn run(&self, arguments: &[&str]) {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", error_of(&output));
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.appliance.command().args(arguments).stdin(Stdio::null()).output().unwrap()
    }
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("dc1-rack07-worker-{number:02}")).collect()
}

/// The text of a picture without its breaks.
fn joined(picture: &str) -> String {
    picture.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// 45 hosts looked alike because their names were cut, those below the screen were missing in silence, and a halt was
/// not shown.
#[test]
fn sixty_hosts_are_shown_on_80_columns_and_24_lines() {
    let names = names(60);
    let mut fleet = SimulatedFleet::start(&names);
    let errors =
        ["the BMC at 10.20.7.12 does not answer", HINTS, "the image is broken: \u{1b}[2J\u{1b}]0;owned\u{7}404"];
    for (index, name) in names.iter().enumerate() {
        match index {
            6 | 31 | 59 => fleet.set(name, "registering", errors[index % 3]),
            _ if index % 3 == 0 => fleet.set(name, "provisioning", ""),
            _ if index % 20 == 1 => fleet.set(name, "available", ""),
            _ => fleet.set(name, "provisioned", ""),
        }
    }
    fleet.run(&["lock", &names[10], "--reason", "audit"]);
    let mut command = fleet.appliance.command();
    command.arg("watch");
    let mut terminal = PseudoTerminal::start(command, 80, 24);
    let picture = terminal.wait_for("the fleet", |picture| picture.contains("60 hosts:"));
    assert!(picture.starts_with("60 hosts: 3 failing, 19 working, 36 provisioned, 2 available; 1 locked"), "{picture}");
    let lines: Vec<&str> = picture.lines().collect();
    assert_eq!((lines.len(), lines[1].split_whitespace().collect::<Vec<_>>()), (24, vec!["NAME", "STATE", "REASON"]));
    for index in [6, 31, 59] {
        let row = lines.iter().find(|line| line.starts_with(&names[index])).unwrap();
        assert!(row.contains("  registering   ERROR: "), "{row}");
    }
    assert!(
        joined(&picture).contains(HINTS) && joined(&picture).contains("broken: \\u001b[2J\\u001b]0;owned\\u0007404"),
        "{picture}"
    );
    let shown = names.iter().filter(|name| picture.contains(name.as_str())).count();
    let hidden = 60 - shown;
    let working = 19 - lines.iter().filter(|line| line.contains("  provisioning")).count();
    let last = format!("and {hidden} more: {working} working, 36 provisioned, 2 available");
    assert_eq!(*lines.last().unwrap(), last, "{picture}");

    fleet.run(&["halt", "--reason", "the wrong disks", "--yes"]);
    let picture = terminal.wait_for("the halt", |picture| picture.contains("HALTED by"));
    assert!(joined(&picture).contains(": the wrong disks; `firesteel resume` ends it"), "{picture}");
    fleet.run(&["resume", "--yes"]);
    terminal.wait_for("the end of the halt", |picture| !picture.contains("HALTED"));

    terminal.resize(120, 70);
    let picture = terminal.wait_for("a larger terminal", |picture| picture.lines().count() > 60);
    assert!(names.iter().all(|name| picture.contains(name)) && !picture.contains("more:"), "{picture}");
    assert!(picture.contains("LOCKED (audit)"), "{picture}");

    fleet.appliance.kill_and_start_again();
    terminal.wait_for("no answer", |picture| picture.contains("NO ANSWER from the appliance since"));
    let picture = terminal.wait_for("an answer", |picture| picture.contains("the appliance answers again"));
    assert!(picture.starts_with("60 hosts: 3 failing"), "{picture}");
    fleet.set(&names[6], "provisioned", "");
    terminal.wait_for("a change after that", |picture| picture.starts_with("60 hosts: 2 failing"));

    terminal.press(b"\x03");
    let left = terminal.end();
    assert_eq!(left.code, Some(130), "{}", left.printed);
    assert!(left.is_sane && left.printed.contains("60 hosts: 2 failing"), "the last picture stays: {}", left.printed);
}

/// A watch whose lines are read.
struct WatchedLines {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl WatchedLines {
    fn start(mut command: Command, arguments: &[&str]) -> Self {
        command.arg("watch").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads up to a line that ends with these words.
    fn wait_for(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended without {words:?}");
            if line.trim_end().ends_with(words) {
                return line;
            }
        }
    }

    /// Ends with its exit code and what it said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        while self.lines.read_line(&mut rest).unwrap() > 0 {}
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), error_of(&output))
    }
}

/// It hung on an unknown host, and ended with 1 when the appliance was started again.
#[test]
fn a_watch_in_a_pipe_says_each_change_and_ends_as_it_should() {
    let mut fleet = SimulatedFleet::start(&names(4));
    let names = names(4);
    let [gone, moved, late, damaged] = names.as_slice() else { unreachable!() };
    let damage = json!({"type": "StoredObjectDamaged", "status": "True", "reason": "StorageReadError", "message": "a bad page",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    fleet.patch(damaged, &json!({"conditions": [damage]}));
    let stuck = WatchedLines::start(fleet.appliance.command(), &[damaged, "--until", "provisioned"]);

    let unknown = fleet.output(&["watch", moved, "dc1-rack07-worker-9"]);
    let error = error_of(&unknown);
    assert!(unknown.status.code() == Some(1) && unknown.stdout.is_empty(), "{error}");
    assert!(
        error.contains("could not watch dc1-rack07-worker-9: there is no such host in namespace default"),
        "{error}"
    );
    assert!(error.contains(&format!("(did you mean {gone}, {moved} or {late}?)")), "{error}");
    let unknown = fleet.output(&["watch", "worker-03", "--until", "provisioned"]);
    assert!(error_of(&unknown).contains(&format!("(did you mean {late}?)")), "{}", error_of(&unknown));

    let mut released = WatchedLines::start(fleet.appliance.command(), &[gone]);
    let mut awaited = WatchedLines::start(fleet.appliance.command(), &[gone, late, "--until", "provisioned"]);
    released.wait_for(&format!("{gone}: new"));
    awaited.wait_for(&format!("{late}: new"));
    fleet.run(&["release", gone, "--yes", "--no-wait"]);
    released.wait_for(&format!("{gone}: gone"));
    released.wait_for(&format!(" gone: {gone}"));
    assert_eq!(released.end(), (Some(0), String::new()));
    let (code, error) = awaited.end();
    assert!(code == Some(1) && error.contains(&format!("{gone} is gone")), "{code:?} {error}");

    let timed_out = fleet.output(&["watch", moved, late, "--until", "provisioned", "--timeout", "1s"]);
    let error = error_of(&timed_out);
    let expected = format!("1s passed, and 0 of 2 are there; not there: {moved} (new), {late} (new)");
    assert!(timed_out.status.code() == Some(1) && error.contains(&expected), "{error}");

    let mut restarted =
        WatchedLines::start(fleet.appliance.command(), &[moved, "--until", "provisioned", "--timeout", "10m"]);
    let first = restarted.wait_for(&format!("{moved}: new"));
    let form: String =
        first.chars().take(26).map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    assert_eq!(form.replace('-', "+"), "0000+00+00 00:00:00+00:00 ", "date, time and zone: {first}");
    fleet.appliance.kill_and_start_again();
    restarted.wait_for("the appliance answers again");
    fleet.set(moved, "provisioned", "");
    restarted.wait_for(&format!("{moved}: provisioned"));
    restarted.wait_for(" the host is provisioned");
    assert_eq!(restarted.end(), (Some(0), String::new()));

    let (code, error) = stuck.end();
    assert!(
        code == Some(1) && error.contains("a person has to help") && error.contains("a bad page"),
        "{code:?} {error}"
    );
}

#[test]
fn a_watch_that_is_typed_wrong_says_what_is_possible() {
    for (arguments, expected) in [
        (&["--until", "Provisoned"][..], "no host has this state (did you mean provisioned"),
        (&["--until", "ready"], "the states are: new, unmanaged, registering"),
        (&["--timeout", "30m"], "--until <STATE>"),
        (
            &["--until", "provisioned", "--timeout", "30"],
            "is no span of time: write it with its units, as in 30s, 10m or 1h30m",
        ),
        (&["--until", "provisioned", "--timeout", "0s"], "longer than nothing"),
    ] {
        let output = Command::new(PROGRAM).arg("watch").args(arguments).stdin(Stdio::null()).output().unwrap();
        let error = error_of(&output);
        assert!(output.status.code() == Some(2) && error.contains(expected), "{arguments:?}: {error}");
    }
}
