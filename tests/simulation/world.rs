//! The world: machines, network, medium and the lives of the appliance, moved on by one event at a
//! time on one clock.
//!
//! ```text
//!   events (by time) ──► World::step ──► machines ──► asks ──► tasks of the appliance's life
//!        ▲                                                          │
//!        └────────── answers, BMC requests, images ◄── outbox ◄─────┘      Executor::run
//! ```
//!
//! A step is one event: a packet or request that arrives, an answer, a timer of a machine or of
//! the appliance, a request to a BMC, a user's edit, a fault, an end or a start of the appliance.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel_bmc::BmcCredentials;
use firesteel_bmc_fakes::redfish as fake;
use firesteel_bmc_fakes::redfish::Fake;
use firesteel_boot::Sealer;
use firesteel_dhcp::{CommitId, DhcpOutput, LeaseChange, ReceivedDatagram, wire};
use firesteel_facts::Mac;
use firesteel_resources::bare_metal_host::ProvisioningState;
use firesteel_store::MemoryMedium;

use crate::appliance::{Appliance, Ground, ImageAsk, Leases};
use crate::bmc::{BmcAsk, Reply};
use crate::counts::{Counts, Fault};
use crate::disk::Disk;
use crate::executor::{Executor, Stop, lock};
use crate::laws::{Law, Laws, Medium, Violation};
use crate::machine::{Machine, Stage};
use crate::network::{Answer, Ask, serve};
use crate::owner::Wish;
use crate::planted::Bug;
use crate::random::Random;

pub(crate) type Outbox = Arc<Mutex<Vec<Out>>>;

/// What the appliance's tasks give to the world.
pub(crate) enum Out {
    Answer {
        machine: usize,
        epoch: u64,
        call: u64,
        answer: Answer,
    },
    Bmc(BmcAsk),
    Image(ImageAsk),
    /// Control ended by itself; the text says why.
    Ended {
        life: u64,
        error: String,
    },
}

pub(crate) enum Event {
    Post {
        machine: usize,
        epoch: u64,
    },
    DhcpTimer {
        machine: usize,
        epoch: u64,
    },
    ToServer {
        bytes: Vec<u8>,
    },
    ToClient {
        machine: usize,
        epoch: u64,
        bytes: Vec<u8>,
    },
    LeaseWritten {
        life: u64,
        id: CommitId,
        changes: Vec<LeaseChange>,
    },
    Deliver {
        machine: usize,
        epoch: u64,
        call: u64,
        ask: Ask,
    },
    Answered {
        machine: usize,
        epoch: u64,
        call: u64,
        answer: Answer,
    },
    Retry {
        machine: usize,
        epoch: u64,
    },
    Tick {
        machine: usize,
        epoch: u64,
        tick: u64,
    },
    Work {
        machine: usize,
        epoch: u64,
    },
    BmcAsked(BmcAsk),
    BmcAnswered {
        reply: Reply,
        response: Option<fake::FakeResponse>,
    },
    Image(ImageAsk),
    Owner,
    /// What an owner asks for, as long as the host is in this state.
    Wish {
        name: String,
        wish: Wish,
        state: Option<ProvisioningState>,
    },
    Trouble,
    Cause {
        machine: usize,
        fault: Fault,
    },
    Kill,
    Start,
    Mend {
        machine: usize,
        fault: Fault,
    },
}

/// Every so many disks of a wild world hold what is a cluster's.
const FOREIGN_EVERY: u64 = 3;

/// How a world is.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) machines: usize,
    /// Faults and users are at work.
    pub(crate) wild: bool,
    pub(crate) bug: Option<Bug>,
    /// How often what happened already, over all worlds so far: what is rare is done more.
    pub(crate) so_far: Counts,
}

pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) random: Random,
    pub(crate) executor: Executor,
    pub(crate) laws: Arc<Mutex<Laws>>,
    pub(crate) memory: MemoryMedium,
    /// What the medium had when the bug that loses writes began.
    pub(crate) old_memory: Option<MemoryMedium>,
    pub(crate) leases: Leases,
    pub(crate) outbox: Outbox,
    pub(crate) machines: Vec<Machine>,
    pub(crate) appliance: Option<Appliance>,
    pub(crate) life: u64,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) wild: bool,
    pub(crate) next_disk: u64,
    events: BTreeMap<(Duration, u64), Event>,
    number: u64,
    /// Where a machine's time for the DHCP client begins.
    birth: Instant,
    trace: std::collections::VecDeque<(Duration, &'static str, usize)>,
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    pub(crate) hash: u64,
    /// How often an agent of a machine without host was bound.
    pub(crate) strangers_bound: u32,
}

