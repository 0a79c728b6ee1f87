//! The newest log lines of the hosts: what the agent says and what the kernel below it says, as the agents reported
//! them, and what the [console](crate::console) says. In memory, and bounded; secrets are kept out of them before they
//! come here.
//!
//! A line is here once, whatever is reported again. Lines of a boot stay until newer ones need their
//! place, or the host goes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_kube::logs::{Logs, Pod, PodLogLine, Waiting};
use firesteel_runtime::{HostKey, lock, opaque_debug};
use firesteel_wire::LogSource;
use jiff::Timestamp;
use tokio::sync::Notify;

/// The containers of a host's pod.
pub const AGENT: &str = "agent";
pub const KERNEL: &str = "kernel";
pub const CONSOLE: &str = "console";

/// Bytes of text of one source of one host: a boot of a large server is about as long.
const SOURCE_BYTES_MAX: usize = 64 << 10;
/// Bytes of text in all; the hosts that spoke least lately lose theirs first.
pub const LOG_BYTES_MAX: usize = 8 << 20;
/// What a line takes beside its text.
const LINE_BYTES: usize = 64;

/// Is shared by the reports' handler and the readers.
#[derive(Clone, Default)]
pub struct HostLogs(Arc<HostLogStore>);

#[derive(Default)]
struct HostLogStore {
    kept: Mutex<LogRings>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct LogRings {
    rings: HashMap<LogRingKey, LogRing>,
    /// The rings by the number of their newest line: the one that has been silent for longest is first.
    order: BTreeMap<u64, LogRingKey>,
    numbered: u64,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum HostLogSource {
    Agent,
    Kernel,
    Console,
}

/// A host and the source of its lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LogRingKey {
    host: HostKey,
    source: HostLogSource,
}

impl HostLogSource {
    const ALL: [Self; 3] = [Self::Agent, Self::Kernel, Self::Console];
}

#[derive(Default)]
struct LogRing {
    lines: VecDeque<PodLogLine>,
    bytes: usize,
    newest: u64,
}

opaque_debug!(HostLogs);

impl HostLogs {
    /// Keeps lines of a host, in their order.
    pub(crate) fn keep(&self, key: &HostKey, lines: impl Iterator<Item = (LogSource, Timestamp, String)>) {
        let source_of = |source: LogSource| match source {
            LogSource::Agent => HostLogSource::Agent,
            LogSource::Kernel => HostLogSource::Kernel,
        };
        self.push(key, lines.map(|(source, at, text)| (source_of(source), at, text)));
    }

    /// Keeps lines of a host's console, in their order.
    pub(crate) fn keep_console(&self, key: &HostKey, at: Timestamp, lines: Vec<String>) {
        self.push(key, lines.into_iter().map(|text| (HostLogSource::Console, at, text)));
    }

    fn push(&self, key: &HostKey, lines: impl Iterator<Item = (HostLogSource, Timestamp, String)>) {
        let mut kept = self.lock_rings();
        let before = kept.numbered;
        lines.for_each(|(source, at, text)| kept.push(LogRingKey { host: key.clone(), source }, at, text));
        let any = kept.numbered > before;
        drop(kept);
        if any {
            self.0.changed.notify_waiters();
        }
    }

    /// Forgets a host that is gone.
    pub(crate) fn forget(&self, key: &HostKey) {
        let mut kept = self.lock_rings();
        for source in HostLogSource::ALL {
            kept.drop_ring(&LogRingKey { host: key.clone(), source });
        }
    }

    fn lock_rings(&self) -> MutexGuard<'_, LogRings> {
        lock(&self.0.kept)
    }
}

impl Logs for HostLogs {
    fn lines(&self, pod: &Pod<'_>, after: u64) -> Vec<PodLogLine> {
        let source = match pod.container {
            AGENT => HostLogSource::Agent,
            KERNEL => HostLogSource::Kernel,
            CONSOLE => HostLogSource::Console,
            _ => return Vec::new(),
        };
        let host = HostKey { namespace: pod.namespace.to_owned(), name: pod.name.to_owned() };
        let kept = self.lock_rings();
        let Some(ring) = kept.rings.get(&LogRingKey { host, source }) else { return Vec::new() };
        let first = ring.lines.partition_point(|line| line.number <= after);
        ring.lines.range(first..).cloned().collect()
    }

