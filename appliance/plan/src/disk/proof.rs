//! Whether what an agent showed for a disk is what was asked of it. Anything less is not cleaned, whatever the
//! agent calls it.

use super::{CleaningMethod, DiskIdentity, Grade};

/// What the receipt of one cleaned disk says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleaningProof {
    /// Number of the plan in its attempt.
    pub plan: u32,
    pub disk: DiskIdentity,
    /// Device name in that boot, for people.
    pub device: String,
    /// The method that the agent was asked for.
    pub asked: CleaningMethod,
    /// What led to the end: `sanitize-block`, `overwrite`, `metadata`.
    pub by: String,
    pub grade: Grade,
    /// Bytes that were read back from the medium.
    pub read_back_bytes: u64,
    /// What a guard found and the owner overrode.
    pub overridden: Vec<String>,
    /// What could not be verified or was not reached.
    pub unverified: Vec<String>,
}

/// Why a disk is not proven to be cleaned as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErasureShortfall {
    #[error("there is no receipt for it")]
    NoReceipt,
    #[error("its receipt is of another disk ({0})")]
    OtherDisk(DiskIdentity),
    #[error("nothing was read back from its medium")]
    NotReadBack,
    #[error("{} was asked of the agent, and {} was due", asked.word(), due.word())]
    AskedLess { asked: CleaningMethod, due: CleaningMethod },
    #[error("{by} left its data in reach (neither clear nor purge)")]
    InReach { by: String },
}

/// Why a receipt does not prove that its disk was cleaned as asked; `None` where it does.
#[must_use]
pub fn shortfall(due: CleaningMethod, disk: &DiskIdentity, shown: &CleaningProof) -> Option<ErasureShortfall> {
    if shown.disk != *disk {
        return Some(ErasureShortfall::OtherDisk(shown.disk.clone()));
    }
    if due == CleaningMethod::Metadata {
        // What clears metadata reads all of it back, or fails.
        return None;
    }
    if shown.read_back_bytes == 0 {
        return Some(ErasureShortfall::NotReadBack);
    }
    if shown.asked < due {
        return Some(ErasureShortfall::AskedLess { asked: shown.asked, due });
    }
    match shown.grade {
        Grade::None => Some(ErasureShortfall::InReach { by: shown.by.clone() }),
        Grade::Clear | Grade::Purge => None,
    }
}

/// The receipt that proves it best, or why none does.
///
/// # Errors
/// The newest receipt's shortfall, or that there is none.
pub fn proof<'a>(
    asked: CleaningMethod,
    disk: &DiskIdentity,
    shown: &'a [CleaningProof],
) -> Result<&'a CleaningProof, ErasureShortfall> {
    let own: Vec<&'a CleaningProof> = shown.iter().filter(|shown| shown.disk == *disk).collect();
    let good = own.iter().copied().filter(|shown| shortfall(asked, disk, shown).is_none());
    good.max_by_key(|shown| (shown.grade, shown.plan)).ok_or_else(|| {
        let newest = own.iter().max_by_key(|shown| shown.plan);
        newest.and_then(|shown| shortfall(asked, disk, shown)).unwrap_or(ErasureShortfall::NoReceipt)
    })
}

/// What was proven, for people; each disk by itself, and what was not verified behind it.
#[must_use]
pub fn describe_proof(asked: CleaningMethod, shown: &[&CleaningProof]) -> String {
    listed(shown.iter().map(|shown| one(shown, &graded(asked, shown))).collect())
}

/// What the agent says of each disk, for people, without a grade: it is not known to be the host that says so.
#[must_use]
pub fn claims(shown: &[&CleaningProof]) -> String {
    listed(shown.iter().map(|shown| one(shown, &format!("erased by {}, as its agent says", shown.by))).collect())
}

fn listed(disks: Vec<String>) -> String {
    match disks.len() {
        0 => "no disk was to be cleaned".to_owned(),
        1 => disks.concat(),
        count => format!("{count} disks: {}", disks.join("; ")),
    }
}