/// The last events that a failure shows.
const TRACE_MAX: usize = 60;

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let seed = setup.seed;
        let executor = Executor::new(seed);
        let laws = Arc::new(Mutex::new(Laws::default()));
        let medium = Medium {
            laws: Arc::clone(&laws),
            executor: executor.clone(),
            random: Mutex::new(Random::new(seed ^ 0xd15c)),
        };
        let mut world = Self {
            random: Random::new(seed ^ 0x0a11),
            executor,
            laws,
            memory: MemoryMedium::new().with_faults(Arc::new(medium)),
            old_memory: None,
            leases: Leases::default(),
            outbox: Outbox::default(),
            machines: Vec::new(),
            appliance: None,
            life: 0,
            sealer: Arc::new(Sealer::new(&[7; 32])),
            wild: setup.wild,
            next_disk: 1,
            events: BTreeMap::new(),
            number: 0,
            birth: Instant::now(),
            trace: std::collections::VecDeque::new(),
            kinds: BTreeMap::new(),
            hash: 0,
            strangers_bound: 0,
            setup,
        };
        for id in 0..world.setup.machines {
            let machine = world.machine(id);
            world.machines.push(machine);
        }
        world.start();
        if world.setup.bug == Some(Bug::ForgottenStranger) {
            // Nobody has made a host for it.
            world.power_on(0);
        }
        if world.wild {
            world.after(Duration::from_secs(1), Event::Owner);
            world.after(Duration::from_secs(5), Event::Trouble);
        }
        world
    }

    fn machine(&mut self, id: usize) -> Machine {
        let octet = u8::try_from(id).unwrap_or(u8::MAX);
        let mac = Mac([0x52, 0x54, 0, 0, 0, octet]);
        let credentials = BmcCredentials { username: "admin".into(), password: "secret".into() };
        let disks = (0..1 + self.random.below(3)).map(|place| self.new_disk(place)).collect();
        Machine {
            id,
            mac,
            fake: Fake::new(credentials, mac.0),
            account: None,
            disks,
            epoch: 0,
            stage: Stage::Off,
            net_first: id.is_multiple_of(2),
            net_once: false,
            boot_entry: None,
            address: None,
            call: None,
            timeout: None,
            arrived: 0,
            next_lie: None,
            left: None,
            careless: self.setup.bug == Some(Bug::CarelessAgent),
            blind: self.setup.bug == Some(Bug::BlindAgent),
            guardless: self.setup.bug == Some(Bug::GuardlessAgent),
            forgetful: self.setup.bug == Some(Bug::ForgetfulAgent),
            tokens: Vec::new(),
        }
    }

    pub(crate) fn new_disk(&mut self, place: usize) -> Disk {
        let mut disk = Disk::new(self.next_disk, (20 + 10 * place as u64) << 30);
        let is_of_cluster = self.setup.wild && self.next_disk.is_multiple_of(FOREIGN_EVERY);
        disk.foreign = is_of_cluster || self.setup.bug == Some(Bug::GuardlessAgent);
        self.next_disk += 1;
        disk
    }

    pub(crate) fn now(&self) -> Duration {
        self.executor.now()
    }

    pub(crate) fn instant(&self) -> Instant {
        self.birth + self.now()
    }

    pub(crate) fn since_birth(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.birth)
    }

    pub(crate) fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now() + delay, event);
    }

    pub(crate) fn at(&mut self, at: Duration, event: Event) -> (Duration, u64) {
        self.number += 1;
        let place = (at.max(self.now()), self.number);
        self.events.insert(place, event);
        place
    }

    /// Takes back what was to happen.
    pub(crate) fn revoke(&mut self, place: (Duration, u64)) {
        self.events.remove(&place);
    }

    pub(crate) fn fault(&self, fault: Fault) {
        lock(&self.laws).counts.fault(fault);
    }

    pub(crate) fn broken(&self, law: Law, text: String) {
        lock(&self.laws).broken(law, text);
    }

    /// How often something happened, in this world and those before.
    pub(crate) fn count<T>(&self, of: impl Fn(&Counts) -> T) -> T
    where
        T: std::ops::Add<Output = T>,
    {
        of(&self.setup.so_far) + of(&lock(&self.laws).counts)
    }

    /// Begins a life.
    pub(crate) fn start(&mut self) {
        self.life += 1;
        if let Some(old) = self.old_memory.take() {
            self.memory = old;
        }
        if self.setup.bug == Some(Bug::ForgottenLeases) {
            self.leases = Leases::default();
        }
        let deaf_after = (self.setup.bug == Some(Bug::LostDeadlines)).then(|| Duration::from_secs(20));
        let ground = Ground {
            memory: &self.memory,
            leases: &self.leases,
            laws: &self.laws,
            executor: &self.executor,
            outbox: &self.outbox,
            deaf_after,
        };
        let appliance = Appliance::start(self.life, self.setup.seed, &ground);
        let (found, newest) = (appliance.store.current(), lock(&self.laws).newest);
        if found < newest {
            self.broken(Law::Durable, format!("the store starts at revision {found}, {newest} was acknowledged"));
        }
        self.appliance = Some(appliance);
        // Who waits for it is there at once, before it has read anything.
        let soon = self.now() + Duration::from_secs(3);
        let waiting = self.events.iter().take_while(|((at, _), _)| *at < soon);
        let asks: Vec<(Duration, u64)> =
            waiting.filter(|(_, event)| matches!(event, Event::Deliver { .. })).map(|(place, _)| *place).collect();
        for place in asks {
            if let Some(event) = self.events.remove(&place) {
                self.handle(event);
            }
        }
        self.settle_tasks();
    }

    /// Ends the life under way, in the middle of whatever it does.
    pub(crate) fn kill(&mut self) {
        let Some(appliance) = self.appliance.take() else { return };
        self.executor.kill(appliance.life);
        drop(appliance);
        lock(&self.laws).die_in = None;
        lock(&self.outbox).clear();
        // Long enough, now and then, for leases and agents to be given up.
        let longest = if self.random.chance(15) { 900_000 } else { 8_000 };
        let downtime = self.random.millis(50, longest);
        self.after(downtime, Event::Start);
        let waiting: Vec<(usize, u64, u64)> =
            self.machines.iter().filter_map(|machine| Some((machine.id, machine.epoch, machine.call?))).collect();
        for (machine, epoch, call) in waiting {
            let delay = self.random.millis(1, 500);
            self.after(delay, Event::Answered { machine, epoch, call, answer: Answer::Lost });
        }
    }

    /// Runs the appliance's tasks until all wait, and takes what they gave.
    pub(crate) fn settle_tasks(&mut self) {
        loop {
            let stop = self.executor.run();
            let outs = std::mem::take(&mut *lock(&self.outbox));
            let quiet = outs.is_empty();
            for out in outs {
                self.take(out);
            }
            match stop {
                Stop::Halted => self.kill(),
                Stop::Paused => self.look_at_changes(),
                Stop::Idle if quiet => break,
                Stop::Idle => {}
            }
        }
        self.look_at_changes();
    }

    fn take(&mut self, out: Out) {
        match out {
            Out::Answer { machine, epoch, call, answer } => {
                if self.wild && self.random.chance(30) {
                    self.fault(Fault::ReplyLost);
                    return;
                }
                let delay = self.random.millis(1, 30);
                self.after(delay, Event::Answered { machine, epoch, call, answer });
            }
            Out::Bmc(ask) => {
                let delay = self.random.millis(5, 200);
                self.after(delay, Event::BmcAsked(ask));
            }
            Out::Image(ask) => {
                let delay = self.random.millis(500, 20_000);
                self.after(delay, Event::Image(ask));
            }
            Out::Ended { life, error } => {
                if self.appliance.as_ref().is_some_and(|appliance| appliance.life == life) {
                    if lock(&self.laws).refuses == 0 {
                        self.broken(Law::Running, format!("control ended by itself: {error}"));
                    }
                    self.kill();
                }
            }
        }
    }

    /// Handles the next event. `false`: nothing will ever happen again.
    pub(crate) fn step(&mut self) -> Result<bool, Violation> {
        let event_at = self.events.keys().next().map(|(at, _)| *at);
        let timer_at = self.executor.next_timer();
        let Some(at) = event_at.into_iter().chain(timer_at).min() else { return Ok(false) };
        lock(&self.laws).counts.steps += 1;
        let rung = self.executor.advance(at.max(self.now()));
        lock(&self.laws).now = self.executor.now();
        if rung {
            self.note("deadline", 0);
            self.settle_tasks();
        } else if let Some((_, event)) = self.events.pop_first() {
            self.handle(event);
            self.settle_tasks();
        }
        let violation = lock(&self.laws).violation.clone();
        match violation {
            Some(violation) => Err(violation),
            None => Ok(true),
        }
    }

    /// Goes on until a time; an end of all events is no end of time.
    pub(crate) fn run_for(&mut self, time: Duration) -> Result<(), Violation> {
        let end = self.now() + time;
        while self.events.keys().next().map(|(at, _)| *at).into_iter().chain(self.executor.next_timer()).min()
            <= Some(end)
        {
            if !self.step()? {
                break;
            }
        }
        // Where nothing happens and nobody waits, time goes by as well.
        if self.now() < end {
            self.executor.advance(end);
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, what: &'static str, who: usize) {
        self.hash = (self.hash
            ^ u64::try_from(self.now().as_micros()).unwrap_or(0)
            ^ (what.len() as u64) << 40
            ^ (who as u64) << 50)
            .wrapping_mul(0x0100_0000_01b3);
        *self.kinds.entry(what).or_default() += 1;
        if self.trace.len() >= TRACE_MAX {
            self.trace.pop_front();
        }
        self.trace.push_back((self.now(), what, who));
    }

    pub(crate) fn story(&self) -> String {
        let lines = self.trace.iter().map(|(at, what, who)| format!("  {:>12.3} s  {what} {who}\n", at.as_secs_f64()));
        lines.collect()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Post { machine, epoch } => self.with(machine, epoch, "post", Self::post),
            Event::DhcpTimer { machine, epoch } => self.with(machine, epoch, "dhcp timer", Self::dhcp_timer),
            Event::Retry { machine, epoch } => self.with(machine, epoch, "retry", Self::ask_again),
            Event::Work { machine, epoch } => self.with(machine, epoch, "work", Self::work),
            Event::Tick { machine, epoch, tick } => {
                self.with(machine, epoch, "tick", |world, machine| world.tick(machine, tick));
            }
            Event::ToServer { bytes } => self.hear_client(&bytes),
            Event::ToClient { machine, epoch, bytes } => {
                self.with(machine, epoch, "dhcp reply", |world, machine| world.hear_dhcp(machine, &bytes));
            }
            Event::LeaseWritten { life, id, changes } => self.lease_written(life, id, &changes),
            Event::Deliver { machine, epoch, call, ask } => self.deliver(machine, epoch, call, ask),
            Event::Answered { machine, epoch, call, answer } => {
                self.with(machine, epoch, "answer", |world, machine| world.answered(machine, call, answer));
            }
            Event::BmcAsked(ask) => self.bmc_asked(ask),
            Event::BmcAnswered { reply, response } => {
                self.note("bmc answers", 0);
                if let Some(response) = response {
                    drop(reply.send(Ok(response)));
                }
            }
            Event::Image(ask) => self.image(ask),
            Event::Owner => self.owner(),
            Event::Wish { name, wish, state } => {
                if state.is_none() || self.state_of(&name) == state || self.random.chance(100) {
                    self.wish(&name, wish);
                }
            }
            Event::Trouble => self.trouble(),
            Event::Cause { machine, fault } => self.cause(fault, machine),
            Event::Kill => {
                self.note("kill", 0);
                self.fault(Fault::KilledAtRest);
                self.kill();
            }
            Event::Start => {
                self.note("start", 0);
                if self.appliance.is_none() {
                    self.start();
                }
            }
            Event::Mend { machine, fault } => self.mend(machine, fault),
        }
    }

    /// Something of a machine, unless it belongs to an earlier start of it.
    fn with(&mut self, machine: usize, epoch: u64, what: &'static str, handle: impl FnOnce(&mut Self, usize)) {
        if self.machines[machine].epoch == epoch {
            self.note(what, machine);
            handle(self, machine);
        }
    }

    fn hear_client(&mut self, bytes: &[u8]) {
        self.note("dhcp request", 0);
        let now = self.executor.wall();
        let Some(appliance) = &mut self.appliance else { return };
        let boot = appliance.boot_answer();
        appliance.engine.handle_packet(now, ReceivedDatagram { interface: 1, bytes }, &boot);
        self.drain_dhcp();
    }

    /// A number for a request, higher than all before.
    pub(crate) fn random_call(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(crate) fn drain_dhcp(&mut self) {
        let now = self.executor.wall();
        while let Some(output) = self.appliance.as_mut().and_then(|appliance| appliance.engine.poll_output()) {
            match output {
                DhcpOutput::Transmit(transmit) => self.send_to_clients(transmit.bytes),
                DhcpOutput::Commit { id, changes } => {
                    let delay = self.random.millis(1, 15);
                    let life = self.life;
                    self.after(delay, Event::LeaseWritten { life, id, changes });
                }
                DhcpOutput::Event(event) => {
                    if let Some(appliance) = &self.appliance {
                        (appliance.events)(now, &event);
                    }
                }
                // Each machine here is on Ethernet.
                DhcpOutput::OtherHardware(client) => panic!("{client:?}"),
            }
        }
    }

    fn send_to_clients(&mut self, bytes: Vec<u8>) {
        let Ok(packet) = wire::decode(&bytes) else { return };
        if packet.options.message_type() == Some(wire::MessageType::Ack) {
            let on_disk = self.leases.leases.get(&packet.mac).is_some_and(|lease| lease.address == packet.yiaddr);
            if !on_disk && !packet.yiaddr.is_unspecified() {
                self.broken(Law::Durable, format!("{} was acknowledged and is not on disk", packet.yiaddr));
            }
        }
        let to: Vec<(usize, u64)> = self
            .machines
            .iter()
            .filter(|machine| machine.mac.0 == packet.mac.0)
            .map(|machine| (machine.id, machine.epoch))
            .collect();
        for (machine, epoch) in to {
            if self.packet_is_lost() {
                continue;
            }
            let delay = self.random.millis(1, 20);
            self.after(delay, Event::ToClient { machine, epoch, bytes: bytes.clone() });
        }
    }

    pub(crate) fn packet_is_lost(&mut self) -> bool {
        let lost = self.wild && self.random.chance(30);
        if lost {
            self.fault(Fault::PacketLost);
        }
        lost
    }

    fn lease_written(&mut self, life: u64, id: CommitId, changes: &[LeaseChange]) {
        self.note("lease written", 0);
        let dead = self.appliance.as_ref().is_none_or(|appliance| appliance.life != life);
        if dead {
            // The process was killed with the write on its way: it may have arrived.
            if self.random.chance(500) {
                self.leases.write(changes);
            }
            return;
        }
        let ok = !(self.wild && self.happens(Fault::LeaseRefused, 100, 20));
        if ok {
            self.leases.write(changes);
        } else {
            self.fault(Fault::LeaseRefused);
        }
        if let Some(appliance) = &mut self.appliance {
            appliance.engine.handle_committed(id, ok);
        }
        self.drain_dhcp();
    }

    fn deliver(&mut self, machine: usize, epoch: u64, call: u64, ask: Ask) {
        self.note("request", machine);
        let Some(appliance) = &self.appliance else {
            self.after(Duration::from_millis(1), Event::Answered { machine, epoch, call, answer: Answer::Lost });
            return;
        };
        let sender = &mut self.machines[machine];
        let overtaken = call < sender.arrived;
        sender.arrived = sender.arrived.max(call);
        let remote = IpAddr::V4(sender.address.map_or(Ipv4Addr::UNSPECIFIED, |(address, _)| address));
        let (controllers, life) = (appliance.controllers.clone(), appliance.life);
        if overtaken {
            self.fault(Fault::Reordered);
        }
        let (outbox, laws, sealer) = (Arc::clone(&self.outbox), Arc::clone(&self.laws), Arc::clone(&self.sealer));
        let name = self.machines[machine].name();
        let says_nothing = self.setup.bug == Some(Bug::SilentReplies);
        self.executor.spawn(
            life,
            Box::pin(async move {
                let asked = ask.clone();
                let mut answer = serve(&controllers, ask, remote).await;
                if says_nothing && let Answer::Report(Ok(reply)) = &mut answer {
                    reply.hold = None;
                }
                crate::hosts::check(&laws, &sealer, &name, &asked, &answer);
                lock(&outbox).push(Out::Answer { machine, epoch, call, answer });
            }),
        );
    }
}
