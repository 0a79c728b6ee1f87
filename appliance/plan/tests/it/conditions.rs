//! Conditions and reasons in upstream's words, state by state.

use firesteel_plan::host::progress_outlook::{HostOutlook, is_held_up, prospect};
use firesteel_plan::host::{
    AgentNetwork, BmcFault, BmcFaultKind, CredentialsInputs, HealthInputs, InstanceInputs, KnownIdentity, SharedUuid,
    UserDataInputs,
};
use firesteel_resources::ConditionStatus;
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_journal::RefusedIdentity;
use jiff::SignedDuration;

use crate::world::{World, run_to_write};

/// `Manageable AvailableForProvisioning Provisioned Ready Progressing Healthy` as `+Reason`, `-Reason` or `?Reason`.
fn words(world: &World) -> String {
    let status = world.seen.host.status.as_ref().unwrap();
    let word = |name: &str| {
        let found = find_condition(&status.conditions, name).unwrap();
        let sign = match found.status {
            ConditionStatus::True => '+',
            ConditionStatus::False => '-',
            ConditionStatus::Unknown => '?',
        };
        format!("{sign}{}", found.reason)
    };
    ["Manageable", "AvailableForProvisioning", "Provisioned", "Ready", "Progressing", "Healthy"].map(word).join(" ")
}

/// Steps until the host is in this state.
fn reach(world: &mut World, state: S) {
    for _ in 0..300 {
        if world.state() == state {
            return;
        }
        if world.booting {
            world.hello();
        }
        world.step();
    }
    panic!("not {state}: {} {}", world.state(), world.reason());
}

/// It was read and kept, and never shown.
#[test]
fn the_health_is_what_the_bmc_said_and_when() {
    let mut world = World::new();
    world.run();
    let at = "2026-01-01T02:03:04Z".parse().unwrap();
    for (word, sign) in [("OK", "+OK"), ("Warning", "-Warning"), ("Critical", "-Critical"), ("Fine", "?Unknown")] {
        world.seen.health = Some(HealthInputs { word: word.into(), at });
        world.step();
        assert!(words(&world).ends_with(&format!(" {sign}")), "{}", words(&world));
        let status = world.seen.host.status.as_ref().unwrap();
        let message = &find_condition(&status.conditions, "Healthy").unwrap().message;
        let expected =
            if word == "Fine" { String::new() } else { format!("the BMC said {word} at 2026-01-01T02:03:04Z") };
        assert_eq!(*message, expected);
    }
    world.seen.health = None;
    world.step();
    assert!(words(&world).ends_with(" ?Unknown"));
}

#[test]
fn each_state_has_upstreams_conditions() {
    let working = |word: &str| format!("+Manageable -NotAvailable -NotProvisioned -NotProvisioned +{word} ?Unknown");
    let mut world = World::new();
    reach(&mut world, S::Registering);
    assert_eq!(words(&world), "-Registering -NotAvailable -NotProvisioned -NotProvisioned +Registering ?Unknown");
    reach(&mut world, S::Inspecting);
    assert_eq!(words(&world), working("Inspecting"));
    reach(&mut world, S::Preparing);
    assert_eq!(words(&world), working("Preparing"));
    reach(&mut world, S::Available);
    let available = "+Manageable +Available -NotProvisioned -NotProvisioned -NotProgressing ?Unknown";
    assert_eq!(words(&world), available);
    reach(&mut world, S::Provisioning);
    assert_eq!(words(&world), working("Provisioning"));
    reach(&mut world, S::Provisioned);
    let provisioned = "+Manageable -NotAvailable +Provisioned +Provisioned -NotProgressing ?Unknown";
    assert_eq!(words(&world), provisioned);
    world.delete();
    reach(&mut world, S::Deprovisioning);
    assert_eq!(words(&world), working("Deprovisioning"));
    reach(&mut world, S::PoweringOff);
    assert_eq!(words(&world), working("PoweringOffBeforeDelete"));
    reach(&mut world, S::Deleting);
    assert_eq!(words(&world), working("Deleting"));

    let mut world = World::new();
    world.edit(|host| host.spec.externally_provisioned = true);
    reach(&mut world, S::ExternallyProvisioned);
    assert_eq!(words(&world), provisioned);
    let mut world = World::without_bmc();
    reach(&mut world, S::Unmanaged);
    assert_eq!(words(&world), "-NotManaged -NotAvailable -NotProvisioned -NotProvisioned -NotProgressing ?Unknown");
}

