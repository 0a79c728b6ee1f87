//! What a person has to know of a host before something is done to it that cannot be undone.

use anyhow::Context as _;
use firesteel_facts::shown_url;
use firesteel_plan::host::preview::Preview;
use firesteel_plan::journal::{installed, memory};
use firesteel_resources::bare_metal_host::ProvisioningState;
use firesteel_resources::{BareMetalHost, HostJournal};

use crate::client::warn_and_default;
use crate::table::clean;
use crate::{ApiClient, get, kinds, plan};

/// A host of one namespace, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedHost<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> NamedHost<'a> {
    /// The host of the namespace that the command works in.
    pub(crate) fn here(client: &'a ApiClient, name: &'a str) -> Self {
        Self { namespace: &client.namespace, name }
    }

    /// The path of an object of this kind that has the host's name.
    fn path(self, kind: &str) -> anyhow::Result<String> {
        Ok(format!("{}/{}", kinds::collection(kinds::by_name(kind)?, self.namespace), self.name))
    }
}

/// What is known of a host: what it runs, for whom, and since when.
#[derive(Debug, Default)]
pub(crate) struct HostSummary {
    pub host: BareMetalHost,
    pub journal: HostJournal,
}

impl HostSummary {
    /// Fetches it.
    ///
    /// # Errors
    /// When there is no such host, or the appliance does not answer.
    pub(crate) async fn fetch(client: &ApiClient, host: NamedHost<'_>) -> anyhow::Result<Self> {
        let found = client.get(&host.path("hosts")?).await?;
        let journal = client.get_if_there(&host.path("hostjournals")?).await;
        let journal = warn_and_default(journal)?.map(serde_json::from_value).transpose();
        Ok(Self {
            host: serde_json::from_value(found).context("could not read the appliance's answer")?,
            journal: journal.context("could not read the appliance's answer")?.unwrap_or_default(),
        })
    }

    /// The summary in three lines: the host, its OS and its consumer.
    pub(crate) fn text(&self) -> String {
        let metadata = &self.host.metadata;
        let lines = [
            format!("host      {} in namespace {}, {}", metadata.name, metadata.namespace, get::state(&self.host)),
            format!("OS        {}", self.os()),
            format!("consumer  {}", self.consumer()),
        ];
        lines.map(|line| format!("  {}\n", clean(&line))).concat()
    }

    /// What is installed, since when, and whether and since when it runs.
    fn os(&self) -> String {
        let status = self.host.status.clone().unwrap_or_default();
        if status.provisioning.state == ProvisioningState::ExternallyProvisioned {
            return "one that was not installed from here".to_owned();
        }
        let Some(image) = &status.provisioning.image else { return "none that was installed from here".to_owned() };
        let mut text = shown_url(&image.url);
        if let Some(at) = status.operation_history.provision.end {
            text.push_str(&format!(", installed at {at:.0}"));
        }
        let journal = &self.journal.status;
        let ours = journal.instance.as_ref().filter(|record| Some(record.attempt) == installed(journal));
        match ours.and_then(|record| record.running_at) {
            Some(at) if !status.powered_on && self.host.spec.usable_bmc().is_some() => {
                text.push_str(&format!(", reported at {at:.0}, and is off now"));
            }
            Some(at) => text.push_str(&format!(", runs since {at:.0}")),
            // The report goes with the state.
            None if status.provisioning.state != ProvisioningState::Provisioned => {}
            None => text.push_str(", and has not reported that it runs"),
        }
        text
    }

    fn consumer(&self) -> String {
        match self.host.spec.consumer_ref.as_ref().filter(|consumer| !consumer.name.is_empty()) {
            Some(consumer) => format!("{} {}/{}", consumer.kind, consumer.namespace, consumer.name),
            None => "none".to_owned(),
        }
    }

