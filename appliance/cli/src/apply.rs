//! `firesteel apply -f FILE`: server-side apply, as `kubectl apply --server-side`.
//!
//! The appliance stores who owns which field. What the file names is the user's; what it named before and does not name
//! now goes, unless another manager owns it, too.

mod applier;
mod object_view;
mod refusal;
mod sent_object;
mod takeover;
mod target;

pub(super) use applier::{AppliedObject, Applier, ApplyVerdict};
pub(super) use object_view::view;
pub(super) use target::{ApplyTarget, NamespaceChoice, check_once};

use anyhow::bail;
use clap::CommandFactory as _;
use clap::error::ErrorKind;
use firesteel_kube::apply::Configuration;
use firesteel_kube::{ObjectPart, Status};
use serde_json::Value;

use super::client::ApiError;
use super::manifests::{self, ManifestFlags, ManifestObject};
use super::{ApiClient, ConnectionOptions, FiresteelCli, output, print_text};

/// The namespace if neither the kubeconfig nor a flag names one.
const DEFAULT_NAMESPACE: &str = "default";

#[derive(Clone, Debug, clap::Args)]
pub struct ApplyOptions {
    #[command(flatten)]
    pub manifests: ManifestFlags,
    /// Take over fields that other managers own; without it, an object that would change them is refused
    #[arg(long)]
    pub force_conflicts: bool,
    /// Only try: `server` lets the appliance check all and stores nothing, `client` checks the files without the
    /// appliance
    #[arg(long, value_enum, default_value_t, value_name = "WHERE")]
    pub dry_run: DryRun,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DryRun {
    /// Do it
    #[default]
    None,
    /// Let the appliance check all and store nothing
    Server,
    /// Check the form of the objects, without the appliance
    Client,
}

/// Applies all objects of the files, in their order. A refused object does not keep the others from their turn.
///
/// # Errors
/// When a file cannot be read or an object is refused. Each refusal is printed when it comes.
pub(crate) async fn run(connection: &ConnectionOptions, options: &ApplyOptions) -> anyhow::Result<()> {
    if options.dry_run == DryRun::Client {
        if options.force_conflicts {
            let text = "--force-conflicts cannot be tried with --dry-run=client, which does not see the conflicts; \
                        give --dry-run=server";
            FiresteelCli::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        return check(connection, &manifests::read(&options.manifests).await?);
    }
    let client = ApiClient::open(connection)?;
    let manifests = manifests::read(&options.manifests).await?;
    let namespaces = NamespaceChoice { usual: &client.namespace, required: connection.namespace.as_deref() };
    check_once(&manifests, namespaces)?;
    let is_dry = options.dry_run == DryRun::Server;
    let applier = Applier { client: &client, force: options.force_conflicts, dry_run: is_dry };
    let suffix = if is_dry { " (server dry run)" } else { "" };
    let mut refused = 0;
    for (index, manifest) in manifests.iter().enumerate() {
        match one(applier, namespaces, manifest).await {
            Ok((title, change)) => print_text(&format!("{title} {}{suffix}\n", word(change))),
            Err(RefusedObject { error, is_last }) => {
                output::print_error(&error);
                refused += 1;
                let left = manifests.len() - index - 1;
                if is_last && left > 0 {
                    bail!("{refused} of {} objects were refused, and {left} were not tried", manifests.len());
                }
            }
        }
    }
    finish(refused, manifests.len())
}

/// The error at the end of a command that printed each refusal.
fn finish(refused: usize, total: usize) -> anyhow::Result<()> {
    match (refused, total) {
        (0, _) => Ok(()),
        (_, 1) => bail!("the object was refused"),
        (refused, total) => bail!("{refused} of {total} objects were refused"),
    }
}

fn word(change: ApplyVerdict) -> &'static str {
    match change {
        ApplyVerdict::Created => "created",
        ApplyVerdict::Configured => "configured",
        ApplyVerdict::Unchanged => "unchanged",
    }
}

/// An object that was not applied.
struct RefusedObject {
    error: anyhow::Error,
    /// Whether all further objects would fail in the same way.
    is_last: bool,
}

async fn one(
    applier: Applier<'_>,
    namespaces: NamespaceChoice<'_>,
    ManifestObject { source, object }: &ManifestObject,
) -> Result<(String, ApplyVerdict), RefusedObject> {
    let refused = |error: anyhow::Error, is_last| {
        let error = error.context(format!("could not apply {} of {source}", title(object)));
        RefusedObject { error, is_last }
    };
    let target = ApplyTarget::of(object, namespaces).map_err(|error| refused(error, false))?;
    let applied = applier.apply(&target, object).await.map_err(|error| {
        let is_last = refusal::ends_all(&error);
        refused(error, is_last)
    })?;
    Ok((target.title(), applied.change(&target)))
}

/// Checks what can be checked without an appliance: kinds, names, and the form of each object.
fn check(connection: &ConnectionOptions, manifests: &[ManifestObject]) -> anyhow::Result<()> {
    let required = connection.namespace.as_deref();
    let namespaces = NamespaceChoice { usual: required.unwrap_or(DEFAULT_NAMESPACE), required };
    check_once(manifests, namespaces)?;
    let mut refused = 0;
    for ManifestObject { source, object } in manifests {
        match check_one(object, namespaces) {
            Ok(title) => print_text(&format!("{title} checked (client dry run)\n")),
            Err(error) => {
                output::print_error(&error.context(format!("could not take {} of {source}", title(object))));
                refused += 1;
            }
        }
    }
    finish(refused, manifests.len())
}

fn check_one(object: &Value, namespaces: NamespaceChoice<'_>) -> anyhow::Result<String> {
    let target = ApplyTarget::of(object, namespaces)?;
    let bytes = object.to_string();
    let read: Result<Configuration, Status> = Configuration::parse(&target.kind, ObjectPart::Main, bytes.as_bytes());
    read.map_err(ApiError::from).map_err(|error| refusal::explain(error.into()))?;
    Ok(target.title())
}

/// An object in a message, as far as it says what it is.
pub(super) fn title(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("?");
    format!("{} {}", text("/kind"), text("/metadata/name"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_checked_without_an_appliance() {
        let namespaces = NamespaceChoice { usual: "default", required: None };
        let host = |spec: Value| {
            let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "metadata": {"name": "h1"}, "spec": spec});
            check_one(&object, namespaces).map_err(|error| error.to_string())
        };
        assert_eq!(host(json!({"online": true})), Ok("baremetalhost.metal3.io/h1".to_owned()));
        assert!(host(json!({"imge": {}})).is_err_and(|text| text.starts_with(".spec.imge: field not declared")));
        assert!(host(json!({"online": "maybe"})).is_err_and(|text| text.contains("expected boolean")));
    }

    #[test]
    fn the_end_says_how_many_were_refused() {
        let text = |refused, total| finish(refused, total).map_err(|error| error.to_string());
        assert_eq!(text(0, 3), Ok(()));
        assert_eq!(text(1, 1), Err("the object was refused".to_owned()));
        assert_eq!(text(2, 3), Err("2 of 3 objects were refused".to_owned()));
    }
}
