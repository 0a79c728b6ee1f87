//! Our kinds beside upstream's definitions, word for word, and the machine-readable cases of the
//! provisioning network.

use std::collections::BTreeMap;

use firesteel_resources::kind::{Kind, KindScope};
use firesteel_resources::kinds::{self, KINDS};
use firesteel_resources::shape::{Shape, ShapeForm, check, conform};
use firesteel_resources::{Provisioning, admit, schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fixture;

/// Where upstream defines each kind. Kinds that are not here are our own.
const DEFINITIONS: &[(&str, &str)] = &[
    ("BareMetalHost", "bmo/crds/metal3.io_baremetalhosts.yaml"),
    ("HardwareData", "bmo/crds/metal3.io_hardwaredata.yaml"),
    ("HostFirmwareSettings", "bmo/crds/metal3.io_hostfirmwaresettings.yaml"),
    ("FirmwareSchema", "bmo/crds/metal3.io_firmwareschemas.yaml"),
    ("HostFirmwareComponents", "bmo/crds/metal3.io_hostfirmwarecomponents.yaml"),
    ("HostUpdatePolicy", "bmo/crds/metal3.io_hostupdatepolicies.yaml"),
    ("PreprovisioningImage", "bmo/crds/metal3.io_preprovisioningimages.yaml"),
    ("DataImage", "bmo/crds/metal3.io_dataimages.yaml"),
    ("BMCEventSubscription", "bmo/crds/metal3.io_bmceventsubscriptions.yaml"),
    ("BareMetalSwitch", "bmo/crds/metal3.io_baremetalswitches.yaml"),
    ("HostNetworkAttachment", "bmo/crds/metal3.io_hostnetworkattachments.yaml"),
    ("HostClaim", "bmo/crds/metal3.io_hostclaims.yaml"),
    ("HostDeployPolicy", "bmo/crds/metal3.io_hostdeploypolicies.yaml"),
    ("Provisioning", "cbo/metal3.io_provisionings.yaml"),
    ("ClusterOperator", "openshift-api/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml"),
    ("Cluster", "capi/core/cluster.x-k8s.io_clusters.yaml"),
    ("Machine", "capi/core/cluster.x-k8s.io_machines.yaml"),
    ("MachineSet", "capi/core/cluster.x-k8s.io_machinesets.yaml"),
    ("MachineSet", "openshift-api/0000_10_machine-api_01_machinesets-Default.crd.yaml"),
    ("MachineConfiguration", "openshift-api/0000_80_machine-config_01_machineconfigurations.crd.yaml"),
    ("MachineConfig", "openshift-api/0000_80_machine-config_01_machineconfigs.crd.yaml"),
    ("MachineConfigPool", "openshift-api/0000_80_machine-config_01_machineconfigpools.crd.yaml"),
];
/// The kinds of this appliance alone.
const OWN: &[&str] =
    &["HostJournal", "DiscoveredHost", "Halt", "Receipt", "AccessGrant", "BootImageStream", "HostGroup"];

/// A difference that is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meant {
    kind: String,
    at: String,
    /// What is said here; nothing where it is left out.
    #[serde(default)]
    here: Value,
    /// All that begins so is here alone.
    #[serde(default)]
    added: bool,
    reason: String,
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// The definition of a kind, as one map from "where what" to the value.
fn facts(names: &Value, columns: &Value, schema: &Value) -> BTreeMap<String, Value> {
    let mut facts = BTreeMap::new();
    for (name, value) in names.as_object().into_iter().flatten() {
        facts.insert(format!("names {name}"), value.clone());
    }
    for column in columns.as_array().into_iter().flatten() {
        let name = column["name"].as_str().unwrap();
        for key in ["type", "jsonPath", "format", "priority"] {
            let value = column.get(key).filter(|value| **value != json!(0)).cloned();
            facts.extend(value.map(|value| (format!("column {name} {key}"), value)));
        }
    }
    schema_facts(schema, "", &mut facts);
    facts
}

fn schema_facts(schema: &Value, path: &str, facts: &mut BTreeMap<String, Value>) {
    for (word, value) in schema.as_object().into_iter().flatten() {
        match (word.as_str(), value) {
            ("description", _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    // The API server's own.
                    if !(path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str())) {
                        schema_facts(property, &format!("{path}.{name}"), facts);
                    }
                }
            }
            ("items", item) => schema_facts(item, &format!("{path}[]"), facts),
            ("additionalProperties", item) if item.is_object() => schema_facts(item, &format!("{path}.*"), facts),
            ("required", Value::Array(names)) => {
                for name in names {
                    facts.insert(format!("{path}.{} required", name.as_str().unwrap()), json!(true));
                }
            }
            (word, value) => drop(facts.insert(format!("{path} {word}").trim().to_owned(), value.clone())),
        }
    }
}

