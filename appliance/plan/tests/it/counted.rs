//! What steps are counted as agrees with what the world around them saw.

use firesteel_plan::HostEffect;
use firesteel_plan::host::host_counts::{HostCount, TimedOperation};
use firesteel_plan::host::{
    AgentWork, BmcAction, BmcFault, BmcFaultKind, CredentialsInputs, InstanceInputs, UserDataInputs,
};
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState as S, annotations};

use crate::world::{World, image, run_to_write, with_work};

fn times(world: &World, wanted: &HostCount) -> usize {
    world.counts.iter().filter(|count| *count == wanted).count()
}

/// Each change of state that the world saw, and no other.
fn agrees(world: &World) {
    let told: Vec<(S, S)> = world
        .counts
        .iter()
        .filter_map(|count| match count {
            HostCount::StateChanged { from, to } => Some((*from, *to)),
            _ => None,
        })
        .collect();
    let seen: Vec<(S, S)> = world.states.windows(2).map(|pair| (pair[0], pair[1])).collect();
    assert_eq!(told, seen);
}

fn took(world: &World, operation: TimedOperation) -> Vec<f64> {
    let of = |count: &HostCount| match count {
        HostCount::Took { operation: this, seconds } if *this == operation => Some(*seconds),
        _ => None,
    };
    world.counts.iter().filter_map(of).collect()
}

#[test]
fn a_host_that_fails_and_then_succeeds_is_counted_once_for_each() {
    let mut world = World::new();
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Credentials, message: "401".into() });
    world.settle();
    let failed = |world: &World, kind| times(world, &HostCount::Failed(kind));
    assert_eq!((failed(&world, ErrorType::Registration), times(&world, &HostCount::LoginRefused)), (1, 1));
    for _ in 0..20 {
        world.step();
    }
    assert_eq!(failed(&world, ErrorType::Registration), 1, "looked at again and again");
    world.refuses = None;
    world.seen.credentials = CredentialsInputs::Ready { version: "2".into() };
    world.pass(30);
    run_to_write(&mut world);
    assert_eq!(took(&world, TimedOperation::Register), [30.0]);
    world.pass(100);
    with_work(
        &mut world,
        AgentWork::Failed { step: "write-image".into(), message: "bad sector".into(), disk_changed: true },
    );
    world.run();
    assert_eq!((world.state(), failed(&world, ErrorType::Provisioning)), (S::Available, 1));
    assert_eq!(took(&world, TimedOperation::Provision), [100.0]);
    world.pass(1800);
    let now = world.now;
    world.agent().last_report_at = now;
    world.run();
    assert_eq!((world.state(), failed(&world, ErrorType::Provisioning)), (S::Provisioned, 1));
    assert_eq!(took(&world, TimedOperation::Inspect).len() + took(&world, TimedOperation::Deprovision).len(), 2);
    agrees(&world);
    let boots = world.net_boots();
    let switched = times(&world, &HostCount::PowerOrdered { on: true });
    assert_eq!((boots, switched), (boots, boots), "{:?}", world.counts);
    assert_eq!(times(&world, &HostCount::RegistrationRequired), 1);
    assert_eq!(times(&world, &HostCount::ReleasedUncleaned), 0);

    world.seen.credentials = CredentialsInputs::Ready { version: "3".into() };
    world.settle();
    assert_eq!(times(&world, &HostCount::CredentialsUpdated), 1);
    world.delete();
    world.run();
    assert!(world.gone);
    agrees(&world);
    let offs = world
        .count(|effect| matches!(effect, HostEffect::Bmc(call) if matches!(call.action, BmcAction::PowerOff { .. })));
    assert_eq!((times(&world, &HostCount::PowerOrdered { on: false }), offs), (1, 1));
    let given_up = times(&world, &HostCount::GaveUpCleaning) + times(&world, &HostCount::ReleasedUncleaned);
    assert_eq!(given_up, 0, "it was cleaned");
}

#[test]
fn a_deletion_that_gives_up_is_counted_once_and_so_is_the_disk_that_was_left() {
    let mut world = World::new();
    world.run();
    world.bmc_works = false;
    world.delete();
    for _ in 0..40 {
        world.run();
        world.pass(1800);
    }
    assert!(world.gone);
    for _ in 0..5 {
        world.step();
    }
    let counts = [HostCount::GaveUpCleaning, HostCount::GaveUpPowerOff, HostCount::ReleasedUncleaned];
    assert_eq!(counts.map(|count| times(&world, &count)), [1, 1, 1]);
    let warned: Vec<&str> = world.events.iter().map(|event| event.message.as_str()).collect();
    assert!(warned.iter().any(|text| text.contains("may still run its OS")), "{warned:?}");
    agrees(&world);
}

#[test]
fn missing_and_empty_secrets_and_user_data_are_counted_apart() {
    let mut world = World::new();
    world.seen.credentials = CredentialsInputs::Missing;
    world.settle();
    world.pass(10);
    world.settle();
    world.seen.credentials = CredentialsInputs::Empty;
    world.settle();
    assert_eq!(
        [HostCount::CredentialsMissing, HostCount::CredentialsInvalid].map(|count| times(&world, &count)),
        [1, 1]
    );
    world.seen.credentials = CredentialsInputs::Ready { version: "1".into() };
    world.seen.user_data = UserDataInputs::Missing;
    world.run();
    for _ in 0..5 {
        world.pass(10);
        world.run();
    }
    assert_eq!(times(&world, &HostCount::UserDataUnusable), 1);
    world.seen.user_data = UserDataInputs::NotReferenced;
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.seen.instance = InstanceInputs::default();
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!(times(&world, &HostCount::UserDataUnusable), 1);
    agrees(&world);
}

#[test]
fn a_host_without_bmc_and_a_deletion_that_waits_are_counted() {
    let mut world = World::without_bmc();
    world.settle();
    world.pass(600);
    world.settle();
    assert_eq!(times(&world, &HostCount::BecameUnmanaged), 1);
    let mut world = World::new();
    world.run();
    world.annotate(annotations::DETACHED, r#"{"deleteAction":"delay"}"#);
    world.delete();
    world.settle();
    assert!(times(&world, &HostCount::DeletionDelayed) > 0 && !world.gone);
}

/// What a moved host did elsewhere is not counted here.
#[test]
fn a_history_that_came_along_is_not_counted() {
    let mut world = World::new();
    let status = r#"{"provisioning":{"state":"provisioned","ID":"x"},
        "operationHistory":{"inspect":{"start":"2025-01-01T00:00:00Z","end":"2025-01-01T01:00:00Z"},
        "register":{},"provision":{},"deprovision":{}},"poweredOn":true,"errorMessage":"","hardwareProfile":""}"#;
    world.annotate(annotations::STATUS_OF, status);
    world.settle();
    assert!(world.states.contains(&S::Provisioned), "{:?} {}", world.states, world.reason());
    assert!(took(&world, TimedOperation::Inspect).is_empty(), "{:?}", world.counts);
}
