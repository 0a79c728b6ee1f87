//! What machines do: firmware, loader, agent and system, each on the world's clock.

use std::sync::Mutex;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_bmc::decide::PowerState;
use firesteel_boot::ipxe::WAIT_PAUSE_S;
use firesteel_boot::{Platform, Purpose, RoutePath, ScriptRequest, Sealer};
use firesteel_control::{BootScript, ScriptKind};
use firesteel_dhcp::client::DhcpClient;
use firesteel_dhcp::wire::{self, code};
use firesteel_steps::Exit;
use firesteel_wire::limits::LONG_POLL;
use firesteel_wire::{RefusalReason, Seed};
use serde_json::Value;

use crate::agent::{Agent, Do, Lie};
use crate::appliance::ENDPOINTS;
use crate::bmc::BmcAsk;
use crate::counts::Fault;
use crate::executor::lock;
use crate::laws::{Law, Laws};
use crate::machine::{Fetch, Os, Stage};
use crate::network::{Answer, Ask};
use crate::planted::Bug;
use crate::world::{Event, World};

/// As the agent's client waits for an answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(15);
/// After that many tries without an answer the loader starts the machine again.
const FETCH_TRIES: u32 = 5;
/// A system that nobody answers gives up after a while; a person may start it again.
const OS_TRIES: u32 = 200;

/// Looks at an answer as the laws do, in the moment in which it is given.
pub(crate) fn check(laws: &Mutex<Laws>, sealer: &Sealer, name: &str, ask: &Ask, answer: &Answer) {
    let mut laws = lock(laws);
    match (ask, answer) {
        (Ask::Hello(hello), Answer::Hello(Ok(reply))) => {
            laws.replied(name, is_host(sealer, &hello.token), reply.hold.as_deref());
            laws.greeted(&hello.token, &hello.key.to_string(), name);
        }
        (Ask::Report(report), Answer::Report(Ok(reply))) => {
            laws.replied(name, is_host(sealer, &report.token), reply.hold.as_deref());
            if let Ok(claims) = sealer.open_boot(&report.token, 0)
                && claims.purpose == Purpose::Agent
            {
                laws.reported(&claims.subject, claims.attempt, report, &reply.stored);
            } else if let firesteel_wire::AgentInstruction::Plan { plan } = &reply.verdict
                && plan.steps.iter().any(|step| *step != firesteel_wire::PlanStep::Inspect)
            {
                laws.broken(Law::PlannedDisk, format!("{name}: an unknown machine was told more than to inspect"));
            }
        }
        (Ask::Report(report), Answer::Report(Err(refused))) if refused.reason == RefusalReason::OldAttempt => {
            let Ok(claims) = sealer.open_boot(&report.token, 0) else { return };
            let is_current = laws.hosts.get(name).is_some_and(|host| {
                let bound = host.agent.as_ref().is_some_and(|agent| agent.key == report.key.to_string());
                bound && host.uid == claims.subject && host.memory.attempt == claims.attempt
            });
            if is_current && laws.objects.get(name) == Some(&claims.subject) {
                laws.broken(Law::Known, format!("{name}: an agent at work was sent away: {}", refused.message));
            }
        }
        (Ask::Config { token, .. }, Answer::Config(Ok(_))) => {
            let claims = sealer.open(token, 0, Purpose::Instance);
            laws.config_given(&claims.map(|claims| claims.subject).unwrap_or_default(), token);
        }
        (Ask::Script(_), Answer::Script(script)) => {
            // The journal may be ahead: a write that was taken and answered badly is not published yet.
            let known = laws.objects.get(name).is_some_and(|uid| laws.shown.contains(uid));
            let claims = kernel_token(&script.text).and_then(|token| sealer.open_boot(&token, 0).ok());
            let stranger = claims.is_some_and(|claims| claims.purpose == Purpose::Discovery);
            if known && stranger {
                laws.broken(Law::Known, format!("{name} netboots and is taken for an unknown machine"));
            }
        }
        (_, _) => {}
    }
}

fn is_host(sealer: &Sealer, token: &str) -> bool {
    sealer.open_boot(token, 0).is_ok_and(|claims| claims.purpose == Purpose::Agent)
}

impl World {
    pub(crate) fn power_on(&mut self, id: usize) {
        if self.machines[id].is_off() {
            self.restart(id);
        }
    }