    /// Why the host is frozen: the disk that may not be overwritten.
    pub(crate) fn frozen(&self) -> Option<String> {
        let memory = memory(&self.journal.status).ok()?;
        memory.frozen.map(|frozen| format!("{}: {}", frozen.disk, frozen.message))
    }
}

/// What the deletion of a host would do.
#[derive(Debug, Default)]
pub(crate) struct HostDeletion {
    summary: HostSummary,
    preview: Preview,
    /// The host is forgotten, and no disk is cleaned.
    is_forced: bool,
}

impl HostDeletion {
    /// Fetches what the planner would do to each disk.
    ///
    /// # Errors
    /// When there is no such host, or the appliance does not answer.
    pub(crate) async fn fetch(client: &ApiClient, host: NamedHost<'_>, is_forced: bool) -> anyhow::Result<Self> {
        let summary = HostSummary::fetch(client, host).await?;
        Ok(Self { summary, preview: plan::fetch(client, host).await?, is_forced })
    }

    /// What becomes of the disks, in one line.
    pub(crate) fn outcome(&self) -> String {
        let outcome = match self.preview.deletion.refused.as_str() {
            "" => "its disks are dealt with as `firesteel plan` shows, and then the host is let go",
            refused => refused,
        };
        let closed = self.preview.closed.first().map(|why| format!("; no disk is changed now: {why}"));
        outcome.to_owned() + &closed.unwrap_or_default()
    }

    /// The summary of the host, and the fate of each disk, for a terminal of this width.
    pub(crate) fn text(&self, width: usize) -> String {
        let disks = if self.is_forced {
            plan::render_kept(&self.preview, width)
        } else {
            plan::render_deletion(&self.preview, width)
        };
        self.summary.text() + &disks
    }
}

#[cfg(test)]
mod tests {
    use firesteel_plan::host::preview::{ActionPreview, DiskPreview};
    use firesteel_resources::ObjectReference;
    use serde_json::json;

    use super::*;
    use crate::table::UNBOUNDED;

    #[test]
    fn host_os_consumer_and_each_disk_are_named() {
        let mut summary = HostSummary::default();
        summary.host.metadata.name = "rack1-07".into();
        summary.host.metadata.namespace = "default".into();
        let consumer = ObjectReference {
            kind: "HostClaim".into(),
            namespace: "team".into(),
            name: "db\u{1b}".into(),
            ..ObjectReference::default()
        };
        summary.host.spec.consumer_ref = Some(consumer);
        let status = json!({"provisioning": {"state": "provisioned", "image": {"url": "http://u:p@i/os.raw"}}});
        summary.host.status = serde_json::from_value(status).ok();
        let memory = json!({"state": {"name": "provisioned"}, "applied": {"attempt": 3}});
        summary.journal.status.memory = memory;
        summary.journal.status.instance =
            serde_json::from_value(json!({"attempt": 3, "runningAt": "2026-01-02T03:04:05Z"})).ok();
        let disk = |device: &str, fate: &str| DiskPreview {
            device: device.into(),
            fate: fate.into(),
            ..DiskPreview::default()
        };
        let disks = vec![disk("/dev/sda", "erased (full)"), disk("/dev/sdb", "kept")];
        let deletion = ActionPreview { disks, ..ActionPreview::default() };
        let preview = Preview { deletion, inspected_at: "then".into(), ..Preview::default() };
        let mut all = HostDeletion { summary, preview, is_forced: false };
        let text = all.text(UNBOUNDED);
        for part in [
            "rack1-07",
            "provisioned",
            "os.raw",
            "runs since 2026-01-02",
            "HostClaim team/db",
            "/dev/sda",
            "erased (full)",
            "kept",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert!(!text.contains("u:p@") && !text.contains('\u{1b}'), "{text}");
        all.is_forced = true;
        let text = all.text(UNBOUNDED);
        assert!(text.contains("No disk is cleaned") && !text.contains("erased (full)"), "{text}");
    }
}
