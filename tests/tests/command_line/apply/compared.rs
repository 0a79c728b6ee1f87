//! The same files for kubectl and firesteel, each in a namespace of its own.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use super::cases::{CASES, EXPECTED, OTHERS};
use super::{ApplyBench, CommandEnd, HOSTS, IMAGE, host};

/// The oldest minor version of kubectl that lets the server check fields.
const MINOR_MIN: u32 = 27;
/// The collections that the cases are in, below a namespace.
const COLLECTIONS: [&str; 3] = [
    "/apis/metal3.io/v1alpha1/namespaces/TOOL/baremetalhosts",
    "/api/v1/namespaces/TOOL/configmaps",
    "/api/v1/namespaces/TOOL/secrets",
];

/// Whether there is a kubectl to compare with.
pub(super) fn kubectl_is_here() -> bool {
    let output = Command::new("kubectl").args(["version", "--client", "--output=json"]).output();
    let version: Value = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    minor.trim_end_matches('+').parse::<u32>().is_ok_and(|minor| minor >= MINOR_MIN)
}

/// A client that applies files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Kubectl,
    Firesteel,
}

impl Tool {
    /// Its name, and that of its namespace.
    fn name(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl",
            Self::Firesteel => "firesteel",
        }
    }

    fn apply(self, bench: &ApplyBench, folder: &str) -> CommandEnd {
        let folder = format!("{}/{folder}", self.name());
        match self {
            Self::Kubectl => kubectl(bench, &["apply", "--server-side", "-n", self.name(), "-f", &folder]),
            Self::Firesteel => bench.firesteel(&["apply", "-n", self.name(), "-f", &folder]),
        }
    }
}

fn kubectl(bench: &ApplyBench, arguments: &[&str]) -> CommandEnd {
    let folder = bench.appliance.folder();
    let mut command = Command::new("kubectl");
    command.args(arguments).current_dir(folder).env("HOME", folder).env("KUBECONFIG", bench.appliance.kubeconfig());
    command.output().unwrap().into()
}

/// All objects of a client by kind and name, as far as files can say what they are.
fn objects(bench: &ApplyBench, tool: Tool) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let spaces = ["/api/v1/namespaces".to_owned()].into_iter();
    for collection in COLLECTIONS.iter().map(|path| path.replace("TOOL", tool.name())).chain(spaces) {
        for mut object in bench.get(&collection)["items"].as_array().unwrap().iter().cloned() {
            let is_space = object["kind"] == "Namespace";
            let metadata = object["metadata"].as_object_mut().unwrap();
            let name = metadata["name"].as_str().unwrap().to_owned();
            if is_space && name != format!("space-{}", tool.name()) {
                continue;
            }
            for key in ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation", "namespace"] {
                metadata.remove(key);
            }
            object.as_object_mut().unwrap().remove("status");
            let text = object.to_string().replace(&format!("space-{}", tool.name()), "space-TOOL");
            found.insert(name.replace(tool.name(), "TOOL"), serde_json::from_str(&text).unwrap());
        }
    }
    found
}

/// What a client says and what became of it, case by case: `c`, `m`, `u` or `r`.
fn verdicts(
    tool: Tool,
    ended: &CommandEnd,
    before: &BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
) -> BTreeMap<&'static str, char> {
    let verdict = |name: &'static str| {
        let title = format!("/{} ", name.replace("TOOL", tool.name()));
        let words: Option<&str> = ended.out.lines().find_map(|line| line.split_once(&title)).map(|(_, words)| words);
        let found = match (words, before.get(name), after.get(name)) {
            (None, old, new) => {
                assert_eq!(old, new, "{tool:?} changed {name}, and did not say it");
                'r'
            }
            (Some(_), None, Some(_)) => 'c',
            (Some(_), Some(old), Some(new)) => {
                if old == new {
                    'u'
                } else {
                    'm'
                }
            }
            (Some(words), _, None) => panic!("{tool:?} says {words:?} of {name}, which is not there"),
        };
        let expected = match (tool, found) {
            (_, 'r') => None,
            (Tool::Kubectl, _) => Some("serverside-applied"),
            (Tool::Firesteel, 'c') => Some("created"),
            (Tool::Firesteel, 'u') => Some("unchanged"),
            (Tool::Firesteel, _) => Some("configured"),
        };
        assert_eq!(words, expected, "{tool:?}, {name}");
        (name, found)
    };
    CASES.iter().map(|case| verdict(case.name)).collect()
}

