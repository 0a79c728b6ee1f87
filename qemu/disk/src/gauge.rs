//! How far the writing of an image to this disk has come, as the disk sees it, and whether it has
//! reached a point at which it is to be held. Pure.
//!
//! An installation clears the partition tables, writes the body, flushes, reads it back and writes the
//! first block at last. So: zeros over the first block begin a new installation, data elsewhere is its body,
//! reads after data are the read-back, and data over the first block is the end.

use serde::{Deserialize, Serialize};

use crate::{DiskCommand, DiskRequest};

const BLOCK_BYTES: u64 = 512;

/// A point of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopPoint {
    /// The number of bytes of the body that are written (zeros that the disk makes itself included).
    Written(u64),
    /// The number of bytes that were read since the last write, after a body was written.
    ReadBack(u64),
    /// The first block has its data, not yet flushed where there is a cache.
    Head,
    /// … and a flush was answered after it.
    HeadFlushed,
}

/// What the disk has seen since the power came on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Bytes of the body written since the first block was last cleared.
    pub written_bytes: u64,
    /// Bytes read since the last write.
    pub read_bytes: u64,
    /// Writes of data over the first block, all times the disk was on.
    pub heads: u32,
    /// The number of those that a flush followed.
    pub heads_flushed: u32,
    /// Bytes written in all, all times the disk was on.
    pub total_written_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Gauge {
    seen: DiskCounters,
    head_is_new: bool,
    head_is_flushed: bool,
}

impl Gauge {
    pub(crate) fn seen(&self) -> DiskCounters {
        self.seen
    }

    /// The machine starts again.
    pub(crate) fn power_on(&mut self) {
        self.seen.written_bytes = 0;
        self.seen.read_bytes = 0;
        self.head_is_new = false;
        self.head_is_flushed = false;
    }

    /// Takes note of a request that was performed. `zeros`: all bytes that it wrote are zero.
    pub(crate) fn note(&mut self, request: &DiskRequest, zeros: bool) {
        match request.command {
            DiskCommand::Read => self.seen.read_bytes += request.bytes,
            DiskCommand::Flush => self.flushed(),
            DiskCommand::Write | DiskCommand::Zero => {
                self.seen.read_bytes = 0;
                self.seen.total_written_bytes += request.bytes;
                let is_head = request.offset < BLOCK_BYTES && request.bytes > 0;
                if is_head && zeros {
                    self.seen.written_bytes = 0;
                    self.head_is_new = false;
                    self.head_is_flushed = false;
                } else if is_head {
                    self.seen.heads += 1;
                    self.head_is_new = true;
                } else {
                    self.seen.written_bytes += request.bytes;
                }
                if request.durable {
                    self.flushed();
                }
            }
        }
    }

    fn flushed(&mut self) {
        if std::mem::take(&mut self.head_is_new) {
            self.seen.heads_flushed += 1;
            self.head_is_flushed = true;
        }
    }

    /// Whether the request noted last has brought the writer to this point.
    pub(crate) fn reached(&self, stop: StopPoint, request: &DiskRequest) -> bool {
        match stop {
            StopPoint::Written(bytes) => request.changes() && self.seen.written_bytes >= bytes,
            StopPoint::ReadBack(bytes) => {
                request.command == DiskCommand::Read && self.seen.written_bytes > 0 && self.seen.read_bytes >= bytes
            }
            StopPoint::Head => request.changes() && self.head_is_new,
            StopPoint::HeadFlushed => {
                self.head_is_flushed && (request.durable || request.command == DiskCommand::Flush)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn request(command: DiskCommand, offset: u64, bytes: u64) -> DiskRequest {
        DiskRequest { command, offset, bytes, durable: false }
    }

    /// The points at which each stop is reached in an installation of three requests of body.
    #[test]
    fn stops_are_reached_in_the_order_of_an_installation() {
        let story = [
            (request(DiskCommand::Read, 0, MIB), false),
            (request(DiskCommand::Write, 0, MIB), true), // clear
            (request(DiskCommand::Write, 9 * MIB, MIB), true),
            (request(DiskCommand::Flush, 0, 0), true),
            (request(DiskCommand::Read, 0, MIB), false),
            (request(DiskCommand::Write, MIB, 2 * MIB), false), // body
            (request(DiskCommand::Zero, 3 * MIB, 4 * MIB), true),
            (request(DiskCommand::Write, 7 * MIB, MIB), false),
            (request(DiskCommand::Flush, 0, 0), true),
            (request(DiskCommand::Read, MIB, 4 * MIB), false), // read-back
            (request(DiskCommand::Read, 5 * MIB, 3 * MIB), false),
            (request(DiskCommand::Write, 8 * MIB, MIB), false), // backup table
            (request(DiskCommand::Write, 0, MIB), false),       // head
            (request(DiskCommand::Flush, 0, 0), true),
        ];
        let first = |stop: StopPoint| {
            let mut gauge = Gauge::default();
            story.iter().position(|(request, zeros)| {
                gauge.note(request, *zeros);
                gauge.reached(stop, request)
            })
        };
        assert_eq!(first(StopPoint::Written(4 * MIB)), Some(6));
        assert_eq!(first(StopPoint::Written(8 * MIB)), Some(7));
        assert_eq!(first(StopPoint::ReadBack(5 * MIB)), Some(10));
        assert_eq!(first(StopPoint::Head), Some(12));
        assert_eq!(first(StopPoint::HeadFlushed), Some(13));
    }

    #[test]
    fn power_on_forgets_the_installation_and_keeps_the_counts() {
        let mut gauge = Gauge::default();
        gauge.note(&request(DiskCommand::Write, 0, 512), false);
        gauge.power_on();
        gauge.note(&request(DiskCommand::Flush, 0, 0), true);
        assert_eq!((gauge.seen().heads, gauge.seen().heads_flushed, gauge.seen().written_bytes), (1, 0, 0));
        assert!(!gauge.reached(StopPoint::HeadFlushed, &request(DiskCommand::Flush, 0, 0)));
    }

    /// A second installation passed for finished at the first flush of its clearing.
    #[test]
    fn an_earlier_installation_reaches_no_stop_of_the_next() {
        let mut gauge = Gauge::default();
        let flush = request(DiskCommand::Flush, 0, 0);
        gauge.note(&request(DiskCommand::Write, 0, 512), false);
        gauge.note(&flush, true);
        assert!(gauge.reached(StopPoint::HeadFlushed, &flush));
        for next in [request(DiskCommand::Write, 0, 512), flush] {
            gauge.note(&next, true);
            assert!(!gauge.reached(StopPoint::HeadFlushed, &next) && !gauge.reached(StopPoint::Head, &next));
        }
    }
}
