//! `firesteel delete-damaged`: deletes an object that exists and cannot be read.

use anyhow::bail;

use super::{ApiClient, client::is_unreadable, kinds, print_text};

/// The option of Kubernetes that deletes without reading the object.
const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";

/// # Errors
/// When there is no such kind or object, when it can be read, when the appliance does not answer, or refuses.
pub(crate) async fn run(client: &ApiClient, kind: &str, name: &str) -> anyhow::Result<()> {
    let kind = kinds::by_name(kind)?;
    let path = format!("{}/{name}", kinds::collection(kind, &client.namespace));
    match client.get(&path).await {
        // A wrong name must not delete a good object.
        Ok(_) => {
            bail!("{0}/{name} can be read: nothing was deleted; `firesteel delete {0} {name}` deletes it", kind.plural)
        }
        Err(error) if is_unreadable(&error) => {}
        Err(error) => return Err(error),
    }
    client.delete(&format!("{path}?{OPTION}")).await?;
    print_text(&format!(
        "{}/{name} is deleted without being read: its finalizers and dependents were ignored\n",
        kind.plural
    ));
    Ok(())
}
