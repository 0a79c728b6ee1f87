//! The way to the appliance. Without network data it is DHCP on the interface that booted, and is renewed for as long
//! as the agent runs; with a plan in the seed it is that plan: VLANs, bonds, several NICs, fixed addresses.
//!
//! A plan counts as done when the appliance's port answers, not when the kernel took it: a switch port may hold traffic
//! back for 30 s after the link came up (spanning tree), LACP has to find its partner, a tag may be wrong. The console
//! shows what is missing meanwhile. A plan that does not lead to the appliance in its time is undone. DHCP on the
//! booting interface is tried then, by which the ramdisk itself has come; [`path_selection`] decides. The hello says
//! which way it was.
//!
//! There is no resolver and no need for one: every URL that the agent gets has an address in it.

mod apply;
mod lease;
pub mod path_selection;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use firesteel_facts::Mac;
use firesteel_modules as modules;
use firesteel_os as os;
use firesteel_sysfs::{Roots, nics};
use firesteel_wire::{NetworkPlan, Seed, network::NetworkPath};

use self::{apply::AppliedNetwork, lease::AgentLease, path_selection::NetworkSetup};

/// NICs whose firmware loads late or whose bus is scanned late appear within this.
const INTERFACE_WAIT: Duration = Duration::from_secs(120);
/// A switch port may stay shut for 30 s after the link came up (spanning tree), and some drivers
/// never report a carrier: after this DHCP is tried anyway.
const CARRIER_WAIT: Duration = Duration::from_secs(30);
/// How long DHCP may give no answer before the worker starts over, and after three times the host.
const LEASE_WAIT: Duration = Duration::from_secs(300);
/// How long a plan has to lead to the appliance: twice spanning tree's 30 s, LACP's slow 30 s, and a DHCP server that
/// is asked again. Less than the planner waits for the hello.
const PLAN_WAIT: Duration = Duration::from_secs(120);
/// How long DHCP on the interface that has just booted has to lead to the appliance.
const DHCP_WAIT: Duration = Duration::from_secs(90);
/// One knock at the appliance's door.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// How often the console shows what is waited for.
const SAY_AGAIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const KNOCK_AGAIN: Duration = Duration::from_millis(500);

/// Brings the network up; returns when the host has an address and, where the seed has a plan, when the appliance
/// answers: then with the way that it was.
pub fn bring_up(roots: &Roots, seed: &Seed) -> anyhow::Result<Option<NetworkPath>> {
    os::network::set_up("lo").context("switching on lo")?;
    let Some(plan) = &seed.network else {
        by_dhcp(roots, &seed.boot_mac)?;
        return Ok(None);
    };
    if let Err(error) = plan.check() {
        bail!("the network plan in the seed cannot be carried out: {error}");
    }
    let appliance = door(&seed.appliance)?;
    let mut both = RealNetworkSetup { roots, plan, appliance, boot_mac: &seed.boot_mac };
    let way = path_selection::find(&mut both).context("the appliance is not reached")?;
    tracing::info!("the appliance is reached: {}", way.text);
    Ok(Some(way))
}

/// Address and port of an `https://192.0.2.1:8443`.
fn door(appliance: &str) -> anyhow::Result<SocketAddr> {
    let url = reqwest::Url::parse(appliance).context("reading the appliance's address")?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let ip: IpAddr = host.parse().context("the appliance's address is no IP address")?;
    Ok(SocketAddr::new(ip, url.port_or_known_default().unwrap_or(443)))
}

