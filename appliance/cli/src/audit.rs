//! `firesteel audit`: prints the appliance's audit log, line by line the same JSON.

use std::pin::pin;

use anyhow::Context as _;
use futures_util::StreamExt as _;

use super::{ApiClient, print_text, visible::TextPieces};

/// # Errors
/// When the appliance does not answer, refuses, or ends the stream.
pub(crate) async fn run(client: &ApiClient, follow: bool, tail: Option<usize>) -> anyhow::Result<()> {
    let tail = tail.map(|lines| format!("&tail={lines}")).unwrap_or_default();
    let (_, chunks) = client.download(&format!("/firesteel.dev/audit?follow={follow}{tail}")).await?;
    let mut chunks = pin!(chunks);
    let mut text = TextPieces::default();
    while let Some(chunk) = chunks.next().await {
        print_text(&text.push(&chunk.context("could not read the audit log")?));
    }
    print_text(&text.end());
    Ok(())
}
