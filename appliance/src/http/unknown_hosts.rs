//! `GET /firesteel.dev/unknown-hosts`: unknown machines that boot from the network, from memory.

use firesteel_control::Control;
use firesteel_kube::{Api, Caller, Status};
use http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json as value};

use super::body::{ResponseBody, json, refuse};
use super::dry_run;

/// The path of the list, below the prefix of [`super::admin_paths`].
pub const UNKNOWN_HOSTS_PATH: &str = "/firesteel.dev/unknown-hosts";
/// The right to list discovered hosts also gives the list of machines that have not said hello.
const DISCOVERED: &str = "/apis/firesteel.dev/v1alpha1/discoveredhosts?limit=1";

/// Answers those who may list the machines whose agents have said hello.
pub(super) async fn answer(
    api: &Api,
    method: &Method,
    headers: &HeaderMap,
    caller: &Caller,
    control: Option<&Control>,
) -> Response<ResponseBody> {
    if method != Method::GET {
        return refuse(&Status::method_not_allowed());
    }
    if let Err(refused) = dry_run::read::<Value>(api, headers, caller, DISCOVERED).await {
        return refused;
    }
    // If no machine is served, there are none.
    let items = control.map(Control::unknown_hosts).unwrap_or_default();
    json(StatusCode::OK, &value!({ "items": items }))
}
