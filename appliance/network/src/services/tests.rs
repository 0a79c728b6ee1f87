#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use firesteel_resources::Provisioning;
use serde_json::{Value, json};

use super::*;

fn network(more: Value) -> ProvisioningNetwork {
    let mut spec = json!({"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.77.0.0/24",
        "provisioningDHCPRange": "10.77.0.10,10.77.0.20", "provisioningInterface": "s0"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let object: Provisioning = serde_json::from_value(json!({"spec": spec})).unwrap();
    object.network().unwrap()
}

fn interfaces() -> Vec<InterfaceFacts> {
    let one = |name: &str, index, last| InterfaceFacts {
        name: name.to_owned(),
        index,
        mac: Some(Mac([2, 0, 0, 0, 0, last])),
        addresses: Vec::new(),
    };
    vec![one("s0", 3, 1), one("s1", 4, 2)]
}

fn decide(more: Value, flag: Option<&str>) -> (ServicePlan, Option<ServiceFault>) {
    let (interface, api_address) = (flag.map(str::to_owned), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let settings = NetworkSettings { interface, api_address, has_boot_files: true };
    plan_services(ServicePlanInput {
        network: &network(more),
        os_image_url: "",
        sensors: None,
        named_time_servers: &[Ipv4Addr::new(192, 0, 2, 9)],
        settings: &settings,
        interfaces: &interfaces(),
    })
}

/// The services of a plan.
fn names(plan: &ServicePlan) -> Vec<&'static str> {
    ServiceName::ALL.into_iter().filter(|name| plan.has(*name)).map(ServiceName::word).collect()
}

#[test]
fn each_mode_has_the_services_of_the_table() {
    let nowhere = json!({"provisioningNetwork": "Disabled", "provisioningIP": "", "provisioningNetworkCIDR": "",
        "provisioningDHCPRange": "", "provisioningInterface": ""});
    let unnamed = json!({"provisioningNetwork": "Disabled", "provisioningInterface": ""});
    for (more, services) in [
        (json!({}), vec!["address", "http", "tftp", "dhcp"]),
        (json!({"provisioningNetwork": "Unmanaged"}), vec!["address", "http", "tftp"]),
        (json!({"provisioningNetwork": "Disabled"}), vec!["address", "http"]),
        (unnamed, vec!["http"]),
        (nowhere, vec!["http"]),
    ] {
        let (plan, fault) = decide(more.clone(), None);
        assert_eq!((names(&plan), fault), (services, None), "{more}");
    }
}

#[test]
fn the_interface_is_found_by_flag_name_or_mac_and_named_when_it_is_not() {
    let of = |more: Value, flag| {
        let (plan, fault) = decide(more, flag);
        (plan.tftp.map(|tftp| tftp.link.name), fault.map(|fault| fault.to_string()).unwrap_or_default())
    };
    let by_mac = |macs: Value| json!({"provisioningInterface": "", "provisioningMacAddresses": macs});
    assert_eq!(of(json!({}), None).0.as_deref(), Some("s0"));
    assert_eq!(of(json!({}), Some("s1")).0.as_deref(), Some("s1"), "the flag wins");
    let second = by_mac(json!(["02:00:00:00:00:09", "02:00:00:00:00:02"]));
    assert_eq!(of(second, None).0.as_deref(), Some("s1"));
    let (none, why) = of(by_mac(json!(["02:00:00:00:00:09"])), None);
    assert!(none.is_none() && why.contains("02:00:00:00:00:09"), "{why}");
    let (none, why) = of(json!({"provisioningInterface": "s9"}), None);
    assert!(none.is_none() && why.starts_with("spec.provisioningInterface") && why.contains("s9"), "{why}");
    assert!(of(json!({}), Some("s8")).1.starts_with("--interface"));
    assert!(of(json!({"provisioningInterface": ""}), None).1.contains("--interface"));
}

/// A machine that writes a disk must not lose its server when the interface goes away for a while.
#[test]
fn what_does_not_need_the_interface_runs_without_it() {
    let (plan, fault) = decide(json!({"provisioningInterface": "s9"}), None);
    assert_eq!(names(&plan), ["http"]);
    assert!(fault.is_some());
}

#[test]
fn dhcp_gets_the_values_of_the_object_and_the_addresses_of_named_time_servers() {
    let more = json!({"provisioningNetworkGateway": "10.77.0.254", "provisioningDNS": true,
        "additionalNTPServers": ["10.77.0.3", "ntp.example.com"]});
    let dhcp = decide(more, None).0.dhcp.unwrap();
    assert_eq!(dhcp.ntp, [Ipv4Addr::new(10, 77, 0, 3), Ipv4Addr::new(192, 0, 2, 9)]);
    assert_eq!((dhcp.gateway, dhcp.dns), (Some(Ipv4Addr::new(10, 77, 0, 254)), true));
    assert_eq!((dhcp.range.0, dhcp.prefix_length), (Ipv4Addr::new(10, 77, 0, 10), 24));
}
