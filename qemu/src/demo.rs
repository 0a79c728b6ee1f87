//! `lab demo`: bare machines to running operating systems, watched live, and where there are BMCs all the way back.

use std::{collections::HashSet, path::PathBuf, time::SystemTime};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::bmc::BmcKind;
use crate::erasure_label::{self, ErasureLabel};
use crate::host_view::HostView;
use crate::lab::{DesiredHost, HostPlan, LIMIT, Lab, LabConfig, MachineOptions, PATIENCE};
use crate::machine::{MachinePower, NetBoot};
use crate::manifests;
use crate::probe::KERNEL_FIRST_LINE;
use crate::progress::{self, ProgressStep, print, print_status, say_for_now};
use crate::report::{self, HostReport};
use crate::scenario::is_blank;

const LOOK_EVERY: Duration = Duration::from_millis(700);
/// The patience without a BMC: the machine is known when its agent has said hello.
const DISCOVERY_PATIENCE: Duration = PATIENCE;

#[derive(Clone, Debug, Args)]
pub struct DemoOptions {
    #[command(flatten)]
    pub machines: MachineOptions,
    /// Number of machines, all at once
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20))]
    pub hosts: u8,
    /// How machines are switched on: through their BMC by the appliance, or by hand and then adopted
    #[arg(long, value_enum, default_value = "redfish")]
    pub bmc: BmcKind,
    /// How UEFI firmware boots from the network
    #[arg(long, value_enum, default_value = "pxe")]
    pub net_boot: NetBoot,
    /// Let the BIOS's network card load our undionly.kpxe by TFTP instead of using its own iPXE
    #[arg(long)]
    pub chain: bool,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Runs the demo in a fresh lab; an error unless every machine runs its new OS, and is let go in order where it has a BMC.
