//! The provisioning network: turns the Provisioning object into DHCP and TFTP.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use firesteel_boot::{Endpoints, autoexec};
use firesteel_control::{Control, NetworkEvent};
use firesteel_dhcp as dhcp;
use firesteel_kube::{Core, ObjectChange, Objects};
use firesteel_resources::bare_metal_host::annotations::RESERVED_ADDRESS;
use firesteel_resources::provisioning::{NetworkMode, ProvisioningNetwork};
use firesteel_resources::{BareMetalHost, Provisioning};
use tokio::task::JoinSet;

use super::data_dir::DataDir;
use super::dhcp_clients::{boot_answers, dhcp_events};
use super::network_check;
use super::network_problem::NetworkProblem;
use super::reserved::{DhcpHosts, note_host, reservations};
use super::settings::Settings;
use crate::http::boot_files::BootFiles;
use firesteel_net::dhcp::{DhcpHandle, DhcpServer};
use firesteel_net::leases::LeaseFile;
use firesteel_net::rogue_server;
use firesteel_net::tftp::{HostsAt, TftpServer};

/// Long enough that a renewal survives a restart of the appliance, short enough that a pool of a
/// hundred addresses serves a lab in which machines come and go.
const LEASE_TIME: Duration = Duration::from_secs(3600);

/// The network that this process serves.
#[derive(Clone, Debug)]
pub struct ServedNetwork {
    pub interface: String,
    pub address: Ipv4Addr,
    pub network: ProvisioningNetwork,
    /// The networks behind relays.
    pub relayed: Vec<dhcp::Subnet>,
}

/// Reads the Provisioning object; at the first start, creates it from the file.
///
/// # Errors
/// When a file or a flag is wrong. If the stored network cannot be served, the error is [`NetworkProblem`], and the API
/// runs without machines.
pub(super) async fn open(core: &Core, settings: &Settings) -> anyhow::Result<ServedNetwork> {
    let provisioning = match (network_check::stored(core).await?, &settings.provisioning) {
        (Some(stored), Some(path)) => {
            network_check::warn_of_another(path, &stored);
            stored
        }
        (Some(stored), None) => stored,
        (None, Some(path)) => {
            let object: Provisioning = network_check::read(path)?;
            let objects = network_check::objects(core)?;
            objects.create(&object).await.with_context(|| path.display().to_string())?
        }
        (None, None) => return Err(NetworkProblem::Unservable(network_check::NONE_STORED.to_owned()).into()),
    };
    network_check::served(&provisioning, settings)
}

impl ServedNetwork {
    /// Tells whether a running process can change to that network; other changes need new sockets.
    pub(super) fn takes_over(&self, wanted: &Self) -> bool {
        let key = |served: &Self| (served.network.mode, served.network.address, served.network.cidr);
        key(self) == key(wanted) && self.interface == wanted.interface
    }
}

/// Checks whether DHCP can serve this network.
///
/// # Errors
/// The part that cannot be served.
pub(super) fn check_dhcp(served: &ServedNetwork) -> anyhow::Result<()> {
    // The addresses of hosts are reserved once everything runs.
    dhcp_config(served, None)?.check().context("spec, with the networks of --relayed")
}

/// DHCP and TFTP, bound and ready.
#[derive(Debug)]
pub struct Services {
    dhcp: Option<(DhcpServer, DhcpHandle)>,
    tftp: Option<TftpServer>,
    served: ServedNetwork,
    settings: Settings,
}

