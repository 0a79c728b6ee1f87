//! What is known of each host's sensors: the newest reading, and whether it is too old. It performs nothing; ages are
//! counted by uptimes, so that no clock that is set makes a reading young or old.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use firesteel_bmc::sensors::{Sensor, SensorHealth, SensorReading};
use firesteel_plan::host::{SensorInputs, SensorWord};
use firesteel_runtime::HostKey;
use jiff::Timestamp;

use crate::{SensorSettings, verdict};

/// A reading is fresh for so long (upstream's bound for stale metrics), or for two intervals if these are longer.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// The most sensors of all hosts together: each is two series of metrics.
pub(crate) const SENSORS_OF_ALL_MAX: usize = 65_536;
/// A sensor with its name, in memory.
const SENSOR_BYTES: usize = 192;
/// The most memory that sensors take.
pub const SENSORS_BYTES_MAX: usize = SENSORS_OF_ALL_MAX * SENSOR_BYTES;
/// Sensors that each host keeps beyond it: its worst ones.
const WORST_KEPT: usize = 4;

/// What is known of one host.
#[derive(Clone, Debug)]
struct KnownSensors {
    uid: String,
    /// When reading began, or when the newest reading was taken.
    since: Duration,
    last: Option<LastReading>,
    /// Why there is nothing to read.
    not_offered: Option<String>,
    is_stale: bool,
}

#[derive(Clone, Debug)]
struct LastReading {
    sensors: Arc<[Sensor]>,
    word: SensorWord,
    left_out: usize,
}

/// Says how old a host's newest reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostSampleState {
    /// The first reading is not over yet.
    Awaited,
    Fresh,
    /// It is too old to say how the machine is, or there is none.
    Stale,
    /// There is nothing to read.
    NotOffered,
}

impl HostSampleState {
    pub const ALL: [Self; 4] = [Self::Awaited, Self::Fresh, Self::Stale, Self::NotOffered];

    /// Returns the word for metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Awaited => "awaited",
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::NotOffered => "not-offered",
        }
    }
}

/// One host, as metrics show it.
#[derive(Clone, Debug)]
pub struct HostSample {
    pub key: HostKey,
    pub state: HostSampleState,
    /// When the newest reading was taken. Of a host that is stale and was never read it is 1970, so that an alert on old
    /// readings fires for it as well.
    pub at: Option<Timestamp>,
    /// The sensors of a fresh reading; of any other one none are shown.
    pub sensors: Arc<[Sensor]>,
}

/// All hosts at one moment.
#[derive(Clone, Debug)]
pub struct SensorSurvey {
    pub settings: SensorSettings,
    /// A reading that is older is stale.
    pub fresh_for: Duration,
    pub hosts: Vec<HostSample>,
    /// Sensors that are not shown, because there are too many or their BMC is slow.
    pub left_out: usize,
}

/// What is known of all hosts.
#[derive(Clone, Debug)]
pub(crate) struct SensorSamples {
    settings: SensorSettings,
    hosts: BTreeMap<HostKey, KnownSensors>,
    /// When each host's newest reading becomes stale.
    stale_at: BTreeSet<(Duration, HostKey)>,
    /// Sensors of all hosts.
    kept: usize,
}

impl SensorSamples {
    pub(crate) fn new(settings: SensorSettings) -> Self {
        Self { settings, hosts: BTreeMap::new(), stale_at: BTreeSet::new(), kept: 0 }
    }

    /// Changes the settings; what is too old by the new ones is found by [`Self::expire`].
    pub(crate) fn set_settings(&mut self, settings: SensorSettings) {
        self.settings = settings;
        let fresh_for = self.fresh_for();
        let known = self.hosts.iter().filter(|(_, host)| !host.is_stale && host.not_offered.is_none());
        self.stale_at = known.map(|(key, host)| (host.since + fresh_for, key.clone())).collect();
    }

    fn fresh_for(&self) -> Duration {
        FRESH_FOR.max(2 * self.settings.every)
    }

    /// Takes a host in, of which nothing is known yet.
    pub(crate) fn add(&mut self, key: &HostKey, uid: &str, now: Duration) {
        self.remove(key);
        let host = KnownSensors { uid: uid.to_owned(), since: now, last: None, not_offered: None, is_stale: false };
        self.hosts.insert(key.clone(), host);
        self.stale_at.insert((now + self.fresh_for(), key.clone()));
    }

    pub(crate) fn remove(&mut self, key: &HostKey) {
        let Some(host) = self.hosts.remove(key) else { return };
        self.stale_at.remove(&(host.since + self.fresh_for(), key.clone()));
        self.kept -= host.last.map_or(0, |last| last.sensors.len());
    }

