//! A new appliance begins where nothing is, and leaves nothing where it fails.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use firesteel_tests::appliance::Appliance;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
/// The file that marks a folder whose first start has not ended.
const MARKER: &str = "first-start";
/// Only a process that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

fn firesteel(arguments: &[&str], data: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--data").arg(data).stdin(Stdio::null());
    command
}

fn serve(data: &Path, arguments: &[&str]) -> Command {
    let mut command = firesteel(&["serve", "--api-only", "--api", "127.0.0.1:0"], data);
    command.args(arguments);
    command
}

/// Runs a command that is to fail, and returns what it says.
fn refused(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!((status.code(), stdout.len()), (Some(1), 0), "{said}");
    said
}

/// All below a folder, with its permissions.
fn tree(folder: &Path) -> BTreeMap<PathBuf, u32> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        all.insert(folder.clone(), fs::metadata(&folder).unwrap().permissions().mode());
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                all.insert(path.clone(), fs::metadata(&path).unwrap().permissions().mode());
            }
        }
    }
    all
}

/// A process that serves; it ends with the value.
struct Serving(Child);

impl Serving {
    fn start(data: &Path, arguments: &[&str]) -> Self {
        Self(serve(data, arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits until something is so, or the process has ended.
    fn until(&mut self, is_so: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            if let Some(status) = self.0.try_wait().unwrap() {
                let mut said = String::new();
                self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("it ended ({status}): {said}");
            }
            assert!(Instant::now() < end, "it takes too long");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn until_it_serves(&mut self, data: &Path) {
        self.until(|| data.join("admin.kubeconfig").exists() && !data.join(MARKER).exists());
    }

    fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.0.kill());
        self.0.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

/// `serve --data /usr/share/doc` filled that folder, and took the permissions of others from all in it.
#[test]
fn a_folder_of_something_else_is_refused_and_stays_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let doc = root.path().join("doc");
    fs::create_dir_all(doc.join("bash/examples")).unwrap();
    for name in ["copyright", "bash/README", "bash/examples/x"] {
        fs::write(doc.join(name), "x").unwrap();
        fs::set_permissions(doc.join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let before = tree(root.path());
    let backup = root.path().join("doc/copyright");
    let backup = backup.to_str().unwrap();
    for mut command in [
        serve(&doc, &[]),
        serve(&doc, &["--init"]),
        firesteel(&["image", "ls"], &doc),
        firesteel(&["image", "import", backup], &doc),
        firesteel(&["restore", backup, "--new-keys", "--force", "--yes"], &doc),
    ] {
        let said = refused(&mut command);
        assert!(said.contains("it holds bash and copyright, which no appliance made"), "{command:?}: {said}");
        assert_eq!(tree(root.path()), before, "{command:?}");
    }
    let said = refused(&mut serve(Path::new(PROGRAM), &[]));
    assert!(said.contains("could not read the folder"), "{said}");
}

#[test]
fn a_first_start_that_fails_leaves_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = taken.local_addr().unwrap().to_string();
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let empty = path("empty");
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(path("parts/images")).unwrap();
    fs::write(path("parts/images/note"), "x").unwrap();
    // What an appliance reads is private from then on.
    fs::set_permissions(path("parts/images"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(path("parts/images/note"), fs::Permissions::from_mode(0o600)).unwrap();
    let before = tree(root.path());
    let key = path("keys/at-rest.key");
    let key = key.to_str().unwrap();
    for (data, arguments) in [
        ("absent", &[][..]),
        ("deep/er/absent", &["--secrets-key", key][..]),
        ("empty", &["--init"][..]),
        ("parts", &["--init", "--secrets-key", key][..]),
    ] {
        let arguments = [&["--api", api.as_str()][..], arguments].concat();
        let mut command = firesteel(&["serve", "--api-only"], &path(data));
        let said = refused(command.args(arguments));
        assert!(said.contains("failed, and nothing of it is left: could not listen for the API"), "{data}: {said}");
        assert_eq!(tree(root.path()), before, "{data}");
    }
    let said = refused(&mut serve(&path("parts"), &[]));
    assert!(said.contains("it holds images, and no database") && said.contains("--init"), "{said}");
    let printed = serve(&path("absent"), &["--print-config"]).output().unwrap();
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(printed.contains("data = ") && !printed.contains("init"), "{printed}");
    assert_eq!(tree(root.path()), before, "what is printed is not made");
}

/// `serve --data` with a typing error made an empty fleet, which answered DHCP.
#[test]
fn a_mistyped_folder_names_the_right_one() {
    let appliance = Appliance::start(PROGRAM);
    let beside = |name: &str| appliance.folder().join(name);
    let meant = format!("did you mean {}?", appliance.data().display());
    for mut command in [serve(&beside("date"), &[]), firesteel(&["image", "ls"], &beside("DATA"))] {
        let said = refused(&mut command);
        assert!(said.contains(&meant), "{said}");
    }
    let said = refused(&mut serve(&beside(""), &[]));
    assert!(said.contains(&meant) && said.contains("which no appliance made"), "{said}");
    assert!(!beside("date").exists() && !beside("DATA").exists());

    let other = beside("date");
    let mut serving = Serving::start(&other, &["--init"]);
    serving.until_it_serves(&other);
    assert_eq!(fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o700);
    serving.kill();
    let said = refused(&mut serve(&other, &["--init"]));
    assert!(said.contains("it holds an appliance already") && said.contains("leave --init out"), "{said}");
    Serving::start(&other, &[]).until_it_serves(&other);
}

#[test]
fn a_first_start_that_was_killed_is_finished_by_the_next_one() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let mut serving = Serving::start(&data, &[]);
    serving.until(|| data.join("pki").exists());
    serving.kill();
    // It is nearly always there; a machine that is slow to look finds an appliance.
    let is_cut_off = data.join(MARKER).exists();
    let before = tree(root.path());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = taken.local_addr().unwrap().to_string();
    let mut command = firesteel(&["serve", "--api-only", "--api", &api], &data);
    let said = refused(&mut command);
    assert_eq!(said.contains("goes on with what an earlier one made there"), is_cut_off, "{said}");
    let after = tree(root.path());
    assert!(before.keys().filter(|path| !path.to_string_lossy().contains(".db")).all(|path| after.contains_key(path)));
    Serving::start(&data, &[]).until_it_serves(&data);
}
