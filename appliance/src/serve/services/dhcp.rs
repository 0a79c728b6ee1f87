//! DHCP as a service: sockets, leases, and the task that keeps it in step with the hosts and the object.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use firesteel_dhcp as dhcp;
use firesteel_kube::{Core, ObjectChange, Objects};
use firesteel_net::dhcp::{DhcpHandle, DhcpServer};
use firesteel_net::leases::{LeaseFile, LeaseStore};
use firesteel_net::rogue_server;
use firesteel_network::DhcpPlan;
use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::annotations::RESERVED_ADDRESS;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::ServiceTasks;
use crate::serve::dhcp_clients::{boot_answers, dhcp_events};
use crate::serve::reserved::{DhcpHosts, note_host, reservations};
use crate::serve::service_parts::ServiceParts;

/// How long we listen for another DHCP server before we become one.
const LISTEN_FOR_OTHERS: Duration = Duration::from_secs(3);
/// Long enough that a renewal survives a restart of the appliance, short enough that a pool of a
/// hundred addresses serves a lab in which machines come and go.
const LEASE_TIME: Duration = Duration::from_secs(3600);

/// Gives new settings to DHCP while it runs. The server ends when the last of these is dropped.
#[derive(Clone, Debug)]
pub(super) struct DhcpControl {
    plans: mpsc::Sender<PlanChange>,
    _follower: Arc<EndsWithControl>,
}

/// A task that ends when it is not wanted any more.
#[derive(Debug)]
struct EndsWithControl(AbortHandle);

impl Drop for EndsWithControl {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// New settings, and where the answer goes.
type PlanChange = (DhcpPlan, oneshot::Sender<anyhow::Result<()>>);

impl DhcpControl {
    /// Has the server use these settings. Leases that still fit stay.
    ///
    /// # Errors
    /// When the server refuses them, and goes on with the old ones.
    pub(super) async fn adjust(&self, plan: &DhcpPlan) -> anyhow::Result<()> {
        let (answer, answered) = oneshot::channel();
        self.plans.send((plan.clone(), answer)).await.context("DHCP is not running")?;
        answered.await.context("DHCP is not running")?
    }
}

/// Starts DHCP. Refuses to be the second server on the link.
///
/// # Errors
/// When another server answers, or a socket or the lease file is not available.
pub(super) async fn start(
    tasks: &mut ServiceTasks,
    parts: &Arc<ServiceParts>,
    plan: &DhcpPlan,
) -> anyhow::Result<DhcpControl> {
    let settings = &parts.settings;
    refuse_beside_another(&plan.link.name, settings.allow_other_dhcp).await?;
    let config = checked_config(plan, &settings.relayed)?;
    let network = parts.host_network();
    let boot = boot_answers(network.clone(), settings.upgrade_ipxe);
    let events = dhcp_events(parts.control().clone(), network, settings.upgrade_ipxe);
    let file = parts.data.path("leases.db");
    let leases = LeaseFile { path: &file, durability: settings.lease_durability, room: parts.data.room() };
    let (server, handle) =
        DhcpServer::open(&plan.link.name, config, leases, boot, events).context("could not start DHCP")?;
    // A machine that has its address already may ask for its script as soon as a listener runs.
    for lease in server.leases() {
        parts.control().network.leased(lease.mac, lease.address, lease.expires_at);
    }
    tasks.spawn(async move { server.run().await.context("could not serve DHCP") });
    let (plans, changes) = mpsc::channel(1);
    let follower = DhcpFollower {
        core: parts.core.clone(),
        handle,
        plan: plan.clone(),
        relayed: settings.relayed.clone(),
        changes,
        known: DhcpHosts::new(),
        are_read: false,
        unfit: BTreeSet::new(),
    };
    let follower = tasks.spawn(follower.run());
    Ok(DhcpControl { plans, _follower: Arc::new(EndsWithControl(follower)) })
}

/// Takes in which machines have which addresses by the leases on record. It comes before a listener for boots runs: DHCP
/// listens for others first, and a machine that has its address already asks for its script meanwhile.
pub(super) fn note_stored_leases(parts: &ServiceParts, plan: &DhcpPlan) {
    let file = parts.data.path("leases.db");
    let file = LeaseFile { path: &file, durability: parts.settings.lease_durability, room: parts.data.room() };
    let config = dhcp_config(plan, &parts.settings.relayed, None);
    // What is wrong with the file is said where DHCP starts.
    let Ok(stored) = LeaseStore::read_stored(&file, Timestamp::now()) else { return };
    let is_served = |address: Ipv4Addr| {
        [&config.local].into_iter().chain(&config.relayed).any(|subnet| subnet.network.contains(address))
    };
    for lease in stored.leases.iter().filter(|lease| is_served(lease.address)) {
        parts.control().network.leased(lease.mac, lease.address, lease.expires_at);
    }
}

async fn refuse_beside_another(interface: &str, allowed: bool) -> anyhow::Result<()> {
    tracing::info!(interface, seconds = LISTEN_FOR_OTHERS.as_secs(), "DHCP waits to hear other servers first");
    let other = rogue_server::find(interface, LISTEN_FOR_OTHERS).await;
    match other.context("could not look for other DHCP servers")? {
        None => Ok(()),
        Some(other) if allowed => {
            tracing::warn!(interface, %other, "another DHCP server answers here; --allow-other-dhcp lets DHCP start");
            Ok(())
        }
        Some(other) => anyhow::bail!(
            "{other} answers on {interface}: two servers would give hosts different answers. Switch it off, use \
             another VLAN, give --allow-other-dhcp, or set spec.provisioningNetwork to Unmanaged"
        ),
    }
}

/// Keeps DHCP in step with the hosts and with the object.
struct DhcpFollower {
    core: Core,
    handle: DhcpHandle,
    plan: DhcpPlan,
    relayed: Vec<dhcp::Subnet>,
    changes: mpsc::Receiver<PlanChange>,
    known: DhcpHosts,
    /// A host that is not read yet must not be taken for a stranger.
    are_read: bool,
    /// Reservations that were refused, as they were logged.
    unfit: BTreeSet<String>,
}

impl DhcpFollower {
    async fn run(mut self) -> anyhow::Result<()> {
        let hosts: Objects<BareMetalHost> = Objects::new(&self.core, "metal3.io", "BareMetalHost")?;
        let mut hosts = hosts.subscribe().await?;
        loop {
            tokio::select! {
                change = hosts.next() => {
                    let change = change?;
                    let is_last = matches!(change, ObjectChange::Synced);
                    self.are_read |= is_last;
                    if (note_host(&mut self.known, change) || is_last) && self.are_read
                        && let Err(error) = self.reconfigure().await
                    {
                        tracing::warn!(error = format!("{error:#}"), "could not give DHCP the hosts: it goes on as before");
                    }
                }
                change = self.changes.recv() => {
                    let Some((plan, answer)) = change else { return Ok(()) };
                    let before = std::mem::replace(&mut self.plan, plan);
                    let done = self.reconfigure().await;
                    if done.is_err() {
                        self.plan = before;
                    }
                    // Who asked may have gone.
                    drop(answer.send(done));
                }
            }
        }
    }

