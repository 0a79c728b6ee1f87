use firesteel_resources::HardwareRecord;
use firesteel_resources::bare_metal_host::cleaning::CleaningPolicies;

use super::*;
use crate::disk::{DiskChoice, DiskIdentity};
use crate::host::model::{DiskPlan, HostInputs, LineageInputs};
use crate::host::sample::{at, now, with_bmc};

const OLD: u32 = 11;
const NEW: u32 = 22;
/// The last revision of the old timeline that the store has.
const LAST: u64 = 50_000;
/// The newest revision of the new one.
const REVISION: u64 = 60_000;

/// A store that was restored: it writes its second timeline.
fn lineage() -> LineageInputs {
    LineageInputs { store: 5, timeline: NEW, revision: REVISION, known: vec![(OLD, LAST), (NEW, REVISION)] }
}

fn seen(state: HostState) -> HostInputs {
    let mut seen = with_bmc(state);
    (seen.lineage, seen.memory.timeline) = (lineage(), NEW);
    seen
}

fn disk(device: &str, serial: &str) -> DiskRecord {
    DiskRecord {
        device: format!("/dev/{device}"),
        by_path: format!("/dev/disk/by-path/{device}"),
        serial: serial.into(),
        size_bytes: 1 << 30,
        table: Some(TableRecord::None),
        ..DiskRecord::default()
    }
}

fn guid(store: u32, timeline: u32, revision: u64) -> String {
    InstallationMark { store, timeline, revision }.guid(7)
}

fn marked(disk: DiskRecord, guid: &str) -> DiskRecord {
    DiskRecord { table: Some(TableRecord::Gpt { guid: guid.to_owned() }), ..disk }
}

fn unread(disk: DiskRecord) -> DiskRecord {
    DiskRecord { table: Some(TableRecord::Unreadable { why: "I/O error".into(), damaged: false }), ..disk }
}

fn inspected(seen: &mut HostInputs, disks: Vec<DiskRecord>) {
    seen.hardware = Some(HardwareRecord { disks, attempt: 3, timeline: NEW, ..HardwareRecord::default() });
}

/// Why the host is frozen, and by which name that is given up.
fn judged(seen: &HostInputs) -> Option<(FrozenWhy, String)> {
    judge(&StepDraft::new(seen, now())).map(|frozen| (frozen.why, frozen.guid))
}

#[test]
fn a_mark_is_of_the_moment_in_which_its_plan_is_stored() {
    let seen = seen(HostState::Provisioning);
    let mark = InstallationMark::parse(&mark(&StepDraft::new(&seen, now())));
    assert_eq!(mark, Some(InstallationMark { store: 5, timeline: NEW, revision: REVISION + 1 }));
}

/// A memory that knows of no timeline is older than timelines are, or of a store that was restored since.
#[test]
fn a_restore_is_noticed_once_by_each_host_that_had_begun() {
    for (known_in, timelines, state, is_noticed) in [
        (0, 1, HostState::Available, false),
        (0, 2, HostState::Available, true),
        (0, 3, HostState::Available, true),
        (1, 1, HostState::Available, true),
        (1, 2, HostState::Available, true),
        (1, 2, HostState::New, false),
        (2022, 2, HostState::Available, false),
    ] {
        let mut seen = with_bmc(state.clone());
        (seen.memory.timeline, seen.memory.attempt) = (known_in, 7);
        let known = (0..timelines).map(|number| (number, 50)).collect();
        seen.lineage = LineageInputs { store: 5, timeline: 2022, revision: 60, known };
        let mut turn = StepDraft::new(&seen, now());
        notice(&mut turn);
        // Tokens of the lost past are of other attempts: 1000 of them, and 22 times as many for this timeline.
        let attempt = if is_noticed { 7 + 1000 * 23 } else { 7 };
        let found = (turn.memory.restored.is_some(), turn.memory.attempt, turn.memory.timeline);
        assert_eq!(found, (is_noticed, attempt, 2022), "{known_in} {timelines} {state:?}");
    }
}

