//! The kinds of the API by the words that people use.

use std::sync::Arc;

use anyhow::bail;
use firesteel_kube::KindInfo;
use firesteel_resources::{kind::KindScope, kinds::KINDS};

use super::usage::wrong_use;

/// A kind, as far as the command line needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CliKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub namespaced: bool,
}

impl CliKind {
    /// Whether the kind is that of hosts.
    pub(crate) fn is_host(self) -> bool {
        self.kind == "BareMetalHost"
    }

    /// The word for the kind in messages: `hosts`, or the plural of another kind.
    pub(crate) fn word(self) -> &'static str {
        if self.is_host() { "hosts" } else { self.plural }
    }

    /// The kind's plural with its group, as in `baremetalhosts.metal3.io`.
    pub(crate) fn resource(self) -> String {
        with_group(self.plural, self.group)
    }

    /// The name of an object with its kind and group, as in `baremetalhost.metal3.io/rack1-07`.
    pub(crate) fn object(self, name: &str) -> String {
        format!("{}/{name}", with_group(self.singular, self.group))
    }

    /// Group and version, as objects name them in `apiVersion`.
    pub(crate) fn api_version(self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

fn with_group(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

const fn core(kind: &'static str, plural: &'static str, singular: &'static str, namespaced: bool) -> CliKind {
    CliKind { group: "", version: "v1", kind, plural, singular, short_names: &[], namespaced }
}

const fn short(kind: CliKind, short_names: &'static [&'static str]) -> CliKind {
    CliKind { short_names, ..kind }
}

/// The kinds of Kubernetes that the appliance serves.
const CORE: [CliKind; 9] = [
    core("Secret", "secrets", "secret", true),
    short(core("ConfigMap", "configmaps", "configmap", true), &["cm"]),
    short(core("ResourceQuota", "resourcequotas", "resourcequota", true), &["quota"]),
    short(core("Event", "events", "event", true), &["ev"]),
    short(core("Namespace", "namespaces", "namespace", false), &["ns"]),
    short(core("ServiceAccount", "serviceaccounts", "serviceaccount", true), &["sa"]),
    short(core("Pod", "pods", "pod", true), &["po"]),
    CliKind { group: "coordination.k8s.io", ..core("Lease", "leases", "lease", true) },
    short(
        CliKind {
            group: "apiextensions.k8s.io",
            ..core("CustomResourceDefinition", "customresourcedefinitions", "customresourcedefinition", false)
        },
        &["crd", "crds"],
    ),
];

/// All kinds, in the order in which a name is looked for.
pub(crate) fn all() -> impl Iterator<Item = CliKind> {
    let ours = KINDS.iter().filter(|kind| kind.stored_as.is_none()).map(|kind| CliKind {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        plural: kind.plural,
        singular: kind.singular,
        short_names: kind.short_names,
        namespaced: kind.scope == KindScope::Namespaced,
    });
    ours.chain(CORE)
}

/// Finds a kind by plural, singular or short name, with its group or without; `hosts` are BareMetalHosts.
///
/// # Errors
/// When no kind has this name; the message lists those that exist.
pub(crate) fn by_name(name: &str) -> anyhow::Result<CliKind> {
    let lower = name.to_ascii_lowercase();
    let wanted = match lower.as_str() {
        "host" | "hosts" => "baremetalhosts",
        "discovered" => "discoveredhosts",
        other => other,
    };
    let (plain, group) = wanted.split_once('.').map_or((wanted, None), |(plain, group)| (plain, Some(group)));
    let found = all().find(|kind| {
        let is_named = [kind.plural, kind.singular].contains(&plain)
            || kind.kind.eq_ignore_ascii_case(plain)
            || kind.short_names.contains(&plain);
        // kubectl takes `PLURAL.GROUP` and `PLURAL.VERSION.GROUP`.
        let with_version = || group.and_then(|group| group.strip_prefix(kind.version)?.strip_prefix('.'));
        is_named && group.is_none_or(|group| group == kind.group || with_version() == Some(kind.group))
    });
    found.ok_or_else(|| wrong_use(unknown(name, "")))
}

/// Says that there is no such kind, and which kinds there are; `tip` says in between what was probably meant.
fn unknown(name: &str, tip: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for kind in all() {
        // Two groups have a kind of one name.
        if !names.contains(&kind.plural) {
            names.push(kind.plural);
        }
    }
    format!("there is no kind \"{name}\"; {tip}the kinds are: hosts, {}", names.join(", "))
}

/// Finds the kind that stands alone behind a verb. Another word may be the name of a host.
///
/// # Errors
/// When no kind has this name.
pub(crate) fn alone(name: &str) -> anyhow::Result<CliKind> {
    let tip = format!("if it is a host or a discovered machine, write `host {name}`; ");
    by_name(name).map_err(|_| wrong_use(unknown(name, if name.is_empty() { "" } else { &tip })))
}

/// Reads the name of a host, as kubectl writes it too: `rack1-07`, `host/rack1-07` or `bmh/rack1-07`.
///
/// # Errors
/// When it is an object of another kind.
pub(crate) fn host_name(text: &str) -> anyhow::Result<String> {
    let Some((kind, name)) = text.split_once('/') else { return Ok(text.to_owned()) };
    if !by_name(kind).is_ok_and(CliKind::is_host) || name.is_empty() || name.contains('/') {
        bail!("this takes the name of a host, such as rack1-07 or host/rack1-07");
    }
    Ok(name.to_owned())
}

/// Finds the kind of an object by its `apiVersion` and `kind`, in each version that the appliance serves.
///
/// # Errors
/// When there is none; the message names the versions of the kind.
pub(crate) fn of_object(api_version: &str, kind: &str) -> anyhow::Result<Arc<KindInfo>> {
    let registry = firesteel_appliance::serve::kinds::registry();
    let named = || registry.kinds().iter().filter(|info| info.kind == kind && info.review.is_none());
    if let Some(found) = named().find(|info| info.api_version() == api_version) {
        return Ok(Arc::clone(found));
    }
    let versions: Vec<String> = named().map(|info| info.api_version()).collect();
    if versions.is_empty() {
        bail!("there is no kind {kind}; `kubectl api-resources` lists all kinds, and a name counts in its case");
    }
    bail!("{kind} is served as {}, not {api_version}; correct its `apiVersion`", versions.join(" and "))
}

/// The path of a kind's collection, in `namespace` if the kind has one.
#[must_use]
pub(crate) fn collection(kind: CliKind, namespace: &str) -> String {
    if kind.namespaced { format!("{}/namespaces/{namespace}/{}", root(kind), kind.plural) } else { everywhere(kind) }
}

/// The path of a kind's objects in all namespaces.
#[must_use]
pub(crate) fn everywhere(kind: CliKind) -> String {
    format!("{}/{}", root(kind), kind.plural)
}

/// The path of a kind's group and version.
#[must_use]
pub(crate) fn root(kind: CliKind) -> String {
    if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_each_of_its_names() {
        for (name, resource) in [
            ("hosts", "baremetalhosts.metal3.io"),
            ("bmh", "baremetalhosts.metal3.io"),
            ("BareMetalHost", "baremetalhosts.metal3.io"),
            ("baremetalhosts.metal3.io", "baremetalhosts.metal3.io"),
            ("baremetalhosts.v1alpha1.metal3.io", "baremetalhosts.metal3.io"),
            ("machinesets", "machinesets.cluster.x-k8s.io"),
            ("machinesets.machine.openshift.io", "machinesets.machine.openshift.io"),
            ("cm", "configmaps"),
        ] {
            assert_eq!(by_name(name).unwrap().resource(), resource, "{name}");
        }
        for name in ["racks", "baremetalhosts.example.org", ""] {
            assert!(by_name(name).unwrap_err().to_string().contains("the kinds are: hosts, baremetalhosts"), "{name}");
        }
        for text in ["a", "host/a", "bmh/a", "baremetalhosts.metal3.io/a"] {
            assert_eq!(host_name(text).unwrap(), "a", "{text}");
        }
        assert!(["cm/a", "host/", "host/a/b", "x/a"].iter().all(|text| host_name(text).is_err()));
        let host = by_name("hosts").unwrap();
        assert_eq!(host.object("a"), "baremetalhost.metal3.io/a");
        assert_eq!(everywhere(host), "/apis/metal3.io/v1alpha1/baremetalhosts");
        assert_eq!(collection(host, "x"), "/apis/metal3.io/v1alpha1/namespaces/x/baremetalhosts");
        assert_eq!(collection(by_name("halts").unwrap(), "x"), "/apis/firesteel.dev/v1alpha1/halts");
    }
}