fn write_files(bench: &ApplyBench, tool: Tool) {
    for case in CASES {
        for (folder, text) in [("first", case.first), ("second", case.second)] {
            let head = |version: &str, kind: &str| {
                format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: {}", case.name)
            };
            let text = text
                .replace("HOST", &head("metal3.io/v1alpha1", "BareMetalHost"))
                .replace("MAP", &head("v1", "ConfigMap"))
                .replace("SECRET", &head("v1", "Secret"))
                .replace("TOOL", tool.name());
            bench.file(&format!("{}/{folder}/{}.yaml", tool.name(), case.name), &format!("{text}\n"));
        }
    }
    bench.file(&format!("{}/others.yaml", tool.name()), OTHERS);
}

/// The table of cases: both accept the same, refuse the same, and make the same objects.
pub(super) fn small_files_give_the_same(bench: &ApplyBench) {
    let mut found: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    let mut last = Vec::new();
    for tool in [Tool::Kubectl, Tool::Firesteel] {
        write_files(bench, tool);
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tool.name()}});
        bench.runtime.block_on(bench.client.create("/api/v1/namespaces", &space)).unwrap();
        let mut states = vec![objects(bench, tool)];
        for folder in ["first", "second"] {
            let ended = tool.apply(bench, folder);
            assert_eq!(ended.code, Some(1), "some are refused: {ended:?}");
            states.push(objects(bench, tool));
            let [.., before, after] = states.as_slice() else { continue };
            for (name, verdict) in verdicts(tool, &ended, before, after) {
                found.entry(name).or_default().entry(tool.name()).or_default().push(verdict);
            }
            if folder == "first" {
                let others = format!("{}/others.yaml", tool.name());
                let forced = ["--field-manager=others", "--force-conflicts", "-n", tool.name(), "-f", &others];
                let ended = kubectl(bench, &[&["apply", "--server-side"], forced.as_slice()].concat());
                assert_eq!(ended.code, Some(0), "{ended:?}");
                states.push(objects(bench, tool));
            }
        }
        last.push(states.pop().unwrap());
    }
    let expected: BTreeMap<&str, BTreeMap<&str, String>> = EXPECTED
        .iter()
        .map(|(name, verdicts)| {
            let both = [Tool::Kubectl, Tool::Firesteel].map(|tool| (tool.name(), (*verdicts).to_owned()));
            (*name, BTreeMap::from(both))
        })
        .collect();
    assert_eq!(found, expected);
    assert!(CASES.len() >= 30);
    assert_eq!(last[0], last[1], "both make the same objects");
}

/// What `kubectl apply` and `kubectl create` made: a field that leaves the file goes.
pub(super) fn what_kubectl_applied_is_taken_over(bench: &ApplyBench) {
    let with = |name: &str| host(name, &format!("online: true, description: a{IMAGE}"));
    bench.file("csa.yaml", &with("applied-before"));
    bench.file("made.yaml", &with("made-before"));
    assert_eq!(kubectl(bench, &["apply", "-f", "csa.yaml"]).code, Some(0));
    assert_eq!(kubectl(bench, &["create", "-f", "made.yaml"]).code, Some(0));
    // A value that is changed, too, is no conflict: it is the same user's.
    let without = host("applied-before", "online: false");
    let title = "baremetalhost.metal3.io/applied-before";
    assert_eq!(bench.apply("csa.yaml", &without).out, format!("{title} configured\n"));
    let after = bench.host("applied-before");
    assert!(after["spec"]["image"].is_null() && after["spec"]["description"].is_null(), "{after}");
    assert_eq!(after["spec"]["online"], false);
    assert!(!after.to_string().contains("kubectl"), "neither the record nor an owner is left: {after}");
    assert_eq!(bench.apply("csa.yaml", &without).out, format!("{title} unchanged\n"));

    // A field goes that was in the file once; what the file never had stays, and that is said.
    let part = bench.apply("made.yaml", &host("made-before", &format!("online: true{IMAGE}")));
    assert!(part.err.contains("the file does not have .spec.description, which kubectl-create set"), "{part:?}");
    let changed = bench.apply("changed.yaml", &host("made-before", "online: true, description: b"));
    assert!(changed.code == Some(1) && changed.err.contains("conflict with \"kubectl-create\""), "{changed:?}");
    assert_eq!(bench.apply("made.yaml", &host("made-before", "online: true")).code, Some(0));
    let spec = bench.get(&format!("{HOSTS}/made-before"))["spec"].clone();
    assert!(spec["image"].is_null() && spec["description"] == "a", "{spec}");
}