fn graded(asked: CleaningMethod, shown: &CleaningProof) -> String {
    match (asked, shown.grade) {
        (CleaningMethod::Metadata, Grade::None) => {
            "its tables and signatures were cleared and read back; its data was not erased".to_owned()
        }
        // More was done to it in another plan, and nothing more is claimed.
        (CleaningMethod::Metadata, _) => "its tables and signatures were cleared".to_owned(),
        (_, Grade::None) => format!("not erased ({})", shown.by),
        (_, Grade::Clear) => format!("cleared by {} (NIST SP 800-88 clear)", shown.by),
        (_, Grade::Purge) => format!("purged by {} (NIST SP 800-88 purge)", shown.by),
    }
}

/// One disk, what became of it, and what is to be known beside that.
fn one(shown: &CleaningProof, what: &str) -> String {
    let name =
        if shown.device.is_empty() { shown.disk.to_string() } else { format!("{} ({})", shown.device, shown.disk) };
    let over = if shown.overridden.is_empty() {
        String::new()
    } else {
        format!(", over {} as its owner said", shown.overridden.join(", "))
    };
    let unverified = if shown.unverified.is_empty() {
        String::new()
    } else {
        format!(", unverified: {}", shown.unverified.join(", "))
    };
    format!("{name}: {what}{over}{unverified}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    fn disk(serial: &str) -> DiskIdentity {
        DiskIdentity { serial: serial.into(), size_bytes: 8 << 30, ..DiskIdentity::default() }
    }

    fn shown(asked: CleaningMethod, grade: Grade) -> CleaningProof {
        CleaningProof {
            plan: 1,
            disk: disk("A"),
            device: "/dev/sda".into(),
            asked,
            by: "overwrite".into(),
            grade,
            read_back_bytes: 4096,
            overridden: Vec::new(),
            unverified: vec!["spare blocks".into()],
        }
    }

    #[test]
    fn only_what_was_asked_is_proven() {
        use CleaningMethod as M;
        use Grade as G;
        for (asked, shown_asked, grade, proven) in [
            (M::Metadata, M::Metadata, G::None, true),
            (M::Metadata, M::Full, G::Purge, true),
            (M::Quick, M::Metadata, G::None, false),
            (M::Quick, M::Quick, G::None, false),
            (M::Quick, M::Quick, G::Clear, true),
            (M::Quick, M::Full, G::Purge, true),
            (M::Full, M::Quick, G::Purge, false),
            (M::Full, M::Full, G::None, false),
            (M::Full, M::Full, G::Clear, true),
        ] {
            let shown = shown(shown_asked, grade);
            let found = proof(asked, &disk("A"), std::slice::from_ref(&shown));
            assert_eq!(found.is_ok(), proven, "{asked:?} by {shown:?}: {found:?}");
            let unread = CleaningProof { read_back_bytes: 0, ..shown.clone() };
            let is_enough = proof(asked, &disk("A"), &[unread]).is_ok();
            assert_eq!(is_enough, asked == M::Metadata, "nothing was read back");
            assert!(proof(asked, &disk("B"), &[shown]).is_err(), "another disk's");
        }
        assert_eq!(proof(M::Quick, &disk("A"), &[]).unwrap_err().to_string(), "there is no receipt for it");
    }

    #[test]
    fn words_never_say_more_than_was_proven() {
        let metadata = shown(CleaningMethod::Metadata, Grade::None);
        assert!(describe_proof(CleaningMethod::Metadata, &[&metadata]).contains("data was not erased"));
        let cleared = shown(CleaningMethod::Full, Grade::Clear);
        let told = describe_proof(CleaningMethod::Full, &[&cleared]);
        assert!(
            told.contains("clear)") && !told.contains("purge") && told.contains("unverified: spare blocks"),
            "{told}"
        );
        assert_eq!(describe_proof(CleaningMethod::Full, &[]), "no disk was to be cleaned");
        let purged = CleaningProof { by: "sanitize-crypto".into(), ..shown(CleaningMethod::Full, Grade::Purge) };
        assert!(describe_proof(CleaningMethod::Full, &[&purged]).contains("purged by sanitize-crypto"));
        for text in
            [claims(&[&purged]), claims(&[&purged, &cleared]), describe_proof(CleaningMethod::Metadata, &[&purged])]
        {
            assert!(!text.contains("purge") && !text.contains("clear)") && text.contains("spare blocks"), "{text}");
        }
    }
}
