//! Time, chance and tasks: what controllers take from the process that they run in.
//!
//! Everything that would make two runs differ comes through [`Runtime`], so that a simulation can
//! run controllers on one thread, on a clock of its own and in an order drawn from a seed. The process
//! that serves uses [`Tokio`].

use std::task::{Context, Poll};
use std::{future::Future, pin::Pin, time::Duration};

use jiff::Timestamp;

/// Work to be done.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
/// The end of a task; an error says how it ended badly. Dropped early, it takes the task with it.
pub type Ending = Pin<Box<dyn Future<Output = Result<(), TaskError>> + Send>>;

/// A task ended badly, in the words of what ran it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TaskError(pub String);

/// What a process gives to its controllers: time, chance and tasks.
pub trait Runtime: Send + Sync {
    /// Reads the wall clock. It may be set, so nothing waits by it.
    fn now(&self) -> Timestamp;
    /// Reads a clock that only goes forward, from any start.
    fn uptime(&self) -> Duration;
    /// Ends at an uptime, or soon after.
    fn sleep_until(&self, uptime: Duration) -> Task;
    /// Draws random bits.
    fn entropy(&self) -> u128;
    /// Starts a task beside the others.
    fn spawn(&self, task: Task) -> Ending;
    /// Starts a task that speaks with an address that a user named: it must not take time from the others, however much
    /// it is sent.
    fn spawn_outward(&self, task: Task) -> Ending {
        self.spawn(task)
    }
}

/// Tokio's clock and tasks, the system's wall clock and random numbers.
#[derive(Clone, Debug)]
pub struct Tokio {
    started: tokio::time::Instant,
    /// The threads for tasks that speak with addresses that users named, where they have some.
    outward: Option<tokio::runtime::Handle>,
}

impl Tokio {
    #[must_use]
    pub fn new() -> Self {
        Self { started: tokio::time::Instant::now(), outward: None }
    }

    /// Runs outward tasks on the threads of another runtime.
    #[must_use]
    pub fn with_outward(self, outward: tokio::runtime::Handle) -> Self {
        Self { outward: Some(outward), ..self }
    }
}

impl Default for Tokio {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime for Tokio {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep_until(&self, uptime: Duration) -> Task {
        Box::pin(tokio::time::sleep_until(self.started + uptime))
    }

    fn entropy(&self) -> u128 {
        uuid::Uuid::new_v4().as_u128()
    }

    fn spawn(&self, task: Task) -> Ending {
        Box::pin(Spawned(tokio::spawn(task)))
    }

    fn spawn_outward(&self, task: Task) -> Ending {
        match &self.outward {
            Some(outward) => Box::pin(Spawned(outward.spawn(task))),
            None => self.spawn(task),
        }
    }
}

/// A task that ends with its handle.
struct Spawned(tokio::task::JoinHandle<()>);

impl Drop for Spawned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Future for Spawned {
    type Output = Result<(), TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.0).poll(context);
        ended.map_err(|error| TaskError(format!("a task of the control loop ended badly: {error}")))
    }
}

/// Waits so long.
pub async fn sleep(runtime: &dyn Runtime, duration: Duration) {
    runtime.sleep_until(runtime.uptime() + duration).await;
}

/// Returns the task's result, unless the time is over first.
pub async fn timeout<T>(runtime: &dyn Runtime, after: Duration, task: impl Future<Output = T>) -> Option<T> {
    let sleep = runtime.sleep_until(runtime.uptime() + after);
    tokio::pin!(task);
    tokio::select! {
        biased;
        result = &mut task => Some(result),
        () = sleep => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "tests")]
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_task_ends_with_its_handle_and_a_panic_is_told() {
        let runtime = Tokio::new();
        assert_eq!(runtime.spawn(Box::pin(async {})).await, Ok(()));
        let ended = runtime.spawn(Box::pin(async { panic!("on purpose") })).await;
        assert!(ended.expect_err("it panicked").to_string().contains("ended badly"));
        let held = Arc::new(());
        let in_task = Arc::clone(&held);
        let ending = runtime.spawn(Box::pin(async move {
            std::future::pending::<()>().await;
            drop(in_task);
        }));
        tokio::task::yield_now().await;
        drop(ending);
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn outward_tasks_run_on_their_own_threads() {
        let build = |name: &str| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).thread_name(name).enable_all().build().expect("threads")
        };
        let (shared, outward) = (build("shared"), build("outward"));
        let (say, said) = std::sync::mpsc::channel();
        let runtime = Tokio::new().with_outward(outward.handle().clone());
        shared.block_on(async {
            for is_outward in [false, true] {
                let say = say.clone();
                let task: Task = Box::pin(async move {
                    say.send(std::thread::current().name().map(str::to_owned)).expect("heard");
                });
                let ending = if is_outward { runtime.spawn_outward(task) } else { runtime.spawn(task) };
                ending.await.expect("it ends well");
            }
        });
        assert_eq!(said.try_iter().flatten().collect::<Vec<_>>(), ["shared", "outward"]);
    }

    #[tokio::test]
    async fn what_is_done_in_time_is_told_and_what_is_not_is_dropped() {
        let runtime = Tokio::new();
        assert_eq!(timeout(&runtime, Duration::from_secs(3600), async { 7 }).await, Some(7));
        assert_eq!(timeout(&runtime, Duration::ZERO, std::future::pending::<()>()).await, None);
    }
}
