//! The dry run for a host's disks: reads with the caller's rights, asks the planner, and stores nothing.

use bytes::Bytes;
use firesteel_control::Control;
use firesteel_kube::{Api, Caller, Status};
use firesteel_plan::host::preview::{Preview, preview};
use firesteel_plan::journal::memory;
use firesteel_resources::{BareMetalHost, HostJournal};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use serde::de::DeserializeOwned;

use super::body::{ResponseBody, full, json, refuse};

/// The limit of an object; the store takes no larger one.
const OBJECT_BYTES_MAX: usize = 4 << 20;

/// Answers for `NAMESPACE/HOST`, if the caller may read the host and its journal.
pub(super) async fn answer(
    api: &Api,
    method: &Method,
    headers: &HeaderMap,
    caller: &Caller,
    host: &str,
    control: Option<&Control>,
) -> Response<ResponseBody> {
    if method != Method::GET {
        return refuse(&Status::method_not_allowed());
    }
    let Some((namespace, name)) = host.split_once('/').filter(|(_, name)| !name.contains('/')) else {
        return refuse(&Status::no_route());
    };
    match answer_dry_run(api, headers, caller, namespace, name).await {
        Ok(mut seen) => {
            // What stops every host comes first.
            let hold = control.and_then(Control::fleet_hold);
            seen.closed.splice(..0, hold);
            serde_json::to_value(seen)
                .map_or_else(|error| refuse(&Status::internal(error.to_string())), |value| json(StatusCode::OK, &value))
        }
        Err(response) => response,
    }
}

async fn answer_dry_run(
    api: &Api,
    headers: &HeaderMap,
    caller: &Caller,
    namespace: &str,
    name: &str,
) -> Result<Preview, Response<ResponseBody>> {
    let hosts = format!("/apis/metal3.io/v1alpha1/namespaces/{namespace}/baremetalhosts/{name}");
    let host: BareMetalHost = read(api, headers, caller, &hosts).await?;
    let journals = format!("/apis/firesteel.dev/v1alpha1/namespaces/{namespace}/hostjournals/{name}");
    let journal: HostJournal = match read(api, headers, caller, &journals).await {
        Ok(journal) => journal,
        // The planner has not seen the host yet.
        Err(response) if response.status() == StatusCode::NOT_FOUND => HostJournal::default(),
        Err(response) => return Err(response),
    };
    let memory = memory(&journal.status)
        .map_err(|error| refuse(&Status::internal(format!("the host's memory cannot be read: {error}"))))?;
    Ok(preview(&host, &memory, journal.status.hardware.as_ref()))
}

/// Reads an object with the caller's rights, or returns the refusal.
pub(super) async fn read<T: DeserializeOwned>(
    api: &Api,
    headers: &HeaderMap,
    caller: &Caller,
    path: &str,
) -> Result<T, Response<ResponseBody>> {
    let mut asked = Request::get(path)
        .body(Empty::<Bytes>::new())
        .map_err(|error| refuse(&Status::bad_request(format!("{path}: {error}"))))?;
    // If the caller impersonates another user, so does this request.
    let speaks_for = headers.iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
    asked.headers_mut().extend(speaks_for.map(|(name, value)| (name.clone(), value.clone())));
    let (parts, body) = api.handle(asked, caller).await.into_parts();
    let bytes = match Limited::new(body, OBJECT_BYTES_MAX).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return Err(refuse(&Status::internal(error.to_string()))),
    };
    if !parts.status.is_success() {
        return Err(Response::from_parts(parts, full(bytes)));
    }
    serde_json::from_slice(&bytes).map_err(|error| refuse(&Status::internal(format!("could not read {path}: {error}"))))
}