#[test]
fn errors_and_detaching_show_in_the_conditions() {
    let mut world = World::new();
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Credentials, message: "401".into() });
    world.settle();
    assert_eq!(words(&world), "-RegistrationFailed -NotAvailable -NotProvisioned -Error +Registering ?Unknown");

    let mut world = World::new();
    world.run();
    world.power_works = false;
    world.edit(|host| host.spec.online = false);
    for _ in 0..10 {
        world.settle();
        world.pass(61);
    }
    assert_eq!(words(&world), "-PowerFailure -NotAvailable +Provisioned -Error -NotProgressing ?Unknown");
    world.annotate(annotations::DETACHED, "");
    world.settle();
    assert_eq!(words(&world), "+Manageable -NotAvailable +Provisioned -Detached -Detached ?Unknown");

    let mut world = World::new();
    run_to_write(&mut world);
    world.pass(1801);
    let now = world.now;
    world.agent().last_report_at = now;
    world.settle();
    assert_eq!(words(&world), "+Manageable -NotAvailable -NotProvisioned -Error +Provisioning ?Unknown");
}

/// All conditions of a host in one line, ours included.
fn all(world: &World) -> String {
    let status = world.seen.host.status.as_ref().unwrap();
    let ours = status.conditions.iter().filter_map(|found| {
        let sign = match found.status {
            ConditionStatus::True => '+',
            ConditionStatus::False => '-',
            ConditionStatus::Unknown => '?',
        };
        let is_ours = matches!(found.type_.as_str(), "PowerControl" | "Running" | "Frozen" | "NoController");
        is_ours.then(|| format!("{}{sign}{}", found.type_, found.reason))
    });
    std::iter::once(words(world)).chain(ours).collect::<Vec<_>>().join(" ")
}

fn refuse(world: &mut World) {
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Credentials, message: "401".into() });
    world.seen.credentials = CredentialsInputs::Ready { version: "other".into() };
}

