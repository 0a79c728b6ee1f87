//! The fault table: what becomes of a request. Pure.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{DiskCommand, DiskRequest};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Reads end with an I/O error.
    FailReads,
    /// Writes, zeroing and discards end with an I/O error.
    FailWrites,
    /// Flushes end with an I/O error.
    FailFlushes,
    /// Writes are performed, but some bytes in the range become others.
    AlterWrites,
    /// Reads give some other bytes than the medium holds.
    AlterReads,
    /// Writes are answered and not performed.
    DropWrites,
    /// Requests are answered late, or never.
    Stall,
}

/// One fault, as a scenario file writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DiskFault {
    pub kind: FaultKind,
    /// First byte of the disk that is concerned.
    #[serde(default)]
    pub from: u64,
    /// The byte after the last one; without it, the end of the disk.
    #[serde(default)]
    pub to: Option<u64>,
    /// The number of matching requests that pass first.
    #[serde(default)]
    pub skip: u64,
    /// The number of matching requests that meet the fault; without it, all.
    #[serde(default)]
    pub times: Option<u64>,
    /// How many bytes of a request become others.
    #[serde(default = "one")]
    pub bytes: u64,
    /// How late an answer comes; without it, never.
    #[serde(default)]
    pub delay_ms: Option<u64>,
}

fn one() -> u64 {
    1
}

impl DiskFault {
    #[must_use]
    pub fn new(kind: FaultKind, range: Range<u64>) -> Self {
        Self { kind, from: range.start, to: Some(range.end), skip: 0, times: None, bytes: 1, delay_ms: None }
    }

    fn concerns(&self, request: &DiskRequest) -> bool {
        let by_kind = match self.kind {
            FaultKind::FailReads | FaultKind::AlterReads => request.command == DiskCommand::Read,
            FaultKind::FailWrites | FaultKind::AlterWrites | FaultKind::DropWrites => request.changes(),
            FaultKind::FailFlushes => return request.command == DiskCommand::Flush,
            FaultKind::Stall => true,
        };
        let range = request.range();
        by_kind && range.start < self.to.unwrap_or(u64::MAX) && self.from < range.end
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    Millis(u64),
    Forever,
}

/// What to do with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskFaultEffect {
    pub(crate) delay: Option<Delay>,
    pub(crate) fails: bool,
    pub(crate) dropped: bool,
    /// Bytes of the disk that this request turns into others.
    pub(crate) altered: Vec<Range<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct FaultTable(Vec<ArmedFault>);

#[derive(Debug)]
struct ArmedFault {
    fault: DiskFault,
    matched: u64,
}

impl FaultTable {
    pub(crate) fn arm(&mut self, fault: DiskFault) {
        self.0.push(ArmedFault { fault, matched: 0 });
    }

    pub(crate) fn disarm_all(&mut self) {
        self.0.clear();
    }

    pub(crate) fn decide(&mut self, request: &DiskRequest) -> DiskFaultEffect {
        let mut verdict = DiskFaultEffect::default();
        for armed in &mut self.0 {
            let fault = &armed.fault;
            if !fault.concerns(request) {
                continue;
            }
            let number = armed.matched;
            armed.matched += 1;
            let active = number >= fault.skip && fault.times.is_none_or(|times| number - fault.skip < times);
            if !active {
                continue;
            }
            match fault.kind {
                FaultKind::FailReads | FaultKind::FailWrites | FaultKind::FailFlushes => verdict.fails = true,
                FaultKind::DropWrites => verdict.dropped = true,
                FaultKind::Stall => {
                    verdict.delay = Some(fault.delay_ms.map_or(Delay::Forever, Delay::Millis));
                }
                FaultKind::AlterWrites | FaultKind::AlterReads => {
                    let range = request.range();
                    let start = range.start.max(fault.from);
                    let end = range.end.min(fault.to.unwrap_or(u64::MAX)).min(start.saturating_add(fault.bytes));
                    verdict.altered.push(start..end);
                }
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(offset: u64, bytes: u64) -> DiskRequest {
        DiskRequest { command: DiskCommand::Write, offset, bytes, durable: false }
    }

    fn decide(fault: DiskFault, requests: &[DiskRequest]) -> Vec<DiskFaultEffect> {
        let mut table = FaultTable::default();
        table.arm(fault);
        requests.iter().map(|request| table.decide(request)).collect()
    }

    #[test]
    fn counts_only_requests_that_match_and_ends_after_its_times() {
        let fault = DiskFault { skip: 1, times: Some(2), ..DiskFault::new(FaultKind::FailWrites, 4096..8192) };
        let requests = [write(0, 4096), write(0, 4097), write(8191, 1), write(8192, 1), write(4096, 1), write(4096, 1)];
        let failed: Vec<_> = decide(fault, &requests).iter().map(|verdict| verdict.fails).collect();
        assert_eq!(failed, [false, false, true, false, true, false]);
    }

    #[test]
    fn each_kind_meets_its_own_commands() {
        let all = |command| DiskRequest { command, offset: 0, bytes: 512, durable: false };
        let requests = [DiskCommand::Read, DiskCommand::Write, DiskCommand::Zero].map(all);
        let flush = DiskRequest { command: DiskCommand::Flush, offset: 0, bytes: 0, durable: false };
        let fails = |kind| -> Vec<bool> {
            let verdicts = decide(DiskFault::new(kind, 0..u64::MAX), &[&requests[..], &[flush]].concat());
            verdicts.iter().map(|verdict| verdict != &DiskFaultEffect::default()).collect()
        };
        assert_eq!(fails(FaultKind::FailReads), [true, false, false, false]);
        assert_eq!(fails(FaultKind::FailWrites), [false, true, true, false]);
        assert_eq!(fails(FaultKind::DropWrites), [false, true, true, false]);
        assert_eq!(fails(FaultKind::FailFlushes), [false, false, false, true]);
        assert_eq!(fails(FaultKind::AlterReads), [true, false, false, false]);
        assert_eq!(
            decide(DiskFault { delay_ms: Some(7), ..DiskFault::new(FaultKind::Stall, 0..9) }, &[write(0, 1)])[0].delay,
            Some(Delay::Millis(7))
        );
    }

    proptest! {
        #[test]
        fn altered_bytes_lie_in_the_request_and_in_the_fault(from in 0..100_u64, length in 1..50_u64, bytes in 1..9_u64,
                                                             offset in 0..150_u64, count in 1..60_u64) {
            let fault = DiskFault { bytes, ..DiskFault::new(FaultKind::AlterWrites, from..from + length) };
            let verdict = &decide(fault, &[write(offset, count)])[0];
            let meets = offset < from + length && from < offset + count;
            prop_assert_eq!(!verdict.altered.is_empty(), meets);
            for range in &verdict.altered {
                prop_assert!(range.start < range.end && range.end - range.start <= bytes);
                prop_assert!(range.start >= offset.max(from) && range.end <= (offset + count).min(from + length));
            }
        }
    }

    #[test]
    fn is_written_in_few_words_and_unknown_words_are_refused() {
        let fault: DiskFault = serde_json::from_str(r#"{"kind": "alter-writes", "from": 4096, "to": 8192}"#)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(fault, DiskFault::new(FaultKind::AlterWrites, 4096..8192));
        assert!(serde_json::from_str::<DiskFault>(r#"{"kind": "stall", "bites": 1}"#).is_err());
    }
}
