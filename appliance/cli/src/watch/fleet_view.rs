//! What a person is shown of a fleet at one moment, before it is fitted to a screen. Pure.

use std::time::Duration;

use firesteel_resources::bare_metal_host::ProvisioningState;
use firesteel_resources::halt::USUAL_NAME;
use firesteel_resources::host_journal::JournalProgress;
use jiff::Timestamp;

use super::super::halt::resume_command;
use super::super::table::{clean, duration};
use super::fleet::{ApplianceLink, FleetHost, FleetModel, WatchMoment};
use super::goal::WatchGoal;

/// How long it is said that the appliance answers again.
const BACK_SHOWN: Duration = Duration::from_secs(60);
/// The state that is shown of a host that is gone.
const GONE: &str = "gone";

/// Hosts by what a person does about them, in the order of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HostClass {
    Failing,
    Working,
    Resting,
}

/// What is shown of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostRow {
    pub(super) class: HostClass,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) is_locked: bool,
    /// The percentage; empty where nothing is counted, like the next two.
    pub(super) done: String,
    /// The rate in MB/s.
    pub(super) rate: String,
    /// The remaining time.
    pub(super) left: String,
    /// What goes on, why nothing does, or what is wrong.
    pub(super) text: String,
}

/// What is shown of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FleetView {
    pub(super) title: String,
    pub(super) clock: String,
    /// What concerns all hosts: halts, and a lost connection.
    pub(super) alerts: Vec<String>,
    pub(super) notes: Vec<String>,
    /// The hosts in the order of the screen.
    pub(super) rows: Vec<HostRow>,
}

/// Shows a fleet.
pub(super) fn view(fleet: &FleetModel, goal: Option<&WatchGoal>, moment: &WatchMoment) -> FleetView {
    let mut rows: Vec<HostRow> = fleet.hosts().map(|host| row(host, fleet.is_up(), moment)).collect();
    rows.extend(fleet.gone().iter().map(|name| gone_row(name)));
    rows.sort_by(|one, other| (one.class, &one.name).cmp(&(other.class, &other.name)));
    FleetView {
        title: title(fleet, &rows),
        clock: moment.at.strftime("%H:%M:%S%:z").to_string(),
        alerts: halts(fleet, moment).into_iter().map(|halt| halt.text).chain(lost(fleet, moment)).collect(),
        notes: notes(fleet, goal, moment),
        rows,
    }
}

fn title(fleet: &FleetModel, rows: &[HostRow]) -> String {
    if !fleet.is_known() {
        return "the appliance has not answered yet".to_owned();
    }
    if rows.is_empty() {
        let namespace = clean(&fleet.namespace);
        return format!("no hosts in namespace {namespace}; `firesteel apply -f FILE` adds one");
    }
    let locked = rows.iter().filter(|row| row.is_locked).count();
    let locked = if locked > 0 { format!("; {locked} locked") } else { String::new() };
    let noun = if rows.len() == 1 { "host" } else { "hosts" };
    format!("{} {noun}: {}{locked}", rows.len(), counts(rows))
}

/// Counts hosts: `3 failing, 18 working, 29 provisioned`. Those that rest are counted by state, the most first.
pub(super) fn counts<'a>(rows: impl IntoIterator<Item = &'a HostRow>) -> String {
    let (mut failing, mut working) = (0, 0);
    let mut resting: Vec<(usize, &str)> = Vec::new();
    for row in rows {
        match row.class {
            HostClass::Failing => failing += 1,
            HostClass::Working => working += 1,
            HostClass::Resting => match resting.iter_mut().find(|(_, state)| *state == row.state) {
                Some((count, _)) => *count += 1,
                None => resting.push((1, row.state.as_str())),
            },
        }
    }
    resting.sort_by(|one, other| (other.0, one.1).cmp(&(one.0, other.1)));
    let all = [(failing, "failing"), (working, "working")].into_iter().chain(resting);
    let all: Vec<String> = all.filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    all.join(", ")
}

