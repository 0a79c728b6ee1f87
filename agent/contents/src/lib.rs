//! What is on a disk, and what of it forbids erasing the disk. Both ends use this one type and one judge: the agent
//! scans and judges before each destructive step, the appliance judges what an inspection found before it plans one.
//!
//! ```text
//! agent: disk ─► scan ─► DiskContents ─┬─► objections ─► the step runs, or is refused
//!                                      └─► inventory ─► hardware record ─► objections ─► plan, `describe`, `plan`
//! ```
//!
//! This crate reads no disk and knows no plan. It has findings and the rule only.
//!
//! The rule, from the strongest part to the weakest:
//!
//! 1. A disk that the running agent was loaded from, or that has several paths ([`DiskContents::barred`]), always
//!    stops. A removable medium, or one on USB or behind a network ([`DiskContents::attached`]), stops unless the owner
//!    names the disk ([`OwnershipClaim::is_named`]).
//! 2. A disk that bears the mark of an installation of this host (the GUID of its table) is this host's, with all on
//!    it.
//! 3. What is made for clusters stops ([`ContentKind::is_of_clusters`], [`ContentOwner::Shared`]).
//! 4. What names another host as its owner stops, and so does what was found and not understood ([`Unread`]). Neither
//!    stops if the disk was blank or this host's own when its present owner got it ([`OwnershipClaim::was_vacant`]):
//!    that owner made it.
//! 5. All else is ordinary.

mod judge;
mod kind;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use judge::{OwnershipClaim, is_foreign, objections};
pub use kind::ContentKind;

/// Most findings of one disk that are kept; those that can stop an erasure come first.
pub const FINDINGS_MAX: usize = 32;
/// Most names of filesystems and tables of one disk that are kept.
pub const PLAIN_MAX: usize = 64;
/// Most remarks of one disk on what could not be understood.
pub const UNREAD_MAX: usize = 16;

/// Whom a format names as its user.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentOwner {
    /// The format has no such field, or it is empty.
    #[default]
    Unnamed,
    Host(String),
    /// Several hosts by a lock manager or a cluster's tag, in its words: `lock_dlm alpha:data`.
    Shared(String),
}

/// A volume, pool, array or filesystem that is more than one host's ordinary data.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProtectedContent {
    /// Where it stands, for people: `the disk`, `partition 3`, `volume "vg/data"`.
    pub place: String,
    pub kind: ContentKind,
    /// Volume, pool or array, as the format names it; empty where it does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "is_unnamed")]
    pub owner: ContentOwner,
}

/// An ordinary table or filesystem, as blkid names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OrdinaryContent {
    pub place: String,
    pub name: String,
}

/// What was seen and not understood, or could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unread {
    pub place: String,
    /// What is there and what is wrong with it: `a GUID partition table whose checksum is wrong`.
    pub why: String,
    /// The disk did not give the bytes. Whose it is then says nothing about what it holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// What stands on one disk. Every text is cleaned and bounded by its maker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskContents {
    /// GUID of the GPT that systems go by, in lower case; empty where there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub guid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ProtectedContent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plain: Vec<OrdinaryContent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
    /// What speaks against erasing it whatever it holds: several paths, and what was started from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub barred: Vec<String>,
    /// What speaks against erasing it unless its owner names it: a removable medium, USB, a network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<String>,
    /// Lines beyond the bounds, which are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_unnamed(owner: &ContentOwner) -> bool {
    *owner == ContentOwner::Unnamed
}

impl fmt::Display for ProtectedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        match &self.owner {
            ContentOwner::Unnamed => Ok(()),
            ContentOwner::Host(host) => write!(f, " of host {host:?}"),
            ContentOwner::Shared(by) => write!(f, " shared by {by}"),
        }
    }
}

