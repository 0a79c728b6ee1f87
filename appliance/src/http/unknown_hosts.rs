//! `GET /firesteel.dev/unknown-hosts`: unknown machines that boot from the network, from memory.

use firesteel_control::Control;
use firesteel_kube::{Api, Caller, Status};
use http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json as value};

use super::{
    body::{ResponseBody, json, refuse},
    dry_run,
};

/// Below [`super::admin_paths`]'s prefix.
pub const UNKNOWN_HOSTS_PATH: &str = "/firesteel.dev/unknown-hosts";
/// The right to list these opens the list of machines that have not come so far, too.
const DISCOVERED: &str = "/apis/firesteel.dev/v1alpha1/discoveredhosts?limit=1";

/// Answers all who may list the machines whose agents have said hello.
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
    // Without machines there are none.
    let items = control.map(Control::unknown_hosts).unwrap_or_default();
    json(StatusCode::OK, &value!({ "items": items }))
}
