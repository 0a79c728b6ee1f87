//! A boot token for who has the host's MAC, or says so, and not its address.

use std::net::Ipv4Addr;

use firesteel_tests::agent_line::token_of;
use firesteel_tests::field::{Field, RELAY, discover, mac};
use firesteel_tests::hostile::{Got, Hostile, Move};
use firesteel_tests::network::Dhcp;
use serde_json::json;

use crate::{CLASS, judge, with_hostile};

/// An address of the wire's end that no DHCP server leased.
const NEIGHBOUR: Ipv4Addr = RELAY;
const WANTS: &str = "a token";

/// What an asker got, in words, and whether it may go on with it.
fn got(answer: &Got) -> &'static str {
    match token_of(&answer.body) {
        Some(_) => "a token",
        None if answer.body.contains("no token of host") && answer.body.contains("\nreboot") => "no token, a restart",
        None => "no token",
    }
}

fn asks(hostile: &mut Hostile, from: Ipv4Addr) -> &'static str {
    got(&hostile.script(from, &mac(1).to_string()))
}

/// The host's timeline and condition name what was seen.
fn is_shown(field: &Field, words: &str) {
    field.until(&["describe", "host", "victim"], |page| page.contains("address_mismatch") && page.contains(words));
    let condition = |page: &str| page.contains("AddressMismatch") && page.contains(words);
    field.until(&["get", "hosts", "victim", "-o", "json"], condition);
}

#[test]
fn a_token_needs_the_hosts_lease() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        judge("token without a lease", WANTS, "no token, a restart", asks(hostile, NEIGHBOUR));
        is_shown(field, "from 10.77.0.2, an address that is leased to no machine; this machine has no live lease");

        let others = field.lease(&discover(2, CLASS, &[7]));
        judge("token with another machine's lease", WANTS, "no token, a restart", asks(hostile, others));
        let ask = discover(1, CLASS, &[7]);
        let hosts = field.lease(&ask);
        judge("the host itself", WANTS, "a token", asks(hostile, hosts));
        field.until(&["get", "hosts", "victim", "-o", "json"], |page| !page.contains("AddressMismatch"));
        judge("token after the host got its own", WANTS, "no token, a restart", asks(hostile, others));

        let head = Move::Boot {
            from: hosts,
            method: "HEAD".into(),
            path: format!("/boot.ipxe?mac={}&platform=efi", mac(1).to_string().replace(':', "-")),
        };
        let answer = hostile.does(&head);
        judge("token by HEAD", WANTS, "200, no token", &format!("{}, {}", answer.status, got(&answer)));

        field.decline(&ask, hosts);
        field.appliance.wait_for_log("its address is in use by another machine");
        judge("token with a lease that was declined", WANTS, "no token, a restart", asks(hostile, hosts));
        // What it logs comes by a pipe, a moment later.
        field.appliance.wait_for_log(&format!("from {hosts}"));
        let named = field.appliance.log().lines().filter(|line| line.contains("could not give a token")).count();
        judge("log lines for three addresses that asked in vain", "one each", "3", &named.to_string());
    });
}

/// Leases are on disk: who has one before a restart has it afterwards, before it asks DHCP again.
#[test]
fn a_lease_counts_after_a_restart() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let leased = field.lease(&discover(1, CLASS, &[7]));
        field.appliance.kill_and_start_again();
        judge("the host itself after a restart", WANTS, "a token", asks(hostile, leased));
        judge("a neighbour after a restart", WANTS, "no token, a restart", asks(hostile, NEIGHBOUR));
    });
}

#[test]
fn any_address_means_the_first_one_that_asks() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.apply(&json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "victim", "annotations": {"firesteel.dev/boot-address": "any"}},
            "spec": {"online": true, "bootMACAddress": mac(1).to_string()},
        }));
        field.until(&["describe", "host", "victim"], |page| page.contains("waiting for the host to boot"));
        judge("the first address, where any will do", WANTS, "a token", asks(hostile, NEIGHBOUR));
        let others = field.lease(&discover(2, CLASS, &[7]));
        judge("a second address, where any will do", WANTS, "no token, a restart", asks(hostile, others));
        judge("the first again", WANTS, "a token", asks(hostile, NEIGHBOUR));
        let hosts = field.lease(&discover(1, CLASS, &[7]));
        judge("the host's own lease", WANTS, "a token", asks(hostile, hosts));
    });
}

#[test]
fn where_another_server_leases_the_first_asker_has_the_token() {
    with_hostile(Dhcp::Unmanaged, |field, hostile| {
        field.add_host("victim", mac(1));
        field.there(|| firesteel_tests::network::ip("address add 10.77.0.3/24 dev c0"));
        judge("the first address of an unmanaged network", WANTS, "a token", asks(hostile, NEIGHBOUR));
        let second = Ipv4Addr::new(10, 77, 0, 3);
        judge("a second one", WANTS, "no token, a restart", asks(hostile, second));
        field.until(&["describe", "host", "victim"], |page| {
            page.contains("address_mismatch") && page.contains("and 10.77.0.2 asked first in this attempt")
        });
    });
}
