//! `firesteel support-bundle`: collects what explains the state of an appliance into one file, without secrets.
//!
//! ```text
//!   objects ──► known secrets (values of Secrets, configs, URLs) ──► search
//!                                                                      │
//!   objects, logs, metrics, settings ──► removed by type, form, value ◄┘ ──► NAME.tar.gz
//! ```
//!
//! What may be read is read; what is refused is listed in the manifest, and the exit code says so. A part in which a known
//! value is left after the cleaning is left out.

mod archive;
mod collection;
mod found_secrets;
mod listing;
mod manifest;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use firesteel_redaction::{Redactor, SecretSearch};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use self::archive::BundleArchive;
use self::collection::{BundleCollection, BundleTime, MissingPart};
use self::found_secrets::FoundSecrets;
use self::listing::{BundleScope, ServedKind};
use self::manifest::{RedactionSummary, SupportManifest};
use super::output::print_note;
use super::table::{bytes, clean};
use super::{ApiClient, ConnectionOptions, durations, print_text};

/// The newest records of the audit log that are collected.
const AUDIT_LINES: usize = 2_000;
/// How many missing parts the error names.
const MISSING_NAMED_MAX: usize = 10;

#[derive(Debug, clap::Args)]
pub struct BundleArguments {
    /// File to write, with mode 0600; one that exists is not overwritten [default: firesteel-support-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Give up what is not collected within this time; the bundle has what was, and says what is missing
    #[arg(long, value_name = "TIME", value_parser = durations::limit, default_value = "10m")]
    timeout: Duration,
}

/// Something is missing in a bundle that was written.
#[derive(Debug, thiserror::Error)]
#[error("the bundle is incomplete: {}", listed(.0))]
pub(crate) struct IncompleteBundle(Vec<MissingPart>);

/// The paths of the appliance that are no objects, and the files that they become.
const VALUES: [(&str, &str); 4] = [
    ("appliance/version.json", "/version"),
    ("appliance/store.json", "/firesteel.dev/store"),
    ("appliance/fleet.json", "/firesteel.dev/fleet"),
    ("appliance/unknown-hosts.json", "/firesteel.dev/unknown-hosts"),
];
const TEXTS: [(&str, &str); 3] = [
    ("appliance/settings.toml", "/firesteel.dev/settings"),
    ("appliance/log.txt", "/firesteel.dev/log"),
    ("appliance/metrics.txt", "/metrics"),
];

/// # Errors
/// When the appliance does not answer, the file exists or cannot be written, the Secrets cannot be read, a signal ends
/// it, or the bundle is incomplete.
pub(crate) async fn run(connection: &ConnectionOptions, options: &BundleArguments) -> anyhow::Result<()> {
    let client = ApiClient::open(connection)?;
    let began = Timestamp::now();
    let stamp = began.strftime("%Y%m%dT%H%M%SZ").to_string();
    let folder = format!("firesteel-support-{stamp}");
    let file = options.file.clone().unwrap_or_else(|| PathBuf::from(format!("{folder}.tar.gz")));
    let seconds = u64::try_from(began.as_second()).unwrap_or_default();
    let mut terminate = signal(SignalKind::terminate()).context("could not handle the signals of the system")?;
    let archive = BundleArchive::create(&file, &folder, seconds)?;
    let request = BundleRequest { client: &client, namespace: connection.namespace.as_deref(), began, file: &file };
    let made = request.make(archive, BundleTime::start(options.timeout));
    // The archive is dropped with the work, and leaves nothing.
    tokio::select! {
        done = made => done,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("a signal ended it: no bundle is made"),
        _ = terminate.recv() => anyhow::bail!("a signal ended it: no bundle is made"),
    }
}

/// What a bundle is to be about, and where it goes.
struct BundleRequest<'a> {
    client: &'a ApiClient,
    namespace: Option<&'a str>,
    began: Timestamp,
    file: &'a Path,
}

impl BundleRequest<'_> {
    /// Makes the bundle, and says what became of it.
    async fn make(self, archive: BundleArchive, time: BundleTime) -> anyhow::Result<()> {
        let Self { client, namespace, began, file } = self;
        let everything = BundleScope::Everything { own: &client.namespace };
        let scope = namespace.map_or(everything, BundleScope::Namespace);
        let progress = CollectionProgress::new()?;
        let kinds = time.within(listing::kinds(client)).await?;
        progress.show("reading the values that are to be removed");
        // A log shows values of all namespaces, whichever the bundle is about.
        let found = FoundSecrets::read(client, &kinds, everything, time).await?;
        let values = found.known.values()?;
        let mut collection =
            BundleCollection::new(client, scope, archive, Redactor::new(SecretSearch::new(&values)?)?, time);
        found.missing.iter().for_each(|missing| collection.miss(&missing.what, &missing.why));
        collect(&mut collection, &kinds, &progress).await?;
        progress.show("writing the bundle");
        let summary = RedactionSummary {
            known_values: values.len(),
            short_values: found.known.too_short(),
            removed: collection.redactor.removals().values().sum(),
        };
        let end = BundleEnd { began, namespace, summary };
        let missing = collection.missing.clone();
        let packed = end.write(collection).await?;
        progress.end();
        print_text(&format!(
            "{}: {}, {} secrets removed\n  read redactions.json in it before you send it: what has no known form is not \
             recognised as a secret\n",
            file.display(),
            bytes(packed),
            summary.removed
        ));
        if missing.is_empty() { Ok(()) } else { Err(IncompleteBundle(missing).into()) }
    }
}

