//! One host, told line by line: what is asked, what is told, and what is on record afterwards.

use std::time::Duration;

use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};

use crate::counts::Counts;
use crate::executor::lock;
use crate::machine::Stage;
use crate::owner::{Birth, Wish};
use crate::world::{Setup, World};

const HOST: &str = "host-0";

struct Tale(World);

impl Tale {
    fn begin() -> Self {
        Self(World::new(Setup { seed: 3, machines: 1, wild: false, bug: None, so_far: Counts::default() }))
    }

    /// Goes on until something is true; a minute of the world is more than any of it takes.
    fn until(&mut self, what: &str, holds: impl Fn(&World) -> bool) {
        let end = self.0.now() + Duration::from_secs(300);
        while !holds(&self.0) {
            assert!(self.0.now() < end, "{what} did not happen\n{}", self.0.story());
            match self.0.step() {
                Ok(true) => {}
                Ok(false) => panic!("nothing happens any more, and {what} did not\n{}", self.0.story()),
                Err(violation) => panic!("{violation}"),
            }
        }
    }

    fn until_state(&mut self, state: S) {
        self.0.settle_tasks();
        self.until(&format!("the state {state}"), |world| world.state_of(HOST) == Some(state));
    }
}

#[test]
fn from_an_object_to_a_running_system() {
    let mut tale = Tale::begin();
    tale.0.create(0, Birth::WithBmc);
    tale.until_state(S::Registering);
    tale.until_state(S::Inspecting);

    // Boot once from the network was set before the power went on, and the boot entry before both.
    tale.until("the power goes on", |world| !world.machines[0].is_off());
    assert!(tale.0.machines[0].net_once, "set before the reset");
    tale.until("the agent starts", |world| matches!(world.machines[0].stage, Stage::Agent(_)));
    tale.until("the token is bound", |world| {
        lock(&world.laws).hosts[HOST].agent.as_ref().is_some_and(|agent| agent.attempt == 1)
    });
    let bound = lock(&tale.0.laws).hosts[HOST].agent.clone().unwrap();
    assert_eq!(bound.key, tale.0.machines[0].tokens[0].1.to_string());
    tale.until_state(S::Available);
    assert!(lock(&tale.0.laws).hosts[HOST].receipts.iter().any(|receipt| receipt.plan == 1), "the inspection");
    assert!(!lock(&tale.0.laws).counts.others.contains_key("clear"), "nothing was touched");

    // An image is wanted: the agent that waits gets the write plan, without another boot.
    tale.0.wish(HOST, Wish::Image);
    tale.until_state(S::Provisioning);
    tale.until("the first write", |world| lock(&world.laws).counts.others.contains_key("write"));
    assert!(tale.0.machines[0].bootable().is_none(), "half an image does not boot");
    tale.until_state(S::Provisioned);
    let host = lock(&tale.0.laws).hosts[HOST].clone();
    assert_eq!((host.memory.attempt, host.agent.as_ref().map(|agent| agent.left)), (1, Some(true)));
    let applied = host.memory.applied.unwrap();
    let installed = tale.0.machines[0].bootable().unwrap();
    assert_eq!(
        (&installed.raw_sha256, &installed.disk_guid, installed.intact),
        (&applied.ready.raw_sha256, &applied.disk_guid, true)
    );

    // Config fetched and running are two events; the second ends the token.
    tale.until("the config is fetched", |world| {
        lock(&world.laws).hosts[HOST].instance.as_ref().is_some_and(|instance| instance.config_fetched_at.is_some())
    });
    assert!(lock(&tale.0.laws).hosts[HOST].instance.as_ref().unwrap().running_at.is_none());
    tale.until("it runs", |world| {
        lock(&world.laws).hosts[HOST].instance.as_ref().is_some_and(|instance| instance.running_at.is_some())
    });
    tale.until("the status says so", |world| {
        let status = world.host_object(HOST).and_then(|host| host.status).unwrap_or_default();
        status.conditions.iter().any(|condition| condition.type_ == "Running" && condition.reason == "NonceReturned")
    });
    let counts = lock(&tale.0.laws).counts.clone();
    assert_eq!((counts.others["clear"], counts.others["write"], counts.others["hand-off"]), (1, 1, 1), "each once");
}

/// The number of its first boot was given out again: the next agent was taken for a second one, and switched the
/// host off.
#[test]
fn a_paused_host_that_boots_again_gets_no_boot_that_is_taken() {
    let mut tale = Tale::begin();
    tale.0.create(0, Birth::WithBmc);
    tale.until_state(S::Inspecting);
    tale.until("the agent starts", |world| matches!(world.machines[0].stage, Stage::Agent(_)));
    tale.until("the token is bound", |world| lock(&world.laws).hosts[HOST].agent.is_some());
    let key = annotations::PAUSED;
    tale.0.edit(
        HOST,
        Box::new(move |host| drop(host.metadata.annotations.insert(key.to_owned(), "ann".to_owned()))),
        false,
    );
    tale.0.settle_tasks();
    for _ in 0..2 {
        // Long enough for its agent not to be taken for one at work.
        tale.0.power_off(0);
        tale.0.run_for(Duration::from_secs(10)).unwrap();
        tale.0.machines[0].net_once = true;
        tale.0.restart(0);
        tale.until("the machine boots", |world| matches!(world.machines[0].stage, Stage::Fetching { .. }));
        tale.until("it is sent on", |world| !matches!(world.machines[0].stage, Stage::Fetching { .. }));
        assert!(matches!(tale.0.machines[0].stage, Stage::Post), "{}", tale.0.doing(0));
    }
    assert_eq!(tale.0.machines[0].tokens.len(), 1, "one agent");
    tale.0.wish(HOST, Wish::Resume);
    tale.until_state(S::Available);
    assert!(lock(&tale.0.laws).hosts[HOST].memory.attempt > 1);
}

/// The fleet is halted in the middle of a write: it goes on later, in the same boot, with the same plan.
#[test]
fn a_write_waits_for_the_end_of_a_halt() {
    let mut tale = Tale::begin();
    tale.0.create(0, Birth::WithBmc);
    tale.until_state(S::Available);
    tale.0.wish(HOST, Wish::Image);
    tale.until("the first write", |world| lock(&world.laws).counts.others.contains_key("write"));
    tale.0.halt_for_a_while();
    tale.until("the host says so", |world| {
        let status = world.host_object(HOST).and_then(|host| host.status).unwrap_or_default();
        status.conditions.iter().any(|held| held.type_ == "DestructionHeld" && held.message.contains("a drill"))
    });
    tale.until("the end of the halt", |world| !world.is_halted());
    tale.until_state(S::Provisioned);
    let counts = lock(&tale.0.laws).counts.clone();
    assert_eq!((counts.others["clear"], counts.others["write"], counts.others["hand-off"]), (1, 1, 1), "each once");
    assert_eq!(lock(&tale.0.laws).hosts[HOST].memory.attempt, 1);
}
