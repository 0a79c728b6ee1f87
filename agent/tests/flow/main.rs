//! The whole agent but its hardware: a simulated host talks to an appliance in this process, over
//! real TLS, and writes real files in place of disks.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::let_underscore_must_use, reason = "tests")]

mod appliance;
mod bad_input;
mod host;

use std::{
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
    time::Duration,
};

use appliance::{ATTEMPT, Appliance, TIME_MS, wait_until};
use base64::{Engine, engine::general_purpose::STANDARD};
use firesteel_agent::{
    board::Board,
    decide::Exit,
    handover::Handover,
    log::Log,
    session::{Outcome, Session, first_sequence},
};
use firesteel_wire::{
    Evidence, HandOffFile, Plan, RefusalReason, Seed, Step, StepState, Verdict,
    limits::{REPLY_FRESH, REPLY_LOST},
};
use host::{DISK_GUID, Image, SimulatedHost};

const TOKEN: &str = "v1.a-sealed-token-of-this-boot";

struct Running {
    appliance: Arc<Appliance>,
    host: Arc<SimulatedHost>,
    image: Image,
    board: Arc<Board>,
    session: JoinHandle<Outcome>,
}

fn handover(appliance: &Appliance, pin_sha256: &str) -> Handover {
    let seed = Seed {
        token: TOKEN.into(),
        appliance: format!("https://{}", appliance.address),
        pin_sha256: pin_sha256.into(),
        boot_mac: "52:54:00:00:00:01".into(),
    };
    Handover::new(seed, false).unwrap()
}

fn spawn(session: Session) -> JoinHandle<Outcome> {
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(session.run())
    })
}

fn start() -> Running {
    let appliance = Appliance::start();
    let handover = handover(&appliance, &appliance.pin_sha256);
    start_with(appliance, &handover, Board::new(None))
}

fn start_with(appliance: Arc<Appliance>, handover: &Handover, board: Board) -> Running {
    let host = Arc::new(SimulatedHost::new());
    let image = Image::new();
    appliance.put_image(image.stream.clone());
    let log = Arc::new(Log::new(first_sequence(handover.deaths), vec![TOKEN.into()]));
    let session = Session::new(Arc::clone(&host) as Arc<_>, handover, board, log).unwrap();
    Running { appliance, host, image, board: session.board(), session: spawn(session) }
}

impl Running {
    fn image_url(&self) -> String {
        format!("http://{}/images/x.raw.zst", self.appliance.image_address)
    }

    fn plan(&self, number: u32, steps: Vec<Step>) {
        self.appliance.say(Verdict::Plan { plan: Plan { number, attempt: ATTEMPT, steps } });
    }

    fn write_step(&self) -> Step {
        Step::WriteImage {
            disk: self.host.identity_of("target"),
            image: self.image.source(self.image_url()),
            disk_guid: DISK_GUID.into(),
        }
    }

    fn abort(&self) {
        self.appliance.say(Verdict::Abort { reason: "released".into() });
    }

    fn step(&self, index: usize) -> Option<firesteel_wire::StepReport> {
        self.board.read().steps.get(index).cloned()
    }

    fn wait_for_failure(&self) -> firesteel_wire::StepReport {
        let failed = || {
            let report = self.appliance.last_report()?;
            report.steps.into_iter().find(|step| step.state == StepState::Failed)
        };
        wait_until("a failed step in a report", || failed().is_some());
        failed().unwrap()
    }
}

fn files() -> Vec<HandOffFile> {
    [("ignition/config.ign", "{}"), ("ignition.firstboot", "")]
        .map(|(path, content)| HandOffFile { path: path.into(), mode: 0o600, content_base64: STANDARD.encode(content) })
        .into()
}

