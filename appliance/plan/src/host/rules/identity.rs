//! Whether a machine is the one that a host is known as. Pure.
//!
//! The boot token decides which host an agent speaks for. SMBIOS says when another machine has come to use the host's
//! MAC: its UUID and serial number are compared with what was usable at the last accepted inspection. What makers leave
//! in by the thousand tells nothing; a UUID that two hosts have is identity for neither; some firmware swaps the bytes
//! of the first three fields (RFC 9562 section 4 beside SMBIOS 2.6), which is the same UUID. A machine that says none
//! where one is known is another one: firmware does not lose it.

use std::fmt;

use firesteel_resources::HardwareRecord;
use firesteel_resources::host_journal::{ClaimRecord, Claimant, RefusedIdentity};
use jiff::Timestamp;

use crate::host::model::{HostInputs, HostMemory, KnownIdentity, usable_serial, usable_uuid};

/// Says what a host is known as: by the last accepted inspection, or by a person since. Journals of older versions
/// remember neither, and have the inspection. An attempt that two machines claimed may have inspected the wrong one.
#[must_use]
pub fn known(
    remembered: Option<&KnownIdentity>,
    hardware: Option<&HardwareRecord>,
    claim: Option<&ClaimRecord>,
) -> KnownIdentity {
    let is_doubtful = |record: &HardwareRecord| {
        let claim = claim.filter(|claim| claim.attempt == record.attempt);
        // An inspection of that attempt came after its agent was bound, whatever a clock said meanwhile.
        claim.is_some_and(|claim| is_own_word(&claim.first, record.inspected_at.max(claim.first.first_at)))
    };
    let of =
        |record: &HardwareRecord| KnownIdentity::of(&record.system.uuid, &record.system.serial, record.inspected_at);
    let inspected = || hardware.filter(|record| !is_doubtful(record)).map(of);
    remembered.cloned().or_else(inspected).unwrap_or_default()
}

/// Says whether an identity that was accepted then may be the word alone of the agent that a claimed attempt is bound
/// to: that agent may be another machine's, unless it was compared with what was known before.
#[must_use]
pub fn is_own_word(bound: &Claimant, accepted_at: Timestamp) -> bool {
    !bound.is_compared && accepted_at >= bound.first_at
}

/// Finds out whether a machine that was refused in this attempt is still another one than the host. It asks again as
/// long as it is there; a retry by a person forgets it.
#[must_use]
pub fn change(memory: &HostMemory, seen: &HostInputs) -> Option<IdentityChange> {
    let is_of_this = |refused: &&RefusedIdentity| {
        refused.attempt == memory.attempt && memory.retried_at.is_none_or(|retried_at| refused.at > retried_at)
    };
    let refused = seen.refused_identity.as_ref().filter(is_of_this)?;
    let known = known(memory.identity.as_ref(), seen.hardware.as_ref(), seen.claim.as_ref());
    compare(&known, &refused.uuid, &refused.serial, seen.shared_uuid.is_some()).err()
}

/// Whether what a machine says can be compared with what its host is known as: both say a usable UUID, which no other
/// host has, or both a usable serial number.
#[must_use]
pub fn is_comparable(known: &KnownIdentity, uuid: &str, serial: &str, is_shared: bool) -> bool {
    let by_uuid = !known.uuid.is_empty() && !is_shared && usable_uuid(uuid).is_some();
    by_uuid || (!known.serial.is_empty() && usable_serial(serial).is_some())
}

/// Another machine than the one that is known, with both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityChange {
    pub known: String,
    pub said: String,
}

impl fmt::Display for IdentityChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a machine with {} boots as this host, which was inspected with {}: it waits and gets nothing. If the host's \
             board or firmware was changed, run `firesteel accept-identity HOST`; if not, find that machine",
            self.said, self.known
        )
    }
}