    /// Off and on again.
    pub(crate) fn restart(&mut self, id: usize) {
        self.power_off(id);
        let machine = &mut self.machines[id];
        machine.stage = Stage::Post;
        machine.fake.state().power = PowerState::On;
        let epoch = machine.epoch;
        let post = self.random.millis(2_000, 30_000);
        self.after(post, Event::Post { machine: id, epoch });
    }

    pub(crate) fn power_off(&mut self, id: usize) {
        let machine = &mut self.machines[id];
        machine.epoch += 1;
        machine.stage = Stage::Off;
        (machine.address, machine.call) = (None, None);
        machine.fake.state().power = PowerState::Off;
        lock(&self.laws).went_off.extend(machine.left.take());
    }

    /// The agent has said that it switches the machine off, and the appliance has heard it. One that lies stays on.
    fn leave(&mut self, id: usize) {
        let machine = &mut self.machines[id];
        let Stage::Agent(agent) = &machine.stage else { return self.power_off(id) };
        let subject = self.sealer.open_boot(&agent.seed.token, 0).map(|claims| claims.subject).unwrap_or_default();
        let (stays, left) = (agent.lie == Some(Lie::Wipe), (subject, agent.attempt));
        machine.left = Some(left);
        if !stays {
            return self.power_off(id);
        }
        machine.epoch += 1;
        machine.call = None;
        machine.stage = Stage::Hung;
        if self.setup.bug == Some(Bug::FalseOff) {
            machine.fake.state().power = PowerState::Off;
        }
    }

    /// The firmware has tested its memory and looks for something to boot.
    pub(crate) fn post(&mut self, id: usize) {
        let machine = &mut self.machines[id];
        let once = std::mem::take(&mut machine.net_once);
        if once || machine.net_first || machine.bootable().is_none() { self.netboot(id) } else { self.boot_disk(id) }
    }

    fn netboot(&mut self, id: usize) {
        self.ask_for_address(id, None);
    }

    fn ask_for_address(&mut self, id: usize, seed: Option<Seed>) {
        let number = self.random.next();
        let client = DhcpClient::new(self.machines[id].mac, number, None, self.instant());
        self.machines[id].stage = Stage::Dhcp { client: Box::new(client), seed };
        self.drain_client(id);
    }

    fn drain_client(&mut self, id: usize) {
        let epoch = self.machines[id].epoch;
        let Stage::Dhcp { client, seed } = &mut self.machines[id].stage else { return };
        let is_loader = seed.is_none();
        let next = client.poll_timeout();
        let Some(transmit) = client.poll_transmit() else { return };
        // The world's clock counts whole microseconds.
        let at = self.since_birth(next) + Duration::from_millis(1);
        self.at(at, Event::DhcpTimer { machine: id, epoch });
        let bytes = if is_loader { as_loader(&transmit.bytes) } else { transmit.bytes };
        if self.packet_is_lost() {
            return;
        }
        let delay = self.random.millis(1, 20);
        if self.wild && self.random.chance(60) {
            self.fault(Fault::PacketDuplicated);
            self.after(delay * 3, Event::ToServer { bytes: bytes.clone() });
        }
        self.after(delay, Event::ToServer { bytes });
    }

    pub(crate) fn dhcp_timer(&mut self, id: usize) {
        let now = self.instant();
        if let Stage::Dhcp { client, .. } = &mut self.machines[id].stage
            && client.poll_timeout() <= now
        {
            client.handle_timeout(now);
            self.drain_client(id);
        }
    }

    pub(crate) fn hear_dhcp(&mut self, id: usize, bytes: &[u8]) {
        let now = self.instant();
        let Stage::Dhcp { client, seed } = &mut self.machines[id].stage else { return };
        client.handle_packet(now, bytes);
        let Some(lease) = client.lease().cloned() else { return self.drain_client(id) };
        let seed = seed.clone();
        let until = self.now() + lease.lease_time;
        let twin = self.machines.iter().find(|other| {
            other.id != id && other.address.is_some_and(|(address, ends)| address == lease.address && ends > self.now())
        });
        if let Some(twin) = twin {
            self.broken(Law::Lease, format!("machines {id} and {} both have {}", twin.id, lease.address));
        }
        self.machines[id].address = Some((lease.address, until));
        match seed {
            Some(seed) => self.start_agent(id, seed),
            None => self.fetch(id, Fetch::Script),
        }
    }

