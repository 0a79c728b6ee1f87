//! Which machines without an owner the store remembers, and how often it is written for them. Pure.
//!
//! Any client on the network can say hello for a machine that is not there. So the table is bounded in machines and in
//! bytes, and a machine that is new takes the place of the one that was silent for longest: an agent that waits for its
//! adoption reports every few seconds, and is never the most silent one. What is written for all of them together is
//! paced. Machines with another owner's data on them, which people must not overlook, keep their places: there are no
//! more of these than hosts that were let go.

use std::collections::BTreeMap;

use firesteel_facts::Mac;
use firesteel_resources::hardware::HardwareRecord;
use jiff::{SignedDuration, Timestamp};

/// Most machines that are remembered.
pub const DISCOVERED_MAX: usize = 1024;
/// Bytes of all of them: as many with usual records, a hundred with the largest.
const DISCOVERED_BYTES_MAX: usize = 8 << 20;
/// The most bytes of one inspection. An adopted machine is inspected again, and its record is kept whole.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// Writes at once, and one more so often: two hundred machines that are switched on together are all inspected within
/// half a minute, and a flood leaves the disk to others.
const WRITES_AT_ONCE: u32 = 512;
const WRITE_EVERY: SignedDuration = SignedDuration::from_millis(60);

/// Nothing is known before the store was read.
#[derive(Debug, Default)]
pub(crate) struct RememberedStrangers {
    is_read: bool,
    machines: BTreeMap<Mac, RememberedStranger>,
    pace: WritePace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RememberedStranger {
    heard_at: Timestamp,
    bytes: usize,
    /// Another owner's data is on it.
    is_kept: bool,
}

impl RememberedStrangers {
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Takes in what is stored of a machine, as it was read.
    pub(crate) fn read(&mut self, mac: Mac, heard_at: Timestamp, bytes: usize, is_kept: bool) {
        let known = self.machines.get(&mac).map_or(heard_at, |known| known.heard_at.max(heard_at));
        self.machines.insert(mac, RememberedStranger { heard_at: known, bytes, is_kept });
    }

    /// All that is stored was read.
    pub(crate) fn read_all(&mut self) {
        self.is_read = true;
    }

    /// What is known may be wrong: it is to be read again.
    pub(crate) fn mark_stale(&mut self) {
        self.machines.clear();
        self.is_read = false;
    }

    /// The machine's object was stored.
    pub(crate) fn stored(&mut self, mac: Mac, now: Timestamp, bytes: usize, is_kept: bool) {
        self.machines.insert(mac, RememberedStranger { heard_at: now, bytes, is_kept });
    }

    /// The machine's agent said something.
    pub(crate) fn record_contact(&mut self, mac: Mac, now: Timestamp) {
        if let Some(machine) = self.machines.get_mut(&mac) {
            machine.heard_at = now;
        }
    }

    /// The machine has no object any more.
    pub(crate) fn forgotten(&mut self, mac: Mac) {
        self.machines.remove(&mac);
    }

    /// The machine that has to go so that there is room for this one.
    pub(crate) fn in_the_way_of(&self, mac: Mac) -> Option<Mac> {
        let others = || self.machines.iter().filter(|(other, machine)| **other != mac && !machine.is_kept);
        let bytes: usize = others().map(|(_, machine)| machine.bytes).sum();
        let own = self.machines.get(&mac).map_or(0, |machine| machine.bytes);
        let is_full = others().count() >= DISCOVERED_MAX || bytes.saturating_add(own) > DISCOVERED_BYTES_MAX;
        let silent = others().min_by_key(|(other, machine)| (machine.heard_at, **other)).map(|(other, _)| *other);
        silent.filter(|_| is_full)
    }