/// A host whose disks may have changed is looked at first: after a restore, and when a person says so of a frozen one.
#[test]
fn the_disks_are_looked_at_again_after_a_restore_and_after_a_word_about_a_frozen_one() {
    for (is_restored, looked_in, is_frozen, retried_s, expected) in [
        (false, None, false, None, false),
        (false, Some(OLD), false, None, false),
        (true, None, false, None, true),
        (true, Some(OLD), false, None, true),
        (true, Some(NEW), false, None, false),
        (false, Some(NEW), true, None, false),
        (false, Some(NEW), true, Some(-20), false),
        (false, Some(NEW), true, Some(-5), true),
        (false, Some(NEW), false, Some(-5), false),
    ] {
        let mut seen = seen(HostState::Available);
        seen.memory.restored = is_restored.then(|| RestoreMark { at: at(-60), unfinished: String::new() });
        seen.hardware =
            looked_in.map(|timeline| HardwareRecord { timeline, inspected_at: at(-10), ..HardwareRecord::default() });
        seen.memory.frozen = is_frozen.then(|| frozen(FrozenWhy::Unread, "a"));
        seen.memory.retried_at = retried_s.map(at);
        let found = needs_mark_check(&StepDraft::new(&seen, now()));
        assert_eq!(found, expected, "{is_restored} {looked_in:?} {is_frozen} {retried_s:?}");
    }
}

fn frozen(why: FrozenWhy, guid: &str) -> Frozen {
    Frozen { why, disk: "sda".into(), guid: guid.into(), message: "it is".into(), since: at(-100) }
}

#[test]
fn only_a_frozen_host_whose_owner_says_so_keeps_what_it_has() {
    for (is_frozen, is_external, expected) in
        [(false, false, false), (false, true, false), (true, false, false), (true, true, true)]
    {
        let mut seen = seen(HostState::Provisioning);
        seen.memory.frozen = is_frozen.then(|| frozen(FrozenWhy::Unread, "a"));
        seen.host.spec.externally_provisioned = is_external;
        assert_eq!(is_kept(&StepDraft::new(&seen, now())), expected, "{is_frozen} {is_external}");
    }
}

/// The disk of a plan that may have been in the store's queue when the backup was made counts as newer.
#[test]
fn a_mark_is_known_up_to_the_moments_that_the_store_has() {
    for (timeline, revision, is_known) in [
        (OLD, 7, true),
        (OLD, LAST - CHANGES_UNDER_WAY_MAX, true),
        (OLD, LAST - CHANGES_UNDER_WAY_MAX + 1, false),
        (OLD, LAST, false),
        (NEW, REVISION - 1, true),
        (NEW, REVISION, true),
        (NEW, REVISION + 1, true),
        (NEW, REVISION + 2, false),
        (33, 7, false),
    ] {
        let mut seen = seen(HostState::Available);
        let guid = guid(5, timeline, revision);
        inspected(&mut seen, vec![marked(disk("sda", "A"), &guid)]);
        let expected = (!is_known).then_some((FrozenWhy::NewerThanStore, guid));
        assert_eq!(judged(&seen), expected, "{timeline} {revision}");
    }
}

