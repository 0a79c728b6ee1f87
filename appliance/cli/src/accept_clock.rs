//! `firesteel accept-clock`: a person confirms that the appliance's clock is right.

use serde_json::json;

use super::ApiClient;

/// # Errors
/// When the appliance does not answer, does not doubt its clock, or its clock cannot be right.
pub(crate) async fn run(client: &ApiClient) -> anyhow::Result<()> {
    let done = client.create("/firesteel.dev/accept-clock", &json!({})).await?;
    let time = |key: &str| super::table::clean(done[key].as_str().unwrap_or("?"));
    super::print_text(&format!(
        "the appliance's clock, {}, counts as right from now on, not the time {} in its store; hosts go on\n",
        time("now"),
        time("newest")
    ));
    Ok(())
}
