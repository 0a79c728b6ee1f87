//! `firesteel rekey`: makes a new key for the secrets in the database.

use serde_json::{Value, json};

use super::{ApiClient, table::clean};

/// # Errors
/// When the appliance does not answer, or the change failed.
pub(crate) async fn run(client: &ApiClient) -> anyhow::Result<()> {
    let done = client.create("/firesteel.dev/rekey", &json!({})).await?;
    let (key, values) = (clean(done["key"].as_str().unwrap_or("?")), clean(&done["values"].to_string()));
    super::print_text(&format!(
        "{values} values of secrets are sealed by the new key {key}; nothing in the database opens with the old one\n"
    ));
    for object in done["damaged"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        super::print_warning(&format!("{object} has a damaged value that no key opens; write it again"));
    }
    Ok(())
}