fn upstream(crd: &Value, version: &Value) -> BTreeMap<String, Value> {
    let mut names = crd["spec"]["names"].clone();
    names["scope"] = crd["spec"]["scope"].clone();
    names["group"] = crd["spec"]["group"].clone();
    names["version"] = version["name"].clone();
    for (name, paths) in version["subresources"].as_object().into_iter().flatten() {
        names[format!("subresource {name}")] = paths.clone();
    }
    names["storage"] = version["storage"].clone();
    names["deprecated"] = json!(version["deprecated"] == true);
    facts(&names, &version["additionalPrinterColumns"], &version["schema"]["openAPIV3Schema"])
}

fn ours(kind: &Kind) -> BTreeMap<String, Value> {
    let mut names = json!({
        "kind": kind.kind, "listKind": format!("{}List", kind.kind), "plural": kind.plural,
        "singular": kind.singular, "group": kind.group, "version": kind.version,
        "scope": if kind.scope == KindScope::Namespaced { "Namespaced" } else { "Cluster" },
    });
    if !kind.short_names.is_empty() {
        names["shortNames"] = json!(kind.short_names);
    }
    if kind.has_status {
        names["subresource status"] = json!({});
    }
    if !kind.categories.is_empty() {
        names["categories"] = json!(kind.categories);
    }
    if let Some(scale) = kind.scale {
        names["subresource scale"] = json!({
            "specReplicasPath": scale.spec_replicas, "statusReplicasPath": scale.status_replicas,
            "labelSelectorPath": scale.label_selector,
        });
    }
    names["storage"] = json!(kind.stored_as.is_none());
    names["deprecated"] = json!(kind.is_deprecated);
    let columns: Vec<Value> = kind
        .columns
        .iter()
        .map(|column| {
            json!({ "name": column.name, "type": column.type_, "jsonPath": column.json_path, "priority": column.priority })
        })
        .collect();
    facts(&names, &json!(columns), &schema::openapi(kind.shape))
}

#[test]
fn every_difference_from_upstreams_definitions_is_meant() {
    let meant: Vec<Meant> = serde_saphyr::from_str(include_str!("differences.yaml")).unwrap();
    let mut found = Vec::new();
    for (kind, path) in DEFINITIONS {
        let Some(text) = fixture(path) else { return };
        let definition = &documents(&text)[0];
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let is_it = |known: &&&Kind| {
                known.kind == *kind && definition["spec"]["group"] == known.group && version["name"] == known.version
            };
            let kind = KINDS.iter().find(is_it).unwrap();
            let (theirs, ours) = (upstream(definition, version), ours(kind));
            for at in theirs.keys().chain(ours.keys().filter(|at| !theirs.contains_key(*at))) {
                let (theirs, ours) = (theirs.get(at), ours.get(at));
                if theirs != ours {
                    found.push((kind.kind, at.clone(), ours.cloned().unwrap_or_default(), theirs.cloned()));
                }
            }
        }
    }
    let fits = |meant: &Meant, (kind, at, here, theirs): &(&str, String, Value, Option<Value>)| {
        let same = if meant.added {
            theirs.is_none() && at.strip_prefix(&meant.at).is_some_and(|rest| rest.starts_with([' ', '.', '[']))
        } else {
            meant.at == *at && meant.here == *here
        };
        meant.kind == *kind && same
    };
    let surprises: Vec<_> = found.iter().filter(|found| !meant.iter().any(|meant| fits(meant, found))).collect();
    assert!(surprises.is_empty(), "{} differences are not in the list:\n{}", surprises.len(), lines(&surprises));
    let gone: Vec<&Meant> = meant.iter().filter(|meant| !found.iter().any(|found| fits(meant, found))).collect();
    assert!(gone.is_empty(), "these differences are no more: {gone:?}");
    assert!(meant.iter().all(|meant| meant.reason.len() > 10), "each has its reason");
}