/// A host that is being let go by its tenant: another store's mark on a disk that is erased freezes it.
#[test]
fn another_stores_disk_freezes_the_host_where_all_are_erased_or_the_plan_names_it() {
    let foreign = guid(6, 3, 9);
    let all = || CleaningPolicies::default();
    let of = |scope| {
        let mut policies = CleaningPolicies::default();
        policies.between_owners.scope = Some(scope);
        policies
    };
    let data = || marked(disk("sdb", "B"), &foreign);
    for (state, is_for_another, policies, data, is_frozen) in [
        (HostState::Deprovisioning, true, all(), data(), true),
        (HostState::Preparing, true, all(), data(), true),
        (HostState::Deprovisioning, true, of(CleaningScope::All), data(), true),
        (HostState::Deprovisioning, true, of(CleaningScope::Target), data(), false),
        (HostState::Deprovisioning, false, all(), data(), false),
        (HostState::Available, true, all(), data(), false),
        (HostState::Deprovisioning, true, all(), DiskRecord { removable: true, ..data() }, false),
        (HostState::Deprovisioning, true, all(), DiskRecord { size_bytes: 0, ..data() }, false),
        (HostState::Deprovisioning, true, all(), DiskRecord { size_bytes: 1, ..data() }, true),
    ] {
        let mut seen = seen(state.clone());
        seen.memory.tenant = is_for_another.then(|| "one".into());
        inspected(&mut seen, vec![disk("sda", "A"), data.clone()]);
        let mut turn = StepDraft::new(&seen, now());
        turn.requests.cleaning = policies;
        let found = judge(&turn).map(|frozen| frozen.why);
        let expected = is_frozen.then_some(FrozenWhy::OfAnotherStore);
        assert_eq!(found, expected, "{state:?} {is_for_another} {} {}", data.removable, data.size_bytes);
    }
    let mut seen = seen(HostState::Provisioning);
    inspected(&mut seen, vec![disk("sda", "A"), data()]);
    for (planned, is_frozen) in [("A", false), ("B", true)] {
        let identity = DiskIdentity { serial: planned.into(), size_bytes: 1 << 30, ..DiskIdentity::default() };
        let choice = DiskChoice { disk: identity, ..DiskChoice::default() };
        seen.memory.disk = Some(DiskPlan { choice, inspected_in: 3, hints: Default::default(), chosen_at: now() });
        assert_eq!(judged(&seen).is_some(), is_frozen, "{planned}");
    }
}

/// In a store that was restored once, what cannot be read may be newer, also after the host was settled.
#[test]
fn an_unread_disk_freezes_the_host_of_a_restored_store_until_it_is_given_up_by_name() {
    let given = |guid: &str, seconds| UnfrozenInstallation { guid: guid.into(), disk: "sda".into(), at: at(seconds) };
    for (is_restored, timelines, given_up, expected) in [
        (false, 1, vec![], None),
        (false, 2, vec![], Some("a")),
        (true, 2, vec![], Some("a")),
        (true, 1, vec![], Some("a")),
        (true, 2, vec![given("a", -10)], None),
        (true, 2, vec![given("A", -60)], None),
        (true, 2, vec![given("a", -61)], Some("a")),
        (true, 2, vec![given("b", -10)], Some("a")),
        (false, 2, vec![given("a", -61)], None),
    ] {
        let mut seen = seen(HostState::Available);
        seen.lineage.known.truncate(timelines);
        seen.memory.restored = is_restored.then(|| RestoreMark { at: at(-60), unfinished: String::new() });
        seen.memory.given_up.clone_from(&given_up);
        inspected(&mut seen, vec![unread(disk("sda", "A"))]);
        let expected = expected.map(|name| (FrozenWhy::Unread, name.to_owned()));
        assert_eq!(judged(&seen), expected, "{is_restored} {timelines} {given_up:?}");
    }
}

#[test]
fn a_disk_is_given_up_by_a_name_that_no_other_one_has_and_that_can_be_typed() {
    let wide = |wwn: &str| DiskRecord { wwn: wwn.into(), ..disk("sda", "A") };
    let nameless = || DiskRecord { by_path: String::new(), ..disk("sda", "") };
    for (one, others, expected) in [
        (wide("0x5000C500A1B2C3D4"), vec![wide("0x6")], "0x5000c500a1b2c3d4"),
        (wide("0x5"), vec![DiskRecord { serial: "B".into(), ..wide("0x5") }], "a"),
        (disk("sda", " Serial 1/2"), vec![disk("sdb", "B")], "serial_1_2"),
        (disk("sda", "A-1_x.y:z"), vec![], "a-1_x.y:z"),
        (disk("sda", "A"), vec![disk("sdb", "a")], "_dev_disk_by-path_sda"),
        (disk("sda", ""), vec![disk("sdb", "")], "_dev_disk_by-path_sda"),
        (nameless(), vec![nameless()], "_dev_sda"),
    ] {
        let all: Vec<DiskRecord> = std::iter::once(one.clone()).chain(others).collect();
        assert_eq!(own_name(&all[0], &all), expected, "{all:?}");
    }
}

