//! Follows the hosts and reads their sensors. What is decided is in [`crate::schedule`] and [`crate::samples`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_bmc::sensors::{SensorLayout, SensorReading};
use firesteel_plan::host::SensorInputs;
use firesteel_runtime::{
    ControllerError, Ending, HostEvents, HostInbox, HostKey, HostQueue, Runtime, SensorBoard, lock, opaque_debug,
};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, watch};

use crate::SensorSettings;
use crate::hosts::{SensorHost, SensorHosts};
use crate::samples::{SensorSamples, SensorSurvey};
use crate::schedule::{ReadingOutcome, SensorSchedule};

/// Why a host's sensors were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SensorFault {
    /// The BMC is in use, or its login is not known to be good.
    NotNow,
    /// There is nothing to read; why, in words.
    NotOffered(String),
    Failed(String),
}

/// How a reading ended, and where the sensors were found.
#[derive(Debug)]
pub struct SensorReadingResult {
    pub layout: SensorLayout,
    pub result: Result<SensorReading, SensorFault>,
}

/// Reads the sensors of one host.
pub trait SensorReader: Send + Sync {
    /// Reads once, in bounded time. `layout` is what the reading before found, or empty.
    fn read(&self, key: HostKey, layout: SensorLayout) -> BoxFuture<'static, SensorReadingResult>;
}

/// What the appliance gives to the controller.
pub struct SensorControllerConfig {
    pub runtime: Arc<dyn Runtime>,
    pub hosts: HostEvents,
    /// Where hosts are put that are to be stepped.
    pub queue: Arc<HostQueue<HostKey>>,
    pub board: SensorBoard,
    pub reader: Arc<dyn SensorReader>,
}

opaque_debug!(SensorControllerConfig, SensorController);

/// Reads the sensors of all hosts. Clones share it.
#[derive(Clone)]
pub struct SensorController(Arc<SensorControllerParts>);

struct SensorControllerParts {
    config: SensorControllerConfig,
    inbox: HostInbox,
    hosts: Mutex<SensorHosts>,
    hosts_changed: Notify,
    /// What is known while sensors are read.
    samples: Mutex<Option<SensorSamples>>,
}

/// How one reading ended.
struct EndedReading {
    key: HostKey,
    /// The number of the reading: one of a host that went since counts no more.
    number: u64,
    began: Duration,
    at: Timestamp,
    end: SensorReadingResult,
}

/// Reports the end of a reading when it is dropped, which a panic does too.
struct ReportedReading {
    ended: mpsc::UnboundedSender<EndedReading>,
    report: Option<EndedReading>,
}

impl Drop for ReportedReading {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            // Without a receiver the rounds have ended.
            drop(self.ended.send(report));
        }
    }
}

impl SensorController {
    #[must_use]
    pub fn new(config: SensorControllerConfig) -> Self {
        let inbox = config.hosts.subscribe();
        let hosts = Mutex::new(SensorHosts::new(inbox.clone()));
        let (hosts_changed, samples) = (Notify::new(), Mutex::default());
        Self(Arc::new(SensorControllerParts { config, inbox, hosts, hosts_changed, samples }))
    }

    /// Follows which hosts there are, whether sensors are read or not.
    ///
    /// # Errors
    /// Never; it does not end.
    pub fn follow_hosts(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(async move {
            loop {
                let is_changed = lock(&self.0.hosts).update();
                if is_changed {
                    self.0.hosts_changed.notify_one();
                }
                self.0.inbox.changed().await;
            }
        })
    }

    /// Reads in rounds until it is dropped; then nothing is known of sensors any more.
    ///
    /// # Errors
    /// Never; it does not end. A reading that panics is one that failed.
    pub async fn read_rounds(&self, mut settings: watch::Receiver<SensorSettings>) -> Result<(), ControllerError> {
        let now = *settings.borrow_and_update();
        *lock(&self.0.samples) = Some(SensorSamples::new(now));
        let _end = RoundsEnd(&self.0);
        let (ended, mut endings) = mpsc::unbounded_channel();
        let mut rounds = SensorRounds {
            parts: &self.0,
            schedule: SensorSchedule::new(now.every),
            hosts: BTreeMap::new(),
            hosts_version: None,
            readings: BTreeMap::new(),
            layouts: BTreeMap::new(),
            number: 0,
            ended,
        };
        loop {
            rounds.take_hosts();
            rounds.start_due();
            rounds.expire();
            let wake = rounds.wake_at();
            let runtime = &self.0.config.runtime;
            tokio::select! {
                biased;
                Some(one) = endings.recv() => rounds.take_end(one).await,
                () = self.0.hosts_changed.notified() => {}
                Ok(()) = settings.changed() => {
                    let settings = *settings.borrow_and_update();
                    rounds.set_settings(settings);
                }
                () = runtime.sleep_until(wake) => {}
            }
        }
    }

    /// Returns what is known of all hosts' sensors; `None` while none are read.
    #[must_use]
    pub fn survey(&self) -> Option<SensorSurvey> {
        lock(&self.0.samples).as_ref().map(SensorSamples::survey)
    }
}

/// Forgets what is known when the rounds end, however they do.
struct RoundsEnd<'a>(&'a SensorControllerParts);

impl Drop for RoundsEnd<'_> {
    fn drop(&mut self) {
        *lock(&self.0.samples) = None;
        self.0.config.board.clear().iter().for_each(|key| self.0.config.queue.wake(key));
    }
}

/// A reading under way; dropped, it ends.
struct RunningReading {
    number: u64,
    ending: Ending,
}