    /// Takes a reading in that began at this uptime and this time.
    pub(crate) fn read(&mut self, key: &HostKey, reading: SensorReading, began: Duration, at: Timestamp) {
        let fresh_for = self.fresh_for();
        let Some(host) = self.hosts.get_mut(key) else { return };
        self.kept -= host.last.take().map_or(0, |last| last.sensors.len());
        let word = verdict::judge(&reading, at);
        let room = SENSORS_OF_ALL_MAX.saturating_sub(self.kept).max(WORST_KEPT);
        let SensorReading { sensors, left_out, .. } = reading;
        let (sensors, cut) = cut(sensors, room);
        self.kept += sensors.len();
        self.stale_at.remove(&(host.since + fresh_for, key.clone()));
        host.last = Some(LastReading { sensors: sensors.into(), word, left_out: left_out + cut });
        (host.since, host.is_stale, host.not_offered) = (began, false, None);
        self.stale_at.insert((began + fresh_for, key.clone()));
    }

    /// Notes that a host has nothing to read.
    pub(crate) fn not_offered(&mut self, key: &HostKey, why: &str) {
        let fresh_for = self.fresh_for();
        let Some(host) = self.hosts.get_mut(key) else { return };
        self.stale_at.remove(&(host.since + fresh_for, key.clone()));
        self.kept -= host.last.take().map_or(0, |last| last.sensors.len());
        host.not_offered = Some(why.to_owned());
    }

    /// Finds the hosts whose newest reading is too old now.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<HostKey> {
        let mut expired = Vec::new();
        while let Some((at, key)) = self.stale_at.first().cloned().filter(|(at, _)| *at <= now) {
            self.stale_at.remove(&(at, key.clone()));
            if let Some(host) = self.hosts.get_mut(&key) {
                host.is_stale = true;
                expired.push(key);
            }
        }
        expired
    }

    /// Returns when [`Self::expire`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.stale_at.first().map(|(at, _)| *at)
    }

    /// Returns the UID of a host, and what the planner may know of its sensors.
    pub(crate) fn inputs(&self, key: &HostKey) -> Option<(&str, SensorInputs)> {
        let host = self.hosts.get(key)?;
        let word = host.last.as_ref().map(|last| last.word.clone());
        let inputs = match (&host.not_offered, word) {
            (Some(why), _) => SensorInputs::NotOffered { why: why.clone() },
            (None, word) if host.is_stale => SensorInputs::Stale(word),
            (None, Some(word)) => SensorInputs::Fresh(word),
            (None, None) => SensorInputs::Awaited,
        };
        Some((host.uid.as_str(), inputs))
    }

    /// Returns what metrics show.
    pub(crate) fn survey(&self) -> SensorSurvey {
        let sample = |(key, host): (&HostKey, &KnownSensors)| {
            let state = match (&host.not_offered, &host.last) {
                (Some(_), _) => HostSampleState::NotOffered,
                (None, _) if host.is_stale => HostSampleState::Stale,
                (None, Some(_)) => HostSampleState::Fresh,
                (None, None) => HostSampleState::Awaited,
            };
            let shown = host.last.as_ref().filter(|_| state == HostSampleState::Fresh);
            let never = (state == HostSampleState::Stale).then_some(Timestamp::UNIX_EPOCH);
            HostSample {
                key: key.clone(),
                state,
                at: host.last.as_ref().map(|last| last.word.at).or(never),
                sensors: shown.map_or_else(|| Arc::from([]), |last| Arc::clone(&last.sensors)),
            }
        };
        SensorSurvey {
            settings: self.settings,
            fresh_for: self.fresh_for(),
            hosts: self.hosts.iter().map(sample).collect(),
            left_out: self.hosts.values().filter_map(|host| host.last.as_ref()).map(|last| last.left_out).sum(),
        }
    }
}

