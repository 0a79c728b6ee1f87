//! Which way to the appliance, and what keeps it: the decisions of [`super`]. Pure.
//!
//! ```text
//!   plan ──reached──► session            by_plan
//!     │ not within its time: undone
//!     ▼
//!   DHCP on the booting NIC ──reached──► session, which says that the plan failed and why
//!     │ not within its time: undone
//!     └──► plan again, a few rounds; then the worker ends, and after three workers the host boots again
//! ```
//!
//! The booting NIC led to the appliance a moment ago, since the ramdisk came by it. So a mistake in the plan must not
//! silence the host.

use firesteel_wire::NetworkPlan;
use firesteel_wire::limits::FIELD_BYTES_MAX;
use firesteel_wire::network::{BondMode, LinkKind, NetworkLink, NetworkPath};
use firesteel_wire::text::clean;

/// Plan and DHCP in turns, before the worker gives up.
const ROUNDS_MAX: u32 = 3;

/// The two ways; each is undone where it does not lead to the appliance.
pub trait NetworkSetup {
    /// Goes by the plan. What the way is, or why it does not lead to the appliance.
    fn by_plan(&mut self) -> anyhow::Result<String>;
    /// Goes by DHCP on the booting NIC.
    fn by_dhcp(&mut self) -> anyhow::Result<String>;
}

/// Tries both in turns.
///
/// # Errors
/// Why neither led to the appliance.
pub fn find(ways: &mut impl NetworkSetup) -> anyhow::Result<NetworkPath> {
    let mut why = String::new();
    for _ in 0..ROUNDS_MAX {
        let plan_failed = match ways.by_plan() {
            Ok(text) => return Ok(NetworkPath { by_plan: true, text: clean(&text, FIELD_BYTES_MAX) }),
            Err(error) => format!("{error:#}"),
        };
        tracing::warn!("the host's network data does not lead to the appliance: {plan_failed}");
        match ways.by_dhcp() {
            Ok(text) => {
                let text = format!("the network data does not lead to the appliance: {plan_failed}; {text} does");
                return Ok(NetworkPath { by_plan: false, text: clean(&text, FIELD_BYTES_MAX) });
            }
            Err(error) => {
                tracing::warn!("DHCP on the booting interface does not lead to the appliance either: {error:#}");
                why = format!("by the network data: {plan_failed}; by DHCP: {error:#}");
            }
        }
    }
    Err(anyhow::Error::msg(why))
}

/// What is seen of a link of the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkInputs {
    pub carrier: bool,
    /// Whether the other end of an 802.3ad bond answers.
    pub partner: bool,
    pub has_lease: bool,
}

/// What keeps the plan from working right now, the lowest layer first. `None`: only the appliance itself is missing.
pub fn obstacle(plan: &NetworkPlan, seen: impl Fn(&NetworkLink) -> LinkInputs) -> Option<String> {
    let is_member = |name: &str| {
        plan.links.iter().any(|link| match &link.kind {
            LinkKind::Bond { members, .. } => members.iter().any(|member| member == name),
            LinkKind::Nic { .. } | LinkKind::Vlan { .. } => false,
        })
    };
    for link in &plan.links {
        let (name, now) = (&link.name, seen(link));
        match &link.kind {
            LinkKind::Nic { mac } if !now.carrier && !is_member(name) && is_used(plan, link) => {
                return Some(format!("{name} ({mac}) has no link: is its cable in, and the switch's port on?"));
            }
            LinkKind::Bond { members, .. } if !now.carrier => {
                return Some(format!("no member of {name} ({}) has a link", members.join(", ")));
            }
            LinkKind::Bond { mode: BondMode::Lacp, .. } if !now.partner => {
                return Some(format!(
                    "no partner answers LACP on {name}: are the switch's ports one link aggregation?"
                ));
            }
            LinkKind::Nic { .. } | LinkKind::Bond { .. } | LinkKind::Vlan { .. } => {}
        }
    }
    let waits = plan.links.iter().find(|link| link.dhcp4 && !seen(link).has_lease)?;
    let vlan = match &waits.kind {
        LinkKind::Vlan { id, .. } => format!("; does the switch carry VLAN {id} to this port?"),
        LinkKind::Nic { .. } | LinkKind::Bond { .. } => String::new(),
    };
    Some(format!("no DHCP server answers on {}{vlan}", waits.name))
}

/// A NIC that nothing goes over may lie idle.
fn is_used(plan: &NetworkPlan, nic: &NetworkLink) -> bool {
    let carries = |link: &NetworkLink| matches!(&link.kind, LinkKind::Vlan { on, .. } if *on == nic.name);
    nic.dhcp4 || !nic.addresses.is_empty() || plan.links.iter().any(carries)
}

/// The plan in a line: `prov: VLAN 100 on bond0 (802.3ad of eno1, eno2), 10.88.0.50/24`.
#[must_use]
pub fn summary(plan: &NetworkPlan) -> String {
    let mut parts = Vec::new();
    for link in &plan.links {
        let mut addresses: Vec<_> = link.addresses.iter().map(ToString::to_string).collect();
        addresses.extend(link.dhcp4.then(|| "DHCP".to_owned()));
        addresses.extend(link.slaac.then(|| "SLAAC".to_owned()));
        if !addresses.is_empty() {
            parts.push(format!("{}, {}", describe(plan, link), addresses.join(", ")));
        }
    }
    parts.join("; ")
}