#[test]
fn from_hello_to_reboot() {
    let run = start();
    run.appliance.break_after.store(10 << 20, Ordering::SeqCst);
    let disk = run.host.identity_of("target");
    run.plan(1, vec![Step::Inspect]);
    wait_until("the inspection", || run.appliance.last_report().is_some_and(|report| !report.receipts.is_empty()));
    run.plan(1, vec![Step::PowerOff]);
    run.plan(
        2,
        vec![
            Step::ClearMetadata { disk: disk.clone() },
            run.write_step(),
            Step::HandOff { disk: disk.clone(), files: files() },
            Step::SetBootEntry { disk, label: "lab-1".into() },
            Step::Reboot,
        ],
    );
    let Running { appliance, host, image, session, .. } = run;
    assert_eq!(session.join().unwrap(), Outcome { exit: Exit::Reboot, unwanted: false });

    let heard = appliance.heard.lock().unwrap();
    assert_eq!((heard.hellos.len(), heard.hellos[0].token.as_str()), (1, TOKEN));
    let sequences: Vec<_> = heard.reports.iter().map(|report| report.sequence).collect();
    assert!(sequences.windows(2).all(|two| two[1] > two[0]), "{sequences:?}");
    let last = heard.reports.last().unwrap();
    assert!(last.leaving && last.plan == 2 && last.steps.iter().all(|step| step.state == StepState::Done));
    let names: Vec<_> = last.receipts.iter().map(|receipt| receipt.step.as_str()).collect();
    assert_eq!(names, ["inspect", "clear-metadata", "write-image", "hand-off", "set-boot-entry", "reboot"]);
    assert!(last.receipts.iter().all(|receipt| (TIME_MS..TIME_MS + 600_000).contains(&receipt.started_ms)));
    let Evidence::ImageWritten { readback_sha256, raw_sha256, .. } = &last.receipts[2].evidence else { panic!() };
    assert_eq!(readback_sha256, raw_sha256);
    assert!(matches!(&last.receipts[4].evidence, Evidence::BootEntrySet { method, .. } if method == "none"));
    assert_eq!(heard.requests_for_image.len(), 2, "the broken download was resumed");
    assert!(heard.requests_for_image[1].to_ascii_lowercase().contains("range: bytes="));

    let written = host.read("target");
    assert!(written[1 << 20..23 << 20] == image.raw[1 << 20..23 << 20]);
    let boot = host.folder.path().join("boot");
    assert_eq!(std::fs::read_to_string(boot.join("ignition/config.ign")).unwrap(), "{}");
    assert!(boot.join("ignition.firstboot").exists());
    assert_eq!(*host.mounts.lock().unwrap(), ["target ext4 rw", "unmounted", "target ext4 ro", "unmounted"]);
    host.assert_decoy_untouched();
}

#[test]
fn another_key_than_the_pinned_one_hears_nothing() {
    let appliance = Appliance::start();
    let handover = handover(&appliance, &"ab".repeat(32));
    let run = start_with(appliance, &handover, Board::new(None));
    // The agent tries for 30 minutes of its clock, from whenever it began.
    wait_until("the agent gives up", || {
        run.host.advance(REPLY_LOST);
        run.session.is_finished()
    });
    assert_eq!(run.session.join().unwrap(), Outcome { exit: Exit::Reboot, unwanted: true });
    assert!(run.appliance.heard.lock().unwrap().hellos.is_empty());
}

#[test]
fn an_abort_stops_the_write_and_leaves_nothing_bootable() {
    let run = start();
    run.appliance.hold_after.store(8 << 20, Ordering::SeqCst);
    run.plan(1, vec![run.write_step(), Step::PowerOff]);
    wait_until("half an image", || run.appliance.held.load(Ordering::SeqCst));
    let before = run.appliance.heard.lock().unwrap().reports.len();
    run.abort();
    wait_until("the abort's arrival", || run.appliance.heard.lock().unwrap().reports.len() > before + 1);
    run.appliance.go_on.notify_one();
    let Running { appliance, host, session, .. } = run;
    assert_eq!(session.join().unwrap(), Outcome { exit: Exit::Reboot, unwanted: false });
    let last = appliance.last_report().unwrap();
    assert!(last.leaving);
    assert_eq!((last.steps[0].state, last.steps[1].state), (StepState::Failed, StepState::Pending));
    assert!(last.steps[0].disk_changed && last.steps[0].error.contains("released"), "{}", last.steps[0].error);
    assert!(host.read("target")[..1 << 20].iter().all(|&byte| byte == 0), "the partition table is gone");
    host.assert_decoy_untouched();
}

