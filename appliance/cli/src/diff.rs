//! `firesteel diff -f FILE`: what `firesteel apply` with the same files would change. Nothing is changed.

mod mask;
mod unified;

use anyhow::{Context as _, bail};
use firesteel_kube::negotiate;
use serde_json::Value;

use super::apply::{AppliedObject, Applier, ApplyTarget, NamespaceChoice, check_once, title, view};
use super::manifests::{self, ManifestFlags, ManifestObject};
use super::table::clean;
use super::{ApiClient, ConnectionOptions, output, print_text};

#[derive(Clone, Debug, clap::Args)]
pub struct DiffOptions {
    #[command(flatten)]
    pub manifests: ManifestFlags,
    /// Compare as if fields that other managers own were taken over
    #[arg(long)]
    pub force_conflicts: bool,
}

/// What an apply would change could not be found out. The exit code is 2, since 1 says that there are differences.
#[derive(Debug, thiserror::Error)]
#[error("could not compare the files with the appliance's objects")]
pub(crate) struct ComparisonError;

/// Prints the differences of all objects, in their order.
///
/// # Errors
/// When there are differences, or an object cannot be compared ([`ComparisonError`]).
pub(crate) async fn run(connection: &ConnectionOptions, options: &DiffOptions) -> anyhow::Result<()> {
    let compared = compare(connection, options).await.context(ComparisonError)?;
    match compared.changed {
        0 => Ok(()),
        changed => bail!("{changed} of {} objects would change; `firesteel apply` does it", compared.total),
    }
}

/// The objects of a comparison, counted.
struct ComparedObjects {
    changed: usize,
    total: usize,
}

async fn compare(connection: &ConnectionOptions, options: &DiffOptions) -> anyhow::Result<ComparedObjects> {
    let client = ApiClient::open(connection)?;
    let manifests = manifests::read(&options.manifests).await?;
    let namespaces = NamespaceChoice { usual: &client.namespace, required: connection.namespace.as_deref() };
    check_once(&manifests, namespaces)?;
    let applier = Applier { client: &client, force: options.force_conflicts, dry_run: true };
    let (mut changed, mut refused) = (0, 0);
    for ManifestObject { source, object } in &manifests {
        let compared = async {
            let target = ApplyTarget::of(object, namespaces)?;
            let applied = applier.apply(&target, object).await?;
            difference(&target, &applied)
        };
        match compared.await {
            Ok(text) => {
                changed += usize::from(!text.is_empty());
                print_text(&text);
            }
            Err(error) => {
                output::print_error(&error.context(format!("could not compare {} of {source}", title(object))));
                refused += 1;
            }
        }
    }
    match refused {
        0 => Ok(ComparedObjects { changed, total: manifests.len() }),
        refused => bail!("{refused} of {} objects would be refused", manifests.len()),
    }
}

/// Describes the change of one object; empty if there is none.
fn difference(target: &ApplyTarget, applied: &AppliedObject) -> anyhow::Result<String> {
    let mut before = applied.before.as_ref().map_or(Value::Null, |before| view(&target.kind, before));
    let mut after = view(&target.kind, &applied.after);
    mask::hide(&mut before, &mut after);
    let text = |object: &Value| match object {
        Value::Null => Ok(String::new()),
        object => negotiate::yaml(object),
    };
    let lines = unified::unified(&text(&before)?, &text(&after)?);
    if lines.is_empty() {
        return Ok(lines);
    }
    let place = if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) };
    let name = format!("{place}{}", target.title());
    let lines: String = lines.lines().map(|line| format!("{}\n", clean(line))).collect();
    Ok(format!("--- live/{name}\n+++ applied/{name}\n{lines}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn host(spec: &Value, revision: &str) -> Value {
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h1", "resourceVersion": revision}, "spec": spec, "status": {"poweredOn": true}})
    }

    fn shown(before: Option<Value>, after: Value) -> String {
        let target = ApplyTarget::of(&after, NamespaceChoice { usual: "metal", required: None }).unwrap();
        difference(&target, &AppliedObject { before, after }).unwrap()
    }

    #[test]
    fn an_object_is_shown_as_it_changes() {
        let old = host(&json!({"online": true}), "1");
        assert_eq!(shown(Some(old.clone()), host(&json!({"online": true}), "2")), "");
        let text = shown(Some(old), host(&json!({"online": false}), "2"));
        let header = "--- live/metal/baremetalhost.metal3.io/h1\n+++ applied/metal/baremetalhost.metal3.io/h1\n@@ ";
        assert!(text.starts_with(header) && text.ends_with("-  online: true\n+  online: false\n"), "{text}");
        let new = shown(None, host(&json!({"online": true}), "2"));
        assert!(new.lines().skip(3).all(|line| line.starts_with('+')) && new.contains("+kind: BareMetalHost"), "{new}");
        assert!(!new.contains("poweredOn") && !new.contains("resourceVersion"), "{new}");
    }
}
