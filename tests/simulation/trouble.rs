//! What goes wrong: picked so that every kind happens often, and undone after a while.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use firesteel_boot::{Platform, ScriptRequest};
use firesteel_control::ImageFault;
use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet};
use firesteel_facts::Mac;
use firesteel_plan::DiskIdentity;
use firesteel_plan::host::PlanKind;
use firesteel_resources::bare_metal_host::ProvisioningState;
use firesteel_store::{GroupResource, ObjectKey, Op, Store};
use firesteel_wire::{Hello, PublicKey, SmbiosIdentity};
use serde_json::{Value, json};

use crate::agent::Lie;
use crate::appliance::{ImageAsk, image_of};
use crate::counts::Fault;
use crate::executor::lock;
use crate::laws::{Law, Laws, Point};
use crate::machine::Stage;
use crate::owner::{NAMESPACE, WRONG_IMAGE};
use crate::planted::Bug;
use crate::wild::pace;
use crate::world::{Event, World};

/// What [`World::trouble`] can do; the rest happens to messages on their way.
const TROUBLES: [Fault; 25] = [
    Fault::HostVanishes,
    Fault::HostHangs,
    Fault::HostBootsAgain,
    Fault::WorkerDies,
    Fault::SecondKey,
    Fault::TokenReplayed,
    Fault::TokenAltered,
    Fault::LiesAboutIdentity,
    Fault::LiesAboutWrite,
    Fault::HidesReceipts,
    Fault::ForgesWipe,
    Fault::MacStolen,
    Fault::DisksShuffled,
    Fault::DiskSwapped,
    Fault::DiskCorrupts,
    Fault::DiskFails,
    Fault::DiskReadOnly,
    Fault::KilledBeforeWrite,
    Fault::KilledAfterWrite,
    Fault::KilledAtEffect,
    Fault::KilledAtRest,
    Fault::WriteRefused,
    Fault::SecretMissing,
    Fault::DhcpStarved,
    Fault::Halted,
];

impl World {
    pub(crate) fn trouble(&mut self) {
        self.note("trouble", 0);
        if !self.wild {
            return;
        }
        let late: Vec<Fault> = TROUBLES.into_iter().filter(|fault| self.is_late(*fault)).collect();
        let known = if late.is_empty() || self.random.chance(30) { TROUBLES.as_slice() } else { &late };
        let fault = *self.random.pick(known);
        let longest = if late.is_empty() { 60_000 } else { 8_000 };
        let pause = self.random.millis(1_000, longest);
        self.after(pause, Event::Trouble);
        if self.appliance.is_none() {
            return;
        }
        let id = self.victim(fault);
        self.cause(fault, id);
    }

    /// Whether this fault happened less often so far than it should have.
    pub(crate) fn is_late(&self, fault: Fault) -> bool {
        self.count(|counts| counts.of_fault(fault)) < pace(self.count(|counts| counts.steps))
    }

    /// Draws whether it happens: per mille where it is late, and where it is not.
    pub(crate) fn happens(&mut self, fault: Fault, late: u64, otherwise: u64) -> bool {
        let per_mille = if self.is_late(fault) { late } else { otherwise };
        self.random.chance(per_mille)
    }

    /// A machine on which the fault has an effect, where there is one.
    fn victim(&mut self, fault: Fault) -> usize {
        let mut order: Vec<usize> = (0..self.machines.len()).collect();
        let turn = self.random.below(order.len());
        order.rotate_left(turn);
        let fits = |world: &mut Self, id: usize| match fault {
            Fault::WorkerDies | Fault::SecondKey | Fault::LiesAboutWrite | Fault::HidesReceipts | Fault::ForgesWipe => {
                world.machines[id].agent().is_some()
            }
            Fault::HostVanishes | Fault::HostHangs | Fault::HostBootsAgain => !world.machines[id].is_off(),
            _ => true,
        };
        order.iter().copied().find(|id| fits(self, *id)).unwrap_or(order[0])
    }

