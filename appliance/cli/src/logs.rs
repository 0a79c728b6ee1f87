//! `firesteel logs HOST`: the newest lines of a host's agent, of the kernel below it, and of its serial console. The API
//! serves them as logs of a pod with the host's name.

use std::pin::pin;

use anyhow::Context as _;
use firesteel_control::{AGENT, CONSOLE, KERNEL};
use futures_util::StreamExt as _;
use jiff::SignedDuration;

use super::client::with_query;
use super::get::missing_host;
use super::output::print_note;
use super::usage::wrong_use;
use super::visible::TextPieces;
use super::{ApiClient, durations, kinds, print_text};

#[derive(Debug, clap::Args)]
pub struct LogArguments {
    #[arg(value_parser = kinds::host_name)]
    host: String,
    /// Whose lines: the agent's, the kernel's below it, or the serial console's
    #[arg(long, short = 'c', value_name = "SOURCE", value_parser = [AGENT, KERNEL, CONSOLE], default_value = AGENT)]
    container: String,
    /// Go on and print new lines
    #[arg(long, short)]
    follow: bool,
    /// Print only this many of the last lines
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Print only lines that are not older than this, such as `10m` or `2h30m`
    #[arg(long, value_name = "DURATION", value_parser = durations::positive)]
    since: Option<SignedDuration>,
    /// Begin each line with its time
    #[arg(long)]
    timestamps: bool,
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, options: &LogArguments) -> anyhow::Result<()> {
    let host = host_name(&options.host)?;
    let path = kinds::collection(kinds::by_name("pods")?, &client.namespace);
    let path = with_query(&format!("{path}/{host}/log"), &query(options));
    let downloaded = client.download(&path).await.map_err(|error| missing_host(client, host, error));
    let (_, chunks) = downloaded.with_context(|| {
        format!("could not read the {}'s lines of {host} in namespace {}", options.container, client.namespace)
    })?;
    let mut chunks = pin!(chunks);
    let mut is_empty = true;
    let mut text = TextPieces::default();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.context("could not read on: the connection broke off; run the command again")?;
        is_empty &= chunk.is_empty();
        print_text(&text.push(&chunk));
    }
    print_text(&text.end());
    if is_empty && !options.follow {
        print_note(&nothing(host, options));
    }
    Ok(())
}

/// The name of the host, which may be written as `host/NAME`.
fn host_name(text: &str) -> anyhow::Result<&str> {
    let Some((kind, name)) = text.split_once('/') else { return Ok(text) };
    let is_pod = ["pod", "pods", "po"].contains(&kind);
    if (is_pod || kinds::by_name(kind).is_ok_and(kinds::CliKind::is_host)) && !name.contains('/') {
        return Ok(name);
    }
    Err(wrong_use(format!("{text:?} is no host: logs are kept of hosts, so write HOST or host/HOST")))
}

fn query(options: &LogArguments) -> Vec<(&'static str, String)> {
    // A part of a second counts as a whole one: rather a line too many than one too few.
    let since = options.since.map(|since| since.as_secs() + i64::from(since.subsec_nanos() > 0));
    [
        Some(("container", options.container.clone())),
        options.follow.then(|| ("follow", "true".to_owned())),
        options.tail.map(|lines| ("tailLines", lines.to_string())),
        since.map(|seconds| ("sinceSeconds", seconds.to_string())),
        options.timestamps.then(|| ("timestamps", "true".to_owned())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Says why there may be nothing, and where else to search.
fn nothing(host: &str, options: &LogArguments) -> String {
    let others: Vec<String> = [AGENT, KERNEL, CONSOLE]
        .into_iter()
        .filter(|other| *other != options.container)
        .map(|other| format!("`-c {other}`"))
        .collect();
    let why = match options.container.as_str() {
        CONSOLE => "the console is read by IPMI, from BMCs that offer it",
        _ => "lines come while the agent runs on the host, and are lost when the appliance restarts",
    };
    let asked = if options.tail.is_some() || options.since.is_some() { " that were asked for" } else { "" };
    format!(
        "no lines of the {} of {host}{asked} are kept: {why}; {} shows other lines, and `firesteel describe host {host}` \
         its timeline",
        options.container,
        others.join(" or ")
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn options(container: &str) -> LogArguments {
        LogArguments {
            host: "a".into(),
            container: container.into(),
            follow: true,
            tail: Some(3),
            since: Some(SignedDuration::from_millis(1500)),
            timestamps: true,
        }
    }

    #[test]
    fn flags_become_those_of_the_api() {
        let path = with_query("/log", &query(&options(KERNEL)));
        assert_eq!(path, "/log?container=kernel&follow=true&tailLines=3&sinceSeconds=2&timestamps=true");
        let text = nothing("a", &options(CONSOLE));
        assert!(text.contains("by IPMI") && text.contains("`-c agent` or `-c kernel`"), "{text}");
    }

    #[test]
    fn a_host_is_named_with_its_kind_or_without() {
        for name in ["a", "host/a", "bmh/a", "pod/a"] {
            assert_eq!(host_name(name).unwrap(), "a", "{name}");
        }
        assert!(host_name("secret/a").unwrap_err().to_string().contains("logs are kept of hosts"));
    }
}
