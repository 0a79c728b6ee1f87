//! What is remembered of the host's disks, and of what is installed on them.

use std::fmt;

use firesteel_resources::{HardwareRecord, Image, RootDeviceHints};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::disk::{CleaningMethod, DiskChoice, DiskIdentity};
use crate::host::model::orders::ReadyImage;

/// A machine that was let go before a disk was cleaned: its tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    /// `namespace/name` of the host that was.
    pub host: String,
    /// The disk in words; empty if it may be any, or several.
    pub disk: String,
    pub at: Timestamp,
    /// A tenant left it, so that disks may be erased for it; an older tombstone does not say so.
    #[serde(default)]
    pub of_tenant: bool,
    /// The disk was cleaned since, as far as is due to whose data it had.
    #[serde(default)]
    pub is_settled: bool,
    /// Something was installed for this host before or since: its disks hold what is its owner's, and are not erased
    /// for what was there before.
    #[serde(default)]
    pub is_told_only: bool,
}

impl fmt::Display for Tombstone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, disk, at, .. } = self;
        if disk.is_empty() {
            return write!(
                f,
                "any disk of this machine may hold what host {host} left, which was let go uncleaned at {at:.0}, until \
                 all of them are erased (annotation firesteel.dev/cleaning, scope all)"
            );
        }
        let until = if self.of_tenant { ", until it is erased (annotation firesteel.dev/cleaning)" } else { "" };
        write!(f, "the disk {disk} may hold what host {host} left on it, which was let go uncleaned at {at:.0}{until}")
    }
}

/// The disk that an installation writes, named before anything runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskPlan {
    #[serde(flatten)]
    pub choice: DiskChoice,
    /// The boot whose inspection the choice was made from.
    pub inspected_in: u64,
    pub hints: RootDeviceHints,
    pub chosen_at: Timestamp,
}

impl DiskPlan {
    #[must_use]
    pub fn identity(&self) -> &DiskIdentity {
        &self.choice.disk
    }
}

/// A plan, by its boot and number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WritePlanRef {
    pub attempt: u64,
    pub plan: u32,
    /// The mark that it gave the disk, done or not; empty where an earlier version stored it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub disk_guid: String,
}

/// A try that ended because of how the disks are, and the newest plan of that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedAttempt {
    pub at: Timestamp,
    pub attempt: u64,
    pub plan: u32,
}

/// What a cleaning proved, or claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanedNote {
    pub at: Timestamp,
    /// The boot that cleaned; zero where an earlier version stored it.
    #[serde(default)]
    pub attempt: u64,
    pub method: CleaningMethod,
    /// All data of all disks that Firesteel would clean, by proof; otherwise less was asked, or not all was seen, and
    /// `text` says what.
    pub is_erased: bool,
    /// Less was asked than all data of all disks; of an erasure that is unverified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    pub text: String,
    /// What was not seen of an erasure that claims a grade, so that it is unverified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// When a person said that it is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreMark {
    pub at: Timestamp,
    /// GUID of an installation that was under way when the backup was made: its end is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unfinished: String,
}

/// Why nothing is done to the host's disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frozen {
    pub why: FrozenWhy,
    /// The disk, by name and identity.
    pub disk: String,
    /// Name by which it is given up: its mark, or the disk's own name if no mark could be read; empty if it
    /// cannot be given up.
    pub guid: String,
    pub message: String,
    pub since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrozenWhy {
    /// The disk was installed after the backup that the store was restored from.
    NewerThanStore,
    /// The disk was installed by another appliance, and not cleaned by it.
    OfAnotherStore,
    /// The disk has no name of its own, and bears the mark of an installation that is not this host's.
    OfAnotherHost,
    /// The store was restored, and the agent does not say what is on the disk.
    MarkUnknown,
    /// The disk gave an error where its mark would be.
    Unread,
}

impl FrozenWhy {
    /// The word for it as a condition's reason.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NewerThanStore => "NewerThanStore",
            Self::OfAnotherStore => "OfAnotherStore",
            Self::OfAnotherHost => "OfAnotherHost",
            Self::MarkUnknown => "MarkUnknown",
            Self::Unread => "Unread",
        }
    }
}

/// An installation that may be overwritten, by a person's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfrozenInstallation {
    pub guid: String,
    pub disk: String,
    pub at: Timestamp,
}

/// What the appliance put on the disk, as the receipts prove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledSystem {
    pub image: Image,
    pub ready: ReadyImage,
    pub disk_guid: String,
    pub attempt: u64,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_sha256: Option<String>,
    /// Configs of this appliance that the OS was handed over to fetch. With one it is expected to report itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<String>,
    /// The agent said goodbye; false where it went quiet after the hand-off.
    pub left_properly: bool,
}

impl InstalledSystem {
    /// A system that was installed elsewhere, as its owner or a status says.
    pub(crate) fn of_others(image: Image, attempt: u64, at: Timestamp) -> Self {
        Self {
            image,
            ready: ReadyImage::default(),
            disk_guid: String::new(),
            attempt,
            at,
            user_data_sha256: None,
            configs: Vec::new(),
            left_properly: true,
        }
    }

    #[must_use]
    pub fn reports_running(&self) -> bool {
        !self.configs.is_empty()
    }
}

/// A disk, and the newest plan that names it to change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedDisk {
    pub disk: DiskIdentity,
    pub attempt: u64,
    pub plan: u32,
}

impl ChangedDisk {
    pub(crate) fn is_since(&self, record: &HardwareRecord) -> bool {
        (self.attempt, self.plan) > (record.attempt, record.plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_names_the_disk_or_all_of_them_and_when_it_is_over() {
        let any = "any disk of this machine may hold what host default/old left, which was let go uncleaned at \
                   1970-01-01T00:00:00Z, until all of them are erased (annotation firesteel.dev/cleaning, scope all)";
        let one = "the disk sda may hold what host default/old left on it, which was let go uncleaned at \
                   1970-01-01T00:00:00Z";
        let erased = format!("{one}, until it is erased (annotation firesteel.dev/cleaning)");
        for (disk, of_tenant, expected) in
            [("", false, any), ("", true, any), ("sda", false, one), ("sda", true, erased.as_str())]
        {
            let tombstone = Tombstone {
                host: "default/old".into(),
                disk: disk.into(),
                at: Timestamp::UNIX_EPOCH,
                of_tenant,
                is_settled: false,
                is_told_only: false,
            };
            assert_eq!(tombstone.to_string(), expected);
        }
    }

    #[test]
    fn a_freeze_has_a_word_for_each_cause() {
        for (why, word) in [
            (FrozenWhy::NewerThanStore, "NewerThanStore"),
            (FrozenWhy::OfAnotherStore, "OfAnotherStore"),
            (FrozenWhy::OfAnotherHost, "OfAnotherHost"),
            (FrozenWhy::MarkUnknown, "MarkUnknown"),
            (FrozenWhy::Unread, "Unread"),
        ] {
            assert_eq!(why.word(), word);
        }
    }

    #[test]
    fn an_os_reports_itself_where_it_was_handed_a_config_to_fetch() {
        let installed = InstalledSystem::of_others(Image::default(), 1, Timestamp::UNIX_EPOCH);
        assert!(!installed.reports_running());
        assert!(InstalledSystem { configs: vec!["worker".into()], ..installed }.reports_running());
    }
}
