//! Where an object of a file is in the API: its kind, namespace and name. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use firesteel_kube::KindInfo;
use serde_json::Value;

use crate::kinds;
use crate::manifests::ManifestObject;

/// The namespaces that a command has for objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamespaceChoice<'a> {
    /// The namespace of an object that names none.
    pub(crate) usual: &'a str,
    /// The value of `--namespace`: an object that names another namespace is not meant.
    pub(crate) required: Option<&'a str>,
}

/// An object's place in the API.
#[derive(Clone, Debug)]
pub(crate) struct ApplyTarget {
    pub(crate) kind: Arc<KindInfo>,
    /// The namespace; empty if the kind has none.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ApplyTarget {
    /// Reads the place of an object.
    ///
    /// # Errors
    /// When the object does not say it, or no such kind is known.
    pub(crate) fn of(object: &Value, namespaces: NamespaceChoice<'_>) -> anyhow::Result<Self> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
        let kind_name = text("/kind").context("it has no `kind`")?;
        let api_version = text("/apiVersion").context("it has no `apiVersion`")?;
        let kind = kinds::of_object(api_version, kind_name)?;
        let Some(name) = text("/metadata/name") else {
            ensure!(
                text("/metadata/generateName").is_none(),
                "it has `metadata.generateName` and no `metadata.name`, and would be another object each time; name it"
            );
            bail!("it has no `metadata.name`");
        };
        check_segment("metadata.name", name)?;
        let namespace = if kind.namespaced {
            let own = text("/metadata/namespace");
            check_segment("metadata.namespace", own.unwrap_or(namespaces.usual))?;
            if let (Some(own), Some(required)) = (own, namespaces.required) {
                ensure!(
                    own == required,
                    "it is of the namespace {own}, and the command has --namespace {required}; give --namespace {own}, \
                     or leave the flag out"
                );
            }
            own.unwrap_or(namespaces.usual).to_owned()
        } else {
            String::new()
        };
        Ok(Self { kind, namespace, name: name.to_owned() })
    }

    /// The path of the object in the API.
    pub(crate) fn path(&self) -> String {
        let KindInfo { group, version, plural, .. } = &*self.kind;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let namespace = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        format!("{root}{namespace}/{plural}/{}", self.name)
    }

    /// The object's name with its kind and group, as kubectl prints it: `baremetalhost.metal3.io/rack1-07`.
    pub(crate) fn title(&self) -> String {
        let dot = if self.kind.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}/{}", self.kind.singular_name(), self.kind.group, self.name)
    }
}

/// Refuses a name that would lead to another path. Whether it is a good name is for the appliance to say.
fn check_segment(field: &str, text: &str) -> anyhow::Result<()> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:~@+=,".contains(letter);
    ensure!(
        text.chars().all(is_plain) && text != "." && text != "..",
        "its `{field}` is {text:?}, which no object can have as a name"
    );
    Ok(())
}

/// Refuses objects that the files have twice: each apply takes out what its own object does not name, so the second
/// would undo the first.
///
/// # Errors
/// When an object is there twice; the text names both files.
pub(crate) fn check_once(manifests: &[ManifestObject], namespaces: NamespaceChoice<'_>) -> anyhow::Result<()> {
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    for ManifestObject { source, object } in manifests {
        // An object that does not say what it is gets its own error when its turn comes.
        let Ok(target) = ApplyTarget::of(object, namespaces) else { continue };
        if let Some(first) = known.insert(target.path(), source) {
            bail!(
                "{} is there twice, in {first} and in {source}: the second would take back what the first sets; make \
                 one object of both",
                target.title()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    const USUAL: NamespaceChoice<'_> = NamespaceChoice { usual: "metal", required: None };

    fn host(metadata: Value) -> Value {
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": metadata})
    }

    #[test]
    fn an_object_has_one_place() {
        let place =
            |object: &Value| ApplyTarget::of(object, USUAL).map(|target| (target.path(), target.title())).unwrap();
        let h1 = ("/apis/metal3.io/v1alpha1/namespaces/metal/baremetalhosts/h1", "baremetalhost.metal3.io/h1");
        assert_eq!(place(&host(json!({"name": "h1"}))), (h1.0.to_owned(), h1.1.to_owned()));
        let (path, _) = place(&host(json!({"name": "h1", "namespace": "other"})));
        assert_eq!(path, "/apis/metal3.io/v1alpha1/namespaces/other/baremetalhosts/h1");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        assert_eq!(place(&namespace), ("/api/v1/namespaces/n".to_owned(), "namespace/n".to_owned()));
        let old = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "m"}});
        assert_eq!(place(&old).0, "/apis/cluster.x-k8s.io/v1beta1/namespaces/metal/machinesets/m");
    }

    #[test]
    fn what_an_object_does_not_say_is_named() {
        let required = NamespaceChoice { required: Some("metal"), ..USUAL };
        for (object, text) in [
            (json!({}), "no `kind`"),
            (json!({"kind": "BareMetalHost"}), "no `apiVersion`"),
            (host(json!({})), "no `metadata.name`"),
            (host(json!({"generateName": "h-"})), "generateName"),
            (host(json!({"name": "h1/status"})), "metadata.name"),
            (host(json!({"name": ".."})), "metadata.name"),
            (host(json!({"name": "h1?dryRun=All"})), "metadata.name"),
            (host(json!({"name": "h1", "namespace": "a/b"})), "metadata.namespace"),
            (host(json!({"name": "h1", "namespace": "other"})), "--namespace other"),
            (json!({"apiVersion": "v1", "kind": "BareMetalHost"}), "metal3.io/v1alpha1"),
            (json!({"apiVersion": "v1", "kind": "Rack"}), "no kind Rack"),
        ] {
            let error = ApplyTarget::of(&object, required).unwrap_err().to_string();
            assert!(error.contains(text), "{object}: {error}");
        }
    }

    #[test]
    fn an_object_in_two_files_is_refused() {
        let manifest =
            |source: &str, object: &Value| ManifestObject { source: source.to_owned(), object: object.clone() };
        let (one, other) = (host(json!({"name": "h1"})), host(json!({"name": "h2"})));
        let again = host(json!({"name": "h1", "namespace": "metal"}));
        assert!(check_once(&[manifest("a", &one), manifest("a", &other), manifest("a", &json!({}))], USUAL).is_ok());
        let error = check_once(&[manifest("a", &one), manifest("b", &again)], USUAL).unwrap_err().to_string();
        assert!(error.contains("baremetalhost.metal3.io/h1 is there twice, in a and in b"), "{error}");
    }
}
