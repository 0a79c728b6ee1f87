//! Where a BMC has its sensors, as it was found at the first reading.

use std::time::Duration;

use tokio::time::Instant;

use super::Sensor;

/// The most drives that are followed.
pub(super) const DRIVES_MAX: usize = 48;
/// Drives that one reading asks for: each is a request, and their health changes seldom.
pub(super) const DRIVES_AT_ONCE: usize = 8;
/// What a drive said is used for so long: with [`DRIVES_AT_ONCE`] a minute each drive is asked once within it.
const DRIVE_KEPT: Duration = Duration::from_mins(6);
/// Parts are added and removed by people; then they are found after so long.
const FOUND_FOR: Duration = Duration::from_hours(1);
/// A resource that is not there any more has all looked for again, but not sooner than this: some link to what they
/// never show.
const MOVED_FOUND_FOR: Duration = Duration::from_mins(10);

/// Where a BMC has its sensors. It is empty at first; [`RedfishClient::sensors`](crate::RedfishClient::sensors) fills
/// it, and a caller keeps it from one reading to the next.
#[derive(Clone, Debug, Default)]
pub struct SensorLayout {
    pub(super) found_at: Option<Instant>,
    /// A resource that was found is not there any more, or not all were looked at.
    pub(super) is_moved: bool,
    pub(super) paths: SensorPaths,
    pub(super) drives: Vec<DriveSlot>,
    /// Drives that are not followed, because there are too many.
    pub(super) drives_left_out: usize,
    /// The drive that is asked first at the next reading.
    next_drive: usize,
}

/// Paths of resources, each with a reading in it.
#[derive(Clone, Debug, Default)]
pub(super) struct SensorPaths {
    pub(super) thermal: Vec<String>,
    pub(super) power: Vec<String>,
    pub(super) sensors: SensorMembers,
    pub(super) fans: SensorMembers,
    pub(super) supplies: SensorMembers,
    pub(super) environments: Vec<String>,
}

/// A collection, and where the service does not give it whole, its members.
#[derive(Clone, Debug, Default)]
pub(super) struct SensorMembers {
    /// Requests that read a whole collection.
    pub(super) whole: Vec<String>,
    pub(super) single: Vec<String>,
    /// Members that are not asked for, because there are too many.
    pub(super) left_out: usize,
}

/// A drive, and what it said last: nothing, where its bay is empty.
#[derive(Clone, Debug)]
pub(super) struct DriveSlot {
    pub(super) path: String,
    pub(super) last: Option<(Option<Sensor>, Instant)>,
}

