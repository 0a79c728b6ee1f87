//! Runs the appliance's tasks on this thread: which of those that are ready goes next is drawn from
//! the seed, and time stands still while any is ready.
//!
//! Each task belongs to one life of the appliance. A life ends by dropping its tasks where they
//! are, as `kill -9` does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use firesteel_runtime::{Ending, Runtime, Task, TaskError};
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::random::Random;

/// 2027-01-15; nothing depends on it.
const WALL_CLOCK_START_S: i64 = 1_800_000_000;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
pub(crate) struct Executor(Arc<Shared>);

/// Why tasks are no longer polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Idle,
    Halted,
    Paused,
}

struct Shared {
    now_us: AtomicU64,
    halted: AtomicBool,
    paused: AtomicBool,
    ready: Mutex<Vec<Arc<Ticket>>>,
    timers: Mutex<BinaryHeap<Reverse<Timer>>>,
    tasks: Mutex<Vec<Option<Entry>>>,
    random: Mutex<Random>,
    count: AtomicU64,
}

struct Entry {
    number: u64,
    life: u64,
    /// Absent while it is polled.
    task: Option<Task>,
    ticket: Arc<Ticket>,
}

struct Ticket {
    place: usize,
    number: u64,
    queued: AtomicBool,
    shared: Weak<Shared>,
}

impl Wake for Ticket {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed)
            && let Some(shared) = self.shared.upgrade()
        {
            lock(&shared.ready).push(self);
        }
    }
}

struct Timer {
    at_us: u64,
    number: u64,
    bell: Weak<Mutex<Option<Waker>>>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at_us, self.number) == (other.at_us, other.number)
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.number).cmp(&(other.at_us, other.number))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Executor {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Shared {
            now_us: AtomicU64::new(0),
            halted: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            ready: Mutex::default(),
            timers: Mutex::default(),
            tasks: Mutex::default(),
            random: Mutex::new(Random::new(seed)),
            count: AtomicU64::new(0),
        }))
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_micros(self.0.now_us.load(Ordering::Relaxed))
    }

    /// The wall clock, which nobody sets here.
    pub(crate) fn wall(&self) -> Timestamp {
        let start = Timestamp::from_second(WALL_CLOCK_START_S).unwrap_or_default();
        start.checked_add(self.now()).unwrap_or(start)
    }

    /// Goes on to a time and wakes who waits for it; whether somebody did.
    pub(crate) fn advance(&self, to: Duration) -> bool {
        let to_us = micros(to);
        self.0.now_us.store(to_us, Ordering::Relaxed);
        let mut bells = Vec::new();
        {
            let mut timers = lock(&self.0.timers);
            while timers.peek().is_some_and(|timer| timer.0.at_us <= to_us) {
                bells.extend(timers.pop().and_then(|timer| timer.0.bell.upgrade()));
            }
        }
        let rung = !bells.is_empty();
        for bell in bells {
            if let Some(waker) = lock(&bell).take() {
                waker.wake();
            }
        }
        rung
    }

    /// When somebody wants to be woken next.
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        let mut timers = lock(&self.0.timers);
        while timers.peek().is_some_and(|timer| timer.0.bell.strong_count() == 0) {
            timers.pop();
        }
        timers.peek().map(|timer| Duration::from_micros(timer.0.at_us))
    }

    pub(crate) fn spawn(&self, life: u64, task: Task) -> (usize, u64) {
        let number = self.0.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut tasks = lock(&self.0.tasks);
        let place = tasks.iter().position(Option::is_none).unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() - 1
        });
        let ticket = Arc::new(Ticket { place, number, queued: AtomicBool::new(true), shared: Arc::downgrade(&self.0) });
        lock(&self.0.ready).push(Arc::clone(&ticket));
        tasks[place] = Some(Entry { number, life, task: Some(task), ticket });
        (place, number)
    }

    /// Stops after the poll under way: the life is about to end in the middle of something.
    pub(crate) fn halt(&self) {
        self.0.halted.store(true, Ordering::Relaxed);
    }

    /// Stops after the poll under way, and goes on with the next run: somebody wants to act in between.
    pub(crate) fn pause(&self) {
        self.0.paused.store(true, Ordering::Relaxed);
    }

    /// Polls until nothing is ready, or somebody stops it.
    pub(crate) fn run(&self) -> Stop {
        loop {
            if self.0.halted.swap(false, Ordering::Relaxed) {
                return Stop::Halted;
            }
            if self.0.paused.swap(false, Ordering::Relaxed) {
                return Stop::Paused;
            }
            let ticket = {
                let mut ready = lock(&self.0.ready);
                if ready.is_empty() {
                    return Stop::Idle;
                }
                let chosen = lock(&self.0.random).below(ready.len());
                ready.swap_remove(chosen)
            };
            self.poll(&ticket);
        }
    }

    fn poll(&self, ticket: &Arc<Ticket>) {
        ticket.queued.store(false, Ordering::Relaxed);
        let task = match lock(&self.0.tasks).get_mut(ticket.place) {
            Some(Some(entry)) if entry.number == ticket.number => entry.task.take(),
            Some(_) | None => None,
        };
        let Some(mut task) = task else { return };
        let waker = Waker::from(Arc::clone(ticket));
        let done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut tasks = lock(&self.0.tasks);
        match tasks.get_mut(ticket.place) {
            Some(slot) if slot.as_ref().is_some_and(|entry| entry.number == ticket.number) => {
                let finished = if done {
                    slot.take()
                } else {
                    if let Some(entry) = slot {
                        entry.task = Some(task);
                    }
                    None
                };
                drop(tasks);
                drop(finished);
            }
            Some(_) | None => {}
        }
    }

    fn cancel(&self, place: usize, number: u64) {
        let taken = match lock(&self.0.tasks).get_mut(place) {
            Some(slot) if slot.as_ref().is_some_and(|entry| entry.number == number) => slot.take(),
            Some(_) | None => None,
        };
        // Dropped without the lock: what it holds may cancel others.
        drop(taken);
    }

    /// Ends a life.
    pub(crate) fn kill(&self, life: u64) {
        self.0.halted.store(false, Ordering::Relaxed);
        let taken: Vec<Entry> = {
            let mut tasks = lock(&self.0.tasks);
            let of_life = |slot: &&mut Option<Entry>| slot.as_ref().is_some_and(|entry| entry.life == life);
            tasks.iter_mut().filter(of_life).filter_map(Option::take).collect()
        };
        for entry in &taken {
            entry.ticket.queued.store(true, Ordering::Relaxed);
        }
        drop(taken);
    }

    /// Lets other tasks go first, sometimes: the order in which a disk answers.
    pub(crate) fn yield_sometimes(&self) -> Task {
        let times = lock(&self.0.random).below(3);
        Box::pin(Yield(times))
    }

    fn sleep_until(&self, at: Duration) -> Task {
        Box::pin(Sleep { executor: self.clone(), at, bell: None })
    }
}

