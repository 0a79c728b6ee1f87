//! Unknown machines, from their first request on: what `get hosts` and `describe host MAC` say of each stage.

use firesteel_tests::agent_line::{AgentLine, token_of};
use firesteel_wire::Program;

use crate::network::{Field, RELAY, discover, judge, mac, with_field};

const CLASS: &str = "PXEClient:Arch:00000:UNDI:002001";

/// The row of the table of hosts, up to the time.
fn row(field: &Field, mac: &str) -> Option<String> {
    let table = field.firesteel(&["get", "hosts"]);
    let row = table.lines().find(|line| line.starts_with(mac))?;
    let words: Vec<&str> = row.split_whitespace().collect();
    Some(format!("{}: {}", words[1], words[4..].join(" ").split(", ").next().unwrap()))
}

/// Waits for a stage, whose event is taken in after the answer was sent, and judges it.
fn judge_stage(field: &Field, case: &str, wanted: &str) {
    let mac = mac(1).to_string();
    let (_, stage) = wanted.split_once(": ").unwrap();
    field.until(&["get", "hosts"], |_| row(field, &mac).is_some_and(|row| row.contains(stage)));
    judge(&format!("unknown-hosts {case}"), wanted, &row(field, &mac).unwrap());
}

/// S0.26, stage after stage, by the real process.
#[test]
fn unknown_hosts_are_shown_from_their_first_request_with_the_last_stage() {
    with_field(|field| {
        let name = mac(1).to_string();
        // A machine that wants an address only is none.
        field.ask(&discover(7, "dhcpcd-9.4.1:Linux-6.1", &[]));
        let ask = discover(1, CLASS, &[0]);
        let offered = field.ask(&ask).yiaddr;
        judge_stage(field, "DHCP offer", &format!("unknown: DHCP offered {offered}"));
        assert_eq!(row(field, &mac(7).to_string()), None);
        let leased = field.lease(&ask);
        judge_stage(field, "DHCP lease", &format!("unknown: DHCP leased {leased}"));
        assert_eq!(field.tftp(leased, "undionly.kpxe"), b"undionly.kpxe");
        judge_stage(field, "loader", "unknown: loader undionly.kpxe fetched by TFTP");

        let dashed = name.replace(':', "-");
        let script = |from, query: &str| field.get(from, &format!("/boot.ipxe?mac={dashed}&platform=pcbios{query}")).1;
        assert_eq!(token_of(&script(RELAY, "")), None);
        let refused = "no boot script: the boot script was asked for from 10.77.0.2";
        field.until(&["describe", "host", &name], |page| page.contains(refused));
        let first = script(leased, "&serial=%ff");
        judge_stage(field, "script", "unknown: boot script fetched");
        let page = field.page(&name);
        assert!(page.contains("boot script fetched") && page.contains(r"no text and is not used: \xff"), "{page}");

        let token = token_of(&first).unwrap();
        for (file, stage) in [("kernel", "kernel fetched"), ("initramfs", "initramfs fetched")] {
            assert_eq!(field.get(leased, &format!("/boot/{token}/{file}")).0, 200);
            judge_stage(field, file, &format!("unknown: {stage}"));
        }
        let stored = || field.firesteel(&["get", "discoveredhosts", "-o", "json"]).matches("\"bootMac\"").count();
        judge("unknown-hosts: objects in the store before the hello", "0", &stored().to_string());
        let status = hello(field, &first);
        assert_eq!(status, 200, "{}", field.appliance.log());
        judge("unknown-hosts: objects in the store after the hello", "1", &stored().to_string());
        let row = row(field, &name).unwrap();
        judge("unknown-hosts: state after the hello", "discovered", row.split(':').next().unwrap());
        let table = field.firesteel(&["get", "hosts"]);
        assert_eq!(table.lines().filter(|row| row.starts_with(&name)).count(), 1, "{table}");
    });
}

/// A host with this MAC is shown by its name, and no stranger.
#[test]
fn a_machine_that_becomes_a_host_is_no_unknown_one() {
    with_field(|field| {
        field.ask(&discover(1, CLASS, &[0]));
        let mac = mac(1);
        assert!(row(field, &mac.to_string()).is_some());
        field.add_host("owned", mac);
        judge(
            "unknown-hosts: rows after it became a host",
            "none",
            row(field, &mac.to_string()).as_deref().unwrap_or("none"),
        );
        let page = field.page(&mac.to_string().replace(':', "-"));
        assert!(page.starts_with("Name: owned "), "{page}");
        let unknown = field.appliance.command().args(["describe", "host", "52:54:00:00:00:ee"]).output().unwrap();
        let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
        assert!(
            !unknown.status.success() && error.contains("no such machine was seen; start it from the network"),
            "{error}"
        );
    });
}

/// The hello of an agent that was started by this boot script; the status of the answer.
fn hello(field: &Field, script: &str) -> u16 {
    let mut line = AgentLine::new(&field.appliance.data(), &mac(1).to_string(), 1);
    field.there(|| {
        // On this thread alone, so that its sockets are in this namespace.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(line.hello_with(script, Program::default())).status().as_u16()
    })
}
