//! `firesteel delete`: deletes objects, as kubectl does, and waits until they are gone. A host that is deleted is
//! cleaned first, as by `firesteel release`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use firesteel_kube::yaml::{self, MANIFEST_BYTES_MAX};
use firesteel_plan::host::gate;
use firesteel_resources::ObjectMeta;
use jiff::SignedDuration;
use serde_json::Value;

use super::apply::DryRun;
use super::client::{code_of, with_query};
use super::confirm::{self, ConfirmOptions, HostDeletion, NamedHost};
use super::get::ScopeOptions;
use super::host_departure::HostDeparture;
use super::kinds::{self, CliKind};
use super::object_words::{self, KindSelection};
use super::table::output_width;
use super::usage::wrong_use;
use super::wait::{WaitDeadline, wait_until_gone};
use super::{ApiClient, durations, get, print_text};
use firesteel_appliance::text_file;

#[derive(Debug, clap::Args)]
pub struct DeleteArguments {
    /// A kind by its plural or short name, with names behind it; or KIND/NAME
    #[arg(value_name = "KIND NAME", required_unless_present = "filename", conflicts_with = "filename")]
    what: Vec<String>,
    #[command(flatten)]
    scope: ScopeOptions,
    /// File with the objects to delete, `-` for standard input
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["all_namespaces", "selector"])]
    filename: Option<String>,
    /// Take an object that is not there as deleted
    #[arg(long)]
    ignore_not_found: bool,
    /// Whether to wait until the objects are gone
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
        default_missing_value = "true", action = clap::ArgAction::Set
    )]
    wait: bool,
    /// How long to wait at most, such as `10m`; 0 has no end
    #[arg(long, value_name = "DURATION", value_parser = durations::positive, default_value = "0")]
    timeout: SignedDuration,
    /// Only show what would be deleted, and what becomes of each disk of a host: `server` also lets the appliance check
    /// it, `client` does not
    #[arg(
        long, value_enum, default_value_t, value_name = "WHERE", num_args = 0..=1, require_equals = true,
        default_missing_value = "server"
    )]
    dry_run: DryRun,
    #[command(flatten)]
    confirm: ConfirmOptions,
}

const COMMAND: &str = "delete";

/// An object to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DoomedObject {
    path: String,
    /// The name as it is shown: `baremetalhost.metal3.io/rack1-07`.
    shown: String,
    name: String,
    /// The namespace; an object of the whole cluster has none.
    namespace: String,
    /// Why the disks of a host are locked.
    lock: Option<String>,
    is_host: bool,
    /// The object as it was seen last.
    seen: Value,
    /// It had no finalizer, and went at once.
    is_gone: bool,
}

/// # Errors
/// When there is no such object, it is still there when the time is over, or the appliance refuses or does not answer.
pub(crate) async fn run(client: &ApiClient, options: &DeleteArguments) -> anyhow::Result<()> {
    let found = match &options.filename {
        Some(file) => of_file(client, file, options.ignore_not_found).await?,
        None => of_words(client, options).await?,
    };
    if found.is_empty() {
        print_text("nothing to delete\n");
        return Ok(());
    }
    refuse_locked(&found)?;
    if options.dry_run != DryRun::None {
        return show(client, &found, options.dry_run == DryRun::Server).await;
    }
    let (hosts, others): (Vec<DoomedObject>, Vec<DoomedObject>) = found.into_iter().partition(|object| object.is_host);
    ask_about_hosts(client, &hosts, options.confirm).await?;
    let mut deleted = delete_hosts(client, hosts, options.wait).await?;
    for mut object in others {
        match delete(client, &mut object).await? {
            DeletionAnswer::Begun => print_text(&format!("{} deleted\n", object.shown)),
            DeletionAnswer::NotThere => print_text(&gone_meanwhile(&object)),
        }
        deleted.push(object);
    }
    if !options.wait {
        return Ok(());
    }
    let span = Duration::try_from(options.timeout).unwrap_or_default();
    let deadline = if span.is_zero() { WaitDeadline::never() } else { WaitDeadline::after(span) };
    wait_for_all(client, &deleted, deadline).await
}

