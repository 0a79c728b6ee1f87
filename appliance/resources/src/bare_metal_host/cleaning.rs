//! How far a host's disks are cleaned: what its owner says by annotations. Upstream's field
//! `spec.automatedCleaningMode` knows `metadata` and `disabled` alone, and speaks of the target disk.
//!
//! ```json
//! firesteel.dev/cleaning: {"betweenInstallations": {"method": "quick", "scope": "all"},
//!                          "betweenOwners": {"method": "full", "scope": {"named": ["S4EVNX0R"]}},
//!                          "whenUnverified": "hold"}
//! firesteel.dev/override-guard: S4EVNX0R          (or a list: ["S4EVNX0R", "0x5000c50012345678"])
//! ```

use serde::{Deserialize, Serialize};

/// Most disks that one annotation names: as many as a plan has steps.
pub const NAMED_MAX: usize = 64;
/// Longest name: as long as the texts that inspections keep of a disk.
const NAME_BYTES_MAX: usize = 256;

/// How far a disk is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CleaningMethod {
    /// Partition tables and signatures; data stays.
    Metadata,
    /// All data, by the quickest method.
    Quick,
    /// All data, by the method of the best grade.
    Full,
}

impl CleaningMethod {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CleaningScope {
    /// The disk of the operating system.
    Target,
    /// These disks, each by WWN, serial number, or name below `/dev/disk/by-path/`.
    Named(Vec<String>),
    All,
}

/// What the host's owner asks for; what is absent is Firesteel's own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CleaningPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<CleaningMethod>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<CleaningScope>,
}

/// What becomes of a host whose disks were erased by its agent's word, and not all was seen that would prove it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WhenUnverified {
    /// It goes on, and says so.
    #[default]
    Accept,
    /// It waits for a person.
    Hold,
}

impl WhenUnverified {
    #[must_use]
    pub fn is_accept(&self) -> bool {
        *self == Self::Accept
    }
}

/// The owner's policies, by what happens to the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CleaningPolicies {
    /// The next installation is for the same owner.
    pub between_installations: CleaningPolicy,
    /// Another owner is next.
    pub between_owners: CleaningPolicy,
    #[serde(skip_serializing_if = "WhenUnverified::is_accept")]
    pub when_unverified: WhenUnverified,
}

/// What is wrong with an annotation about cleaning.
#[derive(Debug, thiserror::Error)]
pub enum CleaningTextError {
    #[error("must be JSON of cleaning policies: {0}")]
    Policies(serde_json::Error),
    #[error("{at}.scope.named {fault}")]
    Scope { at: &'static str, fault: Box<Self> },
    #[error("must be a disk's name, or a JSON list of them: {0}")]
    Names(serde_json::Error),
    #[error("names no disk")]
    NoDisk,
    #[error("names more than {} disks", NAMED_MAX)]
    TooMany,
    #[error("must name disks by 1 to {} bytes each", NAME_BYTES_MAX)]
    Length,
    #[error("has {0:?}: name each disk by its WWN, serial number or by-path name")]
    All(String),
    #[error("has {0:?}, which may be another disk in the next boot; use its name below /dev/disk/by-path/")]
    KernelName(String),
    #[error("names {0:?} twice")]
    Twice(String),
}

/// Reads the policies.
///
/// # Errors
/// Is no JSON of policies, or names disks wrongly.
pub fn policies(text: &str) -> Result<CleaningPolicies, CleaningTextError> {
    let read: CleaningPolicies = serde_json::from_str(text).map_err(CleaningTextError::Policies)?;
    for (at, policy) in [("betweenInstallations", &read.between_installations), ("betweenOwners", &read.between_owners)]
    {
        if let Some(CleaningScope::Named(names)) = &policy.scope {
            check_names(names).map_err(|fault| CleaningTextError::Scope { at, fault: Box::new(fault) })?;
        }
    }
    Ok(read)
}

/// The disks whose guards the owner overrides, each by a name of its own.
///
/// # Errors
/// Names no disk, or names disks wrongly.
pub fn overridden(text: &str) -> Result<Vec<String>, CleaningTextError> {
    let text = text.trim();
    let names: Vec<String> = if text.starts_with('[') {
        serde_json::from_str(text).map_err(CleaningTextError::Names)?
    } else {
        vec![text.to_owned()]
    };
    check_names(&names)?;
    Ok(names)
}

/// Checks that disks are named one by one: a word for all of them would be taken for a name that none has.
fn check_names(names: &[String]) -> Result<(), CleaningTextError> {
    if names.is_empty() {
        return Err(CleaningTextError::NoDisk);
    }
    if names.len() > NAMED_MAX {
        return Err(CleaningTextError::TooMany);
    }
    for (index, name) in names.iter().enumerate() {
        let lower = name.trim().to_ascii_lowercase();
        if lower.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(CleaningTextError::Length);
        }
        if matches!(lower.as_str(), "all" | "any" | "*" | "true" | "yes") {
            return Err(CleaningTextError::All(name.clone()));
        }
        if lower.starts_with("/dev/") && !lower.starts_with("/dev/disk/by-path/") {
            return Err(CleaningTextError::KernelName(name.clone()));
        }
        if names[..index].iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(CleaningTextError::Twice(name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn policies_are_strict_json() {
        let read = policies(r#"{"betweenOwners":{"method":"quick","scope":{"named":["S1","0x5"]}}}"#).unwrap();
        assert_eq!(read.between_installations, CleaningPolicy::default());
        assert_eq!(read.between_owners.scope, Some(CleaningScope::Named(vec!["S1".into(), "0x5".into()])));
        assert_eq!(policies("{}").unwrap(), CleaningPolicies::default());
        let holds = |text: &str| policies(text).unwrap().when_unverified == WhenUnverified::Hold;
        assert!(holds(r#"{"whenUnverified":"hold"}"#) && !holds(r#"{"whenUnverified":"accept"}"#));
        for bad in [
            "",
            "full",
            r#"{"method":"full"}"#,
            r#"{"betweenOwners":{"method":"none"}}"#,
            r#"{"betweenOwners":{"scope":{"named":[]}}}"#,
            r#"{"betweenOwners":{"scope":{"named":["/dev/sda"]}}}"#,
            r#"{"betweenOwners":{"scope":{"named":["a","A"]}}}"#,
            r#"{"betweenOwners":{"when":"now"}}"#,
            r#"{"betweenOwners":{"whenUnverified":"hold"}}"#,
            r#"{"whenUnverified":"never"}"#,
        ] {
            assert!(policies(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_override_names_disks_and_never_all() {
        assert_eq!(overridden(" S1 ").unwrap(), ["S1"]);
        assert_eq!(overridden(r#"["S1","/dev/disk/by-path/x"]"#).unwrap().len(), 2);
        for bad in ["", "all", "ALL", "*", "[]", r#"["all"]"#, r#"["S1",""]"#, "[1]", "/dev/sda", "true"] {
            assert!(overridden(bad).is_err(), "{bad}");
        }
        let many: Vec<String> = (0..=NAMED_MAX).map(|number| number.to_string()).collect();
        assert!(overridden(&serde_json::to_string(&many).unwrap()).is_err());
    }
}
