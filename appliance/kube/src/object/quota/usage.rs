//! What of each quota is used, in its status. Kubernetes' controller writes it with each object; here it is looked at
//! now and then, for it is only shown: what is enforced is counted by the store.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::model::namespace_quota::NamespaceQuota;
use crate::model::status::Status;
use crate::object::client::Objects;
use crate::object::core::Core;
use crate::object::terms::ObjectPart;

/// Writes the status of each quota of which another is shown.
///
/// # Errors
/// When the store fails.
pub fn show(core: &Core) -> BoxFuture<'_, Result<(), Status>> {
    Box::pin(async move {
        let objects = Objects::<Value>::new(core, "", "ResourceQuota")?;
        let (quotas, _) = objects.list(None).await?;
        for quota in quotas {
            let text = |field: &str| quota["metadata"][field].as_str().unwrap_or_default();
            let status = status_of(core, text("namespace"), text("name"), &quota).await?;
            if quota["status"] == status {
                continue;
            }
            let write = |object: &mut Value| object["status"] = status.clone();
            objects.modify(text("namespace"), text("name"), ObjectPart::Status, write).await?;
        }
        Ok(())
    })
}

async fn status_of(core: &Core, namespace: &str, name: &str, quota: &Value) -> Result<Value, Status> {
    let standing = core.store().usage(namespace).await.map_err(crate::object::store_errors::read_failed)?;
    let mut used = Map::new();
    for (word, most) in NamespaceQuota::of(name, quota).hard {
        if let Some(allowance) = core.quotas().allowance(name, &word, most) {
            used.insert(word, json!(allowance.used(&standing).to_string()));
        }
    }
    Ok(json!({ "hard": quota["spec"].get("hard").cloned().unwrap_or_else(|| json!({})), "used": used }))
}