impl SensorLayout {
    /// Says whether the sensors have to be looked for.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        let longest = if self.is_moved { MOVED_FOUND_FOR } else { FOUND_FOR };
        self.found_at.is_none_or(|at| now.duration_since(at) >= longest)
    }

    /// Takes in what was found. A search that was cut short does not replace a whole one whose resources are still there,
    /// and is repeated soon.
    pub(super) fn take(&mut self, paths: SensorPaths, drives: Vec<String>, is_cut: bool, now: Instant) {
        let is_whole_known = self.found_at.is_some() && !self.is_moved;
        if !(is_cut && is_whole_known) {
            self.paths = paths;
            self.set_drives(drives);
        }
        (self.found_at, self.is_moved) = (Some(now), is_cut);
    }

    /// Takes in the drives that are there now; what is known of those that stay is kept.
    pub(super) fn set_drives(&mut self, paths: Vec<String>) {
        let mut old = std::mem::take(&mut self.drives);
        let slot = |path: String| {
            let known = old.iter_mut().find(|slot| slot.path == path).and_then(|slot| slot.last.take());
            DriveSlot { path, last: known }
        };
        self.drives_left_out = paths.len().saturating_sub(DRIVES_MAX);
        self.drives = paths.into_iter().take(DRIVES_MAX).map(slot).collect();
    }

    /// Returns the drives whose turn it is, as places in [`Self::drives`].
    pub(super) fn turns(&self) -> Vec<usize> {
        let count = self.drives.len();
        (0..count.min(DRIVES_AT_ONCE)).map(|step| (self.next_drive + step) % count).collect()
    }

    /// Notes that a drive was asked: the next one begins the next turn.
    pub(super) fn had_turn(&mut self, place: usize) {
        self.next_drive = (place + 1) % self.drives.len().max(1);
    }

    /// Returns what the drives said that were asked lately.
    pub(super) fn known_drives(&self, now: Instant) -> Vec<Option<Sensor>> {
        let last = self.drives.iter().filter_map(|slot| slot.last.as_ref());
        last.filter(|(_, at)| now.duration_since(*at) < DRIVE_KEPT).map(|(sensor, _)| sensor.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensors::{SensorHealth, SensorKind};

    fn layout(count: usize) -> SensorLayout {
        let mut layout = SensorLayout::default();
        layout.set_drives((0..count).map(|number| format!("/redfish/v1/Drives/{number}")).collect());
        layout
    }

    #[test]
    fn drives_take_turns_and_each_is_asked_before_its_word_is_too_old() {
        for count in [0, 1, DRIVES_AT_ONCE, DRIVES_AT_ONCE + 1, DRIVES_MAX, 2 * DRIVES_MAX] {
            let mut layout = layout(count);
            let rounds = usize::try_from(DRIVE_KEPT.as_secs() / 60).unwrap_or_default();
            let mut asked = vec![0; layout.drives.len()];
            for _ in 0..rounds {
                let turns = layout.turns();
                assert!(turns.len() <= DRIVES_AT_ONCE);
                for place in turns {
                    asked[place] += 1;
                    layout.had_turn(place);
                }
            }
            assert!(asked.iter().all(|times| *times > 0), "{count}: {asked:?}");
        }
    }

    #[test]
    fn an_old_word_of_a_drive_is_none() {
        let mut layout = layout(2);
        let sensor = Sensor {
            kind: SensorKind::Drive,
            name: "SSD".to_owned(),
            value: None,
            health: Some(SensorHealth::Critical),
        };
        layout.drives[1].last = Some((Some(sensor.clone()), Instant::now()));
        assert_eq!(layout.known_drives(Instant::now()), vec![Some(sensor.clone())]);
        layout.set_drives(vec!["/redfish/v1/Drives/1".to_owned(), "/redfish/v1/Drives/7".to_owned()]);
        assert_eq!(layout.known_drives(Instant::now()), vec![Some(sensor)], "a drive that stays is still known");
        let later = Instant::now() + DRIVE_KEPT;
        assert_eq!(layout.known_drives(later), Vec::new());
    }

    #[test]
    fn a_search_that_was_cut_short_is_repeated_soon_and_hides_nothing_that_is_there() {
        let found = |path: &str| SensorPaths { thermal: vec![path.to_owned()], ..SensorPaths::default() };
        let (mut layout, now) = (SensorLayout::default(), Instant::now());
        let after = |time: Duration| now + time;
        layout.take(found("a"), Vec::new(), true, now);
        assert_eq!((layout.paths.thermal.as_slice(), layout.is_old(now)), (["a".to_owned()].as_slice(), false));
        assert!(layout.is_old(after(MOVED_FOUND_FOR)), "it was cut short");
        layout.take(found("b"), Vec::new(), false, after(MOVED_FOUND_FOR));
        assert!(!layout.is_old(after(FOUND_FOR)) && layout.is_old(after(FOUND_FOR + MOVED_FOUND_FOR)));
        layout.take(SensorPaths::default(), Vec::new(), true, after(2 * FOUND_FOR));
        assert_eq!(layout.paths.thermal, ["b"], "what was found whole stays");
        assert!(layout.is_old(after(2 * FOUND_FOR + MOVED_FOUND_FOR)));
        layout.take(found("c"), Vec::new(), true, after(3 * FOUND_FOR));
        assert_eq!(layout.paths.thermal, ["c"], "but not twice");
    }
}
