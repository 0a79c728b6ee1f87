//! Fleets for the tests of a watch.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fleet::{FleetEvent, FleetKind, FleetModel, FleetObject, WatchMoment};
use super::fleet_view::view;
use super::goal::WatchGoal;
use super::layout::layout;

pub(super) const START: &str = "2026-03-01T14:02:11Z";

/// The moment so many seconds after the start of a watch.
pub(super) fn after(seconds: u64) -> WatchMoment {
    let elapsed = Duration::from_secs(seconds);
    let at: Timestamp = START.parse().unwrap();
    WatchMoment { at: (at + elapsed).to_zoned(jiff::tz::TimeZone::UTC), elapsed }
}

pub(super) fn host(name: &str, state: &str, status: Value) -> FleetObject {
    let mut object = json!({"metadata": {"name": name, "generation": 1}, "status": status});
    object["status"]["provisioning"]["state"] = state.into();
    FleetObject::read(FleetKind::Hosts, object)
}

pub(super) fn locked(name: &str, state: &str, why: &str) -> FleetObject {
    let metadata = json!({"name": name, "annotations": {"firesteel.dev/lock": why}});
    let status = json!({"provisioning": {"state": state}});
    FleetObject::read(FleetKind::Hosts, json!({"metadata": metadata, "status": status}))
}

pub(super) fn journal(name: &str, status: Value) -> FleetObject {
    FleetObject::read(FleetKind::Journals, json!({"metadata": {"name": name}, "status": status}))
}

pub(super) fn reason(name: &str, text: &str) -> FleetObject {
    journal(name, json!({"reason": {"text": text}}))
}

/// The progress of a write, of which so many percent are done; it was reported at the start of the watch.
pub(super) fn writing(name: &str, percent: u64) -> FleetObject {
    let progress = json!({
        "attempt": 1, "step": "write-image", "activity": "writing", "percent": percent, "totalBytes": 4_290_000_000_u64,
        "doneBytes": percent * 42_900_000, "bytesPerSecond": 118_200_000, "secondsLeft": 40 - percent / 3, "at": START,
    });
    journal(name, json!({"progress": progress, "memory": {"attempt": 1}}))
}

pub(super) fn halt(name: &str, reason: &str) -> FleetObject {
    let metadata = json!({"name": name, "creationTimestamp": "2026-03-01T13:58:02Z"});
    FleetObject::read(FleetKind::Halts, json!({"metadata": metadata, "spec": {"by": "ann", "reason": reason}}))
}

pub(super) fn listed(objects: Vec<FleetObject>) -> FleetEvent {
    FleetEvent::Listed { objects, notes: Vec::new(), has_halts: true }
}

/// A fleet that was listed at the start of the watch.
pub(super) fn fleet(only: &[&str], objects: Vec<FleetObject>) -> FleetModel {
    let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
    let mut fleet = FleetModel::new("default", &only);
    fleet.take(listed(objects), &after(0));
    fleet
}

fn worker(number: usize) -> String {
    format!("dc1-rack07-worker-{number:02}")
}

const CAUSES: [&str; 3] = [
    "the BMC at 10.20.7.12 refuses the credentials of Secret dc1-rack07-bmc; edit it",
    "rootDeviceHints match no disk: minSizeGigabytes 900 is more than each disk has: /dev/nvme0n1 (model SAMSUNG \
     MZQL2960, serial S64GNE0R, 480 GB), /dev/nvme1n1 (model SAMSUNG MZQL2960, serial S64GNE0T, 480 GB), /dev/sda \
     (model MICRON 5300, serial 2117E5, 240 GB)",
    "the image https://images.example.com/rhcos-4.17.raw.zst cannot be fetched: 404",
];

