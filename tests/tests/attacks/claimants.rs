//! A machine that claims to be a host beside the host's own: a second key early and late, an old key after a new hello.

use std::thread::sleep;
use std::time::{Duration, Instant};

use firesteel_tests::agent_line::token_of;
use firesteel_tests::disk_image;
use firesteel_tests::field::{Field, discover, mac};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::Dhcp;
use firesteel_wire::{AgentInstruction, Program};
use serde_json::{Value, json};

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

const WANTS: &str = "to be taken for the host, or that its work ends";
const HELD: &str = "409, held";
/// An agent that was silent for so long may be gone.
const SILENT: Duration = Duration::from_secs(60);

fn script(field: &Field, hostile: &mut Hostile) -> String {
    let leased = field.lease(&discover(1, CLASS, &[7]));
    hostile.script(leased, &mac(1).to_string()).body
}

/// Asks until the script has a token: an agent that fell silent counts as live for a while.
fn token_script(field: &Field, hostile: &mut Hostile) -> String {
    let ends_at = Instant::now() + 2 * SILENT;
    loop {
        let script = script(field, hostile);
        if token_of(&script).is_some() {
            return script;
        }
        assert!(Instant::now() < ends_at, "{script}");
        sleep(Duration::from_secs(1));
    }
}

fn in_words((status, body): &(u16, String)) -> String {
    if body.contains("\"held\"") { format!("{status}, held") } else { status.to_string() }
}

fn hello(field: &Field, agent: &HostAgent) -> String {
    in_words(&agent.hello(field, Program::default()))
}

fn journal(field: &Field) -> Value {
    serde_json::from_str(&field.firesteel(&["get", "hostjournals", "victim", "-o", "json"])).unwrap()
}

/// Condition and page show both machines, each with its key.
fn are_shown(field: &Field, keys: [&str; 2]) {
    let has_both = |page: &str| page.contains("SecondClaimant") && keys.iter().all(|key| page.contains(key));
    field.until(&["get", "hosts", "victim", "-o", "json"], has_both);
    let page = field.until(&["describe", "host", "victim"], |page| has_both(page) && page.contains("Claimants"));
    assert!(page.contains(&mac(1).to_string()) && page.contains("firesteel choose-agent victim --key KEY"), "{page}");
}

/// What the bound agent is given next.
fn gets(field: &Field, agent: &mut HostAgent) -> &'static str {
    match agent.reply(field) {
        (200, Some(reply)) if reply.hold.is_some() && reply.verdict == AgentInstruction::Continue => {
            "200, hold, no plan"
        }
        (200, _) => "200",
        (410, _) => "410",
        (status, _) => panic!("{status}"),
    }
}

/// The host's own agent is bound; another machine has read its token.
#[test]
fn a_second_key_that_comes_late_stops_both_until_a_person_decides() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let first = script(field, hostile);
        let mut own = HostAgent::new(field, 1);
        own.boot(field, &first);
        assert_eq!(own.hello(field, Program::default()).0, 200);
        own.wait_for_plan(field);
        let mut thief = HostAgent::new(field, 2);
        thief.take(&first);
        judge("second key, late", WANTS, HELD, &hello(field, &thief));
        judge("second key, late: its report", WANTS, HELD, &in_words(&thief.reports(field, false)));
        judge("the host itself beside it", "-", "200, hold, no plan", gets(field, &mut own));
        are_shown(field, [&own.short_key(), &thief.short_key()]);
        // A kill of the appliance forgets neither.
        field.appliance.kill_and_start_again();
        judge("second key, late, after a kill", WANTS, HELD, &hello(field, &thief));
        judge("the host itself after a kill", "-", "200, hold, no plan", gets(field, &mut own));

        let said = field.firesteel(&["choose-agent", "victim", "--key", &own.short_key()]);
        assert!(said.contains(&own.short_key()), "{said}");
        field.until(&["describe", "host", "victim"], |page| page.contains("IntruderNamed"));
        field.until(&["get", "hosts", "victim", "-o", "json"], |page| !page.contains("PersonDecides"));
        judge("second key that a person disowned", WANTS, "410", &hello(field, &thief));
        judge("the host itself, by a person's word", "-", "200", gets(field, &mut own));
        assert_eq!(journal(field)["status"]["agent"]["attempt"], json!(1), "its attempt goes on");
    });
}

