//! Credentials: missing, blank, refused, changed, and how often they are tried.

use firesteel_plan::host::{BmcAction, BmcFault, BmcFaultKind, BmcOutcome, CredentialsInputs, HostPower};
use firesteel_plan::{HostEffect, HostInputs};
use firesteel_resources::bare_metal_host::{ErrorType, OperationalStatus, ProvisioningState as S, annotations};

use crate::world::World;

fn refusing() -> World {
    let mut world = World::new();
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Credentials, message: "401".into() });
    world
}

fn credentials(seen: &mut HostInputs, version: &str) {
    seen.credentials = CredentialsInputs::Ready { version: version.to_owned() };
}

fn logins(world: &World) -> usize {
    let mut tickets: Vec<u64> = world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            HostEffect::Bmc(call) => Some(call.ticket),
            _ => None,
        })
        .collect();
    tickets.dedup();
    tickets.len()
}

fn shown(world: &World) -> (Option<ErrorType>, String) {
    let status = world.seen.host.status.clone().unwrap();
    assert_eq!(status.operational_status, OperationalStatus::Error);
    (status.error_type, status.error_message)
}

fn events(world: &World) -> Vec<&str> {
    world.last.as_ref().unwrap().events.iter().map(|event| event.reason.word()).collect()
}

#[test]
fn each_fault_of_the_credentials_has_its_own_reason_at_once() {
    let rows = [
        (CredentialsInputs::Missing, "does not exist", Some(10)),
        (CredentialsInputs::Empty, "must have the keys username and password", None),
    ];
    for (found, text, again) in rows {
        let mut world = World::new();
        world.seen.credentials = found;
        let mut told = false;
        for _ in 0..5 {
            world.step();
            told |= events(&world).contains(&"BMCCredentialError");
        }
        let (kind, message) = shown(&world);
        assert_eq!((kind, told, logins(&world)), (Some(ErrorType::Registration), true, 0));
        assert!(message.contains(text), "{message}");
        let wake = world.last.as_ref().unwrap().wake.map(|wake| wake.as_secs());
        match again {
            Some(again) => assert_eq!(wake, Some(again)),
            None => {
                let stall = world.seen.limits.stall.as_secs();
                assert!(wake.is_none_or(|wake| wake >= stall), "an edit wakes it, and nothing else: {wake:?}");
                let failure = world.memory().failure.clone().unwrap();
                assert_eq!((failure.until_edit, failure.retry_at), (true, None));
                for _ in 0..48 {
                    world.pass(1800);
                    world.step();
                }
                assert_eq!((logins(&world), world.memory().failure.as_ref()), (0, Some(&failure)), "a day later");
            }
        }
        credentials(&mut world.seen, "2");
        world.run();
        assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    }
    let mut world = refusing();
    world.settle();
    let (kind, message) = shown(&world);
    assert_eq!((kind, logins(&world)), (Some(ErrorType::Registration), 1));
    assert!(message.contains("refuses the user name or password in Secret s"), "{message}");
    world.refuses = None;
    credentials(&mut world.seen, "2");
    world.run();
    assert_eq!(world.state(), S::Provisioned, "at once: {}", world.reason());
}

