//! The loops of a controller and the tasks that it starts beside them. They end together, with the first failure.

use std::{future::Future, pin::Pin, sync::Mutex};

use firesteel_kube::Status;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;

use crate::lock;
use crate::process::{Ending, Runtime, Task, TaskError};

/// Why a controller ended.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The store failed, or cannot be followed any more.
    #[error("{}", .0.message)]
    Store(Status),
    #[error(transparent)]
    Task(#[from] TaskError),
    /// It was started before.
    #[error("{0}")]
    Running(&'static str),
}

impl From<Status> for ControllerError {
    fn from(status: Status) -> Self {
        Self::Store(status)
    }
}

/// A loop of a controller. Its failure ends all others.
pub type Loop = Pin<Box<dyn Future<Output = Result<(), ControllerError>> + Send>>;

/// Says on which threads a task runs.
#[derive(Clone, Copy, Debug)]
enum TaskThreads {
    /// Those of control and of whatever serves hosts.
    Shared,
    /// Those for what is said to addresses that users name.
    Outward,
}

/// Starts tasks that end with the controller.
pub struct Tasks {
    tasks: mpsc::UnboundedSender<(TaskThreads, Task)>,
    tasks_end: Mutex<Option<mpsc::UnboundedReceiver<(TaskThreads, Task)>>>,
}

crate::opaque_debug!(Tasks);

impl Default for Tasks {
    fn default() -> Self {
        let (tasks, tasks_end) = mpsc::unbounded_channel();
        Self { tasks, tasks_end: Mutex::new(Some(tasks_end)) }
    }
}

impl Tasks {
    /// Has something done beside the loops; it ends with them.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.send(TaskThreads::Shared, Box::pin(task));
    }

    /// Does the same on threads of their own: what is said to a BMC or an origin of images may take all of a thread's
    /// time.
    pub fn spawn_outward(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.send(TaskThreads::Outward, Box::pin(task));
    }

    fn send(&self, threads: TaskThreads, task: Task) {
        if self.tasks.send((threads, task)).is_err() {
            tracing::debug!("a task came after the control loop ended");
        }
    }

    /// Runs loops and tasks until the first of them fails or panics.
    ///
    /// # Errors
    /// What failed.
    pub async fn run(&self, runtime: &dyn Runtime, loops: Vec<Loop>) -> Result<(), ControllerError> {
        let tasks_end = lock(&self.tasks_end).take();
        let mut tasks_end =
            tasks_end.ok_or(ControllerError::Running("a controller is running already: its tasks are taken"))?;
        let (failures, mut failed) = mpsc::unbounded_channel();
        let mut tasks: FuturesUnordered<Ending> = FuturesUnordered::new();
        for one in loops {
            tasks.push(runtime.spawn(watched(one, &failures)));
        }
        loop {
            tokio::select! {
                biased;
                Some(error) = failed.recv() => return Err(error),
                Some(ended) = tasks.next() => ended?,
                Some((threads, task)) = tasks_end.recv() => tasks.push(match threads {
                    TaskThreads::Shared => runtime.spawn(task),
                    TaskThreads::Outward => runtime.spawn_outward(task),
                }),
            }
        }
    }
}

/// A loop whose failure ends all others.
fn watched(one: Loop, failures: &mpsc::UnboundedSender<ControllerError>) -> Task {
    let failures = failures.clone();
    Box::pin(async move {
        if let Err(error) = one.await {
            // It is heard, unless another part failed first.
            drop(failures.send(error));
        }
    })
}
