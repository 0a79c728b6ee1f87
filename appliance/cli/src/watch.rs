//! `firesteel watch`: shows a fleet as it works, on the whole screen of a terminal, or as lines for a file or a pipe.
//!
//! ```text
//!   feed (the appliance) ─► fleet (what is known) ─► goal (is it over?)
//!                                                └─► fleet view ─► layout ─► screen, or change log ─► lines
//! ```
//!
//! The feed, the signals and the screen perform; all else decides.

mod change_log;
mod feed;
mod fleet;
mod fleet_view;
mod goal;
mod host_facts;
mod layout;
mod nearest;
mod screen;
mod signals;
#[cfg(test)]
pub(super) mod testing;
mod text_width;

pub(super) use host_facts::HostFacts;

use std::time::{Duration, Instant};

use clap::Args;
use firesteel_resources::bare_metal_host::ProvisioningState;
use jiff::Zoned;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{MissedTickBehavior, interval};

use change_log::ChangeLog;
use feed::FleetFeed;
use fleet::{FleetChange, FleetEvent, FleetModel, WatchMoment};
use goal::{WatchGoal, WatchVerdict};
use screen::WatchScreen;
use signals::{TerminalSignal, TerminalSignals};

use super::{ApiClient, ConnectionOptions, durations, kinds, print_text};

/// The time between two checks of the goal, and between two pictures of hosts that change.
const TICK: Duration = Duration::from_millis(200);
/// The ticks between two pictures of a fleet in which nothing changes: times pass.
const IDLE_TICKS: u32 = 5;
/// Events that wait to be shown; the appliance is read no faster.
const EVENTS_MAX: usize = 64;

#[derive(Debug, Args)]
pub struct WatchOptions {
    /// Only these hosts
    #[arg(value_parser = kinds::host_name)]
    hosts: Vec<String>,
    /// End when all hosts shown are in this state, such as `provisioned`; a host without a state is `new`
    #[arg(long, value_name = "STATE", value_parser = goal::state)]
    until: Option<ProvisioningState>,
    /// With --until: give up after this time, such as `90s`, `30m` or `1h30m` [default: never]
    #[arg(long, value_name = "TIME", value_parser = durations::limit, requires = "until")]
    timeout: Option<Duration>,
}

/// Shows hosts until a signal ends it, the goal is reached, or the named hosts are gone.
///
/// # Errors
/// When a host is unknown, the goal cannot be reached in time or at all, or the appliance does not answer or refuses.
pub(crate) async fn run(connection: &ConnectionOptions, options: WatchOptions) -> anyhow::Result<()> {
    let WatchOptions { hosts, until, timeout } = options;
    let client = ApiClient::open(connection)?;
    let fleet = FleetModel::new(&client.namespace, &hosts);
    let (sender, events) = channel(EVENTS_MAX);
    let mut feed = FleetFeed::new(connection, client, &hosts);
    let goal = until.map(|state| WatchGoal { state, timeout });
    let mut session = WatchSession { fleet, goal, started_at: Instant::now(), output: WatchOutput::open()? };
    let end = tokio::select! {
        error = feed.follow(&sender) => Err(error),
        end = session.run(events) => end,
    };
    session.finish(end)
}

/// Where changes go.
enum WatchOutput {
    Screen { screen: WatchScreen, signals: TerminalSignals },
    Lines(ChangeLog),
}

impl WatchOutput {
    fn open() -> anyhow::Result<Self> {
        if !WatchScreen::is_possible() {
            return Ok(Self::Lines(ChangeLog::default()));
        }
        Ok(Self::Screen { screen: WatchScreen::default(), signals: TerminalSignals::new()? })
    }

    /// Waits for a signal about the terminal. Without a screen, signals do what they do to any program.
    async fn signal(&mut self) -> TerminalSignal {
        match self {
            Self::Screen { signals, .. } => signals.next().await,
            Self::Lines(_) => std::future::pending().await,
        }
    }
}

struct WatchSession {
    fleet: FleetModel,
    goal: Option<WatchGoal>,
    started_at: Instant,
    output: WatchOutput,
}

impl WatchSession {
    fn moment(&self) -> WatchMoment {
        WatchMoment { at: Zoned::now(), elapsed: self.started_at.elapsed() }
    }

