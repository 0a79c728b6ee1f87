//! Which of three accounts of a kind's objects is wrong: what was counted, what is listed, and what the changes come
//! to. Pure.

/// How many objects there are of a kind, and the sum of their checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KindTally {
    pub(super) objects: i64,
    pub(super) sum: i64,
}

impl KindTally {
    pub(super) fn add(&mut self, weight: i64) {
        self.objects += 1;
        self.sum = self.sum.wrapping_add(weight);
    }
}

/// What to do about a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KindVerdict {
    Sound,
    /// The count is written again.
    Count,
    /// The list is.
    List,
    /// Two of three are needed, and no two agree.
    Lost,
}

/// Decides by what was counted, what is listed, and what the changes come to; none where it cannot be read, or was
/// never written. Pure.
pub(super) fn verdict(counted: Option<KindTally>, listed: Option<KindTally>, folded: Option<KindTally>) -> KindVerdict {
    match (counted, listed, folded) {
        (Some(counted), Some(listed), _) if counted == listed => KindVerdict::Sound,
        (_, Some(listed), Some(folded)) if listed == folded => KindVerdict::Count,
        (Some(counted), _, Some(folded)) if counted == folded => KindVerdict::List,
        // Of a kind that never was: rows that bear another's name.
        (None, _, Some(folded)) if folded == KindTally::default() => KindVerdict::List,
        _ => KindVerdict::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_three_decide_about_a_kind() {
        let tally = |objects| Some(KindTally { objects, sum: objects * 77 });
        let none = Some(KindTally::default());
        for (counted, listed, folded, wanted) in [
            (tally(3), tally(3), tally(3), KindVerdict::Sound),
            // A change that is damaged says nothing about the list.
            (tally(3), tally(3), tally(2), KindVerdict::Sound),
            (tally(3), tally(3), None, KindVerdict::Sound),
            (tally(3), tally(2), tally(3), KindVerdict::List),
            (tally(3), None, tally(3), KindVerdict::List),
            (tally(3), tally(2), tally(2), KindVerdict::Count),
            (None, tally(2), tally(2), KindVerdict::Count),
            (None, tally(1), none, KindVerdict::List),
            (tally(3), tally(2), tally(1), KindVerdict::Lost),
            (tally(3), tally(2), None, KindVerdict::Lost),
            (None, tally(2), tally(1), KindVerdict::Lost),
            (tally(3), None, None, KindVerdict::Lost),
        ] {
            assert_eq!(verdict(counted, listed, folded), wanted, "{counted:?} {listed:?} {folded:?}");
        }
    }
}
