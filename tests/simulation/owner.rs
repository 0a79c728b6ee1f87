//! The owners of the hosts: what they ask for through the API, drawn so that every change of state
//! happens often. An owner sees a host's state as its journal has it, and asks for what leads on by
//! the way that was taken least so far.

use std::time::Duration;

use firesteel_kube::ObjectPart;
use firesteel_resources::bare_metal_host::{
    BmcDetails, CleaningMode, FINALIZER, InspectionMode, ProvisioningState as S, annotations,
};
use firesteel_resources::secret::{CONFIG_KEY, CONFIG_TYPE, SecretBytes};
use firesteel_resources::{BareMetalHost, Image, RootDeviceHints, Secret, SecretReference};
use serde_json::json;

use firesteel_plan::host::transitions::EDGES;

use crate::appliance::ENDPOINTS;
use crate::counts::{Edge, Fault};
use crate::executor::lock;
use crate::wild::LEAST_OF_HALF;
use crate::world::{Event, World};

pub(crate) const NAMESPACE: &str = "default";
const IMAGES: [&str; 3] = ["http://images.example/a.raw", "http://images.example/b.raw", "http://images.example/c.raw"];
/// Its checksum is wrong: no try can help.
pub(crate) const WRONG_IMAGE: &str = "http://images.example/wrong.raw";
/// Journals of more bytes belong to hosts that have lived long enough.
const OLD_BYTES: usize = 10_000;
/// A finalizer of somebody else.
const HOLD: &str = "example.com/hold";

/// What an owner asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    Image,
    NoImage,
    Delete,
    DetachAndDelete,
    ReleaseByForce,
    Inspect,
    Hints,
    External,
    NotExternal,
    AddBmc,
    SwitchOn,
    Reboot,
    HoldOff,
    LetGo,
    Offline,
    Pause,
    Resume,
    Detach,
    DetachByForce,
    DeleteLater,
    Attach,
    SoftReboot,
    RebootByForce,
    Retry,
    /// Lets go what guards keep on the machine's disks.
    Override,
    Unpaused,
    Cleaning,
}

/// How a host begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    WithBmc,
    WithoutBmc,
    External,
    NotInspected,
    StillBorn,
}

type Edit = Box<dyn Fn(&mut BareMetalHost) + Send + Sync>;

