//! The appliance's clock as its store knows it: whether it may be right ([`firesteel_plan::clock`] judges that), and
//! how old the store is.
//!
//! ```text
//!   wall clock ──► doubt? ── no ──► newest time ─┐
//!   uptime ──────► age of the store ─────────────┴─► the store, once a minute
//! ```
//!
//! What a doubted clock shows is not recorded: the newest time stays, and with it the doubt, until the clock is set or
//! a person says that it is right ([`StoreClock::accept`]).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_kube::Core;
use firesteel_plan::clock::{self, ClockDoubt};
use firesteel_store::{CommitError, RecordedTime};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Mutex as AsyncMutex, Notify};

use crate::{Runtime, lock};

/// A process that is killed loses so much of the store's age at most.
const RECORDED_EVERY: Duration = Duration::from_secs(60);

/// Knows the appliance's clock as the store does. Clones share it.
#[derive(Clone)]
pub struct StoreClock(Arc<StoreClockParts>);

struct StoreClockParts {
    core: Core,
    runtime: Arc<dyn Runtime>,
    built: Timestamp,
    /// The age of the store when the uptime was [`Self::began`].
    age_then: SignedDuration,
    began: Duration,
    newest: Mutex<Option<Timestamp>>,
    /// One writes at a time.
    writing: AsyncMutex<()>,
    accepted: Notify,
}

crate::opaque_debug!(StoreClock);

/// A person's word that the clock is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedClock {
    /// What the clock shows.
    pub now: Timestamp,
    /// The time in the store that spoke against it.
    pub newest: Timestamp,
}

/// Why a clock cannot be accepted.
#[derive(Debug, thiserror::Error)]
pub enum ClockNotAccepted {
    #[error("nothing speaks against the appliance's clock, which shows {now:.0}: there is nothing to accept")]
    NotDoubted { now: Timestamp },
    #[error("the appliance's clock shows {now:.0} and its program was built at {built:.0}: set the clock")]
    BeforeBuild { now: Timestamp, built: Timestamp },
    #[error("could not store that the clock is right: free space on the disk of the data folder, and try again")]
    Store(#[source] CommitError),
}

impl StoreClock {
    /// Takes up what the store has recorded. `built`: when this program was built.
    #[must_use]
    pub fn new(core: &Core, runtime: Arc<dyn Runtime>, built: Timestamp) -> Self {
        let RecordedTime { newest_ms, age_ms } = core.store().recorded_time();
        let newest = Some(newest_ms).filter(|newest| *newest > 0).and_then(|at| Timestamp::from_millisecond(at).ok());
        let age_then = clock::age_at_start(SignedDuration::from_millis(age_ms), newest, runtime.now());
        Self(Arc::new(StoreClockParts {
            core: core.clone(),
            began: runtime.uptime(),
            runtime,
            built,
            age_then,
            newest: Mutex::new(newest),
            writing: AsyncMutex::new(()),
            accepted: Notify::new(),
        }))
    }

    /// Why the clock is not believed now.
    #[must_use]
    pub fn doubt(&self) -> Option<ClockDoubt> {
        clock::doubt(self.0.runtime.now(), self.0.built, self.newest())
    }

    /// How old the store is, in seconds. No clock moves it.
    #[must_use]
    pub fn age_s(&self) -> u64 {
        u64::try_from(self.age().as_secs()).unwrap_or_default()
    }

    /// Records the time, unless the clock is doubted, and the age of the store.
    pub async fn record(&self) {
        let _one = self.0.writing.lock().await;
        let newest = match (self.doubt(), self.newest()) {
            (Some(_), newest) => newest,
            (None, newest) => Some(newest.map_or(self.0.runtime.now(), |newest| newest.max(self.0.runtime.now()))),
        };
        // For this process it counts, whether it can be written or not.
        self.set_newest(newest);
        if let Err(error) = self.write(newest).await {
            tracing::warn!(%error, "could not record the time in the store; it is tried again in a minute");
        }
    }

    /// Takes a person's word that the clock is right, whatever the store says.
    ///
    /// # Errors
    /// When it is not doubted, is before the program's build, or the word cannot be stored.
    pub async fn accept(&self) -> Result<AcceptedClock, ClockNotAccepted> {
        let _one = self.0.writing.lock().await;
        let now = self.0.runtime.now();
        let newest = match self.doubt() {
            Some(ClockDoubt::BehindStore { newest }) => newest,
            Some(ClockDoubt::BeforeBuild { built }) => return Err(ClockNotAccepted::BeforeBuild { now, built }),
            None => return Err(ClockNotAccepted::NotDoubted { now }),
        };
        self.write(Some(now)).await.map_err(ClockNotAccepted::Store)?;
        self.set_newest(Some(now));
        self.0.accepted.notify_one();
        tracing::warn!(%now, %newest, "a person says that the clock is right");
        Ok(AcceptedClock { now, newest })
    }

    /// Records the time each minute, and returns as soon as the doubt is another one than this.
    pub async fn changed(&self, known: Option<ClockDoubt>) -> Option<ClockDoubt> {
        loop {
            let doubt = self.doubt();
            if doubt != known {
                return doubt;
            }
            self.record().await;
            let runtime = &self.0.runtime;
            let minute = runtime.sleep_until(runtime.uptime() + RECORDED_EVERY);
            tokio::select! {
                biased;
                () = self.0.accepted.notified() => {}
                () = minute => {}
            }
        }
    }

    async fn write(&self, newest: Option<Timestamp>) -> Result<(), CommitError> {
        let age_ms = i64::try_from(self.age().as_millis()).unwrap_or(i64::MAX);
        let time = RecordedTime { newest_ms: newest.map_or(0, Timestamp::as_millisecond), age_ms };
        self.0.core.store().record_time(time).await
    }