#[test]
fn a_hundred_edits_in_a_minute_do_not_lock_the_account() {
    let mut world = refusing();
    world.settle();
    for edit in 0..100 {
        credentials(&mut world.seen, &format!("wrong {edit}"));
        world.edit(|_| {});
        world.settle();
        if edit % 2 == 0 {
            world.pass(1);
        }
    }
    assert_eq!(logins(&world), 4, "{}", world.reason());
    assert!(shown(&world).1.contains("may lock the account"), "{}", world.reason());
    world.refuses = None;
    world.pass(600);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn wrong_credentials_that_nobody_mends_are_tried_ever_less_and_leave_room_for_others() {
    let mut world = refusing();
    let mut tried = Vec::new();
    for second in 0..3600 {
        let before = logins(&world);
        world.step();
        if logins(&world) > before {
            tried.push(second);
        }
        world.pass(1);
    }
    for window in tried.windows(3) {
        assert!(window[2] - window[0] >= 600, "{tried:?}");
    }
    assert!(tried.len() >= 3, "{tried:?}");
    world.refuses = None;
    credentials(&mut world.seen, "right");
    world.run();
    assert_eq!(world.state(), S::Provisioned, "others are tried at once: {}", world.reason());
}

#[test]
fn what_other_hosts_were_refused_at_the_same_account_counts() {
    let mut world = World::new();
    world.seen.bmc.refused_elsewhere = vec![world.now; 4];
    world.settle();
    assert_eq!((world.state(), logins(&world)), (S::Registering, 0));
    world.pass(600);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn credentials_that_change_under_a_provisioned_host_are_verified_within_a_minute() {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.seen.credentials = CredentialsInputs::Missing;
    world.settle();
    let (kind, message) = shown(&world);
    assert_eq!(kind, Some(ErrorType::ProvisionedRegistration));
    assert!(message.contains("does not exist"), "{message}");
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Credentials, message: "401".into() });
    credentials(&mut world.seen, "2");
    world.settle();
    assert!(shown(&world).1.contains("refuses"), "{}", world.reason());
    world.refuses = None;
    credentials(&mut world.seen, "3");
    world.settle();
    let status = world.seen.host.status.clone().unwrap();
    assert_eq!((status.operational_status, world.state()), (OperationalStatus::Ok, S::Provisioned));
    assert_eq!(status.good_credentials.credentials_version, "3");
}

/// The Secret was deleted together with its host, as `kubectl delete -f` does.
#[test]
fn a_deletion_without_credentials_gives_up_and_leaves_a_tombstone() {
    let breaks: [fn(&mut World); 3] = [
        |world| world.seen.credentials = CredentialsInputs::Missing,
        |world| world.seen.credentials = CredentialsInputs::Empty,
        |world| world.refuses = Some(BmcFault { kind: BmcFaultKind::Unsupported, message: "no driver".into() }),
    ];
    for breaks in breaks {
        let mut world = World::new();
        world.run();
        breaks(&mut world);
        world.delete();
        for _ in 0..300 {
            world.settle();
            if world.gone {
                break;
            }
            world.pass(60);
        }
        assert!(world.gone, "{:?} {}", world.state(), world.reason());
        assert_eq!(world.count(|effect| matches!(effect, HostEffect::Tombstone { disk: Some(_), .. })), 1);
    }
}

#[test]
fn a_retry_tries_refused_credentials_once_more() {
    let mut world = refusing();
    for _ in 0..5 {
        world.settle();
        world.pass(60);
    }
    assert_eq!(logins(&world), 2, "{}", world.reason());
    world.refuses = None;
    world.annotate(annotations::RETRY, "");
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(
        world.effects.iter().any(|effect| matches!(effect, HostEffect::Bmc(call) if call.action == BmcAction::Probe))
    );
    assert_eq!(world.seen.bmc.power, HostPower::On);
}

/// The login under way was refused after its Secret was gone: that refusal was shown, and the Secret missed only
/// after its delay.
#[test]
fn an_answer_to_what_was_edited_since_says_nothing_of_what_is_there() {
    let mut world = refusing();
    world.bmc_answers = false;
    world.settle();
    world.seen.credentials = CredentialsInputs::Missing;
    world.step();
    let ticket = world.memory().bmc.call.as_ref().unwrap().call.ticket;
    world.seen.bmc.in_flight = false;
    let refused = BmcFault { kind: BmcFaultKind::Credentials, message: "401".into() };
    world.seen.bmc.last = Some(BmcOutcome { ticket, at: world.now, result: Err(refused) });
    world.settle();
    assert!(shown(&world).1.contains("does not exist"), "{}", world.reason());
    assert_eq!(world.memory().bmc.refused.len(), 1, "it counts all the same");
    world.bmc_answers = true;
    world.refuses = None;
    credentials(&mut world.seen, "2");
    world.run();
    assert_eq!(world.state(), S::Provisioned, "at once: {}", world.reason());
}
