//! Which methods erase a drive, in which order, and why others are left out. Pure.
//!
//! Grades follow NIST SP 800-88 and, where its tables are older than a command, IEEE 2883-2022; where the
//! two differ the lower grade is given. So NVMe Format is *clear* although SP 800-88r1 table A-8 lets it
//! pass for purge: nothing obliges a drive to erase what no namespace addresses.
//!
//! A discard is no method: it hides blocks and erases none, even where a drive promises that they read as zeros.

use std::{collections::BTreeSet, fmt};

use firesteel_wire::erasure::{ErasurePolicy, Grade, LeftOut};

/// One way to erase. The drive's kind says which command that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErasureMethod {
    /// The drive's media key is replaced: NVMe and SCSI sanitize, ATA crypto scramble.
    SanitizeCrypto,
    /// All blocks are erased, spare ones too: NVMe, ATA and SCSI sanitize.
    SanitizeBlock,
    /// All blocks are overwritten by the drive, spare ones too: NVMe, ATA and SCSI sanitize.
    SanitizeOverwrite,
    /// NVMe Format with secure erase setting 2.
    FormatCrypto,
    /// NVMe Format with secure erase setting 1.
    FormatUserData,
    /// ATA SECURITY ERASE UNIT in enhanced mode.
    SecureEraseEnhanced,
    /// ATA SECURITY ERASE UNIT in normal mode.
    SecureErase,
    /// The kernel's zeroing, by a command of the drive that leaves the blocks allocated.
    WriteZeroes,
    /// Zeros written to every block.
    Overwrite,
    /// Partition tables and signatures alone.
    Metadata,
}

impl ErasureMethod {
    pub const ALL: [Self; 10] = [
        Self::SanitizeCrypto,
        Self::SanitizeBlock,
        Self::SanitizeOverwrite,
        Self::FormatCrypto,
        Self::FormatUserData,
        Self::SecureEraseEnhanced,
        Self::SecureErase,
        Self::WriteZeroes,
        Self::Overwrite,
        Self::Metadata,
    ];

    /// The name in receipts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SanitizeCrypto => "sanitize-crypto",
            Self::SanitizeBlock => "sanitize-block",
            Self::SanitizeOverwrite => "sanitize-overwrite",
            Self::FormatCrypto => "format-crypto",
            Self::FormatUserData => "format-user-data",
            Self::SecureEraseEnhanced => "secure-erase-enhanced",
            Self::SecureErase => "secure-erase",
            Self::WriteZeroes => "write-zeroes",
            Self::Overwrite => "overwrite",
            Self::Metadata => "metadata",
        }
    }

    #[must_use]
    pub fn is_sanitize(self) -> bool {
        matches!(self, Self::SanitizeCrypto | Self::SanitizeBlock | Self::SanitizeOverwrite)
    }

    /// Takes seconds or minutes on a disk of any size, so that doing it twice costs little.
    #[must_use]
    pub fn is_quick(self) -> bool {
        matches!(self, Self::SanitizeCrypto | Self::SanitizeBlock | Self::FormatCrypto | Self::FormatUserData)
    }

    /// Whether every block must read as zeros afterwards; else it must only differ from before.
    #[must_use]
    pub fn leaves_zeros(self) -> bool {
        matches!(self, Self::WriteZeroes | Self::Overwrite)
    }

    /// The best grade that the method can earn on a drive that does what it says.
    #[must_use]
    pub fn grade(self, rotational: bool) -> Grade {
        match self {
            Self::SanitizeCrypto | Self::SanitizeBlock | Self::SanitizeOverwrite => Grade::Purge,
            // SP 800-88r1 table A-5 (magnetic): enhanced is purge; table A-8 (flash): clear.
            Self::SecureEraseEnhanced if rotational => Grade::Purge,
            Self::SecureEraseEnhanced
            | Self::SecureErase
            | Self::FormatCrypto
            | Self::FormatUserData
            | Self::WriteZeroes
            | Self::Overwrite => Grade::Clear,
            Self::Metadata => Grade::None,
        }
    }

    /// Expected time, smaller is quicker: seconds, minutes, hours for the whole disk.
    fn slowness(self) -> u8 {
        match self {
            Self::Metadata => 0,
            Self::SanitizeCrypto => 1,
            Self::FormatCrypto => 2,
            Self::SanitizeBlock => 3,
            Self::FormatUserData => 4,
            Self::SecureEraseEnhanced => 5,
            Self::SecureErase => 6,
            Self::WriteZeroes => 7,
            Self::SanitizeOverwrite => 8,
            Self::Overwrite => 9,
        }
    }
}

impl fmt::Display for ErasureMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a command reaches beyond the disk that it is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EraseReach {
    /// This disk alone, or one namespace after the other.
    Disk,
    /// These NVMe namespaces.
    Namespaces(BTreeSet<u32>),
    /// More than the drive reports; the reason in words.
    Unknown(String),
}

