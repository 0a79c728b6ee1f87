//! The reasons of events about hosts, as `kubectl get events` shows them.

use std::fmt;

/// Lists the reasons once: each with the word that the event has.
macro_rules! event_reasons {
    ($($reason:ident = $word:literal,)*) => {
        /// Why an event about a host is written. The words that upstream has are upstream's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventReason {
            $(#[doc = concat!("`", $word, "`")] $reason,)*
        }

        impl EventReason {
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// Gives the word that the event has.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$reason => $word,)*
                }
            }
        }
    };
}

event_reasons! {
    Attached = "Attached",
    BmcAccessValidated = "BMCAccessValidated",
    BmcCredentialError = "BMCCredentialError",
    BootOverrideLeft = "BootOverrideLeft",
    ClaimNotResolved = "ClaimNotResolved",
    ClaimResolved = "ClaimResolved",
    CleaningComplete = "CleaningComplete",
    CleaningRelaxed = "CleaningRelaxed",
    CleaningStarted = "CleaningStarted",
    CleaningStopped = "CleaningStopped",
    ClockDoubtful = "ClockDoubtful",
    DeprovisioningComplete = "DeprovisioningComplete",
    DeprovisioningGaveUp = "DeprovisioningGaveUp",
    DeprovisioningStarted = "DeprovisioningStarted",
    DestructionLocked = "DestructionLocked",
    DestructionStopped = "DestructionStopped",
    DestructionUnlocked = "DestructionUnlocked",
    Detached = "Detached",
    Discovered = "Discovered",
    DiskUnfrozen = "DiskUnfrozen",
    DiskNotUnfrozen = "DiskNotUnfrozen",
    DiskSelected = "DiskSelected",
    FirstBootSilent = "FirstBootSilent",
    FleetHalted = "FleetHalted",
    GuardNotOverridden = "GuardNotOverridden",
    GuardOverridden = "GuardOverridden",
    HardwareChanged = "HardwareChanged",
    HostFrozen = "HostFrozen",
    HostUnfrozen = "HostUnfrozen",
    IdentityAccepted = "IdentityAccepted",
    IdentityNotAccepted = "IdentityNotAccepted",
    InspectionComplete = "InspectionComplete",
    InspectionError = "InspectionError",
    InspectionSkipped = "InspectionSkipped",
    InspectionStarted = "InspectionStarted",
    IntruderNamed = "IntruderNamed",
    InvalidAnnotationValue = "InvalidAnnotationValue",
    Locked = "Locked",
    NeedsAgent = "NeedsAgent",
    NetBoot = "NetBoot",
    NetworkBootSilent = "NetworkBootSilent",
    NetworkBootStalled = "NetworkBootStalled",
    NotCleaned = "NotCleaned",
    OwnerChanged = "OwnerChanged",
    PathRebound = "PathRebound",
    PowerManagementError = "PowerManagementError",
    PowerOffGaveUp = "PowerOffGaveUp",
    PreparationError = "PreparationError",
    ProvisionedRegistrationError = "ProvisionedRegistrationError",
    ProvisioningComplete = "ProvisioningComplete",
    ProvisioningError = "ProvisioningError",
    ProvisioningStarted = "ProvisioningStarted",
    Rebooted = "Rebooted",
    RebootIgnored = "RebootIgnored",
    RebootNotNeeded = "RebootNotNeeded",
    RebootRefused = "RebootRefused",
    RebootRequested = "RebootRequested",
    Registered = "Registered",
    RegistrationError = "RegistrationError",
    Released = "Released",
    RemoveAnnotation = "RemoveAnnotation",
    ResetAccepted = "ResetAccepted",
    RetryRefused = "RetryRefused",
    SecondClaimant = "SecondClaimant",
    ServicingError = "ServicingError",
    StatusRestored = "StatusRestored",
    StoreRestored = "StoreRestored",
    SwitchedOff = "SwitchedOff",
    Uncleaned = "Uncleaned",
    UpdateHardwareDetails = "UpdateHardwareDetails",
    WipeAccepted = "WipeAccepted",
    WipeNotAccepted = "WipeNotAccepted",
    WipeUnverified = "WipeUnverified",
    WrongBootMac = "WrongBootMAC",
}

impl fmt::Display for EventReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Compares it with a word, for those who read events.
impl PartialEq<str> for EventReason {
    fn eq(&self, word: &str) -> bool {
        self.word() == word
    }
}

impl PartialEq<&str> for EventReason {
    fn eq(&self, word: &&str) -> bool {
        self.word() == *word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_one_word_and_has_it_alone() {
        let words: Vec<&str> = EventReason::ALL.iter().map(|reason| reason.word()).collect();
        assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric())));
        let mut once = words.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), words.len());
    }
}
