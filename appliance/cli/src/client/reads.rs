//! Reads of texts: logs, metrics, and answers whose code is a part of what they say.

use anyhow::Context as _;
use reqwest::Method;

use super::{ANSWER_BYTES_MAX, ApiClient, ApiError, HEAD_TIMEOUT, bounded, innermost};

/// An answer that is a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextAnswer {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl ApiClient {
    /// Fetches a text.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(crate) async fn text(&self, path: &str) -> anyhow::Result<String> {
        let response = self.send(Method::GET, path, None).await?;
        let body = bounded(response, ANSWER_BYTES_MAX).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Fetches a text, also where its code says that something is wrong: `/readyz` says then what.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses the caller.
    pub(crate) async fn text_of_any_code(&self, path: &str) -> anyhow::Result<TextAnswer> {
        let sent = tokio::time::timeout(HEAD_TIMEOUT, self.request(Method::GET, path, None).send()).await;
        let sent = sent.map_err(|_| self.unreached(&format!("no answer within {} s", HEAD_TIMEOUT.as_secs())))?;
        let response = sent.map_err(|error| self.unreached(&innermost(&error)))?;
        let code = response.status();
        let body = bounded(response, ANSWER_BYTES_MAX).await.context("could not read the answer")?;
        if matches!(code.as_u16(), 401 | 403 | 404) {
            return Err(ApiError::read(code, &body).into());
        }
        Ok(TextAnswer { code: code.as_u16(), text: String::from_utf8_lossy(&body).into_owned() })
    }

    /// The token that the caller logs in with; empty if a certificate is used.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }
}
