use std::collections::BTreeMap;

use firesteel_resources::secret::SecretBytes;
use firesteel_wire::network::{BondMode, HashPolicy, LinkKind};
use proptest::prelude::*;

use super::*;

const VLAN: &str = r#"{
  "links": [
    {"id": "eno1", "type": "phy", "ethernet_mac_address": "52:54:00:AB:cd:01", "mtu": 1500},
    {"id": "prov", "type": "vlan", "vlan_id": 100, "vlan_link": "eno1", "vlan_mac_address": "52:54:00:ab:cd:01"}
  ],
  "networks": [
    {"id": "prov4", "type": "ipv4", "link": "prov", "ip_address": "10.88.0.50", "netmask": "255.255.255.0",
     "routes": [{"network": "10.77.0.0", "netmask": "255.255.255.0", "gateway": "10.88.0.1"}]},
    {"id": "prov6", "type": "ipv6", "link": "prov", "ip_address": "2001:db8::5/64", "gateway": "2001:db8::1"}
  ],
  "services": [{"type": "dns", "address": "10.88.0.1"}]
}"#;

const BOND: &str = "
interfaces:
- name: bond0
  type: bond
  state: up
  ipv4: {enabled: true, dhcp: true, auto-dns: false}
  ipv6: {enabled: false}
  link-aggregation:
    mode: 802.3ad
    port: [eno1, eno2]
    options: {miimon: '140', lacp_rate: fast, xmit_hash_policy: layer3+4}
- {name: eno1, type: ethernet, identifier: mac-address, mac-address: '52:54:00:00:00:01'}
- {name: eno2, type: ethernet, identifier: mac-address, mac-address: '52:54:00:00:00:02'}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0, table-id: 254}
dns-resolver:
  config: {server: [192.0.2.1], search: [example.com]}
";

#[test]
fn a_vlan_with_fixed_addresses() {
    let plan = parse(VLAN.as_bytes(), NetworkFormat::OpenStack).expect("a plan");
    assert_eq!(plan.links[0].kind, LinkKind::Nic { mac: "52:54:00:ab:cd:01".into() });
    assert_eq!(plan.links[1].kind, LinkKind::Vlan { id: 100, on: "eno1".into() });
    let addresses: Vec<_> = plan.links[1].addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.88.0.50/24", "2001:db8::5/64"]);
    let routes: Vec<_> = plan.routes.iter().map(|route| (route.to.to_string(), route.on.as_deref())).collect();
    assert_eq!(routes, [("10.77.0.0/24".to_owned(), Some("prov")), ("::/0".to_owned(), Some("prov"))]);
}

#[test]
fn a_bond_whose_members_come_after_it() {
    let plan = parse(BOND.as_bytes(), NetworkFormat::Nmstate).expect("a plan");
    let names: Vec<_> = plan.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["eno1", "eno2", "bond0"]);
    let LinkKind::Bond { mode, members, miimon_ms, lacp_fast, hash, .. } = &plan.links[2].kind else {
        panic!("no bond");
    };
    assert_eq!((*mode, *miimon_ms, *lacp_fast, *hash), (BondMode::Lacp, 140, true, HashPolicy::Layer34));
    assert_eq!(members, &["eno1", "eno2"]);
    assert!(plan.links[2].dhcp4 && !plan.links[2].slaac);
    let same = BOND.replace("802.3ad", "active-backup").replace("port:", "slaves:").replace("lacp_rate: fast, ", "");
    let plan = parse(same.as_bytes(), NetworkFormat::Nmstate).expect("a plan");
    assert!(matches!(plan.links[2].kind, LinkKind::Bond { mode: BondMode::ActiveBackup, .. }));
}

