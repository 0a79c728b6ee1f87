//! Writes of whole objects: patches of any type, and replacements.

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::{ApiClient, json};

/// What a patch made of an object.
#[derive(Debug)]
pub(crate) struct PatchedObject {
    pub(crate) value: Value,
    /// Whether there was none before.
    pub(crate) is_new: bool,
}

impl ApiClient {
    /// Sends a patch of any type.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(crate) async fn patch(&self, path: &str, media_type: &str, patch: &Value) -> anyhow::Result<PatchedObject> {
        let response = self.send(Method::PATCH, path, Some((media_type, serde_json::to_vec(patch)?))).await?;
        let is_new = response.status() == StatusCode::CREATED;
        Ok(PatchedObject { value: json(response).await?, is_new })
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(crate) async fn replace(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        let response = self.send(Method::PUT, path, Some(("application/json", serde_json::to_vec(object)?))).await?;
        json(response).await
    }
}
