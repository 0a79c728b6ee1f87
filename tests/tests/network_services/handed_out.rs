//! What DHCP hands out follows the Provisioning object while it serves (S0.9, S0.30): gateway, DNS and time servers, those
//! that the object names by DNS names among them.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use firesteel_dhcp::wire::code;
use firesteel_tests::field::{Field, discover, with_field};
use firesteel_tests::network::{ADDRESS, Dhcp};
use serde_json::{Value, json};

use crate::site::PROGRAM;

const CLASS: &str = "PXEClient:Arch:00000:UNDI:002001";
const PATIENCE: Duration = Duration::from_secs(120);

/// Gives the network these fields besides its own.
fn edit(field: &Field, fields: &Value) {
    let mut object = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"},
        "spec": {
            "provisioningNetwork": "Managed", "provisioningInterface": "s0", "provisioningIP": ADDRESS,
            "provisioningNetworkCIDR": "10.77.0.0/24", "provisioningDHCPRange": "10.77.0.100,10.77.0.199",
        },
    });
    object["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    field.apply(&object);
}

/// Waits until an offer has these routers, DNS servers and time servers.
fn until_offered(field: &Field, wanted: [&[&str]; 3]) {
    let parsed = |addresses: &[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
    let wanted: [Vec<Ipv4Addr>; 3] = wanted.map(parsed);
    let mut ask = discover(1, CLASS, &[0]);
    let ends_at = Instant::now() + PATIENCE;
    loop {
        let offer = field.ask(&ask);
        let found = [code::ROUTER, code::DNS, code::NTP].map(|code| offer.options.addresses(code));
        if found == wanted {
            return;
        }
        assert!(Instant::now() < ends_at, "{found:?} is offered, not {wanted:?}\n{}", field.appliance.log());
        std::thread::sleep(Duration::from_millis(200));
        ask.xid += 2;
    }
}

#[test]
fn gateway_dns_and_time_servers_are_handed_out_as_the_object_is_edited() {
    with_field(PROGRAM, Dhcp::Managed, |field| {
        until_offered(field, [&[], &[], &[]]);
        edit(field, &json!({"provisioningNetworkGateway": "10.77.0.254", "provisioningDNS": true}));
        until_offered(field, [&["10.77.0.254"], &["10.77.0.1"], &[]]);
        edit(field, &json!({"additionalNTPServers": ["192.0.2.5"]}));
        until_offered(field, [&[], &[], &["192.0.2.5"]]);
        // A name is looked up by the appliance, and what it means is handed out.
        edit(field, &json!({"additionalNTPServers": ["192.0.2.6", "localhost"]}));
        until_offered(field, [&[], &[], &["192.0.2.6", "127.0.0.1"]]);
        edit(field, &json!({}));
        until_offered(field, [&[], &[], &[]]);
    });
}