/// Keeps so many sensors, the worst of them first in choice, and says how many are cut.
fn cut(mut sensors: Vec<Sensor>, room: usize) -> (Vec<Sensor>, usize) {
    let cut = sensors.len().saturating_sub(room);
    if cut > 0 {
        sensors.sort_by_key(|sensor| std::cmp::Reverse(sensor.health > Some(SensorHealth::Ok)));
        sensors.truncate(room);
        sensors.sort_by_key(|sensor| sensor.kind);
    }
    (sensors, cut)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_bmc::sensors::SensorKind;

    use super::*;

    const SETTINGS: SensorSettings = SensorSettings { every: Duration::from_secs(60), with_alerts: true };

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "lab".into(), name: name.into() }
    }

    fn reading(count: usize, worst: SensorHealth) -> SensorReading {
        let sensor = |number: usize| Sensor {
            kind: SensorKind::Temperature,
            name: format!("T{number}"),
            value: None,
            health: Some(if number + 1 == count { worst } else { SensorHealth::Ok }),
        };
        SensorReading { sensors: (0..count).map(sensor).collect(), system: Some(SensorHealth::Ok), left_out: 0 }
    }

    fn second(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn state(samples: &SensorSamples, name: &str) -> &'static str {
        let survey = samples.survey();
        survey.hosts.iter().find(|host| host.key == key(name)).map_or("gone", |host| host.state.word())
    }

    #[test]
    fn a_reading_is_fresh_for_five_minutes_and_then_shows_no_sensor() {
        let mut samples = SensorSamples::new(SETTINGS);
        samples.add(&key("a"), "1", second(0));
        assert_eq!((state(&samples, "a"), samples.inputs(&key("a")).unwrap().1), ("awaited", SensorInputs::Awaited));
        samples.read(&key("a"), reading(3, SensorHealth::Warning), second(10), Timestamp::UNIX_EPOCH);
        assert_eq!(samples.poll_timeout(), Some(second(310)));
        assert!(samples.expire(second(309)).is_empty() && state(&samples, "a") == "fresh");
        assert_eq!(samples.expire(second(310)), [key("a")]);
        let survey = samples.survey();
        assert_eq!((survey.hosts[0].state, survey.hosts[0].sensors.len()), (HostSampleState::Stale, 0));
        assert_eq!(survey.hosts[0].at, Some(Timestamp::UNIX_EPOCH), "the time of the last sample stays");
        let (_, inputs) = samples.inputs(&key("a")).unwrap();
        assert!(matches!(inputs, SensorInputs::Stale(Some(word)) if word.word == "Warning"));
        samples.read(&key("a"), reading(3, SensorHealth::Ok), second(400), Timestamp::UNIX_EPOCH);
        assert_eq!(state(&samples, "a"), "fresh");
    }

    #[test]
    fn a_host_that_is_never_read_is_stale_too_and_one_without_sensors_is_not() {
        let mut samples = SensorSamples::new(SETTINGS);
        samples.add(&key("a"), "1", second(0));
        samples.add(&key("b"), "2", second(0));
        samples.not_offered(&key("b"), "the BMC speaks IPMI");
        assert_eq!(samples.survey().hosts[0].at, None);
        assert_eq!(samples.expire(second(300)), [key("a")]);
        let hosts = samples.survey().hosts;
        assert_eq!((hosts[0].at, hosts[1].at), (Some(Timestamp::UNIX_EPOCH), None), "the alert sees it");
        assert_eq!(samples.inputs(&key("a")).unwrap().1, SensorInputs::Stale(None));
        assert_eq!((state(&samples, "b"), samples.poll_timeout()), ("not-offered", None));
        samples.remove(&key("b"));
        assert_eq!(state(&samples, "b"), "gone");
    }

    #[test]
    fn with_a_long_interval_readings_are_fresh_for_two() {
        let mut samples = SensorSamples::new(SensorSettings { every: second(600), ..SETTINGS });
        samples.add(&key("a"), "1", second(0));
        samples.read(&key("a"), reading(1, SensorHealth::Ok), second(0), Timestamp::UNIX_EPOCH);
        assert_eq!((samples.poll_timeout(), samples.survey().fresh_for), (Some(second(1200)), second(1200)));
        samples.set_settings(SETTINGS);
        assert_eq!(samples.expire(second(301)), [key("a")], "by the new settings");
    }

    #[test]
    fn all_sensors_together_are_bounded_and_bad_ones_stay() {
        let mut samples = SensorSamples::new(SETTINGS);
        let hosts = SENSORS_OF_ALL_MAX / 128 + 10;
        for number in 0..hosts {
            let name = key(&format!("h{number:04}"));
            samples.add(&name, "1", second(0));
            samples.read(&name, reading(128, SensorHealth::Critical), second(0), Timestamp::UNIX_EPOCH);
        }
        let survey = samples.survey();
        let shown: usize = survey.hosts.iter().map(|host| host.sensors.len()).sum();
        assert!(shown <= SENSORS_OF_ALL_MAX + 10 * WORST_KEPT, "{shown}");
        assert_eq!(survey.left_out, hosts * 128 - shown);
        let is_bad = |host: &HostSample| host.sensors.iter().any(|one| one.health == Some(SensorHealth::Critical));
        assert!(survey.hosts.iter().all(is_bad));
        for host in &survey.hosts {
            samples.remove(&host.key);
        }
        assert_eq!(samples.kept, 0);
    }
}