    fn fetch(&mut self, id: usize, what: Fetch) {
        self.machines[id].stage = Stage::Fetching { what, tries: 0 };
        self.ask_again(id);
    }

    /// Sends what the machine waits for, for the first time or again.
    pub(crate) fn ask_again(&mut self, id: usize) {
        let machine = &mut self.machines[id];
        let ask = match &mut machine.stage {
            Stage::Fetching { tries, .. } if *tries >= FETCH_TRIES => return self.restart(id),
            Stage::Fetching { what, tries } => {
                *tries += 1;
                match what {
                    Fetch::Script => Ask::Script(ScriptRequest {
                        mac: machine.mac,
                        platform: Platform::Efi,
                        buildarch: None,
                        uuid: None,
                        serial: None,
                        odd: Vec::new(),
                    }),
                    Fetch::Kernel(token) => Ask::Kernel(token.clone()),
                    Fetch::Initramfs(token) => Ask::Initramfs(token.clone()),
                }
            }
            Stage::Os(os) if os.tries >= OS_TRIES => return,
            Stage::Os(os) => {
                os.tries += 1;
                match (&os.nonce, &os.config) {
                    (Some((uid, nonce)), _) => Ask::Running { uid: uid.clone(), nonce: nonce.clone() },
                    (None, Some((name, token))) => Ask::Config { name: name.clone(), token: token.clone() },
                    (None, None) => return,
                }
            }
            Stage::Off | Stage::Post | Stage::Dhcp { .. } | Stage::Agent(_) | Stage::Hung => return,
        };
        self.ask(id, ask);
    }

    /// A request into the network, with whatever happens to requests there.
    pub(crate) fn ask(&mut self, id: usize, ask: Ask) {
        let call = self.random_call();
        let held = if ask.may_be_held() { LONG_POLL } else { Duration::ZERO };
        let machine = &mut self.machines[id];
        machine.call = Some(call);
        let epoch = machine.epoch;
        let at = self.now() + REPLY_TIMEOUT + held;
        let timeout = self.at(at, Event::Answered { machine: id, epoch, call, answer: Answer::Lost });
        if let Some(old) = self.machines[id].timeout.replace(timeout) {
            self.revoke(old);
        }
        let mut delay = self.random.millis(1, 30);
        if self.wild {
            match self.random.below(1000) {
                0..15 => return self.fault(Fault::RequestLost),
                15..30 => {
                    self.fault(Fault::Delayed);
                    delay = self.random.millis(1_000, 40_000);
                }
                30..45 => {
                    self.fault(Fault::Duplicated);
                    let later = self.random.millis(1, 10_000);
                    self.after(later, Event::Deliver { machine: id, epoch, call, ask: ask.clone() });
                }
                _ => {}
            }
        }
        self.after(delay, Event::Deliver { machine: id, epoch, call, ask });
    }

    pub(crate) fn answered(&mut self, id: usize, call: u64, answer: Answer) {
        if self.machines[id].call != Some(call) {
            return;
        }
        self.machines[id].call = None;
        if let Some(timeout) = self.machines[id].timeout.take() {
            self.revoke(timeout);
        }
        match &mut self.machines[id].stage {
            Stage::Fetching { what, .. } => {
                let what = what.clone();
                self.fetched(id, &what, answer);
            }
            Stage::Agent(agent) => {
                let now = self.executor.now();
                match &answer {
                    Answer::Hello(Ok(reply)) => lock(&self.laws).told(id, reply.hold.is_some()),
                    Answer::Report(Ok(reply)) => lock(&self.laws).told(id, reply.hold.is_some()),
                    _ => {}
                }
                let todo = match &answer {
                    Answer::Hello(Ok(reply)) => agent.greeted(Ok(reply), now),
                    Answer::Hello(Err(refusal)) => agent.greeted(Err(Some(refusal)), now),
                    Answer::Report(Ok(reply)) => agent.answered(Ok(reply), now),
                    Answer::Report(Err(refusal)) => agent.answered(Err(Some(refusal)), now),
                    _ if agent.is_greeted() => agent.answered(Err(None), now),
                    _ => agent.greeted(Err(None), now),
                };
                self.carry_out(id, todo);
            }
            Stage::Os(_) => self.os_answered(id, &answer),
            Stage::Off | Stage::Post | Stage::Dhcp { .. } | Stage::Hung => {}
        }
    }