/// Collects all parts.
async fn collect(
    collection: &mut BundleCollection<'_>,
    kinds: &[ServedKind],
    progress: &CollectionProgress,
) -> anyhow::Result<()> {
    for kind in kinds {
        progress.show(&format!("collecting {}", kind.resource()));
        collection.objects(kind).await?;
    }
    progress.show("collecting logs of hosts");
    collection
        .host_logs(|index, count| progress.detail(&format!("collecting logs of host {} of {count}", index + 1)))
        .await?;
    progress.show("collecting what the appliance says of itself");
    for (name, path) in VALUES {
        collection.fetch_value(name, path).await?;
    }
    for (name, path) in TEXTS {
        collection.fetch_text(name, path).await?;
    }
    let audit = format!("/firesteel.dev/audit?tail={AUDIT_LINES}");
    collection.fetch_text("appliance/audit.jsonl", &audit).await?;
    collection.fetch_readiness().await
}

/// What is known when all parts are collected.
struct BundleEnd<'a> {
    began: Timestamp,
    namespace: Option<&'a str>,
    summary: RedactionSummary,
}

impl BundleEnd<'_> {
    /// Adds the manifest and the list of removals, and ends the archive. Returns its size in bytes.
    async fn write(self, mut collection: BundleCollection<'_>) -> anyhow::Result<u64> {
        let redactions = manifest::redactions(collection.redactor.removals());
        collection.archive.add("redactions.json", &serde_json::to_vec_pretty(&redactions)?)?;
        let server_version = collection.time.within(collection.client.get("/version")).await.unwrap_or(Value::Null);
        let took = Timestamp::now().duration_since(self.began).as_secs();
        let manifest = SupportManifest {
            form: SupportManifest::FORM,
            made_at: self.began,
            took_seconds: u64::try_from(took).unwrap_or_default(),
            client_version: env!("CARGO_PKG_VERSION"),
            server_version,
            server: collection.client.server(),
            namespace: self.namespace,
            is_complete: collection.missing.is_empty(),
            missing: &collection.missing,
            related_objects: manifest::related_objects(&collection.related, &collection.collected),
            redaction: self.summary,
            files: collection.archive.files(),
        };
        let mut manifest = serde_json::to_value(&manifest)?;
        collection.redactor.begin_part();
        collection.redactor.clean_value("manifest.json", "", &mut manifest);
        collection.archive.add("manifest.json", &serde_json::to_vec_pretty(&manifest)?)?;
        collection.archive.finish()
    }
}

/// Says on standard error what goes on: a line that changes in a terminal, lines elsewhere.
struct CollectionProgress(ProgressBar);

impl CollectionProgress {
    fn new() -> anyhow::Result<Self> {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})")?);
        Ok(Self(bar))
    }

    /// Names the part that begins.
    fn show(&self, text: &str) {
        if self.0.is_hidden() {
            print_note(text);
        } else {
            self.detail(text);
        }
    }

    /// Names a part of a part, which is no line of its own.
    fn detail(&self, text: &str) {
        self.0.set_message(clean(text));
        self.0.tick();
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// Names the first missing parts, each with its reason.
fn listed(missing: &[MissingPart]) -> String {
    let named = missing.iter().take(MISSING_NAMED_MAX).map(|part| format!("\n  {}: {}", part.what, part.why));
    let more = missing.len().saturating_sub(MISSING_NAMED_MAX);
    let more = if more > 0 { format!("\n  and {more} more, which manifest.json lists") } else { String::new() };
    named.collect::<String>() + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_bundle_names_what_is_missing() {
        let part = |number: usize| MissingPart { what: format!("part {number}"), why: "it is refused".into() };
        let error = IncompleteBundle((0..12).map(part).collect()).to_string();
        assert!(error.starts_with("the bundle is incomplete: \n  part 0: it is refused\n"), "{error}");
        assert!(error.ends_with("\n  and 2 more, which manifest.json lists"), "{error}");
    }
}