/// A situation of a host: what leads there, and the conditions that it has then.
struct Row {
    situation: &'static str,
    state: S,
    make: fn() -> World,
    is: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        situation: "the BMC is being asked",
        state: S::Registering,
        make: || in_state(S::Registering),
        is: "-Registering -NotAvailable -NotProvisioned -NotProvisioned +Registering ?Unknown \
             PowerControl+Driver Running-NotProvisioned",
    },
    Row {
        situation: "the Secret is missing",
        state: S::Registering,
        make: || {
            let mut world = World::new();
            world.seen.credentials = CredentialsInputs::Missing;
            world.settle();
            world
        },
        is: "-RegistrationFailed -NotAvailable -NotProvisioned -Error +Registering ?Unknown \
             PowerControl+Driver Running-NotProvisioned",
    },
    Row {
        situation: "the BMC cannot be reached while the host is to boot",
        state: S::Inspecting,
        make: || {
            let mut world = in_state(S::Inspecting);
            world.bmc_works = false;
            world.settle();
            world
        },
        is: "+Manageable -NotAvailable -NotProvisioned -Error +Inspecting ?Unknown \
             PowerControl+Driver Running-NotProvisioned",
    },
    Row {
        situation: "the credentials were changed to wrong ones while the host rests",
        state: S::Available,
        make: || {
            let mut world = World::new();
            world.edit(|host| host.spec.image = None);
            world.run();
            refuse(&mut world);
            world.settle();
            world
        },
        is: "-RegistrationFailed +Available -NotProvisioned -Error -NotProgressing ?Unknown \
             PowerControl+Driver Running-NotProvisioned",
    },
    Row {
        situation: "the user data is missing",
        state: S::Provisioning,
        make: || {
            let mut world = World::new();
            world.seen.user_data = UserDataInputs::Missing;
            world.run();
            world
        },
        is: "+Manageable -NotAvailable -NotProvisioned -Error +Provisioning ?Unknown \
             PowerControl+Driver Running-NotProvisioned",
    },
    Row {
        situation: "an image is written",
        state: S::Provisioning,
        make: || {
            let mut world = World::new();
            run_to_write(&mut world);
            world.settle();
            world
        },
        is: "+Manageable -NotAvailable -NotProvisioned -NotProvisioned +Provisioning ?Unknown \
             PowerControl+Driver Running-NotProvisioned",
    },
    Row {
        situation: "the OS has not reported yet",
        state: S::Provisioned,
        make: ran,
        is: "+Manageable -NotAvailable +Provisioned +Provisioned -NotProgressing ?Unknown \
             PowerControl+Driver Running-Waiting",
    },
    Row {
        situation: "the OS fetched its config",
        state: S::Provisioned,
        make: || {
            let mut world = ran();
            let attempt = world.memory().applied.as_ref().unwrap().attempt;
            let now = Some(world.now);
            world.seen.instance = InstanceInputs { attempt, config_fetched_at: now, ..InstanceInputs::default() };
            world.settle();
            world
        },
        is: "+Manageable -NotAvailable +Provisioned +Provisioned -NotProgressing ?Unknown \
             PowerControl+Driver Running-ConfigFetched",
    },
    Row {
        situation: "the OS said that its first boot failed",
        state: S::Provisioned,
        make: || {
            let mut world = ran();
            let attempt = world.memory().applied.as_ref().unwrap().attempt;
            let failed = Some((world.now, "no such device".to_owned()));
            world.seen.instance = InstanceInputs { attempt, failed, ..InstanceInputs::default() };
            world.settle();
            world
        },
        is: "+Manageable -NotAvailable +Provisioned +Provisioned -NotProgressing ?Unknown \
             PowerControl+Driver Running-FirstBootFailed",
    },
    Row {
        situation: "the OS returned its nonce",
        state: S::Provisioned,
        make: || {
            let mut world = ran();
            let attempt = world.memory().applied.as_ref().unwrap().attempt;
            let now = Some(world.now);
            world.seen.instance = InstanceInputs { attempt, config_fetched_at: now, running_at: now, failed: None };
            world.settle();
            world
        },
        is: "+Manageable -NotAvailable +Provisioned +Provisioned -NotProgressing ?Unknown \
             PowerControl+Driver Running+NonceReturned",
    },
    Row {
        situation: "an OS that cannot report",
        state: S::Provisioned,
        make: || {
            let mut world = World::new();
            world.seen.user_data = UserDataInputs::NotReferenced;
            world.run();
            world
        },
        is: "+Manageable -NotAvailable +Provisioned +Provisioned -NotProgressing ?Unknown \
             PowerControl+Driver Running?Unverified",
    },
    Row {
        situation: "the credentials were changed to wrong ones under an OS",
        state: S::Provisioned,
        make: || {
            let mut world = ran();
            refuse(&mut world);
            world.settle();
            world
        },
        is: "-RegistrationFailed -NotAvailable +Provisioned -Error -NotProgressing ?Unknown \
             PowerControl+Driver Running-Waiting",
    },
    Row {
        situation: "detached with an OS",
        state: S::Provisioned,
        make: || {
            let mut world = ran();
            world.annotate(annotations::DETACHED, "");
            world.settle();
            world
        },
        is: "+Manageable -NotAvailable +Provisioned -Detached -Detached ?Unknown \
             PowerControl+Driver Running-Waiting",
    },
    Row {
        situation: "cleaning fails",
        state: S::Deprovisioning,
        make: || {
            let mut world = ran();
            world.bmc_works = false;
            world.edit(|host| host.spec.image = None);
            world.settle();
            world
        },
        is: "+Manageable -NotAvailable -NotProvisioned -Error +Deprovisioning ?Unknown \
             PowerControl+Driver Running-NotProvisioned",
    },
    Row {
        situation: "installed by somebody else",
        state: S::ExternallyProvisioned,
        make: || {
            let mut world = World::new();
            world.edit(|host| host.spec.externally_provisioned = true);
            world.run();
            world
        },
        is: "+Manageable -NotAvailable +Provisioned +Provisioned -NotProgressing ?Unknown \
             PowerControl+Driver Running-NotProvisioned",
    },
    Row {
        situation: "nobody says how it is managed",
        state: S::Unmanaged,
        make: || {
            let mut world = World::without_bmc();
            world.settle();
            world
        },
        is: "-NotManaged -NotAvailable -NotProvisioned -NotProvisioned -NotProgressing ?Unknown \
             PowerControl-NoDriver Running-NotProvisioned",
    },
];

fn ran() -> World {
    let mut world = World::new();
    world.run();
    world
}

