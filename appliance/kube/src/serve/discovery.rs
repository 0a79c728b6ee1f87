//! What is served here, in the two forms in which clients ask. Pure.

use serde_json::{Value, json};

use crate::model::kind::{self, KindInfo};
use crate::model::kind_parts::Writers;
use crate::model::registry::Registry;
use crate::object::scale;

/// The Kubernetes release whose behaviour is meant; clients compare it with their own.
const MINOR: &str = "36";

pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR,
        "gitVersion": format!("v1.{MINOR}.0+firesteel.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

pub(crate) fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry.groups().iter().map(|(group, versions)| group_value(group, versions)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = registry.groups();
    let (group, versions) = groups.iter().find(|(group, _)| *group == name)?;
    let mut value = group_value(group, versions);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    Some(value)
}

fn group_value(group: &str, versions: &[&str]) -> Value {
    let named: Vec<Value> =
        versions.iter().map(|v| json!({ "groupVersion": format!("{group}/{v}"), "version": v })).collect();
    json!({ "name": group, "versions": named, "preferredVersion": named.first() })
}

pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for kind in registry.kinds().iter().filter(|kind| kind.group == group && kind.version == version) {
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular_name(), "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": verbs(kind),
        });
        name_lists(&mut resource, kind);
        list.push(resource);
        list.extend(parts(kind).into_iter().map(|part| {
            let mut resource = json!({
                "name": format!("{}/{}", kind.plural, part.name), "singularName": "", "namespaced": kind.namespaced,
                "kind": part.kind, "verbs": part.verbs,
            });
            // Of objects of the kind itself the document says it.
            if part.kind != kind.kind {
                resource["group"] = json!(part.group);
                resource["version"] = json!(part.version);
            }
            resource
        }));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!list.is_empty()).then(
        || json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list }),
    )
}

/// The core group alone for `/api`, all others for `/apis`.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups = if core { vec![("", vec!["v1"])] } else { registry.groups() };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> =
                versions.iter().map(|version| aggregated_version(registry, group, version)).collect();
            json!({ "metadata": { "name": group, "creationTimestamp": null }, "versions": versions })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let kinds = registry.kinds().iter().filter(|kind| kind.group == group && kind.version == version);
    let resources: Vec<Value> = kinds
        .map(|kind| {
            let response = json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
            let mut resource = json!({
                "resource": kind.plural, "responseKind": response, "singularResource": kind.singular_name(),
                "scope": if kind.namespaced { "Namespaced" } else { "Cluster" }, "verbs": verbs(kind),
            });
            name_lists(&mut resource, kind);
            let parts: Vec<Value> = parts(kind)
                .iter()
                .map(|part| {
                    let response = json!({ "group": part.group, "version": part.version, "kind": part.kind });
                    json!({ "subresource": part.name, "responseKind": response, "verbs": part.verbs })
                })
                .collect();
            if !parts.is_empty() {
                resource["subresources"] = json!(parts);
            }
            resource
        })
        .collect();
    json!({ "version": version, "freshness": "Current", "resources": resources })
}

/// A part of a kind's objects that has a URL of its own, and what is sent and answered there.
struct Subresource {
    name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
}

fn parts(kind: &KindInfo) -> Vec<Subresource> {
    let own = |name, verbs| Subresource { name, group: kind.group, version: kind.version, kind: kind.kind, verbs };
    let status = kind.has_status.then(|| own("status", status_verbs(kind)));
    let scale = kind.scale.map(|_| Subresource {
        group: "autoscaling",
        version: "v1",
        kind: scale::KIND,
        ..own("scale", status_verbs(kind))
    });
    let log = kind.has_log.then(|| own("log", &["get"]));
    let requests = kind.requests.iter().map(|request| Subresource {
        group: request.group,
        version: request.version,
        kind: request.kind,
        ..own(request.subresource, &["create"])
    });
    status.into_iter().chain(scale).chain(log).chain(requests).collect()
}

fn name_lists(resource: &mut Value, kind: &KindInfo) {
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
}

pub(crate) fn verbs(kind: &KindInfo) -> &'static [&'static str] {
    if kind.review.is_some() {
        return &["create"];
    }
    match kind.writers {
        // They are deleted one by one, as in Kubernetes.
        Writers::Everyone if kind::is_namespace(kind) => {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
        Writers::Everyone => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        Writers::Controllers => &["get", "list", "watch"],
        Writers::ControllersButLabels => &["get", "list", "patch", "update", "watch"],
    }
}

fn status_verbs(kind: &KindInfo) -> &'static [&'static str] {
    match kind.writers {
        Writers::Everyone => &["get", "patch", "update"],
        Writers::Controllers | Writers::ControllersButLabels => &["get"],
    }
}
