//! The buffers that one answer reads its file into.
//!
//! An answer holds at most two at a time: one that is sent, and the next one. A buffer whose bytes are sent waits for
//! the next read of the same answer. To free it would be dear: the allocator gives a buffer of this size back to the
//! kernel, and each page of the next one is a fault.
//!
//! ```text
//! ReadBuffers ─ take ─► ReadBuffer ─ cut ─► Bytes, sent by hyper ─ drop ─► the spare one of its ReadBuffers
//! ```

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

/// The place of the buffer that is free.
type SpareBuffer = Mutex<Option<Box<[u8]>>>;

/// The buffers of one answer. When it is dropped, its buffers end with the bytes that are still to be sent.
#[derive(Debug, Default)]
pub(super) struct ReadBuffers {
    spare: Arc<SpareBuffer>,
}

impl ReadBuffers {
    /// Returns a buffer of this many bytes: the spare one if it is as long, and otherwise a new one. Its content is
    /// zeros or bytes of the same answer.
    pub(super) fn take(&self, bytes: usize) -> ReadBuffer {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        let bytes = spare.filter(|spare| spare.len() == bytes).unwrap_or_else(|| vec![0; bytes].into());
        ReadBuffer { bytes, home: Arc::downgrade(&self.spare) }
    }
}

/// A buffer for a part of a file.
#[derive(Debug)]
pub(super) struct ReadBuffer {
    bytes: Box<[u8]>,
    home: Weak<SpareBuffer>,
}

impl ReadBuffer {
    /// Returns its first bytes, to read into.
    pub(super) fn first(&mut self, count: usize) -> &mut [u8] {
        let count = count.min(self.bytes.len());
        &mut self.bytes[..count]
    }

    /// Returns its first bytes, to send.
    pub(super) fn cut(self, count: usize) -> Bytes {
        let count = count.min(self.bytes.len());
        Bytes::from_owner(self).slice(..count)
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            *home.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_its_bytes_are_sent() {
        let buffers = ReadBuffers::default();
        let (mut sent, next) = (buffers.take(64), buffers.take(64));
        sent.first(3).copy_from_slice(b"abc");
        let (first, second) = (sent.as_ref().as_ptr(), next.as_ref().as_ptr());
        assert_ne!(first, second);
        let sent = sent.cut(3);
        assert_eq!(&sent[..], b"abc");
        drop(sent);
        let again = buffers.take(64);
        assert_eq!(again.as_ref().as_ptr(), first);
        drop((again, next));
        assert_eq!(buffers.take(64).as_ref().as_ptr(), second, "one is kept, the one that was sent last");
    }

    #[test]
    fn a_buffer_of_another_length_is_new_and_none_outlives_its_answer() {
        let buffers = ReadBuffers::default();
        drop(buffers.take(8));
        assert_eq!(buffers.take(64).as_ref(), [0; 64]);
        let late = buffers.take(64).cut(2);
        let home = Arc::downgrade(&buffers.spare);
        drop(buffers);
        assert!(home.upgrade().is_none());
        assert_eq!(&late[..], [0; 2]);
    }
}
