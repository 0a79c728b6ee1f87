//! Commands that answer when the drive has erased itself, hours later: what is shown meanwhile. Nothing can stop
//! such a command, and neither an abort nor a halt pretends to.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::disk_erasure::MethodFailure;
use super::drive::{Drive, DriveCommandProgress};
use super::ladder::ErasureMethod;
use super::watch::CleaningMonitor;

/// How a command ended, and why the work was to stop or to pause when it was last asked for, if it was.
#[derive(Debug)]
pub(super) struct BlockingCommandEnd {
    pub(super) result: Result<DriveCommandProgress, MethodFailure>,
    pub(super) wish: Option<String>,
}

/// Begins a method in a thread of its own and reports progress until the drive answers. `bytes` is the size of all
/// disks that it erases.
pub(super) fn erase(
    drive: &dyn Drive,
    method: ErasureMethod,
    bytes: u64,
    watch: &dyn CleaningMonitor,
) -> BlockingCommandEnd {
    let expected = drive.expected(method);
    let (answer, answers) = mpsc::channel();
    let mut wish: Option<String> = None;
    thread::scope(|scope| {
        // Nobody listens only when this function was left by a panic.
        scope.spawn(move || drop(answer.send(drive.erase(method))));
        let begun = Instant::now();
        loop {
            match answers.recv_timeout(watch.beat()) {
                Ok(result) => return BlockingCommandEnd { result, wish },
                Err(RecvTimeoutError::Disconnected) => {
                    let result =
                        Err(MethodFailure::Stuck("the thread that waits for the drive's answer has ended".to_owned()));
                    return BlockingCommandEnd { result, wish };
                }
                Err(RecvTimeoutError::Timeout) => {
                    let elapsed = begun.elapsed();
                    let (done, total) = done(elapsed, expected, bytes);
                    wish = watch.report_progress(&activity(method, elapsed, expected, wish.as_deref()), done, total);
                }
            }
        }
    })
}

/// Estimates the bytes that are done, by the time that the drive says it takes; the end is only where the drive
/// answers. Pure.
fn done(elapsed: Duration, expected: Option<Duration>, bytes: u64) -> (u64, u64) {
    let Some(expected) = expected.map(|time| time.as_millis()).filter(|millis| *millis > 0) else { return (0, 0) };
    let done = u128::from(bytes) * elapsed.as_millis().min(expected) / expected;
    (u64::try_from(done).unwrap_or(bytes).min(bytes - bytes.div_ceil(100)), bytes)
}

/// Describes the work for people. Changes every minute where nothing else does, so that it is seen to live. Pure.
fn activity(method: ErasureMethod, elapsed: Duration, expected: Option<Duration>, wish: Option<&str>) -> String {
    let minutes = |time: Duration| time.as_secs() / 60;
    let how = match expected {
        Some(expected) if elapsed <= expected => format!("by the drive's own estimate of {} min", minutes(expected)),
        Some(expected) => {
            format!("for {} min, the drive's own estimate was {} min", minutes(elapsed), minutes(expected))
        }
        None => format!("for {} min, the drive does not say how far it is", minutes(elapsed)),
    };
    despite(&format!("{method} {how}"), wish)
}

/// Describes work that goes on although a stop or a pause was asked for. Pure.
pub(super) fn despite(activity: &str, wish: Option<&str>) -> String {
    let wish = wish.map(|wish| format!("; {wish}, but the drive cannot be interrupted")).unwrap_or_default();
    format!("{activity}{wish}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The appliance goes by the words: it neither resets nor switches a host off meanwhile.
    #[test]
    fn the_appliance_knows_a_command_that_cannot_be_interrupted_by_its_words() {
        let drives = [
            ErasureMethod::SanitizeCrypto,
            ErasureMethod::SanitizeBlock,
            ErasureMethod::SanitizeOverwrite,
            ErasureMethod::FormatCrypto,
            ErasureMethod::FormatUserData,
            ErasureMethod::SecureEraseEnhanced,
            ErasureMethod::SecureErase,
        ];
        for method in drives {
            assert!(firesteel_wire::erasure::cannot_stop(&activity(method, Duration::ZERO, None, None)), "{method}");
        }
        assert!(firesteel_wire::erasure::cannot_stop("sanitizing"));
        for method in [ErasureMethod::WriteZeroes, ErasureMethod::Overwrite, ErasureMethod::Metadata] {
            assert!(!firesteel_wire::erasure::cannot_stop(method.name()), "{method}");
        }
    }

    #[test]
    fn an_estimate_is_never_the_end() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert_eq!(done(hours(1), Some(hours(4)), 400), (100, 400));
        for elapsed in [hours(4), hours(9)] {
            assert_eq!(done(elapsed, Some(hours(4)), 400), (396, 400));
        }
        assert_eq!(done(hours(9), Some(hours(4)), 1), (0, 1));
        assert_eq!((done(hours(1), None, 400), done(hours(1), Some(Duration::ZERO), 400)), ((0, 0), (0, 0)));
        let told = |elapsed, expected, wish| activity(ErasureMethod::SecureErase, elapsed, expected, wish);
        let estimated = told(hours(1), Some(hours(4)), None);
        assert_eq!(estimated, "secure-erase by the drive's own estimate of 240 min");
        assert_eq!(told(hours(2), Some(hours(4)), None), estimated, "one activity has one pace");
        let over = told(hours(5), Some(hours(4)), None);
        assert_eq!(over, "secure-erase for 300 min, the drive's own estimate was 240 min");
        let silent = told(hours(1), None, None);
        assert_eq!(silent, "secure-erase for 60 min, the drive does not say how far it is");
        assert!(
            told(hours(1), None, Some("halted by ann"))
                .ends_with("; halted by ann, but the drive cannot be interrupted")
        );
    }
}
