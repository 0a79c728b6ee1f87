//! `firesteel extend-token`: moves the deadline of the token with which an installed host fetches its config.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiClient, kinds, print_text, table::clean};
use firesteel_resources::bare_metal_host::annotations;

/// How long to wait: the appliance answers within a second, but a store under load takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const LOOKED_EVERY: Duration = Duration::from_millis(200);

/// # Errors
/// When there is no such host, the appliance does not answer, or it refuses the request.
pub(crate) async fn run(client: &ApiClient, host: &str) -> anyhow::Result<()> {
    let at = |kind: &str| -> anyhow::Result<String> {
        Ok(format!("{}/{host}", kinds::collection(kinds::by_name(kind)?, &client.namespace)))
    };
    // Each request has a word of its own, by which its answer is recognised.
    let wish = Timestamp::now().to_string();
    let asked = json!({"metadata": {"annotations": {annotations::EXTEND_TOKEN: wish}}});
    client.merge_patch(&at("hosts")?, &asked).await?;
    let end = tokio::time::Instant::now() + ANSWER_MAX;
    while tokio::time::Instant::now() < end {
        let journal: Value = client.get(&at("hostjournals")?).await?;
        let answer = &journal["status"]["tokenExtension"];
        if answer["asked"] == wish.as_str() {
            return print_answer(host, answer);
        }
        tokio::time::sleep(LOOKED_EVERY).await;
    }
    anyhow::bail!("{host}: the appliance has not answered yet; `firesteel describe host {host}` shows when it has")
}

fn print_answer(host: &str, answer: &Value) -> anyhow::Result<()> {
    match answer["until"].as_str() {
        Some(until) => {
            print_text(&format!(
                "{host}: the token on its disk is honoured until {}; switch it on whenever you like\n",
                clean(until)
            ));
            Ok(())
        }
        None => anyhow::bail!("{host}: {}", answer["refused"].as_str().unwrap_or("refused")),
    }
}