    async fn reconfigure(&mut self) -> anyhow::Result<()> {
        let mut config = dhcp_config(&self.plan, &self.relayed, self.are_read.then_some(&self.known));
        let refused = config.reserve(reservations(&self.known));
        let unfit: BTreeSet<String> = refused.iter().map(ToString::to_string).collect();
        for error in unfit.difference(&self.unfit) {
            tracing::warn!(%error, "could not reserve the address of a host (annotation {RESERVED_ADDRESS})");
        }
        self.unfit = unfit;
        Ok(self.handle.reconfigure(config).await?)
    }
}

/// Makes the configuration with which DHCP starts, or says which part cannot be served.
fn checked_config(plan: &DhcpPlan, relayed: &[dhcp::Subnet]) -> anyhow::Result<dhcp::DhcpConfig> {
    let config = dhcp_config(plan, relayed, None);
    config.check().context("spec, with the networks of --relayed")?;
    Ok(config)
}

/// Makes the DHCP configuration. If `hosts` are not read yet, no client counts as a stranger. Reserved addresses are
/// added later ([`reservations`]).
fn dhcp_config(plan: &DhcpPlan, relayed: &[dhcp::Subnet], hosts: Option<&DhcpHosts>) -> dhcp::DhcpConfig {
    let block = dhcp::Ipv4Network { address: plan.network, prefix_length: plan.prefix_length };
    let range = dhcp::Pool { first: plan.range.0, last: plan.range.1 };
    dhcp::DhcpConfig {
        server_address: plan.address,
        local: dhcp::Subnet { network: block, pool: pool_of_hosts(block, range), router: plan.gateway },
        relayed: relayed.to_vec(),
        dns: if plan.dns { vec![plan.address] } else { Vec::new() },
        ntp: plan.ntp.clone(),
        domain: None,
        lease_time: LEASE_TIME,
        reservations: BTreeMap::new(),
        known: hosts.map(|hosts| hosts.values().map(|host| host.mac).collect()),
    }
}

/// Returns the range without the network's own and its broadcast address: upstream's rules accept them, but no host can
/// have them.
fn pool_of_hosts(block: dhcp::Ipv4Network, range: dhcp::Pool) -> Option<dhcp::Pool> {
    let inner = |address: Ipv4Addr, by: i32| {
        if block.is_host(address) { address } else { u32::from(address).saturating_add_signed(by).into() }
    };
    let pool = dhcp::Pool { first: inner(range.first, 1), last: inner(range.last, -1) };
    (pool.first <= pool.last).then_some(pool)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::net::IpAddr;

    use firesteel_network::{InterfaceFacts, NetworkSettings, ServicePlan, ServicePlanInput, plan_services};
    use firesteel_resources::kinds::PROVISIONING;
    use firesteel_resources::provisioning::SINGLETON;
    use firesteel_resources::{Provisioning, admit};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Returns the plan of an admitted object, or why there is none, and the warnings of its admission.
    fn planned(spec: &Value) -> Option<(Result<ServicePlan, String>, Vec<String>)> {
        let mut object = json!({"metadata": {"name": SINGLETON}, "spec": spec});
        let admission = admit(&PROVISIONING, &mut object, None);
        if !admission.causes.is_empty() {
            return None;
        }
        let object = admit::decode::<Provisioning>(&object).unwrap();
        let api_address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let settings = NetworkSettings { interface: None, api_address, has_boot_files: true };
        let interface = InterfaceFacts { name: "s0".to_owned(), index: 3, mac: None, addresses: Vec::new() };
        let (plan, fault) = plan_services(ServicePlanInput {
            network: &object.network().unwrap(),
            os_image_url: "",
            sensors: None,
            named_time_servers: &[],
            settings: &settings,
            interfaces: &[interface],
        });
        Some((fault.map_or(Ok(plan), |fault| Err(fault.to_string())), admission.warnings))
    }

    fn word(words: &[&'static str]) -> impl Strategy<Value = &'static str> + use<> {
        prop::sample::select(words.to_vec())
    }

    fn spec() -> impl Strategy<Value = Value> {
        let addresses =
            word(&["", "10.77.0.1", "10.77.0.0", "10.77.255.255", "10.77.0.255", "fd00::1", "10.77.0.1/24"]);
        let blocks =
            word(&["", "10.77.0.0/24", "10.77.0.0/16", "10.76.0.0/14", "10.0.0.0/8", "10.77.0.0/31", "fd00::/64"]);
        let ranges = word(&[
            "",
            "10.77.0.10,10.77.0.20",
            "10.77.0.10, 10.77.0.255",
            "10.77.0.255,10.77.0.255",
            "10.77.1.0,10.79.255.255",
            "10.77.1.0,10.78.0.255",
            "10.77.0.2,10.77.255.255",
            "fd00::10,fd00::20",
            "10.77.0.0,10.77.0.0",
        ]);
        let gateways = word(&["", "10.77.0.254", "10.77.0.1", "fd00::fe"]);
        let servers = prop::collection::vec(word(&["10.77.0.3", "ntp.example.com", "fd00::2"]), 0..12);
        let modes = word(&["", "Managed", "Unmanaged", "Disabled"]);
        (modes, addresses, blocks, ranges, gateways, servers).prop_map(|(mode, ip, cidr, range, gateway, servers)| {
            json!({"provisioningNetwork": mode, "provisioningIP": ip, "provisioningNetworkCIDR": cidr,
                "provisioningDHCPRange": range, "provisioningNetworkGateway": gateway, "additionalNTPServers": servers,
                "provisioningInterface": "s0"})
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        /// An object that is accepted without a warning can be served by every part; otherwise there is a warning.
        #[test]
        fn what_is_accepted_without_a_warning_can_be_served(spec in spec()) {
            let Some((plan, warnings)) = planned(&spec) else { return Ok(()) };
            let is_warned = warnings.iter().any(|line| line.contains("no machine is served"));
            let fits = |plan: ServicePlan| plan.dhcp.is_none_or(|dhcp| checked_config(&dhcp, &[]).is_ok());
            prop_assert_eq!(!plan.clone().is_ok_and(fits), is_warned, "{:?} {:?}", plan, warnings);
        }
    }

    #[test]
    fn networks_behind_relays_that_overlap_are_named() {
        let spec = json!({"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.0.0.0/8",
            "provisioningDHCPRange": "10.77.0.10,10.77.0.20", "provisioningInterface": "s0"});
        let dhcp = planned(&spec).unwrap().0.unwrap().dhcp.unwrap();
        let network = dhcp::Ipv4Network { address: Ipv4Addr::new(10, 88, 0, 0), prefix_length: 24 };
        let relayed = dhcp::Subnet { network, pool: None, router: None };
        let why = format!("{:#}", checked_config(&dhcp, &[relayed]).unwrap_err());
        assert!(why.contains("--relayed") && why.contains("overlap"), "{why}");
    }

    #[test]
    fn the_ends_of_the_network_are_not_leased() {
        let spec = json!({"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.77.0.0/24",
            "provisioningDHCPRange": "10.77.0.2,10.77.0.255", "provisioningInterface": "s0", "provisioningDNS": true});
        let config = dhcp_config(&planned(&spec).unwrap().0.unwrap().dhcp.unwrap(), &[], None);
        let pool = dhcp::Pool { first: Ipv4Addr::new(10, 77, 0, 2), last: Ipv4Addr::new(10, 77, 0, 254) };
        assert_eq!((config.local.pool, config.dns), (Some(pool), vec![Ipv4Addr::new(10, 77, 0, 1)]));
    }
}
