//! How old boot images may be, and whether their age stops an upgrade (S1-3.4): a host that is installed from
//! an image that is too old cannot become a node of what the cluster is upgraded to. Pure.
//!
//! | mode | when | what is held against the minimum |
//! |---|---|---|
//! | None | the spec says so; or nothing here has a version that can be compared | nothing |
//! | Automatic | the spec says nothing, and all sets are managed | what all sets have reached |
//! | Manual | the spec says so, or it says nothing and not all sets are managed | the version that a person states, or that of the installation |
//!
//! The automatic version begins at that of the installation, advances when all sets are done, and goes back to it when
//! one is skipped. Beside it each set's own image counts: one that is older than all others is the one that fails. Sets
//! of Cluster API count for nothing: their images are named in templates that are not here, so that the version could
//! never advance again.

use std::{collections::BTreeMap, fmt, str::FromStr};

use firesteel_resources::machine_configuration::{
    BootImageVersion, ManagedBootImages, RHCOS_VERSION_CHARS, SelectionMode, SkewEnforcement, SkewMode, VersionMode,
};
use serde::{Deserialize, Serialize};

use crate::policy::{SetDecision, SetKey, SetKind};

/// Reason of the condition Upgradeable (upstream).
pub const REASON: &str = "ClusterBootImageSkewError";
/// Sets that a message names.
const NAMES_MAX: usize = 20;

/// Version of a release of RHCOS, of which only RHEL's version is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rhel {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Rhel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// `9.6.20250701-0`; or in the old style, with the cluster's version first and RHEL's without a dot, as in
/// `48.84.202109241901-0`. `None` for releases of other streams.
#[must_use]
pub fn rhcos(release: &str) -> Option<Rhel> {
    // What no field of the API takes is no version, however it looks.
    if !(RHCOS_VERSION_CHARS[0]..=RHCOS_VERSION_CHARS[1]).contains(&release.len()) {
        return None;
    }
    let (version, build) = release.split_once('-')?;
    let mut parts = version.split('.');
    let (first, second, stamp) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !is_digits(build) || !is_digits(stamp) {
        return None;
    }
    match stamp.len() {
        8 => Some(Rhel { major: number(first)?, minor: number(second)? }),
        // 84 is 8.4, and 810 is 8.10.
        12 if second.len() >= 2 && second.is_ascii() => {
            number(first)?;
            let (major, minor) = second.split_at(1);
            Some(Rhel { major: number(major)?, minor: number(minor)? })
        }
        _ => None,
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: &str) -> Option<u32> {
    if is_digits(text) { text.parse().ok() } else { None }
}

/// `4.13.0`.
#[must_use]
pub fn ocp(version: &str) -> Option<[u32; 3]> {
    let parts: Option<Vec<u32>> = version.split('.').map(number).collect();
    <[u32; 3]>::try_from(parts?).ok()
}

/// The oldest images from which hosts can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct MinimumVersions {
    pub ocp: [u32; 3],
    pub rhcos: Rhel,
}

impl Default for MinimumVersions {
    /// Upstream's.
    fn default() -> Self {
        Self { ocp: [4, 13, 0], rhcos: Rhel { major: 9, minor: 2 } }
    }
}

impl fmt::Display for MinimumVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.ocp;
        write!(f, "{major}.{minor}.{patch} (RHCOS {})", self.rhcos)
    }
}

/// The form in settings: `4.13.0,9.2`.
impl From<MinimumVersions> for String {
    fn from(minimum: MinimumVersions) -> Self {
        let [major, minor, patch] = minimum.ocp;
        format!("{major}.{minor}.{patch},{}", minimum.rhcos)
    }
}

/// RHEL's first version with an RHCOS: a lower one is a cluster's, of which a part was forgotten.
const RHEL_MAJOR_MIN: u32 = 8;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MinimumError {
    #[error(
        "{0:?} is no version of boot images: give an OCP version such as 4.13.0, RHCOS's such as 9.2 or \
         9.2.20230504-0, or both with a comma between them"
    )]
    Version(String),
    #[error("there are two OCP versions: give one")]
    TwoOcp,
    #[error("there are two RHCOS versions: give one")]
    TwoRhcos,
}

