//! An appliance without a provisioning interface and without files to boot: power, reboots, fencing and inspection by
//! the BMC, and hosts that say what they cannot have.

use firesteel_bmc::PowerState;
use firesteel_bmc_fakes::ipmi::FakeIpmi;
use firesteel_bmc_fakes::redfish::Fake;
use serde_json::{Value, json};
use tokio::net::UdpSocket;

use crate::bench::{Bench, MAC, SYSTEM, credentials, say, with_bmc_only};

/// How a cluster keeps a node off that it fences, and how a person reboots one.
const FENCE: &str = "reboot.metal3.io/self-node-remediation";
const REBOOT: &str = "reboot.metal3.io";

fn disable_network(bench: &Bench) {
    bench.apply(&[json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"}, "spec": {"provisioningNetwork": "Disabled"},
    })]);
    let words = ["wait", "provisioning", "provisioning-configuration", "--for", "condition=Progressing=False"];
    let output = bench.firesteel(&[words.as_slice(), &["--timeout", "10m"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn wait_for_power(bench: &Bench, host: &str, is_on: bool) {
    bench.until(&format!("{host} is on: {is_on}"), || (bench.status(host)["poweredOn"] == is_on).then_some(()));
}

/// What the BMC was asked to do with the power since this was last called.
fn taken(fake: &Fake) -> Vec<String> {
    std::mem::take(&mut fake.state().resets)
}

fn reason_of(condition: &Value) -> (&str, &str) {
    (condition["status"].as_str().unwrap(), condition["reason"].as_str().unwrap())
}

fn text(output: &std::process::Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asks for a reboot, and waits until it is over: another request meanwhile would be one with it.
fn reboot(bench: &Bench, host: &str, value: &str) {
    bench.annotate(host, REBOOT, Some(value));
    bench.until("the host was rebooted", || {
        let output = bench.firesteel(&["get", "hostjournals", host, "-o", "json"]);
        let journal: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let answers = journal["status"]["answers"]["newest"].as_array().cloned().unwrap_or_default();
        let is_over = |answer: &Value| {
            answer["request"] == REBOOT && answer["value"] == value && answer["message"] == "the host was rebooted"
        };
        answers.iter().any(is_over).then_some(())
    });
}

/// Fences and releases a host whose OS shuts down when it is asked to.
fn is_fenced(bench: &Bench, host: &str, fake: &Fake) {
    wait_for_power(bench, host, true);
    taken(fake);
    bench.annotate(host, FENCE, Some(r#"{"mode":"hard"}"#));
    wait_for_power(bench, host, false);
    let power = fake.state().power;
    assert_eq!((power, taken(fake)), (PowerState::Off, vec!["ForceOff".to_owned()]));
    bench.annotate(host, FENCE, None);
    wait_for_power(bench, host, true);
    let power = fake.state().power;
    assert_eq!((power, taken(fake)), (PowerState::On, vec!["On".to_owned()]));
    say("bmc-only, fencing", "off by the BMC's word, then on", host);
}

#[test]
fn a_host_with_redfish_is_switched_fenced_and_inspected() {
    with_bmc_only(|bench| {
        let (fake, origin) = bench.bmc(&json!({}));
        bench.add("plain", &format!("{origin}{SYSTEM}"));
        // There is no Provisioning object yet, and hosts are driven all the same.
        let got = bench.is_driven("plain", &fake);
        say("bmc-only, power on", "On", &got);
        disable_network(bench);
        bench.edit("plain", &json!({"online": false}));
        wait_for_power(bench, "plain", false);
        bench.edit("plain", &json!({"online": true}));
        wait_for_power(bench, "plain", true);
        taken(&fake);
        reboot(bench, "plain", r#"{"mode":"soft"}"#);
        assert_eq!(taken(&fake), ["GracefulShutdown", "On"]);
        reboot(bench, "plain", r#"{"mode":"hard"}"#);
        assert_eq!(taken(&fake), ["ForceRestart"]);
        is_fenced(bench, "plain", &fake);

        let output = bench.firesteel(&["get", "hardwaredata", "plain", "-o", "json"]);
        let data: Value = serde_json::from_slice(&output.stdout).unwrap();
        let hardware = &data["spec"]["hardware"];
        assert_eq!(hardware["systemVendor"]["serialNumber"], "FAKE-1");
        assert_eq!((&hardware["ramMebibytes"], &hardware["cpu"]["count"]), (&json!(65536), &json!(128)));
        assert_eq!((&hardware["nics"][0]["mac"], &hardware["cpu"]["arch"]), (&json!(MAC), &json!("x86_64")));
        let drives = hardware["storage"].as_array().unwrap();
        let serials: Vec<&str> = drives.iter().map(|drive| drive["serialNumber"].as_str().unwrap()).collect();
        assert_eq!(serials, ["DRIVE-0", "DRIVE-1"]);
        assert_eq!(drives[0]["sizeBytes"], 480_103_981_056_u64);
        let mark = &data["metadata"]["annotations"]["firesteel.dev/bmc-inventory"];
        assert!(mark.is_string(), "the record is marked: {data}");
        let inspected = bench.condition("plain", "InspectedByAgent");
        assert_eq!(reason_of(&inspected), ("False", "ReadFromBMC"), "{inspected}");
        let page = text(&bench.firesteel(&["describe", "host", "plain"]));
        assert!(page.contains("serial DRIVE-1") && page.contains("no agent has inspected this host"), "{page}");
        let preview = text(&bench.firesteel(&["plan", "plain"]));
        assert!(preview.contains("never inspected by an agent") && !preview.contains("DRIVE-"), "{preview}");
        assert_eq!(fake.state().boot_enabled, "Disabled", "no boot from the network was ordered");
    });
}

#[test]
fn a_host_with_an_os_of_its_own_is_fenced() {
    with_bmc_only(|bench| {
        disable_network(bench);
        let (fake, origin) = bench.bmc(&json!({}));
        bench.add_with("node", &format!("{origin}{SYSTEM}"), &json!({"externallyProvisioned": true}));
        is_fenced(bench, "node", &fake);
        let status = bench.status("node");
        assert_eq!(status["provisioning"]["state"], "externally provisioned", "{status}");
    });
}

#[test]
fn a_host_that_wants_an_image_says_why_it_waits() {
    with_bmc_only(|bench| {
        disable_network(bench);
        let (fake, origin) = bench.bmc(&json!({}));
        let image = json!({"url": "http://127.0.0.1:1/os.raw", "checksum": "0".repeat(64), "checksumType": "sha256"});
        bench.add_with("wants", &format!("{origin}{SYSTEM}"), &json!({"image": image}));
        let waits = bench.condition("wants", "NetworkBoot");
        assert_eq!(reason_of(&waits), ("False", "BMCOnly"), "{waits}");
        let why = waits["message"].as_str().unwrap();
        assert!(why.contains("spec.image needs an agent") && why.contains("--boot-files"), "{why}");
        is_fenced(bench, "wants", &fake);
        let status = bench.status("wants");
        assert_eq!(status["errorMessage"].as_str().unwrap_or_default(), "", "{status}");
        assert_eq!(status["provisioning"]["state"], "available", "{status}");
        let page = text(&bench.firesteel(&["describe", "host", "wants"]));
        assert!(page.contains("the installation of spec.image needs an agent"), "{page}");
        let events = text(&bench.firesteel(&["get", "events", "-o", "json"]));
        assert_eq!(events.matches("\"NeedsAgent\"").count(), 1, "it is said once: {events}");
    });
}

#[test]
fn a_host_with_ipmi_is_switched_and_has_no_inventory() {
    with_bmc_only(|bench| {
        disable_network(bench);
        let fake = FakeIpmi::new(credentials(), 7);
        let socket = bench.runtime.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap();
        let address = format!("ipmi://{}", socket.local_addr().unwrap());
        bench.runtime.spawn(fake.clone().serve(socket));
        // It names no MAC, and a host that boots no agent needs none.
        bench.add_with("ipmi", &address, &json!({"bootMACAddress": null}));
        wait_for_power(bench, "ipmi", true);
        let inspected = bench.condition("ipmi", "InspectedByAgent");
        assert_eq!(reason_of(&inspected), ("False", "NoInventory"), "{inspected}");
        assert!(inspected["message"].as_str().unwrap().contains("IPMI"), "{inspected}");
        bench.annotate("ipmi", FENCE, Some(r#"{"mode":"hard"}"#));
        wait_for_power(bench, "ipmi", false);
        assert!(!fake.state().is_on);
        bench.annotate("ipmi", FENCE, None);
        wait_for_power(bench, "ipmi", true);
    });
}

/// A network that boots hosts needs the files for it: the object says so, and power work goes on.
#[test]
fn a_network_that_boots_hosts_says_that_there_are_no_boot_files() {
    with_bmc_only(|bench| {
        bench.apply(&[json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
            "metadata": {"name": "provisioning-configuration"},
            "spec": {"provisioningNetwork": "Managed", "provisioningInterface": "lo", "provisioningIP": "10.77.0.1",
                "provisioningNetworkCIDR": "10.77.0.0/24", "provisioningDHCPRange": "10.77.0.10,10.77.0.20"},
        })]);
        let degraded = bench.until("the object is degraded", || {
            let output = bench.firesteel(&["get", "provisioning", "provisioning-configuration", "-o", "json"]);
            let object: Value = serde_json::from_slice(&output.stdout).ok()?;
            let conditions = object["status"]["conditions"].as_array()?.clone();
            conditions.into_iter().find(|found| found["type"] == "Degraded" && found["status"] == "True")
        });
        assert!(degraded["message"].as_str().unwrap().contains("--boot-files"), "{degraded}");
        let (fake, origin) = bench.bmc(&json!({}));
        bench.add("plain", &format!("{origin}{SYSTEM}"));
        bench.is_driven("plain", &fake);
    });
}
