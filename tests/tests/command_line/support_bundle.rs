//! `firesteel support-bundle` as a script sees it: its file, its exit code, and what it says.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use firesteel_tests::appliance::Appliance;
use flate2::read::GzDecoder;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const SECRET: &str = "kW8pzT5c1QmV";
const OBJECTS: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: kW8pzT5c1QmV}\n---\n\
                       apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: a}\nspec: {online: true}\n";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// All files of a bundle, by their names without the folder.
fn files(bundle: &std::path::Path) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(bundle).unwrap()));
    let read = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
        (name.split_once('/').unwrap().1.to_owned(), text)
    });
    read.collect()
}

#[test]
fn a_bundle_overwrites_nothing_and_says_what_its_caller_may_not_read() {
    let appliance = Appliance::start(PROGRAM);
    let folder = appliance.folder();
    fs::write(folder.join("objects.yaml"), OBJECTS).unwrap();
    let run = |arguments: &[&str]| {
        let mut command: Command = appliance.command();
        command.current_dir(folder).args(arguments).output().unwrap()
    };
    for arguments in [
        &["apply", "-f", "objects.yaml"][..],
        &["kubeconfig", "--user", "vera", "--role", "viewer", "--file", "vera.kubeconfig"],
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    }
    let output = run(&["support-bundle", "--file", "own.tar.gz"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("collecting baremetalhosts.metal3.io"), "progress: {}", said(&output));
    assert_eq!(fs::metadata(folder.join("own.tar.gz")).unwrap().permissions().mode() & 0o777, 0o600);
    let own = files(&folder.join("own.tar.gz"));
    let text = |files: &[(String, String)], name: &str| {
        files.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone()).unwrap_or_default()
    };
    assert!(text(&own, "appliance/log.txt").contains("Firesteel serves its API"), "{own:?}");
    assert!(text(&own, "appliance/settings.toml").contains("api-only = true"));
    assert!(text(&own, "objects/secrets-001.json").contains("(removed)"));

    // A second one of this name is refused, and the first stays.
    let again = run(&["support-bundle", "--file", "own.tar.gz"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("own.tar.gz exists, and is not overwritten"), "{}", said(&again));
    assert_eq!(files(&folder.join("own.tar.gz")), own);

    let mut command = Command::new(PROGRAM);
    let viewer =
        command.current_dir(folder).args(["--kubeconfig", "vera.kubeconfig", "support-bundle", "--file", "v.tar.gz"]);
    let output = viewer.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("the bundle is incomplete") && said(&output).contains("\n  secrets: "),
        "{}",
        said(&output)
    );
    let seen = files(&folder.join("v.tar.gz"));
    let manifest: Value = serde_json::from_str(&text(&seen, "manifest.json")).unwrap();
    let missing: Vec<&str> =
        manifest["missing"].as_array().unwrap().iter().filter_map(|part| part["what"].as_str()).collect();
    for what in ["secrets", "machineconfigs.machineconfiguration.openshift.io", "appliance/log.txt"] {
        assert!(missing.contains(&what), "{what}: {missing:?}");
    }
    assert!(!text(&seen, "objects/baremetalhosts.metal3.io-001.json").is_empty());
    for (name, text) in own.iter().chain(&seen) {
        assert!(!text.contains(SECRET), "{name}");
    }
}

#[test]
fn without_an_appliance_there_is_no_file() {
    let appliance = Appliance::start(PROGRAM);
    let kubeconfig = fs::read_to_string(appliance.kubeconfig()).unwrap();
    let (before, behind) = kubeconfig.split_once("https://127.0.0.1:").unwrap();
    // No server has port 1.
    let nowhere =
        format!("{before}https://127.0.0.1:1{}", behind.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nowhere"), nowhere).unwrap();
    let mut command = Command::new(PROGRAM);
    let output = command.current_dir(&folder).args(["--kubeconfig", "nowhere", "support-bundle"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "only the kubeconfig");
}

#[test]
fn a_host_is_explained() {
    let appliance = Appliance::start(PROGRAM);
    fs::write(appliance.folder().join("objects.yaml"), OBJECTS).unwrap();
    let run =
        |arguments: &[&str]| appliance.command().current_dir(appliance.folder()).args(arguments).output().unwrap();
    assert!(run(&["apply", "-f", "objects.yaml"]).status.success());
    let page = run(&["explain", "host", "a"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.starts_with("Name:         a\nState:        new\n") && page.contains("\nWhat to do\n"), "{page}");
    let json = run(&["explain", "host/a", "-o", "json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["name"], &json["state"]), (&"a".into(), &"new".into()), "{json}");
    for (arguments, code, word) in [
        (&["explain", "host", "none"][..], 1, "none"),
        (&["explain", "secret", "s"], 2, "`firesteel describe secret s`"),
        (&["explain", "hosts.spec", "-o", "json"], 2, "--output (-o) is for a host"),
        (&["explain", "host", "a", "--recursive"], 2, "--recursive"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(word), "{arguments:?}: {}", said(&output));
    }
}
