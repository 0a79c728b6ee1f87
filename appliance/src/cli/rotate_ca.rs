//! `firesteel rotate-ca`: another CA for the appliance's certificates, with an overlap.

use jiff::Timestamp;
use serde_json::json;

use super::Client;

/// # Errors
/// When the appliance does not answer, or could not do it.
pub(crate) async fn run(client: &Client, finish: bool, force: bool) -> anyhow::Result<()> {
    let path = match (finish, force) {
        (false, _) => "/firesteel.dev/rotate-ca",
        (true, false) => "/firesteel.dev/rotate-ca?finish=true",
        (true, true) => "/firesteel.dev/rotate-ca?finish=true&force=true",
    };
    let done = client.create(path, &json!({})).await?;
    let day = |key: &str| {
        let text = done[key].as_str()?;
        Some(text.parse::<Timestamp>().map_or_else(|_| text.to_owned(), |at| at.strftime("%F").to_string()))
    };
    let (ends, next) = (day("ends").unwrap_or_else(|| "?".to_owned()), day("nextEnds"));
    super::print_text(&match next {
        Some(next) => format!(
            "the new CA ends at {next}, the old one at {ends}; both are trusted until `firesteel rotate-ca --finish`.\n\
             Managed stubs get both now; give pki/ca.crt to whoever has the old one, and make other kubeconfigs anew\n"
        ),
        None => format!("the new CA is the only one now and ends at {ends}; who trusts the old one alone is refused\n"),
    });
    Ok(())
}
