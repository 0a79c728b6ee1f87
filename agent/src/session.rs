//! One boot's conversation with the appliance: hello, then report after report, with plans run
//! beside it. Wires [`decider`](crate::decider) (what next), [`ApplianceClient`] (talk) and
//! [`steps`](firesteel_steps) (work) together; knows no hardware.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use firesteel_host::Host;
use firesteel_steps::{Exit, StepContext, board::ReportBoard, gate::Gate, tls::pinned_client_config};
use firesteel_wire::limits::{BODY_BYTES_MAX, REPLY_LOST, REPORT_INTERVAL};
use firesteel_wire::network::NetworkPath;
use firesteel_wire::{
    AgentPlan, AgentReport, Hello, HelloReply, LogLine, ReceiptPlace, RefusalReply, ReportReply, Seed, StepReceipt,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until};

use crate::appliance::{ApplianceClient, CallError};
use crate::decider::{AgentAction, AgentDecider, PlanEnd, holds, retry_after};
use crate::log::AgentLog;
use crate::plan_run::run_plan;
use crate::program;
use crate::worker_handover::Handover;

/// News go out at once, but not more often than this.
const REPORT_GAP: Duration = Duration::from_millis(200);
/// Sequence numbers that one worker uses at most: one report per 200 ms for two days.
const SEQUENCES_PER_WORKER: u64 = 1_000_000;
/// What log lines may take of a report; the rest is for the inventory.
const LOG_BYTES_MAX: usize = BODY_BYTES_MAX / 4;

/// How the conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationEnd {
    pub exit: Exit,
    /// The appliance did not want this agent, or was not there: give people time to read why, and
    /// the network time to come back.
    pub unwanted: bool,
}

/// The first sequence number of reports and log lines of a worker, above all of those before it.
#[must_use]
pub fn first_sequence(deaths: u32) -> u64 {
    u64::from(deaths) * SEQUENCES_PER_WORKER + 1
}

/// Everything that one conversation needs.
pub struct ApplianceSession {
    host: Arc<dyn Host>,
    seed: Seed,
    appliance: ApplianceClient,
    http: reqwest::Client,
    image_server: String,
    gate: Arc<Gate>,
    board: Arc<ReportBoard>,
    log: Arc<AgentLog>,
    sequence: u64,
    deaths: u32,
    last_words: String,
    /// Receipts that the last reply named as stored.
    stored: Vec<ReceiptPlace>,
    way: Option<NetworkPath>,
    /// The newest refusal, in the appliance's words.
    refused: Mutex<String>,
}