    pub(crate) fn cause(&mut self, fault: Fault, id: usize) {
        match fault {
            Fault::HostVanishes | Fault::HostHangs | Fault::HostBootsAgain | Fault::WorkerDies => self.upset(fault, id),
            Fault::SecondKey | Fault::TokenReplayed | Fault::TokenAltered | Fault::MacStolen => {
                self.stranger(fault, id);
            }
            Fault::LiesAboutIdentity => self.lie(fault, id, Lie::Identity),
            Fault::LiesAboutWrite => self.lie(fault, id, Lie::Write),
            Fault::HidesReceipts => self.lie(fault, id, Lie::NoReceipt),
            Fault::ForgesWipe => self.lie(fault, id, Lie::Wipe),
            Fault::DisksShuffled
            | Fault::DiskSwapped
            | Fault::DiskCorrupts
            | Fault::DiskFails
            | Fault::DiskReadOnly => {
                self.spoil(fault, id);
            }
            Fault::KilledBeforeWrite | Fault::KilledAfterWrite | Fault::KilledAtEffect => {
                let point = match fault {
                    Fault::KilledBeforeWrite => Point::BeforeWrite,
                    Fault::KilledAfterWrite => Point::AfterWrite,
                    _ => Point::Effect,
                };
                let ahead = 1 + self.random.next() % 6;
                lock(&self.laws).die_in = Some((point, ahead));
            }
            Fault::KilledAtRest => self.after(Duration::ZERO, Event::Kill),
            Fault::WriteRefused => {
                lock(&self.laws).refuses = 60;
                let later = self.random.millis(5_000, 60_000);
                self.after(later, Event::Mend { machine: id, fault });
            }
            Fault::SecretMissing => {
                self.drop_secret(id);
                let later = self.random.millis(5_000, 120_000);
                self.after(later, Event::Mend { machine: id, fault });
            }
            Fault::DhcpStarved => self.starve(),
            Fault::Halted => self.halt_for_a_while(),
            Fault::BmcUnauthorized
            | Fault::BmcRefuses
            | Fault::BmcUnreachable
            | Fault::BmcSlow
            | Fault::BmcIgnoresPower
            | Fault::BmcForgetsBoot
            | Fault::BmcGarbage
            | Fault::RequestLost
            | Fault::ReplyLost
            | Fault::Delayed
            | Fault::Duplicated
            | Fault::Reordered
            | Fault::PacketLost
            | Fault::PacketDuplicated
            | Fault::WriteUnheard
            | Fault::LeaseRefused
            | Fault::ImageFails
            | Fault::ImageWrong => {}
        }
    }

    /// Repairs what a fault left behind.
    pub(crate) fn mend(&mut self, id: usize, fault: Fault) {
        self.note("mend", id);
        match fault {
            Fault::WriteRefused => lock(&self.laws).refuses = 0,
            Fault::Halted => self.resume(),
            Fault::SecretMissing => self.restore_secrets(id),
            Fault::DiskReadOnly => self.machines[id].disks.iter_mut().for_each(|disk| disk.read_only = false),
            _ => {}
        }
    }

    fn upset(&mut self, fault: Fault, id: usize) {
        if self.machines[id].is_off() {
            return;
        }
        self.fault(fault);
        match fault {
            Fault::HostVanishes => self.power_off(id),
            Fault::HostBootsAgain => self.restart(id),
            Fault::WorkerDies => {
                if let Some(agent) = self.machines[id].agent() {
                    let todo = agent.die();
                    self.machines[id].call = None;
                    self.carry_out(id, todo);
                }
            }
            _ => {
                let machine = &mut self.machines[id];
                machine.epoch += 1;
                machine.call = None;
                machine.stage = Stage::Hung;
            }
        }
    }

    fn lie(&mut self, fault: Fault, id: usize, lie: Lie) {
        if lie == Lie::Identity {
            self.fault(fault);
            self.machines[id].next_lie = Some(lie);
        } else if let Some(agent) = self.machines[id].agent() {
            agent.lie = Some(lie);
            self.fault(fault);
        }
    }

    fn spoil(&mut self, fault: Fault, id: usize) {
        self.fault(fault);
        let other = self.random.below(self.machines.len());
        let count = self.machines[id].disks.len();
        let at = self.random.below(count);
        match fault {
            Fault::DisksShuffled => self.machines[id].disks.rotate_left(1),
            Fault::DiskSwapped if other != id => {
                let mine = self.machines[id].disks.remove(at);
                let theirs = self.machines[other].disks.remove(0);
                self.machines[id].disks.push(theirs);
                self.machines[other].disks.push(mine);
            }
            Fault::DiskCorrupts => self.machines[id].disks[at].corrupts = true,
            Fault::DiskFails => self.machines[id].disks[at].fails = true,
            Fault::DiskReadOnly => {
                self.machines[id].disks[at].read_only = true;
                let later = self.random.millis(5_000, 300_000);
                self.after(later, Event::Mend { machine: id, fault });
            }
            _ => {}
        }
    }