impl Services {
    /// Binds what the mode requires. Refuses to be the second DHCP server on the wire.
    ///
    /// # Errors
    /// When another server answers, or a socket is not available.
    pub async fn open(
        served: &ServedNetwork,
        settings: &Settings,
        data: &DataDir,
        control: &Control,
        files: &BootFiles,
        hosts: HostsAt,
        endpoints: Endpoints,
    ) -> anyhow::Result<Self> {
        let mode = served.network.mode;
        let dhcp = if mode == NetworkMode::Managed {
            refuse_beside_another(&served.interface, settings.allow_other_dhcp).await?;
            let config = dhcp_config(served, None)?;
            let boot = boot_answers(endpoints, settings.upgrade_ipxe);
            let events = dhcp_events(control.clone(), endpoints, settings.upgrade_ipxe);
            let file = data.path("leases.db");
            let leases = LeaseFile { path: &file, durability: settings.lease_durability, room: data.room() };
            let opened = DhcpServer::open(&served.interface, config, leases, boot, events);
            let (server, handle) = opened.context("could not start DHCP")?;
            // A machine that has its address already may ask for its script as soon as a listener runs.
            for lease in server.leases() {
                control.network.leased(lease.mac, lease.address, lease.expires_at);
            }
            Some((server, handle))
        } else {
            tracing::info!(?mode, "DHCP is not served: another server does that here");
            None
        };
        let tftp =
            (mode != NetworkMode::Disabled).then(|| open_tftp(served, control, files, hosts, endpoints)).transpose()?;
        Ok(Self { dhcp, tftp, served: served.clone(), settings: settings.clone() })
    }

    /// Starts what was bound.
    pub fn spawn(self, tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core) {
        if let Some((server, handle)) = self.dhcp {
            tasks.spawn(async move { server.run().await.context("could not serve DHCP") });
            tasks.spawn(follow(core.clone(), handle, self.served, self.settings));
        }
        if let Some(server) = self.tftp {
            tasks.spawn(async move { server.run().await.context("could not serve TFTP") });
        }
    }
}

async fn refuse_beside_another(interface: &str, allowed: bool) -> anyhow::Result<()> {
    tracing::info!(interface, seconds = super::LISTEN_FOR_OTHERS.as_secs(), "DHCP waits to hear other servers first");
    let other = rogue_server::find(interface, super::LISTEN_FOR_OTHERS).await;
    match other.context("could not look for other DHCP servers")? {
        None => Ok(()),
        Some(other) if allowed => {
            tracing::warn!(interface, %other, "another DHCP server answers here; --allow-other-dhcp lets DHCP start");
            Ok(())
        }
        Some(other) => anyhow::bail!(
            "{other} answers on {interface}: two servers would give hosts different answers. Switch it off, use \
             another VLAN, give --allow-other-dhcp, or start with --api-only and set spec.provisioningNetwork to \
             Unmanaged"
        ),
    }
}

/// Makes the DHCP configuration. If `hosts` are not read yet, no client counts as a stranger. Reserved addresses are
/// added later ([`reservations`]).
fn dhcp_config(served: &ServedNetwork, hosts: Option<&DhcpHosts>) -> anyhow::Result<dhcp::DhcpConfig> {
    let v4 = |address: IpAddr| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    };
    let network = &served.network;
    let cidr = network.cidr.context("provisioningNetworkCIDR is needed")?;
    let base = v4(cidr.network()).context("provisioningNetworkCIDR: only IPv4 is served yet")?;
    let block = dhcp::Ipv4Network { address: base, prefix_length: cidr.prefix_len() };
    let range = network.range.and_then(|(first, last)| Some(dhcp::Pool { first: v4(first)?, last: v4(last)? }));
    Ok(dhcp::DhcpConfig {
        server_address: served.address,
        local: dhcp::Subnet {
            network: block,
            pool: range.and_then(|range| pool_of_hosts(block, range)),
            router: network.gateway.and_then(v4),
        },
        relayed: served.relayed.clone(),
        dns: if network.dns { vec![served.address] } else { Vec::new() },
        ntp: network.ntp_servers.clone(),
        domain: None,
        lease_time: LEASE_TIME,
        reservations: BTreeMap::new(),
        known: hosts.map(|hosts| hosts.values().map(|host| host.mac).collect()),
    })
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

