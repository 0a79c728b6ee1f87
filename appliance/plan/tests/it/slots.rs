//! Many hosts, and slots for some of them.

use firesteel_plan::HostMemory;
use firesteel_plan::admission::{AT_ONCE, SlotDemand, SlotOffer, Slots};
use firesteel_plan::host::{HeldSlot, standing};
use firesteel_resources::bare_metal_host::{OperationalStatus, ProvisioningState as S};

use crate::world::World;

struct Fleet {
    worlds: Vec<World>,
    slots: Slots<usize>,
}

impl Fleet {
    fn new(count: usize) -> Self {
        let mut slots = Slots::new(AT_ONCE);
        slots.expect(0..count);
        Self { worlds: (0..count).map(|_| World::new()).collect(), slots }
    }

    /// Each host is stepped some times, without time.
    fn go_on(&mut self) {
        for _ in 0..30 {
            for id in 0..self.worlds.len() {
                self.step(id);
            }
        }
        let busy = self.worlds.iter().filter(|world| world.memory().admitted.is_some()).count();
        assert!(busy <= AT_ONCE + 5, "{busy}");
    }

    fn step(&mut self, id: usize) {
        let world = &mut self.worlds[id];
        if world.gone {
            return;
        }
        if world.booting {
            world.hello();
        }
        let deletes = world.seen.host.metadata.deletion_timestamp.is_some();
        world.seen.slot = self.slots.offer(&id, world.memory().admitted.is_some(), deletes);
        world.step();
        let _woken = self.slots.update_slot(&id, standing(world.memory(), &world.seen), deletes);
        if world.gone {
            let _woken = self.slots.forget(&id);
        }
    }

    fn pass(&mut self, secs: i64) {
        for world in &mut self.worlds {
            world.pass(secs);
            let now = world.now;
            if let Some(agent) = world.seen.agent.as_mut() {
                (agent.last_report_at, agent.progress_at) = (now, now);
            }
        }
    }

    fn delayed(&self) -> Vec<usize> {
        let is_delayed = |world: &World| {
            world.seen.host.status.as_ref().is_some_and(|s| s.operational_status == OperationalStatus::Delayed)
        };
        (0..self.worlds.len()).filter(|id| is_delayed(&self.worlds[*id])).collect()
    }
}

#[test]
fn the_twenty_first_host_is_delayed_and_begins_when_one_ends() {
    let mut fleet = Fleet::new(23);
    fleet.worlds.iter_mut().for_each(|world| world.agent_works = false);
    fleet.go_on();
    assert_eq!(fleet.delayed(), [20, 21, 22]);
    let world = &fleet.worlds[21];
    assert_eq!(world.state(), S::Registering);
    assert!(world.reason().contains("20 hosts") && world.reason().contains("1 wait before"), "{}", world.reason());
    assert_eq!(world.net_boots(), 0);
    fleet.worlds[3].agent_works = true;
    fleet.worlds[3].seen.host.spec.image = None;
    fleet.go_on();
    assert_eq!((fleet.worlds[3].state(), fleet.delayed()), (S::Available, vec![21, 22]));
    assert_eq!(fleet.worlds[20].state(), S::Inspecting);
    fleet.worlds.iter_mut().for_each(|world| world.agent_works = true);
    fleet.go_on();
    assert_eq!(fleet.delayed(), Vec::<usize>::new());
    fleet.go_on();
    assert!(fleet.worlds.iter().all(|world| matches!(world.state(), S::Provisioned | S::Available)));
}

#[test]
fn a_host_that_waits_for_its_next_try_keeps_nobody_out() {
    let mut fleet = Fleet::new(21);
    for world in &mut fleet.worlds[..20] {
        world.seen.user_data = firesteel_plan::host::UserDataInputs::Missing;
    }
    fleet.go_on();
    assert!(
        fleet.worlds[..20].iter().all(|world| world.memory().failure.is_some() && world.memory().admitted.is_none())
    );
    assert_eq!(fleet.worlds[20].state(), S::Provisioned, "{}", fleet.worlds[20].reason());
}

#[test]
fn deletions_go_on_whatever_fills_the_slots() {
    let mut fleet = Fleet::new(30);
    for world in &mut fleet.worlds[..20] {
        world.annotate("baremetalhost.metal3.io/paused", "");
    }
    fleet.go_on();
    for world in &fleet.worlds[20..] {
        assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    }
    for world in &mut fleet.worlds[..20] {
        world.seen.host.metadata.annotations.clear();
        world.agent_works = false;
    }
    fleet.go_on();
    assert!(fleet.worlds[..20].iter().all(|world| world.memory().admitted.is_some()));
    fleet.worlds[20].edit(|host| host.spec.image = None);
    fleet.go_on();
    assert_eq!(fleet.delayed(), [20], "an ordinary one waits");
    for world in &mut fleet.worlds[21..] {
        world.delete();
    }
    for _ in 0..4 {
        fleet.go_on();
        fleet.pass(10);
    }
    assert!(fleet.worlds[21..].iter().all(|world| world.gone));
    // One that waits may be deleted as well.
    fleet.worlds[20].delete();
    fleet.go_on();
    assert!(fleet.worlds[20].gone, "{}", fleet.worlds[20].reason());
}

/// The appliance starts again: who has a slot keeps it, whoever is looked at first.
#[test]
fn after_a_start_the_hosts_at_work_go_first() {
    let mut fleet = Fleet::new(22);
    fleet.worlds.iter_mut().for_each(|world| world.agent_works = false);
    fleet.go_on();
    assert_eq!(fleet.delayed(), [20, 21]);
    fleet.slots = Slots::new(AT_ONCE);
    fleet.step(21);
    assert_eq!(fleet.worlds[21].seen.slot, SlotOffer::NotCounted);
    fleet.slots.expect(0..22);
    for id in (0..22).rev() {
        fleet.step(id);
    }
    fleet.go_on();
    assert_eq!(fleet.delayed(), [20, 21]);
}

/// A paused host takes no slot, whatever it was doing when it was paused.
#[test]
fn a_paused_host_counts_for_no_slot_and_stands_in_no_line() {
    let mut world = World::new();
    let since = world.now;
    let busy = HostMemory { admitted: Some(HeldSlot { since, resumed: false }), ..HostMemory::default() };
    let waiting = HostMemory { delayed: Some(since), ..HostMemory::default() };
    let idle = HostMemory::default();
    let stand = |world: &World| [&busy, &waiting, &idle].map(|memory| standing(memory, &world.seen));
    assert_eq!(stand(&world), [SlotDemand::Busy, SlotDemand::Waiting { since }, SlotDemand::Idle]);
    world.annotate("baremetalhost.metal3.io/paused", "");
    assert_eq!(stand(&world), [SlotDemand::Idle; 3]);
}