    fn more(&self, _: &Pod<'_>, _: u64) -> Waiting {
        // Made here and not in the future: what comes before it is polled is heard.
        let changed = Arc::clone(&self.0.changed).notified_owned();
        Box::pin(changed)
    }
}

impl LogRings {
    fn push(&mut self, ring_key: LogRingKey, at: Timestamp, text: String) {
        self.numbered += 1;
        let number = self.numbered;
        let size = text.len() + LINE_BYTES;
        let ring = self.rings.entry(ring_key.clone()).or_default();
        self.order.remove(&ring.newest);
        self.order.insert(number, ring_key);
        ring.newest = number;
        ring.lines.push_back(PodLogLine { number, at, text });
        ring.bytes += size;
        self.bytes += size;
        while ring.bytes > SOURCE_BYTES_MAX
            && let Some(old) = ring.lines.pop_front()
        {
            let size = old.text.len() + LINE_BYTES;
            ring.bytes -= size;
            self.bytes -= size;
        }
        while self.bytes > LOG_BYTES_MAX
            && let Some((_, silent)) =
                self.order.first_key_value().map(|(number, ring_key)| (*number, ring_key.clone()))
        {
            self.drop_ring(&silent);
        }
    }

    fn drop_ring(&mut self, ring_key: &LogRingKey) {
        if let Some(ring) = self.rings.remove(ring_key) {
            self.order.remove(&ring.newest);
            self.bytes -= ring.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "default".into(), name: name.into() }
    }

    fn say(logs: &HostLogs, name: &str, source: LogSource, text: &str) {
        logs.keep(&key(name), [(source, Timestamp::UNIX_EPOCH, text.to_owned())].into_iter());
    }

    fn texts(logs: &HostLogs, name: &str, container: &str, after: u64) -> Vec<String> {
        let pod = Pod { namespace: "default", name, container };
        logs.lines(&pod, after).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn each_source_of_each_host_has_its_lines() {
        let logs = HostLogs::default();
        say(&logs, "a", LogSource::Agent, "one");
        say(&logs, "a", LogSource::Kernel, "two");
        say(&logs, "b", LogSource::Agent, "three");
        say(&logs, "a", LogSource::Agent, "four");
        assert_eq!(texts(&logs, "a", AGENT, 0), ["one", "four"]);
        assert_eq!(texts(&logs, "a", AGENT, 1), ["four"]);
        assert_eq!(texts(&logs, "a", KERNEL, 0), ["two"]);
        assert_eq!(texts(&logs, "a", "other", 0), Vec::<String>::new());
        logs.keep_console(&key("a"), Timestamp::UNIX_EPOCH, vec!["five".to_owned()]);
        assert_eq!(
            (texts(&logs, "a", CONSOLE, 0), texts(&logs, "a", AGENT, 1)),
            (vec!["five".into()], vec!["four".into()])
        );
        logs.forget(&key("a"));
        assert_eq!((texts(&logs, "a", AGENT, 0).len(), texts(&logs, "b", AGENT, 0).len()), (0, 1));
        assert_eq!(texts(&logs, "a", CONSOLE, 0), Vec::<String>::new());
    }

    #[test]
    fn old_lines_and_silent_hosts_make_room() {
        let logs = HostLogs::default();
        let text = "x".repeat(1000);
        for _ in 0..200 {
            say(&logs, "a", LogSource::Agent, &text);
        }
        let count = texts(&logs, "a", AGENT, 0).len();
        assert!((50..=SOURCE_BYTES_MAX / 1000).contains(&count), "{count}");
        for host in 0..LOG_BYTES_MAX / SOURCE_BYTES_MAX + 8 {
            (0..150).for_each(|_| say(&logs, &format!("h{host}"), LogSource::Kernel, &text));
        }
        assert_eq!(texts(&logs, "a", AGENT, 0).len(), 0, "it said nothing for the longest time");
        assert!(logs.lock_rings().bytes <= LOG_BYTES_MAX);
    }
}
