//! `firesteel explain KIND[.FIELD]`: what a field of a kind means, from the schema that the appliance serves. And
//! `firesteel explain host NAME`: why a host is where it is.

mod host;
mod schema;

use anyhow::Context as _;
use firesteel_resources::{BareMetalHost, Halt, HostJournal};
use jiff::Timestamp;

pub(crate) use self::host::{ExplainedHost, HostExplanation, PhaseHistory};
use self::schema::ExplainedField;
use super::client::{code_of, default_if_forbidden, warn_and_default, with_query};
use super::kinds::{self, CliKind};
use super::usage::wrong_use;
use super::{ApiClient, OutputFormat, get, print_text, table};

/// The most journals that are read to say what is typical.
const HISTORY_HOSTS_MAX: usize = 500;
/// Journals of one answer: each may have megabytes.
const PAGE_HOSTS: usize = 50;
const FORBIDDEN: u16 = 403;

#[derive(Debug, clap::Args)]
pub struct ExplainOptions {
    /// A kind by its plural or short name, and behind it the path of a field, such as `hosts.spec.image`; or `host` with
    /// a name behind it
    #[arg(value_name = "KIND[.FIELD]")]
    what: String,
    /// Explain this host: its state, what it waits for, since when, what is typical here, and what to do
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// List the fields of fields, too, without their meaning
    #[arg(long, conflicts_with = "name")]
    recursive: bool,
    /// Print the explanation of a host as table, yaml, json or jsonpath=TEMPLATE
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputFormat::of_page, default_value = "table")]
    output: OutputFormat,
}

/// # Errors
/// When there is no such kind, field or host, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, options: &ExplainOptions) -> anyhow::Result<()> {
    if let Some(name) = host_name(options)? {
        return explain_host(client, name, &options.output).await;
    }
    if !options.output.is_table() {
        return Err(wrong_use("--output (-o) is for a host: a field is explained in words alone; leave it out"));
    }
    let (kind, path) = kind_and_path(&options.what)?;
    let document =
        client.get(&format!("/openapi/v3{}", kinds::root(kind))).await.context("could not read the schema")?;
    let field = ExplainedField::find(&document, kind, &path)?;
    print_text(&field.render(kind, options.recursive, table::output_width()));
    Ok(())
}

/// The name of the host that is to be explained, if it is one.
fn host_name(options: &ExplainOptions) -> anyhow::Result<Option<&str>> {
    let (kind, name) = match (&options.name, options.what.split_once('/')) {
        (None, None) => return Ok(None),
        (Some(name), None) => (options.what.as_str(), name.as_str()),
        (None, Some((kind, name))) => (kind, name),
        (Some(_), Some(_)) => {
            return Err(wrong_use(format!("{:?} has a name already: write host NAME or host/NAME", options.what)));
        }
    };
    if !kinds::by_name(kind)?.is_host() {
        return Err(wrong_use(format!(
            "only a host is explained by its name: `firesteel describe {kind} {name}` shows this object"
        )));
    }
    if name.is_empty() || name.contains('/') {
        return Err(wrong_use(format!("{name:?} is no name of a host: write host NAME or host/NAME")));
    }
    Ok(Some(name))
}

async fn explain_host(client: &ApiClient, name: &str, output: &OutputFormat) -> anyhow::Result<()> {
    let path =
        |kind: &str| anyhow::Ok(format!("{}/{name}", kinds::collection(kinds::by_name(kind)?, &client.namespace)));
    let host = client.get(&path("hosts")?).await.map_err(|error| get::missing_host(client, name, error))?;
    let host: BareMetalHost = serde_json::from_value(host).context("could not read the host")?;
    let journal = client.get_if_there(&path("hostjournals")?).await;
    let journal: HostJournal = warn_and_default(journal)?.map(serde_json::from_value).transpose()?.unwrap_or_default();
    let history = warn_and_default(history(client).await)?;
    let halts: Vec<Halt> = warn_and_default(default_if_forbidden(get::list(client, "halts").await))?;
    let halts: Vec<String> = halts.iter().map(get::halt_line).collect();
    let known = ExplainedHost { host: &host, journal: &journal, history: &history, halts: &halts };
    let now = Timestamp::now();
    let explanation = HostExplanation::of(known, now);
    let text = output.text_of(&explanation)?;
    print_text(&text.unwrap_or_else(|| explanation.render(now, table::output_width())));
    Ok(())
}