/// The rounds of one time in which sensors are read.
struct SensorRounds<'a> {
    parts: &'a SensorControllerParts,
    schedule: SensorSchedule,
    hosts: BTreeMap<HostKey, SensorHost>,
    /// The change of the hosts that was taken in last.
    hosts_version: Option<u64>,
    readings: BTreeMap<HostKey, RunningReading>,
    layouts: BTreeMap<HostKey, SensorLayout>,
    /// The number of the last reading.
    number: u64,
    ended: mpsc::UnboundedSender<EndedReading>,
}

/// The longest sleep, for clocks that are wrong.
const SLEEP_MAX: Duration = Duration::from_secs(60);

impl SensorRounds<'_> {
    fn uptime(&self) -> Duration {
        self.parts.config.runtime.uptime()
    }

    /// Takes in which hosts there are now.
    fn take_hosts(&mut self) {
        let (now, known) = {
            let hosts = lock(&self.parts.hosts);
            if self.hosts_version == Some(hosts.version()) {
                return;
            }
            self.hosts_version = Some(hosts.version());
            (self.uptime(), hosts.all().clone())
        };
        let gone: Vec<HostKey> = self.hosts.keys().filter(|key| !known.contains_key(*key)).cloned().collect();
        for key in gone {
            self.forget(&key);
            self.hosts.remove(&key);
            if self.parts.config.board.remove(&key) {
                self.parts.config.queue.wake(&key);
            }
        }
        for (key, host) in known {
            if self.hosts.get(&key) != Some(&host) {
                self.forget(&key);
                self.schedule.add(&key, &host.place, now);
                self.with_samples(|samples| samples.add(&key, &host.uid, now));
                // Nothing that people read changes before the first reading.
                self.parts.config.board.set(&key, &host.uid, SensorInputs::Awaited);
                self.hosts.insert(key, host);
            }
        }
    }

    fn forget(&mut self, key: &HostKey) {
        self.schedule.remove(key);
        self.readings.remove(key);
        self.layouts.remove(key);
        self.with_samples(|samples| samples.remove(key));
    }

    fn start_due(&mut self) {
        let began = self.uptime();
        for key in self.schedule.take_due(began) {
            self.number += 1;
            let (number, at) = (self.number, self.parts.config.runtime.now());
            let reading = self.parts.config.reader.read(key.clone(), self.layouts.remove(&key).unwrap_or_default());
            let badly = SensorReadingResult {
                layout: SensorLayout::default(),
                result: Err(SensorFault::Failed("the reading ended badly".to_owned())),
            };
            let report = Some(EndedReading { key: key.clone(), number, began, at, end: badly });
            let mut reported = ReportedReading { ended: self.ended.clone(), report };
            let ending = self.parts.config.runtime.spawn_outward(Box::pin(async move {
                let end = reading.await;
                if let Some(report) = &mut reported.report {
                    report.end = end;
                }
            }));
            self.readings.insert(key, RunningReading { number, ending });
        }
    }

    fn expire(&mut self) {
        let now = self.uptime();
        let expired = self.with_samples(|samples| samples.expire(now)).unwrap_or_default();
        for key in expired {
            tracing::warn!(host = %key, "the sensors of a host were not read for some minutes; nothing is said of them");
            self.publish(&key);
        }
    }

    /// The uptime at which something is to be done.
    fn wake_at(&self) -> Duration {
        let stale = self.with_samples(|samples| samples.poll_timeout()).flatten();
        let next = self.schedule.poll_timeout().into_iter().chain(stale).min();
        let latest = self.uptime() + SLEEP_MAX;
        next.map_or(latest, |at| at.min(latest))
    }

    async fn take_end(&mut self, one: EndedReading) {
        let EndedReading { key, number, began, at, end: SensorReadingResult { layout, result } } = one;
        if self.readings.get(&key).is_none_or(|running| running.number != number) {
            return;
        }
        if let Some(running) = self.readings.remove(&key)
            && let Err(error) = running.ending.await
        {
            // What one BMC answers is not to end the sensors of all hosts.
            tracing::error!(host = %key, %error, "a reading of the sensors of a host ended badly; it is tried again later");
        }
        self.layouts.insert(key.clone(), layout);
        let outcome = match result {
            Ok(reading) => {
                tracing::debug!(host = %key, sensors = reading.sensors.len(), left_out = reading.left_out, "sensors read");
                self.with_samples(|samples| samples.read(&key, reading, began, at));
                ReadingOutcome::Read
            }
            Err(SensorFault::NotNow) => ReadingOutcome::NotNow,
            Err(SensorFault::NotOffered(why)) => {
                tracing::debug!(host = %key, why, "a host has no sensors to read");
                self.with_samples(|samples| samples.not_offered(&key, &why));
                ReadingOutcome::NotOffered
            }
            Err(SensorFault::Failed(error)) => {
                tracing::info!(host = %key, error, "could not read the sensors of a host; it is tried again, less often");
                ReadingOutcome::Failed
            }
        };
        self.schedule.ended(&key, self.uptime(), outcome);
        self.publish(&key);
    }

    fn set_settings(&mut self, settings: SensorSettings) {
        self.schedule.set_every(settings.every, self.uptime());
        self.with_samples(|samples| samples.set_settings(settings));
    }

    /// Says to control what is known of a host, and has it looked at if that is news.
    fn publish(&self, key: &HostKey) {
        let SensorControllerConfig { board, queue, .. } = &self.parts.config;
        let is_news =
            self.with_samples(|samples| samples.inputs(key).is_some_and(|(uid, inputs)| board.set(key, uid, inputs)));
        if is_news == Some(true) {
            queue.wake(key);
        }
    }

    fn with_samples<T>(&self, with: impl FnOnce(&mut SensorSamples) -> T) -> Option<T> {
        lock(&self.parts.samples).as_mut().map(with)
    }
}

#[cfg(test)]
mod tests;
