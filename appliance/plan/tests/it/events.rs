//! Upstream's events of a host, each with a situation in which it is told, or a reason why it is not.

use firesteel_plan::host::{
    AgentWork, BmcFault, BmcFaultKind, CredentialsInputs, EventSeverity, StepEvent, UserDataInputs,
};
use firesteel_resources::bare_metal_host::{InspectionMode, ProvisioningState as S, annotations};

use crate::world::{World, run_to_write, with_work};

/// A situation in which the event of this name is told.
struct Told {
    event: &'static str,
    kind: EventSeverity,
    situation: fn() -> World,
}

const fn told(event: &'static str, kind: EventSeverity, situation: fn() -> World) -> Told {
    Told { event, kind, situation }
}

const NORMAL: EventSeverity = EventSeverity::Normal;
const WARNING: EventSeverity = EventSeverity::Warning;

const TOLD: &[Told] = &[
    told("Discovered", NORMAL, without_bmc),
    told("Registered", NORMAL, whole_life),
    told("BMCAccessValidated", NORMAL, whole_life),
    told("BMCCredentialError", WARNING, without_secret),
    told("InspectionSkipped", NORMAL, uninspected),
    told("UpdateHardwareDetails", NORMAL, supplied),
    told("RemoveAnnotation", WARNING, supplied_too_late),
    told("InvalidAnnotationValue", WARNING, supplied_badly),
    told("InspectionStarted", NORMAL, whole_life),
    told("InspectionComplete", NORMAL, whole_life),
    told("ProvisioningStarted", NORMAL, whole_life),
    told("ProvisioningComplete", NORMAL, whole_life),
    told("DeprovisioningStarted", NORMAL, whole_life),
    told("DeprovisioningComplete", NORMAL, whole_life),
    told("RegistrationError", WARNING, refused),
    told("ProvisionedRegistrationError", WARNING, refused_later),
    told("InspectionError", WARNING, inspection_fails),
    told("ProvisioningError", WARNING, without_user_data),
    told("PowerManagementError", WARNING, without_power),
];

/// What upstream tells and Firesteel does not.
const NOT_TOLD: [(&str, &str); 4] = [
    ("ProfileSet", "hardware profiles are deprecated upstream, and nothing acts on them"),
    ("ValidationFailed", "told of firmware settings and components, which no controller acts on yet"),
    ("PreparationError", "preparing changes nothing on the host yet, so it cannot fail"),
    ("ServicingError", "nothing is serviced yet: it takes firmware settings and components"),
];

fn without_bmc() -> World {
    let mut world = World::without_bmc();
    world.settle();
    world
}

fn whole_life() -> World {
    let mut world = World::new();
    world.run();
    world.delete();
    world.run();
    assert!(world.gone);
    world
}

fn without_secret() -> World {
    let mut world = World::new();
    world.seen.credentials = CredentialsInputs::Missing;
    world.settle();
    world
}

fn uninspected() -> World {
    let mut world = World::new();
    world.edit(|host| {
        host.spec.inspection_mode = Some(InspectionMode::Disabled);
        host.spec.image = None;
    });
    world.run();
    world
}

const HARDWARE: &str = r#"{"ramMebibytes":4096,"cpu":{"arch":"x86_64","count":4}}"#;

fn supplied() -> World {
    let mut world = uninspected();
    world.annotate(annotations::HARDWARE_DETAILS, HARDWARE);
    world.run();
    world
}

fn supplied_too_late() -> World {
    let mut world = World::new();
    world.run();
    world.annotate(annotations::HARDWARE_DETAILS, HARDWARE);
    world.run();
    world
}

fn supplied_badly() -> World {
    let mut world = uninspected();
    world.annotate(annotations::HARDWARE_DETAILS, r#"{"memory":1}"#);
    world.run();
    world
}

fn refusing(world: &mut World) {
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Credentials, message: "401".into() });
}

fn refused() -> World {
    let mut world = World::new();
    refusing(&mut world);
    world.settle();
    world
}

fn refused_later() -> World {
    let mut world = World::new();
    world.run();
    refusing(&mut world);
    world.seen.credentials = CredentialsInputs::Ready { version: "2".into() };
    world.settle();
    world
}

fn inspection_fails() -> World {
    let mut world = World::new();
    world.agent_works = false;
    for _ in 0..20 {
        if world.booting {
            world.hello();
        }
        world.step();
    }
    assert_eq!(world.state(), S::Inspecting);
    with_work(
        &mut world,
        AgentWork::Failed { step: "inspect".into(), message: "no sysfs".into(), disk_changed: false },
    );
    world.settle();
    world
}

fn without_user_data() -> World {
    let mut world = World::new();
    world.seen.user_data = UserDataInputs::Missing;
    world.run();
    world
}

fn without_power() -> World {
    let mut world = World::new();
    world.run();
    world.power_works = false;
    world.edit(|host| host.spec.online = false);
    for _ in 0..10 {
        world.settle();
        world.pass(61);
    }
    world
}

fn has(world: &World, name: &str) -> bool {
    world.events.iter().any(|event| event.reason == name)
}

#[test]
fn each_event_of_upstream_is_told_or_it_says_why_not() {
    for Told { event: name, kind, situation } in TOLD {
        let world = situation();
        let found: Option<&StepEvent> = world.events.iter().find(|event| event.reason == *name);
        let found = found.unwrap_or_else(|| panic!("{name} is not told: {:?}", world.events));
        assert_eq!(found.kind, *kind, "{name}");
        assert!(!found.message.is_empty(), "{name}");
        let upstreams: Vec<&str> = NOT_TOLD.iter().map(|(name, _)| *name).filter(|name| has(&world, name)).collect();
        assert!(upstreams.is_empty(), "they are told now, so they belong to the other list: {upstreams:?}");
    }
    assert!(NOT_TOLD.iter().all(|(_, why)| why.len() > 20));
    // The list of the events of upstream's controller, whichever of the two tables each is in.
    assert_eq!(TOLD.len() + NOT_TOLD.len(), 23);
}

/// An error is told when it comes, and not again at each look at it.
#[test]
fn an_error_that_stands_is_told_once() {
    let mut world = without_user_data();
    for _ in 0..20 {
        world.pass(10);
        world.run();
    }
    assert_eq!(world.events.iter().filter(|event| event.reason == "ProvisioningError").count(), 1);
    let mut world = World::new();
    run_to_write(&mut world);
    assert!(!has(&world, "ProvisioningError"));
}