    /// Shows events until the watch is over, and returns the words for that.
    async fn run(&mut self, mut events: Receiver<FleetEvent>) -> anyhow::Result<String> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut idle_ticks, mut is_changed) = (0, false);
        loop {
            let event = tokio::select! {
                Some(event) = events.recv() => Some(event),
                signal = self.output.signal() => {
                    self.follow_signal(signal);
                    continue;
                }
                _ = ticks.tick() => None,
            };
            let moment = self.moment();
            let Some(event) = event else {
                idle_ticks += 1;
                if is_changed || idle_ticks >= IDLE_TICKS {
                    self.draw(&moment);
                    (is_changed, idle_ticks) = (false, 0);
                }
                if let Some(end) = self.end(&moment)? {
                    return Ok(end);
                }
                continue;
            };
            let change = self.fleet.take(event, &moment);
            is_changed = true;
            if change.is_fleet
                && let Some(unknown) = goal::unknown(&self.fleet)
            {
                return Err(unknown.into());
            }
            self.print(&change, &moment);
            if change.is_fleet {
                self.draw(&moment);
            }
            if (change.is_fleet || self.is_near_end(&change))
                && let Some(end) = self.end(&moment)?
            {
                return Ok(end);
            }
        }
    }

    /// Returns whether a change may end the watch: a state may be over before the next tick.
    fn is_near_end(&self, change: &FleetChange) -> bool {
        let is_there = |name: &String| {
            let host = self.fleet.host(name);
            host.is_none_or(|host| self.goal.is_some_and(|goal| goal.state == host.facts.state))
        };
        change.hosts.iter().any(is_there)
    }

    fn end(&self, moment: &WatchMoment) -> anyhow::Result<Option<String>> {
        match goal::verdict(&self.fleet, self.goal.as_ref(), moment) {
            WatchVerdict::GoesOn => Ok(None),
            WatchVerdict::Reached(words) => Ok(Some(words)),
            WatchVerdict::Failed(failure) => Err(failure.into()),
        }
    }

    fn print(&mut self, change: &FleetChange, moment: &WatchMoment) {
        if let WatchOutput::Lines(log) = &mut self.output {
            let lines = log.lines(&self.fleet, change, moment);
            if !lines.is_empty() {
                print_text(&(lines.join("\n") + "\n"));
            }
        }
    }

    fn draw(&mut self, moment: &WatchMoment) {
        if let WatchOutput::Screen { screen, .. } = &mut self.output {
            let size = WatchScreen::size();
            let view = fleet_view::view(&self.fleet, self.goal.as_ref(), moment);
            screen.draw(&layout::layout(&view, size.width, size.height), size);
        }
    }

    fn follow_signal(&mut self, signal: TerminalSignal) {
        let moment = self.moment();
        if let WatchOutput::Screen { screen, .. } = &mut self.output {
            match signal {
                TerminalSignal::Resized => {}
                TerminalSignal::Suspend => {
                    screen.close();
                    signals::suspend();
                }
                TerminalSignal::End { code } => {
                    screen.close();
                    self.print_last(&moment);
                    std::process::exit(code);
                }
            }
        }
        self.draw(&moment);
    }

    /// Leaves the last picture on the terminal, without the screen.
    fn print_last(&self, moment: &WatchMoment) {
        let size = WatchScreen::size();
        let view = fleet_view::view(&self.fleet, self.goal.as_ref(), moment);
        if view.rows.is_empty() {
            return;
        }
        let lines = layout::layout(&view, size.width, size.height);
        print_text(&lines.into_iter().map(|line| line.text + "\n").collect::<String>());
    }

    /// Closes the screen, and says how the watch ended.
    fn finish(mut self, end: anyhow::Result<String>) -> anyhow::Result<()> {
        let moment = self.moment();
        match &mut self.output {
            WatchOutput::Screen { screen, .. } => {
                screen.close();
                self.print_last(&moment);
                print_text(&format!("{}\n", end?));
            }
            WatchOutput::Lines(_) => print_text(&format!("{}\n", change_log::stamped(&end?, &moment))),
        }
        Ok(())
    }
}