/// A fleet of 60 hosts in which so many fail.
pub(super) fn sixty(failing: usize) -> FleetModel {
    let mut objects = Vec::new();
    for number in 1..=60 {
        let name = worker(number);
        // Not the first ones by name.
        let fails = (number + 52) % 60 < failing;
        objects.push(match number {
            _ if fails => {
                let message = CAUSES[number % 3];
                let status = json!({"errorType": "provisioning error", "errorMessage": message});
                host(&name, if number % 2 == 0 { "provisioning" } else { "registering" }, status)
            }
            40 => locked(&name, "provisioned", "ann: audit"),
            _ if number % 3 == 0 => host(&name, "provisioning", json!({})),
            _ if number % 20 == 1 => host(&name, "available", json!({})),
            _ => host(&name, "provisioned", json!({})),
        });
        objects.push(match number {
            _ if fails => reason(&name, &format!("{}; trying again in 2 min", CAUSES[number % 3])),
            40 => reason(&name, "locked by its owner (ann: audit): no disk of the host is cleaned or written"),
            30 => reason(&name, "waits for the agent to say hello"),
            _ if number % 3 == 0 => writing(&name, number as u64),
            _ if number % 20 == 1 => reason(&name, "waits for an image"),
            _ => reason(&name, "provisioned, and the OS reported that it runs"),
        });
    }
    fleet(&[], objects)
}

/// A halt of a fleet, a minute after the start of the watch.
pub(super) fn halted(mut fleet: FleetModel) -> FleetModel {
    fleet.take(FleetEvent::Present(halt("fleet", "the wrong disks are being wiped")), &after(60));
    for number in (3..=60).step_by(3) {
        let condition = json!({"type": "DestructionHeld", "status": "True", "reason": "FleetHalted", "message": "halted",
            "lastTransitionTime": START});
        let held = host(&worker(number), "provisioning", json!({"conditions": [condition]}));
        fleet.take(FleetEvent::Present(held), &after(60));
        let progress = json!({"attempt": 1, "step": "write-image", "activity": "writing", "percent": number,
            "totalBytes": 4_290_000_000_u64, "bytesPerSecond": 97_000_000, "secondsLeft": 20, "at": START});
        let memory = json!({"attempt": 1, "held": {"since": START}});
        let status = json!({"progress": progress, "memory": memory});
        fleet.take(FleetEvent::Present(journal(&worker(number), status)), &after(60));
    }
    fleet
}

/// A fleet whose appliance does not answer any more.
pub(super) fn lost(mut fleet: FleetModel) -> FleetModel {
    fleet.take(
        FleetEvent::Lost("could not ask the appliance at https://10.0.0.1:6443: connection refused".into()),
        &after(61),
    );
    fleet
}

/// The lines of a screen of this size, so many seconds after the start of the watch.
pub(super) fn picture(fleet: &FleetModel, until: Option<&str>, size: [usize; 2], seconds: u64) -> String {
    let goal = until
        .map(|word| WatchGoal { state: super::goal::state(word).unwrap(), timeout: Some(Duration::from_secs(1800)) });
    let lines = layout(&view(fleet, goal.as_ref(), &after(seconds)), size[0], size[1]);
    lines.into_iter().map(|line| line.text + "\n").collect()
}

/// A picture that is compared with a golden text.
pub(crate) struct GoldenPicture {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// The pictures that have golden texts.
pub(crate) fn golden_pictures() -> Vec<GoldenPicture> {
    let golden = |name, text| GoldenPicture { name, text };
    vec![
        golden("watch_80x24", picture(&sixty(3), None, [80, 24], 1)),
        golden("watch_120x40", picture(&sixty(3), Some("provisioned"), [120, 40], 1)),
        golden("watch_halted_80x24", picture(&halted(sixty(1)), None, [80, 24], 61)),
        golden("watch_lost_120x24", picture(&lost(halted(sixty(1))), Some("provisioned"), [120, 24], 75)),
        golden("watch_failing_80x24", picture(&sixty(30), None, [80, 24], 1)),
    ]
}
