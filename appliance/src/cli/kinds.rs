//! The kinds of the API by the words that people use.

use std::sync::Arc;

use anyhow::bail;
use firesteel_kube::KindInfo;
use firesteel_resources::{kind::KindScope, kinds::KINDS};

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

const fn core(kind: &'static str, plural: &'static str, singular: &'static str, namespaced: bool) -> CliKind {
    CliKind { group: "", version: "v1", kind, plural, singular, short_names: &[], namespaced }
}

/// The kinds of Kubernetes that the appliance serves.
const CORE: [CliKind; 5] = [
    core("Secret", "secrets", "secret", true),
    core("ConfigMap", "configmaps", "configmap", true),
    core("ResourceQuota", "resourcequotas", "resourcequota", true),
    core("Event", "events", "event", true),
    core("Namespace", "namespaces", "namespace", false),
];

fn all() -> impl Iterator<Item = CliKind> {
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

/// Finds a kind by plural, singular or short name; `hosts` are BareMetalHosts.
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
    let found = all().find(|kind| {
        [kind.plural, kind.singular].contains(&wanted)
            || kind.kind.eq_ignore_ascii_case(wanted)
            || kind.short_names.contains(&wanted)
    });
    match found {
        Some(kind) => Ok(kind),
        None => {
            let names: Vec<&str> = all().map(|kind| kind.plural).collect();
            bail!("there is no kind \"{name}\"; there are: hosts, {}", names.join(", "))
        }
    }
}

/// Finds the kind of an object by its `apiVersion` and `kind`, in each version that the appliance serves.
///
/// # Errors
/// When there is none; the message names the versions of the kind.
pub(crate) fn of_object(api_version: &str, kind: &str) -> anyhow::Result<Arc<KindInfo>> {
    let registry = crate::serve::kinds::registry();
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
    let root = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    if kind.namespaced {
        format!("{root}/namespaces/{namespace}/{}", kind.plural)
    } else {
        format!("{root}/{}", kind.plural)
    }
}
