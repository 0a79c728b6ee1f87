//! The agent's protocol, both ways: hello, report, their answers with plans, and the seed.

use std::time::Duration;

use firesteel_agent::decider::{AgentAction, AgentDecider};
use firesteel_wire::limits::STEPS_MAX;
use firesteel_wire::{
    AgentInstruction, AgentReport, Hello, HelloReply, Inventory, PlanStep, RefusalReply, ReportReply, Seed, StepReceipt,
};
use serde::{Serialize, de::DeserializeOwned};

/// Stands for the token in inputs; must never show in what is printed.
const TOKEN: &str = "SEALED-TOKEN";

pub(super) fn check(input: &[u8]) {
    again::<Inventory>(input);
    again::<StepReceipt>(input);
    again::<RefusalReply>(input);
    if let Some(hello) = again::<Hello>(input) {
        hidden(&hello.token, &hello);
    }
    if let Some(report) = again::<AgentReport>(input) {
        hidden(&report.token, &report);
    }
    if let Some(seed) = again::<Seed>(input) {
        hidden(&seed.token, &seed);
    }
    for verdict in [
        again::<HelloReply>(input).map(|reply| reply.verdict),
        again::<ReportReply>(input).map(|reply| reply.verdict),
        again::<AgentInstruction>(input),
    ]
    .into_iter()
    .flatten()
    {
        obey(&verdict);
    }
}

/// What is read is written, and that is read as the same.
fn again<T: DeserializeOwned + Serialize>(input: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(input).ok()?;
    let written = serde_json::to_string(&read).unwrap();
    // JSON escapes these; whoever shows a text takes care of DEL and what lies behind ASCII.
    assert!(written.bytes().all(|byte| byte >= b' '), "a line is one line");
    let again: T = serde_json::from_str(&written).unwrap();
    assert_eq!(without_floats(&serde_json::to_string(&again).unwrap()), without_floats(&written));
    Some(read)
}

/// The clock of a CPU is the one number with a fraction; its last digit may differ.
fn without_floats(json: &str) -> serde_json::Value {
    fn walk(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Number(number) if number.is_f64() => *value = serde_json::Value::Null,
            serde_json::Value::Array(list) => list.iter_mut().for_each(walk),
            serde_json::Value::Object(map) => map.values_mut().for_each(walk),
            serde_json::Value::Number(_)
            | serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::String(_) => {}
        }
    }
    let mut value = serde_json::from_str(json).unwrap();
    walk(&mut value);
    value
}

/// Where the token is in its field alone, nothing that is printed has it.
fn hidden(token: &str, message: &(impl std::fmt::Debug + Serialize)) {
    let alone = token == TOKEN && serde_json::to_string(message).unwrap().matches(TOKEN).count() == 1;
    assert!(!alone || !format!("{message:?}").contains(TOKEN), "{message:?}");
}

