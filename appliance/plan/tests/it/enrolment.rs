//! Credentials and enrolments that are refused: the outlook of the host is that it will not finish, within a minute of the
//! refusal, and that it comes on again once they are taken (S0.25).

use firesteel_plan::host::progress_outlook::{HostOutlook, prospect};
use firesteel_plan::host::{BmcFault, BmcFaultKind, CredentialsInputs, RefusedHello};
use firesteel_resources::bare_metal_host::ProvisioningState as S;
use firesteel_resources::condition::find_condition;

use crate::world::{World, run_to_write};

/// The longest time from a refusal to the outlook.
const LIMIT_S: i64 = 60;

fn outlook(world: &World) -> HostOutlook {
    let progress_at = world.seen.agent.as_ref().map(|agent| agent.progress_at);
    prospect(world.memory(), &world.seen).at(progress_at, world.now)
}

fn error(world: &World) -> String {
    world.seen.host.status.as_ref().map(|status| status.error_message.clone()).unwrap_or_default()
}

fn refusal(world: &World, attempt: u64) -> Option<RefusedHello> {
    Some(RefusedHello { attempt, at: world.now, why: "this boot was not seen".into() })
}

/// A host that was just switched on to boot into its agent.
fn booting() -> World {
    let mut world = World::new();
    world.settle();
    assert!(world.booting && world.state() == S::Inspecting, "{}", world.reason());
    world
}

/// The account of a BMC was changed while its host is in use: the next call to the BMC is refused.
#[test]
fn credentials_that_are_refused_later_end_the_waiting_within_a_minute_of_the_refusal() {
    let mut world = World::new();
    world.run();
    assert_eq!((world.state(), outlook(&world)), (S::Provisioned, HostOutlook::Done));
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Credentials, message: "401".into() });
    let began = world.now;
    while world.memory().bmc.refused_credentials.is_none() {
        world.pass(5);
        world.settle();
        assert!(world.now.duration_since(began).as_secs() <= 600, "the BMC is not asked: {}", world.reason());
    }
    let refused = world.now;
    while outlook(&world) != HostOutlook::WillNotFinish {
        world.pass(5);
        world.settle();
        assert!(world.now.duration_since(refused).as_secs() <= LIMIT_S, "{}", world.reason());
    }
    assert!(!error(&world).is_empty(), "the host has an error");
    world.refuses = None;
    world.seen.credentials = CredentialsInputs::Ready { version: "right".into() };
    world.run();
    assert_eq!(outlook(&world), HostOutlook::Done, "{}", world.reason());
}

#[test]
fn a_refused_enrolment_is_the_hosts_error_at_once_and_ends_with_a_hello_that_counts() {
    let mut world = booting();
    assert_eq!(outlook(&world), HostOutlook::Progressing);
    let attempt = world.memory().attempt;
    world.seen.refused_hello = refusal(&world, attempt);
    world.step();
    assert_eq!(outlook(&world), HostOutlook::WillNotFinish, "{}", world.reason());
    assert!(error(&world).contains("was refused: this boot was not seen"), "{}", error(&world));
    let status = world.seen.host.status.as_ref().unwrap();
    assert_eq!(find_condition(&status.conditions, "Ready").unwrap().reason, "Error");
    // Its machine boots again, under the next attempt, and is refused no more.
    world.seen.spent_attempt = Some(attempt);
    world.pass(30);
    world.step();
    assert_eq!(outlook(&world), HostOutlook::WillNotFinish, "{}", world.reason());
    world.seen.refused_hello = None;
    world.hello();
    world.run();
    assert_eq!((outlook(&world), error(&world)), (HostOutlook::Done, String::new()), "{}", world.reason());
}

/// A host without BMC details is switched on by hand: who does that sees that its agent was refused.
#[test]
fn a_refused_enrolment_is_the_error_of_a_host_that_is_booted_by_hand() {
    let mut world = World::without_bmc();
    world.settle();
    assert_eq!((world.state(), error(&world)), (S::Unmanaged, String::new()));
    let attempt = world.memory().attempt;
    world.seen.refused_hello = refusal(&world, attempt);
    world.step();
    assert!(error(&world).contains("was refused: this boot was not seen"), "{}", world.reason());
    let count = world.seen.host.status.as_ref().unwrap().error_count;
    world.pass(60);
    world.step();
    assert_eq!(world.seen.host.status.as_ref().unwrap().error_count, count, "it is counted once");
    world.seen.refused_hello = None;
    world.step();
    assert_eq!(error(&world), "", "{}", world.reason());
}

/// An agent of long ago that comes again with an old token is none of this boot's, and neither is a refusal of long ago.
#[test]
fn a_refusal_of_an_earlier_boot_is_no_error_of_this_one() {
    let mut world = booting();
    world.seen.memory.attempt += 5;
    let attempt = world.memory().attempt;
    world.seen.refused_hello = refusal(&world, attempt - 2);
    world.step();
    assert_eq!(outlook(&world), HostOutlook::Progressing, "{}", world.reason());
    world.seen.refused_hello = refusal(&world, attempt);
    world.pass(1100);
    world.step();
    assert_eq!(outlook(&world), HostOutlook::WillNotFinish, "{}", world.reason());
    // The host is waited for as long as without the refusal.
    world.pass(200);
    world.settle();
    assert!(world.memory().attempt > attempt, "{}", world.reason());
}

/// A host that writes its disk does not wait for a hello.
#[test]
fn a_refusal_while_an_agent_works_changes_nothing() {
    let mut world = World::new();
    run_to_write(&mut world);
    let attempt = world.memory().attempt;
    world.seen.refused_hello = refusal(&world, attempt);
    world.step();
    assert_eq!(outlook(&world), HostOutlook::Progressing, "{}", world.reason());
}
