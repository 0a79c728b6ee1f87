//! The file of `--provisioning`: the Provisioning object of the first start. Later the stored object counts.

use std::path::Path;

use anyhow::Context as _;
use firesteel_kube::{Core, Objects};
use firesteel_resources::kinds::PROVISIONING;
use firesteel_resources::provisioning::SINGLETON;
use firesteel_resources::{Provisioning, admit};
use serde_json::Value;

use super::settings::Settings;
use crate::text_file::{self, TEXT_FILE_BYTES_MAX};

/// Stores the object of the file if none is stored; otherwise warns if the file says something else.
///
/// # Errors
/// When the file cannot be read, or its object is refused.
pub(super) async fn store_first(core: &Core, settings: &Settings) -> anyhow::Result<()> {
    let Some(path) = &settings.provisioning else { return Ok(()) };
    let objects: Objects<Provisioning> = Objects::new(core, "metal3.io", "Provisioning")?;
    match objects.get("", SINGLETON).await {
        Ok(Some(stored)) => warn_of_another(path, &stored),
        Ok(None) => {
            let object: Provisioning = read(path)?;
            objects.create(&object).await.with_context(|| path.display().to_string())?;
        }
        // Its content is unknown now, whatever the file of the first start says.
        Err(status) if status.is_unreadable() => tracing::error!(
            error = %status.message,
            "could not read the Provisioning object: no network is served until it is there again"
        ),
        Err(status) => return Err(status.into()),
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = text_file::read(path, TEXT_FILE_BYTES_MAX)?;
    firesteel_kube::yaml::read(text.as_bytes())
        .with_context(|| format!("could not read a Provisioning object from {}", path.display()))
}

/// Warns a person who edited the file instead of the object that the object counts.
fn warn_of_another(path: &Path, stored: &Provisioning) {
    let file = path.display();
    match read::<Value>(path) {
        Ok(object) if is_another(object.clone(), stored) => tracing::warn!(
            %file,
            "the stored Provisioning object differs from the file, and is the one that counts: the file is read at the \
             first start alone. To use it, run `firesteel apply --filename {file}`"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(
            error = format!("{error:#}"),
            "could not read the file of --provisioning; the stored Provisioning object is the one that counts"
        ),
    }
}

fn is_another(mut object: Value, stored: &Provisioning) -> bool {
    // Stored objects have the defaults.
    drop(admit(&PROVISIONING, &mut object, None));
    let object = admit::decode::<Provisioning>(&object);
    object.is_ok_and(|object| object.spec != stored.spec)
}