    fn fetched(&mut self, id: usize, what: &Fetch, answer: Answer) {
        let epoch = self.machines[id].epoch;
        match (what, answer) {
            (Fetch::Script, Answer::Script(BootScript { kind: ScriptKind::Waits, .. })) => {
                // As iPXE does it: each answer is a script of its own.
                if let Stage::Fetching { tries, .. } = &mut self.machines[id].stage {
                    *tries = 0;
                }
                self.after(Duration::from_secs(WAIT_PAUSE_S.into()), Event::Retry { machine: id, epoch });
            }
            (Fetch::Script, Answer::Script(script)) => match kernel_token(&script.text) {
                Some(token) => self.fetch(id, Fetch::Kernel(token)),
                None if script.kind == ScriptKind::Boots && self.machines[id].bootable().is_some() => {
                    self.boot_disk(id)
                }
                // Firmware without anything to boot starts its list again, and who is not taken for the host restarts.
                None => {
                    let pause = self.random.millis(30_000, 90_000);
                    self.machines[id].stage = Stage::Post;
                    self.after(pause, Event::Post { machine: id, epoch });
                }
            },
            (Fetch::Kernel(token), Answer::Kernel(Ok(()))) => self.fetch(id, Fetch::Initramfs(token.clone())),
            (Fetch::Initramfs(_), Answer::Seed(Ok(seed))) => self.ask_for_address(id, Some(seed)),
            (_, _) => self.after(Duration::from_secs(5), Event::Retry { machine: id, epoch }),
        }
    }

    fn start_agent(&mut self, id: usize, seed: Seed) {
        let (key, boot) = (self.random.bytes(), self.random.next());
        let now = self.now();
        let machine = &mut self.machines[id];
        let token = seed.token.clone();
        lock(&self.laws).told(id, false);
        let mut agent = Agent::new(seed, key, format!("boot-{boot:x}"), machine.uuid(), now);
        agent.lie = machine.next_lie.take();
        if self.setup.bug == Some(Bug::FalseReadBack) {
            agent.lie = Some(Lie::Perfect);
        }
        if self.setup.bug == Some(Bug::FalseOff) {
            agent.lie = Some(Lie::Wipe);
        }
        (agent.careless, agent.forgetful) = (machine.careless, machine.forgetful);
        agent.blind = machine.blind;
        agent.guardless = machine.guardless;
        agent.deaf = self.setup.bug == Some(Bug::DeafAgent);
        agent.muddled = self.setup.bug == Some(Bug::StaleReports);
        machine.tokens.push((token, agent.key));
        let excess = machine.tokens.len().saturating_sub(6);
        machine.tokens.drain(..excess);
        let hello = agent.hello(now);
        machine.stage = Stage::Agent(Box::new(agent));
        self.ask(id, hello);
    }

    pub(crate) fn tick(&mut self, id: usize, tick: u64) {
        let now = self.now();
        let Some(agent) = self.machines[id].agent().filter(|agent| agent.tick == tick) else { return };
        let todo = agent.tick(now);
        self.carry_out(id, todo);
    }

    pub(crate) fn work(&mut self, id: usize) {
        let now = self.now();
        let mut touched = Vec::new();
        let machine = &mut self.machines[id];
        let Stage::Agent(agent) = &mut machine.stage else { return };
        let todo = agent.work(&mut machine.disks, &mut touched, now);
        if let Some(entry) = agent.boot_entry.take() {
            machine.boot_entry = Some(entry);
        }
        let name = machine.name();
        for touch in &touched {
            let uid = self.sealer.open_boot(&touch.token, 0).map(|claims| claims.subject).unwrap_or_default();
            let mut laws = lock(&self.laws);
            laws.touched(&uid, &name, touch);
            laws.goes_on(id, touch);
            if touch.first {
                laws.counts.other(touch.what);
            }
        }
        self.carry_out(id, todo);
    }

    pub(crate) fn carry_out(&mut self, id: usize, todo: Vec<Do>) {
        let epoch = self.machines[id].epoch;
        for next in todo {
            match next {
                Do::Ask(ask) => self.ask(id, ask),
                Do::Work(delay) => self.after(delay, Event::Work { machine: id, epoch }),
                Do::Tick(delay) => {
                    let Some(agent) = self.machines[id].agent() else { continue };
                    agent.tick += 1;
                    let tick = agent.tick;
                    self.after(delay, Event::Tick { machine: id, epoch, tick });
                }
                Do::Go(Exit::Reboot) => self.restart(id),
                Do::Go(Exit::PowerOff) => self.leave(id),
            }
        }
    }

