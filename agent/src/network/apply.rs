//! Carries a [`NetworkPlan`] out, and undoes it.
//!
//! Links that the plan makes are called `plan0`, `plan1`, … by their place in it, whatever the owner calls them: the
//! bonding driver makes a `bond0` of its own when it is loaded, and a name may be longer than the kernel's 15 bytes.
//! Their modules are loaded by the kernel's own request when they are first made (see [`firesteel_modules`]).

use std::net::IpAddr;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use anyhow::{Context, bail};
use firesteel_facts::Mac;
use firesteel_netlink::{Bond, Netlink};
use firesteel_os as os;
use firesteel_sysfs::{Roots, attribute, names, nics};
use firesteel_wire::NetworkPlan;
use firesteel_wire::network::{HashPolicy, LinkKind, NetworkLink};

use super::lease::AgentLease;
use super::path_selection::{LinkInputs, obstacle};

/// What the names of links that a plan made begin with.
const PREFIX: &str = "plan";
/// NICs whose driver or firmware comes late appear within this.
const NICS_WAIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A plan that is being carried out. [`AppliedNetwork::undo`] takes it back; dropped, it stays.
#[derive(Debug)]
pub(super) struct AppliedNetwork<'a> {
    roots: &'a Roots,
    plan: &'a NetworkPlan,
    /// The kernel's name of each link of the plan; none for the missing member of a bond.
    interfaces: Vec<Option<String>>,
    /// Addresses on NICs, which stay when links go.
    addresses: Vec<(String, IpAddr, u8)>,
    leases: Vec<(usize, AgentLease)>,
}

impl<'a> AppliedNetwork<'a> {
    pub(super) fn new(roots: &'a Roots, plan: &'a NetworkPlan) -> Self {
        let interfaces = vec![None; plan.links.len()];
        Self { roots, plan, interfaces, addresses: Vec::new(), leases: Vec::new() }
    }

    /// Makes everything that the plan says; addresses by DHCP come later.
    pub(super) fn apply(&mut self) -> anyhow::Result<()> {
        let mut netlink = Netlink::open().context("speaking with the kernel")?;
        remove_leftovers(self.roots, &mut netlink)?;
        self.find_nics()?;
        for (index, link) in self.plan.links.iter().enumerate() {
            self.make(&mut netlink, index, link).with_context(|| format!("making {}", link.name))?;
        }
        for (index, link) in self.plan.links.iter().enumerate() {
            let Some(interface) = self.interfaces[index].clone() else { continue };
            self.address(&mut netlink, index, link, &interface)
                .with_context(|| format!("giving {} its addresses", link.name))?;
        }
        for route in &self.plan.routes {
            let on = route.on.as_deref().and_then(|name| self.interface_of(name));
            netlink
                .add_route(route.to.ip, route.to.prefix, route.via, on, route.metric)
                .with_context(|| format!("adding the route to {}", route.to))?;
        }
        Ok(())
    }

