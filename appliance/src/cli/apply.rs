//! `firesteel apply -f FILE`: creates objects that do not exist, and merge-patches those that do.

use std::path::Path;

use anyhow::{Context as _, bail};
use firesteel_kube::yaml::{self, MANIFEST_BYTES_MAX};
use serde_json::Value;

use super::{ApiClient, client::code_of, kinds, print_text};
use crate::text_file;

/// Applies every object of the file in order; stops at the first that is refused.
///
/// # Errors
/// When the file cannot be read or the appliance refuses an object.
pub(crate) async fn run(client: &ApiClient, filename: &str) -> anyhow::Result<()> {
    let text = if filename == "-" {
        text_file::read_from(std::io::stdin(), MANIFEST_BYTES_MAX).context("could not read standard input")?
    } else {
        text_file::read(Path::new(filename), MANIFEST_BYTES_MAX)?
    };
    let objects: Vec<Value> = yaml::read_all(&text).with_context(|| format!("could not read YAML from {filename}"))?;
    let mut applied = 0;
    for object in objects.iter().filter(|object| !object.is_null()) {
        one(client, object).await.with_context(|| format!("could not apply {}", title(object)))?;
        applied += 1;
    }
    if applied == 0 {
        bail!("{filename} holds no object");
    }
    Ok(())
}

async fn one(client: &ApiClient, object: &Value) -> anyhow::Result<()> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let kind_name = text("/kind").context("the object has no `kind`")?;
    let api_version = text("/apiVersion").context("the object has no `apiVersion`")?;
    let name = text("/metadata/name").context("the object has no `metadata.name`")?;
    let kind = kinds::by_name(kind_name)?;
    let served =
        if kind.group.is_empty() { kind.version.to_owned() } else { format!("{}/{}", kind.group, kind.version) };
    if served != api_version {
        bail!("{kind_name} is served as {served}, not {api_version}");
    }
    let namespace = text("/metadata/namespace").unwrap_or(&client.namespace);
    let collection = kinds::collection(kind, namespace);
    let path = format!("{collection}/{name}");
    let before = client.get_if_there(&path).await?;
    let verb = match before {
        None => match client.create(&collection, object).await {
            Ok(_) => "created",
            // Another client created it first: apply the object as a change.
            Err(error) if code_of(&error) == Some(409) => {
                client.merge_patch(&path, object).await?;
                "configured"
            }
            Err(error) => return Err(error),
        },
        Some(before) => {
            let after = client.merge_patch(&path, object).await?;
            if before.pointer("/metadata/resourceVersion") == after.pointer("/metadata/resourceVersion") {
                "unchanged"
            } else {
                "configured"
            }
        }
    };
    print_text(&format!("{}/{name} {verb}\n", kind.singular));
    Ok(())
}

fn title(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("?");
    format!("{} {}", text("/kind"), text("/metadata/name"))
}
