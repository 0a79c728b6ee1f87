//! An erasure that was not carried out: a machine that is not the host, or a system that its last owner left on it,
//! shows receipts for one. The wish is that the host is called purged and goes to another owner with all its data.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use firesteel_bmc_fakes::redfish::RedfishFault;
use firesteel_tests::agent_line::token_of;
use firesteel_tests::disk_image;
use firesteel_tests::field::{Field, discover, mac};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::Dhcp;
use firesteel_wire::{Evidence, InventoryDisk, StepReceipt, erasure::Grade};
use serde_json::{Value, json};

use crate::{CLASS, bmc::Bmc, host_agent::HostAgent, judge, said, with_hostile};

const WANTS: &str = "a host that is called purged";
/// What a forger says of the disk that it did not touch.
const METHOD: &str = "sanitize-crypto";
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(100);
/// Polls of a host's script while its BMC does nothing.
const POLLS: usize = 20;

/// A host that is installed, and whose disks are erased in full when its image goes.
struct Victim<'a> {
    field: &'a Field,
    hostile: &'a mut Hostile,
    machine: u8,
    bmc: Option<Bmc>,
    leased: Ipv4Addr,
    disks: Vec<InventoryDisk>,
    /// The host as it was applied.
    applied: Value,
}

impl<'a> Victim<'a> {
    fn install(field: &'a Field, hostile: &'a mut Hostile, machine: u8, bmc: Option<Bmc>, cleaning: &Value) -> Self {
        let name = name(machine);
        let login = format!("{name}-bmc");
        let mut spec = json!({
            "online": true, "bootMACAddress": mac(machine).to_string(), "image": disk_image::served(),
        });
        if let Some(bmc) = &bmc {
            field.apply(&Bmc::secret(&login));
            spec["bmc"] = bmc.named(&login);
        }
        let applied = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "spec": spec,
            "metadata": {"name": name, "annotations": {"firesteel.dev/cleaning": cleaning.to_string()}},
        });
        field.apply(&applied);
        // Before it is known by its MAC it is any unknown machine.
        let words = ["waiting for its agent's hello", "waiting for the host to boot"];
        field.until(&["describe", "host", &name], |page| words.iter().any(|words| page.contains(words)));
        let leased = Ipv4Addr::UNSPECIFIED;
        let mut victim = Self { field, hostile, machine, bmc, leased, disks: Vec::new(), applied };
        let mut agent = victim.boot(1);
        victim.disks = agent.install(field, |_| {});
        field.until(&["describe", "host", &name], |page| page.contains("ProvisioningComplete"));
        victim
    }

    /// What asks for the boot script from the host's address, and with its MAC, gets.
    fn script(&mut self) -> String {
        self.hostile.script(self.leased, &mac(self.machine).to_string()).body
    }

    /// Boots a machine with the host's MAC as soon as its script has a token: it takes the address and downloads
    /// everything.
    fn boot(&mut self, boot: u8) -> HostAgent {
        self.leased = self.field.lease(&discover(self.machine, CLASS, &[7]));
        let mut script = String::new();
        until("the boot script has a token", || {
            script = self.script();
            token_of(&script).is_some()
        });
        let mut agent = HostAgent::booted(self.field, self.machine, boot);
        agent.boot(self.field, &script);
        agent
    }

    fn release(&self) {
        let mut without_image = self.applied.clone();
        without_image["spec"].as_object_mut().unwrap().remove("image");
        self.field.apply(&without_image);
    }

    /// The agent, which may not be the host's, shows that it erased the disk by the best method that there is.
    fn forge(&self, agent: &mut HostAgent) {
        agent.erase(self.field, self.disks.clone(), forged);
    }

    /// The host ends as unverified for this reason, whatever its receipts say, and nothing that is read says more.
    fn is_unverified(&self, attack: &str, why: &str) {
        let name = name(self.machine);
        let (called, because) = said::called(self.field, &name);
        judge(attack, WANTS, "unverified", called);
        assert!(because.contains(why), "{attack}: {because}");
        said::claims_nothing(self.field, &name, METHOD);
    }

    fn bmc(&self) -> &Bmc {
        self.bmc.as_ref().unwrap()
    }
}

fn name(machine: u8) -> String {
    format!("victim-{machine}")
}

fn in_full() -> Value {
    json!({"betweenInstallations": {"method": "full", "scope": "all"}})
}

fn forged(receipts: &mut Vec<StepReceipt>) {
    for receipt in receipts {
        if let Evidence::DiskErased(erasure) = &mut receipt.evidence {
            METHOD.clone_into(&mut erasure.method);
            erasure.grade = Grade::Purge;
        }
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let ends_at = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < ends_at, "waited in vain: {what}");
        sleep(AGAIN);
    }
}

