//! The kinds as the appliance serves them: upstream's own YAML gets the verdict of upstream's own definitions, under
//! strict validation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::wildcard_enum_match_arm, reason = "JSON has many cases")]

mod definition;

use std::{collections::BTreeSet, path::PathBuf};

use definition::{Definition, Verdict};
use firesteel_appliance::serve::kinds::registry;
use firesteel_kube::{Core, Objects};
use firesteel_resources::kinds::MACHINE_CONFIGURATION;
use firesteel_store::{MemoryMedium, Store};
use serde_json::{Value, json};

/// The namespace of upstream's examples that name none: the one of their Secrets.
const NAMESPACE: &str = "openshift-machine-api";
/// Folders and files with definitions, and with objects.
const DEFINITIONS: [&str; 3] = ["bmo/crds", "cbo/metal3.io_provisionings.yaml", "openshift-api"];
const OBJECTS: [&str; 4] = [
    "bmo/examples",
    "bmo/samples",
    "cbo/metal3.io_v1alpha1_provisioning.yaml",
    "cbo/0000_31_cluster-baremetal-operator_07_clusteroperator.cr.yaml",
];

/// The field that a refusal names where rules were not checked, as Kubernetes does.
const NOT_A_FIELD: &str = "<nil>";

fn files(path: &str) -> Option<Vec<PathBuf>> {
    let path = firesteel_fixtures::path(path)?;
    if path.is_file() {
        return Some(vec![path]);
    }
    let folder = std::fs::read_dir(&path).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    Some(files)
}

/// Returns all documents below these places, each with its file's name.
fn documents(places: &[&str]) -> Option<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for place in places {
        for file in files(place)? {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file).unwrap();
            let found: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            all.extend(found.into_iter().filter(Value::is_object).map(|document| (name.clone(), document)));
        }
    }
    Some(all)
}

async fn core() -> Core {
    let core = Core::new(Store::in_memory(&MemoryMedium::new()), registry());
    core.publish_kinds().await.unwrap();
    core
}

/// Returns this appliance's verdict on a new object.
async fn ours(core: &Core, object: &Value) -> Verdict {
    let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    // This applies the rules of the API, with strict validation.
    let objects: Objects<Value> = Objects::new(core, group, object["kind"].as_str().unwrap()).unwrap();
    match objects.create(object).await {
        Ok(stored) => Verdict::Taken(stored),
        Err(status) if status.code == 400 => Verdict::Unknown(status.message),
        Err(status) => {
            assert_eq!(status.code, 422, "{}", status.message);
            Verdict::Wrong(status.causes().iter().map(|cause| cause.field.clone()).collect())
        }
    }
}

#[tokio::test]
async fn upstreams_yaml_gets_the_verdict_of_its_own_definition() {
    let Some(definitions) = documents(&DEFINITIONS) else { return };
    let definitions: Vec<Definition> = definitions.iter().map(|(_, crd)| Definition::of(crd)).collect();
    let core = core().await;
    core.ensure_namespace(NAMESPACE).await.unwrap();
    let (mut judged, mut refused) = (BTreeSet::new(), 0);
    for (number, (file, mut object)) in documents(&OBJECTS).unwrap().into_iter().enumerate() {
        let known = definitions.iter().find(|definition| definition.is_of(&object));
        let Some(definition) = known.filter(|_| core.registry().by_kind(group(&object), kind(&object)).is_some())
        else {
            // These are Secrets, and kinds of other projects.
            assert!(["Secret", "Machine"].contains(&kind(&object)), "{file}: {}", kind(&object));
            continue;
        };
        if definition.namespaced {
            object["metadata"]["namespace"] = json!(NAMESPACE);
        }
        // Several files name the same host, and only one name is allowed for the network.
        if kind(&object) == "BareMetalHost" {
            object["metadata"]["name"] = json!(format!("host-{number}"));
        }
        let (theirs, ours) = (definition.judge(&object), ours(&core, &object).await);
        match (&theirs, &ours) {
            (Verdict::Taken(_), Verdict::Taken(stored)) => {
                let theirs = definition.conformed(&object);
                assert_eq!(stored["spec"], theirs["spec"], "{file}: the same defaults, and nothing lost");
            }
            (Verdict::Unknown(theirs), Verdict::Unknown(ours)) => {
                // A part of an unknown field is unknown as well.
                let part = theirs.split(", ").find(|field| ours.contains(field.trim_end_matches('"')));
                assert!(part.is_some(), "{file}: {ours} names none of {theirs}");
            }
            (theirs, ours) => assert_eq!(theirs, ours, "{file}"),
        }
        judged.insert(kind(&object).to_owned());
        refused += usize::from(!matches!(theirs, Verdict::Taken(_)));
    }
    assert!(judged.len() >= 12, "{judged:?}");
    assert!(refused >= 5, "several samples are refused by their own definitions: {refused}");
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap()
}

fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group)
}

/// Random objects made from the words of a definition get the same verdict from both: the shape here, and the
/// definition there.
#[tokio::test]
async fn chance_objects_get_the_verdict_of_their_definition() {
    let Some(definitions) = documents(&DEFINITIONS) else { return };
    let core = core().await;
    core.ensure_namespace(NAMESPACE).await.unwrap();
    let mut counts = [0; 3];
    for (_, crd) in &definitions {
        let definition = Definition::of(crd);
        let name = definition.kind.as_str();
        // The rules of these two are stricter than their definitions; all others are compared by shape alone, as far as
        // rules do not apply.
        if core.registry().by_kind(&definition.group, name).is_none()
            || name == "BareMetalHost"
            || name == "Provisioning"
        {
            continue;
        }
        let mut dice = definition::Dice::new(name);
        for number in 0..200 {
            let mut object = definition.chance(&mut dice);
            object["metadata"] = json!({ "name": format!("o-{number}") });
            if name == MACHINE_CONFIGURATION.kind {
                // There is one of this name: the next object needs a free name.
                object["metadata"]["name"] = json!("cluster");
                let objects: Objects<Value> = Objects::new(&core, &definition.group, name).unwrap();
                objects.delete("", "cluster").await.unwrap();
            }
            if definition.namespaced {
                object["metadata"]["namespace"] = json!(NAMESPACE);
            }
            let (theirs, ours) = (definition.judge(&object), ours(&core, &object).await);
            match (&theirs, &ours) {
                (Verdict::Taken(theirs), Verdict::Taken(stored)) => {
                    assert_eq!(stored["spec"], theirs["spec"], "{name}: the same defaults, and nothing lost");
                    counts[0] += 1;
                }
                (Verdict::Unknown(_), Verdict::Unknown(_)) => counts[1] += 1,
                // Rules apply after the shape; a definition has none.
                (Verdict::Taken(_) | Verdict::Unknown(_), Verdict::Wrong(fields)) if definition::has_rules(name) => {
                    assert!(fields.iter().all(|field| field.starts_with("spec")), "{fields:?}");
                }
                // Rules add to what is wrong in the shape, or say that they were not checked.
                (Verdict::Wrong(theirs), Verdict::Wrong(ours)) if definition::has_rules(name) => {
                    assert!(theirs.is_subset(ours), "{object}: {theirs:?}, {ours:?}");
                    let mut more = ours.difference(theirs);
                    assert!(more.all(|field| field.starts_with("spec") || field == NOT_A_FIELD), "{object}: {ours:?}");
                    counts[2] += 1;
                }
                (theirs, ours) => {
                    assert_eq!(theirs, ours, "{object}");
                    counts[2] += 1;
                }
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 50), "of each verdict there are some: {counts:?}");
}
