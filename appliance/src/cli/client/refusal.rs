//! A refusal of the appliance as an error: the Status object of the Kubernetes API.

use firesteel_kube::{Cause, Status};
use reqwest::StatusCode;
use serde::Deserialize as _;
use serde_json::Value;

use super::ApiError;

impl ApiError {
    /// Reads the body of a refusal. Without a Status in it, the code alone is reported.
    pub(super) fn read(code: StatusCode, body: &[u8]) -> Self {
        let status = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let text = |field: &str| status.get(field).and_then(Value::as_str).map(str::to_owned);
        let message = text("message").unwrap_or_else(|| format!("the appliance answered {code}"));
        let causes = status.pointer("/details/causes").and_then(Value::as_array);
        let causes = causes.into_iter().flatten().filter_map(|cause| Cause::deserialize(cause).ok()).collect();
        Self { code: code.as_u16(), reason: text("reason").unwrap_or_default(), message, causes }
    }
}

/// The refusal of a request that this process judged as the appliance does.
impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        let causes = status.causes().to_vec();
        Self { code: status.code, reason: status.reason.to_owned(), message: status.message, causes }
    }
}
