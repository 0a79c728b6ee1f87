//! A machine that boots as a host, from its address and with its files, and is another one.

use firesteel_tests::agent_line::token_of;
use firesteel_tests::field::{Field, discover, mac};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::Dhcp;
use firesteel_wire::Program;

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

const KNOWN: &str = "4c4c4544-0046-3310-8051-b4c04f564432";
const SWAPPED: &str = "44454c4c-4600-1033-8051-b4c04f564432";
const FOREIGN: &str = "4c4c4544-0046-3310-8051-b4c04f564433";
const ZERO: &str = "00000000-0000-0000-0000-000000000000";

/// Boots the machine, as soon as its script has a token.
fn boot(field: &Field, hostile: &mut Hostile, number: u8, uuid: &str, serial: &str) -> HostAgent {
    let leased = field.lease(&discover(1, CLASS, &[7]));
    let script = hostile.script(leased, &mac(1).to_string()).body;
    assert!(token_of(&script).is_some(), "{script}");
    let mut agent = HostAgent::new(field, number);
    agent.is_machine(uuid, serial);
    agent.boot(field, &script);
    agent
}

/// What a hello gets, in words.
fn hello(field: &Field, agent: &HostAgent) -> String {
    let (status, body) = agent.hello(field, Program::default());
    if body.contains("\"held\"") { format!("{status}, held") } else { status.to_string() }
}

#[test]
fn a_machine_of_another_identity_waits_until_a_person_accepts_it() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let mut own = boot(field, hostile, 1, KNOWN, "S1");
        assert_eq!(hello(field, &own), "200");
        own.wait_for_plan(field);
        let status = own.inspected(field, FOREIGN, "S1");
        judge("inspection of another machine than the hello's", "a record of it", "400", &status.to_string());
        assert_eq!(own.inspected(field, KNOWN, "S1"), 200);
        field.until(&["get", "hostjournals", "victim", "-o", "json"], |page| page.contains("acceptedAt"));
        assert_eq!(own.report(field, true), 200);

        let wants = "to be taken for the host";
        let mut held = boot(field, hostile, 2, "", "");
        for (attack, uuid, serial) in [
            ("hello without a UUID", "", "S1"),
            ("hello with a UUID of zeros", ZERO, "S1"),
            ("hello with a foreign UUID", FOREIGN, "S1"),
            ("hello with a foreign serial number", KNOWN, "S2"),
        ] {
            held.is_machine(uuid, serial);
            judge(attack, wants, "409, held", &hello(field, &held));
        }
        // The last one that was refused is shown with both identities; nothing was bound.
        let both = |page: &str| {
            page.contains("IdentityChanged") && page.contains("serial number S1") && page.contains("serial number S2")
        };
        field.until(&["get", "hosts", "victim", "-o", "json"], both);
        held.is_machine(SWAPPED, "S1");
        judge("the host itself, its UUID with swapped bytes", "-", "200", &hello(field, &held));
        field.until(&["get", "hosts", "victim", "-o", "json"], |page| page.contains("SameMachine"));
        assert_eq!(held.report(field, true), 200);

        let replaced = boot(field, hostile, 3, FOREIGN, "S1");
        assert_eq!(hello(field, &replaced), "409, held");
        field.until(&["get", "hosts", "victim", "-o", "json"], |page| page.contains(FOREIGN));
        // It asks again until a person decides.
        for _ in 0..4 {
            assert_eq!(hello(field, &replaced), "409, held");
        }
        let line = format!("a machine with the SMBIOS UUID {FOREIGN} and the serial number S1 boots as this host");
        field.appliance.wait_for_log(&line);
        let lines = field.appliance.log().matches(&line).count();
        judge("lines of the log about six hellos of one machine", "to fill the log", "1", &lines.to_string());
        let said = field.firesteel(&["accept-identity", "victim"]);
        assert!(said.contains(FOREIGN), "{said}");
        field.until(&["describe", "host", "victim"], |page| page.contains("IdentityAccepted"));
        judge("the same machine, accepted by a person", "-", "200", &hello(field, &replaced));
    });
}
