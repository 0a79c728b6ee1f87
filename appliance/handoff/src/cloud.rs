//! What cloud-init reads beside user data: metadata, and a network in its version 2. Pure.

use std::{collections::BTreeMap, net::IpAddr};

use firesteel_resources::ObjectMeta;
use firesteel_wire::NetworkPlan;
use firesteel_wire::network::{BondMode, HashPolicy, LinkKind, NetworkLink};
use serde_json::{Map, Value, json};

/// The most bytes of an interface's name (`IFNAMSIZ` less its end).
const INTERFACE_BYTES_MAX: usize = 15;

/// `meta_data.json`: upstream's names (baremetal-operator, `getConfigDrive`), and over them the owner's. cloud-init
/// takes the name from `hostname` alone and puts it over `local-hostname`, so that this one's name stands in both.
pub(crate) fn config_drive_meta_data(host: &ObjectMeta, own: &Map<String, Value>) -> Map<String, Value> {
    let mut meta = Map::new();
    for (name, value) in [
        ("uuid", &host.uid),
        ("local-hostname", &host.name),
        ("local_hostname", &host.name),
        ("name", &host.name),
        ("metal3-name", &host.name),
        ("metal3-namespace", &host.namespace),
    ] {
        meta.insert(name.to_owned(), json!(value));
    }
    meta.extend(own.clone());
    if !own.contains_key("hostname") {
        let stated = ["local-hostname", "local_hostname"].iter().find_map(|name| own.get(*name));
        meta.insert("hostname".to_owned(), stated.cloned().unwrap_or_else(|| json!(host.name)));
    }
    meta
}

/// `meta-data` of NoCloud; JSON is YAML.
pub(crate) fn no_cloud_meta_data(host: &ObjectMeta, own: &Map<String, Value>) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("instance-id".to_owned(), json!(host.uid));
    meta.insert("local-hostname".to_owned(), json!(host.name));
    meta.extend(own.clone());
    meta
}

/// `network-config`, version 2. NICs are found by their hardware address and named as the plan names its links.
pub(crate) fn network_config(plan: &NetworkPlan, resolvers: &[IpAddr], search: &[String]) -> Value {
    let names = names(plan);
    let (mut ethernets, mut bonds, mut vlans) = (Map::new(), Map::new(), Map::new());
    for link in &plan.links {
        let name = &names[link.name.as_str()];
        let mut entry = addresses(plan, link);
        if link.dhcp4 || link.slaac || !link.addresses.is_empty() {
            entry.extend(name_servers(resolvers, search));
        }
        match &link.kind {
            LinkKind::Nic { mac } => {
                entry.insert("match".to_owned(), json!({"macaddress": mac}));
                entry.insert("set-name".to_owned(), json!(name));
                ethernets.insert(name.clone(), Value::Object(entry));
            }
            LinkKind::Bond { mode, members, mac, miimon_ms, lacp_fast, hash, primary } => {
                let members: Vec<&String> = members.iter().map(|member| &names[member.as_str()]).collect();
                entry.insert("interfaces".to_owned(), json!(members));
                if let Some(mac) = mac {
                    entry.insert("macaddress".to_owned(), json!(mac));
                }
                let mut parameters = json!({"mode": mode.word(), "mii-monitor-interval": miimon_ms});
                if *mode == BondMode::Lacp {
                    parameters["lacp-rate"] = json!(if *lacp_fast { "fast" } else { "slow" });
                }
                if mode.has_hash_policy() {
                    parameters["transmit-hash-policy"] = json!(hash_word(*hash));
                }
                if let Some(primary) = primary {
                    parameters["primary"] = json!(names[primary.as_str()]);
                }
                entry.insert("parameters".to_owned(), parameters);
                bonds.insert(name.clone(), Value::Object(entry));
            }
            LinkKind::Vlan { id, on } => {
                entry.insert("id".to_owned(), json!(id));
                entry.insert("link".to_owned(), json!(names[on.as_str()]));
                vlans.insert(name.clone(), Value::Object(entry));
            }
        }
    }
    let mut config = json!({"version": 2, "ethernets": ethernets});
    for (key, map) in [("bonds", bonds), ("vlans", vlans)] {
        if !map.is_empty() {
            config[key] = Value::Object(map);
        }
    }
    config
}

/// A resolver belongs to a link here, and is of use on each that has a way out: what DHCP or a router's advertisements
/// bring comes beside it.
fn name_servers(resolvers: &[IpAddr], search: &[String]) -> Option<(String, Value)> {
    let mut servers = Map::new();
    if !resolvers.is_empty() {
        servers.insert("addresses".to_owned(), json!(resolvers));
    }
    if !search.is_empty() {
        servers.insert("search".to_owned(), json!(search));
    }
    (!servers.is_empty()).then(|| ("nameservers".to_owned(), Value::Object(servers)))
}

/// The addresses and routes of one link.
fn addresses(plan: &NetworkPlan, link: &NetworkLink) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("dhcp4".to_owned(), json!(link.dhcp4));
    if link.slaac {
        entry.insert("accept-ra".to_owned(), json!(true));
    }
    let fixed: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
    if !fixed.is_empty() {
        entry.insert("addresses".to_owned(), json!(fixed));
    }
    let own = plan.routes.iter().filter(|route| route.on.as_deref() == Some(&link.name));
    let routes: Vec<Value> = own
        .filter_map(|route| {
            let mut entry = json!({"to": route.to.to_string(), "via": route.via?});
            if let Some(metric) = route.metric {
                entry["metric"] = json!(metric);
            }
            Some(entry)
        })
        .collect();
    if !routes.is_empty() {
        entry.insert("routes".to_owned(), json!(routes));
    }
    if let Some(mtu) = link.mtu {
        entry.insert("mtu".to_owned(), json!(mtu));
    }
    entry
}

/// Names of interfaces for the links of a plan: their own where the kernel takes them.
pub(crate) fn names(plan: &NetworkPlan) -> BTreeMap<&str, String> {
    let fits = |name: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        name.len() <= INTERFACE_BYTES_MAX && name.chars().all(is_plain) && !matches!(name, "." | ".." | "all" | "lo")
    };
    let all: Vec<&str> = plan.links.iter().map(|link| link.name.as_str()).collect();
    let mut names = BTreeMap::new();
    for (index, name) in all.iter().enumerate() {
        let mut numbers = (index..).map(|number| format!("link{number}"));
        let new = numbers.find(|new| !all.contains(&new.as_str()) && !names.values().any(|taken| taken == new));
        names.insert(*name, if fits(name) { (*name).to_owned() } else { new.unwrap_or_default() });
    }
    names
}

pub(crate) fn hash_word(hash: HashPolicy) -> &'static str {
    match hash {
        HashPolicy::Layer2 => "layer2",
        HashPolicy::Layer23 => "layer2+3",
        HashPolicy::Layer34 => "layer3+4",
    }
}