/// The tenant's system runs until the power is cut, and asks for the boot script all the while.
#[test]
fn a_tenant_gets_no_token_before_its_host_was_seen_off() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let bmc = Bmc::start(1, &json!({}));
        let mut victim = Victim::install(field, hostile, 1, Some(bmc), &in_full());
        assert_eq!(token_of(&victim.script()), None, "an installed host boots its disk");
        // It takes the order, and the host stays on.
        victim.bmc().fake.state().faults = vec![RedfishFault::IgnoresPower];
        let orders = victim.bmc().orders();
        victim.release();
        let mut tokens = 0;
        until("the BMC is ordered to cut the power", || {
            tokens += usize::from(token_of(&victim.script()).is_some());
            victim.bmc().was_cut(orders)
        });
        for _ in 0..POLLS {
            tokens += usize::from(token_of(&victim.script()).is_some());
            sleep(AGAIN);
        }
        let got = if tokens == 0 { "no token before the host was seen off" } else { "a token" };
        let wants = "the token of its own erasure";
        judge("forged wipe before the reset", wants, "no token before the host was seen off", got);
        let waits = victim.script();
        assert!(waits.contains("has not switched it on for this boot yet") && waits.contains("\nsleep "), "{waits}");

        victim.bmc().fake.state().faults.clear();
        victim.bmc().goes_off();
        until("the BMC switches the host on", || {
            let has_token = token_of(&victim.script()).is_some();
            let is_on = victim.bmc().has_switched_on();
            assert!(!has_token || is_on, "a token after {:?}", victim.bmc().fake.state().resets);
            is_on
        });
        is_proven(&mut victim);
    });
}

/// The genuine host erases its disk and switches itself off, which its BMC shows.
fn is_proven(victim: &mut Victim<'_>) {
    let (field, name) = (victim.field, name(victim.machine));
    let mut agent = victim.boot(2);
    agent.erase(field, victim.disks.clone(), |_| {});
    agent.switch_off(field);
    victim.bmc().goes_off();
    let (called, _) = said::called(field, &name);
    judge("none: the host itself, which switches itself off", "-", "erased, by proof", called);
    let text = said::until_condition(field, &name, "DisksErased", "Erased");
    assert!(text.contains("cleared by overwrite"), "{text}");
    let page = field.page(&name);
    assert!(page.contains("NIST SP 800-88 clear"), "{page}");
    assert_eq!(said::grades(field, &name), ["clear"]);
}

/// It has everything that the host has but the host's power.
#[test]
fn a_neighbour_that_downloads_everything_and_reports_an_erasure_proves_nothing() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let bmc = Bmc::start(1, &json!({}));
        let mut victim = Victim::install(field, hostile, 1, Some(bmc), &in_full());
        victim.release();
        let mut neighbour = victim.boot(2);
        victim.forge(&mut neighbour);
        // It says what the host's agent would say. The host stays on.
        neighbour.switch_off(field);
        let attack = "forged wipe by a neighbour with the MAC who downloads everything";
        victim.is_unverified(attack, "the BMC did not show it within 60 s");
    });
}

/// The override was not taken as one for one boot: the host may have booted whatever is on its disk.
#[test]
fn a_wipe_after_a_boot_once_that_is_stored_as_continuous_is_unverified() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let bmc = Bmc::start(1, &json!({"once": "Continuous"}));
        let mut victim = Victim::install(field, hostile, 1, Some(bmc), &in_full());
        victim.release();
        let mut tenant = victim.boot(2);
        victim.forge(&mut tenant);
        victim.is_unverified("forged wipe after a boot-once that is kept as Continuous", "was not seen used up");
    });
}

/// The override stands as it was set: the host booted its disk, and the tenant's system asks.
#[test]
fn a_wipe_after_a_boot_once_that_was_ignored_is_unverified() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let bmc = Bmc::start(1, &json!({}));
        let mut victim = Victim::install(field, hostile, 1, Some(bmc), &in_full());
        victim.release();
        let mut tenant = victim.boot(2);
        victim.bmc().keeps_override();
        victim.forge(&mut tenant);
        victim.is_unverified("forged wipe after a boot-once that was ignored", "the BMC still has it: Once Pxe");
    });
}

/// No power is cut, so that whatever runs on the host may be who erases.
#[test]
fn a_wipe_without_a_bmc_is_unverified() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let mut victim = Victim::install(field, hostile, 1, None, &in_full());
        victim.release();
        let mut tenant = victim.boot(2);
        victim.forge(&mut tenant);
        victim.is_unverified("forged wipe without a BMC", "there is no BMC that could show the host off");
    });
}

#[test]
fn an_unverified_wipe_is_held_where_its_owner_wants_that() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let mut cleaning = in_full();
        cleaning["whenUnverified"] = "hold".into();
        let mut victim = Victim::install(field, hostile, 1, None, &cleaning);
        victim.release();
        let mut tenant = victim.boot(2);
        victim.forge(&mut tenant);
        let name = name(1);
        let why = said::until_condition(field, &name, "WipeUnverified", "Held");
        assert!(why.contains("there is no BMC"), "{why}");
        said::claims_nothing(field, &name, METHOD);
        judge("forged wipe, held by its owner", WANTS, "deprovisioning", &said::state(field, &name));
        // The command reads what is held from there.
        field.until(&["get", "hostjournals", &name, "-o", "json"], |page| page.contains("\"wipe\""));
        let printed = field.firesteel(&["accept-erasure", &name]);
        assert!(printed.contains("stays unverified"), "{printed}");
        let why = said::until_condition(field, &name, "WipeUnverified", "Accepted");
        assert!(why.contains("there is no BMC") && why.contains("accepted at"), "{why}");
        victim.is_unverified("forged wipe that a person accepted", "there is no BMC");
        field.until(&["describe", "host", &name], |page| page.contains("WipeAccepted"));
    });
}
