//! Sequence numbers of a session: repetitions are refused, late ones are not.

/// Sequence numbers that may come late (section 6.12.14 asks for 16 at least).
const WINDOW: u32 = 32;

/// Which sequence numbers have come: each counts once, and late ones only for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    highest: u32,
    /// Bit n: `highest - n` has come.
    bits: u32,
}

impl Window {
    /// Takes note of a packet whose integrity was checked; `false` if it came before.
    pub(super) fn admit(&mut self, sequence: u32) -> bool {
        if sequence > self.highest {
            let ahead = sequence - self.highest;
            self.bits = if ahead < WINDOW { self.bits << ahead | 1 } else { 1 };
            self.highest = sequence;
            return true;
        }
        let behind = self.highest - sequence;
        let bit = 1u32.checked_shl(behind).unwrap_or(0);
        let is_new = bit != 0 && self.bits & bit == 0;
        self.bits |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_counts_once_and_late_ones_for_a_while() {
        let mut window = Window::default();
        for (number, is_new) in [
            (1, true),
            (1, false),
            (3, true),
            (2, true),
            (2, false),
            (40, true),
            (3, false),
            (9, true),
            (8, false),
            (0, false),
        ] {
            assert_eq!(window.admit(number), is_new, "{number}");
        }
        assert!(window.admit(u32::MAX) && !window.admit(u32::MAX) && !window.admit(40));
    }
}
