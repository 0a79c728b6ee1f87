//! Debian's `ignition-validate`, started once for each config, on as many processors as there are.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const PROGRAM: &str = "ignition-validate";
/// Debian 12's: rules change between releases, for old versions of configs too.
const RELEASE: &str = "2.14.";

#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) takes: bool,
    /// The report for the reader of the failure.
    #[expect(dead_code, reason = "shown by Debug")]
    report: String,
}

/// One for each config; nothing, with a message, where the program is not there.
pub(crate) fn verdicts(configs: &[&[u8]]) -> Option<Vec<Verdict>> {
    let Ok(version) = Command::new(PROGRAM).arg("--version").output() else {
        println!("skipped: no {PROGRAM} here; `./qemu/lab test` fetches it");
        return None;
    };
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.contains(RELEASE) {
        println!("skipped: {PROGRAM} is not that of Debian 12 but {}", version.trim());
        return None;
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(config) = configs.get(at)
        {
            found.push((at, verdict(config)));
        }
        found
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut all = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    all.sort_by_key(|(at, _)| *at);
    Some(all.into_iter().map(|(_, verdict)| verdict).collect())
}

fn verdict(config: &[u8]) -> Verdict {
    let mut child = Command::new(PROGRAM)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It reads all before it says anything.
    child.stdin.take().unwrap().write_all(config).unwrap();
    let output = child.wait_with_output().unwrap();
    let report = [output.stdout, output.stderr].concat();
    let code = output.status.code();
    let report = String::from_utf8_lossy(&report).into_owned();
    assert!(matches!(code, Some(0 | 1)), "{PROGRAM} broke down: {report}");
    Verdict { takes: code == Some(0), report }
}
