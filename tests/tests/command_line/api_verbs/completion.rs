//! What a shell completes.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{CommandLine, PROGRAM, text};

/// Runs bash's own side of the completion: sources the script and completes a line.
fn bash(line: &CommandLine, typed: &str) -> Vec<String> {
    let script = line.appliance.folder().join("completion.bash");
    if !script.exists() {
        fs::write(&script, line.ok(&["completions", "bash"])).unwrap();
    }
    let run = format!(
        r#"source {}; COMP_WORDBREAKS=$' \t\n"><=;|&(:'; COMP_LINE={typed:?}; COMP_POINT=${{#COMP_LINE}}; _firesteel {PROGRAM}; printf '%s\n' "${{COMPREPLY[@]}}""#,
        script.display()
    );
    let mut command = Command::new("bash");
    command
        .args(["--norc", "--noprofile", "-c", &run])
        .env("FIRESTEEL_KUBECONFIG", line.appliance.kubeconfig())
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    text(&output.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn names_kinds_and_states_are_completed() {
    let line = CommandLine::start();
    for (typed, words) in [
        ("firesteel get sec", &["secrets"][..]),
        ("firesteel get hosts ", &["a", "b"]),
        ("firesteel retry ", &["a", "b"]),
        ("firesteel describe host/", &["host/a", "host/b"]),
        ("firesteel delete secrets ", &["s"]),
        ("firesteel watch --until ext", &["externally\\ provisioned"]),
        ("firesteel logs a -c ", &["agent", "kernel", "console"]),
        ("firesteel plan a -o j", &["json", "jsonpath="]),
        ("firesteel get --output=ya", &["yaml"]),
        ("firesteel -n none get hosts ", &[]),
        ("firesteel __comp", &[]),
    ] {
        assert_eq!(bash(&line, typed), words, "{typed}");
    }
    let namespaces = bash(&line, "firesteel -n ");
    assert!(namespaces.contains(&"default".to_owned()), "{namespaces:?}");
    // The other shells get descriptions, too.
    let shown = |shell: &str, words: &[&str]| line.ok(&[&["__complete", shell, "--"][..], words].concat());
    assert_eq!(
        shown("zsh", &["firesteel", "receipt", "ke"]),
        "key:Print the public key with which receipts are verified\n"
    );
    assert!(shown("fish", &["firesteel", "get", "ho"]).contains("hosts\tBareMetalHost"));
    assert_eq!(shown("fish", &["firesteel", "apply", "-f", ""]), ":files\n");
    for shell in ["zsh", "fish"] {
        assert!(line.ok(&["completions", shell]).contains("__complete"), "{shell}");
    }
}

/// A kubeconfig that cannot be read to its end would keep a shell waiting forever, and so would a silent server.
#[test]
fn nothing_keeps_a_shell_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let endless = folder.path().join("endless");
    mkfifo(&endless, Mode::S_IRWXU).unwrap();
    let words = ["__complete", "fish", "--", "firesteel", "get", "hosts", ""];
    let output = Command::new(PROGRAM).args(words).env("FIRESTEEL_KUBECONFIG", &endless).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(text(&output.stdout), "");
}