impl DiskContents {
    /// Whether no table, label or signature is left on the disk.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.guid.is_empty()
            && self.findings.is_empty()
            && self.plain.is_empty()
            && self.unread.is_empty()
            && self.more == 0
    }

    /// Sorts, drops repetitions, and keeps to the bounds: what can stop an erasure is kept first.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.findings.sort_by(|a, b| (weight(a), a).cmp(&(weight(b), b)));
        self.findings.dedup();
        self.plain.dedup();
        self.unread.sort_by(|a, b| (!a.failed, a).cmp(&(!b.failed, b)));
        self.unread.dedup();
        let lengths =
            [(self.findings.len(), FINDINGS_MAX), (self.plain.len(), PLAIN_MAX), (self.unread.len(), UNREAD_MAX)];
        let more: usize = lengths.into_iter().map(|(length, most)| length.saturating_sub(most)).sum();
        self.more = self.more.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        self.findings.truncate(FINDINGS_MAX);
        self.plain.truncate(PLAIN_MAX);
        self.unread.truncate(UNREAD_MAX);
        self
    }

    /// Lists no names of filesystems and tables, and says how many there were; whether there were any.
    pub fn forget_plain(&mut self) -> bool {
        let count = self.plain.len();
        self.plain.clear();
        self.more = self.more.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        count > 0
    }

    /// Changes each text by `change`, for an end that trusts no text of the other.
    #[must_use]
    pub fn with_texts(&self, change: &dyn Fn(&str) -> String) -> Self {
        let owner = |owner: &ContentOwner| match owner {
            ContentOwner::Unnamed => ContentOwner::Unnamed,
            ContentOwner::Host(host) => ContentOwner::Host(change(host)),
            ContentOwner::Shared(by) => ContentOwner::Shared(change(by)),
        };
        let finding = |one: &ProtectedContent| ProtectedContent {
            place: change(&one.place),
            kind: one.kind,
            name: change(&one.name),
            owner: owner(&one.owner),
        };
        let plain = |one: &OrdinaryContent| OrdinaryContent { place: change(&one.place), name: change(&one.name) };
        let unread = |one: &Unread| Unread { place: change(&one.place), why: change(&one.why), failed: one.failed };
        Self {
            guid: change(&self.guid),
            findings: self.findings.iter().take(FINDINGS_MAX).map(finding).collect(),
            plain: self.plain.iter().take(PLAIN_MAX).map(plain).collect(),
            unread: self.unread.iter().take(UNREAD_MAX).map(unread).collect(),
            barred: self.barred.iter().take(UNREAD_MAX).map(|text| change(text)).collect(),
            attached: self.attached.iter().take(UNREAD_MAX).map(|text| change(text)).collect(),
            more: self.more,
        }
    }

    /// All of it for people, a line each: `partition 2: VMFS "datastore1"`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let findings = self.findings.iter().map(|finding| format!("{}: {finding}", finding.place));
        let plain = self.plain.iter().map(|plain| format!("{}: {}", plain.place, plain.name));
        let unread = self.unread.iter().map(|unread| format!("{}: not understood: {}", unread.place, unread.why));
        let more = (self.more > 0).then(|| format!("{} more that are not listed", self.more));
        let ways = self.barred.iter().chain(&self.attached).cloned();
        findings.chain(plain).chain(unread).chain(ways).chain(more).collect()
    }
}