impl std::fmt::Debug for ApplianceSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApplianceSession")
            .field("seed", &self.seed)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl ApplianceSession {
    pub fn new(
        host: Arc<dyn Host>,
        handover: &Handover,
        board: impl Into<Arc<ReportBoard>>,
        log: Arc<AgentLog>,
    ) -> anyhow::Result<Self> {
        let seed = handover.seed.clone();
        let appliance = ApplianceClient::new(&seed, handover.key_pair()?)?;
        let address = reqwest::Url::parse(&seed.appliance).context("reading the appliance's address")?;
        let image_server = address.host_str().context("reading the appliance's address: no host")?.to_owned();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(pinned_client_config(&seed.pin_sha256)?)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .build()
            .context("setting up the image download")?;
        let clock = Arc::clone(&host);
        Ok(Self {
            gate: Arc::new(Gate::new(move || clock.uptime())),
            board: board.into(),
            sequence: first_sequence(handover.deaths),
            deaths: handover.deaths,
            last_words: log.clean(&handover.last_words),
            stored: Vec::new(),
            host,
            seed,
            appliance,
            http,
            image_server,
            log,
            way: None,
            refused: Mutex::default(),
        })
    }

    /// How the host came to the appliance, for the hello.
    #[must_use]
    pub fn by_way(mut self, way: Option<NetworkPath>) -> Self {
        self.way = way;
        self
    }

    /// How far the plan is, for a caller in this process.
    #[must_use]
    pub fn board(&self) -> Arc<ReportBoard> {
        Arc::clone(&self.board)
    }

    /// Talks until the host leaves the ramdisk.
    pub async fn run(mut self) -> ConversationEnd {
        let hello = match self.hello().await {
            Ok(reply) => reply,
            Err(outcome) => return outcome,
        };
        self.learn_time(hello.time_ms, hello.hold.as_deref(), true);
        tracing::info!(
            "the appliance knows this host as {}, attempt {}; key {}",
            hello.host,
            hello.attempt,
            self.short_key()
        );
        let mut mind = AgentDecider::new(hello.attempt, self.board.read().plan);
        self.report_death();
        let (endings, mut ended) = unbounded_channel();
        let mut next = mind.handle_verdict(&hello.verdict, false);
        let mut leaving_since = None;
        loop {
            if let Some(exit) = self.perform(next, &endings) {
                return ConversationEnd { exit, unwanted: false };
            }
            if mind.is_leaving() && leaving_since.is_none() {
                leaving_since = Some(self.host.uptime());
            }
            let answered = self.report_once(&mind).await;
            let pause = match answered {
                Ok(reply) => {
                    self.take_reply(&reply);
                    next = mind.handle_verdict(&reply.verdict, mind.is_leaving());
                    0
                }
                Err(CallError::Refused(refusal)) => {
                    self.apply_refusal(&refusal);
                    next = mind.handle_refusal(refusal.reason);
                    if let AgentAction::Go(exit) = next {
                        return ConversationEnd { exit, unwanted: true };
                    }
                    1
                }
                Err(CallError::Unreachable(why)) => {
                    tracing::debug!("report not answered: {why}");
                    let silent_for =
                        leaving_since.map_or(Duration::ZERO, |since| self.host.uptime().saturating_sub(since));
                    next = mind.handle_silence(silent_for);
                    1
                }
            };
            if next == AgentAction::Nothing {
                next = self.wait(&mut mind, &mut ended, pause).await;
            }
        }
    }

    /// Says hello until the appliance answers for good.
    async fn hello(&self) -> Result<HelloReply, ConversationEnd> {
        let hello = Hello {
            token: self.seed.token.clone(),
            key: self.appliance.public_key(),
            identity: self.host.identity(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel_version: self.host.kernel_version(),
            uptime_ms: millis(self.host.uptime()),
            boot_id: self.host.boot_id(),
            network: self.way.clone(),
            program: program::running_program(),
        };
        let mut began = self.host.uptime();
        let mut failures = 0;
        loop {
            match self.appliance.hello(&hello).await {
                Ok(reply) => return Ok(reply),
                Err(CallError::Refused(refusal)) => {
                    self.apply_refusal(&refusal);
                    if let AgentAction::Go(exit) = AgentDecider::new(0, 0).handle_refusal(refusal.reason) {
                        return Err(ConversationEnd { exit, unwanted: true });
                    }
                    if holds(refusal.reason) {
                        // It was answered: what settles it is waited for, however long that takes.
                        sleep(retry_after(failures)).await;
                        failures = failures.saturating_add(1);
                        began = self.host.uptime();
                        continue;
                    }
                }
                Err(error @ CallError::Unreachable(_)) => tracing::warn!("{error}; the agent tries again"),
            }
            if self.host.uptime().saturating_sub(began) > REPLY_LOST {
                tracing::error!("the appliance did not answer for {} minutes", REPLY_LOST.as_secs() / 60);
                return Err(ConversationEnd { exit: Exit::Reboot, unwanted: true });
            }
            sleep(retry_after(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Returns the first digits of this boot's key, as `firesteel describe` shows them.
    fn short_key(&self) -> String {
        self.appliance.public_key().to_string().chars().take(16).collect()
    }

    /// Says a refusal once, and pauses what destroys where it is to wait.
    fn apply_refusal(&self, refusal: &RefusalReply) {
        let mut said = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != refusal.message {
            // The key distinguishes this machine from another one that claims to be the same host.
            tracing::error!("the appliance refuses this agent (key {}): {}", self.short_key(), refusal.message);
            said.clone_from(&refusal.message);
        }
        drop(said);
        if holds(refusal.reason) {
            self.gate.renew(Some(&refusal.message));
        }
    }

    fn learn_time(&self, unix_ms: u64, hold: Option<&str>, set_clocks: bool) {
        self.board.set_time(unix_ms, self.host.uptime());
        self.gate.renew(hold);
        if set_clocks {
            self.host.set_clocks(unix_ms);
        }
    }

    /// Reports the work of a worker that died as failed, in its last words.
    fn report_death(&self) {
        if self.deaths == 0 {
            return;
        }
        tracing::error!("{}", self.last_words);
        if self.board.fail_interrupted(&self.last_words, self.board.unix_ms(self.host.uptime())) {
            tracing::error!("the plan that it was running counts as failed");
        }
    }

    /// Does what was decided. `Some`: leave now.
    fn perform(&self, next: AgentAction, endings: &UnboundedSender<PlanEnd>) -> Option<Exit> {
        match next {
            AgentAction::Nothing => {}
            AgentAction::Start(plan) => self.start(plan, endings.clone()),
            AgentAction::Reject(plan, why) => {
                tracing::error!("plan {} is not run: {why}", plan.number);
                self.board.plan_rejected(&plan, &why, self.board.unix_ms(self.host.uptime()));
            }
            AgentAction::Stop(reason) => {
                tracing::warn!("the plan stops at the next safe point: {reason}");
                self.gate.stop(reason);
            }
            AgentAction::SendLastReport(exit) => tracing::info!("{} after the last report", exit.text()),
            AgentAction::Go(exit) => return Some(exit),
        }
        None
    }

    fn start(&self, plan: AgentPlan, endings: UnboundedSender<PlanEnd>) {
        self.board.plan_started(&plan);
        let (host, gate, board) = (Arc::clone(&self.host), Arc::clone(&self.gate), Arc::clone(&self.board));
        let (http, image_server) = (self.http.clone(), self.image_server.clone());
        thread::spawn(move || {
            let job = StepContext {
                host: &*host,
                gate: &gate,
                board: &board,
                steps: &plan.steps,
                index: 0,
                http: &http,
                appliance: &image_server,
            };
            let ending = run_plan(&plan, job);
            // Nobody listens only when the conversation is over already.
            let _heard = endings.send(ending);
        });
    }

    async fn report_once(&mut self, mind: &AgentDecider) -> Result<ReportReply, CallError> {
        let notices = self.board.read();
        let mut log_bytes = 0;
        let fits = |line: &LogLine| {
            log_bytes += line.text.len();
            log_bytes <= LOG_BYTES_MAX
        };
        let report = AgentReport {
            token: self.seed.token.clone(),
            key: self.appliance.public_key(),
            boot_id: self.host.boot_id(),
            sequence: self.sequence,
            uptime_ms: millis(self.host.uptime()),
            plan: notices.plan,
            steps: notices.steps,
            receipts: unstored(notices.receipts, &self.stored),
            neighbours: self.board.neighbours(),
            idle: mind.is_idle(),
            leaving: mind.is_leaving(),
            log: self.log.pending().into_iter().take_while(fits).collect(),
        };
        self.sequence += 1;
        self.appliance.report(&report).await
    }

    fn take_reply(&mut self, reply: &ReportReply) {
        self.learn_time(reply.time_ms, reply.hold.as_deref(), false);
        self.log.acknowledge(reply.log_acknowledged);
        self.stored.clone_from(&reply.stored);
    }

    /// Waits until the next report is due: a while, news, or the end of the plan.
    async fn wait(
        &self,
        mind: &mut AgentDecider,
        ended: &mut UnboundedReceiver<PlanEnd>,
        failures: u32,
    ) -> AgentAction {
        let now = Instant::now();
        let due = match failures {
            // The reply to an idle agent was held by the appliance; the gap is for one that does not.
            0 => now + REPORT_INTERVAL,
            _ => now + retry_after(failures),
        };
        tokio::select! {
            ending = ended.recv() => ending.map_or(AgentAction::Nothing, |ending| mind.handle_ending(ending)),
            () = self.board.news(), if failures == 0 => {
                sleep_until(now + REPORT_GAP).await;
                AgentAction::Nothing
            }
            () = sleep_until(due) => AgentAction::Nothing,
        }
    }
}

/// The receipts that the appliance does not have. An inventory in each report would be most of what a fleet
/// of idle hosts says.
fn unstored(receipts: Vec<StepReceipt>, stored: &[ReceiptPlace]) -> Vec<StepReceipt> {
    receipts.into_iter().filter(|receipt| !stored.contains(&receipt.place())).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
