//! A flood of requests in the host's name, which is to wash its timeline clean.

use firesteel_tests::field::{discover, mac};
use firesteel_tests::network::{AGENT, Dhcp};
use firesteel_wire::Program;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

const REQUESTS: usize = 1500;

#[test]
fn a_flood_of_requests_pushes_out_no_evidence() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let leased = field.lease(&discover(1, CLASS, &[7]));
        let script = hostile.script(leased, &mac(1).to_string()).body;
        let mut agent = HostAgent::new(field, 1);
        agent.boot(field, &script);
        let program = Program { sha256: hex::encode(digest(&SHA256, AGENT.as_bytes())), ..Program::default() };
        assert_eq!(agent.hello(field, program).0, 200);
        let journal = || -> Value {
            serde_json::from_str(&field.firesteel(&["get", "hostjournals", "victim", "-o", "json"])).unwrap()
        };
        let evidence = ["script", "kernel", "initramfs", "agent_hello"];
        let of_evidence = |journal: &Value| -> Vec<Value> {
            let timeline = journal["status"]["timeline"].as_array().unwrap().iter();
            timeline.filter(|event| evidence.iter().any(|name| event["event"] == *name)).cloned().collect()
        };
        field.until(&["describe", "host", "victim"], |page| page.contains("agent_hello"));
        let before = of_evidence(&journal());
        assert_eq!(before.len(), evidence.len(), "{before:?}");
        let revision = |journal: &Value| journal["metadata"]["resourceVersion"].as_str().unwrap().to_owned();

        // From the host's own address, so that it gets as far as can be.
        for _ in 0..REQUESTS {
            hostile.script(leased, &mac(1).to_string());
        }
        field.until(&["get", "hostjournals", "victim", "-o", "json"], |page| page.contains("script_waits"));
        let after = journal();
        let kept = if of_evidence(&after) == before { "all of it is there" } else { "some of it is gone" };
        judge("timeline flood", "a timeline without evidence", "all of it is there", kept);
        let length = after["status"]["timeline"].as_array().unwrap().len();
        assert!(length < 50, "{length} entries of evidence");
        let notes = after["status"]["network"].as_array().unwrap().len();
        assert!(notes <= 64, "{notes} notes of the network");
        println!("timeline flood: {REQUESTS} requests, {notes} notes, revision {}", revision(&after));
    });
}