fn lines(list: &[impl std::fmt::Debug]) -> String {
    list.iter().map(|item| format!("{item:?}\n")).collect()
}

#[test]
fn every_kind_has_its_definition_or_is_our_own() {
    let known = |kind: &str| OWN.contains(&kind) || DEFINITIONS.iter().any(|(name, _)| *name == kind);
    for kind in KINDS {
        assert!(known(kind.kind), "{} is compared with nothing", kind.kind);
    }
}

/// Goes over a shape and all that is in it.
fn walk(shape: &Shape, path: &str, visit: &mut impl FnMut(&Shape, &str)) {
    visit(shape, path);
    match shape.form {
        ShapeForm::Boolean
        | ShapeForm::Integer
        | ShapeForm::Number
        | ShapeForm::Text
        | ShapeForm::IntegerOrText
        | ShapeForm::Any => {}
        ShapeForm::Map(item) => walk(item, &format!("{path}.*"), visit),
        ShapeForm::List(item) => walk(item, &format!("{path}[]"), visit),
        ShapeForm::Object(fields) => {
            for field in fields {
                let path = format!("{path}.{}", field.name);
                assert!(!field.about.is_empty(), "{path} does not say what it is for");
                assert!(!field.about.contains('\n') && field.about.ends_with('.'), "{path}: {}", field.about);
                walk(&field.shape, &path, visit);
            }
        }
    }
}

#[test]
fn every_field_says_what_it_is_for_and_every_pattern_is_one() {
    for kind in KINDS {
        walk(kind.shape, kind.kind, &mut |shape, path| {
            if let Some(pattern) = shape.pattern {
                assert!(regex::bytes::RegexBuilder::new(pattern).unicode(false).build().is_ok(), "{path}: {pattern}");
            }
            // A default must itself have the shape that it is in.
            if let Some(default) = shape.default {
                let mut value = default.value();
                assert_eq!(conform(shape, &mut value), Vec::<String>::new(), "{path}");
                assert_eq!(check(shape, &value, None), Vec::new(), "{path}");
            }
        });
    }
}

#[test]
fn the_provisioning_networks_cases_get_their_verdict() {
    let Some(text) = fixture("vectors/provisioning-validation.json") else { return };
    let vectors: Value = serde_json::from_str(&text).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() >= 24);
    for case in cases {
        let mut spec: Map<String, Value> =
            vectors["bases"][case["base"].as_str().unwrap()].as_object().unwrap().clone();
        spec.extend(case["override"].as_object().unwrap().clone());
        let mut object = json!({"metadata": {"name": "provisioning-configuration"}, "spec": spec});
        let admission = admit(&kinds::PROVISIONING, &mut object, None);
        assert_eq!(json!(admission.causes.is_empty()), case["valid"], "{case}: {:?}", admission.causes);
        let typed: Provisioning = serde_json::from_value(object).unwrap();
        assert_eq!(typed.network().is_ok(), admission.causes.is_empty());
    }
}