    fn boot_disk(&mut self, id: usize) {
        let machine = &mut self.machines[id];
        let epoch = machine.epoch;
        let stub = machine.bootable().and_then(|installed| installed.stub.clone());
        let config = stub.and_then(|stub| config_of(&stub));
        machine.stage = Stage::Os(Os { config, ..Os::default() });
        let boots = self.random.millis(5_000, 40_000);
        self.after(boots, Event::Retry { machine: id, epoch });
    }

    fn os_answered(&mut self, id: usize, answer: &Answer) {
        let epoch = self.machines[id].epoch;
        let Stage::Os(os) = &mut self.machines[id].stage else { return };
        match answer {
            Answer::Config(Ok(config)) => os.nonce = nonce_of(config),
            Answer::Running(Ok(())) => {
                if let (Some((_, token)), Some((uid, _))) = (&os.config, &os.nonce) {
                    lock(&self.laws).runs(uid, token);
                }
                os.tries = OS_TRIES;
                lock(&self.laws).counts.other("running");
                if self.setup.bug == Some(Bug::EndlessToken) {
                    (os.nonce, os.tries) = (None, 0);
                    let name = self.machines[id].name();
                    self.forge(&name, |status| status["instance"]["runningAt"] = Value::Null);
                    self.after(Duration::from_secs(5), Event::Retry { machine: id, epoch });
                }
                return;
            }
            // Refused for good: this installation was replaced, or has reported already.
            Answer::Config(Err(refusal)) if matches!(refusal.status(), 401 | 403) => {
                os.tries = OS_TRIES;
                return;
            }
            _ => {}
        }
        let pause = self.random.millis(2_000, 20_000);
        self.after(pause, Event::Retry { machine: id, epoch });
    }

    pub(crate) fn bmc_asked(&mut self, ask: BmcAsk) {
        let id = ask.machine;
        self.note("bmc request", id);
        if id >= self.machines.len() {
            return drop(ask.reply);
        }
        let trouble = if self.wild { self.bmc_trouble(&ask.request.method) } else { None };
        let reset = ask.request.method == "POST";
        let Some(response) = self.bmc_fault(id, trouble, &ask.request) else {
            // Nobody there, or nobody who answers in time.
            return match trouble {
                Some(Fault::BmcSlow) => {
                    self.after(Duration::from_secs(200), Event::BmcAnswered { reply: ask.reply, response: None })
                }
                _ => drop(ask.reply),
            };
        };
        if reset && (200..300).contains(&response.status) {
            let (name, mut laws) = (self.machines[id].name(), lock(&self.laws));
            for order in ask.order.iter().cycle().take(if self.setup.bug == Some(Bug::DoubleReset) { 2 } else { 1 }) {
                laws.reset(&name, order);
            }
        }
        let delay = self.random.millis(5, 200);
        self.after(delay, Event::BmcAnswered { reply: ask.reply, response: Some(response) });
    }

    /// The fault of this request that has been rarest so far, if any comes.
    fn bmc_trouble(&mut self, method: &str) -> Option<Fault> {
        let faults: &[Fault] = match method {
            "POST" => &[Fault::BmcIgnoresPower, Fault::BmcRefuses, Fault::BmcUnreachable],
            "PATCH" => &[Fault::BmcForgetsBoot, Fault::BmcRefuses, Fault::BmcSlow],
            _ => &[Fault::BmcUnauthorized, Fault::BmcRefuses, Fault::BmcUnreachable, Fault::BmcSlow, Fault::BmcGarbage],
        };
        let counted = faults.iter().map(|fault| (self.count(|counts| counts.of_fault(*fault)), *fault));
        let fault = counted.min().map(|(_, fault)| fault)?;
        // There are few orders, and many looks.
        let late = if method == "GET" { 80 } else { 250 };
        self.happens(fault, late, 20).then_some(fault)
    }

