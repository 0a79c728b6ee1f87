//! The whole agent but its hardware: a simulated host talks to an appliance in this process, over
//! real TLS, and writes real files in place of disks.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::let_underscore_must_use, reason = "tests")]

mod appliance;
mod bad_input;
mod claimants;
mod forms;
mod host;
mod hostile_images;
mod renamed;
mod wiping;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use appliance::{ATTEMPT, Appliance, TIME_MS, wait_until};
use base64::{Engine, engine::general_purpose::STANDARD};
use firesteel_agent::log::AgentLog;
use firesteel_agent::session::{ApplianceSession, ConversationEnd, first_sequence};
use firesteel_agent::worker_handover::Handover;
use firesteel_steps::{Exit, board::ReportBoard};
use firesteel_wire::erasure::{ErasurePolicy, Grade};
use firesteel_wire::limits::{REPLY_FRESH, REPLY_LOST};
use firesteel_wire::{
    AgentInstruction, AgentPlan, Evidence, HandOffFile, ImageStream, PlanStep, RefusalReason, Seed, StepState,
};
use host::{DISK_GUID, Image, SimulatedHost};

const TOKEN: &str = "v1.a-sealed-token-of-this-boot";

struct Running {
    appliance: Arc<Appliance>,
    host: Arc<SimulatedHost>,
    image: Image,
    board: Arc<ReportBoard>,
    session: JoinHandle<ConversationEnd>,
}

fn handover(appliance: &Appliance, pin_sha256: &str) -> Handover {
    let seed = Seed {
        token: TOKEN.into(),
        appliance: format!("https://{}", appliance.address),
        pin_sha256: pin_sha256.into(),
        boot_mac: "52:54:00:00:00:01".into(),
        network: None,
    };
    Handover::new(seed, false).unwrap()
}

fn spawn(session: ApplianceSession) -> JoinHandle<ConversationEnd> {
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(session.run())
    })
}

fn start() -> Running {
    let appliance = Appliance::start();
    let handover = handover(&appliance, &appliance.pin_sha256);
    start_with(appliance, &handover, ReportBoard::new(None))
}

fn start_with(appliance: Arc<Appliance>, handover: &Handover, board: ReportBoard) -> Running {
    start_on(SimulatedHost::new(), Image::new(), appliance, handover, board)
}

fn start_on(
    host: SimulatedHost,
    image: Image,
    appliance: Arc<Appliance>,
    handover: &Handover,
    board: ReportBoard,
) -> Running {
    let host = Arc::new(host);
    appliance.put_image(image.stream.clone());
    let log = Arc::new(AgentLog::new(first_sequence(handover.deaths), vec![TOKEN.into()]));
    let session = ApplianceSession::new(Arc::clone(&host) as Arc<_>, handover, board, log).unwrap();
    Running { appliance, host, image, board: session.board(), session: spawn(session) }
}

impl Running {
    fn image_url(&self) -> String {
        format!("http://{}/images/x.raw.zst", self.appliance.image_address)
    }

    fn plan(&self, number: u32, steps: Vec<PlanStep>) {
        self.appliance.say(AgentInstruction::Plan { plan: AgentPlan { number, attempt: ATTEMPT, steps } });
    }

    fn write_step(&self) -> PlanStep {
        self.write_step_of(self.image.source(self.image_url()))
    }

    fn write_step_of(&self, image: ImageStream) -> PlanStep {
        PlanStep::WriteImage {
            disk: self.host.identity_of("target"),
            image,
            disk_guid: DISK_GUID.into(),
            own_names: Vec::new(),
            override_guards: false,
            was_vacant: false,
            is_named: false,
        }
    }