    fn age(&self) -> SignedDuration {
        let up = self.0.runtime.uptime().saturating_sub(self.0.began);
        self.0.age_then.saturating_add(SignedDuration::try_from(up).unwrap_or(SignedDuration::MAX))
    }

    fn newest(&self) -> Option<Timestamp> {
        *lock(&self.0.newest)
    }

    fn set_newest(&self, newest: Option<Timestamp>) {
        *lock(&self.0.newest) = newest;
    }
}

/// Logs that the clock is doubted, or that it is not any more.
pub fn log_doubt(doubt: Option<ClockDoubt>) {
    match doubt {
        Some(doubt) => tracing::error!(reason = doubt.word(), "{doubt}"),
        None => tracing::warn!("the appliance's clock is not doubted any more"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use firesteel_kube::Registry;
    use firesteel_store::{MemoryMedium, Store};

    use super::*;
    use crate::{Ending, Task};

    const BUILT_S: i64 = 1_800_000_000;
    const YEAR_S: i64 = 365 * 24 * 3600;

    /// Both clocks stand until a test moves them.
    #[derive(Default)]
    struct Hands {
        wall_s: AtomicI64,
        uptime_s: AtomicU64,
    }

    impl Runtime for Hands {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(self.wall_s.load(Ordering::SeqCst)).unwrap()
        }

        fn uptime(&self) -> Duration {
            Duration::from_secs(self.uptime_s.load(Ordering::SeqCst))
        }

        fn sleep_until(&self, _: Duration) -> Task {
            Box::pin(std::future::pending())
        }

        fn entropy(&self) -> u128 {
            0
        }

        fn spawn(&self, _: Task) -> Ending {
            Box::pin(async { Ok(()) })
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A life of the process that begins by this clock.
    fn start(memory: &MemoryMedium, wall_s: i64) -> (StoreClock, Arc<Hands>) {
        let core = Core::new(Store::in_memory(memory), Registry::default());
        let hands = Arc::new(Hands::default());
        hands.wall_s.store(wall_s, Ordering::SeqCst);
        hands.uptime_s.store(1000, Ordering::SeqCst);
        let runtime: Arc<dyn Runtime> = hands.clone();
        (StoreClock::new(&core, runtime, at(BUILT_S)), hands)
    }

    #[tokio::test]
    async fn a_life_with_a_wrong_clock_is_doubted_by_the_next_until_a_person_accepts_it() {
        let memory = MemoryMedium::new();
        let (early, _) = start(&memory, BUILT_S - 1);
        early.record().await;
        assert_eq!(early.doubt(), Some(ClockDoubt::BeforeBuild { built: at(BUILT_S) }));
        assert!(matches!(early.accept().await, Err(ClockNotAccepted::BeforeBuild { .. })), "no word makes that right");

        let (ahead, _) = start(&memory, BUILT_S + 20 * YEAR_S);
        assert_eq!(
            ahead.doubt(),
            None,
            "what a doubted clock shows was not recorded, and this one looks like a long time off"
        );
        ahead.record().await;

        let (right, hands) = start(&memory, BUILT_S + 60);
        let doubt = Some(ClockDoubt::BehindStore { newest: at(BUILT_S + 20 * YEAR_S) });
        right.record().await;
        assert_eq!(right.doubt(), doubt, "recording the time does not end it");
        let again = start(&memory, BUILT_S + 120).0;
        assert_eq!(again.doubt(), doubt, "nor does a restart");
        let accepted = AcceptedClock { now: at(BUILT_S + 60), newest: at(BUILT_S + 20 * YEAR_S) };
        assert_eq!(right.accept().await.unwrap(), accepted);
        assert_eq!(right.doubt(), None);
        assert!(matches!(right.accept().await, Err(ClockNotAccepted::NotDoubted { .. })));
        assert_eq!(start(&memory, BUILT_S + 180).0.doubt(), None, "the word is stored");
        // The same clock goes back while the process runs.
        hands.wall_s.store(BUILT_S + 60 - 3601, Ordering::SeqCst);
        assert!(right.doubt().is_some());
    }

    #[tokio::test]
    async fn the_store_ages_by_the_process_and_no_clock_moves_it() {
        let memory = MemoryMedium::new();
        let (first, hands) = start(&memory, BUILT_S);
        assert_eq!(first.age_s(), 0);
        hands.uptime_s.fetch_add(90, Ordering::SeqCst);
        hands.wall_s.fetch_add(20 * YEAR_S, Ordering::SeqCst);
        assert_eq!(first.age_s(), 90, "whatever the clock says");
        first.record().await;
        assert_eq!(start(&memory, BUILT_S + 20 * YEAR_S + 30).0.age_s(), 120, "half a minute switched off");
        assert_eq!(start(&memory, BUILT_S + 60 * YEAR_S).0.age_s(), 90 + 24 * 3600, "a day at most");
        assert_eq!(start(&memory, BUILT_S).0.age_s(), 90, "and never backwards");
    }

    #[tokio::test]
    async fn who_follows_the_clock_hears_of_a_doubt_and_of_a_persons_word() {
        let memory = MemoryMedium::new();
        start(&memory, BUILT_S + YEAR_S).0.record().await;
        let (clock, _) = start(&memory, BUILT_S);
        let doubt = clock.changed(None).await;
        assert_eq!(doubt, Some(ClockDoubt::BehindStore { newest: at(BUILT_S + YEAR_S) }));
        let (heard, accepted) = tokio::join!(clock.changed(doubt), clock.accept());
        assert!(heard.is_none() && accepted.is_ok());
    }
}