pub async fn run(mut config: LabConfig, options: &DemoOptions) -> anyhow::Result<()> {
    config.upgrade_ipxe = options.chain;
    let image = config.artefacts.image(options.machines.image)?.to_owned();
    let accel = config.accel;
    let step = ProgressStep::begin("starting the network and the appliance");
    let mut lab = Lab::start(config).await?;
    step.end();
    let names: Vec<_> = (1..=options.hosts).map(|number| format!("host-{number}")).collect();
    for name in &names {
        let plan = options.machines.plan(name);
        lab.add_machine(HostPlan { net_boot: options.net_boot, bmc: options.bmc, ..plan }).await?;
    }
    print_status(&format!(
        "{} with {} firmware, empty {} disk, {} MiB, on {accel}",
        names.join(", "),
        options.machines.firmware,
        options.machines.disk,
        options.machines.memory
    ));
    let step = ProgressStep::begin("publishing the OS image");
    let source = lab.publish(&image)?;
    step.end_with(options.machines.image.suffix());
    let result = install(&lab, &names, &source, options).await;
    let reports = match result {
        Ok(reports) => reports,
        Err(error) => {
            print_status(&format!("the appliance's log ends with:\n{}", lab.appliance.log_tail(12)));
            lab.stop().await;
            return Err(error);
        }
    };
    for report in &reports {
        print(&report.table());
    }
    if let Some(path) = &options.json {
        std::fs::write(path, format!("{:#}\n", report::json(&reports)))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    print_status("every host runs its new operating system");
    let retired = if options.bmc == BmcKind::None { Ok(()) } else { retire_all(&lab, &names, options.bmc).await };
    if retired.is_err() {
        print_status(&format!("the appliance's log ends with:\n{}", lab.appliance.log_tail(12)));
    }
    lab.stop().await;
    retired
}

async fn install(
    lab: &Lab,
    names: &[String],
    source: &crate::manifests::ManifestImage,
    options: &DemoOptions,
) -> anyhow::Result<Vec<HostReport>> {
    let mut watchers = Vec::new();
    for name in names {
        watchers.push(watch_boot(lab, name)?);
        if options.bmc == BmcKind::None {
            discover_and_adopt(lab, name).await?;
        }
        lab.apply_host(name, &DesiredHost { image: Some(source.clone()), ..DesiredHost::default() }).await?;
        print_status(&format!("{name}: applied; it is the appliance's now"));
    }
    let views = follow(lab, names).await?;
    let mut reports = Vec::new();
    for ((name, view), watcher) in names.iter().zip(views).zip(watchers) {
        check(name, &view)?;
        let (power_on, kernel_first_line) = watcher.await.context("watching the boot")?;
        reports.push(HostReport {
            name: name.clone(),
            firmware: options.machines.firmware,
            disk: options.machines.disk,
            image: options.machines.image,
            power_on,
            kernel_first_line,
            view,
        });
    }
    Ok(reports)
}

/// Notes when the machine is first switched on and when its first kernel speaks.
fn watch_boot(lab: &Lab, name: &str) -> anyhow::Result<JoinHandle<(SystemTime, Option<SystemTime>)>> {
    let machine = lab.machine(name)?.clone();
    Ok(tokio::spawn(async move {
        let mut power = machine.power();
        let power_on = match power.wait_for(|power| *power != MachinePower::Off).await.as_deref() {
            Ok(MachinePower::On { since }) => *since,
            Ok(MachinePower::Off) | Err(_) => SystemTime::now(),
        };
        let seen = machine.serial().wait_for(KERNEL_FIRST_LINE, 0, PATIENCE).await;
        (power_on, seen.ok().flatten())
    }))
}

/// A machine that the appliance has never heard of: switched on by hand, inspected, then adopted.
pub(crate) async fn discover_and_adopt(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let mac = lab.machine(name)?.config().mac;
    lab.power_on(name).await?;
    let step = ProgressStep::begin(format!(
        "{name} is switched on and boots; waiting until {mac} is discovered and inspected"
    ));
    let object = mac.replace(':', "-");
    let begun = Instant::now();
    loop {
        let found = lab.appliance.json(&["get", "discoveredhosts", &object]).await;
        if found.is_ok_and(|found| found.pointer("/status/hardware").is_some()) {
            break;
        }
        if begun.elapsed() > DISCOVERY_PATIENCE {
            bail!("{name} was not discovered; its console ends with:\n{}", lab.serial(name)?.tail(20));
        }
        sleep(LOOK_EVERY).await;
    }
    step.end();
    lab.appliance.cli(&["adopt", &mac, "--name", name]).await?;
    print_status(&format!("{name}: adopted"));
    Ok(())
}

/// Prints what happens until every host runs.
async fn follow(lab: &Lab, names: &[String]) -> anyhow::Result<Vec<HostView>> {
    let mut watched: Vec<_> = names.iter().map(|name| DemoHost::new(name)).collect();
    loop {
        let mut lines = Vec::new();
        for host in &mut watched {
            host.poll_host(lab).await?;
            lines.extend(host.progress_line());
        }
        if watched.iter().all(DemoHost::runs) {
            return Ok(watched.into_iter().map(|host| host.view).collect());
        }
        if !lines.is_empty() {
            say_for_now(&lines.join("   "));
        }
        sleep(LOOK_EVERY).await;
    }
}

struct DemoHost<'a> {
    name: &'a str,
    view: HostView,
    /// Events that were shown: attempt, name and time.
    shown: HashSet<(u64, String, Timestamp)>,
    error: String,
    state: String,
    console: u64,
    begun: Instant,
    moved: Instant,
}

impl<'a> DemoHost<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            view: HostView::default(),
            shown: HashSet::new(),
            error: String::new(),
            state: String::new(),
            console: 0,
            begun: Instant::now(),
            moved: Instant::now(),
        }
    }

    fn runs(&self) -> bool {
        self.view.count("running") > 0
    }

    async fn poll_host(&mut self, lab: &Lab) -> anyhow::Result<()> {
        let power = *lab.machine(self.name)?.power().borrow();
        let console = lab.serial(self.name)?.position().unwrap_or_default();
        let before = self.view.pulse();
        self.view = lab.view(self.name).await?;
        if self.view.pulse() != before || console != self.console {
            (self.moved, self.console) = (Instant::now(), console);
        }
        if self.view.state() != self.state {
            self.state = self.view.state().to_owned();
            print_status(&format!("{}  ------ {}", self.name, self.state));
        }
        for event in self.view.timeline() {
            if !self.shown.insert((event.attempt, event.event.clone(), event.at)) {
                continue;
            }
            let at = match power {
                MachinePower::On { since } => report::to_system(event.at).duration_since(since).ok(),
                MachinePower::Off => None,
            };
            let at = at.map_or_else(|| "        ".to_owned(), |at| format!("{:6.1} s", at.as_secs_f64()));
            let line = format!("{}  {at}  {:20} {}", self.name, event.key(), report::describe(&event));
            print_status(line.trim_end());
        }
        if self.view.error() != self.error {
            self.error = self.view.error().to_owned();
            if !self.error.is_empty() {
                print_status(&format!("{}: error: {}", self.name, self.error));
            }
        }
        if self.moved.elapsed() > PATIENCE || self.begun.elapsed() > LIMIT {
            let console = lab.serial(self.name)?.tail(20);
            bail!(
                "{}: gave up after {}, the last sign of progress was {} ago; state {}: {} {}\n\
                 The serial console ends with:\n{console}",
                self.name,
                progress::seconds(self.begun.elapsed()),
                progress::seconds(self.moved.elapsed()),
                self.view.state(),
                self.view.reason(),
                self.view.error(),
            );
        }
        Ok(())
    }

    fn progress_line(&self) -> Option<String> {
        let progress = self.view.progress().filter(|progress| progress.total_bytes > 0 && !self.runs())?;
        Some(format!(
            "{} {} {} % of {}",
            self.name,
            progress.step,
            progress.percent,
            progress::bytes(progress.total_bytes)
        ))
    }
}