/// An OCP version, one of RHCOS, or both with a comma between them. What is not said is as by default.
impl FromStr for MinimumVersions {
    type Err = MinimumError;

    fn from_str(text: &str) -> Result<Self, MinimumError> {
        let (mut own_ocp, mut own_rhcos) = (None, None);
        for part in text.split(',').map(str::trim) {
            if let Some(version) = ocp(part) {
                if own_ocp.replace(version).is_some() {
                    return Err(MinimumError::TwoOcp);
                }
            } else if let Some(version) = rhcos(part).or_else(|| rhel(part)) {
                if own_rhcos.replace(version).is_some() {
                    return Err(MinimumError::TwoRhcos);
                }
            } else {
                return Err(MinimumError::Version(part.to_owned()));
            }
        }
        let default = Self::default();
        Ok(Self { ocp: own_ocp.unwrap_or(default.ocp), rhcos: own_rhcos.unwrap_or(default.rhcos) })
    }
}

/// `9.2`.
fn rhel(text: &str) -> Option<Rhel> {
    let (major, minor) = text.split_once('.')?;
    let version = Rhel { major: number(major)?, minor: number(minor)? };
    (version.major >= RHEL_MAJOR_MIN).then_some(version)
}

/// What is remembered from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recorded {
    /// The release of the oldest image when sets were first seen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub installed: String,
    /// What all sets have reached.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reached: String,
}

