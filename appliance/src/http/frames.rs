//! Counts the bytes of bodies in a stream of HTTP/2 frames. Pure.
//!
//! Replies to pings and settings do not use a connection: a client can have as many of them as it likes. So only the
//! payload of DATA frames counts (RFC 9113, sections 4.1 and 6.1). A server's stream begins with a frame, and consists
//! of frames only.

const HEAD_BYTES: usize = 9;
/// The type of a frame with a part of a body.
const DATA: u8 = 0;

/// The position of a connection in its stream of frames.
#[derive(Debug, Default)]
pub struct FrameMeter {
    head: [u8; HEAD_BYTES],
    /// How much of the next head has arrived.
    head_bytes: usize,
    /// How much of the payload is still to come.
    left: usize,
    is_data: bool,
}

impl FrameMeter {
    /// Takes in the next bytes of the stream. Returns how many of them belong to bodies.
    pub fn take(&mut self, mut bytes: &[u8]) -> u64 {
        let mut of_bodies = 0;
        while !bytes.is_empty() {
            let wanted = if self.left > 0 { self.left } else { HEAD_BYTES - self.head_bytes };
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            if self.left > 0 {
                self.left -= taken.len();
                of_bodies += if self.is_data { taken.len() as u64 } else { 0 };
            } else {
                self.take_head(taken);
            }
            bytes = rest;
        }
        of_bodies
    }

    fn take_head(&mut self, part: &[u8]) {
        let end = self.head_bytes + part.len();
        self.head[self.head_bytes..end].copy_from_slice(part);
        self.head_bytes = end % HEAD_BYTES;
        if end == HEAD_BYTES {
            let [high, middle, low, kind, ..] = self.head;
            self.left = usize::from(high) * 0x1_0000 + usize::from(middle) * 0x100 + usize::from(low);
            self.is_data = kind == DATA;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap_or(u32::MAX).to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], &vec![7; payload]].concat()
    }

    #[test]
    fn bodies_alone_count_however_the_bytes_are_cut() {
        // The frames: settings, a reply to a ping, a head, two parts of a body, one of which is empty, and its end.
        let all = [frame(4, 6), frame(6, 8), frame(1, 300), frame(0, 70_000), frame(0, 0), frame(0, 5)].concat();
        for size in [1, 2, 8, 9, 10, 17, 4096, all.len()] {
            let mut meter = FrameMeter::default();
            let of_bodies: u64 = all.chunks(size).map(|part| meter.take(part)).sum();
            assert_eq!(of_bodies, 70_005, "in parts of {size}");
        }
    }

    #[test]
    fn pings_are_no_bodies() {
        let mut meter = FrameMeter::default();
        let of_bodies: u64 = (0..10_000).map(|_| meter.take(&frame(6, 8))).sum();
        assert_eq!(of_bodies, 0);
    }
}
