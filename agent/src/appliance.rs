//! The agent's end of the protocol: signed requests to one pinned appliance.
//!
//! Knows addresses, signatures and refusals; knows neither plans nor disks.

use std::time::Duration;

use anyhow::Context;
use firesteel_steps::tls::pinned_client_config;
use firesteel_wire::limits::{LONG_POLL, REPLY_BYTES_MAX};
use firesteel_wire::{
    AgentReport, HELLO_PATH, Hello, HelloReply, PublicKey, REPORT_PATH, RefusalReply, ReportReply, SIGNATURE_HEADER,
    Seed, signing_input,
};
use reqwest::{Client, StatusCode, header::CONTENT_TYPE, redirect};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Serialize, de::DeserializeOwned};

/// A switch port may hold back traffic for 30 s after the link came up (spanning tree).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// An answer that is not a long poll comes at once; the rest is for a busy appliance.
const REPLY_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a call brought no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The appliance understood the request and refused it.
    #[error("the appliance refused: {}", .0.message)]
    Refused(RefusalReply),
    /// No answer, or none of ours: worth another try.
    #[error("the appliance did not answer: {0}")]
    Unreachable(String),
}

#[derive(Debug)]
pub struct ApplianceClient {
    client: Client,
    address: String,
    key: Ed25519KeyPair,
}

impl ApplianceClient {
    pub fn new(seed: &Seed, key: Ed25519KeyPair) -> anyhow::Result<Self> {
        let client = Client::builder()
            .tls_backend_preconfigured(pinned_client_config(&seed.pin_sha256)?)
            .https_only(true)
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .context("setting up the connection to the appliance")?;
        Ok(Self { client, address: seed.appliance.trim_end_matches('/').to_owned(), key })
    }

    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.key.public_key().as_ref());
        PublicKey(key)
    }

    pub async fn hello(&self, hello: &Hello) -> Result<HelloReply, CallError> {
        self.call(HELLO_PATH, hello, REPLY_TIMEOUT).await
    }

    /// Sends a report. The reply to an idle agent may take as long as the long poll.
    pub async fn report(&self, report: &AgentReport) -> Result<ReportReply, CallError> {
        let held = if report.idle && !report.leaving { LONG_POLL } else { Duration::ZERO };
        self.call(REPORT_PATH, report, REPLY_TIMEOUT + held).await
    }

    async fn call<B: Serialize, R: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        timeout: Duration,
    ) -> Result<R, CallError> {
        let body = serde_json::to_vec(body).map_err(|error| CallError::Unreachable(error.to_string()))?;
        let signature = hex::encode(self.key.sign(&signing_input(path, &body)).as_ref());
        let response = self
            .client
            .post(format!("{}{path}", self.address))
            .timeout(timeout)
            .header(CONTENT_TYPE, "application/json")
            .header(SIGNATURE_HEADER, signature)
            .body(body)
            .send()
            .await
            .map_err(unreachable)?;
        let status = response.status();
        let bytes = read_bounded(response).await?;
        if status == StatusCode::OK {
            return serde_json::from_slice(&bytes).map_err(|error| {
                // Unlike silence, this does not pass by itself.
                tracing::error!("the appliance's reply cannot be read: {error}");
                CallError::Unreachable(format!("the reply cannot be read: {error}"))
            });
        }
        match serde_json::from_slice::<RefusalReply>(&bytes) {
            Ok(refusal) => Err(CallError::Refused(refusal)),
            Err(_) => Err(CallError::Unreachable(format!("answer {status}"))),
        }
    }
}

async fn read_bounded(mut response: reqwest::Response) -> Result<Vec<u8>, CallError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if bytes.len() + chunk.len() > REPLY_BYTES_MAX {
            tracing::error!(
                "the appliance's reply is longer than {REPLY_BYTES_MAX} bytes, more than the protocol allows"
            );
            return Err(CallError::Unreachable("the reply is longer than the protocol allows".to_owned()));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The chain of causes, because reqwest's own text leaves out the one that matters.
fn unreachable(error: reqwest::Error) -> CallError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    CallError::Unreachable(text)
}