/// What may stop an erasure has the least.
fn weight(finding: &ProtectedContent) -> u8 {
    match (&finding.owner, finding.kind.is_of_clusters()) {
        (_, true) => 0,
        (ContentOwner::Shared(_), false) => 1,
        (ContentOwner::Host(_), false) => 2,
        (ContentOwner::Unnamed, false) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: ContentKind, owner: ContentOwner) -> ProtectedContent {
        ProtectedContent { place: "partition 1".into(), kind, name: "v".into(), owner }
    }

    #[test]
    fn what_stops_is_kept_where_there_is_too_much() {
        let mut many: Vec<ProtectedContent> = (0..100)
            .map(|number| ProtectedContent {
                name: number.to_string(),
                ..finding(ContentKind::Lvm, ContentOwner::Unnamed)
            })
            .collect();
        many.push(finding(ContentKind::Lvm, ContentOwner::Host("nas".into())));
        many.push(finding(ContentKind::Vmfs, ContentOwner::Unnamed));
        let contents = DiskContents { findings: many, ..DiskContents::default() }.bounded();
        assert_eq!((contents.findings.len(), contents.more), (FINDINGS_MAX, 70));
        assert_eq!(contents.findings[0].kind, ContentKind::Vmfs);
        assert_eq!(contents.findings[1].owner, ContentOwner::Host("nas".into()));
        assert_eq!(contents.lines().last().map(String::as_str), Some("70 more that are not listed"));
    }

    #[test]
    fn blank_is_a_disk_on_which_nothing_is_left() {
        assert!(DiskContents::default().is_blank());
        let reached = DiskContents { attached: vec!["it is on USB".into()], ..DiskContents::default() };
        assert!(reached.is_blank(), "how it is reached is not on it");
        let plain = vec![OrdinaryContent { place: "the disk".into(), name: "dos".into() }];
        assert!(!DiskContents { plain, ..DiskContents::default() }.is_blank());
        let mut forgotten = DiskContents {
            plain: vec![OrdinaryContent { place: "the disk".into(), name: "ext4".into() }],
            ..DiskContents::default()
        };
        assert!(forgotten.forget_plain() && !forgotten.is_blank() && !forgotten.forget_plain());
        assert!(!DiskContents { guid: "a".into(), ..DiskContents::default() }.is_blank());
        assert!(!DiskContents { more: 1, ..DiskContents::default() }.is_blank());
    }

    #[test]
    fn on_the_wire_it_is_short_and_stands_for_itself() -> Result<(), serde_json::Error> {
        assert_eq!(serde_json::to_string(&DiskContents::default())?, "{}");
        let contents = DiskContents {
            findings: vec![
                finding(ContentKind::Lvm, ContentOwner::Host("nas".into())),
                finding(ContentKind::Vmfs, ContentOwner::Unnamed),
            ],
            unread: vec![Unread { place: "the disk".into(), why: "x".into(), failed: false }],
            ..DiskContents::default()
        };
        let text = concat!(
            r#"{"findings":[{"place":"partition 1","kind":"lvm","name":"v","owner":{"host":"nas"}},"#,
            r#"{"place":"partition 1","kind":"vmfs","name":"v"}],"unread":[{"place":"the disk","why":"x"}]}"#,
        );
        assert_eq!(serde_json::to_string(&contents)?, text);
        assert_eq!(serde_json::from_str::<DiskContents>(text)?, contents);
        let newer: DiskContents = serde_json::from_str(r#"{"findings":[{"place":"p","kind":"of-tomorrow"}]}"#)?;
        assert_eq!(newer.findings[0].kind, ContentKind::Unknown);
        Ok(())
    }

    #[test]
    fn every_text_is_changed() {
        let contents = DiskContents {
            guid: "\u{1b}".into(),
            findings: vec![ProtectedContent {
                place: "\u{1b}".into(),
                kind: ContentKind::Md,
                name: "\u{1b}".into(),
                owner: ContentOwner::Shared("\u{1b}".into()),
            }],
            plain: vec![OrdinaryContent { place: "\u{1b}".into(), name: "\u{1b}".into() }],
            unread: vec![Unread { place: "\u{1b}".into(), why: "\u{1b}".into(), failed: true }],
            barred: vec!["\u{1b}".into()],
            attached: vec!["\u{1b}".into()],
            more: 0,
        };
        let cleaned = contents.with_texts(&|_| "x".into());
        assert!(!cleaned.lines().concat().contains('\u{1b}') && cleaned.guid == "x");
        assert_eq!(cleaned.lines().len(), contents.lines().len());
    }
}