/// Swaps the bytes of the first three fields: some firmware takes them for big-endian, some for little-endian.
fn swapped(uuid: &str) -> String {
    let reversed = |range: std::ops::Range<usize>| -> String {
        let digits: Vec<char> = uuid.get(range).unwrap_or_default().chars().collect();
        digits.chunks(2).rev().flatten().collect()
    };
    let rest = uuid.get(18..).unwrap_or_default();
    format!("{}-{}-{}{rest}", reversed(0..8), reversed(9..13), reversed(14..18))
}

/// Returns one spelling of a usable UUID, whatever order the bytes of its first three fields have.
#[must_use]
pub fn canonical_uuid(uuid: &str) -> Option<String> {
    let uuid = usable_uuid(uuid)?;
    let other = swapped(&uuid);
    Some(uuid.min(other))
}

/// Compares what a machine says with what its host is known as. `is_shared`: another host is known by the same UUID.
///
/// # Errors
/// When it is another machine, with both identities in words.
pub fn compare(known: &KnownIdentity, uuid: &str, serial: &str, is_shared: bool) -> Result<(), IdentityChange> {
    let (said_uuid, said_serial) = (usable_uuid(uuid), usable_serial(serial));
    let uuid_differs = !known.uuid.is_empty()
        && !is_shared
        && !said_uuid.as_ref().is_some_and(|said| *said == known.uuid || swapped(said) == known.uuid);
    let serial_differs =
        !known.serial.is_empty() && said_serial.as_ref().is_some_and(|said| !said.eq_ignore_ascii_case(&known.serial));
    if !uuid_differs && !serial_differs {
        return Ok(());
    }
    Err(IdentityChange {
        known: known.to_string(),
        said: KnownIdentity::of(uuid, serial, known.accepted_at).to_string(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const A: &str = "4c4c4544-0046-3310-8051-b4c04f564432";
    const SWAPPED: &str = "44454c4c-4600-1033-8051-b4c04f564432";
    const B: &str = "4c4c4544-0046-3310-8051-b4c04f564433";
    const ZERO: &str = "00000000-0000-0000-0000-000000000000";

    fn known(uuid: &str, serial: &str) -> KnownIdentity {
        KnownIdentity::of(uuid, serial, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn another_machine_is_told_by_its_uuid_and_by_its_serial_number() {
        for (known_uuid, known_serial, uuid, serial, is_same) in [
            (A, "S1", A, "S1", true),
            (A, "S1", &A.to_uppercase(), " s1 ", true),
            (A, "S1", SWAPPED, "S1", true),
            (SWAPPED, "S1", A, "S1", true),
            (A, "S1", B, "S1", false),
            (A, "S1", A, "S2", false),
            // Firmware does not lose it.
            (A, "", "", "", false),
            (A, "", ZERO, "", false),
            (A, "", "not a uuid", "", false),
            (A, "S1", A, "", true),
            (A, "S1", A, "To Be Filled By O.E.M.", true),
            // Never known is no contradiction.
            ("", "", B, "S2", true),
            (ZERO, "Default string", B, "S2", true),
            ("03000200-0400-0500-0006-000700080009", "", B, "", true),
            ("", "S1", B, "S2", false),
        ] {
            let compared = compare(&known(known_uuid, known_serial), uuid, serial, false);
            assert_eq!(compared.is_ok(), is_same, "{known_uuid} {known_serial} and {uuid} {serial}");
        }
    }

    #[test]
    fn a_uuid_of_two_hosts_is_identity_for_neither_and_a_serial_number_still_is() {
        assert_eq!(compare(&known(A, "S1"), B, "S1", true), Ok(()));
        assert_eq!(compare(&known(A, ""), "", "", true), Ok(()));
        assert!(compare(&known(A, "S1"), A, "S2", true).is_err());
    }

    #[test]
    fn a_boot_without_a_serial_number_forgets_none() {
        let renewed = known(A, "S1").renewed(A, "", Timestamp::UNIX_EPOCH);
        assert_eq!(renewed, known(A, "S1"));
        assert!(compare(&renewed, A, "S2", false).is_err());
        assert_eq!(known("", "").renewed(A, "S1", Timestamp::UNIX_EPOCH), known(A, "S1"));
    }

    /// One rule for what is remembered and for what an inspection says.
    #[test]
    fn an_agent_that_was_not_compared_is_not_believed_about_itself() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let claim = |is_compared| ClaimRecord {
            attempt: 4,
            first: Claimant { first_at: at(100), is_compared, ..Claimant::default() },
            others: Vec::new(),
        };
        let mut record = HardwareRecord { attempt: 4, inspected_at: at(110), ..HardwareRecord::default() };
        record.system.uuid = A.to_owned();
        let uuid = |record: &HardwareRecord, is_compared| {
            crate::host::identity::known(None, Some(record), Some(&claim(is_compared))).uuid
        };
        assert_eq!((uuid(&record, false).as_str(), uuid(&record, true).as_str()), ("", A));
        record.inspected_at = at(90);
        assert_eq!(uuid(&record, false), "", "the clock was set back between binding and inspection");
        record.attempt = 3;
        assert_eq!(uuid(&record, false), A, "an inspection of another attempt");
        let first = claim(false).first;
        assert!(is_own_word(&first, at(100)) && !is_own_word(&first, at(99)), "what was known before is no word of it");
        assert!(!is_own_word(&claim(true).first, at(100)));
    }

    #[test]
    fn what_only_one_side_says_is_not_compared() {
        for (known_as, uuid, serial, is_shared, is_so) in [
            (known(A, "S1"), A, "S1", false, true),
            (known(A, ""), A, "", false, true),
            (known(A, ""), A, "", true, false),
            (known(A, "S1"), A, "S1", true, true),
            (known("", "S1"), A, "", false, false),
            (known("", ""), A, "S1", false, false),
        ] {
            assert_eq!(is_comparable(&known_as, uuid, serial, is_shared), is_so, "{known_as} {uuid} {serial}");
        }
    }

    #[test]
    fn both_are_named_with_the_way_out() {
        let text = compare(&known(A, "S1"), ZERO, "S2", false).unwrap_err().to_string();
        for part in [A, "serial number S1", "no usable SMBIOS UUID", "serial number S2", "accept-identity"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_makers_leave_in_tells_nothing() {
        for uuid in [ZERO, "ffffffff-ffff-ffff-ffff-ffffffffffff", "11111111-1111-1111-1111-111111111111", "", "x"] {
            assert_eq!(usable_uuid(uuid), None, "{uuid}");
        }
        for serial in ["", "0", "0000", "XXXXXXXX", "None", "System Serial Number", "........"] {
            assert_eq!(usable_serial(serial), None, "{serial}");
        }
        assert_eq!(usable_serial(" CZ3456 ").as_deref(), Some("CZ3456"));
        assert_eq!(swapped(&swapped(A)), A);
        assert_eq!(canonical_uuid(A), canonical_uuid(&SWAPPED.to_uppercase()));
        assert_ne!(canonical_uuid(A), canonical_uuid(B));
        assert_eq!(canonical_uuid(ZERO), None);
    }

    /// A refusal counts in its attempt, and until a person asks to try again.
    #[test]
    fn a_refused_machine_counts_in_its_attempt_until_a_retry() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (attempt, retried_at, is_so) in [
            (3, None, true),
            (2, None, false),
            (4, None, false),
            (3, Some(99), true),
            (3, Some(100), false),
            (3, Some(101), false),
            (2, Some(99), false),
        ] {
            let identity = Some(known(A, "S1"));
            let retried_at = retried_at.map(at);
            let memory = HostMemory { attempt: 3, identity, retried_at, ..HostMemory::default() };
            let mut seen = HostInputs::new(Default::default(), memory, at(0), 1);
            let refused = RefusedIdentity { uuid: B.into(), attempt, at: at(100), ..RefusedIdentity::default() };
            seen.refused_identity = Some(refused);
            let change = change(&seen.memory, &seen);
            assert_eq!(change.is_some(), is_so, "{attempt} {retried_at:?}");
            assert!(change.is_none_or(|change| change.said.contains(B) && change.known.contains(A)));
        }
    }
}