impl World {
    pub(crate) fn image_url(&mut self) -> &'static str {
        self.random.pick::<&'static str>(&IMAGES)
    }

    pub(crate) fn state_of(&self, name: &str) -> Option<S> {
        lock(&self.laws).hosts.get(name).map(crate::laws::HostTruth::state)
    }

    fn exists(&self, name: &str) -> bool {
        lock(&self.laws).objects.contains_key(name)
    }

    /// The owners' round: hosts that are missing are made, and those that rest get something to do.
    pub(crate) fn owner(&mut self) {
        self.note("owner", 0);
        if !self.wild {
            return;
        }
        let idle = self.idle_host();
        let pause = if idle.is_some() { self.random.millis(1_000, 6_000) } else { self.random.millis(4_000, 12_000) };
        self.after(pause, Event::Owner);
        if self.appliance.is_none() {
            return;
        }
        let id = idle.unwrap_or_else(|| self.random.below(self.machines.len()));
        let name = self.machines[id].name();
        if !self.exists(&name) {
            let birth = self.choose_birth();
            return self.create(id, birth);
        }
        if self.random.chance(60) {
            let noise = [
                Wish::Reboot,
                Wish::HoldOff,
                Wish::LetGo,
                Wish::Offline,
                Wish::Retry,
                Wish::Pause,
                Wish::Detach,
                Wish::DetachByForce,
                Wish::DeleteLater,
                Wish::SoftReboot,
                Wish::RebootByForce,
                Wish::SwitchOn,
                Wish::AddBmc,
                Wish::Cleaning,
            ];
            let wish = *self.random.pick(&noise);
            return self.wish(&name, wish);
        }
        if let Some(state) = self.state_of(&name) {
            let rests =
                matches!(state, S::New | S::Unmanaged | S::Available | S::Provisioned | S::ExternallyProvisioned);
            if rests || self.random.chance(60) {
                let wish = self.choose(&name, state);
                self.wish(&name, wish);
            }
        }
        // Somebody walks past and presses a button that should be pressed.
        if self.random.chance(50) {
            self.power_on(id);
        }
    }

    fn choose_birth(&mut self) -> Birth {
        let ordinary = if self.random.chance(500) {
            ((S::Registering, S::Inspecting), Birth::WithBmc)
        } else {
            ((S::Registering, S::Preparing), Birth::NotInspected)
        };
        let ways = [
            ordinary,
            ((S::Registering, S::Inspecting), Birth::WithBmc),
            ((S::Registering, S::Preparing), Birth::NotInspected),
            ((S::New, S::Unmanaged), Birth::WithoutBmc),
            ((S::Unmanaged, S::Registering), Birth::WithoutBmc),
            ((S::Unmanaged, S::Deleting), Birth::WithoutBmc),
            ((S::New, S::Deleting), Birth::StillBorn),
            ((S::Registering, S::ExternallyProvisioned), Birth::External),
            ((S::ExternallyProvisioned, S::Provisioned), Birth::External),
            ((S::ExternallyProvisioned, S::PoweringOff), Birth::External),
            ((S::ExternallyProvisioned, S::Deleting), Birth::External),
        ];
        self.rarest(&ways)
    }

    /// A host that is missing or rests, where there is one.
    fn idle_host(&mut self) -> Option<usize> {
        let turn = self.random.below(self.machines.len());
        let mut order: Vec<usize> = (0..self.machines.len()).collect();
        order.rotate_left(turn);
        let is_idle = |id: &usize| {
            let name = self.machines[*id].name();
            !self.exists(&name)
                || matches!(
                    self.state_of(&name),
                    Some(S::New | S::Unmanaged | S::Available | S::Provisioned | S::ExternallyProvisioned)
                )
        };
        order.iter().copied().find(is_idle)
    }

    /// The way that was taken least.
    fn rarest<T: Copy>(&mut self, ways: &[(Edge, T)]) -> T {
        if self.random.chance(100) {
            return self.random.pick(ways).1;
        }
        let laws = lock(&self.laws);
        let count = |edge: Edge| self.setup.so_far.of_edge(edge) + laws.counts.of_edge(edge);
        // What is not much rarer than the rarest of all can wait: hosts that are spent early never come
        // to what lies deep.
        let rarest = EDGES.iter().map(|(from, to, _)| count((*from, *to))).min().unwrap_or(0);
        let enough = LEAST_OF_HALF.min(rarest + rarest / 4 + 25);
        let least = ways.iter().filter(|(edge, _)| count(*edge) < enough).min_by_key(|(edge, _)| count(*edge));
        // The first way is the ordinary one.
        least.map_or(ways[0].1, |(_, way)| *way)
    }

    fn choose(&mut self, name: &str, state: S) -> Wish {
        let ways: &[(Edge, Wish)] = match state {
            S::New => &[((S::New, S::Deleting), Wish::Unpaused)],
            S::Foreign => panic!("{name} is in a state that the appliance does not write"),
            S::Unmanaged => &[
                ((S::Unmanaged, S::Registering), Wish::AddBmc),
                ((S::Unmanaged, S::Registering), Wish::SwitchOn),
                ((S::Unmanaged, S::Deleting), Wish::Delete),
            ],
            S::Registering => {
                &[((S::Registering, S::Inspecting), Wish::Nothing), ((S::Registering, S::Deleting), Wish::Delete)]
            }
            S::Inspecting => &[
                ((S::Inspecting, S::Preparing), Wish::Nothing),
                ((S::Inspecting, S::PoweringOff), Wish::Delete),
                ((S::Inspecting, S::Deleting), Wish::DetachAndDelete),
            ],
            S::Preparing => &[
                ((S::Preparing, S::Available), Wish::Nothing),
                ((S::Preparing, S::PoweringOff), Wish::Delete),
                ((S::Preparing, S::Deleting), Wish::ReleaseByForce),
            ],
            S::Available => &[
                ((S::Available, S::Provisioning), Wish::Image),
                ((S::Available, S::ExternallyProvisioned), Wish::External),
                ((S::Available, S::Inspecting), Wish::Inspect),
                ((S::Available, S::Preparing), Wish::Hints),
                ((S::Available, S::Provisioning), Wish::Image),
                ((S::Provisioning, S::Provisioned), Wish::Image),
                ((S::Deprovisioning, S::PoweringOff), Wish::Image),
                ((S::Deprovisioning, S::Deleting), Wish::Image),
                ((S::Provisioned, S::Deleting), Wish::Image),
                ((S::Available, S::PoweringOff), Wish::Delete),
                ((S::Available, S::Deleting), Wish::DetachAndDelete),
            ],
            S::Provisioning => &[
                ((S::Provisioning, S::Provisioned), Wish::Nothing),
                ((S::Provisioning, S::Deprovisioning), Wish::Image),
                ((S::Provisioning, S::Available), Wish::NoImage),
                ((S::Provisioning, S::Deleting), Wish::ReleaseByForce),
            ],
            S::Provisioned => &[
                ((S::Provisioned, S::Deprovisioning), Wish::NoImage),
                ((S::Deprovisioning, S::PoweringOff), Wish::Delete),
                ((S::Provisioned, S::Deleting), Wish::DetachAndDelete),
            ],
            S::ExternallyProvisioned => &[
                ((S::ExternallyProvisioned, S::Provisioned), Wish::NotExternal),
                ((S::ExternallyProvisioned, S::PoweringOff), Wish::Delete),
                ((S::ExternallyProvisioned, S::Deleting), Wish::DetachAndDelete),
            ],
            S::Deprovisioning => &[
                ((S::Deprovisioning, S::Available), Wish::Nothing),
                ((S::Deprovisioning, S::PoweringOff), Wish::Delete),
                ((S::Deprovisioning, S::Deleting), Wish::ReleaseByForce),
            ],
            S::PoweringOff | S::Deleting => &[((S::PoweringOff, S::Deleting), Wish::Nothing)],
        };
        let way = self.rarest(ways);
        // A long history is slow to read, and there are others to come.
        let old = lock(&self.laws).hosts.get(name).is_some_and(|host| host.bytes > OLD_BYTES);
        let deletes = matches!(way, Wish::Delete | Wish::DetachAndDelete | Wish::ReleaseByForce);
        if old && !deletes {
            *self.random.pick(&[Wish::Delete, Wish::ReleaseByForce, Wish::DetachAndDelete])
        } else {
            way
        }
    }

    /// A state was left for another one: its owner sees that, and asks for something in time.
    pub(crate) fn look_at_changes(&mut self) {
        let (changes, provisioned, met) = {
            let mut laws = lock(&self.laws);
            let laws = &mut *laws;
            (std::mem::take(&mut laws.changes), std::mem::take(&mut laws.provisioned), std::mem::take(&mut laws.met))
        };
        met.iter().for_each(|name| self.plant_among_strangers(name));
        for (name, guid) in provisioned {
            self.check_disk(&name, &guid);
        }
        for (name, (_, to)) in changes {
            self.plant(&name, to);
            if !self.wild {
                continue;
            }
            let wish = self.choose(&name, to);
            let delay = match to {
                // Left at once: now or never.
                S::New | S::Preparing => Duration::ZERO,
                S::Registering => self.random.millis(0, 600),
                S::Provisioning if wish == Wish::NoImage => self.random.millis(0, 400),
                S::Inspecting => self.random.millis(0, 5_000),
                // A clean disk is a matter of seconds.
                S::Deprovisioning if wish == Wish::ReleaseByForce => self.random.millis(0, 3_000),
                S::Provisioning | S::Deprovisioning => self.random.millis(0, 20_000),
                // With an image it is left at once, too.
                S::Available if self.random.chance(600) => Duration::ZERO,
                S::Unmanaged | S::Available | S::Provisioned | S::ExternallyProvisioned => {
                    self.random.millis(0, 10_000)
                }
                S::PoweringOff | S::Deleting | S::Foreign => continue,
            };
            if matches!(to, S::Provisioning | S::Deprovisioning) && self.random.chance(700) {
                let delay = self.random.millis(0, 60_000);
                self.after(delay, Event::Wish { name: name.clone(), wish: Wish::Override, state: Some(to) });
            }
            if wish == Wish::Nothing {
                continue;
            }
            if delay.is_zero() {
                self.wish(&name, wish)
            } else {
                self.after(delay, Event::Wish { name, wish, state: Some(to) })
            }
        }
    }

    pub(crate) fn wish(&mut self, name: &str, wish: Wish) {
        self.note("wish", 0);
        let id: usize = name.rsplit('-').next().and_then(|id| id.parse().ok()).unwrap_or(0);
        let url = self.image_url();
        let hint = self.hint(id);
        let bmc = bmc_details(id);
        let annotate = |key: &'static str, value: &'static str| -> Edit {
            Box::new(move |host| drop(host.metadata.annotations.insert(key.to_owned(), value.to_owned())))
        };
        let forget = |key: &'static str| -> Edit { Box::new(move |host| drop(host.metadata.annotations.remove(key))) };
        let edit: Edit = match wish {
            Wish::Nothing => return,
            Wish::Image => Box::new(move |host| {
                host.spec.online = true;
                host.spec.image = Some(image(url));
            }),
            Wish::NoImage => Box::new(|host| host.spec.image = None),
            Wish::Delete => return self.delete(name),
            Wish::DetachAndDelete => {
                self.edit(name, annotate(annotations::DETACHED, "{\"deleteAction\":\"delete\"}"), true);
                return;
            }
            Wish::ReleaseByForce => {
                self.edit(name, annotate(annotations::RELEASE_FORCE, ""), true);
                return;
            }
            Wish::Unpaused => {
                self.edit(
                    name,
                    Box::new(|host| {
                        host.metadata.annotations.remove(annotations::PAUSED);
                        host.metadata.finalizers.retain(|finalizer| finalizer != HOLD);
                    }),
                    false,
                );
                return;
            }
            Wish::Cleaning => Box::new(|host| {
                host.spec.automated_cleaning_mode = match host.spec.automated_cleaning_mode {
                    Some(CleaningMode::Disabled) => None,
                    Some(CleaningMode::Metadata) | None => Some(CleaningMode::Disabled),
                };
            }),
            Wish::Inspect => annotate(annotations::INSPECT, ""),
            Wish::Hints => Box::new(move |host| {
                let same = host.spec.root_device_hints.as_ref() == Some(&hint);
                host.spec.root_device_hints = (!same).then(|| hint.clone());
            }),
            Wish::External => Box::new(|host| host.spec.externally_provisioned = true),
            Wish::NotExternal => Box::new(move |host| {
                host.spec.externally_provisioned = false;
                host.spec.image.get_or_insert_with(|| image(url));
            }),
            Wish::AddBmc => Box::new(move |host| host.spec.bmc = Some(bmc.clone())),
            Wish::SwitchOn => {
                return if self.machines[id].is_off() { self.power_on(id) } else { self.restart_idle(id) };
            }
            Wish::Reboot => annotate(annotations::REBOOT, "{\"mode\":\"hard\"}"),
            Wish::HoldOff => annotate("reboot.metal3.io/upgrade", ""),
            Wish::LetGo => forget("reboot.metal3.io/upgrade"),
            Wish::Offline => Box::new(|host| host.spec.online = !host.spec.online),
            Wish::Pause => {
                let later = self.random.millis(1_000, 60_000);
                self.after(later, Event::Wish { name: name.to_owned(), wish: Wish::Resume, state: None });
                annotate(annotations::PAUSED, "an owner")
            }
            Wish::Resume => forget(annotations::PAUSED),
            Wish::Detach => self.detach_for_a_while(name, ""),
            Wish::DetachByForce => self.detach_for_a_while(name, "{\"force\":true}"),
            Wish::DeleteLater => {
                let edit = self.detach_for_a_while(name, "{\"deleteAction\":\"delay\"}");
                return self.edit(name, edit, true);
            }
            Wish::Attach => forget(annotations::DETACHED),
            Wish::SoftReboot => annotate(annotations::REBOOT, ""),
            Wish::RebootByForce => annotate(annotations::REBOOT, "{\"mode\":\"hard\",\"force\":true}"),
            Wish::Override => {
                let kept = self.machines.get(id).into_iter().flat_map(|machine| &machine.disks);
                let serials: Vec<String> = kept.filter(|disk| disk.foreign).map(|disk| disk.serial.clone()).collect();
                if serials.is_empty() {
                    return;
                }
                lock(&self.laws).counts.other("guards overridden");
                let names = serde_json::to_string(&serials).unwrap_or_default();
                Box::new(move |host| {
                    host.metadata.annotations.insert(annotations::OVERRIDE_GUARD.to_owned(), names.clone());
                })
            }
            Wish::Retry => annotate(annotations::RETRY, ""),
        };
        self.edit(name, edit, false);
    }

    /// Nobody leaves a host detached for ever.
    fn detach_for_a_while(&mut self, name: &str, value: &'static str) -> Edit {
        let later = self.random.millis(1_000, 60_000);
        self.after(later, Event::Wish { name: name.to_owned(), wish: Wish::Attach, state: None });
        Box::new(move |host| drop(host.metadata.annotations.insert(annotations::DETACHED.to_owned(), value.to_owned())))
    }

    /// A person restarts a machine that does nothing of worth.
    fn restart_idle(&mut self, id: usize) {
        let busy = self.machines[id].agent().is_some_and(|agent| agent.is_working());
        if !busy {
            self.restart(id);
        }
    }

    fn hint(&mut self, id: usize) -> RootDeviceHints {
        let serial = self.random.pick(&self.machines[id].disks).serial.clone();
        RootDeviceHints { serial_number: serial, ..RootDeviceHints::default() }
    }

    /// Changes a host through the API, and asks for its deletion where `delete` says so.
    pub(crate) fn edit(&mut self, name: &str, change: Edit, delete: bool) {
        let Some(appliance) = &self.appliance else { return };
        let (hosts, name) = (appliance.hosts.clone(), name.to_owned());
        self.executor.spawn(
            appliance.life,
            Box::pin(async move {
                // An owner whose request fails asks again some other time.
                if hosts.modify(NAMESPACE, &name, ObjectPart::Main, |host| change(host)).await.is_ok() && delete {
                    drop(hosts.delete(NAMESPACE, &name).await);
                }
            }),
        );
    }

    fn delete(&mut self, name: &str) {
        let Some(appliance) = &self.appliance else { return };
        let (hosts, name) = (appliance.hosts.clone(), name.to_owned());
        self.executor.spawn(appliance.life, Box::pin(async move { drop(hosts.delete(NAMESPACE, &name).await) }));
    }

    pub(crate) fn create(&mut self, id: usize, birth: Birth) {
        let host = self.new_host(id, birth);
        let Some(appliance) = &self.appliance else { return };
        let hosts = appliance.hosts.clone();
        let secrets = appliance.secrets.clone();
        let wanted = secrets_of(id);
        self.executor.spawn(
            appliance.life,
            Box::pin(async move {
                for secret in wanted {
                    drop(secrets.create(&secret).await);
                }
                if hosts.create(&host).await.is_ok() && birth == Birth::StillBorn {
                    drop(hosts.delete(NAMESPACE, &host.metadata.name).await);
                    let let_go = |host: &mut BareMetalHost| {
                        host.metadata.annotations.remove(annotations::PAUSED);
                        host.metadata.finalizers.retain(|finalizer| finalizer != HOLD);
                    };
                    drop(hosts.modify(NAMESPACE, &host.metadata.name, ObjectPart::Main, let_go).await);
                }
            }),
        );
    }

    fn new_host(&mut self, id: usize, birth: Birth) -> BareMetalHost {
        let mut host = BareMetalHost::default();
        let machine = &self.machines[id];
        host.metadata.name = machine.name();
        NAMESPACE.clone_into(&mut host.metadata.namespace);
        host.spec.online = true;
        host.spec.boot_mac_address = machine.mac_text();
        host.spec.user_data =
            Some(SecretReference { name: format!("user-data-{id}"), namespace: NAMESPACE.to_owned() });
        if birth != Birth::WithoutBmc {
            host.spec.bmc = Some(bmc_details(id));
        }
        match birth {
            Birth::WithBmc | Birth::WithoutBmc => {}
            Birth::External => host.spec.externally_provisioned = true,
            Birth::NotInspected => host.spec.inspection_mode = Some(InspectionMode::Disabled),
            Birth::StillBorn => {
                host.metadata.annotations.insert(annotations::PAUSED.to_owned(), "at birth".to_owned());
                host.metadata.finalizers = vec![FINALIZER.to_owned(), HOLD.to_owned()];
            }
        }
        if self.random.chance(300) {
            let url = self.image_url();
            host.spec.image = Some(image(url));
        }
        if id % 3 == 0 {
            // Their erasures claim a grade, and of one of them an unverified one is held.
            let held = if id == 0 { r#","whenUnverified":"hold""# } else { "" };
            let cleaning = format!(r#"{{"betweenInstallations":{{"method":"full","scope":"target"}}{held}}}"#);
            host.metadata.annotations.insert(annotations::CLEANING.to_owned(), cleaning);
        }
        host
    }

    pub(crate) fn drop_secret(&mut self, id: usize) {
        let Some(appliance) = &self.appliance else { return };
        let secrets = appliance.secrets.clone();
        self.fault(Fault::SecretMissing);
        self.executor.spawn(
            appliance.life,
            Box::pin(async move { drop(secrets.delete(NAMESPACE, &format!("user-data-{id}")).await) }),
        );
    }

    pub(crate) fn restore_secrets(&mut self, id: usize) {
        let Some(appliance) = &self.appliance else { return };
        let secrets = appliance.secrets.clone();
        self.executor.spawn(
            appliance.life,
            Box::pin(async move {
                for secret in secrets_of(id) {
                    drop(secrets.create(&secret).await);
                }
            }),
        );
    }
}

pub(crate) fn image(url: &str) -> Image {
    Image { url: url.to_owned(), checksum: "ab".repeat(32), ..Image::default() }
}

pub(crate) fn bmc_details(id: usize) -> BmcDetails {
    BmcDetails {
        address: format!("redfish://10.9.{id}.1/redfish/v1/Systems/{id}"),
        credentials_name: format!("bmc-{id}"),
        ..BmcDetails::default()
    }
}

fn secrets_of(id: usize) -> Vec<Secret> {
    let secret = |name: String, kind: &str, data: Vec<(&str, Vec<u8>)>| {
        let mut secret = Secret { type_: kind.to_owned(), ..Secret::default() };
        secret.metadata.name = name;
        NAMESPACE.clone_into(&mut secret.metadata.namespace);
        secret.data = data.into_iter().map(|(key, bytes)| (key.to_owned(), SecretBytes(bytes))).collect();
        secret
    };
    let source = format!("{}/config/node", ENDPOINTS.agent_base());
    let stub = json!({"ignition": {"version": "3.4.0", "config": {"merge": [{"source": source}]}}});
    let config = json!({"ignition": {"version": "3.4.0"}});
    vec![
        secret(format!("bmc-{id}"), "Opaque", vec![("username", b"admin".to_vec()), ("password", b"secret".to_vec())]),
        secret(format!("user-data-{id}"), "Opaque", vec![("userData", stub.to_string().into_bytes())]),
        secret("node".to_owned(), CONFIG_TYPE, vec![(CONFIG_KEY, config.to_string().into_bytes())]),
    ]
}
