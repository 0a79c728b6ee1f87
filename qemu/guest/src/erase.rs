//! The agent's own steps, all at once, as a plan would have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use firesteel_host::Host;
use firesteel_os as os;
use firesteel_steps::{self as steps, StepContext, board::ReportBoard, gate::Gate, tls::pinned_client_config};
use firesteel_wire::erasure::ErasurePolicy;
use firesteel_wire::{AgentPlan, DiskIdentity, PlanStep};
use serde::Deserialize;
use serde_json::json;

use crate::{find, print_answer};

/// Steps whose progress is shown: of a hundred, the lines would take the machine's time.
const SHOWN_MAX: usize = 4;

#[derive(Deserialize)]
pub(crate) struct Erase {
    serial: String,
    #[serde(default)]
    own_names: Vec<String>,
    #[serde(default)]
    override_guards: bool,
    #[serde(default)]
    was_vacant: bool,
}

pub(crate) fn all(machine: &dyn Host, disks: &[Erase]) -> anyhow::Result<()> {
    let mut steps = Vec::new();
    for wanted in disks {
        let disk = find(machine, &wanted.serial)?;
        let disk = DiskIdentity { serial: disk.serial, size_bytes: disk.size_bytes, ..DiskIdentity::default() };
        let (own_names, override_guards) = (wanted.own_names.clone(), wanted.override_guards);
        steps.push(PlanStep::EraseDisk {
            disk,
            policy: ErasurePolicy::Full,
            own_names,
            override_guards,
            was_vacant: wanted.was_vacant,
            is_named: false,
        });
    }
    let gate = Arc::new(Gate::new(os::clock::uptime));
    let board = ReportBoard::new(None);
    let plan = AgentPlan { number: 1, attempt: 1, steps };
    board.plan_started(&plan);
    let tls = pinned_client_config(&"00".repeat(32)).context("setting up TLS")?;
    let http = reqwest::Client::builder().tls_backend_preconfigured(tls).build().context("setting up HTTP")?;
    let job = StepContext {
        host: machine,
        gate: &gate,
        board: &board,
        steps: &plan.steps,
        index: 0,
        http: &http,
        appliance: "",
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // In place of the appliance's replies; and the progress, for the lab to see.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                gate.renew(None);
                print_answer(&json!({"progress": board.read().steps.iter().take(SHOWN_MAX).map(|step| json!({
                    "activity": step.activity, "done": step.done_bytes, "total": step.total_bytes,
                    "rate": step.bytes_per_second,
                })).collect::<Vec<_>>()}));
                thread::sleep(Duration::from_millis(500));
            }
        });
        let begun = Instant::now();
        steps::run_at_once(&job, &plan.steps, &|_| {}, &|index, end| {
            let serial = usize::try_from(index).ok().and_then(|index| disks.get(index)).map(|disk| &disk.serial);
            let seconds = begun.elapsed().as_secs_f64();
            print_answer(&match end {
                Ok(finished) => json!({"erased": serial, "seconds": seconds, "evidence": finished.evidence}),
                Err(failure) => {
                    json!({"refused": serial, "why": failure.error, "changed": failure.disk_changed})
                }
            });
        });
        is_over.store(true, Ordering::Relaxed);
    });
    Ok(())
}