#[derive(Clone, Copy, Debug)]
pub struct SkewInputs<'a> {
    /// `spec.bootImageSkewEnforcement`.
    pub wanted: Option<&'a SkewEnforcement>,
    pub effective: &'a ManagedBootImages,
    /// What the policy decided, of this moment.
    pub decisions: &'a BTreeMap<SetKey, SetDecision>,
    /// The release of the image that machines of each set get now, where it is known.
    pub releases: &'a BTreeMap<SetKey, String>,
    pub minimum: MinimumVersions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upgradeable {
    /// Nothing was held against anything; why.
    NotChecked(String),
    Yes(String),
    /// What is too old, and what to do. The reason is [`REASON`].
    No(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkewDecision {
    /// The value of `status.bootImageSkewEnforcementStatus`.
    pub status: SkewEnforcement,
    pub recorded: Recorded,
    pub upgradeable: Upgradeable,
}

#[must_use]
pub fn decide(seen: &SkewInputs<'_>, recorded: &Recorded) -> SkewDecision {
    let recorded = record(seen, recorded);
    let none = SkewEnforcement::default();
    let (status, upgradeable) = match seen.wanted {
        Some(wanted) if wanted.mode == SkewMode::None => {
            let why = "spec.bootImageSkewEnforcement says None: the age of boot images is not checked";
            (none, Upgradeable::NotChecked(why.to_owned()))
        }
        Some(wanted) => {
            let stated = wanted.manual.clone().unwrap_or_default();
            let upgradeable = manual(&stated, seen.minimum);
            (SkewEnforcement { mode: SkewMode::Manual, manual: Some(stated), automatic: None }, upgradeable)
        }
        None if recorded.installed.is_empty() => {
            let why = "no set has an image whose release can be compared with a minimum";
            (none, Upgradeable::NotChecked(why.to_owned()))
        }
        None if is_all_managed(seen.effective) => {
            let automatic = BootImageVersion { rhcos_version: Some(recorded.reached.clone()), ..Default::default() };
            let upgradeable = automatic_verdict(seen, &recorded);
            (SkewEnforcement { mode: SkewMode::Automatic, manual: None, automatic: Some(automatic) }, upgradeable)
        }
        None => {
            let stated = BootImageVersion {
                mode: Some(VersionMode::Rhcos),
                rhcos_version: Some(recorded.installed.clone()),
                ocp_version: None,
            };
            let upgradeable = manual(&stated, seen.minimum);
            (SkewEnforcement { mode: SkewMode::Manual, manual: Some(stated), automatic: None }, upgradeable)
        }
    };
    SkewDecision { status, recorded, upgradeable }
}

/// Whether the age of all images that are the policy's to change is its to know.
fn is_all_managed(effective: &ManagedBootImages) -> bool {
    SetKind::ALL.into_iter().filter(|kind| kind.is_brought_along()).all(|kind| {
        let selection = effective.selection(kind.resource(), kind.api_group());
        selection.is_some_and(|selection| selection.mode == SelectionMode::All)
    })
}

/// The sets whose releases can be compared, the oldest first.
fn comparable<'a>(seen: &SkewInputs<'a>) -> Vec<(Rhel, &'a SetKey, &'a str)> {
    let releases = seen.releases.iter();
    let mut all: Vec<_> =
        releases.filter_map(|(key, release)| Some((rhcos(release)?, key, release.as_str()))).collect();
    all.sort();
    all
}

fn record(seen: &SkewInputs<'_>, recorded: &Recorded) -> Recorded {
    let mut recorded = recorded.clone();
    let Some((_, _, oldest)) = comparable(seen).first().copied() else { return recorded };
    if recorded.installed.is_empty() {
        oldest.clone_into(&mut recorded.installed);
        oldest.clone_into(&mut recorded.reached);
    }
    let decisions =
        || seen.decisions.iter().filter(|(key, _)| key.kind.is_brought_along()).map(|(_, decision)| decision);
    let mut counted = decisions().filter(|decision| match decision {
        SetDecision::NotSelected => false,
        SetDecision::Skip(skip) => skip.reason.is_counted(),
        SetDecision::Done | SetDecision::Patch { .. } | SetDecision::Wait(_) | SetDecision::Degraded(_) => true,
    });
    if decisions().any(|decision| matches!(decision, SetDecision::Skip(skip) if skip.reason.is_counted())) {
        recorded.reached.clone_from(&recorded.installed);
    } else if counted.all(|decision| *decision == SetDecision::Done) {
        oldest.clone_into(&mut recorded.reached);
    }
    recorded
}

fn manual(stated: &BootImageVersion, minimum: MinimumVersions) -> Upgradeable {
    let least = format!("at least {minimum} is needed");
    let (text, is_old) = match (&stated.ocp_version, &stated.rhcos_version) {
        (Some(version), _) => (version, ocp(version).map(|version| version < minimum.ocp)),
        (None, Some(version)) => (version, rhcos(version).map(|version| version < minimum.rhcos)),
        (None, None) => {
            return Upgradeable::No(format!("no version of the boot images is stated, and {least}: state it"));
        }
    };
    match is_old {
        None => Upgradeable::No(format!("the stated version {text:?} cannot be read, and {least}: state another")),
        Some(true) => Upgradeable::No(format!(
            "boot images are stated to be of {text}, and {least}: update them, then state their version in \
             spec.bootImageSkewEnforcement.manual"
        )),
        Some(false) => Upgradeable::Yes(format!("boot images are stated to be of {text}, and {least}")),
    }
}

fn automatic_verdict(seen: &SkewInputs<'_>, recorded: &Recorded) -> Upgradeable {
    let minimum = seen.minimum;
    let sets = comparable(seen);
    let old: Vec<String> = sets
        .iter()
        .take_while(|(version, ..)| *version < minimum.rhcos)
        .take(NAMES_MAX)
        .map(|(_, key, release)| format!("{key} at {release}"))
        .collect();
    let reached = &recorded.reached;
    if !old.is_empty() {
        return Upgradeable::No(format!(
            "boot images are too old, at least {minimum} is needed: {}; let them be managed, or name newer images",
            old.join(", ")
        ));
    }
    if rhcos(reached).is_some_and(|version| version < minimum.rhcos) {
        return Upgradeable::No(format!(
            "not all sets are known to have left {reached}, and at least {minimum} is needed: see which are skipped in \
             status.skippedBootImages, or state the version in spec.bootImageSkewEnforcement.manual"
        ));
    }
    Upgradeable::Yes(format!("boot images are of {reached} or newer, and at least {minimum} is needed"))
}
