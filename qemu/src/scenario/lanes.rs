//! Two lanes, in which scenarios run at the same time: most wait for one machine, and a computer has two cores at least.
//!
//! ```text
//!   scenarios with an appliance  ─► the first lane takes from the front,  in the lab's network namespace
//!                                ─► the second one from the back,         in a namespace of its own
//!   scenarios without one        ─► the second lane, before the others
//! ```

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::sync::oneshot;

use super::SelectedScenario;
use crate::lab::LabConfig;
use crate::os;
use crate::progress::{ProgressStep, print_status};

/// No log is as large; disks, images and what is stored of them are.
const LARGE_BYTES: u64 = 64 << 20;

/// Hears of each scenario as soon as it has ended: its name, how long it took, and why it failed.
pub type OnEnd = Arc<dyn Fn(&str, Duration, Option<&str>) + Send + Sync>;

/// Scenarios that no lane has taken so far.
#[derive(Debug, Default)]
struct ScenarioQueue {
    /// They have no appliance, and run one after the other.
    alone: VecDeque<SelectedScenario>,
    labs: VecDeque<SelectedScenario>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    First,
    Second,
}

impl ScenarioQueue {
    fn of(scenarios: &[SelectedScenario]) -> Self {
        let (alone, labs) = scenarios.iter().cloned().partition(SelectedScenario::wipes);
        Self { alone, labs }
    }

    fn take(&mut self, lane: Lane) -> Option<SelectedScenario> {
        match lane {
            Lane::First => self.labs.pop_front(),
            Lane::Second => self.alone.pop_front().or_else(|| self.labs.pop_back()),
        }
    }
}

/// Runs scenarios, all of them, and says which failed.
pub async fn run_all(scenarios: &[SelectedScenario], config: &LabConfig, on_end: &OnEnd) -> anyhow::Result<()> {
    let waiting = Arc::new(Mutex::new(ScenarioQueue::of(scenarios)));
    let second = {
        let (waiting, config, on_end) = (waiting.clone(), config.clone(), on_end.clone());
        in_network_of_its_own(move || async move { run_lane(Lane::Second, &waiting, &config, &on_end).await })
    };
    let (of_first, of_second) = tokio::join!(run_lane(Lane::First, &waiting, config, on_end), second);
    let failed = [of_first?, of_second??].concat();
    ensure!(failed.is_empty(), "these scenarios failed: {}", failed.join(", "));
    Ok(())
}

/// Runs scenarios one after the other until none waits. Returns the names of those that failed.
async fn run_lane(
    lane: Lane,
    waiting: &Mutex<ScenarioQueue>,
    config: &LabConfig,
    on_end: &OnEnd,
) -> anyhow::Result<Vec<String>> {
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).take(lane);
    let mut failed = Vec::new();
    while let Some(scenario) = next() {
        let step = ProgressStep::begin(format!("scenario {scenario}"));
        match scenario.run(config.clone()).await {
            Ok(()) => {
                on_end(&scenario.to_string(), step.elapsed(), None);
                step.end_with("passed");
            }
            Err(error) => {
                on_end(&scenario.to_string(), step.elapsed(), Some(&format!("{error:#}")));
                step.end_with("FAILED");
                print_status(&format!("{scenario}: {error:#}"));
                failed.push(scenario.to_string());
            }
        }
        // Disks and stores are large; logs of a failed scenario stay until the run ends.
        remove_large(&config.folder.join(scenario.to_string())).context("removing disks")?;
    }
    Ok(failed)
}

/// Does something on threads of its own, which are in a network namespace that ends with them. It is dropped as soon as
/// its result is not waited for any more.
async fn in_network_of_its_own<T, F>(work: impl FnOnce() -> F + Send + 'static) -> anyhow::Result<T>
where
    F: Future<Output = T>,
    T: Send + 'static,
{
    let (mut sender, receiver) = oneshot::channel();
    let run = move || {
        let entered = os::enter_private_network().context("making a network of its own for the second lane");
        // Threads that a thread starts are in its namespace.
        let runtime = entered.and_then(|()| {
            tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting a second runtime")
        });
        let done = match runtime {
            Ok(runtime) => runtime.block_on(async {
                tokio::select! {
                    done = work() => Some(Ok(done)),
                    () = sender.closed() => None,
                }
            }),
            Err(error) => Some(Err(error)),
        };
        // The other end is gone when the lab was interrupted.
        if let Some(done) = done {
            drop(sender.send(done));
        }
    };
    std::thread::Builder::new().name("lane".to_owned()).spawn(run).context("starting a thread")?;
    receiver.await.context("the second lane came to no end")?
}

/// Removes files that no scenario after this one needs room for. What goes away meanwhile is gone as
/// wanted: a process that ends may still remove its own sockets and logs of changes.
fn remove_large(folder: &Path) -> std::io::Result<()> {
    let Some(entries) = ignore_not_found(std::fs::read_dir(folder))? else { return Ok(()) };
    for entry in entries {
        let Some(entry) = ignore_not_found(entry)? else { continue };
        let Some(metadata) = ignore_not_found(entry.metadata())? else { continue };
        if metadata.is_dir() {
            remove_large(&entry.path())?;
        } else if metadata.len() > LARGE_BYTES {
            ignore_not_found(std::fs::remove_file(entry.path()))?;
        }
    }
    Ok(())
}

/// Nothing, for what is not there.
fn ignore_not_found<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::scenario::named;

    #[test]
    fn large_files_go_and_logs_stay() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("hosts/a");
        std::fs::create_dir_all(&host).unwrap();
        std::fs::write(host.join("serial.log"), "x").unwrap();
        std::fs::File::create(host.join("disk0.raw")).unwrap().set_len(LARGE_BYTES + 1).unwrap();
        remove_large(folder.path()).unwrap();
        assert!(host.join("serial.log").exists() && !host.join("disk0.raw").exists());
        remove_large(&folder.path().join("none")).unwrap();
    }

    #[test]
    fn lanes_meet_and_each_scenario_runs_once() {
        let names = ["life", "altered-block", "foreign-disks", "floods", "pool"];
        let scenarios: Vec<SelectedScenario> = names.iter().map(|name| named(name).unwrap()).collect();
        let mut waiting = ScenarioQueue::of(&scenarios);
        let mut take = |lane: Lane| waiting.take(lane).map(|scenario| scenario.to_string());
        assert_eq!([take(Lane::First), take(Lane::Second)].map(Option::unwrap), ["life", "foreign-disks"]);
        assert_eq!([take(Lane::Second), take(Lane::First)].map(Option::unwrap), ["pool", "altered-block"]);
        assert_eq!(take(Lane::First).as_deref(), Some("floods"));
        assert_eq!([take(Lane::First), take(Lane::Second)], [None, None]);
    }

    #[tokio::test]
    async fn work_that_ends_in_the_middle_is_an_error() {
        let gone: anyhow::Result<()> = in_network_of_its_own(|| async { panic!("the work ends in the middle") }).await;
        assert!(gone.is_err());
    }
}
