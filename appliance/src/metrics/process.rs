//! Metrics of the process from the kernel, under the names of Prometheus' client libraries.

use std::fs;

/// The unit of the kernel's times (`USER_HZ`), the same on every architecture that the appliance runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The values of `/proc/self`; absent if it lacks them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Process {
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) threads: Option<u64>,
    pub(super) open_files: Option<u64>,
}

impl Process {
    pub(super) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let open_files = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
        Self { open_files, ..Self::of(&status, &stat) }
    }

    /// Parses the texts of `/proc/PID/status` and `/proc/PID/stat` (proc(5)). Pure.
    #[allow(clippy::cast_precision_loss, reason = "seconds with some decimals")]
    fn of(status: &str, stat: &str) -> Self {
        let field = |name: &str| {
            let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_whitespace().next()?.parse::<u64>().ok()
        };
        // The program's name may hold anything, so the fields are counted from its end: utime and stime are the 14th
        // and 15th field, and the third comes after the bracket.
        let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut times = after.split_whitespace().skip(11).map_while(|word| word.parse::<u64>().ok());
        let spent = times.next().zip(times.next()).map(|(user, system)| user + system);
        Self {
            resident_bytes: field("VmRSS:").map(|kib| kib << 10),
            cpu_seconds: spent.map(|ticks| ticks as f64 / TICKS_PER_SECOND),
            threads: field("Threads:"),
            open_files: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read_whatever_the_programs_name() {
        let status = "Name:\tx\nVmHWM:\t 9 kB\nVmRSS:\t    2048 kB\nThreads:\t7\n";
        let stat = "12 (a) b (c)) S 1 12 12 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 7 0 100 1 2";
        let read = Process::of(status, stat);
        assert_eq!((read.resident_bytes, read.cpu_seconds, read.threads), (Some(2 << 20), Some(2.0), Some(7)));
        assert_eq!(Process::of("", "12 (a"), Process::default());
        let own = Process::read();
        assert!(own.resident_bytes.is_some_and(|bytes| bytes > 1 << 20) && own.cpu_seconds.is_some());
        assert!(own.open_files.is_some_and(|files| files > 2));
    }
}