fn describe(plan: &NetworkPlan, link: &NetworkLink) -> String {
    let name = &link.name;
    match &link.kind {
        LinkKind::Nic { mac } => format!("{name} ({mac})"),
        LinkKind::Bond { mode, members, .. } => {
            format!("{name} ({} of {})", mode.word(), members.join(", "))
        }
        LinkKind::Vlan { id, on } => {
            let carrier = plan.links.iter().find(|link| link.name == *on);
            let carrier = carrier.map_or_else(|| on.clone(), |carrier| describe(plan, carrier));
            format!("{name}: VLAN {id} on {carrier}")
        }
    }
}

#[cfg(test)]
mod tests {
    use firesteel_wire::network::{HashPolicy, InterfaceAddress};

    use super::*;

    /// Answers in turn; what is left over was not asked.
    struct ScriptedSetup {
        plan: Vec<Result<&'static str, &'static str>>,
        dhcp: Vec<Result<&'static str, &'static str>>,
    }

    impl NetworkSetup for ScriptedSetup {
        fn by_plan(&mut self) -> anyhow::Result<String> {
            self.plan.remove(0).map(str::to_owned).map_err(anyhow::Error::msg)
        }

        fn by_dhcp(&mut self) -> anyhow::Result<String> {
            self.dhcp.remove(0).map(str::to_owned).map_err(anyhow::Error::msg)
        }
    }

    #[test]
    fn the_plan_comes_first_and_a_failed_one_is_told() {
        let mut good = ScriptedSetup { plan: vec![Ok("VLAN 5")], dhcp: Vec::new() };
        assert_eq!(find(&mut good).expect("a way"), NetworkPath { by_plan: true, text: "VLAN 5".into() });
        let mut slip = ScriptedSetup { plan: vec![Err("no link")], dhcp: vec![Ok("DHCP on eth0")] };
        let way = find(&mut slip).expect("a way");
        assert!(!way.by_plan && way.text.contains("no link") && way.text.contains("DHCP on eth0"), "{way:?}");
        let mut late = ScriptedSetup { plan: vec![Err("no link"), Ok("VLAN 5")], dhcp: vec![Err("no answer")] };
        assert!(find(&mut late).expect("a way").by_plan);
    }

    #[test]
    fn rounds_end_with_both_reasons() {
        let mut none = ScriptedSetup { plan: vec![Err("p"); 3], dhcp: vec![Err("d"); 3] };
        assert_eq!(find(&mut none).expect_err("no way").to_string(), "by the network data: p; by DHCP: d");
        assert!(none.plan.is_empty() && none.dhcp.is_empty());
    }

    fn plan() -> NetworkPlan {
        let nic = |name: &str, mac: &str| NetworkLink::new(name, LinkKind::Nic { mac: mac.into() });
        let bond = LinkKind::Bond {
            mode: BondMode::Lacp,
            members: vec!["a".into(), "b".into()],
            mac: None,
            miimon_ms: 100,
            lacp_fast: true,
            hash: HashPolicy::Layer2,
            primary: None,
        };
        let vlan = NetworkLink { dhcp4: true, ..NetworkLink::new("v", LinkKind::Vlan { id: 7, on: "bond".into() }) };
        let links =
            vec![nic("a", "52:54:00:00:00:01"), nic("b", "52:54:00:00:00:02"), NetworkLink::new("bond", bond), vlan];
        NetworkPlan { links, routes: Vec::new() }
    }

    #[test]
    fn the_lowest_obstacle_is_named() {
        let plan = plan();
        let with = |change: fn(&NetworkLink, &mut LinkInputs)| {
            obstacle(&plan, |link| {
                let mut seen = LinkInputs { carrier: true, partner: true, has_lease: true };
                change(link, &mut seen);
                seen
            })
        };
        let says = |found: Option<String>, what: &str| {
            let found = found.expect(what);
            assert!(found.contains(what), "{found:?} is not about {what:?}");
        };
        assert_eq!(with(|_, _| {}), None);
        assert_eq!(with(|link, seen| seen.carrier = link.name != "b"), None, "one member is enough");
        says(with(|link, seen| seen.carrier = link.name == "v"), "no member of bond (a, b)");
        says(with(|_, seen| seen.partner = false), "LACP on bond");
        says(with(|_, seen| seen.has_lease = false), "no DHCP server answers on v; does the switch carry VLAN 7");
    }

    #[test]
    fn an_unused_nic_needs_no_link() {
        let mut plan = plan();
        plan.links.truncate(1);
        plan.links.push(NetworkLink::new("v", LinkKind::Vlan { id: 7, on: "a".into() }));
        plan.links[1].addresses = vec![InterfaceAddress { ip: [192, 0, 2, 9].into(), prefix: 24 }];
        assert!(obstacle(&plan, |_| LinkInputs::default()).is_some_and(|text| text.contains("has no link")));
        plan.links[1].kind = LinkKind::Nic { mac: "52:54:00:00:00:02".into() };
        let only_v = |link: &NetworkLink| LinkInputs { carrier: link.name == "v", ..LinkInputs::default() };
        assert_eq!(obstacle(&plan, only_v), None);
        assert_eq!(summary(&plan), "v (52:54:00:00:00:02), 192.0.2.9/24");
    }

    #[test]
    fn a_plan_in_a_line() {
        assert_eq!(summary(&plan()), "v: VLAN 7 on bond (802.3ad of a, b), DHCP");
    }
}
