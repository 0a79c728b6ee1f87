//! The verbs that people know from kubectl, and the tables that they print.

mod completion;
mod kubeconfigs;
mod terminal;
mod verbs;

use std::fs;
use std::process::{Command, Output, Stdio};

use firesteel_tests::appliance::Appliance;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");

/// Two hosts, a Secret and an event.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {password: hunter2}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: a, labels: {rack: r1}}
spec: {online: true, bootMACAddress: "52:54:00:00:00:01"}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: b, labels: {rack: r2}}
spec: {online: false}
---
apiVersion: v1
kind: Event
metadata: {name: a.1}
involvedObject: {kind: BareMetalHost, name: a, namespace: default}
type: Warning
reason: SecondClaimant
message: another machine claims to be this host
lastTimestamp: NOW
"#;

/// An appliance, and the command line with its kubeconfig in its folder.
struct CommandLine {
    appliance: Appliance,
}

impl CommandLine {
    fn start() -> Self {
        let line = Self { appliance: Appliance::start(PROGRAM) };
        // An event of another day would not be kept.
        line.file("objects.yaml", &OBJECTS.replace("NOW", &format!("{:.0}", jiff::Timestamp::now())));
        line.ok(&["apply", "-f", "objects.yaml"]);
        line
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.appliance.folder().join(name), text).unwrap();
    }

    /// The command without any kubeconfig but the one that is named.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(arguments);
        command.env("FIRESTEEL_KUBECONFIG", self.appliance.kubeconfig());
        command
    }

    /// The command of a person who has set nothing.
    fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .current_dir(self.appliance.folder())
            .env("HOME", self.appliance.folder())
            .env_remove("FIRESTEEL_DATA")
            .env_remove("FIRESTEEL_KUBECONFIG")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null());
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command prints that succeeds.
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    /// What a command says that fails with this code.
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