    /// Clients that nobody knows ask for addresses.
    fn starve(&mut self) {
        for _ in 0..10 {
            let [a, b, c, ..] = self.random.bytes();
            self.fault(Fault::DhcpStarved);
            let mut packet = Packet::new(DhcpOperation::Request, u32::from(a), Mac([2, 0, 0, a, b, c]));
            packet.options.set_message_type(MessageType::Discover);
            if let Ok(bytes) = wire::encode(&packet) {
                let delay = self.random.millis(0, 100);
                self.after(delay, Event::ToServer { bytes });
            }
        }
    }

    /// Somebody on the network uses what belongs to a host.
    fn stranger(&mut self, fault: Fault, id: usize) {
        let known = self.machines[id].tokens.clone();
        let Some(appliance) = &self.appliance else { return };
        let (control, life) = (appliance.control.clone(), appliance.life);
        let token = match fault {
            Fault::MacStolen => None,
            Fault::TokenReplayed => known.first().cloned(),
            _ => known.last().cloned(),
        };
        if token.is_none() && fault != Fault::MacStolen {
            return;
        }
        self.fault(fault);
        let (mac, key, laws) = (self.machines[id].mac, PublicKey(self.random.bytes()), Arc::clone(&self.laws));
        let boot_mac = self.machines[id].mac_text();
        let name = self.machines[id].name();
        let sealer = Arc::clone(&self.sealer);
        self.executor.spawn(
            life,
            Box::pin(async move {
                let remote = IpAddr::from([10, 77, 0, 250]);
                let token = match token {
                    Some((token, _)) => token,
                    None => {
                        let request = ScriptRequest {
                            mac,
                            platform: Platform::Efi,
                            buildarch: None,
                            uuid: None,
                            serial: None,
                            odd: Vec::new(),
                        };
                        let script = control.boots.script(&request, remote).await.text;
                        if crate::hosts::kernel_token(&script).is_some() {
                            lock(&laws)
                                .broken(Law::Asker, format!("{name}: a neighbour without its lease got a token"));
                        }
                        return;
                    }
                };
                let token = if fault == Fault::TokenAltered { altered(&token) } else { token };
                let hello = Hello {
                    token,
                    key,
                    identity: SmbiosIdentity { boot_mac, ..SmbiosIdentity::default() },
                    agent_version: String::new(),
                    kernel_version: String::new(),
                    uptime_ms: 0,
                    boot_id: "stranger".into(),
                    network: None,
                    program: firesteel_wire::Program::default(),
                };
                let asked = crate::network::Ask::Hello(Box::new(hello.clone()));
                let answer = control.agents.hello(hello, remote).await;
                if fault == Fault::TokenAltered && answer.is_ok() {
                    lock(&laws).broken(Law::Token, format!("{name}: an altered token was taken"));
                }
                crate::hosts::check(&laws, &sealer, &name, &asked, &crate::network::Answer::Hello(answer));
            }),
        );
    }

    pub(crate) fn image(&mut self, ask: ImageAsk) {
        self.note("image", 0);
        let fault =
            |message: &str, permanent| Err(ImageFault { message: message.to_owned(), permanent, crowded: false });
        let result = if ask.request.url == WRONG_IMAGE {
            fault("the image's checksum is another", true)
        } else if self.wild && self.happens(Fault::ImageFails, 250, 30) {
            self.fault(Fault::ImageFails);
            fault("the download was cut off", false)
        } else if self.wild && self.happens(Fault::ImageWrong, 250, 30) {
            self.fault(Fault::ImageWrong);
            fault("the image's checksum is another", true)
        } else {
            Ok(image_of(&ask.request.url))
        };
        drop(ask.reply.send(result));
    }

    /// The truth about the disk of a host that has just become provisioned.
    pub(crate) fn check_disk(&mut self, name: &str, guid: &str) {
        lock(&self.laws).counts.other("provisioned");
        let disks = self.machines.iter().flat_map(|machine| &machine.disks);
        let installed = disks.filter_map(|disk| disk.body.as_ref()).find(|installed| installed.disk_guid == guid);
        // A disk that was pulled or written again since holds nothing against it.
        if installed.is_some_and(|installed| !installed.intact) {
            self.broken(Law::Evidence, format!("{name} is provisioned, and its disk does not hold the image"));
        }
    }

