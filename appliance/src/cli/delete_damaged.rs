//! `firesteel delete-damaged`: removes an object that the appliance has and cannot read.

use anyhow::bail;

use super::{ApiClient, client::is_unreadable, kinds, print_text};

/// Kubernetes' option of a deletion that looks at nothing.
const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";

/// # Errors
/// When there is no such kind or object, when it can be read, when the appliance does not answer, or refuses.
pub(crate) async fn run(client: &ApiClient, kind: &str, name: &str) -> anyhow::Result<()> {
    let kind = kinds::by_name(kind)?;
    let path = format!("{}/{name}", kinds::collection(kind, &client.namespace));
    match client.get(&path).await {
        // A person who means another object is not to lose this one.
        Ok(_) => bail!("{}/{name} can be read: nothing was deleted", kind.plural),
        Err(error) if is_unreadable(&error) => {}
        Err(error) => return Err(error),
    }
    client.delete(&format!("{path}?{OPTION}")).await?;
    print_text(&format!(
        "{}/{name} is deleted unread: what its finalizers and dependents would have waited for was not looked at\n",
        kind.plural
    ));
    Ok(())
}