/// Reads how long phases took: of all hosts, or of those of the caller's namespace where no others may be read.
async fn history(client: &ApiClient) -> anyhow::Result<PhaseHistory> {
    let kind = kinds::by_name("hostjournals")?;
    let mut path = kinds::everywhere(kind);
    let (mut history, mut after, mut count) = (PhaseHistory::default(), String::new(), 0);
    loop {
        let mut query = vec![("limit", PAGE_HOSTS.to_string())];
        if !after.is_empty() {
            query.push(("continue", after.clone()));
        }
        let own = kinds::collection(kind, &client.namespace);
        let list = match client.get(&with_query(&path, &query)).await {
            Ok(list) => list,
            Err(error) if code_of(&error) == Some(FORBIDDEN) && path != own => {
                path = own;
                history.limits = format!("of the hosts in namespace {}: you may read no others", client.namespace);
                continue;
            }
            Err(error) => return Err(error),
        };
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        count += items.len();
        // A journal of another version is passed over.
        let journals = items.iter().filter_map(|item| serde_json::from_value::<HostJournal>(item.clone()).ok());
        journals.for_each(|journal| history.add(&journal));
        after = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if after.is_empty() {
            return Ok(history);
        }
        if count >= HISTORY_HOSTS_MAX {
            history.limits = format!("of {count} hosts: no more are read for this");
            return Ok(history);
        }
    }
}

/// Splits a kind, which may have its group behind it, from the path of a field.
fn kind_and_path(text: &str) -> anyhow::Result<(CliKind, Vec<String>)> {
    let parts: Vec<&str> = text.split('.').collect();
    // The longest name of a kind counts: `machinesets.machine.openshift.io.spec`.
    let found = (1..=parts.len()).rev().find_map(|length| {
        let kind = kinds::by_name(&parts[..length].join(".")).ok()?;
        Some((kind, parts[length..].iter().map(|&part| part.to_owned()).collect::<Vec<_>>()))
    });
    let Some((kind, path)) = found else {
        let error = kinds::by_name(parts[0]).err().map(|error| error.to_string()).unwrap_or_default();
        return Err(wrong_use(error));
    };
    if path.iter().any(String::is_empty) {
        return Err(wrong_use(format!("{text:?} has a dot without a field: write it as hosts.spec.image")));
    }
    Ok((kind, path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_a_kind_and_perhaps_its_group() {
        let read =
            |text: &str| kind_and_path(text).map(|(kind, path)| format!("{} {}", kind.resource(), path.join("/")));
        assert_eq!(read("hosts.spec.image").unwrap(), "baremetalhosts.metal3.io spec/image");
        assert_eq!(read("bmh").unwrap(), "baremetalhosts.metal3.io ");
        assert_eq!(read("machinesets.machine.openshift.io.spec").unwrap(), "machinesets.machine.openshift.io spec");
        assert!(read("racks.spec").unwrap_err().to_string().contains("there is no kind \"racks\""));
        assert!(read("hosts..spec").unwrap_err().to_string().contains("a dot without a field"));
    }

    #[test]
    fn a_host_is_named_behind_its_kind() {
        let name = |what: &str, name: Option<&str>| {
            let (what, name) = (what.to_owned(), name.map(str::to_owned));
            let options =
                ExplainOptions { what, name, recursive: false, output: OutputFormat::of_page("table").unwrap() };
            host_name(&options).map(|name| name.map(str::to_owned))
        };
        assert_eq!(name("host", Some("a")).unwrap().as_deref(), Some("a"));
        assert_eq!(name("bmh/a", None).unwrap().as_deref(), Some("a"));
        assert_eq!(name("hosts.spec", None).unwrap(), None);
        for (what, named, word) in [
            ("secret", Some("a"), "`firesteel describe secret a`"),
            ("host/a", Some("b"), "has a name already"),
            ("host/", None, "is no name of a host"),
            ("racks", Some("a"), "there is no kind"),
        ] {
            let error = name(what, named).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