/// Waits until all are gone. Each host must have gone as a deletion has it.
async fn wait_for_all(client: &ApiClient, deleted: &[DoomedObject], deadline: WaitDeadline) -> anyhow::Result<()> {
    let mut failures = Vec::new();
    for DoomedObject { path, shown, name, seen, is_gone, is_host, .. } in deleted {
        let context = || format!("could not wait until {shown} is gone, which it will be when its finalizers are done");
        let last = if *is_gone {
            Some(seen.clone())
        } else {
            wait_until_gone(client, path, seen, deadline).await.with_context(context)?
        };
        if *is_host {
            match HostDeparture::of_last(last).after_deletion(name) {
                Ok(how) => print_text(&format!("{shown} is {how}\n")),
                Err(error) => failures.push(error.to_string()),
            }
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Shows what a deletion would do; `is_checked` has the appliance check it.
async fn show(client: &ApiClient, found: &[DoomedObject], is_checked: bool) -> anyhow::Result<()> {
    let place = if is_checked { "server" } else { "client" };
    for DoomedObject { path, shown, namespace, name, is_host, .. } in found {
        if is_checked {
            let checked = client.delete(&format!("{path}?dryRun=All")).await;
            checked.with_context(|| format!("could not delete {shown}"))?;
        }
        print_text(&format!("{shown} would be deleted; nothing was done ({place} dry run)\n"));
        if *is_host {
            let deletion = HostDeletion::fetch(client, NamedHost { namespace, name }, false).await?;
            print_text(&deletion.text(output_width()));
        }
    }
    Ok(())
}

/// Refuses locked hosts: their deletion would wait for the lock.
fn refuse_locked(objects: &[DoomedObject]) -> anyhow::Result<()> {
    for DoomedObject { name, shown, lock, .. } in objects {
        if let Some(lock) = lock {
            bail!(
                "could not delete {shown}: it is {lock}; nothing was deleted. Run `firesteel unlock {name}` first, or \
                 `firesteel release {name} --force` to forget the host and leave its disks as they are"
            );
        }
    }
    Ok(())
}

/// Asks about each host before the first one is deleted.
async fn ask_about_hosts(client: &ApiClient, hosts: &[DoomedObject], options: ConfirmOptions) -> anyhow::Result<()> {
    for DoomedObject { namespace, name, .. } in hosts {
        confirm::ask_to_delete_host(client, COMMAND, NamedHost { namespace, name }, false, options).await?;
    }
    Ok(())
}

/// Says of an object that another client deleted it.
fn gone_meanwhile(object: &DoomedObject) -> String {
    let how = if object.is_host {
        format!("; `firesteel receipt list {}` shows what was done to its disks", object.name)
    } else {
        String::new()
    };
    format!("{} is not there any more: another client deleted it meanwhile{how}\n", object.shown)
}

/// Deletes hosts, each of which is cleaned and then gone.
async fn delete_hosts(
    client: &ApiClient,
    hosts: Vec<DoomedObject>,
    is_awaited: bool,
) -> anyhow::Result<Vec<DoomedObject>> {
    let mut deleted = Vec::new();
    for mut host in hosts {
        // What cannot be looked up keeps no one from deleting.
        let named = NamedHost { namespace: &host.namespace, name: &host.name };
        let deletion = HostDeletion::fetch(client, named, false).await;
        let outcome =
            deletion.map_or_else(|_| "what becomes of its disks is not known".to_owned(), |all| all.outcome());
        let answer = delete(client, &mut host).await?;
        if answer == DeletionAnswer::NotThere {
            print_text(&gone_meanwhile(&host));
        } else {
            let next = if is_awaited {
                "this command waits until it is gone, and ending it changes nothing".to_owned()
            } else {
                format!("follow it with `firesteel watch {}`", host.name)
            };
            print_text(&format!("{} is being deleted: {outcome}; {next}\n", host.shown));
        }
        deleted.push(host);
    }
    Ok(deleted)
}

/// What the appliance answered to a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeletionAnswer {
    Begun,
    /// Another client deleted the object since it was read. Its last change says how it went.
    NotThere,
}

/// Deletes one object.
async fn delete(client: &ApiClient, object: &mut DoomedObject) -> anyhow::Result<DeletionAnswer> {
    let uid = object.seen["metadata"]["uid"].as_str().unwrap_or_default();
    match client.delete_exactly(&object.path, uid).await {
        Ok(answer) => {
            // An object that waits for its finalizers is the answer.
            object.is_gone = answer["metadata"]["uid"].is_null();
            if !object.is_gone {
                object.seen = answer;
            }
            Ok(DeletionAnswer::Begun)
        }
        Err(error) if code_of(&error) == Some(404) => Ok(DeletionAnswer::NotThere),
        Err(error) => Err(error.context(format!("could not delete {}", object.shown))),
    }
}

async fn of_words(client: &ApiClient, options: &DeleteArguments) -> anyhow::Result<Vec<DoomedObject>> {
    let selections = object_words::read(&options.what)?;
    options.scope.check(&selections)?;
    let mut found = Vec::new();
    for KindSelection { kind, names } in selections {
        if !names.is_empty() {
            for name in names {
                let collection = kinds::collection(kind, &client.namespace);
                found.extend(named(client, kind, &collection, &name, options.ignore_not_found).await?);
            }
            continue;
        }
        let Some(selector) = options.scope.selector() else {
            let word = kind.word();
            return Err(wrong_use(format!(
                "all {word} are deleted only if you name them: write `firesteel delete {word} NAME`, or choose by \
                 --selector (-l)"
            )));
        };
        let everywhere = options.scope.is_everywhere() && kind.namespaced;
        let collection = if everywhere { kinds::everywhere(kind) } else { kinds::collection(kind, &client.namespace) };
        let list = client.get(&with_query(&collection, &[("labelSelector", selector.to_owned())])).await;
        let list = list.with_context(|| format!("could not list {}", kind.word()))?;
        let items = list["items"].as_array().into_iter().flatten();
        found.extend(items.map(|item| doomed(kind, item)));
    }
    Ok(found)
}

/// Finds the objects that a file names.
async fn of_file(client: &ApiClient, file: &str, ignores_missing: bool) -> anyhow::Result<Vec<DoomedObject>> {
    let text = if file == "-" {
        text_file::read_from(std::io::stdin(), MANIFEST_BYTES_MAX).context("could not read standard input")?
    } else {
        text_file::read(Path::new(file), MANIFEST_BYTES_MAX)?
    };
    let objects: Vec<Value> = yaml::read_all(&text).with_context(|| format!("could not read YAML from {file}"))?;
    let mut found = Vec::new();
    for object in objects.iter().filter(|object| !object.is_null()) {
        let text = |place: &str| object.pointer(place).and_then(Value::as_str);
        let (Some(kind), Some(version), Some(name)) = (text("/kind"), text("/apiVersion"), text("/metadata/name"))
        else {
            bail!("could not delete what {file} names: an object has no kind, apiVersion or metadata.name");
        };
        let kind =
            kinds::all().find(|known| known.kind == kind && known.api_version() == version).with_context(|| {
                format!("could not delete {kind} {name} of {file}: there is no kind {kind} in {version}")
            })?;
        let namespace = text("/metadata/namespace").unwrap_or(&client.namespace);
        let collection = kinds::collection(kind, namespace);
        found.extend(named(client, kind, &collection, name, ignores_missing).await?);
    }
    Ok(found)
}

/// Reads the object of this name; `None` if it is not there and that is no error.
async fn named(
    client: &ApiClient,
    kind: CliKind,
    collection: &str,
    name: &str,
    ignores_missing: bool,
) -> anyhow::Result<Option<DoomedObject>> {
    match client.get(&format!("{collection}/{name}")).await {
        Ok(object) => Ok(Some(doomed(kind, &object))),
        Err(error) if ignores_missing && code_of(&error) == Some(404) => Ok(None),
        Err(error) => {
            let missing = get::missing(client, kind, name, error);
            Err(anyhow!("{missing:#}; nothing was deleted, and --ignore-not-found passes over what is not there"))
        }
    }
}

fn doomed(kind: CliKind, object: &Value) -> DoomedObject {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (text("name"), text("namespace"));
    let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
    DoomedObject {
        path: format!("{}/{name}", kinds::collection(kind, &namespace)),
        shown: kind.object(&name),
        lock: gate::lock(&metadata).filter(|_| kind.is_host()).map(|lock| lock.text),
        namespace,
        is_host: kind.is_host(),
        seen: object.clone(),
        is_gone: false,
        name,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_deleted_where_it_is_and_as_what_it_is() {
        let host = kinds::by_name("hosts").unwrap();
        let found = doomed(host, &json!({"metadata": {"name": "a", "namespace": "rack1", "uid": "u"}}));
        assert_eq!(found.path, "/apis/metal3.io/v1alpha1/namespaces/rack1/baremetalhosts/a");
        assert_eq!((found.shown.as_str(), found.is_host, found.is_gone), ("baremetalhost.metal3.io/a", true, false));
        let halt = doomed(kinds::by_name("halts").unwrap(), &json!({"metadata": {"name": "fleet"}}));
        assert_eq!((halt.path.as_str(), halt.is_host), ("/apis/firesteel.dev/v1alpha1/halts/fleet", false));
    }
}