/// Shows one host. `is_up`: what is known of it is of now.
pub(super) fn row(named: FleetHost<'_>, is_up: bool, moment: &WatchMoment) -> HostRow {
    let FleetHost { name, host, facts } = named;
    let class = class(named);
    let progress = host.journal.progress.as_ref().filter(|_| class == HostClass::Working);
    let moves = progress.filter(|_| is_up && !is_held(named) && host.is_fresh(moment));
    let counted = progress.filter(|progress| progress.total_bytes > 0);
    let left = moves.and_then(|progress| progress.seconds_left).and_then(|left| i64::try_from(left).ok());
    HostRow {
        class,
        name: clean(name),
        state: facts.state.to_string(),
        is_locked: facts.lock.is_some(),
        done: counted.map(|progress| format!("{}%", progress.percent)).unwrap_or_default(),
        rate: moves.and_then(|progress| progress.bytes_per_second).map(megabytes).unwrap_or_default(),
        left: left.map(duration).unwrap_or_default(),
        text: clean(&text(named, progress)),
    }
}

fn gone_row(name: &str) -> HostRow {
    HostRow {
        class: HostClass::Resting,
        name: clean(name),
        state: GONE.to_owned(),
        is_locked: false,
        done: String::new(),
        rate: String::new(),
        left: String::new(),
        text: format!("no longer there; `firesteel receipt list {}` shows what was done to its disks", clean(name)),
    }
}

fn class(FleetHost { facts, .. }: FleetHost<'_>) -> HostClass {
    if facts.trouble.is_some() {
        return HostClass::Failing;
    }
    let works = match facts.state {
        ProvisioningState::Registering
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Provisioning
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOff
        | ProvisioningState::Deleting => true,
        ProvisioningState::New
        | ProvisioningState::Unmanaged
        | ProvisioningState::Available
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Foreign => false,
    };
    if works || facts.is_delayed { HostClass::Working } else { HostClass::Resting }
}

/// Returns whether work on the disks of the host is held up now.
fn is_held(FleetHost { host, facts, .. }: FleetHost<'_>) -> bool {
    host.journal.is_held && facts.held.is_some()
}

/// Says what goes on, why nothing does, or what is wrong; and first that the host is locked, or held up.
fn text(named: FleetHost<'_>, progress: Option<&JournalProgress>) -> String {
    let FleetHost { host, facts, .. } = named;
    let held = facts.held.as_ref().filter(|_| is_held(named));
    let before = match (&facts.lock, held.map(|held| held.reason.as_str())) {
        (Some(why), _) if why.is_empty() => "LOCKED; ".to_owned(),
        (Some(why), _) => format!("LOCKED ({why}); "),
        (None, Some("FleetHalted")) => "HELD by the halt; ".to_owned(),
        (None, Some("ClockDoubtful")) => "HELD while the clock is in doubt; ".to_owned(),
        (None, Some(_)) => "HELD; ".to_owned(),
        (None, None) => String::new(),
    };
    let reason = host.journal.reason.as_str();
    let what = match (&facts.trouble, progress) {
        // The journal says besides when it is tried again.
        (Some(trouble), _) if reason.starts_with(&trouble.text) => format!("{}: {reason}", trouble.words),
        (Some(trouble), _) => format!("{}: {}", trouble.words, trouble.text),
        (None, Some(progress)) if progress.activity.is_empty() => progress.step.clone(),
        (None, Some(progress)) => format!("{}: {}", progress.step, progress.activity),
        // It would say the same again.
        (None, None) if held.is_some() || facts.lock.is_some() && reason.starts_with("locked by") => String::new(),
        (None, None) => reason.to_owned(),
    };
    let text = before + &what;
    text.strip_suffix("; ").unwrap_or(&text).to_owned()
}

/// Formats a rate in MB/s, the only unit of this column.
#[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn megabytes(bytes_per_second: u64) -> String {
    format!("{:.1}", bytes_per_second as f64 / 1e6)
}

