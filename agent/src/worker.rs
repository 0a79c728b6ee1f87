//! The worker: the process that does the work. Drivers, network, then the conversation with the appliance; its exit
//! status says how PID 1 leaves.

use std::{fs, path::Path, process::ExitCode, sync::Arc, thread, time::Duration};

use anyhow::Context;
use firesteel_linux_host::LinuxHost;
use firesteel_modules as modules;
use firesteel_os as os;
use firesteel_steps::{Exit, board::ReportBoard};
use firesteel_sysfs::Roots;

use crate::init::{STATUS_POWER_OFF, STATUS_REBOOT};
use crate::log::{AgentLog, LogSubscriber, follow_kernel_log};
use crate::session::{ApplianceSession, ConversationEnd, first_sequence};
use crate::worker_handover::Handover;
use crate::{lldp_socket, network};

/// Where the board is kept for a later worker: memory, gone with the ramdisk.
const BOARD_FILE: &str = "/run/firesteel/board.json";
/// Drivers that find nothing new for a moment are done; this is for hardware that never is.
const COLDPLUG_MAX: Duration = Duration::from_secs(60);
/// Kernel lines from shortly before a worker's death explain it.
const BEFORE_DEATH: Duration = Duration::from_secs(10);
/// Time to read the console before an unwanted agent reboots.
const UNWANTED_PAUSE: Duration = Duration::from_secs(15);

pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        // The place only: a panic's text may quote what it was working on.
        if let Some(place) = panic.location() {
            drop(fs::write("/dev/kmsg", format!("<2>firesteel: the agent's worker panicked at {place}")));
        }
    }));
    match run() {
        Ok(outcome) => {
            if outcome.unwanted {
                tracing::warn!("{} in {} s", outcome.exit.text(), UNWANTED_PAUSE.as_secs());
                thread::sleep(UNWANTED_PAUSE);
            }
            ExitCode::from(match outcome.exit {
                Exit::Reboot => STATUS_REBOOT,
                Exit::PowerOff => STATUS_POWER_OFF,
            })
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ConversationEnd> {
    os::process::keep_memory().context("switching core dumps off")?;
    let handover = Handover::read(std::io::stdin())?;
    let log = Arc::new(AgentLog::new(first_sequence(handover.deaths), vec![handover.seed.token.clone()]));
    tracing::subscriber::set_global_default(LogSubscriber::new(Arc::clone(&log), handover.debug))
        .context("setting up the log")?;
    fs::create_dir_all("/run/firesteel").context("making /run/firesteel")?;
    let since = match handover.deaths {
        0 => Duration::ZERO,
        _ => Duration::from_millis(handover.died_ms).saturating_sub(BEFORE_DEATH),
    };
    let kernel_log = Arc::clone(&log);
    thread::spawn(move || {
        if let Err(error) = follow_kernel_log(&kernel_log, Path::new("/dev/kmsg"), since) {
            tracing::warn!("the kernel's log cannot be read: {error}");
        }
    });
    load_drivers();
    let roots = Roots::default();
    let way = network::bring_up(&roots, &handover.seed)?;
    let board = Arc::new(ReportBoard::new(Some(BOARD_FILE.into())));
    // The way to the appliance may need NICs that are still off, so this starts after it.
    lldp_socket::start(roots.clone(), Arc::clone(&board));
    let machine = Arc::new(LinuxHost::new(roots, handover.seed.boot_mac.clone()));
    let session = ApplianceSession::new(machine, &handover, board, log)?.by_way(way);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    Ok(runtime.block_on(session.run()))
}

fn load_drivers() {
    let report = modules::coldplug(Path::new("/"), COLDPLUG_MAX);
    tracing::info!("{} kernel modules loaded", report.loaded.len());
    for (module, why) in &report.failed {
        tracing::warn!("kernel module {module} was not loaded: {why}");
    }
    for device in &report.unmatched {
        tracing::debug!("no kernel module here is for {device}");
    }
}