    /// Puts the bug of this world in where it shows.
    pub(crate) fn plant(&mut self, name: &str, state: ProvisioningState) {
        let Some(bug) = self.setup.bug else { return };
        match (bug, state) {
            (Bug::LostWrites, ProvisioningState::Available) if self.life == 1 => {
                self.old_memory = Some(self.memory.copy());
                self.after(Duration::from_secs(20), Event::Kill);
            }
            (Bug::ForgottenLeases, ProvisioningState::Inspecting) if self.life < 3 => {
                self.after(Duration::from_secs(60), Event::Kill);
            }
            (Bug::Rebinding, ProvisioningState::Preparing) => {
                self.forge(name, |status| status["agent"]["key"] = json!("00"))
            }
            (Bug::IllegalState, ProvisioningState::Available) => {
                self.forge(name, |status| status["memory"]["state"] = json!({"name": "provisioned"}));
            }
            (Bug::AttemptBack, ProvisioningState::Available) => {
                self.forge(name, |status| status["memory"]["attempt"] = json!(0));
            }
            (Bug::LostReceipt, ProvisioningState::Preparing) => {
                self.forge(name, |status| status["receipts"] = json!([]))
            }
            (Bug::FalseReadBack, ProvisioningState::Provisioning) => {
                self.machines.iter_mut().flat_map(|machine| &mut machine.disks).for_each(|disk| disk.corrupts = true);
            }
            (Bug::DeafAgent | Bug::SilentReplies, ProvisioningState::Provisioning) => {
                let soon = self.random.millis(200, 3_000);
                self.after(soon, Event::Cause { machine: 0, fault: Fault::Halted });
            }
            (Bug::PlanBehindGate, ProvisioningState::Registering) => self.cause(Fault::Halted, 0),
            (Bug::PlanBehindGate, ProvisioningState::Available) => {
                let plan = serde_json::to_value(PlanKind::Clean { disk: DiskIdentity::default() }).unwrap_or_default();
                self.forge(name, move |status| {
                    status["memory"]["planNumber"] = json!(99);
                    status["memory"]["plan"] = json!({"number": 99, "plan": plan, "issuedAt": "2026-01-01T00:00:00Z"});
                });
            }
            (_, _) => {}
        }
    }

    /// The same for a machine that nobody owns and whose agent was just bound.
    pub(crate) fn plant_among_strangers(&mut self, name: &str) {
        if self.setup.bug == Some(Bug::ForgottenStranger) {
            let machine = name.rsplit('-').next().and_then(|octet| usize::from_str_radix(octet, 16).ok()).unwrap_or(0);
            self.strangers_bound += 1;
            if self.strangers_bound == 1 {
                // The token of a first boot is taken once, whatever the object says: the bug is in those after it.
                self.after(Duration::from_secs(2), Event::Cause { machine, fault: Fault::HostBootsAgain });
                return;
            }
            let key = ObjectKey::new(&GroupResource::new("firesteel.dev", "discoveredhosts"), "", name);
            self.forge_object(key, |status| status["agent"] = Value::Null);
            self.after(Duration::from_secs(2), Event::Cause { machine, fault: Fault::SecondKey });
        }
    }

    /// Changes a journal behind control's back.
    pub(crate) fn forge(&mut self, name: &str, change: impl Fn(&mut Value) + Send + 'static) {
        self.forge_object(
            ObjectKey::new(&GroupResource::new("firesteel.dev", "hostjournals"), NAMESPACE, name),
            change,
        );
    }

    fn forge_object(&mut self, key: ObjectKey, change: impl Fn(&mut Value) + Send + 'static) {
        let Some(appliance) = &self.appliance else { return };
        let store = appliance.store.clone();
        self.executor.spawn(appliance.life, Box::pin(async move { forge(&store, &key, change).await }));
    }
}

async fn forge(store: &Store, key: &ObjectKey, change: impl Fn(&mut Value)) {
    for _ in 0..10 {
        let Ok(Some(object)) = store.get(key).await else { return };
        let mut value: Value = serde_json::from_slice(&object.value).unwrap_or_default();
        change(&mut value["status"]);
        let op = Op::Update { key: key.clone(), expected: object.revision, value: value.to_string().into() };
        if store.commit(op, Vec::new()).await.is_ok() {
            return;
        }
    }
}

fn altered(token: &str) -> String {
    let mut bytes = token.as_bytes().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What the laws know of hosts, for a failure.
pub(crate) fn hosts_text(laws: &Laws) -> String {
    let line = |(name, host): (&String, &crate::laws::HostTruth)| {
        let failure = host.memory.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        format!("  {name}: {} attempt {} {failure}\n", host.state(), host.memory.attempt)
    };
    laws.hosts.iter().map(line).collect()
}