    /// What the BMC answers, and what becomes of the machine.
    fn bmc_fault(
        &mut self,
        id: usize,
        trouble: Option<Fault>,
        request: &firesteel_bmc_fakes::redfish::FakeRequest,
    ) -> Option<firesteel_bmc_fakes::redfish::FakeResponse> {
        use firesteel_bmc_fakes::redfish as fake;
        let (reset, patch) = (request.method == "POST", request.method == "PATCH");
        let plain =
            |status| Some(fake::FakeResponse { status, headers: Vec::new(), body: bytes::Bytes::from_static(b"{}") });
        match trouble {
            Some(fault @ (Fault::BmcUnreachable | Fault::BmcSlow)) => {
                self.fault(fault);
                return None;
            }
            Some(fault @ Fault::BmcUnauthorized) => {
                self.fault(fault);
                return plain(401);
            }
            Some(fault @ Fault::BmcRefuses) => {
                self.fault(fault);
                return plain(500);
            }
            Some(fault @ Fault::BmcGarbage) => {
                self.fault(fault);
                return Some(fake::FakeResponse {
                    status: 200,
                    headers: Vec::new(),
                    body: bytes::Bytes::from_static(b"<html>"),
                });
            }
            Some(fault @ Fault::BmcIgnoresPower) if reset => {
                self.fault(fault);
                return plain(204);
            }
            Some(fault @ Fault::BmcForgetsBoot) if patch => {
                self.fault(fault);
                return plain(204);
            }
            Some(_) | None => {}
        }
        let now = self.now();
        let machine = &mut self.machines[id];
        if machine.account.as_ref().is_some_and(|account| account.is_locked(now)) {
            return plain(401);
        }
        let (before, once) = {
            let state = machine.fake.state();
            (state.resets.len(), state.boot_enabled == "Once" && state.boot_target == "Pxe")
        };
        let response = machine.fake.answer(request);
        if response.status == 401
            && let Some(account) = &mut machine.account
        {
            account.refuse(now);
        }
        let (reset, power) = {
            let mut state = machine.fake.state();
            state.requests.clear();
            (state.resets.len() > before, state.power)
        };
        if reset {
            if power == PowerState::On {
                machine.net_once = once;
                self.restart(id);
            } else {
                self.power_off(id);
            }
        }
        Some(response)
    }
}

/// The agent's request as iPXE would make it.
fn as_loader(bytes: &[u8]) -> Vec<u8> {
    let Ok(mut packet) = wire::decode(bytes) else { return bytes.to_vec() };
    packet.options.set(code::USER_CLASS, *b"iPXE");
    packet.options.set(code::VENDOR_CLASS, *b"PXEClient:Arch:00007:UNDI:003016");
    packet.options.set(code::ARCHITECTURE, [0, 7]);
    wire::encode(&packet).unwrap_or_else(|_| bytes.to_vec())
}

/// The token of the kernel that a script starts; none where it leads elsewhere.
pub(crate) fn kernel_token(script: &str) -> Option<String> {
    let base = ENDPOINTS.http_base();
    script.split_ascii_whitespace().filter_map(|word| word.strip_prefix(base.as_str())).find_map(|path| {
        match RoutePath::parse(path) {
            Some(RoutePath::Kernel { token }) => Some(token),
            Some(_) | None => None,
        }
    })
}

/// Name and token of the config that a stub merges.
fn config_of(stub: &[u8]) -> Option<(String, String)> {
    let stub: Value = serde_json::from_slice(stub).ok()?;
    let merge = stub.pointer("/ignition/config/merge/0")?;
    let name = merge["source"].as_str()?.rsplit('/').next()?.to_owned();
    let header = merge["httpHeaders"].as_array()?.iter().find(|header| header["name"] == "Authorization")?;
    let token = header["value"].as_str()?.strip_prefix("Bearer ")?.to_owned();
    Some((name, token))
}

/// The host's uid and nonce in a served config.
fn nonce_of(config: &[u8]) -> Option<(String, String)> {
    let config: Value = serde_json::from_slice(config).ok()?;
    let files = config.pointer("/storage/files")?.as_array()?;
    let file = files.iter().find(|file| file["path"] == "/etc/firesteel/instance.json")?;
    let data = file.pointer("/contents/source")?.as_str()?.rsplit(',').next()?;
    let instance: Value = serde_json::from_slice(&STANDARD.decode(data).ok()?).ok()?;
    Some((instance["host"].as_str()?.to_owned(), instance["nonce"].as_str()?.to_owned()))
}
