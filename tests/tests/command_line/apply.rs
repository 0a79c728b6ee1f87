//! `firesteel apply` and `firesteel diff` give what kubectl gives for the same file.
//!
//! One appliance serves all of it: the test calls its parts one after the other, and each has names of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test that cannot run here says so")]

mod cases;
mod compared;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use firesteel_cli::{ApiClient, ConnectionOptions};
use firesteel_tests::appliance::Appliance;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";
const IMAGE: &str = ", image: {url: \"http://images.example/os.raw\", checksum: \"00112233445566778899aabbccddeeff\"}";

/// An appliance with the commands of its user.
struct ApplyBench {
    appliance: Appliance,
    runtime: tokio::runtime::Runtime,
    client: ApiClient,
}

/// How a command ended.
#[derive(Debug)]
struct CommandEnd {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for CommandEnd {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

impl ApplyBench {
    fn new() -> Self {
        let appliance = Appliance::start(PROGRAM);
        let connection = ConnectionOptions { kubeconfig: Some(appliance.kubeconfig()), namespace: None };
        let client = ApiClient::open(&connection).unwrap();
        Self { appliance, runtime: tokio::runtime::Runtime::new().unwrap(), client }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.appliance.folder().join(name)
    }

    /// Writes a file, and the folders on the way to it.
    fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs `firesteel` in the folder of the files.
    fn firesteel(&self, arguments: &[&str]) -> CommandEnd {
        let mut command = self.appliance.command();
        command.args(arguments).current_dir(self.appliance.folder()).stdin(Stdio::null());
        command.output().unwrap().into()
    }

    /// Applies a file, and returns what is printed of it.
    fn apply(&self, name: &str, text: &str) -> CommandEnd {
        self.file(name, text);
        self.firesteel(&["apply", "-f", name])
    }

    fn get(&self, path: &str) -> Value {
        self.runtime.block_on(self.client.get(path)).unwrap()
    }

    fn host(&self, name: &str) -> Value {
        self.get(&format!("{HOSTS}/{name}"))
    }

