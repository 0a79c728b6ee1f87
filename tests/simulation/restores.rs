//! The store is put back to an older backup while machines, disks and agents are where they are.
//!
//! Three hosts with an owner each; at some moment, maybe in the middle of an installation, a backup is
//! made; life goes on; then the backup is restored, and owners want things again. Whatever was
//! installed in between stays until somebody gives it up by its name; then every host reaches its goal.

use std::collections::BTreeSet;
use std::time::Duration;

use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_store::MemoryMedium;

use crate::counts::Counts;
use crate::disk::Disk;
use crate::executor::lock;
use crate::laws::{Past, Violation};
use crate::owner::{Birth, Wish};
use crate::planted::{Bug, RESTORE_BUGS};
use crate::trouble::hosts_text;
use crate::world::{Setup, World};

const MACHINES: usize = 3;
/// Tales of one run; each is some thousand steps.
const SEEDS: u64 = 16;
const HOUR: Duration = Duration::from_secs(3600);
/// Owners who give up one disk after the other are done after so many rounds.
const ROUNDS: usize = 8;

struct Backup {
    memory: MemoryMedium,
    past: Past,
}

/// What became of one tale.
#[derive(Debug, Default)]
struct Told {
    /// Systems that were newer than the restored store.
    newer: usize,
    /// Hosts that were frozen because of them.
    frozen: usize,
}

impl World {
    fn backup(&self) -> Backup {
        Backup { memory: self.memory.copy(), past: lock(&self.laws).past() }
    }

    /// Kills the appliance, and starts it on what the backup makes.
    fn restore(&mut self, backup: Backup, timeline: u32) -> usize {
        self.kill();
        let newest = lock(&self.laws).newest;
        let now_ms = i64::try_from(self.now().as_millis()).unwrap();
        self.memory = backup.memory.restored(timeline, now_ms, newest);
        let done = backup.past.done();
        let installed = self.machines.iter().flat_map(|machine| &machine.disks).filter_map(Disk::bootable);
        let newer: BTreeSet<String> =
            installed.map(|system| system.disk_guid.clone()).filter(|guid| !done.contains(guid)).collect();
        let count = newer.len();
        lock(&self.laws).go_back(backup.past, newer);
        count
    }

    fn name(id: usize) -> String {
        format!("host-{id}")
    }

    fn some_wish(&mut self, id: usize, of: &[Wish]) {
        let wish = *self.random.pick(of);
        self.wish(&Self::name(id), wish);
        self.settle_tasks();
    }

    /// The mark of the disk that freezes a host.
    fn frozen_by(&self, id: usize) -> Option<String> {
        let laws = lock(&self.laws);
        laws.hosts.get(&Self::name(id))?.memory.frozen.as_ref().map(|frozen| frozen.guid.clone())
    }

    fn has_a_system(&self, id: usize) -> bool {
        self.state_of(&Self::name(id)) == Some(S::Provisioned) && self.frozen_by(id).is_none()
    }

    fn unfreeze(&mut self, id: usize, guid: String) {
        lock(&self.laws).newer.remove(&guid);
        let edit = move |host: &mut firesteel_resources::BareMetalHost| {
            host.metadata.annotations.insert(annotations::UNFREEZE_DISK.to_owned(), guid.clone());
        };
        self.edit(&Self::name(id), Box::new(edit), false);
        self.settle_tasks();
    }
}

fn tale(seed: u64, bug: Option<Bug>) -> Result<Told, (Violation, String)> {
    let setup = Setup { seed, machines: MACHINES, wild: false, bug, so_far: Counts::default() };
    let mut world = World::new(setup);
    let told = live(&mut world);
    let story = || format!("{}{}", world.story(), hosts_text(&lock(&world.laws)));
    told.map_err(|violation| (violation, story()))
}

fn live(world: &mut World) -> Result<Told, Violation> {
    for id in 0..MACHINES {
        world.create(id, Birth::WithBmc);
        world.settle_tasks();
    }
    world.run_for(Duration::from_secs(1))?;
    for id in 0..MACHINES {
        world.some_wish(id, &[Wish::Image, Wish::Image, Wish::Nothing]);
    }
    // In this time a host is installed; so some backups are made in the middle of it.
    let until_backup = world.random.millis(1_000, 900_000);
    world.run_for(until_backup)?;
    let backup = world.backup();
    for _ in 0..2 {
        for id in 0..MACHINES {
            world.some_wish(id, &[Wish::Image, Wish::Image, Wish::NoImage, Wish::Nothing]);
        }
        let lost = world.random.millis(1_000, 2_400_000);
        world.run_for(lost)?;
    }
    let newer = world.restore(backup, 2);
    world.run_for(Duration::from_secs(60))?;
    for id in 0..MACHINES {
        world.some_wish(id, &[Wish::Image, Wish::Image, Wish::NoImage, Wish::Inspect, Wish::Retry, Wish::Nothing]);
    }
    world.run_for(2 * HOUR)?;
    // Everybody wants a system again, but nobody gives one up yet.
    for id in 0..MACHINES {
        world.wish(&World::name(id), Wish::NoImage);
        world.settle_tasks();
    }
    world.run_for(HOUR)?;
    for id in 0..MACHINES {
        world.wish(&World::name(id), Wish::Image);
        world.settle_tasks();
    }
    world.run_for(2 * HOUR)?;
    let frozen = (0..MACHINES).filter(|id| world.frozen_by(*id).is_some()).count();
    for _ in 0..ROUNDS {
        if (0..MACHINES).all(|id| world.has_a_system(id)) {
            break;
        }
        for id in 0..MACHINES {
            if let Some(guid) = world.frozen_by(id) {
                world.unfreeze(id, guid);
            }
            world.wish(&World::name(id), Wish::Image);
            world.settle_tasks();
        }
        world.run_for(2 * HOUR)?;
    }
    for id in 0..MACHINES {
        assert!(world.has_a_system(id), "{} reaches its goal in the end", World::name(id));
    }
    Ok(Told { newer, frozen })
}

#[test]
fn nothing_that_is_newer_than_the_store_is_destroyed() {
    let (mut newer, mut frozen) = (0, 0);
    for seed in 1..=SEEDS {
        match tale(seed, None) {
            Ok(told) => (newer, frozen) = (newer + told.newer, frozen + told.frozen),
            Err((violation, story)) => panic!("seed {seed}: {violation}\n{story}"),
        }
    }
    println!("{SEEDS} restores: {newer} systems were newer than the store, {frozen} hosts were frozen");
    assert!(newer > 8 && frozen > 4, "too few: {newer} newer systems, {frozen} frozen hosts");
}

#[test]
fn every_bug_of_a_restore_is_found() {
    for (bug, law) in RESTORE_BUGS {
        let found = (1..=SEEDS).find_map(|seed| tale(seed, Some(bug)).err().map(|(violation, _)| (seed, violation)));
        let Some((seed, violation)) = found else { panic!("{bug:?} was not found with {SEEDS} seeds") };
        println!("{bug:?}: seed {seed}: {violation}");
        assert_eq!(violation.law, law, "{bug:?}, seed {seed}: {violation}");
    }
}