/// One method that the drive says it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodOffer {
    pub method: ErasureMethod,
    pub reach: EraseReach,
    /// Why it cannot be used now (frozen, locked, …), with what to do.
    pub barred: Option<String>,
}

/// What a drive can do and how it stands, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    pub offers: Vec<MethodOffer>,
    pub rotational: bool,
    /// A sanitize that another program began is still running.
    pub busy: bool,
    /// Areas that no command of ours reads back, in words: `4096 blocks behind a host protected area`.
    pub hidden: Vec<String>,
    /// Why nothing may be written or erased at all, such as a lock with a foreign password.
    pub closed: Option<String>,
}

/// What the drive said when one of its methods was not wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MethodLadder {
    /// The methods in the order in which they are tried.
    pub rungs: Vec<ErasureMethod>,
    pub left_out: Vec<LeftOut>,
}

/// The methods for this drive, the best for the policy first. `planned` are the NVMe namespaces that
/// the plan names; other drives have none.
#[must_use]
pub fn build(abilities: &Abilities, planned: &BTreeSet<u32>, policy: ErasurePolicy) -> MethodLadder {
    let mut ladder = MethodLadder::default();
    for method in ErasureMethod::ALL {
        match why_left_out(abilities, planned, policy, method) {
            None => ladder.rungs.push(method),
            Some(why) => ladder.left_out.push(LeftOut { method: method.name().to_owned(), why }),
        }
    }
    let grade = |method: ErasureMethod| method.grade(abilities.rotational);
    ladder.rungs.sort_by_key(|&method| match policy {
        ErasurePolicy::Full => (std::cmp::Reverse(grade(method)), method.slowness()),
        ErasurePolicy::Metadata | ErasurePolicy::Quick => (std::cmp::Reverse(Grade::None), method.slowness()),
    });
    ladder
}

fn why_left_out(
    abilities: &Abilities,
    planned: &BTreeSet<u32>,
    policy: ErasurePolicy,
    method: ErasureMethod,
) -> Option<String> {
    if abilities.closed.is_some() {
        return abilities.closed.clone();
    }
    match (policy, method) {
        (ErasurePolicy::Metadata, ErasureMethod::Metadata) => return None,
        (ErasurePolicy::Metadata, _) => return Some("the policy asks for the metadata alone".to_owned()),
        (ErasurePolicy::Quick | ErasurePolicy::Full, ErasureMethod::Metadata) => {
            return Some("clearing metadata leaves the data".to_owned());
        }
        (ErasurePolicy::Quick | ErasurePolicy::Full, ErasureMethod::Overwrite) => return None,
        (ErasurePolicy::Quick | ErasurePolicy::Full, _) => {}
    }
    let Some(offer) = abilities.offers.iter().find(|offer| offer.method == method) else {
        return Some("the drive does not offer it".to_owned());
    };
    match &offer.reach {
        EraseReach::Disk => {}
        EraseReach::Unknown(why) => return Some(why.clone()),
        EraseReach::Namespaces(reached) => {
            let others: Vec<String> = reached.difference(planned).map(ToString::to_string).collect();
            if !others.is_empty() {
                return Some(format!("it reaches namespaces that the plan does not name: {}", others.join(", ")));
            }
        }
    }
    offer.barred.clone()
}