    /// Makes an object, and changes it, in the way in which `firesteel apply` did before.
    fn apply_in_the_old_way(&self, name: &str, object: &Value, patch: &Value) {
        let path = format!("{HOSTS}/{name}");
        self.runtime.block_on(async {
            self.client.create(HOSTS, object).await.unwrap();
            self.client.merge_patch(&path, patch).await.unwrap();
        });
    }
}

fn host(name: &str, spec: &str) -> String {
    format!("apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

fn map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{{data}}}\n")
}

#[test]
fn files_are_applied() {
    let bench = ApplyBench::new();
    without_its_image_a_host_is_deprovisioned(&bench);
    what_a_kind_does_not_have_is_refused(&bench);
    warnings_are_readable(&bench);
    all_objects_are_tried(&bench);
    a_conflict_names_field_manager_and_flag(&bench);
    what_an_earlier_apply_made_is_taken_over(&bench);
    what_an_adopted_host_has_stays(&bench);
    a_dry_run_stores_nothing(&bench);
    files_come_from_everywhere(&bench);
    a_difference_is_shown(&bench);
    if !compared::kubectl_is_here() {
        println!("skipped in part: no kubectl 1.27 or later here; `./qemu/lab test` fetches it");
        return;
    }
    compared::small_files_give_the_same(&bench);
    compared::what_kubectl_applied_is_taken_over(&bench);
}

/// The documented way to free a host answered "unchanged", and the image stayed.
fn without_its_image_a_host_is_deprovisioned(bench: &ApplyBench) {
    let with = host("image", &format!("online: true{IMAGE}"));
    assert_eq!(bench.apply("image.yaml", &with).out, "baremetalhost.metal3.io/image created\n");
    assert_eq!(bench.apply("image.yaml", &with).out, "baremetalhost.metal3.io/image unchanged\n");
    assert!(bench.host("image")["spec"]["image"]["url"].is_string());
    let ended = bench.apply("image.yaml", &host("image", "online: true"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "baremetalhost.metal3.io/image configured\n"), "{ended:?}");
    let after = bench.host("image");
    assert!(after["spec"]["image"].is_null() && after["spec"]["online"] == true, "{after}");
    let managers = after["metadata"]["managedFields"].as_array().unwrap().iter();
    let managers: Vec<_> = managers.map(|entry| (entry["manager"].clone(), entry["operation"].clone())).collect();
    assert!(managers.contains(&(json!("firesteel"), json!("Apply"))), "{managers:?}");
    // A text that leaves a Secret's stringData goes, too.
    let secret =
        |texts: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstringData: {{{texts}}}\n");
    bench.apply("secret.yaml", &secret("username: root, password: calvin"));
    assert_eq!(bench.firesteel(&["apply", "-f", "secret.yaml"]).out, "secret/login unchanged\n");
    bench.apply("secret.yaml", &secret("username: root"));
    assert_eq!(bench.get("/api/v1/namespaces/default/secrets/login")["data"], json!({"username": "cm9vdA=="}));
}

/// It was accepted with a warning, and the host was never installed.
fn what_a_kind_does_not_have_is_refused(bench: &ApplyBench) {
    let ended = bench.apply("typo.yaml", &host("typo", "online: true, imge: {url: \"http://a/b\"}"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    for part in
        ["could not apply BareMetalHost typo of typo.yaml", ".spec.imge: field not declared", "correct the name"]
    {
        assert!(ended.err.contains(part), "{}", ended.err);
    }
    let ended = bench.apply("twice.yaml", &host("twice", "online: true, online: false"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("duplicate mapping key: online") && ended.err.contains("twice.yaml"), "{}", ended.err);
    let hosts = bench.get(HOSTS);
    assert!(!hosts.to_string().contains("\"typo\"") && !hosts.to_string().contains("\"twice\""), "{hosts}");
}

/// A warning lost its last quotation mark, and had backslashes.
fn warnings_are_readable(bench: &ApplyBench) {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [plain]}\n";
    let ended = bench.apply("held.yaml", text);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.starts_with("Warning: metadata.finalizers: \"plain\": "), "{}", ended.err);
    assert!(!ended.err.contains('\\') && ended.err.lines().count() == 1, "{}", ended.err);
}

fn all_objects_are_tried(bench: &ApplyBench) {
    let all = [
        map("first", "a: b"),
        "apiVersion: v1\nkind: Rack\nmetadata: {name: x}\n".to_owned(),
        map("last", "a: [b]"),
        map("end", ""),
    ];
    let ended = bench.apply("all.yaml", &all.join("---\n"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), "configmap/first created\nconfigmap/end created\n"));
    for part in [
        "Rack x of all.yaml: there is no kind Rack",
        "ConfigMap last of all.yaml: .data.a: ",
        "2 of 4 objects were refused",
    ] {
        assert!(ended.err.contains(part), "{}", ended.err);
    }
    // The second would undo the first.
    let ended = bench.apply("both.yaml", &[map("both", "a: b"), map("both", "c: d")].join("---\n"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.contains("configmap/both is there twice"), "{}", ended.err);
    let ended = bench.firesteel(&["apply", "-f", "all.yaml", "--namespace", "none"]);
    assert!(ended.code == Some(1) && ended.err.contains("namespaces \"none\" not found"), "{ended:?}");
}

fn a_conflict_names_field_manager_and_flag(bench: &ApplyBench) {
    let with_lock = |text: &str| {
        let metadata = format!("{{name: locked, annotations: {{firesteel.dev/lock: {text}}}}}");
        host("locked", "online: true").replace("{name: locked}", &metadata)
    };
    bench.apply("locked.yaml", &host("locked", "online: true"));
    bench.firesteel(&["lock", "locked", "--reason", "mine"]);
    let ended = bench.apply("locked.yaml", &with_lock("ours"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    for part in
        [".metadata.annotations.firesteel.dev/lock", "\"firesteel-cli\" using metal3.io/v1alpha1", "--force-conflicts"]
    {
        assert!(ended.err.contains(part), "{}", ended.err);
    }
    let forced = bench.firesteel(&["apply", "-f", "locked.yaml", "--force-conflicts"]);
    assert_eq!(forced.out, "baremetalhost.metal3.io/locked configured\n", "{forced:?}");
    assert_eq!(bench.host("locked")["metadata"]["annotations"]["firesteel.dev/lock"], "ours");
}

/// An object of an earlier release is taken over once; a lock on it stays.
fn what_an_earlier_apply_made_is_taken_over(bench: &ApplyBench) {
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "old", "labels": {"rack": "r1"}},
        "spec": {"online": true, "image": {"url": "http://images.example/os.raw", "checksum": "00112233445566778899aabbccddeeff"}}});
    bench.apply_in_the_old_way("old", &object, &json!({"spec": {"description": "x"}}));
    bench.firesteel(&["lock", "old", "--reason", "mine"]);
    let owners = bench.host("old")["metadata"]["managedFields"].clone();
    bench.file("old.yaml", &host("old", "online: false"));
    let tried = bench.firesteel(&["apply", "-f", "old.yaml", "--dry-run=server"]);
    assert_eq!(tried.out, "baremetalhost.metal3.io/old configured (server dry run)\n", "{tried:?}");
    let shown = bench.firesteel(&["diff", "-f", "old.yaml"]);
    assert!(shown.code == Some(1) && shown.out.contains("\n-  image:\n"), "{shown:?}");
    // What is refused changes no owner.
    bench.file("refused.yaml", &host("old", "online: false, bootMACAddress: \"no MAC\""));
    assert_eq!(bench.firesteel(&["apply", "-f", "refused.yaml"]).code, Some(1));
    assert_eq!(bench.host("old")["metadata"]["managedFields"], owners);

    assert_eq!(bench.firesteel(&["apply", "-f", "old.yaml"]).out, "baremetalhost.metal3.io/old configured\n");
    let after = bench.host("old");
    assert!(after["spec"]["image"].is_null() && after["spec"]["description"].is_null(), "{after}");
    assert!(after["metadata"]["labels"].is_null() && after["spec"]["online"] == false, "{after}");
    assert_eq!(after["metadata"]["annotations"]["firesteel.dev/lock"], "mine");
    assert_eq!(bench.firesteel(&["apply", "-f", "old.yaml"]).out, "baremetalhost.metal3.io/old unchanged\n");
}

/// `firesteel adopt` knows the MAC, and the file of its user may not.
fn what_an_adopted_host_has_stays(bench: &ApplyBench) {
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "adopted"},
        "spec": {"online": true, "description": "one", "bootMACAddress": "52:54:00:00:00:17"}});
    let path = format!("{HOSTS}?fieldManager=firesteel-adopt");
    bench.runtime.block_on(bench.client.create(&path, &object)).unwrap();
    let ended = bench.apply("adopted.yaml", &host("adopted", "online: true, description: one"));
    let left = "the file does not have .spec.bootMACAddress, which firesteel-adopt set";
    assert!(ended.err.contains(left), "{ended:?}");
    bench.apply("adopted.yaml", &host("adopted", "online: true"));
    let spec = bench.host("adopted")["spec"].clone();
    assert_eq!((&spec["bootMACAddress"], &spec["description"]), (&json!("52:54:00:00:00:17"), &json!(null)));
}

