//! A host that does not boot says why where kubectl users see it.

use std::net::Ipv4Addr;

use firesteel_bmc::BmcCredentials;
use firesteel_bmc_fakes::redfish::Fake;
use firesteel_tests::agent_line::AgentLine;
use firesteel_tests::field::{Field, discover, mac, with_field};
use firesteel_tests::network::Dhcp;
use firesteel_wire::Program;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const SYSTEM: &str = "/redfish/v1/Systems/1";
/// The UUID that the BMC reports, as a firmware spells it that has the first three fields in the other byte order.
const SMBIOS_UUID: &str = "00000000-0000-0040-8000-000000000001";
/// The NIC that boots, and the one that the host names.
const BOOTS: u8 = 1;
const NAMED: u8 = 2;

/// Adds a host that is driven by a BMC, and waits until it was switched on.
fn add_driven_host(field: &Field, runtime: &tokio::runtime::Runtime, name: &str) {
    let login = BmcCredentials { username: "admin".into(), password: "correct horse".into() };
    let fake = Fake::new(login.clone(), mac(BOOTS).0);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = format!("redfish+http://{}{SYSTEM}", listener.local_addr().unwrap());
    runtime.spawn(fake.serve(listener));
    field.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "stringData": {"username": login.username, "password": login.password},
    }));
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
        "spec": {
            "online": true, "bootMACAddress": mac(NAMED).to_string(),
            "bmc": {"address": address, "credentialsName": "bmc"},
        },
    }));
    field.until(&["describe", "host", name], |page| page.contains("waiting for its agent's hello"));
}

/// Boots the machine from the network with this NIC, to the hello of its agent.
fn boot(field: &Field, nic: u8) {
    let leased: Ipv4Addr = field.lease(&discover(nic, "PXEClient:Arch:00000:UNDI:002001", &[0]));
    let dashed = mac(nic).to_string().replace(':', "-");
    let (status, script) = field.get(leased, &format!("/boot.ipxe?mac={dashed}&platform=pcbios"));
    assert_eq!(status, 200, "{script}");
    let mut line = AgentLine::new(&field.appliance.data(), &mac(nic).to_string(), 1);
    line.is_machine(SMBIOS_UUID, "S1");
    let status = field.there(|| {
        // On this thread alone, so that its sockets are in this namespace.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(line.hello_with(&script, Program::default())).status().as_u16()
    });
    assert_eq!(status, 200, "{}", field.appliance.log());
}

fn read(field: &Field, arguments: &[&str]) -> Value {
    serde_json::from_str(&field.firesteel(&[arguments, &["-o", "json"]].concat())).unwrap()
}

fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

#[test]
fn a_wrong_boot_mac_is_named_and_its_machine_is_not_adopted() {
    with_field(PROGRAM, Dhcp::Managed, |field| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        add_driven_host(field, &runtime, "c01");
        boot(field, BOOTS);

        let (boots, named) = (mac(BOOTS).to_string(), mac(NAMED).to_string());
        let what = format!("booted with MAC {boots}, not spec.bootMACAddress {named}: correct spec.bootMACAddress");
        field.until(&["get", "hosts", "c01", "-o", "json"], |host| host.contains("\"WrongBootMAC\""));
        let shown = condition(&read(field, &["get", "hosts", "c01"]), "NetworkBoot");
        assert_eq!((&shown["status"], &shown["reason"]), (&json!("False"), &json!("WrongBootMAC")));
        assert!(shown["message"].as_str().unwrap().contains(&what), "{shown}");
        let events = field.until(&["get", "events", "-o", "json"], |events| events.contains("\"WrongBootMAC\""));
        assert!(events.contains(&what), "{events}");
        let page = field.until(&["describe", "host", "c01"], |page| page.contains("Hint: "));
        assert!(page.contains(&what), "{page}");

        let all = ["get", "discoveredhosts", "-o", "json"];
        field.until(&all, |machines| machines.contains("\"BelongsToHost\""));
        let machine = read(field, &["get", "discoveredhosts", &boots.replace(':', "-")]);
        let shown = condition(&machine, "BelongsToHost");
        assert_eq!((&shown["status"], &shown["reason"]), (&json!("True"), &json!("WrongBootMAC")));
        assert!(shown["message"].as_str().unwrap().contains("this machine is host default/c01"), "{shown}");
        let table = field.firesteel(&["get", "hosts"]);
        assert!(table.contains("this machine is host") && !table.contains("firesteel adopt"), "{table}");

        let adopt = |flags: &[&str]| {
            let arguments = [&["adopt", boots.as_str(), "--name", "second"], flags].concat();
            field.appliance.command().args(arguments).output().unwrap()
        };
        let refused = adopt(&[]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{error}");
        assert!(error.contains(shown["message"].as_str().unwrap()) && error.contains("--force"), "{error}");
        let forced = adopt(&["--force"]);
        assert!(forced.status.success(), "{}", String::from_utf8_lossy(&forced.stderr));
        // A machine that became a host is no hint any more.
        field.until(&["get", "hosts", "c01", "-o", "json"], |host| !host.contains("\"WrongBootMAC\""));
    });
}