    /// Whether something may be written for one of them now.
    pub(crate) fn may_write(&mut self, now: Timestamp) -> bool {
        self.pace.take(now)
    }
}

/// Counts the writes that may still be made.
#[derive(Debug)]
struct WritePace {
    left: u32,
    since: Timestamp,
}

impl Default for WritePace {
    fn default() -> Self {
        Self { left: WRITES_AT_ONCE, since: Timestamp::MIN }
    }
}

impl WritePace {
    fn take(&mut self, now: Timestamp) -> bool {
        let earned = now.duration_since(self.since).as_millis() / WRITE_EVERY.as_millis();
        match u32::try_from(earned) {
            Ok(0) => {}
            Ok(earned) => {
                self.left = self.left.saturating_add(earned).min(WRITES_AT_ONCE);
                self.since = now;
            }
            // Long ago, or the clock was set back.
            Err(_) => *self = Self { since: now, ..Self::default() },
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// The record of an inspection as it is kept of a machine without an owner.
pub(crate) fn fitting(record: HardwareRecord) -> HardwareRecord {
    let fits = |record: &HardwareRecord| serde_json::to_vec(record).is_ok_and(|bytes| bytes.len() <= RECORD_BYTES_MAX);
    if fits(&record) {
        return record;
    }
    let record = HardwareRecord { parts: None, ..record };
    if fits(&record) {
        return record;
    }
    let text = format!("the inspection has more than {RECORD_BYTES_MAX} bytes, which are kept of hosts alone");
    HardwareRecord {
        attempt: record.attempt,
        plan: record.plan,
        inspected_at: record.inspected_at,
        timeline: record.timeline,
        system: record.system,
        firmware: record.firmware,
        memory: record.memory,
        changes: vec![text],
        ..HardwareRecord::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn mac(number: usize) -> Mac {
        let [.., a, b, c] = number.to_be_bytes();
        Mac([0x52, 0x54, 0, a, b, c])
    }

    /// 1,100 machines that were not there ended discovery until a person deleted their objects.
    #[test]
    fn a_new_machine_takes_the_place_of_the_one_that_was_silent_for_longest() {
        let mut table = RememberedStrangers::default();
        for number in 0..DISCOVERED_MAX {
            assert_eq!(table.in_the_way_of(mac(number)), None);
            table.stored(mac(number), at(i64::try_from(number).unwrap()), 100, number == 0);
        }
        assert_eq!(table.in_the_way_of(mac(5000)), None, "one of them keeps its place beside the others");
        table.stored(mac(5000), at(5000), 100, false);
        table.record_contact(mac(1), at(5001));
        assert_eq!(table.in_the_way_of(mac(2)), None, "who has a place needs no other");
        assert_eq!(table.in_the_way_of(mac(5001)), Some(mac(2)), "not the kept one, nor the one that reports");
        table.forgotten(mac(2));
        assert_eq!(table.in_the_way_of(mac(5001)), None);
    }

    #[test]
    fn large_records_take_more_places() {
        let mut table = RememberedStrangers::default();
        for number in 0..DISCOVERED_BYTES_MAX / RECORD_BYTES_MAX {
            table.stored(mac(number), at(i64::try_from(number).unwrap()), RECORD_BYTES_MAX, false);
        }
        assert_eq!(table.in_the_way_of(mac(0)), None);
        table.stored(mac(0), at(900), RECORD_BYTES_MAX + 1, false);
        assert_eq!(table.in_the_way_of(mac(0)), Some(mac(1)));
    }

    #[test]
    fn what_was_read_is_no_older_than_what_was_heard() {
        let mut table = RememberedStrangers::default();
        table.stored(mac(1), at(9), 100, false);
        table.read(mac(1), at(5), 200, true);
        assert_eq!(table.machines[&mac(1)], RememberedStranger { heard_at: at(9), bytes: 200, is_kept: true });
    }

    #[test]
    fn writes_are_paced_whatever_the_clock_does() {
        let mut table = RememberedStrangers::default();
        let written =
            |table: &mut RememberedStrangers, second: i64| (0..2000).filter(|_| table.may_write(at(second))).count();
        assert_eq!(written(&mut table, 0), WRITES_AT_ONCE as usize);
        assert_eq!(written(&mut table, 0), 0);
        assert_eq!(written(&mut table, 6), 100);
        assert_eq!(written(&mut table, 9000), WRITES_AT_ONCE as usize);
        assert_eq!(written(&mut table, -9000), WRITES_AT_ONCE as usize, "a clock that was set back silences nothing");
    }

    #[test]
    fn a_record_is_cut_to_what_is_kept() {
        let large = "x".repeat(RECORD_BYTES_MAX);
        let small = HardwareRecord { hostname: "h".into(), ..HardwareRecord::default() };
        assert_eq!(fitting(small.clone()), small);
        let mut record = HardwareRecord { hostname: large, ..small };
        record.system.serial = "SN".into();
        let cut = fitting(record);
        assert_eq!((cut.system.serial.as_str(), cut.hostname.as_str(), cut.changes.len()), ("SN", "", 1));
    }
}