fn a_dry_run_stores_nothing(bench: &ApplyBench) {
    bench.file("dry.yaml", &host("dry", "online: true"));
    let tried = bench.firesteel(&["apply", "-f", "dry.yaml", "--dry-run=server"]);
    assert_eq!((tried.code, tried.out.as_str()), (Some(0), "baremetalhost.metal3.io/dry created (server dry run)\n"));
    let hosts = bench.get(HOSTS);
    assert!(!hosts.to_string().contains("\"dry\""), "{hosts}");
    // The files alone are checked without an appliance.
    let offline = |name: &str| -> CommandEnd {
        let mut command = Command::new(PROGRAM);
        command.args(["apply", "--dry-run=client", "-f", name]).current_dir(bench.appliance.folder());
        command.env_remove("FIRESTEEL_DATA").env_remove("FIRESTEEL_KUBECONFIG").output().unwrap().into()
    };
    assert_eq!(offline("dry.yaml").out, "baremetalhost.metal3.io/dry checked (client dry run)\n");
    let typo = offline("typo.yaml");
    assert!(typo.code == Some(1) && typo.err.contains(".spec.imge"), "{typo:?}");
    for wrong in [&["--dry-run=maybe"][..], &["--dry-run=client", "--force-conflicts"], &[]] {
        let file: &[&str] = if wrong.is_empty() { &[] } else { &["-f", "dry.yaml"] };
        let ended = bench.firesteel(&[&["apply"], wrong, file].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
    }
}

fn files_come_from_everywhere(bench: &ApplyBench) {
    bench.file("folder/a.yaml", &map("from-folder", "a: b"));
    bench.file(
        "folder/b.json",
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-json"}}).to_string(),
    );
    bench.file("folder/below/c.yml", &map("from-below", "a: b"));
    bench.file("folder/README.md", "no object");
    assert_eq!(
        bench.firesteel(&["apply", "-f", "folder"]).out,
        "configmap/from-folder created\nconfigmap/from-json created\n"
    );
    bench.file("single.yaml", &map("from-file", "a: b"));
    let all = bench.firesteel(&["apply", "-R", "-f", "folder", "--filename", "single.yaml"]);
    let expected = "configmap/from-folder unchanged\nconfigmap/from-json unchanged\nconfigmap/from-below created\n\
                    configmap/from-file created\n";
    assert_eq!(all.out, expected, "{all:?}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/maps.yaml", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).unwrap() > 0);
        let body = map("from-web", "a: b");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
    });
    let fetched = bench.firesteel(&["apply", "-f", &url]);
    assert_eq!(fetched.out, "configmap/from-web created\n", "{fetched:?}");
    server.join().unwrap();

    let mut command = bench.appliance.command();
    command.args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(map("from-input", "a: b").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "configmap/from-input created\n");
    let none = bench.firesteel(&["apply", "-f", "none.yaml", "-f", "single.yaml"]);
    assert!(none.code == Some(1) && none.out.is_empty() && none.err.contains("none.yaml"), "{none:?}");
}