fn in_state(state: S) -> World {
    let mut world = World::new();
    reach(&mut world, state);
    world
}

#[test]
fn each_situation_has_its_conditions_and_reasons() {
    let mut wrong = Vec::new();
    for Row { situation, state, make, is } in ROWS {
        let world = make();
        let found = (world.state(), all(&world));
        if found != (*state, (*is).to_owned()) {
            wrong.push(format!("{situation}: {} {} ({})", found.0, found.1, world.reason()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What S3.36 needs of a host: a false `Ready` always says in words why.
#[test]
fn what_is_not_as_it_should_be_says_why_in_words() {
    for Row { situation, make, .. } in ROWS {
        let world = make();
        let status = world.seen.host.status.as_ref().unwrap();
        let ready = find_condition(&status.conditions, "Ready").unwrap();
        assert!(ready.status == ConditionStatus::True || ready.message.len() > 10, "{situation}");
    }
}

fn outlook_of(world: &World) -> HostOutlook {
    let progress_at = world.seen.agent.as_ref().map(|agent| agent.progress_at);
    prospect(world.memory(), &world.seen).at(progress_at, world.now)
}

/// S0.24 and S0.25: what a fleet is judged by agrees with the conditions of its hosts.
#[test]
fn who_waits_for_a_host_is_told_as_its_conditions_say() {
    for Row { situation, state, make, .. } in ROWS {
        let world = make();
        let status = world.seen.host.status.as_ref().unwrap();
        let is = |name: &str| find_condition(&status.conditions, name).unwrap().status == ConditionStatus::True;
        let is_error = find_condition(&status.conditions, "Ready").unwrap().reason == "Error";
        match outlook_of(&world) {
            HostOutlook::Done => assert!(!is("Progressing") && !is_error, "{situation} in {state}"),
            HostOutlook::Progressing => assert!(is("Progressing") || is_error, "{situation} in {state}"),
            HostOutlook::WillNotFinish => assert!(is_error, "{situation} in {state}"),
        }
    }
    let told: Vec<HostOutlook> = ROWS.iter().map(|row| outlook_of(&(row.make)())).collect();
    for outlook in [HostOutlook::Done, HostOutlook::Progressing, HostOutlook::WillNotFinish] {
        assert!(told.contains(&outlook), "{outlook:?} {told:?}");
    }
}

/// S0.25: whoever waits hears of refused credentials at once, and hears that it goes on when they are right.
#[test]
fn refused_credentials_end_the_waiting_within_a_minute() {
    let mut world = World::new();
    refuse(&mut world);
    let began = world.now;
    while outlook_of(&world) != HostOutlook::WillNotFinish {
        world.settle();
        world.pass(5);
        assert!(world.now.duration_since(began).as_secs() <= 60, "{}", world.reason());
    }
    world.refuses = None;
    world.seen.credentials = CredentialsInputs::Ready { version: "right".into() };
    world.settle();
    assert_eq!(outlook_of(&world), HostOutlook::Progressing, "{}", world.reason());
    world.run();
    assert_eq!(outlook_of(&world), HostOutlook::Done);
}

/// S0.24: a host that works is waited for as long as it comes on, and no longer.
#[test]
fn a_host_that_stands_still_is_not_waited_for() {
    let mut world = World::new();
    run_to_write(&mut world);
    for _ in 0..20 {
        world.pass(1700);
        let now = world.now;
        (world.agent().progress_at, world.agent().last_report_at) = (now, now);
        world.step();
        assert_eq!(outlook_of(&world), HostOutlook::Progressing, "hours, and it comes on: {}", world.reason());
    }
    world.pass(1801);
    let now = world.now;
    world.agent().last_report_at = now;
    world.step();
    assert_eq!(outlook_of(&world), HostOutlook::WillNotFinish, "{}", world.reason());
}

/// S0.26: the loader of the last boot, and what it was seen of last.
#[test]
fn a_loader_that_does_not_come_back_is_a_condition_until_it_does() {
    let mut world = World::new();
    world.settle();
    let shown = |world: &World| {
        let status = world.seen.host.status.as_ref().unwrap();
        find_condition(&status.conditions, "NetworkBoot").map(|found| (found.status, found.message.clone()))
    };
    assert_eq!(shown(&world), None);
    world.seen.netboot.stalled = Some("the loader did not come back".into());
    world.step();
    assert_eq!(shown(&world), Some((ConditionStatus::False, "the loader did not come back".into())));
    world.seen.netboot.stalled = None;
    world.step();
    assert_eq!(shown(&world), Some((ConditionStatus::True, String::new())));
}

#[test]
fn a_host_whose_agent_says_no_hello_has_an_error_with_the_last_stage() {
    for (is_of_this_boot, last) in [(true, "last stage seen: kernel fetched;"), (false, "last stage seen: none;")] {
        let mut world = World::new();
        world.settle();
        world.seen.limits.hello = SignedDuration::from_secs(600);
        world.step();
        let since = world.now;
        world.seen.netboot.stage = "kernel fetched".into();
        let before = since.checked_sub(SignedDuration::from_hours(9)).unwrap();
        world.seen.netboot.at = Some(if is_of_this_boot { since } else { before });
        let mut error = String::new();
        for _ in 0..100 {
            world.pass(60);
            world.step();
            error = world.seen.host.status.as_ref().unwrap().error_message.clone();
            if !error.is_empty() {
                break;
            }
        }
        assert!(error.contains("no agent said hello within") && error.contains(last), "{error}");
    }
}

/// The limits in force are those that count.
#[test]
fn a_shorter_limit_ends_the_waiting_sooner() {
    let mut world = World::new();
    run_to_write(&mut world);
    world.seen.limits.stall = SignedDuration::from_secs(60);
    world.seen.limits.hello = SignedDuration::from_secs(60);
    world.step();
    world.pass(100);
    let now = world.now;
    world.agent().last_report_at = now;
    assert_eq!(outlook_of(&world), HostOutlook::WillNotFinish, "{}", world.reason());
}

/// S0.24: who is behind a halt is waited for, and has all its time again when the halt is over.
#[test]
fn a_hold_is_no_standstill() {
    let mut world = World::new();
    run_to_write(&mut world);
    world.halt();
    let report = |world: &mut World| {
        world.pass(1700);
        let now = world.now;
        world.agent().last_report_at = now;
        world.step();
    };
    for _ in 0..20 {
        report(&mut world);
        assert!(is_held_up(world.memory(), &world.seen));
        assert_eq!(outlook_of(&world), HostOutlook::Progressing, "{}", world.reason());
    }
    world.annotate(annotations::LOCK, "mine");
    report(&mut world);
    assert_eq!(outlook_of(&world), HostOutlook::WillNotFinish, "its owner has to unlock it: {}", world.reason());
    assert!(is_held_up(world.memory(), &world.seen));
}

#[test]
fn after_a_hold_a_host_has_all_its_time_again() {
    let mut world = World::new();
    run_to_write(&mut world);
    world.halt();
    let report = |world: &mut World| {
        world.pass(1700);
        let now = world.now;
        world.agent().last_report_at = now;
        world.step();
    };
    (0..3).for_each(|_| report(&mut world));
    world.seen.halt = None;
    report(&mut world);
    assert!(!is_held_up(world.memory(), &world.seen));
    assert_eq!(outlook_of(&world), HostOutlook::Progressing, "{}", world.reason());
    world.pass(1801);
    assert_eq!(outlook_of(&world), HostOutlook::WillNotFinish, "{}", world.reason());
}

#[test]
fn a_uuid_of_two_hosts_is_said_and_stops_nothing() {
    let mut world = World::new();
    let said = |world: &World| {
        let status = world.seen.host.status.as_ref().unwrap();
        find_condition(&status.conditions, "UniqueIdentity").map(|found| (found.reason.clone(), found.message.clone()))
    };
    world.step();
    assert_eq!(said(&world), None);
    world.seen.shared_uuid = Some(SharedUuid { uuid: "u".into(), with: "default/b".into() });
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    assert!(said(&world).is_some_and(|(reason, text)| reason == "SharedUUID" && text.contains("default/b")));
    world.seen.shared_uuid = None;
    world.step();
    assert_eq!(said(&world), Some(("Unique".to_owned(), String::new())));
}

#[test]
fn the_agents_way_is_told_where_there_is_network_data() {
    let mut world = World::new();
    run_to_write(&mut world);
    let found = |world: &World| {
        let status = world.seen.host.status.clone().unwrap();
        find_condition(&status.conditions, "AgentNetwork").map(|found| (found.status, found.reason.clone()))
    };
    assert_eq!(found(&world), None);
    world.agent().network = Some(AgentNetwork::Another("no link".into()));
    world.step();
    assert_eq!(found(&world), Some((ConditionStatus::False, "NetworkDataFailed".into())));
    world.agent().network = Some(AgentNetwork::ByData("VLAN 100".into()));
    world.step();
    assert_eq!(found(&world), Some((ConditionStatus::True, "NetworkData".into())));
}

#[test]
fn a_first_boot_that_failed_is_told_until_the_os_runs() {
    let mut world = ran();
    let attempt = world.memory().applied.as_ref().unwrap().attempt;
    let (now, log) = (world.now, "GET config: attempt #5\nno such device".to_owned());
    world.seen.instance = InstanceInputs { attempt, failed: Some((now, log)), ..InstanceInputs::default() };
    world.settle();
    assert!(world.reason().contains("the first boot of the OS failed"), "{}", world.reason());
    let told = |world: &World| {
        let status = world.seen.host.status.clone().unwrap();
        status.conditions.into_iter().find(|condition| condition.type_ == "Running").unwrap()
    };
    assert!(told(&world).message.contains("attempt #5\nno such device"), "{}", told(&world).message);
    world.seen.instance.running_at = Some(now);
    world.settle();
    assert_eq!(told(&world).reason, "NonceReturned");
    // What an earlier installation said is none of this one's.
    world.seen.instance = InstanceInputs { attempt: attempt + 1, ..world.seen.instance.clone() };
    world.seen.instance.running_at = None;
    world.settle();
    assert_eq!(told(&world).reason, "Waiting");
}

/// S3.31: the exit is a person's word, for this one machine.
#[test]
fn another_machine_is_a_condition_until_it_is_accepted_or_the_host_is_back() {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    let said = |world: &World| {
        let status = world.seen.host.status.as_ref().unwrap();
        find_condition(&status.conditions, "IdentityChanged").map(|found| (found.status, found.message.clone()))
    };
    let known = KnownIdentity::of("4c4c4544-0046-3310-8051-b4c04f564432", "S1", world.now);
    world.seen.memory.identity = Some(known.clone());
    world.step();
    assert_eq!(said(&world), None);
    let refused = RefusedIdentity {
        uuid: "4c4c4544-0046-3310-8051-b4c04f564433".into(),
        serial: "S1".into(),
        attempt: world.memory().attempt,
        at: world.now,
        ..RefusedIdentity::default()
    };
    world.seen.refused_identity = Some(refused.clone());
    world.step();
    let (status, text) = said(&world).unwrap();
    assert_eq!(status, ConditionStatus::True);
    for part in [known.uuid.as_str(), refused.uuid.as_str(), "accept-identity"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    world.annotate(annotations::ACCEPT_IDENTITY, "another/machine");
    world.step();
    assert_eq!(world.seen.memory.identity, Some(known), "it is not the one that was refused");
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::ACCEPT_IDENTITY), "one-shot");
    world.annotate(annotations::ACCEPT_IDENTITY, &refused.mark());
    world.step();
    assert_eq!(world.seen.memory.identity.as_ref().unwrap().uuid, refused.uuid);
    world.step();
    assert_eq!(said(&world), Some((ConditionStatus::False, String::new())));
}

/// It waits for a person: the host is not late, and is not reset.
#[test]
fn another_machine_that_waits_is_the_hosts_error_as_long_as_it_is_there() {
    let mut world = World::new();
    world.settle();
    let known = KnownIdentity::of("4c4c4544-0046-3310-8051-b4c04f564432", "S1", world.now);
    world.seen.memory.identity = Some(known);
    let error = |world: &World| world.seen.host.status.as_ref().unwrap().error_message.clone();
    let boots = world.net_boots();
    for _ in 0..60 {
        let refused = RefusedIdentity {
            serial: "S2".into(),
            attempt: world.memory().attempt,
            at: world.now,
            ..RefusedIdentity::default()
        };
        world.seen.refused_identity = Some(refused);
        world.pass(60);
        world.step();
        assert!(error(&world).contains("accept-identity"), "{}", error(&world));
    }
    assert_eq!(world.net_boots(), boots, "for an hour");
    for _ in 0..60 {
        world.pass(60);
        world.step();
    }
    assert!(error(&world).contains("no agent said hello within"), "it is gone: {}", error(&world));
}