#[test]
fn what_is_not_understood_is_refused_by_its_path() {
    for (text, format, from, to, expected) in [
        (VLAN, NetworkFormat::OpenStack, "\"vlan_id\"", "\"vlan_nr\"", "links[1].vlan_nr: is not understood"),
        (VLAN, NetworkFormat::OpenStack, "\"vlan_id\": 100,", "", "links[1].vlan_id: is missing"),
        (VLAN, NetworkFormat::OpenStack, "100", "70000", "links[1].vlan_id: must be a whole number"),
        (
            VLAN,
            NetworkFormat::OpenStack,
            "\"52:54:00:ab:cd:01\"}",
            "\"52:54:00:ab:cd:02\"}",
            "links[1].vlan_mac_address: must be that",
        ),
        (VLAN, NetworkFormat::OpenStack, "\"vlan\",", "\"vxlan\",", "links[1].type: must be one of"),
        (VLAN, NetworkFormat::OpenStack, "\"mtu\"", "\"bond_mode\"", "links[0].bond_mode: is not of this type"),
        (VLAN, NetworkFormat::OpenStack, "AB:cd:01", "AB:cd", "links[0].ethernet_mac_address: must be the hardware"),
        (VLAN, NetworkFormat::OpenStack, "\"ipv6\"", "\"ipv6_dhcp\"", "networks[1].type: the agent speaks no DHCPv6"),
        (VLAN, NetworkFormat::OpenStack, "\"ipv6\"", "\"ipv4\"", "networks[1].ip_address: is of another family"),
        (
            VLAN,
            NetworkFormat::OpenStack,
            "\"10.88.0.1\"}]",
            "\"10.88.0\"}]",
            "networks[0].routes[0].gateway: must be an IP",
        ),
        (VLAN, NetworkFormat::OpenStack, "255.255.255.0", "255.0.255.0", "networks[0].netmask: must be the length"),
        (
            VLAN,
            NetworkFormat::OpenStack,
            "\"link\": \"prov\", \"ip_address\": \"10",
            "\"link\": \"x\", \"ip_address\": \"10",
            "networks[0].link: there",
        ),
        (VLAN, NetworkFormat::OpenStack, "\"dns\"", "\"ntp\"", "services[0].type: must be one of dns"),
        (
            VLAN,
            NetworkFormat::OpenStack,
            "\"vlan_link\": \"eno1\"",
            "\"vlan_link\": \"eno9\"",
            "\"eno9\", which is to carry it",
        ),
        (
            BOND,
            NetworkFormat::Nmstate,
            "802.3ad",
            "balance-none",
            "interfaces[0].link-aggregation.mode: must be one of",
        ),
        (
            BOND,
            NetworkFormat::Nmstate,
            "miimon: '140'",
            "updelay: 5",
            "interfaces[0].link-aggregation.options.updelay: is",
        ),
        (BOND, NetworkFormat::Nmstate, "miimon: '140'", "miimon: 0", "options.miimon: must be 10"),
        (
            BOND,
            NetworkFormat::Nmstate,
            ", mac-address: '52:54:00:00:00:02'",
            "",
            "interfaces[2].mac-address: is missing",
        ),
        (BOND, NetworkFormat::Nmstate, "type: bond", "type: ovs-bridge", "interfaces[0].type: must be one of"),
        (BOND, NetworkFormat::Nmstate, "state: up", "state: absent", "interfaces[0].state: must be one of up"),
        (BOND, NetworkFormat::Nmstate, "table-id: 254", "table-id: 7", "routes.config[0].table-id: only"),
        (BOND, NetworkFormat::Nmstate, "dhcp: true, auto-dns: false", "dhcp: false", "no link has an IPv4 address"),
        (
            BOND,
            NetworkFormat::Nmstate,
            "auto-dns: false",
            "auto-routes: false",
            "interfaces[0].ipv4.auto-routes: only true",
        ),
        (
            BOND,
            NetworkFormat::Nmstate,
            "ipv6: {enabled: false}",
            "ipv6: {enabled: true, dhcp: true}",
            "ipv6.dhcp: the agent",
        ),
        (BOND, NetworkFormat::Nmstate, "interfaces:", "capture: {}\ninterfaces:", "capture: is not understood"),
        (BOND, NetworkFormat::Nmstate, "[eno1, eno2]", "[eno1, eno3]", "its member \"eno3\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from} is not there");
        let error = parse(changed.as_bytes(), format).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error:?} is not about {expected:?}");
    }
}

