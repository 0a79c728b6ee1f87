//! `firesteel extend-token`: moves the deadline of the token with which an installed host fetches its config.

use firesteel_resources::bare_metal_host::annotations;
use jiff::Timestamp;

use super::ApiClient;
use super::answer::{HostRequest, HostRequestOptions, ask};

/// # Errors
/// When there is no such host, the appliance does not answer, or it refuses the request.
pub(crate) async fn run(client: &ApiClient, options: &HostRequestOptions) -> anyhow::Result<()> {
    // Each request has a word of its own, by which its answer is recognised.
    let (key, value) = (annotations::EXTEND_TOKEN, Timestamp::now().to_string());
    let request = HostRequest { host: &options.host, verb: "extend the token of", key, value };
    ask(client, &request, &options.answer).await
}