fn open_tftp(
    served: &ServedNetwork,
    control: &Control,
    files: &BootFiles,
    hosts: HostsAt,
    endpoints: Endpoints,
) -> anyhow::Result<TftpServer> {
    let autoexec = Bytes::from(autoexec(&endpoints));
    let loaders = Arc::clone(&files.loaders);
    let lookup = Arc::new(move |path: &str| {
        let name = firesteel_tftp::base_name(path);
        if name == "autoexec.ipxe" {
            return Some(autoexec.clone());
        }
        loaders.get(name).map(|blob| blob.bytes.clone())
    });
    let control = control.clone();
    let events = Arc::new(move |event: &firesteel_tftp::TransferEvent| tftp_event(&control, event));
    TftpServer::open(&served.interface, served.address, hosts, lookup, events).context("could not start TFTP")
}

fn tftp_event(control: &Control, event: &firesteel_tftp::TransferEvent) {
    use firesteel_tftp::TransferEvent;
    match event {
        TransferEvent::Finished { client, file, bytes, .. } => {
            let note = NetworkEvent::Loader { file: file.clone(), bytes: *bytes, via: "tftp" };
            control.network.note_address(client.ip(), note);
        }
        TransferEvent::Failed { client, file, reason, bytes_acknowledged } => {
            let reason = format!("{reason:?} after {bytes_acknowledged} bytes");
            control.network.note_address(client.ip(), NetworkEvent::LoaderFailed { file: file.clone(), reason });
        }
        TransferEvent::Refused { client, file, reason } => {
            let file = file.clone().unwrap_or_default();
            control
                .network
                .note_address(client.ip(), NetworkEvent::LoaderFailed { file, reason: (*reason).to_owned() });
        }
        TransferEvent::Started { .. } | TransferEvent::Probed { .. } => {}
    }
}

/// Keeps DHCP in step with the objects: addresses that hosts reserve by annotation, and the settings of the
/// Provisioning object that may change while it runs (pool, gateway, DNS, NTP).
async fn follow(core: Core, handle: DhcpHandle, mut served: ServedNetwork, settings: Settings) -> anyhow::Result<()> {
    let hosts: Objects<BareMetalHost> = Objects::new(&core, "metal3.io", "BareMetalHost")?;
    let networks: Objects<Provisioning> = Objects::new(&core, "metal3.io", "Provisioning")?;
    let mut hosts = hosts.subscribe().await?;
    let mut networks = networks.subscribe().await?;
    let mut known = DhcpHosts::new();
    let (mut all_read, mut unfit_before) = (false, BTreeSet::new());
    loop {
        let changed = tokio::select! {
            change = hosts.next() => {
                let change = change?;
                let was_read = all_read;
                all_read |= matches!(change, ObjectChange::Synced);
                note_host(&mut known, change) || all_read != was_read
            }
            change = networks.next() => match change? {
                ObjectChange::Applied(object) => adopt_network(&mut served, &object, &settings),
                ObjectChange::Deleted(_) | ObjectChange::Synced | ObjectChange::Undecodable { .. } => false,
            },
        };
        // A host that is not read yet must not be taken for a stranger.
        if !changed || !all_read {
            continue;
        }
        let mut config = dhcp_config(&served, Some(&known))?;
        let unfit: BTreeSet<String> = config.reserve(reservations(&known)).iter().map(ToString::to_string).collect();
        for error in unfit.difference(&unfit_before) {
            tracing::warn!(%error, "could not reserve the address of a host (annotation {RESERVED_ADDRESS})");
        }
        unfit_before = unfit;
        if let Err(error) = handle.reconfigure(config).await {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::warn!(%error, "could not use the new DHCP configuration: the old one stays");
        }
    }
}