fn a_difference_is_shown(bench: &ApplyBench) {
    bench.apply("differs.yaml", &host("differs", "online: true"));
    let none = bench.firesteel(&["diff", "-f", "differs.yaml"]);
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (Some(0), "", ""));
    bench.file("differs.yaml", &host("differs", "online: false"));
    let shown = bench.firesteel(&["diff", "-f", "differs.yaml"]);
    assert!(shown.code == Some(1) && shown.err.contains("1 of 1 objects would change"), "{shown:?}");
    for part in ["--- live/default/baremetalhost.metal3.io/differs\n", "\n-  online: true\n+  online: false\n"] {
        assert!(shown.out.contains(part), "{}", shown.out);
    }
    assert_eq!(bench.host("differs")["spec"]["online"], true, "nothing was changed");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: hidden}\nstringData: {password: hunter2}\n";
    bench.file("hidden.yaml", secret);
    let shown = bench.firesteel(&["diff", "-f", "hidden.yaml"]);
    assert!(shown.out.contains("+  password: ") && shown.out.contains("***"), "{shown:?}");
    assert!(!shown.out.contains("hunter2") && !shown.out.contains("aHVudGVyMg"), "{shown:?}");
    bench.file("differs.yaml", &host("differs", "onlin: false"));
    let refused = bench.firesteel(&["diff", "-f", "differs.yaml"]);
    assert!(refused.code == Some(2) && refused.err.contains(".spec.onlin: "), "{refused:?}");
    assert_eq!(bench.firesteel(&["diff"]).code, Some(2));
}