/// Brings the booting interface up by DHCP.
fn by_dhcp(roots: &Roots, boot_mac: &str) -> anyhow::Result<()> {
    let (interface, mac) = set_up_interface(roots, boot_mac)?;
    wait_for_carrier(roots, &interface);
    let lease = AgentLease::keep(&interface, mac);
    let (asked, mut said) = (Instant::now(), Instant::now());
    while !lease.is_bound() {
        if asked.elapsed() > LEASE_WAIT {
            bail!("no DHCP server answered on {interface} for {} s", LEASE_WAIT.as_secs());
        }
        if said.elapsed() > SAY_AGAIN {
            said = Instant::now();
            tracing::info!("no DHCP server has answered on {interface} yet");
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// The real ways; see [`path_selection`].
struct RealNetworkSetup<'a> {
    roots: &'a Roots,
    plan: &'a NetworkPlan,
    appliance: SocketAddr,
    boot_mac: &'a str,
}

impl NetworkSetup for RealNetworkSetup<'_> {
    fn by_plan(&mut self) -> anyhow::Result<String> {
        let summary = path_selection::summary(self.plan);
        tracing::info!("the network by the host's network data: {summary}");
        let mut applied = AppliedNetwork::new(self.roots, self.plan);
        match applied.apply().and_then(|()| reach(self.appliance, PLAN_WAIT, || applied.obstacle())) {
            Ok(waited) => Ok(format!("by the network data: {summary}{waited}")),
            Err(error) => {
                applied.undo();
                Err(error)
            }
        }
    }

    fn by_dhcp(&mut self) -> anyhow::Result<String> {
        let (interface, mac) = set_up_interface(self.roots, self.boot_mac)?;
        tracing::info!("the network by DHCP on {interface}, which booted");
        let lease = AgentLease::keep(&interface, mac);
        let obstacle = || {
            if !nics::has_carrier(self.roots, &interface) {
                return Some(format!("{interface} has no link"));
            }
            (!lease.is_bound()).then(|| format!("no DHCP server answers on {interface}"))
        };
        match reach(self.appliance, DHCP_WAIT, obstacle) {
            Ok(_) => Ok(format!("DHCP on {interface}, which booted,")),
            Err(error) => {
                lease.end();
                Err(error)
            }
        }
    }
}

/// Knocks until the appliance answers. Returns what was waited for last, for the record; the error is what was missing
/// at the end.
fn reach(appliance: SocketAddr, within: Duration, obstacle: impl Fn() -> Option<String>) -> anyhow::Result<String> {
    let began = Instant::now();
    let mut said: Option<(String, Instant)> = None;
    let mut waited = String::new();
    loop {
        let now = obstacle();
        let silent = match (&now, TcpStream::connect_timeout(&appliance, CONNECT_WAIT)) {
            (_, Ok(_)) => return Ok(waited),
            (Some(_), Err(_)) => String::new(),
            (None, Err(error)) => {
                format!("{appliance} does not answer ({error}); a switch port may hold traffic back for 30 s")
            }
        };
        let text = now.unwrap_or(silent);
        let seconds = began.elapsed().as_secs();
        if began.elapsed() > within {
            bail!("after {seconds} s: {text}");
        }
        waited = format!("; waited {seconds} s: {text}");
        if said.as_ref().is_none_or(|(before, at)| *before != text || at.elapsed() > SAY_AGAIN) {
            tracing::info!("the appliance is not reached yet: {text}");
            said = Some((text, Instant::now()));
        }
        thread::sleep(KNOCK_AGAIN);
    }
}

/// Switches the booting interface on.
fn set_up_interface(roots: &Roots, boot_mac: &str) -> anyhow::Result<(String, Mac)> {
    let interface = find_interface(roots, boot_mac)?;
    let mac = boot_mac.parse().map_err(|_| anyhow!("the seed's boot MAC is none"))?;
    os::network::set_up(&interface).with_context(|| format!("switching on {interface}"))?;
    Ok((interface, mac))
}

fn find_interface(roots: &Roots, mac: &str) -> anyhow::Result<String> {
    let (began, mut said) = (Instant::now(), Instant::now());
    loop {
        if let Some(interface) = nics::find_by_mac(roots, mac) {
            tracing::info!("booted from {interface} ({mac})");
            return Ok(interface);
        }
        if began.elapsed() > INTERFACE_WAIT {
            let have = nics::macs(roots);
            let have = if have.is_empty() { "none at all".to_owned() } else { have.join(", ") };
            bail!(
                "no network interface has the address {mac} that this host booted from (found: {have}); its driver \
                 may be missing from the ramdisk"
            );
        }
        if said.elapsed() > SAY_AGAIN {
            said = Instant::now();
            tracing::info!("no network interface has the address {mac} yet");
            modules::load_for_hardware(Path::new("/"));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn wait_for_carrier(roots: &Roots, interface: &str) {
    let began = Instant::now();
    while !nics::has_carrier(roots, interface) {
        if began.elapsed() > CARRIER_WAIT {
            tracing::warn!("{interface} has no link after {} s; DHCP is tried anyway", CARRIER_WAIT.as_secs());
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_door_is_an_address() {
        assert_eq!(door("https://192.0.2.1:8443").unwrap().to_string(), "192.0.2.1:8443");
        assert_eq!(door("https://[2001:db8::1]").unwrap().to_string(), "[2001:db8::1]:443");
        assert!(door("https://appliance.example:8443").is_err());
        assert!(door("nonsense").is_err());
    }

    #[test]
    fn an_appliance_that_answers_is_reached_whatever_is_missing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(reach(address, Duration::ZERO, || Some("a sensor that lies".into())).unwrap(), "");
        drop(listener);
        let error = reach(address, Duration::ZERO, || Some("no link".into())).unwrap_err().to_string();
        assert!(error.ends_with(" s: no link"), "{error}");
        let error = reach(address, Duration::ZERO, || None).unwrap_err().to_string();
        assert!(error.contains("does not answer"), "{error}");
    }
}
