//! What each verb prints, and with which code it ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::{CommandLine, text};

/// What is printed as kubectl prints it.
const LIKE_KUBECTL: [&[&str]; 10] = [
    &["get", "bmh", "-o", "name"],
    &["get", "bmh", "b", "a", "-o", "name"],
    &["get", "bmh/a", "secret/s", "-o", "name"],
    &["get", "bmh", "-l", "rack in (r1)", "-o", "name"],
    &["get", "bmh,secrets", "-o", "name"],
    &["get", "bmh", "-o", "jsonpath={.items[*].metadata.name}"],
    &["get", "bmh", "a", "-o", "jsonpath={.metadata.labels} {.spec.online} {.none}"],
    &["get", "bmh", "-o", r#"jsonpath={range .items[*]}{.metadata.name}{"\t"}{.metadata.labels.rack}{"\n"}{end}"#],
    &["get", "bmh", "-o", r#"jsonpath={.items[?(@.metadata.name=="b")].spec.online}"#],
    &["get", "bmh", "-o", "jsonpath={.kind} {.items[0].kind} {.items[-1].metadata.name}"],
];

#[test]
fn objects_are_read_as_kubectl_reads_them() {
    let line = CommandLine::start();
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new("kubectl");
        let output = command
            .args(arguments)
            .env("KUBECONFIG", line.appliance.kubeconfig())
            .env("HOME", line.appliance.folder())
            .output()
            .ok()?;
        Some(text(&output.stdout))
    };
    let has_kubectl = kubectl(&["version", "--client"]).is_some();
    for arguments in LIKE_KUBECTL {
        let own = line.ok(arguments);
        assert!(!own.is_empty(), "{arguments:?}");
        if has_kubectl {
            assert_eq!(kubectl(arguments), Some(own), "{arguments:?}");
        }
    }
    let yaml = line.ok(&["get", "host", "a", "-o", "yaml"]);
    assert!(yaml.contains("kind: BareMetalHost") && !yaml.contains("managedFields"), "{yaml}");
    let list = line.json(&["get", "hosts", "-o", "json"]);
    assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&"List".into(), Some(2)));
    assert!(line.ok(&["get", "hosts", "-A"]).starts_with("NAMESPACE  NAME  STATE"));
    assert!(line.ok(&["get", "hosts", "-o", "wide"]).contains("52:54:00:00:00:01"));
    assert!(line.ok(&["get", "secrets"]).starts_with("NAME"));
    let two = line.ok(&["get", "hosts,secrets"]);
    assert!(two.contains("\n\nNAME"), "one table below the other: {two}");
    let page = line.ok(&["describe", "secret/s"]);
    assert!(page.contains("password: 7 bytes") && !page.contains("aHVudGVy"), "{page}");
    assert!(line.ok(&["describe", "host", "a", "b"]).contains("\n\nName:         b"));
}

#[test]
fn other_verbs_do_what_kubectl_does() {
    let line = CommandLine::start();
    // What happened, and what a field means.
    let events = line.ok(&["events", "--for", "host/a"]);
    let flat = events.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("SecondClaimant baremetalhost/a another machine claims to be this host"), "{events}");
    assert!(!line.ok(&["events", "--for", "host/b"]).contains("SecondClaimant"));
    assert!(line.ok(&["events", "-o", "jsonpath={.items[*].reason}"]).contains("SecondClaimant"));
    let page = line.ok(&["explain", "hosts.spec.online"]);
    assert!(page.starts_with("GROUP:      metal3.io\nKIND:       BareMetalHost\n"), "{page}");
    assert!(page.contains("FIELD: online <boolean>"), "{page}");
    let version = line.ok(&["version"]);
    assert!(version.starts_with("Client Version: ") && version.contains("\nServer Version: v1."), "{version}");
    assert_eq!(text(&line.bare(&["version", "--client"]).output().unwrap().stdout).lines().count(), 1);
    // Nothing boots here, so nothing is logged.
    let logs = line.output(&["logs", "a", "--tail", "5", "--since", "1h"]);
    assert!(logs.status.success() && logs.stdout.is_empty(), "{}", text(&logs.stderr));
    assert!(text(&logs.stderr).contains("`-c kernel` or `-c console`"), "{}", text(&logs.stderr));
    assert!(line.fails(1, &["logs", "none"]).contains("could not read the agent's lines of none"));
    // What is so at once, what is not, and what comes while the command waits.
    for goal in ["create", "jsonpath={.spec.online}=true", "condition=Ready=False"] {
        line.ok(&["wait", "host/a", &format!("--for={goal}"), "--timeout=10m"]);
    }
    let late = line.fails(1, &["wait", "host/a", "--for=condition=Ready", "--timeout=0"]);
    assert!(late.contains("its condition Ready is False (") && late.contains("--timeout waits longer"), "{late}");
    let mut waiting = line.command(&["wait", "secret/s", "--for=delete", "--timeout=10m"]).spawn().unwrap();
    assert_eq!(line.ok(&["delete", "secret", "s"]), "secret/s deleted\n");
    assert!(waiting.wait().unwrap().success(), "the object is gone");
    line.ok(&["delete", "-f", "objects.yaml", "--ignore-not-found", "--wait=false", "--yes"]);
    assert!(line.fails(1, &["delete", "secret/s"]).contains("secrets \"s\" not found"));
    assert_eq!(line.ok(&["delete", "hosts", "-l", "rack=r9"]), "nothing to delete\n");
}