struct Yield(usize);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Sleep {
    executor: Executor,
    at: Duration,
    bell: Option<Arc<Mutex<Option<Waker>>>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.executor.now() >= self.at {
            return Poll::Ready(());
        }
        match &self.bell {
            Some(bell) => *lock(bell) = Some(context.waker().clone()),
            None => {
                let bell = Arc::new(Mutex::new(Some(context.waker().clone())));
                let number = self.executor.0.count.fetch_add(1, Ordering::Relaxed);
                let timer = Timer { at_us: micros(self.at), number, bell: Arc::downgrade(&bell) };
                lock(&self.executor.0.timers).push(Reverse(timer));
                self.bell = Some(bell);
            }
        }
        Poll::Pending
    }
}

/// Time, chance and tasks of one life.
pub(crate) struct Life {
    pub(crate) executor: Executor,
    pub(crate) number: u64,
    pub(crate) random: Mutex<Random>,
    /// A planted bug: nobody is woken later than this.
    pub(crate) deaf_after: Option<Duration>,
}

impl Runtime for Life {
    fn now(&self) -> Timestamp {
        self.executor.wall()
    }

    fn uptime(&self) -> Duration {
        self.executor.now()
    }

    fn sleep_until(&self, uptime: Duration) -> Task {
        if self.deaf_after.is_some_and(|longest| uptime.saturating_sub(self.executor.now()) > longest) {
            return Box::pin(std::future::pending());
        }
        self.executor.sleep_until(uptime)
    }

    fn entropy(&self) -> u128 {
        lock(&self.random).bits()
    }

    fn spawn(&self, task: Task) -> Ending {
        let (done, ended) = oneshot::channel();
        let (place, number) = self.executor.spawn(
            self.number,
            Box::pin(async move {
                task.await;
                // Nobody waits for a task whose handle has gone.
                let _told = done.send(());
            }),
        );
        Box::pin(Handle { executor: self.executor.clone(), place, number, ended })
    }
}

struct Handle {
    executor: Executor,
    place: usize,
    number: u64,
    ended: oneshot::Receiver<()>,
}

impl Future for Handle {
    type Output = Result<(), TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.ended)
            .poll(context)
            .map(|ended| ended.map_err(|_| TaskError("a task was cancelled".to_owned())))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.executor.cancel(self.place, self.number);
    }
}