/// The agent starts a plan only of its attempt, once, with few steps.
fn obey(verdict: &AgentInstruction) {
    let mut mind = AgentDecider::new(1, 0);
    let first = mind.handle_verdict(verdict, false);
    if let AgentInstruction::Plan { plan } = verdict {
        let fits = plan.attempt == 1 && (1..=STEPS_MAX).contains(&plan.steps.len()) && plan.number > 0;
        assert_eq!(matches!(first, AgentAction::Start(_)), fits, "{first:?}");
        assert!(!matches!(mind.handle_verdict(verdict, false), AgentAction::Start(_)), "a number is started once");
        for step in &plan.steps {
            assert!(!step.is_destructive() || step.disk().is_some(), "what destroys names its disk");
            if let PlanStep::HandOff { forms: Some(forms), .. } = step {
                let is_good = forms.check().is_ok();
                assert!(!is_good || !forms.offers().is_empty(), "a form has something to hand over");
            }
        }
    }
    drop(mind.handle_silence(Duration::from_secs(5)));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let key = "ab".repeat(32);
    let identity = r#"{"uuid":"u","serial":"S\u001b[2J","manufacturer":"M","product":"P","boot_mac":"52:54:00:00:00:01","macs":["52:54:00:00:00:01"]}"#;
    let disk = r#"{"wwn":"0x5000","serial":"A","model":"M","size_bytes":8589934592}"#;
    let inventory = r#"{"system":{"manufacturer":"QEMU","serial":"1"},"firmware":{"mode":"uefi","secure_boot":false},"cpu":{"arch":"x86_64","clock_mhz":2400.5,"flags":["sse"],"count":2},"memory":{"total_mib":1024,"installed_mib":1024},"nics":[{"name":"eth0","mac":"52:54:00:00:00:01","ip":["10.0.0.1"],"link":true}],"disks":[{"device":"/dev/vda","size_bytes":8589934592,"serial":"A","transport":"virtio","signatures":["gpt"]}],"hostname":"h"}"#;
    let plan = format!(
        r#"{{"number":1,"attempt":1,"steps":[{{"step":"inspect"}},{{"step":"clear_metadata","disk":{disk}}},{{"step":"write_image","disk":{disk},"image":{{"url":"http://10.0.0.1/i","stream_bytes":9,"stream_sha256":"00","raw_bytes":512,"raw_sha256":"00"}},"disk_guid":"g"}},{{"step":"hand_off","disk":{disk},"files":[{{"path":"ignition/config.ign","mode":384,"content_base64":"e30="}}]}},{{"step":"set_boot_entry","disk":{disk},"label":"l"}},{{"step":"reboot"}}]}}"#
    );
    let receipt = format!(
        r#"{{"plan":1,"index":0,"step":"inspect","started_ms":1,"ended_ms":2,"evidence":{{"kind":"inspected","inventory":{inventory}}}}}"#
    );
    [
        format!(
            r#"{{"token":"{TOKEN}","key":"{key}","identity":{identity},"agent_version":"1","kernel_version":"6","uptime_ms":1,"boot_id":"b"}}"#
        ),
        format!(
            r#"{{"token":"{TOKEN}","key":"{key}","boot_id":"b","sequence":1,"uptime_ms":1,"plan":1,"steps":[{{"index":0,"step":"inspect","state":"running","activity":"a","done_bytes":1,"total_bytes":2}}],"receipts":[{receipt}],"idle":true,"log":[{{"sequence":1,"uptime_ms":1,"source":"kernel","severity":6,"text":"t"}}]}}"#
        ),
        format!(r#"{{"host":"h","attempt":1,"time_ms":1,"verdict":{{"verdict":"plan","plan":{plan}}}}}"#),
        format!(r#"{{"time_ms":1,"log_acknowledged":1,"verdict":{{"verdict":"plan","plan":{plan}}}}}"#),
        r#"{"verdict":"abort","reason":"r"}"#.into(),
        format!(
            r#"{{"verdict":"plan","plan":{{"number":1,"attempt":1,"steps":[{{"step":"hand_off","disk":{disk},"forms":{{"form":"auto","boot_partition":{{"files":[{{"path":"ignition.firstboot","mode":420,"content_base64":""}}],"network":["ip=dhcp"]}},"kernel_arguments":{{"append":["a=b"]}},"config_drive":{{"volume_id":7,"files":[]}},"no_cloud":{{"volume_id":8,"files":[]}},"arguments":{{"delete":["quiet"]}}}}}}]}}}}"#
        ),
        r#"{"verdict":"plan","plan":{"number":1,"attempt":2,"steps":[]}}"#.into(),
        format!(r#"{{"token":"{TOKEN}","appliance":"https://10.0.0.1:8443","pin_sha256":"00","boot_mac":"m"}}"#),
        format!(r#"{{"token":"{TOKEN}","appliance":"{TOKEN}","pin_sha256":"00","boot_mac":"m"}}"#),
        r#"{"reason":"second_key","message":"\u007f\u0085\u001b"}"#.into(),
        inventory.into(),
        receipt,
        format!("{}1{}", "[".repeat(200), "]".repeat(200)),
    ]
    .map(String::into_bytes)
    .to_vec()
}