#[test]
fn a_disk_that_is_not_as_planned_is_not_touched() {
    let run = start();
    let mut disk = run.host.identity_of("target");
    disk.serial = "pulled".into();
    run.plan(1, vec![Step::ClearMetadata { disk }, Step::Reboot]);
    let failed = run.wait_for_failure();
    assert!(!failed.disk_changed);
    for named in ["serial-target", "serial-decoy", "pulled"] {
        assert!(failed.error.contains(named), "{}", failed.error);
    }
    run.abort();
    let Running { host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    assert!(host.read("target").iter().all(|&byte| byte == 0x11));
    host.assert_decoy_untouched();
}

#[test]
fn an_image_from_elsewhere_and_a_plan_of_another_attempt_are_refused() {
    let run = start();
    let image = run.image.source("http://127.0.0.2:9/images/x.raw.zst".into());
    let step = Step::WriteImage { disk: run.host.identity_of("target"), image, disk_guid: DISK_GUID.into() };
    run.plan(1, vec![step]);
    assert!(run.wait_for_failure().error.contains("not on the appliance"));
    let stale = Plan { number: 2, attempt: ATTEMPT - 1, steps: vec![Step::PowerOff] };
    run.appliance.say(Verdict::Plan { plan: stale });
    wait_until("the stale plan's rejection", || run.board.read().plan == 2);
    assert!(run.step(0).unwrap().error.contains("attempt"));
    run.abort();
    let Running { host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    assert!(host.read("target").iter().all(|&byte| byte == 0x11));
}

#[test]
fn a_write_pauses_while_the_appliance_is_silent() {
    let run = start();
    run.appliance.hold_after.store(6 << 20, Ordering::SeqCst);
    run.plan(1, vec![run.write_step(), Step::Reboot]);
    wait_until("half an image", || run.appliance.held.load(Ordering::SeqCst));
    run.appliance.silent.store(true, Ordering::SeqCst);
    // Until no reply can be on its way any more: one more request was met with silence.
    let gap = Duration::from_millis(300);
    std::thread::sleep(gap);
    run.host.advance(REPLY_FRESH * 2);
    run.appliance.go_on.notify_one();
    wait_until("the pause", || run.step(0).is_some_and(|step| step.activity.starts_with("paused")));
    let end = 22 << 20..23 << 20;
    assert!(run.host.read("target")[end.clone()].iter().all(|&byte| byte == 0x11), "nothing is written meanwhile");
    run.appliance.silent.store(false, Ordering::SeqCst);
    let Running { host, image, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    assert!(host.read("target")[end.clone()] == image.raw[end]);
}

#[test]
fn a_second_key_switches_the_host_off() {
    let appliance = Appliance::start();
    *appliance.refusal.lock().unwrap() = Some(RefusalReason::SecondKey);
    let handover = handover(&appliance, &appliance.pin_sha256);
    let run = start_with(appliance, &handover, Board::new(None));
    assert_eq!(run.session.join().unwrap(), Outcome { exit: Exit::PowerOff, unwanted: true });
}

#[test]
fn the_worker_after_a_dead_one_reports_what_failed_and_does_not_repeat_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("board.json");
    let plan = Plan { number: 1, attempt: ATTEMPT, steps: vec![Step::Inspect, Step::PowerOff] };
    let board = Board::new(Some(file.clone()));
    board.plan_started(&plan);
    board.step_started(0, TIME_MS);
    drop(board);

    let appliance = Appliance::start();
    let mut handover = handover(&appliance, &appliance.pin_sha256);
    handover.deaths = 1;
    handover.last_words = format!("the agent's worker died by SIGSEGV while it held {TOKEN}");
    appliance.say(Verdict::Plan { plan });
    let run = start_with(appliance, &handover, Board::new(Some(file)));
    let failed = run.wait_for_failure();
    assert_eq!((failed.index, failed.step.as_str()), (0, "inspect"));
    assert!(failed.error.contains("SIGSEGV") && !failed.error.contains(TOKEN));
    run.abort();
    let Running { appliance, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot, "the plan to power off was not run");
    assert!(appliance.last_report().unwrap().sequence > 1_000_000);
}