fn secret(keys: &[(&str, &str)]) -> Secret {
    let data = keys.iter().map(|(key, text)| ((*key).to_owned(), SecretBytes(text.as_bytes().to_vec())));
    Secret { data: data.collect::<BTreeMap<_, _>>(), ..Secret::default() }
}

#[test]
fn the_key_of_the_secret_says_the_format() {
    assert!(read(&secret(&[("networkData", VLAN)])).is_ok());
    assert!(read(&secret(&[("value", VLAN)])).is_ok());
    assert!(read(&secret(&[("nmstate", BOND)])).is_ok());
    let error = |keys: &[(&str, &str)]| read(&secret(keys)).expect_err("refused").reason();
    let other = error(&[("networkData", BOND)]);
    assert!(other.starts_with("networkData: ") && other.ends_with(": is not understood"), "{other}");
    assert!(error(&[("networkData", VLAN), ("nmstate", BOND)]).contains("both"));
    assert!(error(&[("userData", VLAN)]).contains("neither"));
    assert!(error(&[("nmstate", &" ".repeat(TEXT_BYTES_MAX + 1))]).contains("more than"));
    let hidden = VLAN.replace("\"vlan_id\"", "\"\\u001b[2J\"");
    assert!(!error(&[("networkData", &hidden)]).contains('\u{1b}'));
}

/// What cloud-init's reader of a config drive needs of each VLAN.
#[test]
fn a_vlan_on_a_config_drive_has_an_address() {
    let own = serde_json::json!({"links": [
        {"id": "nic", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"},
        {"id": "named", "type": "bond", "bond_links": ["nic"], "ethernet_mac_address": "52:54:00:00:00:0b"},
        {"id": "nameless", "type": "bond", "bond_links": ["nic", "gone"]},
        {"id": "v0", "type": "vlan", "vlan_link": "nic", "odd": true},
        {"id": "v1", "type": "vlan", "vlan_link": "named"},
        {"id": "v2", "type": "vlan", "vlan_link": "nameless", "vlan_mac_address": null},
        {"id": "v3", "type": "vlan", "vlan_link": "nic", "vlan_mac_address": "52:54:00:00:00:33"},
        {"id": "v4", "type": "vlan", "vlan_link": "nic", "ethernet_mac_address": "52:54:00:00:00:44"},
        {"id": "v5", "type": "vlan", "vlan_link": "gone"},
        {"id": "v6", "type": "vlan"},
        "odd",
    ], "odd": {"kept": 1}});
    let filled = with_vlan_macs(&own);
    let of = |index: usize| filled["links"][index]["vlan_mac_address"].as_str();
    let expected = ["01", "0b", "01", "33", "44"].map(|end| Some(format!("52:54:00:00:00:{end}")));
    assert_eq!([3, 4, 5, 6, 7].map(|index| of(index).map(str::to_owned)), expected);
    let mut without = filled.clone();
    for index in [3, 4, 7] {
        without["links"][index].as_object_mut().expect("a link").remove("vlan_mac_address");
    }
    without["links"][5]["vlan_mac_address"] = Value::Null;
    assert_eq!(without, own, "all else stays");
    for odd in [serde_json::json!({}), serde_json::json!({"links": {"a": 1}}), serde_json::json!([])] {
        assert_eq!(with_vlan_macs(&odd), odd);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_borne(at in 0usize..400, noise in prop::collection::vec(any::<u8>(), 1..16)) {
        for text in [VLAN, BOND] {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at..at + noise.len()].copy_from_slice(&noise);
            check(&bytes);
        }
        check(&noise);
    }
}
