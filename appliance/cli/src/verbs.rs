//! The verbs that people know from kubectl, for objects of the API.

use super::{ApiClient, ConnectionOptions};
use super::{delete, describe, events, explain, get, logs, version, wait};

/// Commands about objects of any kind.
#[derive(Debug, clap::Subcommand)]
pub enum ApiVerb {
    /// List objects, or follow them
    Get(get::GetOptions),
    /// Show everything about an object: state, reason, plan, timeline, receipts
    Describe(describe::DescribeOptions),
    /// Delete objects and wait until they are gone; a host is cleaned first
    ///
    /// A host goes as by `firesteel release`: its disks are cleaned as its cleaning policy says. An object that is
    /// deleted meanwhile and created again by another client stays.
    Delete(Box<delete::DeleteArguments>),
    /// Print the newest lines of a host's agent, of the kernel below it, or of its serial console
    Logs(logs::LogArguments),
    /// Show what happened lately, oldest first
    Events(events::EventOptions),
    /// Wait until objects have a condition or a value, or are deleted
    Wait(Box<wait::WaitOptions>),
    /// Explain a kind or one of its fields, or why a host is where it is
    ///
    /// `explain host NAME` says what the host waits for and since when, how long that usually takes on this appliance, and
    /// what to do. What is typical comes from the journals of all hosts that you may read.
    Explain(explain::ExplainOptions),
    /// Print the versions of this program and of the appliance
    Version(version::VersionOptions),
}

/// # Errors
/// The error says what went wrong, for the person who typed the command.
pub(super) async fn run(connection: &ConnectionOptions, verb: ApiVerb) -> anyhow::Result<()> {
    let client = || ApiClient::open(connection);
    match verb {
        ApiVerb::Get(options) => get::run(&client()?, options).await,
        ApiVerb::Describe(options) => describe::run(&client()?, options).await,
        ApiVerb::Delete(options) => delete::run(&client()?, &options).await,
        ApiVerb::Logs(options) => logs::run(&client()?, &options).await,
        ApiVerb::Events(options) => events::run(&client()?, options).await,
        ApiVerb::Wait(options) => wait::run(&client()?, &options).await,
        ApiVerb::Explain(options) => explain::run(&client()?, &options).await,
        ApiVerb::Version(options) => version::run(connection, &options).await,
    }
}
