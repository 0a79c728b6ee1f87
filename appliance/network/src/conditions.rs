//! The conditions of the Provisioning object and of the ClusterOperator `baremetal`: five, always there, in upstream's
//! combinations (S0-4).

use firesteel_resources::Condition;

/// The reason of a condition that is as it is expected to be, in upstream's word.
const AS_EXPECTED: &str = "AsExpected";

/// How the network is, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncReason {
    /// The capability is switched off.
    UnsupportedPlatform,
    /// There is no Provisioning object.
    WaitingForProvisioningCr,
    /// Services start or stop.
    SyncingResources,
    /// All services run as the object asks for.
    DeployComplete,
    /// The object goes, and services stop.
    ResourceNotFound,
    /// The object cannot be served. What ran before runs.
    InvalidConfiguration,
    /// A service does not come up.
    DeployTimedOut,
    /// A service keeps ending.
    DeploymentCrashLooping,
}

/// The statuses of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConditionRow {
    available: bool,
    progressing: bool,
    degraded: bool,
    disabled: bool,
}

impl SyncReason {
    pub const ALL: [Self; 8] = [
        Self::UnsupportedPlatform,
        Self::WaitingForProvisioningCr,
        Self::SyncingResources,
        Self::DeployComplete,
        Self::ResourceNotFound,
        Self::InvalidConfiguration,
        Self::DeployTimedOut,
        Self::DeploymentCrashLooping,
    ];

    /// Returns upstream's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::UnsupportedPlatform => "UnsupportedPlatform",
            Self::WaitingForProvisioningCr => "WaitingForProvisioningCR",
            Self::SyncingResources => "SyncingResources",
            Self::DeployComplete => "DeployComplete",
            Self::ResourceNotFound => "ResourceNotFound",
            Self::InvalidConfiguration => "InvalidConfiguration",
            Self::DeployTimedOut => "DeployTimedOut",
            Self::DeploymentCrashLooping => "DeploymentCrashLooping",
        }
    }

    fn row(self) -> ConditionRow {
        let row =
            |available, progressing, degraded, disabled| ConditionRow { available, progressing, degraded, disabled };
        match self {
            Self::UnsupportedPlatform => row(true, false, false, true),
            Self::WaitingForProvisioningCr | Self::DeployComplete => row(true, false, false, false),
            Self::SyncingResources => row(true, true, false, false),
            Self::ResourceNotFound => row(false, true, false, false),
            Self::InvalidConfiguration | Self::DeployTimedOut => row(true, true, true, false),
            Self::DeploymentCrashLooping => row(false, false, true, false),
        }
    }
}

/// Returns the five conditions of a reason. A condition that the reason is about has its word and `message`; the others
/// are as expected. `upgrade_block` says why the appliance must not be upgraded now.
#[must_use]
pub fn sync_conditions(reason: SyncReason, message: &str, upgrade_block: Option<&str>) -> [Condition; 5] {
    let ConditionRow { available, progressing, degraded, disabled } = reason.row();
    let condition = |type_: &str, status: bool, has_reason: bool| {
        let (word, text) = if has_reason { (reason.word(), message) } else { (AS_EXPECTED, "") };
        Condition::new(type_, status, word, text)
    };
    // What works although something else is wrong is as expected: the reason belongs to what is wrong.
    let is_plain = !progressing && !degraded && !disabled;
    let upgradeable = match upgrade_block {
        None => Condition::new("Upgradeable", true, AS_EXPECTED, ""),
        Some(why) => Condition::new("Upgradeable", false, "UpgradeBlocked", why),
    };
    [
        condition("Available", available, is_plain || !available),
        condition("Progressing", progressing, progressing),
        condition("Degraded", degraded, degraded),
        upgradeable,
        condition("Disabled", disabled, disabled),
    ]
}

#[cfg(test)]
mod tests {
    use firesteel_resources::condition::ConditionStatus;

    use super::*;

    /// Upstream's table: Available, Progressing, Degraded, Disabled.
    const TABLE: [(&str, &str); 8] = [
        ("UnsupportedPlatform", "TFFT"),
        ("WaitingForProvisioningCR", "TFFF"),
        ("SyncingResources", "TTFF"),
        ("DeployComplete", "TFFF"),
        ("ResourceNotFound", "FTFF"),
        ("InvalidConfiguration", "TTTF"),
        ("DeployTimedOut", "TTTF"),
        ("DeploymentCrashLooping", "FFTF"),
    ];

    #[test]
    fn each_reason_has_the_statuses_of_the_table() {
        for (reason, (word, statuses)) in SyncReason::ALL.into_iter().zip(TABLE) {
            let conditions = sync_conditions(reason, "why", None);
            let types = conditions.each_ref().map(|condition| condition.type_.as_str());
            assert_eq!(types, ["Available", "Progressing", "Degraded", "Upgradeable", "Disabled"]);
            let letter = |type_: &str| {
                let condition = conditions.iter().find(|condition| condition.type_ == type_);
                if condition.is_some_and(|condition| condition.status == ConditionStatus::True) { 'T' } else { 'F' }
            };
            let found: String = ["Available", "Progressing", "Degraded", "Disabled"].map(letter).iter().collect();
            assert_eq!((reason.word(), found.as_str()), (word, statuses));
            assert!(
                conditions.iter().any(|condition| condition.reason == word && condition.message == "why"),
                "{word}"
            );
            assert_eq!(letter("Upgradeable"), 'T');
        }
    }

    #[test]
    fn an_upgrade_that_is_blocked_says_why() {
        let conditions = sync_conditions(SyncReason::DeployComplete, "", Some("old boot images"));
        assert_eq!(conditions[3].message, "old boot images");
        assert_eq!(conditions[3].status, ConditionStatus::False);
    }
}
