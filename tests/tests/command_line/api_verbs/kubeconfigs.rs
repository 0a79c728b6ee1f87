//! Which kubeconfig counts, and what it may hold.

use std::fs;
use std::process::Command;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{CommandLine, text};

fn hosts(command: &mut Command) -> String {
    let output = command.output().unwrap();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_kubeconfig_of_kubectl_is_honoured() {
    let line = CommandLine::start();
    let folder = line.appliance.folder();
    let get = || line.bare(&["get", "hosts", "-o", "name"]);
    let both = "baremetalhost.metal3.io/a\nbaremetalhost.metal3.io/b\n";
    let none = hosts(&mut get());
    assert!(none.contains("where is the appliance?") && none.contains("KUBECONFIG"), "{none}");

    // A user whose key and certificate are files beside the kubeconfig, split over two of them.
    line.ok(&["kubeconfig", "--user", "ann", "--role", "viewer", "--file", "ann.kubeconfig"]);
    let mut whole: Value = serde_json::from_slice(&fs::read(folder.join("ann.kubeconfig")).unwrap()).unwrap();
    let user = whole["users"][0]["user"].take();
    let pem = |name: &str| STANDARD.decode(user[name].as_str().unwrap()).unwrap();
    fs::create_dir(folder.join("keys")).unwrap();
    fs::write(folder.join("keys/ann.crt"), pem("client-certificate-data")).unwrap();
    fs::write(folder.join("keys/ann.key"), pem("client-key-data")).unwrap();
    fs::write(folder.join("keys/ca.crt"), line.appliance.ca_pem()).unwrap();
    whole["clusters"][0]["cluster"].as_object_mut().unwrap().remove("certificate-authority-data");
    whole["clusters"][0]["cluster"]["certificate-authority"] = json!("keys/ca.crt");
    let users = json!({"users": [{"name": "ann", "user": {"client-certificate": "keys/ann.crt", "client-key": "keys/ann.key"}}]});
    whole.as_object_mut().unwrap().remove("users");
    line.file("one", &whole.to_string());
    line.file("two", &users.to_string());
    let list = format!("{0}/none:{0}/one:{0}/two", folder.display());
    assert_eq!(hosts(get().env("KUBECONFIG", &list)), both);

    // The home folder comes last, and what is set for Firesteel alone comes first.
    fs::create_dir(folder.join(".kube")).unwrap();
    fs::copy(line.appliance.kubeconfig(), folder.join(".kube/config")).unwrap();
    assert_eq!(hosts(&mut get()), both);
    line.file("broken", "clusters: 1");
    for (name, value) in [("FIRESTEEL_KUBECONFIG", "broken"), ("FIRESTEEL_DATA", "nowhere"), ("KUBECONFIG", "broken")] {
        let said = hosts(get().env("KUBECONFIG", &list).env(name, value));
        assert!(said.contains("could not read ") && said.contains(value), "{name}: {said}");
    }
    assert_eq!(hosts(get().env("FIRESTEEL_DATA", line.appliance.data()).env("KUBECONFIG", "broken")), both);
}