async fn retire_all(lab: &Lab, names: &[String], bmc: BmcKind) -> anyhow::Result<()> {
    for done in futures_util::future::join_all(names.iter().map(|name| retire(lab, name, bmc))).await {
        done?;
    }
    Ok(())
}

/// The way back, all of it by the BMC: switched off, deprovisioned with its disks erased in full and looked at from
/// outside, called as its BMC can show it, its receipts checked without the appliance, deleted.
pub(crate) async fn retire(lab: &Lab, name: &str, bmc: BmcKind) -> anyhow::Result<()> {
    lab.apply(&manifests::erased_in_full(name)).await?;
    lab.apply(&manifests::offline(name)).await?;
    let step = ProgressStep::begin(format!("{name} shall be off"));
    let is_off = timeout(PATIENCE, lab.machine(name)?.wait_off()).await.is_ok();
    ensure!(is_off, "{name} was not switched off though it shall be offline");
    step.end();
    let step = ProgressStep::begin(format!("{name} shall have no image"));
    lab.apply(&manifests::without_image(name)).await?;
    let view = lab.wait_for(name, "its deprovisioning", |view| view.state() == "available").await?;
    all_blank(lab, name)?;
    step.end_with(view.reason());
    let called = ErasureLabel::expected_label(bmc);
    erasure_label::check(lab, name, called).await?;
    erasure_label::check_receipts(lab, name, called).await?;
    release(lab, name).await?;
    ensure!(*lab.machine(name)?.power().borrow() == MachinePower::Off, "{name} is deleted, but not off");
    print_status(&format!(
        "{name}: switched off, its disks erased ({called:?}) and blank, its receipts true, and deleted"
    ));
    Ok(())
}

/// Nothing is left on the disks of a host that was deprovisioned.
pub(crate) fn all_blank(lab: &Lab, name: &str) -> anyhow::Result<()> {
    for disk in lab.machine(name)?.config().disks {
        ensure!(is_blank(&disk.path)?, "{name} is deprovisioned, but its disk {} is not blank", disk.serial);
    }
    Ok(())
}

/// Has a host deleted, and waits until it is gone.
pub(crate) async fn release(lab: &Lab, name: &str) -> anyhow::Result<()> {
    lab.appliance.cli(&["release", name, "--yes"]).await?;
    let gone = async {
        while lab.view(name).await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    ensure!(timeout(PATIENCE, gone).await.is_ok(), "{name} is not gone after its release");
    Ok(())
}

/// "Running" must come with the evidence for it.
pub(crate) fn check(name: &str, view: &HostView) -> anyhow::Result<()> {
    for kind in ["image_written", "files_handed_off"] {
        if !view.receipts().iter().any(|receipt| receipt["evidence"]["kind"] == kind) {
            bail!("{name} runs, but there is no receipt {kind:?}");
        }
    }
    for event in ["agent_hello", "config_fetched"] {
        if view.count(event) == 0 {
            bail!("{name} runs, but its timeline has no {event}");
        }
    }
    if view.state() != "provisioned" {
        bail!("{name} runs, but its state is {:?}", view.state());
    }
    Ok(())
}