/// A halt of the fleet, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HaltNotice {
    pub(super) name: String,
    pub(super) text: String,
}

/// Says who halted the fleet, and how that ends. A user who may not read halts is shown what the hosts say.
pub(super) fn halts(fleet: &FleetModel, moment: &WatchMoment) -> Vec<HaltNotice> {
    let of_objects = fleet.halts().iter().map(|(name, halt)| {
        let since = halt.since.map(|since| format!(" since {}", full_time(since, moment))).unwrap_or_default();
        let (by, reason, resume) = (&halt.by, &halt.reason, resume_command(name));
        let text = clean(&format!("HALTED by {by}{since}: {reason}; `{resume}` ends it"));
        HaltNotice { name: clean(name), text }
    });
    let by_hosts = fleet.halt_by_hosts();
    let by_hosts =
        by_hosts.map(|text| HaltNotice { name: USUAL_NAME.to_owned(), text: clean(&format!("HALTED: {text}")) });
    of_objects.chain(by_hosts).collect()
}

fn full_time(at: Timestamp, moment: &WatchMoment) -> String {
    at.to_zoned(moment.at.time_zone().clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
}

fn lost(fleet: &FleetModel, moment: &WatchMoment) -> Option<String> {
    let clock = |at: &jiff::Zoned| at.strftime("%H:%M:%S%:z").to_string();
    match &fleet.link {
        ApplianceLink::Lost { since, why } => {
            let (since, why) = (clock(since), clean(why));
            Some(format!("NO ANSWER from the appliance since {since}, and it is tried again: {why}; hosts as of then"))
        }
        ApplianceLink::Back { lost, back, elapsed } if moment.elapsed.saturating_sub(*elapsed) < BACK_SHOWN => Some(
            format!("the appliance answers again: the connection was lost from {} to {}", clock(lost), clock(back)),
        ),
        ApplianceLink::Opening | ApplianceLink::Up | ApplianceLink::Back { .. } => None,
    }
}

fn notes(fleet: &FleetModel, goal: Option<&WatchGoal>, moment: &WatchMoment) -> Vec<String> {
    let goal = goal.filter(|_| fleet.is_known()).map(|goal| goal.describe(fleet, moment));
    fleet.notes.iter().map(|note| clean(note)).chain(goal).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::super::fleet::FleetEvent;
    use super::super::testing::{
        after, fleet, halt, halted, host, journal, listed, locked, lost, reason, sixty, writing,
    };
    use super::*;

    #[test]
    fn failing_hosts_come_first_then_those_that_work() {
        let objects = vec![
            host("a", "provisioned", json!({})),
            host("b", "inspecting", json!({})),
            host("c", "provisioned", json!({"errorMessage": "no power"})),
            host("d", "available", json!({"operationalStatus": "delayed"})),
            locked("e", "available", ""),
        ];
        let view = view(&fleet(&[], objects), None, &after(0));
        let names: Vec<&str> = view.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "d", "a", "e"]);
        assert_eq!(view.title, "5 hosts: 1 failing, 2 working, 1 available, 1 provisioned; 1 locked");
        assert_eq!(view.clock, "14:02:11+00:00");
    }

    #[test]
    fn a_row_has_one_rate_in_one_unit_while_it_is_reported() {
        let mut fleet = fleet(&[], vec![host("a", "provisioning", json!({})), writing("a", 40)]);
        let shown = |fleet: &FleetModel, second| {
            let row = row(fleet.host("a").unwrap(), fleet.is_up(), &after(second));
            [row.done, row.rate, row.left, row.text].join("|")
        };
        assert_eq!(shown(&fleet, 1), "40%|118.2|27s|write-image: writing");
        assert_eq!(shown(&fleet, 10), "40%|||write-image: writing", "nothing is reported any more");
        fleet.take(FleetEvent::Lost("x".into()), &after(2));
        assert_eq!(shown(&fleet, 3), "40%|||write-image: writing");
    }

    /// The rate of a held host moved with each redraw.
    #[test]
    fn a_halt_and_a_lock_are_shown_where_they_are() {
        let halted = view(&halted(sixty(1)), None, &after(61));
        let alert = "HALTED by ann since 2026-03-01 13:58:02+00:00: the wrong disks are being wiped; `firesteel resume` \
                     ends it";
        assert_eq!(halted.alerts, [alert]);
        let held = halted.rows.iter().find(|row| row.name == "dc1-rack07-worker-33").unwrap();
        let shown = [held.done.as_str(), &held.rate, &held.left, &held.text];
        assert_eq!(shown, ["33%", "", "", "HELD by the halt; write-image: writing"]);
        let locked = halted.rows.iter().find(|row| row.name == "dc1-rack07-worker-40").unwrap();
        assert_eq!((locked.is_locked, locked.text.as_str()), (true, "LOCKED (ann: audit)"));
        let mut two = fleet(&[], Vec::new());
        two.take(FleetEvent::Present(halt("night", "no one is here")), &after(1));
        assert!(view(&two, None, &after(1)).alerts[0].contains("`firesteel resume --name night`"));
    }

    #[test]
    fn a_user_who_may_not_read_halts_sees_them_by_the_hosts() {
        let condition = json!({"type": "DestructionHeld", "status": "True", "reason": "FleetHalted",
            "message": "halted by ann at noon", "lastTransitionTime": "2026-03-01T14:02:11Z"});
        let held = host("a", "available", json!({"conditions": [condition]}));
        let mut blind = FleetModel::new("default", &[]);
        let list = FleetEvent::Listed { objects: vec![held], notes: vec!["no journals".into()], has_halts: false };
        blind.take(list, &after(0));
        let view = view(&blind, None, &after(0));
        assert_eq!(
            (view.alerts.as_slice(), view.notes.as_slice()),
            (["HALTED: halted by ann at noon".to_owned()].as_slice(), ["no journals".to_owned()].as_slice())
        );
    }

    #[test]
    fn a_lost_connection_is_said_and_its_end_for_a_minute() {
        let mut fleet = lost(sixty(0));
        let alerts = |fleet: &FleetModel, second| view(fleet, None, &after(second)).alerts.concat();
        assert!(alerts(&fleet, 70).starts_with("NO ANSWER from the appliance since 14:03:12+00:00"));
        fleet.take(listed(vec![host("a", "available", json!({}))]), &after(80));
        let back = "the appliance answers again: the connection was lost from 14:03:12+00:00 to 14:03:31+00:00";
        assert_eq!((alerts(&fleet, 139).as_str(), alerts(&fleet, 140).as_str()), (back, ""));
    }

    #[test]
    fn control_characters_of_a_status_are_shown_and_do_nothing() {
        let text = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\nfine\u{202e}";
        let objects = vec![
            host("a", "available", json!({"errorMessage": text})),
            reason("b", text),
            host("b", "available", json!({})),
        ];
        let mut fleet = fleet(&[], objects);
        fleet.take(FleetEvent::Lost(text.into()), &after(1));
        fleet.take(FleetEvent::Present(halt("fleet", text)), &after(1));
        let view = view(&fleet, None, &after(1));
        let all = format!(
            "{}{}{}",
            view.title,
            view.alerts.concat(),
            view.rows.iter().map(|row| row.text.as_str()).collect::<String>()
        );
        assert!(!all.contains(|letter: char| letter.is_control() || letter == '\u{202e}'), "{all:?}");
        assert_eq!(all.matches("fine").count(), 4, "{all}");
    }

    #[test]
    fn a_cause_says_when_it_is_tried_again() {
        let failing = host("a", "registering", json!({"errorMessage": "no answer"}));
        let told = journal("a", json!({"reason": {"text": "no answer; trying again in 2 min"}}));
        let fleet = fleet(&[], vec![failing, told]);
        let row = row(fleet.host("a").unwrap(), true, &after(0));
        assert_eq!(row.text, "ERROR: no answer; trying again in 2 min");
    }
}
