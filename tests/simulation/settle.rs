//! The faults stop: now every host that can be satisfied reaches its goal in bounded time, and every
//! other one says why not.

use std::time::Duration;

use firesteel_kube::ObjectPart;
use firesteel_plan::host::PendingErasure;
use firesteel_resources::bare_metal_host::{CleaningMode, ProvisioningState as S, annotations};
use firesteel_resources::{BareMetalHost, ConditionStatus, RootDeviceHints, SecretReference};
use firesteel_store::{GroupResource, ObjectKey};

use crate::executor::lock;
use crate::laws::{Law, Violation};
use crate::machine::{Machine, Stage};
use crate::owner::{Birth, NAMESPACE, WRONG_IMAGE, bmc_details, image};
use crate::planted::Bug;
use crate::world::World;

/// Longest way from any mess to a running system: a deletion or cleaning that is given up after three
/// failures with growing delays, a boot that is waited for, and an installation.
const PATIENCE: Duration = Duration::from_secs(5 * 3600);
/// How often a person looks at hosts without a BMC.
const WALK: Duration = Duration::from_secs(120);
const GOAL: &str = "http://images.example/goal.raw";

/// Wishes that nothing can fulfil, and a word of the reason that must be shown.
const IMPOSSIBLE: [(&str, &str); 3] = [("hints", "no disk"), ("checksum", "checksum"), ("secret", "does not exist")];

impl World {
    pub(crate) fn host_object(&self, name: &str) -> Option<BareMetalHost> {
        let key = ObjectKey::new(&GroupResource::new("metal3.io", "baremetalhosts"), NAMESPACE, name);
        serde_json::from_slice(&self.memory.peek(&key)?.value).ok()
    }

    /// All faults end, and what they broke is repaired.
    pub(crate) fn calm(&mut self) {
        self.wild = false;
        {
            let mut laws = lock(&self.laws);
            (laws.refuses, laws.die_at, laws.die_in) = (0, None, None);
        }
        let stays_foreign = self.setup.bug == Some(Bug::GuardlessAgent);
        for machine in &mut self.machines {
            machine.next_lie = None;
            if let Some(agent) = machine.agent() {
                agent.lie = None;
            }
            for disk in &mut machine.disks {
                (disk.corrupts, disk.fails, disk.read_only) = (false, false, false);
                // Whose it is took it out.
                disk.foreign &= stays_foreign;
            }
            if machine.disks.is_empty() {
                continue;
            }
        }
        for id in 0..self.machines.len() {
            if self.machines[id].disks.is_empty() {
                let disk = self.new_disk(1);
                self.machines[id].disks.push(disk);
            }
        }
    }

