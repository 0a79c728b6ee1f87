//! A boot script that is asked for while the host's agent is at work.

use firesteel_tests::agent_line::token_of;
use firesteel_tests::field::{discover, mac};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::Dhcp;
use firesteel_wire::Program;

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

#[test]
fn a_get_against_a_live_agent_ends_nothing() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let leased = field.lease(&discover(1, CLASS, &[7]));
        let asks = |hostile: &mut Hostile| hostile.script(leased, &mac(1).to_string()).body;
        let first = asks(hostile);
        let mut agent = HostAgent::new(field, 1);
        agent.boot(field, &first);
        assert_eq!(agent.hello(field, Program::default()).0, 200);

        // Even from the host's own address: its owner's OS, or whoever takes the address over.
        let waits = asks(hostile);
        let got = if token_of(&waits).is_some() { "a token" } else { "no token" };
        judge("GET against a live agent", "a token, or the end of the attempt", "no token", got);
        assert!(waits.contains("\nsleep 10\n") && waits.contains("its agent may still be at work"), "{waits}");
        judge("the agent's next report", "-", "200", &agent.report(field, false).to_string());
        field.until(&["describe", "host", "victim"], |page| page.contains("script_waits"));

        assert_eq!(agent.report(field, true), 200);
        let next = asks(hostile);
        judge("the host after its agent left", "-", "a token", token_of(&next).map_or("no token", |_| "a token"));
        let status = agent.report(field, false);
        judge("the agent of before, which had left", "to go on", "410", &status.to_string());
    });
}