/// Another machine was faster than the host's own agent.
#[test]
fn a_second_key_that_comes_early_does_not_finish_its_work() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let first = script(field, hostile);
        let mut own = HostAgent::new(field, 2);
        own.boot(field, &first);
        let mut thief = HostAgent::new(field, 1);
        thief.take(&first);
        // It has read the token while the host fetched its files.
        judge("second key, early", WANTS, "200", &hello(field, &thief));
        judge("the host itself after it", "-", HELD, &hello(field, &own));
        judge("second key, early: its next report", WANTS, "200, hold, no plan", gets(field, &mut thief));
        are_shown(field, [&own.short_key(), &thief.short_key()]);
        judge("the host itself asks again, and does not leave", "-", HELD, &hello(field, &own));

        field.firesteel(&["choose-agent", "victim", "--key", &own.short_key()]);
        field.until(&["describe", "host", "victim"], |page| page.contains("IntruderNamed"));
        judge("second key, early, that a person disowned", WANTS, "410", gets(field, &mut thief));
        judge("the host itself, whose attempt is over, too", "-", "410", &hello(field, &own));
        let next = token_script(field, hostile);
        let mut own = HostAgent::new(field, 3);
        own.boot(field, &next);
        judge("the host itself in the next attempt", "-", "200", &hello(field, &own));
    });
}

/// What another machine shows beside the host proves nothing.
#[test]
fn nothing_is_proven_while_two_machines_claim_a_host() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let image = disk_image::served();
        field.apply(&json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "victim"},
            "spec": {"online": true, "bootMACAddress": mac(1).to_string(), "image": image},
        }));
        field.until(&["describe", "host", "victim"], |page| page.contains("waiting for the host to boot"));
        let first = script(field, hostile);
        let mut thief = HostAgent::new(field, 1);
        thief.boot(field, &first);
        let mut own = HostAgent::new(field, 2);
        own.take(&first);
        own.is_itself();
        thief.begin_write(field);
        assert_eq!(own.hello(field, Program::default()).0, 409);
        thief.end_write(field);
        // It has left, so that there is no more to be settled: its attempt is over.
        let page = field.until(&["describe", "host", "victim"], |page| {
            page.contains("ClaimResolved") || page.contains("ProvisioningComplete")
        });
        let is_provisioned = page.contains("ProvisioningComplete");
        let got = if is_provisioned { "provisioned" } else { "not provisioned" };
        judge("all receipts of an installation, beside the host", "provisioned", "not provisioned", got);
        let state = journal(field)["status"]["memory"]["state"]["name"].clone();
        assert_ne!(state, json!("provisioned"));
    });
}

/// The host's own agent was cut off until another machine had its place.
#[test]
fn an_old_key_after_a_new_one_stops_both() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let first = script(field, hostile);
        let mut own = HostAgent::new(field, 1);
        own.boot(field, &first);
        assert_eq!(own.hello(field, Program::default()).0, 200);
        let next = token_script(field, hostile);
        let mut thief = HostAgent::new(field, 2);
        thief.boot(field, &next);
        judge("a machine in the place of a silent host", WANTS, "200", &hello(field, &thief));

        judge("old key after new", WANTS, HELD, &in_words(&own.reports(field, false)));
        judge("the new key after one report of the old", "-", "200", gets(field, &mut thief));
        judge("old key after new, again", WANTS, HELD, &in_words(&own.reports(field, false)));
        judge("the new key beside the old", WANTS, "200, hold, no plan", gets(field, &mut thief));
        are_shown(field, [&own.short_key(), &thief.short_key()]);
        judge("old key that leaves", "-", "410", &in_words(&own.reports(field, true)));

        field.firesteel(&["choose-agent", "victim", "--none"]);
        field.until(&["describe", "host", "victim"], |page| page.contains("ClaimResolved"));
        judge("the new key after neither", WANTS, "410", gets(field, &mut thief));
        judge("the old key after neither", WANTS, "410", &in_words(&own.reports(field, false)));
    });
}
