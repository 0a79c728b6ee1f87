//! A kubectl with an appliance of its own.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use firesteel_tests::appliance::Appliance;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One of the two programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    program: &'static str,
    /// As it names itself.
    version: &'static str,
}

pub(crate) const NEW: Version = Version { program: "kubectl", version: "v1.37." };
pub(crate) const OLD: Version = Version { program: "kubectl-1.20", version: "v1.20." };

/// Seconds. Only what hangs takes so long.
const PATIENCE: &str = "120";

/// A Secret and a host, as metal3's own documents have them.
pub(crate) const H1: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: host-1-bmc}
stringData: {username: root, password: calvin}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: host-1, labels: {rack: r1}}
spec:
  online: true
  bootMACAddress: 52:54:00:00:00:01
  bmc: {address: "redfish://10.0.0.7/redfish/v1/Systems/1", credentialsName: host-1-bmc}
"#;

/// A host without a BMC.
pub(crate) const H2: &str = "
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: host-2, labels: {rack: r2}}
spec: {online: true}
";

#[derive(Debug)]
pub(crate) struct Kubectl {
    program: &'static str,
    pub(crate) appliance: Appliance,
}

impl Version {
    /// Whether the program is here; says so when it is not.
    pub(crate) fn is_here(self) -> bool {
        let Self { program, version } = self;
        let said = Command::new(program).args(["version", "--client", "--output=json"]).output();
        let is_here = said.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(version));
        if !is_here {
            println!("skipped: no {program} {version}x here; `./qemu/lab test` fetches it");
        }
        is_here
    }
}

/// Runs a test with a kubectl of this version and an appliance of its own; `h1.yaml` and `h2.yaml` are there.
pub(crate) fn with(version: Version, test: fn(&Kubectl)) {
    if version.is_here() {
        test(&Kubectl::new(version, Appliance::start(env!("CARGO_BIN_EXE_firesteel-tested"))));
    }
}

impl Kubectl {
    pub(crate) fn new(version: Version, appliance: Appliance) -> Self {
        let kubectl = Self { program: version.program, appliance };
        kubectl.file("h1.yaml", H1);
        kubectl.file("h2.yaml", H2);
        kubectl
    }

    pub(crate) fn is_old(&self) -> bool {
        self.program == OLD.program
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .args([PATIENCE, self.program])
            .args(arguments)
            .current_dir(self.appliance.folder())
            .env("HOME", self.appliance.folder())
            .env("KUBECONFIG", self.appliance.kubeconfig())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.appliance.folder().join(name), text).unwrap();
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints when it succeeds.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        succeeded(arguments, &self.output(arguments))
    }

    /// The same with a program that changes the file it is given.
    pub(crate) fn edit(&self, editor: impl AsRef<OsStr>, arguments: &[&str]) -> Output {
        self.command(arguments).env("KUBE_EDITOR", editor).output().unwrap()
    }

    /// What it says when it fails, which it does with exit code 1.
    pub(crate) fn fails(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert_eq!(output.status.code(), Some(1), "kubectl {arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    /// What it says beside its result.
    pub(crate) fn warns(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        succeeded(arguments, &output);
        text(&output.stderr)
    }

    /// The words of what it prints, line by line.
    pub(crate) fn rows(&self, arguments: &[&str]) -> Vec<Vec<String>> {
        rows(&self.ok(arguments))
    }

    /// One field of one object.
    pub(crate) fn field(&self, object: &str, path: &str) -> String {
        self.ok(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    /// Makes the host of `h2.yaml`, and waits until the appliance has said of it what it has to say.
    pub(crate) fn settled_host(&self) {
        self.ok(&["apply", "-f", "h2.yaml"]);
        self.ok(&["wait", "bmh/host-2", "--for=condition=Ready=false", "--timeout=110s"]);
    }

    /// Waits until an object is gone, which it may be already: kubectl 1.20 takes that for a mistake.
    pub(crate) fn wait_until_gone(&self, object: &str, namespace: &str) {
        let output = self.output(&["wait", "--for=delete", object, "-n", namespace, "--timeout=110s"]);
        let said = text(&output.stderr);
        let was_gone = said.contains("NotFound") || said.contains("no matching resources found");
        assert!(output.status.success() || was_gone, "{object}: {said}");
    }

    /// Starts it.
    pub(crate) fn running(&self, arguments: &[&str]) -> Watching {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Watching { child, output }
    }

    /// Starts it, and comes back when it watches.
    pub(crate) fn watching(&self, arguments: &[&str]) -> Watching {
        let mut command = self.command(arguments);
        let mut child = command.arg("-v=6").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("watch=true") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "kubectl {arguments:?} ended and never watched");
        }
        // Whatever else it says is not to fill the pipe.
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        let output = BufReader::new(child.stdout.take().unwrap());
        Watching { child, output }
    }
}

/// A kubectl that waits for something.
#[derive(Debug)]
pub(crate) struct Watching {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Watching {
    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended");
        line.trim_end().to_owned()
    }

    pub(crate) fn words(&mut self) -> Vec<String> {
        rows(&self.line()).pop().unwrap_or_default()
    }

    /// Whether it goes on waiting.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it prints until it ends by itself, successfully.
    pub(crate) fn rest(mut self) -> String {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success(), "{text}");
        text
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // `timeout` hands the signal on, and does not when it is killed.
        if self.is_waiting() {
            let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
            kill(id, Signal::SIGTERM).unwrap();
        }
        self.child.wait().unwrap();
    }
}

fn succeeded(arguments: &[&str], output: &Output) -> String {
    assert!(output.status.success(), "kubectl {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}
