//! Network data of owners, in both formats, and the plan that a seed carries.

use firesteel_handoff::network_data;
use firesteel_wire::NetworkPlan;

const OPENSTACK: &str = r#"{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01","mtu":1500},
{"id":"b","type":"phy","ethernet_mac_address":"52:54:00:00:00:02"},
{"id":"bond","type":"bond","bond_mode":"802.3ad","bond_links":["a","b"],"bond_miimon":100,"bond_lacp_rate":"fast"},
{"id":"v","type":"vlan","vlan_id":100,"vlan_link":"bond"}],
"networks":[{"id":"n","type":"ipv4","link":"v","ip_address":"192.0.2.9","netmask":"255.255.255.0",
"routes":[{"network":"0.0.0.0","netmask":"0.0.0.0","gateway":"192.0.2.1"}]},
{"type":"ipv6","link":"v","ip_address":"2001:db8::9/64","gateway":"2001:db8::1"},{"type":"ipv6_slaac","link":"bond"}],
"services":[{"type":"dns","address":"192.0.2.1"}]}"#;
const NMSTATE: &str = "interfaces:
- {name: a, type: ethernet, identifier: mac-address, mac-address: '52:54:00:00:00:01'}
- name: v
  type: vlan
  state: up
  vlan: {base-iface: a, id: 7, protocol: 802.1q}
  mtu: 1400
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.9, prefix-length: 24}]}
  ipv6: {enabled: true, autoconf: true}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: v, metric: 5}]}
dns-resolver: {config: {server: [192.0.2.1]}}
";

pub(super) fn check(input: &[u8]) {
    network_data::check(input);
    if let Ok(plan) = serde_json::from_slice::<NetworkPlan>(input)
        && let Err(error) = plan.check()
    {
        assert!(!error.to_string().is_empty());
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let plan = network_data::parse(OPENSTACK.as_bytes(), network_data::NetworkFormat::OpenStack).unwrap();
    let own = serde_json::to_vec(&plan).unwrap();
    let active = NMSTATE.replace("type: vlan", "type: bond").replace("vlan: {", "link-aggregation: {");
    vec![OPENSTACK.into(), NMSTATE.into(), own, active.into(), b"{}".to_vec(), b"interfaces: []".to_vec()]
}
