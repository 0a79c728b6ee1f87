//! Work on large JSON, beside the threads that answer machines.
//!
//! A document of some megabytes takes a core for tenths of a second: to read it, to judge it, to write it again. On the
//! threads of the runtime nothing else would be answered by that core meanwhile, no DHCP and no agent. So large work
//! takes one of a few places, and while it lasts another thread takes over what else its own was to do. Small work is
//! done at once, and so is all work where there are no other threads (simulations, tests).

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task;

/// What takes about a millisecond; everything below is not worth a place.
pub const HEAVY_BYTES: usize = 64 << 10;
/// Clients' work that is done at a time. With the places of other work that is less than twice the cores of a small
/// machine.
const CLIENT_PLACES: usize = 2;
/// Most conversions of this process's own objects at a time. Controllers do not wait behind clients.
const OWN_PLACES: usize = 2;

/// Places for heavy work of one sort.
#[derive(Debug)]
pub struct HeavyWork(Semaphore);

/// What clients of the API want.
pub(crate) static CLIENTS: HeavyWork = HeavyWork::new(CLIENT_PLACES);
/// What controllers write.
pub(crate) static OWN: HeavyWork = HeavyWork::new(OWN_PLACES);

impl HeavyWork {
    #[must_use]
    pub const fn new(places: usize) -> Self {
        Self(Semaphore::const_new(places))
    }

    /// Does something with so many bytes of JSON.
    pub async fn run<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        if bytes < HEAVY_BYTES || !has_other_threads() {
            return work();
        }
        // It is never closed.
        let place = self.0.acquire().await;
        let done = task::block_in_place(work);
        drop(place);
        done
    }
}

fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// More than its places is never done at a time, and the only worker goes on with what is small.
    #[test]
    fn heavy_work_keeps_no_worker_from_small_work() {
        static WORK: HeavyWork = HeavyWork::new(2);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut ends = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (end, over) = mpsc::channel::<()>();
            ends.push(end);
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            tasks.push(runtime.spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // Until its end is dropped.
                    assert!(over.recv().is_err());
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                WORK.run(HEAVY_BYTES, work).await;
            }));
        }
        let small = runtime.spawn(async { WORK.run(HEAVY_BYTES - 1, || 7).await });
        assert_eq!(runtime.block_on(small).unwrap(), 7, "while two are at work and two wait");
        drop(ends);
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
    }

    #[tokio::test]
    async fn without_other_threads_it_is_done_at_once() {
        assert_eq!(HeavyWork::new(0).run(HEAVY_BYTES, || 7).await, 7);
    }
}