    /// From whatever the wild days left to the goal of every host.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        self.calm();
        self.run_for(Duration::from_secs(1000))?;
        for id in 0..self.machines.len() {
            self.restore_secrets(id);
            self.release(id);
        }
        self.settle_tasks();
        self.until("is still being deleted", &[], |world, id| {
            let name = world.machines[id].name();
            world.host_object(&name).is_none_or(|host| host.metadata.deletion_timestamp.is_none())
        })?;
        for id in 0..self.machines.len() {
            if self.host_object(&self.machines[id].name()).is_none() {
                self.create(id, Birth::WithBmc);
            }
        }
        self.settle_tasks();
        let impossible: Vec<usize> = (0..self.machines.len()).filter(|id| id % 5 == 4).collect();
        for id in 0..self.machines.len() {
            let wish = impossible.contains(&id).then(|| IMPOSSIBLE[self.random.below(IMPOSSIBLE.len())]);
            self.set_goal(id, wish.map(|(wish, _)| wish));
        }
        self.until("has not reached its goal", &impossible, |world, id| {
            if impossible.contains(&id) { world.says_why(id) } else { world.has_goal(id) }
        })?;
        for id in impossible {
            self.restore_secrets(id);
            self.set_goal(id, None);
        }
        self.until("has not reached its goal after it was corrected", &[], Self::has_goal)?;
        self.give_back()?;
        let laws = lock(&self.laws);
        match laws.hosts.iter().find(|(name, host)| laws.objects.get(*name) != Some(&host.uid)) {
            Some((name, _)) => {
                Err(Violation { law: Law::Forward, text: format!("the journal of {name} outlived its host") })
            }
            None => Ok(()),
        }
    }

    /// Hosts whose erasures claim a grade are given back, and installed again.
    fn give_back(&mut self) -> Result<(), Violation> {
        let claims = |host: &BareMetalHost| host.metadata.annotations.contains_key(annotations::CLEANING);
        let names: Vec<String> = self.machines.iter().map(Machine::name).collect();
        let given_back: Vec<String> =
            names.into_iter().filter(|name| self.host_object(name).is_some_and(|host| claims(&host))).collect();
        for name in &given_back {
            self.edit(name, Box::new(|host| host.spec.image = None), false);
        }
        self.settle_tasks();
        self.until("was not given back", &[], |world, id| {
            let name = world.machines[id].name();
            !given_back.contains(&name) || world.state_of(&name) == Some(S::Available)
        })?;
        for id in 0..self.machines.len() {
            if given_back.contains(&self.machines[id].name()) {
                self.set_goal(id, None);
            }
        }
        self.until("has not reached its goal again", &[], Self::has_goal)
    }

    /// Waits until something holds for every host; of those without hope it is the reason that is waited for.
    fn until(&mut self, what: &str, hopeless: &[usize], holds: impl Fn(&Self, usize) -> bool) -> Result<(), Violation> {
        let end = self.now() + PATIENCE;
        loop {
            let missing: Vec<usize> = (0..self.machines.len()).filter(|id| !holds(self, *id)).collect();
            let Some(first) = missing.first() else { return Ok(()) };
            if self.now() >= end {
                let name = self.machines[*first].name();
                let state = self.state_of(&name).unwrap_or_default();
                let reason = self.host_object(&name).map(|host| shown(&host)).unwrap_or_default();
                let text = format!("{name} {what} after {PATIENCE:?}: {state}, {reason}; {}", self.doing(*first));
                let law = if hopeless.contains(first) { Law::Reason } else { Law::Liveness };
                return Err(Violation { law, text });
            }
            self.run_for(WALK)?;
            let target = self.now();
            self.executor.advance(target);
            missing.iter().for_each(|id| self.walk_past(*id));
        }
    }

    pub(crate) fn doing(&self, id: usize) -> &'static str {
        match &self.machines[id].stage {
            Stage::Off => "the machine is off",
            Stage::Post => "the machine tests its memory",
            Stage::Dhcp { .. } => "the machine asks for an address",
            Stage::Fetching { .. } => "the machine fetches its boot files",
            Stage::Agent(_) => "the machine runs its agent",
            Stage::Os(_) => "the machine runs a system",
            Stage::Hung => "the machine hangs",
        }
    }

    /// Owners read the status and take the exit that it names (a disk that was carried away cannot be
    /// cleaned); a host without BMC is started by hand, from the network, when it does nothing of use.
    fn walk_past(&mut self, id: usize) {
        let name = self.machines[id].name();
        if self.host_object(&name).is_some_and(|host| shown(&host).contains("automatedCleaningMode")) {
            let uncleaned = |host: &mut BareMetalHost| {
                host.spec.automated_cleaning_mode = Some(CleaningMode::Disabled);
            };
            self.edit(&name, Box::new(uncleaned), false);
        }
        let held = lock(&self.laws).hosts.get(&name).and_then(|host| host.memory.wipe.clone());
        if let Some(wipe) = held.filter(PendingErasure::is_held) {
            let mark = wipe.mark();
            let accepts = move |host: &mut BareMetalHost| {
                host.metadata.annotations.insert(annotations::ACCEPT_ERASURE.to_owned(), mark.clone());
            };
            self.edit(&name, Box::new(accepts), false);
        }
        if self.host_object(&name).is_some_and(|host| shown(&host).contains("firesteel choose-agent")) {
            let neither = |host: &mut BareMetalHost| {
                host.metadata
                    .annotations
                    .insert(annotations::CHOOSE_AGENT.to_owned(), annotations::NO_CLAIMANT.to_owned());
            };
            self.edit(&name, Box::new(neither), false);
        }
        let by_hand = self.host_object(&name).is_some_and(|host| host.spec.usable_bmc().is_none());
        let idle = matches!(self.machines[id].stage, Stage::Off | Stage::Hung | Stage::Os(_));
        let installed = matches!(self.state_of(&name), Some(S::Provisioned | S::ExternallyProvisioned));
        if by_hand && idle && !(installed && matches!(self.machines[id].stage, Stage::Os(_))) {
            self.machines[id].net_once = !installed;
            self.restart(id);
        }
    }

    /// Takes back what holds a host up.
    fn release(&mut self, id: usize) {
        let name = self.machines[id].name();
        self.edit(
            &name,
            Box::new(|host| {
                host.metadata.finalizers.retain(|finalizer| !finalizer.starts_with("example.com/"));
                host.metadata.annotations.retain(|key, _| {
                    key != annotations::PAUSED && key != annotations::DETACHED && !key.starts_with(annotations::REBOOT)
                });
            }),
            false,
        );
    }

    fn set_goal(&mut self, id: usize, impossible: Option<&'static str>) {
        let name = self.machines[id].name();
        let with_bmc = id % 4 != 3;
        let change = move |host: &mut BareMetalHost| {
            host.spec.online = true;
            host.spec.externally_provisioned = false;
            host.spec.inspection_mode = None;
            host.spec.automated_cleaning_mode = None;
            host.spec.root_device_hints = None;
            host.spec.image = Some(image(GOAL));
            host.spec.user_data =
                Some(SecretReference { name: format!("user-data-{id}"), namespace: NAMESPACE.to_owned() });
            if with_bmc {
                host.spec.bmc = Some(bmc_details(id));
            }
            match impossible {
                Some("hints") => {
                    let nothing = RootDeviceHints { serial_number: "none".into(), ..RootDeviceHints::default() };
                    host.spec.root_device_hints = Some(nothing);
                }
                Some("checksum") => host.spec.image = Some(image(WRONG_IMAGE)),
                Some(_) => host.spec.user_data = Some(SecretReference { name: "nowhere".into(), ..Default::default() }),
                None => {}
            }
            host.metadata.annotations.insert(annotations::RETRY.to_owned(), String::new());
        };
        let Some(appliance) = &self.appliance else { return };
        let hosts = appliance.hosts.clone();
        self.executor.spawn(
            appliance.life,
            Box::pin(async move {
                // First without an image: what is there, also what somebody else installed, goes.
                drop(hosts.modify(NAMESPACE, &name, ObjectPart::Main, change).await);
            }),
        );
        self.settle_tasks();
    }

    fn has_goal(&self, id: usize) -> bool {
        let name = self.machines[id].name();
        let Some(host) = self.host_object(&name) else { return false };
        let Some(status) = &host.status else { return false };
        let laws = lock(&self.laws);
        let Some(truth) = laws.hosts.get(&name) else { return false };
        let Some(applied) = &truth.memory.applied else { return false };
        let runs = truth
            .instance
            .as_ref()
            .is_some_and(|instance| instance.attempt == applied.attempt && instance.running_at.is_some());
        let adopted = applied.disk_guid.is_empty();
        truth.state() == S::Provisioned
            && status.provisioning.state == S::Provisioned
            && applied.image.url == GOAL
            && (runs || adopted)
    }

    /// A host that cannot be satisfied is not written to, and says why in its status.
    fn says_why(&self, id: usize) -> bool {
        let name = self.machines[id].name();
        let Some(mut host) = self.host_object(&name) else { return false };
        if self.setup.bug == Some(Bug::NoReason)
            && let Some(status) = &mut host.status
        {
            status.error_message.clear();
            status.conditions.iter_mut().for_each(|condition| condition.message.clear());
        }
        let text = shown(&host);
        // What somebody else installed is taken as it is.
        let adopted = lock(&self.laws)
            .hosts
            .get(&name)
            .is_some_and(|truth| truth.memory.applied.as_ref().is_some_and(|applied| applied.disk_guid.is_empty()));
        adopted || IMPOSSIBLE.iter().any(|(_, word)| text.contains(word))
    }
}

/// What a person reads in the status.
fn shown(host: &BareMetalHost) -> String {
    let Some(status) = &host.status else { return String::new() };
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let text = ready.filter(|ready| ready.status != ConditionStatus::True).map(|ready| ready.message.clone());
    format!("{} {}", status.error_message, text.unwrap_or_default())
}