/// A table that is followed gets a line for each change, and the next one after a restart.
#[test]
fn what_is_followed_goes_on_over_a_restart() {
    let mut line = CommandLine::start();
    let follow = |arguments: &[&str]| {
        let mut child = line.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let (mut names, mut name_lines) = follow(&["get", "hosts", "-w", "-o", "name"]);
    let (mut table, mut table_lines) = follow(&["get", "hosts", "-w"]);
    let (mut secrets, mut secret_lines) = follow(&["get", "secrets", "-w"]);
    for name in ["a", "b"] {
        assert!(name_lines.any(|line| line.unwrap() == format!("baremetalhost.metal3.io/{name}")));
    }
    assert!(table_lines.next().unwrap().unwrap().starts_with("NAME  STATE"));
    assert!(secret_lines.next().unwrap().unwrap().starts_with("NAME"));
    line.appliance.kill_and_start_again();
    line.file("more.yaml", "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: late}\nspec: {online: true}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: late}\n");
    line.ok(&["apply", "-f", "more.yaml"]);
    assert!(name_lines.any(|line| line.unwrap() == "baremetalhost.metal3.io/late"));
    assert!(table_lines.any(|line| line.unwrap().starts_with("late  new")));
    assert!(secret_lines.any(|line| line.unwrap().starts_with("late")));
    for child in [&mut names, &mut table, &mut secrets] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn locks_and_halts_are_shown_and_hosts_are_found_by_their_macs() {
    let line = CommandLine::start();
    line.ok(&["lock", "a", "--reason", "audit"]);
    line.ok(&["halt", "--reason", "the wrong disks are wiped", "--yes"]);
    let table = line.ok(&["get", "hosts"]);
    let row = table.lines().find(|row| row.starts_with("a ")).unwrap();
    assert!(row.contains("LOCKED: audit"), "{table}");
    assert!(table.contains("\n\nThe fleet is halted by admin since 2"), "{table}");
    assert!(
        table.contains("Z: the wrong disks are wiped; no disk of any host is changed until `firesteel resume`"),
        "{table}"
    );
    assert!(line.ok(&["describe", "host", "a"]).contains("Locked:       yes (audit)"));
    let error = line.fails(1, &["describe", "host", "52-54-00-00-00-09"]);
    assert!(error.contains("no host has this boot MAC"), "{error}");
    assert!(line.ok(&["describe", "host", "52-54-00-00-00-01"]).starts_with("Name:         a\n"));
}

/// The letter -o means a form everywhere.
#[test]
fn wrong_use_ends_with_code_2_and_says_what_is_right() {
    let line = CommandLine::start();
    for (arguments, said) in [
        (
            &["get", "racks"][..],
            "there is no kind \"racks\"; if it is a host or a discovered machine, write `host racks`; the kinds are: hosts, ",
        ),
        (&["get", "hosts", "-o", "yml"], "possible are table, wide, yaml, json, name, jsonpath='{.metadata.name}'"),
        (&["get", "hosts", "-o", "jsonpath={..name}"], "write the whole path"),
        (&["get", "host", "a", "-A"], "--all-namespaces (-A) does not go with a name"),
        (&["get", "hosts", "-l", "rack in r1"], "could not read --selector (-l)"),
        (&["get", "host/a", "b"], "KIND/NAME"),
        (&["get", "hosts,secrets", "-w"], "--watch (-w) follows one object or one kind"),
        (&["describe", "hosts"], "firesteel describe hosts NAME"),
        (&["plan", "a", "-o", "wide"], "possible are table, yaml, json"),
        (&["delete", "hosts"], "firesteel delete hosts NAME"),
        (&["delete"], "<KIND NAME>"),
        (&["wait", "host/a"], "--for"),
        (&["wait", "host/a", "--for", "ready"], "condition=NAME"),
        (&["wait", "host/a", "--for", "delete", "--timeout", "10"], "30s, 10m or 1h30m"),
        (&["logs", "a", "-c", "bmc"], "agent, kernel, console"),
        (&["explain", "hosts.spec.imag"], "no field \"imag\" in baremetalhosts.spec; it has: "),
        (&["kubeconfig", "--user", "ann", "--role", "viewer", "-o", "f"], "--file f"),
        (&["receipt", "export", "a", "-o", "there"], "firesteel receipt export a --dir there"),
    ] {
        let error = line.fails(2, arguments);
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    let error = line.fails(1, &["get", "host", "a", "none", "-o", "name"]);
    assert!(error.contains("could not get baremetalhost.metal3.io/none in namespace default"), "{error}");
    let images = line.appliance.data();
    assert_eq!(line.ok(&["image", "ls", "-o", "json", "--data", images.to_str().unwrap()]), "[]\n");
}
