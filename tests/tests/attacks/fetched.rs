//! A hello whose boot was not seen: the token's files were not sent.

use firesteel_tests::agent_line::token_of;
use firesteel_tests::field::{discover, mac};
use firesteel_tests::network::{AGENT, Dhcp};
use firesteel_wire::Program;
use ring::digest::{SHA256, digest};

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

const WANTS: &str = "to be taken for the host's agent";

/// What a hello got, up to what is missing.
fn got((status, body): &(u16, String)) -> String {
    let why = body.split("this boot was not seen: ").nth(1).and_then(|rest| rest.split("; boot again").next());
    why.map_or_else(|| status.to_string(), |why| format!("{status}: {why}"))
}

fn program(text: &str) -> Program {
    Program { sha256: hex::encode(digest(&SHA256, text.as_bytes())), ..Program::default() }
}

#[test]
fn a_hello_counts_once_the_tokens_files_were_sent() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let leased = field.lease(&discover(1, CLASS, &[7]));
        let script = hostile.script(leased, &mac(1).to_string()).body;
        let mut agent = HostAgent::new(field, 1);
        agent.take(&script);
        let hello = |agent: &HostAgent, text: &str| got(&agent.hello(field, program(text)));
        let wanted = "401: 0 of 7 bytes of the kernel were sent for this token";
        judge("token without kernel", WANTS, wanted, &hello(&agent, AGENT));
        field.until(&["describe", "host", "victim"], |page| {
            page.contains("unseen_boot") && page.contains("was refused: this boot was not seen")
        });

        // That hello did not count: another boot gets another number.
        let script = hostile.script(leased, &mac(1).to_string()).body;
        agent.take(&script);
        assert_eq!(agent.fetch(field, "kernel", Some("bytes=3-")), 206);
        let wanted = "401: 4 of 7 bytes of the kernel were sent for this token";
        judge("token with half the kernel", WANTS, wanted, &hello(&agent, AGENT));

        let script = hostile.script(leased, &mac(1).to_string()).body;
        agent.take(&script);
        assert_eq!(agent.fetch(field, "kernel", Some("bytes=0-3")), 206);
        assert_eq!(agent.fetch(field, "kernel", Some("bytes=2-")), 206);
        assert_eq!(agent.fetch(field, "initramfs", Some("bytes=-12")), 206);
        let wanted = "401: 12 of 13 bytes of the initramfs were sent for this token";
        judge("token without the first byte of the initramfs", WANTS, wanted, &hello(&agent, AGENT));

        let script = hostile.script(leased, &mac(1).to_string()).body;
        agent.boot(field, &script);
        let wanted = "401: this program is not the agent of the ramdisk that was sent";
        judge("hello of another program", WANTS, wanted, &hello(&agent, "another agent"));

        let script = hostile.script(leased, &mac(1).to_string()).body;
        agent.take(&script);
        for range in ["bytes=5-", "bytes=0-4"] {
            assert_eq!(agent.fetch(field, "kernel", Some(range)), 206);
        }
        assert_eq!(agent.fetch(field, "initramfs", None), 200);
        judge("the host itself, in ranges", "-", "200", &hello(&agent, AGENT));
        field.until(&["describe", "host", "victim"], |page| page.contains("agent_hello"));
    });
}

#[test]
fn an_unknown_machine_has_to_fetch_what_it_runs_too() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let leased = field.lease(&discover(1, CLASS, &[7]));
        let script = hostile.script(leased, &mac(1).to_string()).body;
        assert!(token_of(&script).is_some());
        let mut agent = HostAgent::new(field, 1);
        agent.take(&script);
        let wanted = "401: 0 of 7 bytes of the kernel were sent for this token";
        judge("token of an unknown machine without kernel", WANTS, wanted, &got(&agent.hello(field, program(AGENT))));
        agent.boot(field, &script);
        judge("the machine itself", "-", "200", &got(&agent.hello(field, program(AGENT))));
    });
}