    fn abort(&self) {
        self.appliance.say(AgentInstruction::Abort { reason: "released".into() });
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
    run.plan(1, vec![PlanStep::Inspect]);
    wait_until("the inspection", || run.appliance.last_report().is_some_and(|report| !report.receipts.is_empty()));
    run.plan(1, vec![PlanStep::PowerOff]);
    run.plan(
        2,
        vec![
            PlanStep::clear_metadata(disk.clone()),
            run.write_step(),
            PlanStep::HandOff { disk: disk.clone(), files: files(), forms: None },
            PlanStep::SetBootEntry { disk, label: "lab-1".into() },
            PlanStep::Reboot,
        ],
    );
    let Running { appliance, host, image, session, .. } = run;
    assert_eq!(session.join().unwrap(), ConversationEnd { exit: Exit::Reboot, unwanted: false });

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

fn erase(run: &Running, override_guards: bool) -> PlanStep {
    let (disk, policy) = (run.host.identity_of("target"), ErasurePolicy::Full);
    PlanStep::EraseDisk { disk, policy, own_names: Vec::new(), override_guards, was_vacant: false, is_named: false }
}

#[test]
fn a_disk_is_erased_with_proof() {
    let run = start();
    run.plan(1, vec![erase(&run, false), PlanStep::PowerOff]);
    let Running { appliance, host, session, .. } = run;
    assert_eq!(session.join().unwrap(), ConversationEnd { exit: Exit::PowerOff, unwanted: false });
    let last = appliance.last_report().unwrap();
    let Evidence::DiskErased(erasure) = &last.receipts[0].evidence else { panic!("{last:?}") };
    assert_eq!((erasure.method.as_str(), erasure.grade), ("overwrite", Grade::Clear));
    assert_eq!(erasure.samples.read_back, 512 * 8);
    assert!(erasure.samples.canaries > 500 && erasure.samples.blank_after == 512 * 8, "{:?}", erasure.samples);
    assert!(!erasure.unverified.is_empty(), "spare blocks are never reached by writing");
    assert!(host.read("target").iter().all(|&byte| byte == 0));
    host.assert_decoy_untouched();
}

#[test]
fn a_disk_of_a_cluster_is_erased_only_when_its_owner_overrides() {
    let run = start();
    let mut disk = run.host.read("target");
    disk[64 << 10..(64 << 10) + 8].copy_from_slice(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
    let protocol = (64 << 10) + 96;
    disk[protocol..protocol + 9].copy_from_slice(b"lock_dlm\0");
    std::fs::write(run.host.folder.path().join("target"), &disk).unwrap();
    run.plan(1, vec![erase(&run, false)]);
    let failed = run.wait_for_failure();
    assert!(!failed.disk_changed && failed.error.contains("GFS2"), "{}", failed.error);
    assert!(run.host.read("target") == disk, "not a byte was changed");
    run.plan(2, vec![erase(&run, true), PlanStep::PowerOff]);
    let Running { appliance, host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::PowerOff);
    let last = appliance.last_report().unwrap();
    let Evidence::DiskErased(erasure) = &last.receipts[0].evidence else { panic!("{last:?}") };
    assert!(erasure.overridden[0].starts_with("the disk: it holds GFS2"), "{:?}", erasure.overridden);
    assert!(host.read("target").iter().all(|&byte| byte == 0));
    host.assert_decoy_untouched();
}

#[test]
fn another_key_than_the_pinned_one_hears_nothing() {
    let appliance = Appliance::start();
    let handover = handover(&appliance, &"ab".repeat(32));
    let run = start_with(appliance, &handover, ReportBoard::new(None));
    // The agent tries for 30 minutes of its clock, from whenever it began.
    wait_until("the agent gives up", || {
        run.host.advance(REPLY_LOST);
        run.session.is_finished()
    });
    assert_eq!(run.session.join().unwrap(), ConversationEnd { exit: Exit::Reboot, unwanted: true });
    assert!(run.appliance.heard.lock().unwrap().hellos.is_empty());
}

#[test]
fn an_abort_stops_the_write_and_leaves_nothing_bootable() {
    let run = start();
    run.appliance.hold_after.store(8 << 20, Ordering::SeqCst);
    run.plan(1, vec![run.write_step(), PlanStep::PowerOff]);
    wait_until("half an image", || run.appliance.held.load(Ordering::SeqCst));
    let before = run.appliance.heard.lock().unwrap().reports.len();
    run.abort();
    wait_until("the abort's arrival", || run.appliance.heard.lock().unwrap().reports.len() > before + 1);
    run.appliance.go_on.notify_one();
    let Running { appliance, host, session, .. } = run;
    assert_eq!(session.join().unwrap(), ConversationEnd { exit: Exit::Reboot, unwanted: false });
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
    run.plan(1, vec![PlanStep::clear_metadata(disk), PlanStep::Reboot]);
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
    run.plan(1, vec![run.write_step_of(image)]);
    assert!(run.wait_for_failure().error.contains("not on the appliance"));
    let stale = AgentPlan { number: 2, attempt: ATTEMPT - 1, steps: vec![PlanStep::PowerOff] };
    run.appliance.say(AgentInstruction::Plan { plan: stale });
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
    run.plan(1, vec![run.write_step(), PlanStep::Reboot]);
    wait_until("half an image", || run.appliance.held.load(Ordering::SeqCst));
    run.appliance.silent.store(true, Ordering::SeqCst);
    // A new request shows that the last reply arrived: none is on its way any more.
    wait_until("a request met with silence", || run.appliance.unanswered.load(Ordering::SeqCst) > 0);
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
fn a_write_holds_while_the_replies_say_so() {
    let run = start();
    *run.appliance.hold.lock().unwrap() = Some("halted by ann".into());
    // Until the agent has heard it.
    let heard = || run.appliance.heard.lock().unwrap().reports.len();
    let before = heard();
    wait_until("a reply with the hold", || heard() > before + 1);
    run.plan(1, vec![PlanStep::Inspect, run.write_step(), PlanStep::Reboot]);
    wait_until("the hold", || run.step(1).is_some_and(|step| step.activity == "paused: halted by ann"));
    assert!(run.step(0).is_some_and(|step| step.state == StepState::Done), "what destroys nothing goes on");
    assert!(run.host.read("target").iter().all(|&byte| byte == 0x11), "nothing was written");
    *run.appliance.hold.lock().unwrap() = None;
    let Running { host, image, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    let end = 22 << 20..23 << 20;
    assert!(host.read("target")[end.clone()] == image.raw[end]);
}

/// A person decides: the agent asks again, and does not leave.
#[test]
fn an_agent_that_is_held_waits_and_asks_again() {
    let appliance = Appliance::start();
    *appliance.refusal.lock().unwrap() = Some(RefusalReason::Held);
    let handover = handover(&appliance, &appliance.pin_sha256);
    let run = start_with(appliance, &handover, ReportBoard::new(None));
    wait_until("it asks again, for longer than it waits for an answer", || {
        run.host.advance(REPLY_LOST);
        run.appliance.refused.load(Ordering::SeqCst) >= 3
    });
    assert!(!run.session.is_finished());
    *run.appliance.refusal.lock().unwrap() = None;
    wait_until("its hello is taken", || !run.appliance.heard.lock().unwrap().hellos.is_empty());
    run.abort();
    assert_eq!(run.session.join().unwrap().exit, Exit::Reboot);
}

#[test]
fn the_worker_after_a_dead_one_reports_what_failed_and_does_not_repeat_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("board.json");
    let plan = AgentPlan { number: 1, attempt: ATTEMPT, steps: vec![PlanStep::Inspect, PlanStep::PowerOff] };
    let board = ReportBoard::new(Some(file.clone()));
    board.plan_started(&plan);
    board.step_started(0, Duration::from_secs(1));
    drop(board);

    let appliance = Appliance::start();
    let mut handover = handover(&appliance, &appliance.pin_sha256);
    handover.deaths = 1;
    handover.last_words = format!("the agent's worker died by SIGSEGV while it held {TOKEN}");
    appliance.say(AgentInstruction::Plan { plan });
    let run = start_with(appliance, &handover, ReportBoard::new(Some(file)));
    let failed = run.wait_for_failure();
    assert_eq!((failed.index, failed.step.as_str()), (0, "inspect"));
    assert!(failed.error.contains("SIGSEGV") && !failed.error.contains(TOKEN));
    run.abort();
    let Running { appliance, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot, "the plan to power off was not run");
    assert!(appliance.last_report().unwrap().sequence > 1_000_000);
}

#[test]
fn receipts_that_are_stored_are_not_brought_again_unless_the_store_forgets_them() {
    let running = start();
    running.appliance.stores.store(true, Ordering::SeqCst);
    running.plan(1, vec![PlanStep::Inspect]);
    let has = |receipts: usize| {
        running
            .appliance
            .last_report()
            .is_some_and(|last| last.plan == 1 && last.idle && last.receipts.len() == receipts)
    };
    wait_until("a report without the receipt", || has(0));
    let brought =
        |reports: &[firesteel_wire::AgentReport]| reports.iter().filter(|report| !report.receipts.is_empty()).count();
    assert_eq!(brought(&running.appliance.heard.lock().unwrap().reports), 1, "until it was answered");
    assert_eq!(running.board.read().receipts.len(), 1, "it stays on the board");
    // An older store was restored.
    running.appliance.stores.store(false, Ordering::SeqCst);
    wait_until("a report with it again", || has(1));
    running.abort();
    assert_eq!(running.session.join().unwrap().exit, Exit::Reboot);
}

#[test]
fn a_switch_that_speaks_late_is_told_of_without_a_plan() {
    let running = start();
    wait_until("a first report", || running.appliance.last_report().is_some());
    assert!(running.appliance.last_report().unwrap().neighbours.is_empty());
    let said = firesteel_lldp::LldpNeighbour {
        chassis_id: "00:1c:73:aa:bb:cc".into(),
        port_id: "Ethernet17/1".into(),
        seconds: 120,
        ..Default::default()
    };
    running.board.record_neighbour("eth0", "52:54:00:00:00:01", said, Duration::from_secs(31));
    let told = || running.appliance.last_report().is_some_and(|last| !last.neighbours.is_empty());
    wait_until("a report of it", told);
    let last = running.appliance.last_report().unwrap();
    assert_eq!((&*last.neighbours[0].switch_id, &*last.neighbours[0].port_id), ("00:1c:73:aa:bb:cc", "Ethernet17/1"));
    running.abort();
    assert_eq!(running.session.join().unwrap().exit, Exit::Reboot);
}