    /// The kernel's names of the plan's NICs. A bond is made without the members that are not there.
    fn find_nics(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let mut missing = None;
            for (index, link) in self.plan.links.iter().enumerate() {
                let LinkKind::Nic { mac } = &link.kind else { continue };
                self.interfaces[index] = nics::find_by_mac(self.roots, mac);
                if self.interfaces[index].is_none() {
                    missing = Some((link, mac));
                }
            }
            let Some((link, mac)) = missing else { return Ok(()) };
            if began.elapsed() < NICS_WAIT {
                thread::sleep(LOOK_AGAIN);
                continue;
            }
            let have = nics::macs(self.roots).join(", ");
            if !self.bonds_can_do_without() {
                bail!("no NIC has the address {mac} of {} (found: {have})", link.name);
            }
            tracing::warn!("no NIC has the address {mac} of {} (found: {have}); its bond goes without", link.name);
            return Ok(());
        }
    }

    /// Each NIC that is missing is a bond's, and that bond has another member.
    fn bonds_can_do_without(&self) -> bool {
        self.plan.links.iter().zip(&self.interfaces).all(|(nic, found)| {
            let is_nic = matches!(nic.kind, LinkKind::Nic { .. });
            !is_nic || found.is_some() || self.plan.links.iter().any(|bond| self.has_other_member(bond, &nic.name))
        })
    }

    fn has_other_member(&self, bond: &NetworkLink, missing: &str) -> bool {
        let LinkKind::Bond { members, .. } = &bond.kind else { return false };
        members.iter().any(|member| member == missing)
            && members.iter().any(|member| self.interface_of(member).is_some())
    }

    fn interface_of(&self, name: &str) -> Option<&str> {
        let index = self.plan.links.iter().position(|link| link.name == name)?;
        self.interfaces[index].as_deref()
    }

    fn make(&mut self, netlink: &mut Netlink, index: usize, link: &NetworkLink) -> anyhow::Result<()> {
        let own = format!("{PREFIX}{index}");
        match &link.kind {
            LinkKind::Nic { .. } => {}
            LinkKind::Bond { mode, members, mac, miimon_ms, lacp_fast, hash, primary } => {
                let bond = Bond {
                    mode: *mode,
                    miimon_ms: *miimon_ms,
                    lacp_fast: *lacp_fast,
                    hash: match hash {
                        HashPolicy::Layer2 => 0,
                        HashPolicy::Layer34 => 1,
                        HashPolicy::Layer23 => 2,
                    },
                };
                let mac = mac.as_ref().and_then(|mac| mac.parse().ok()).map(|Mac(bytes)| bytes);
                netlink.add_bond(&own, bond, mac).context("making the bond")?;
                self.interfaces[index] = Some(own.clone());
                for member in members {
                    let Some(nic) = self.interface_of(member) else { continue };
                    netlink.switch(nic, false).with_context(|| format!("switching {nic} off"))?;
                    netlink.set_master(nic, &own).with_context(|| format!("adding {nic} to the bond"))?;
                }
                if let Some(nic) = primary.as_deref().and_then(|primary| self.interface_of(primary)) {
                    netlink.set_primary(&own, nic).with_context(|| format!("making {nic} the primary"))?;
                }
            }
            LinkKind::Vlan { id, on } => {
                let on = self.interface_of(on).context("what carries the VLAN is not there")?;
                netlink.add_vlan(&own, on, *id).context("making the VLAN")?;
                self.interfaces[index] = Some(own);
            }
        }
        let Some(interface) = &self.interfaces[index] else { return Ok(()) };
        let conf = self.roots.proc.join("sys/net/ipv6/conf").join(interface).join("accept_ra");
        if let Err(error) = fs::write(&conf, if link.slaac { "1" } else { "0" }) {
            tracing::debug!("{}: {error}", conf.display());
        }
        if let Some(mtu) = link.mtu {
            os::network::set_mtu(interface, mtu).with_context(|| format!("setting the MTU {mtu}"))?;
        }
        netlink.switch(interface, true).with_context(|| format!("switching {interface} on"))
    }

    fn address(
        &mut self,
        netlink: &mut Netlink,
        index: usize,
        link: &NetworkLink,
        interface: &str,
    ) -> anyhow::Result<()> {
        for address in &link.addresses {
            netlink.add_address(interface, address.ip, address.prefix).with_context(|| address.to_string())?;
            self.addresses.push((interface.to_owned(), address.ip, address.prefix));
        }
        if link.dhcp4 {
            let mac = attribute(&self.roots.sys.join("class/net").join(interface).join("address"));
            let mac = mac.parse().context("reading its hardware address")?;
            self.leases.push((index, AgentLease::keep(interface, mac)));
        }
        Ok(())
    }

    /// What keeps it from working right now.
    pub(super) fn obstacle(&self) -> Option<String> {
        obstacle(self.plan, |link| self.link_state(link))
    }

    fn link_state(&self, link: &NetworkLink) -> LinkInputs {
        let Some(index) = self.plan.links.iter().position(|known| known.name == link.name) else {
            return LinkInputs::default();
        };
        let Some(interface) = &self.interfaces[index] else { return LinkInputs::default() };
        let partner = self.roots.sys.join("class/net").join(interface).join("bonding/ad_partner_mac");
        let partner = attribute(&partner);
        LinkInputs {
            carrier: nics::has_carrier(self.roots, interface),
            partner: !partner.is_empty() && partner != "00:00:00:00:00:00",
            has_lease: self.leases.iter().any(|(of, lease)| *of == index && lease.is_bound()),
        }
    }

    /// Takes back what was done, in as far as it was; the NICs are off afterwards.
    pub(super) fn undo(self) {
        self.leases.into_iter().for_each(|(_, lease)| lease.end());
        let mut netlink = match Netlink::open() {
            Ok(netlink) => netlink,
            Err(error) => return tracing::warn!("could not undo the network plan: {error}"),
        };
        // Each part by itself: what is gone already is no reason to leave the rest.
        let note = |what: &str, done: io::Result<()>| {
            if let Err(error) = done {
                tracing::warn!("could not undo the network plan on {what}: {error}; the rest is undone");
            }
        };
        for (interface, ip, prefix) in &self.addresses {
            // Those of links that were made go with them.
            if !interface.starts_with(PREFIX) {
                note(interface, netlink.remove_address(interface, *ip, *prefix));
            }
        }
        for (link, interface) in self.plan.links.iter().zip(&self.interfaces).rev() {
            let Some(interface) = interface else { continue };
            match link.kind {
                LinkKind::Nic { .. } => note(interface, netlink.switch(interface, false)),
                LinkKind::Bond { .. } | LinkKind::Vlan { .. } => note(interface, netlink.remove(interface)),
            }
        }
    }
}

/// A worker that died left its links and addresses behind.
fn remove_leftovers(roots: &Roots, netlink: &mut Netlink) -> anyhow::Result<()> {
    for name in names(&roots.sys.join("class/net")) {
        let number = name.strip_prefix(PREFIX);
        if number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())) {
            // A VLAN goes with the bond that carries it.
            if let Err(error) = netlink.remove(&name)
                && error.raw_os_error() != Some(libc::ENODEV)
            {
                return Err(error).with_context(|| format!("removing {name}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
