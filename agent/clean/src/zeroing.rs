//! Two ways to leave zeros: a command of the drive, and writing them. To the proof they are the same, and no drive says
//! which is faster: some are done with the command at once, some are slower with it than with a write. So both are
//! timed on the same first bytes, and the faster one does the rest. Where writing wins, the bytes of the trial were
//! written as well: nothing rests on the command's word.

use std::time::Duration;

/// The part of a disk that is zeroed in both ways: nothing beside the rest, also where one way takes ten times as long.
const PART: u64 = 128;
/// The smallest trial: a smaller disk is zeroed by command before a trial would pay.
const TRIAL_BYTES_MIN: u64 = 4 << 20;
/// Long enough for a drive to get going.
const TRIAL_BYTES_MAX: u64 = 256 << 20;
/// How many times as fast writing must be, in tenths: what is about equal stays with the drive's own command.
const FASTER_TENTHS: u128 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroingMethod {
    Command,
    Writing,
}

/// What both took on the first bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZeroingTrial {
    /// How many these are.
    pub(super) bytes: u64,
    pub(super) command: Duration,
    pub(super) writing: Duration,
}

impl ZeroingTrial {
    /// How many bytes of a disk of this size are worth one, if any.
    pub(super) fn bytes_of(disk_bytes: u64) -> Option<u64> {
        let part = disk_bytes / PART / TRIAL_BYTES_MIN * TRIAL_BYTES_MIN;
        (part > 0).then(|| part.min(TRIAL_BYTES_MAX))
    }

    /// Which way does the rest.
    pub(super) fn winner(self) -> ZeroingMethod {
        let is_faster = self.writing.as_nanos() * FASTER_TENTHS < self.command.as_nanos() * 10;
        if is_faster { ZeroingMethod::Writing } else { ZeroingMethod::Command }
    }

    /// Says for the receipt why the command was not what erased the disk.
    pub(super) fn describe(self) -> String {
        match self.winner() {
            ZeroingMethod::Command => String::new(),
            ZeroingMethod::Writing => format!(
                "zeros were written in place of the drive's command: {} MiB took {:.3} s and not {:.3} s",
                self.bytes >> 20,
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
            (0, 0, ZeroingMethod::Command),
            (1, 900, ZeroingMethod::Command),
            (1000, 1000, ZeroingMethod::Command),
            (1000, 900, ZeroingMethod::Command),
            (1000, 834, ZeroingMethod::Command),
            (1000, 833, ZeroingMethod::Writing),
            (190, 60, ZeroingMethod::Writing),
        ] {
            let [command, writing] = [command, writing].map(Duration::from_millis);
            let trial = ZeroingTrial { bytes: 4 << 20, command, writing };
            assert_eq!(trial.winner(), expected, "{trial:?}");
            assert_eq!(trial.describe().is_empty(), expected == ZeroingMethod::Command, "{}", trial.describe());
        }
    }

    #[test]
    fn a_trial_is_a_small_part_of_its_disk() {
        for (disk_mib, trial_mib) in
            [(511, None), (512, Some(4)), (1024, Some(8)), (1500, Some(8)), (1 << 24, Some(256))]
        {
            assert_eq!(ZeroingTrial::bytes_of(disk_mib << 20), trial_mib.map(|mib: u64| mib << 20), "{disk_mib} MiB");
        }
    }
}
