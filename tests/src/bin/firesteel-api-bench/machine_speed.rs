//! How fast this machine is today. The same program takes twice as long on a machine that others use, too, so limits
//! of times and rates are for a known speed, and are scaled to the one that is measured in the same run.

use std::fmt;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::figures::median;
use super::hosts;

/// The speed that limits are written for: HardwareData as JSON, read and written again, on the machine of
/// `docs/dev/benchmarks.md`.
const LIMITS_ARE_FOR_MB_PER_S: f64 = 190.0;
/// How long one measurement takes.
const ROUND: Duration = Duration::from_millis(300);
const ROUNDS: u32 = 5;

/// What a processor of this machine does at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineSpeed {
    pub(crate) json_mb_per_s: f64,
}

impl MachineSpeed {
    /// Reads and writes the HardwareData of a host as JSON for 1.5 seconds, and takes the median of five rounds.
    pub(crate) fn measure() -> Self {
        let text = hosts::hardware_data(0).to_string();
        let round = |_| {
            let (begun, mut bytes) = (Instant::now(), 0);
            while begun.elapsed() < ROUND {
                let value: Value = serde_json::from_str(&text).unwrap_or_default();
                bytes += std::hint::black_box(value.to_string()).len();
            }
            #[allow(clippy::cast_precision_loss, reason = "a figure of three digits")]
            let megabytes = bytes as f64 / 1e6;
            megabytes / begun.elapsed().as_secs_f64()
        };
        Self { json_mb_per_s: median((0..ROUNDS).map(round).collect()) }
    }

    /// How many times longer than on the machine that the limits are for something takes. A faster machine gets no
    /// stricter limits.
    pub(crate) fn slowness(self) -> f64 {
        (LIMITS_ARE_FOR_MB_PER_S / self.json_mb_per_s).max(1.0)
    }
}

impl fmt::Display for MachineSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { json_mb_per_s } = self;
        write!(
            f,
            "this machine reads and writes {json_mb_per_s:.0} MB of JSON a second; limits are for \
             {LIMITS_ARE_FOR_MB_PER_S} MB, so those of times and rates are {:.2} times as wide",
            self.slowness()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_grow_on_a_slow_machine_and_never_shrink() {
        let slowness = |json_mb_per_s| MachineSpeed { json_mb_per_s }.slowness();
        assert!((slowness(LIMITS_ARE_FOR_MB_PER_S / 2.0) - 2.0).abs() < 1e-9);
        assert!((slowness(LIMITS_ARE_FOR_MB_PER_S * 3.0) - 1.0).abs() < 1e-9);
    }
}
