//! Two ways to leave zeros: a command of the drive, and writing them. To the proof they are the same, and no drive says
//! which is faster: some are done with the command at once, some are slower with it than with a write. So both are
//! timed on the same first bytes, and the faster one does the rest. Where writing wins, the bytes of the trial were
//! written as well: nothing rests on the command's word.

use std::time::Duration;

/// What is zeroed in both ways. Long enough for a drive to get going, and nothing beside a disk.
pub(super) const TRIAL_BYTES: u64 = 32 << 20;
/// Disks so small are zeroed by command before a trial would pay.
const DISK_BYTES_MIN: u64 = 4 * TRIAL_BYTES;
/// How many times as fast writing must be, in tenths: what is about equal stays with the drive's own command.
const FASTER_TENTHS: u128 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Command,
    Writing,
}

/// What both took on the first bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) command: Duration,
    pub(super) writing: Duration,
}

impl Trial {
    /// Whether a disk of this size is worth one.
    pub(super) fn pays(disk_bytes: u64) -> bool {
        disk_bytes >= DISK_BYTES_MIN
    }

    /// Which way does the rest.
    pub(super) fn winner(self) -> Way {
        let is_faster = self.writing.as_nanos() * FASTER_TENTHS < self.command.as_nanos() * 10;
        if is_faster { Way::Writing } else { Way::Command }
    }

    /// For the receipt, where the command was not what erased the disk.
    pub(super) fn words(self) -> String {
        match self.winner() {
            Way::Command => String::new(),
            Way::Writing => format!(
                "zeros were written in place of the drive's command: {} MiB took {:.3} s and not {:.3} s",
                TRIAL_BYTES >> 20,
                self.writing.as_secs_f64(),
                self.command.as_secs_f64()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_must_be_clearly_faster() {
        for (command, writing, expected) in [
            (0, 0, Way::Command),
            (1, 900, Way::Command),
            (1000, 1000, Way::Command),
            (1000, 900, Way::Command),
            (1000, 834, Way::Command),
            (1000, 833, Way::Writing),
            (190, 60, Way::Writing),
        ] {
            let [command, writing] = [command, writing].map(Duration::from_millis);
            let trial = Trial { command, writing };
            assert_eq!(trial.winner(), expected, "{trial:?}");
            assert_eq!(trial.words().is_empty(), expected == Way::Command, "{}", trial.words());
        }
        assert!(Trial::pays(DISK_BYTES_MIN) && !Trial::pays(DISK_BYTES_MIN - 1));
    }
}