/// Adopts what can change without new sockets; the rest waits for a restart, and the object says so
/// ([`super::network_status`]).
fn adopt_network(served: &mut ServedNetwork, object: &Provisioning, settings: &Settings) -> bool {
    let wanted = match network_check::wanted(object, settings) {
        Ok(wanted) => wanted,
        Err(why) => {
            tracing::warn!(%why, "could not serve the Provisioning object: the network stays as it was");
            return false;
        }
    };
    if !served.takes_over(&wanted) {
        tracing::warn!("mode, address, CIDR or interface of the Provisioning object changed: restart the appliance");
        return false;
    }
    let changed = wanted.network != served.network;
    served.network = wanted.network;
    changed
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;
    use crate::serve::settings::RawSettings;

    fn served(more: &Value) -> ServedNetwork {
        let mut spec = json!({"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.77.0.0/24",
            "provisioningDHCPRange": "10.77.0.10,10.77.0.20", "provisioningInterface": "s0"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": "provisioning-configuration"}, "spec": spec});
        let raw = RawSettings { data: Some("/d".into()), api_only: true, ..RawSettings::default() };
        network_check::wanted(&serde_json::from_value(object).unwrap(), &raw.check().unwrap()).unwrap()
    }

    /// If a flag names the interface, the object's interface is ignored: all else is adopted, as the object's condition
    /// says.
    #[test]
    fn a_change_is_taken_over_where_no_restart_is_asked_for() {
        let of = |more: Value| {
            let mut spec = json!({"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.77.0.0/24",
                "provisioningDHCPRange": "10.77.0.10,10.77.0.20", "provisioningInterface": "s0"});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<Provisioning>(json!({"spec": spec})).unwrap()
        };
        let settings = |interface: Option<&str>| {
            let interface = interface.map(str::to_owned);
            let raw = RawSettings { data: Some("/d".into()), api_only: true, interface, ..RawSettings::default() };
            raw.check().unwrap()
        };
        let wider = json!({"provisioningDHCPRange": "10.77.0.10,10.77.0.30", "provisioningInterface": "s1"});
        for (flag, is_taken) in [(Some("s0"), true), (None, false)] {
            let settings = settings(flag);
            let mut now = network_check::wanted(&of(json!({})), &settings).unwrap();
            assert_eq!(adopt_network(&mut now, &of(wider.clone()), &settings), is_taken, "{flag:?}");
            let last = now.network.range.unwrap().1;
            assert_eq!(last == IpAddr::V4(address(30)), is_taken, "{flag:?}");
            assert_eq!(now.takes_over(&network_check::wanted(&of(wider.clone()), &settings).unwrap()), is_taken);
            let mode = of(json!({"provisioningNetwork": "Unmanaged"}));
            assert!(!adopt_network(&mut now, &mode, &settings) && now.network.mode == NetworkMode::Managed);
        }
    }

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, last)
    }

    #[test]
    fn what_the_object_says_is_what_dhcp_hands_out() {
        let config = |more: Value| dhcp_config(&served(&more), None).unwrap();
        let bare = config(json!({}));
        assert_eq!(bare.local.pool, Some(dhcp::Pool { first: address(10), last: address(20) }));
        assert_eq!((bare.local.router, bare.dns.clone(), bare.ntp.clone()), (None, vec![], vec![]));
        let of = |field: &str, value: Value| config(json!({ field: value }));
        assert_eq!(of("provisioningNetworkGateway", json!("10.77.0.254")).local.router, Some(address(254)));
        assert_eq!(of("provisioningDNS", json!(true)).dns, [address(1)]);
        let servers = json!(["ntp.example.com", "10.77.0.3", "fd00::3"]);
        assert_eq!(of("additionalNTPServers", servers).ntp, [address(3)]);
        let all = of("provisioningDHCPRange", json!("10.77.0.2,10.77.0.255")).local.pool;
        assert_eq!(
            all,
            Some(dhcp::Pool { first: address(2), last: address(254) }),
            "no host has the broadcast address"
        );
        assert_eq!(served(&json!({"provisioningDHCPExternal": true})).network.mode, NetworkMode::Unmanaged);
    }
}