/// Lists what a method does not reach, or claims to reach where nothing can be read back. The texts go into the
/// receipt.
#[must_use]
pub fn not_reached(method: ErasureMethod, abilities: &Abilities) -> Vec<String> {
    let grade = method.grade(abilities.rotational);
    let spare = match grade {
        Grade::Purge => "spare and remapped blocks: erased by the drive's own word, they cannot be read back",
        Grade::Clear | Grade::None if abilities.rotational => "remapped sectors are not reached",
        Grade::Clear | Grade::None => "spare and remapped flash blocks are not reached",
    };
    let hidden = abilities.hidden.iter().map(|area| match grade {
        Grade::Purge => format!("{area}: not read back"),
        Grade::Clear | Grade::None => format!("{area}: not reached"),
    });
    let data = (method == ErasureMethod::Metadata).then(|| "data outside of tables and signatures is left".to_owned());
    hidden.chain([spare.to_owned()]).chain(data).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offer(method: ErasureMethod) -> MethodOffer {
        MethodOffer { method, reach: EraseReach::Disk, barred: None }
    }

    fn all() -> Abilities {
        Abilities { offers: ErasureMethod::ALL.into_iter().map(offer).collect(), ..Abilities::default() }
    }

    #[test]
    fn full_goes_by_grade_and_quick_by_time() {
        use ErasureMethod::{
            FormatCrypto, FormatUserData, Overwrite, SanitizeBlock, SanitizeCrypto, SanitizeOverwrite, SecureErase,
            SecureEraseEnhanced, WriteZeroes,
        };
        let rungs = |policy| build(&all(), &BTreeSet::new(), policy).rungs;
        let full = [
            SanitizeCrypto,
            SanitizeBlock,
            SanitizeOverwrite,
            FormatCrypto,
            FormatUserData,
            SecureEraseEnhanced,
            SecureErase,
            WriteZeroes,
            Overwrite,
        ];
        assert_eq!(rungs(ErasurePolicy::Full), full);
        assert_eq!(rungs(ErasurePolicy::Quick)[..4], [SanitizeCrypto, FormatCrypto, SanitizeBlock, FormatUserData]);
        for policy in [ErasurePolicy::Quick, ErasurePolicy::Full] {
            let graded = |rotational| rungs(policy).iter().all(|rung| rung.grade(rotational) >= Grade::Clear);
            assert!(graded(true) && graded(false), "what earns no grade is no proof, so it would be asked for again");
        }
        assert_eq!(rungs(ErasurePolicy::Metadata), [ErasureMethod::Metadata]);
        let magnetic = Abilities { rotational: true, ..all() };
        let rungs = build(&magnetic, &BTreeSet::new(), ErasurePolicy::Full).rungs;
        assert_eq!(rungs[2], SecureEraseEnhanced, "enhanced is purge on magnetic disks: before the overwrite");
    }

    #[test]
    fn a_method_that_reaches_more_than_the_plan_is_left_out_with_the_names() {
        let mut abilities = all();
        abilities.offers[0].reach = EraseReach::Namespaces(BTreeSet::from([1, 2, 7]));
        let ladder = build(&abilities, &BTreeSet::from([1]), ErasurePolicy::Full);
        assert!(!ladder.rungs.contains(&ErasureMethod::SanitizeCrypto));
        let left = ladder.left_out.iter().find(|left| left.method == "sanitize-crypto").map(|left| left.why.clone());
        assert_eq!(left.as_deref(), Some("it reaches namespaces that the plan does not name: 2, 7"));
        let ladder = build(&abilities, &BTreeSet::from([1, 2, 7]), ErasurePolicy::Full);
        assert_eq!(ladder.rungs[0], ErasureMethod::SanitizeCrypto);
    }

    #[test]
    fn a_closed_drive_has_no_rung_and_a_plain_one_has_the_overwrite() {
        let closed = Abilities { closed: Some("locked".into()), ..all() };
        assert!(build(&closed, &BTreeSet::new(), ErasurePolicy::Full).rungs.is_empty());
        let plain = build(&Abilities::default(), &BTreeSet::new(), ErasurePolicy::Quick);
        assert_eq!(plain.rungs, [ErasureMethod::Overwrite]);
        assert_eq!(plain.left_out.len(), ErasureMethod::ALL.len() - 1, "each other one has its reason");
    }

    #[test]
    fn what_was_not_reached_is_said() {
        let abilities = Abilities { hidden: vec!["8 blocks behind X".into()], ..Abilities::default() };
        let left = not_reached(ErasureMethod::Overwrite, &abilities);
        assert_eq!(left, ["8 blocks behind X: not reached", "spare and remapped flash blocks are not reached"]);
        assert!(not_reached(ErasureMethod::SanitizeBlock, &abilities)[0].ends_with("not read back"));
    }

    proptest! {
        /// Every method is either a rung or left out with a reason; nothing barred is a rung.
        #[test]
        fn nothing_is_forgotten(
            rows in prop::collection::vec((0_usize..ErasureMethod::ALL.len(), any::<bool>(), 0_u32..4), 0..11),
            rotational: bool,
            policy in prop::sample::select(vec![ErasurePolicy::Metadata, ErasurePolicy::Quick, ErasurePolicy::Full]),
        ) {
            let offers = rows.iter().map(|&(index, barred, other)| MethodOffer {
                method: ErasureMethod::ALL[index],
                reach: if other == 0 { EraseReach::Disk } else { EraseReach::Namespaces(BTreeSet::from([1, other])) },
                barred: barred.then(|| "frozen".to_owned()),
            }).collect();
            let abilities = Abilities { offers, rotational, ..Abilities::default() };
            let ladder = build(&abilities, &BTreeSet::from([1, 2]), policy);
            prop_assert_eq!(ladder.rungs.len() + ladder.left_out.len(), ErasureMethod::ALL.len());
            prop_assert!(!ladder.rungs.is_empty());
            for rung in &ladder.rungs {
                let offer = abilities.offers.iter().find(|offer| offer.method == *rung);
                let is_always_there = matches!(rung, ErasureMethod::Overwrite | ErasureMethod::Metadata);
                prop_assert!(is_always_there || offer.is_some_and(|offer| offer.barred.is_none()));
                prop_assert!(policy == ErasurePolicy::Metadata || *rung != ErasureMethod::Metadata);
            }
            if policy == ErasurePolicy::Full {
                let grades: Vec<_> = ladder.rungs.iter().map(|rung| rung.grade(rotational)).collect();
                prop_assert!(grades.is_sorted_by(|one, next| one >= next), "{:?}", grades);
            }
        }
    }
}
