//! A refusal of the appliance as an error: the Status object of the Kubernetes API.

use firesteel_kube::{Cause, Status};
use reqwest::StatusCode;
use serde::Deserialize as _;
use serde_json::Value;

use super::ApiError;

impl ApiError {
    /// Reads the body of a refusal. Without a Status in it, the code alone is reported.
    pub(super) fn read(code: StatusCode, body: &[u8]) -> Self {
        let error = Self::of_status(&serde_json::from_slice::<Value>(body).unwrap_or_default());
        let message = if error.message.is_empty() { format!("the appliance answered {code}") } else { error.message };
        Self { code: code.as_u16(), message, ..error }
    }

    /// Reads a Status object. What it does not have is empty.
    pub(crate) fn of_status(status: &Value) -> Self {
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        let causes = status.pointer("/details/causes").and_then(Value::as_array);
        Self {
            code: status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default(),
            reason: text("reason"),
            message: text("message"),
            causes: causes.into_iter().flatten().filter_map(|cause| Cause::deserialize(cause).ok()).collect(),
        }
    }
}

/// The refusal of a request that this process judged as the appliance does.
impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        let causes = status.causes().to_vec();
        Self { code: status.code, reason: status.reason.to_owned(), message: status.message, causes }
    }
}
