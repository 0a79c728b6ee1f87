//! What the sensors of hosts say, for the conditions of the hosts: the controller of sensors writes it, and control looks
//! at it in each step of a host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use firesteel_plan::host::SensorInputs;

use crate::{HostKey, lock};

/// What is known of one host's sensors.
#[derive(Debug)]
struct HostSensors {
    /// The host of that name that it is about.
    uid: String,
    inputs: SensorInputs,
}

/// What the sensors of all hosts say; it has entries for known hosts alone. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SensorBoard(Arc<Mutex<HashMap<HostKey, HostSensors>>>);

impl SensorBoard {
    /// Returns what is known of this host's sensors; `None` while none are read.
    #[must_use]
    pub fn of(&self, key: &HostKey, uid: &str) -> Option<SensorInputs> {
        lock(&self.0).get(key).filter(|known| known.uid == uid).map(|known| known.inputs.clone())
    }

    /// Takes in what is known of a host's sensors. `true`: people would read something else than before.
    pub fn set(&self, key: &HostKey, uid: &str, inputs: SensorInputs) -> bool {
        let new = HostSensors { uid: uid.to_owned(), inputs };
        let is_new = |old: &HostSensors| old.uid != new.uid || is_another(&old.inputs, &new.inputs);
        let mut all = lock(&self.0);
        let is_changed = all.get(key).is_none_or(is_new);
        all.insert(key.clone(), new);
        is_changed
    }

    /// Forgets a host. `true`: something was known of it.
    pub fn remove(&self, key: &HostKey) -> bool {
        lock(&self.0).remove(key).is_some()
    }

    /// Forgets all hosts, and returns them.
    #[must_use]
    pub fn clear(&self) -> Vec<HostKey> {
        std::mem::take(&mut *lock(&self.0)).into_keys().collect()
    }
}

/// A fresh reading that says the same as the one before is no news.
fn is_another(old: &SensorInputs, new: &SensorInputs) -> bool {
    match (old, new) {
        (SensorInputs::Fresh(old), SensorInputs::Fresh(new)) => (&old.word, &old.sensor) != (&new.word, &new.sensor),
        (old, new) => old != new,
    }
}

#[cfg(test)]
mod tests {
    use firesteel_plan::host::SensorWord;
    use jiff::Timestamp;

    use super::*;

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "lab".into(), name: name.into() }
    }

    fn word(word: &str, second: i64) -> SensorWord {
        let at = Timestamp::from_second(second).unwrap_or_default();
        SensorWord { word: word.to_owned(), sensor: String::new(), at }
    }

    #[test]
    fn the_same_word_again_is_no_news() {
        let board = SensorBoard::default();
        for (inputs, is_news) in [
            (SensorInputs::Awaited, true),
            (SensorInputs::Awaited, false),
            (SensorInputs::Fresh(word("OK", 1)), true),
            (SensorInputs::Fresh(word("OK", 61)), false),
            (SensorInputs::Fresh(word("Warning", 121)), true),
            (SensorInputs::Stale(Some(word("Warning", 121))), true),
            (SensorInputs::Stale(Some(word("Warning", 121))), false),
        ] {
            assert_eq!(board.set(&key("h1"), "1", inputs.clone()), is_news, "{inputs:?}");
        }
    }

    #[test]
    fn a_namesake_has_nothing_of_the_host_before_it() {
        let board = SensorBoard::default();
        board.set(&key("h1"), "1", SensorInputs::Fresh(word("Critical", 1)));
        assert_eq!(board.of(&key("h1"), "2"), None);
        assert!(board.set(&key("h1"), "2", SensorInputs::Fresh(word("Critical", 1))));
        assert!(board.remove(&key("h1")) && !board.remove(&key("h1")));
        board.set(&key("h2"), "3", SensorInputs::Awaited);
        assert_eq!(board.clear(), [key("h2")]);
        assert_eq!(board.of(&key("h2"), "3"), None);
    }
}