/// Asks to give this name up: the answer, and the mark that freezes the host then.
fn unfrozen(seen: &mut HostInputs, name: &str) -> (RequestOutcome, String, Option<String>) {
    seen.host.metadata.annotations.insert(annotations::UNFREEZE_DISK.into(), name.into());
    let mut turn = StepDraft::new(seen, now());
    check_disk_marks(&mut turn);
    let memory = turn.memory.clone();
    let answer = turn.answers.of(annotations::UNFREEZE_DISK).map(|answer| (answer.outcome, answer.message.clone()));
    let (outcome, text) = answer.unwrap_or((RequestOutcome::Refused, String::new()));
    seen.memory = memory;
    (outcome, text, seen.memory.frozen.as_ref().map(|frozen| frozen.guid.clone()))
}

#[test]
fn of_two_disks_each_is_given_up_by_its_own_name() {
    let (first, second) = (guid(5, OLD, LAST + 1), guid(5, OLD, LAST + 2));
    let mut seen = seen(HostState::Available);
    inspected(&mut seen, vec![marked(disk("sda", "A"), &first), marked(disk("sdb", "B"), &second)]);
    let (outcome, text, frozen) = unfrozen(&mut seen, &second);
    assert_eq!((outcome, frozen.as_ref()), (RequestOutcome::Refused, Some(&first)), "the first one freezes it: {text}");
    assert!(text.contains(&format!("but because of {first}")) && !text.contains("stays frozen"), "{text}");
    let (outcome, text, frozen) = unfrozen(&mut seen, &first);
    assert_eq!((outcome, frozen.as_ref()), (RequestOutcome::Done, Some(&second)), "{text}");
    assert!(text.contains("may be overwritten; the host stays frozen: frozen: the disk /dev/sdb"), "{text}");
    let (outcome, text, frozen) = unfrozen(&mut seen, &first.to_uppercase());
    assert_eq!((outcome, frozen.as_ref()), (RequestOutcome::Done, Some(&second)));
    assert!(text.contains("was given up before"), "{text}");
    let (outcome, text, frozen) = unfrozen(&mut seen, &second);
    assert_eq!((outcome, frozen), (RequestOutcome::Done, None), "{text}");
    assert!(!text.contains("stays frozen") && seen.memory.given_up.len() == 2, "{text}");
}

/// The events that one look at the disks records.
fn events(seen: &mut HostInputs) -> Vec<EventReason> {
    let mut turn = StepDraft::new(seen, now());
    check_disk_marks(&mut turn);
    let step = turn.finish(crate::host::model::HostReason::new("so it is"));
    seen.memory = step.memory;
    step.events.into_iter().map(|event| event.reason).collect()
}

#[test]
fn a_freeze_and_its_end_are_said_once_each() {
    let newer = guid(5, OLD, LAST + 1);
    let mut seen = seen(HostState::Available);
    seen.memory.frozen = Some(frozen(FrozenWhy::Unread, "a"));
    inspected(&mut seen, vec![marked(disk("sda", "A"), &newer)]);
    assert_eq!(events(&mut seen), [EventReason::HostFrozen], "for another reason than before");
    let since = seen.memory.frozen.as_ref().map(|frozen| (frozen.guid.clone(), frozen.since));
    assert_eq!(since, Some((newer, now())), "it is frozen by this mark since now");
    assert_eq!(events(&mut seen), Vec::<EventReason>::new());
    inspected(&mut seen, vec![disk("sda", "A")]);
    assert_eq!(events(&mut seen), [EventReason::HostUnfrozen]);
    assert_eq!((events(&mut seen), seen.memory.frozen), (vec![], None));
}
