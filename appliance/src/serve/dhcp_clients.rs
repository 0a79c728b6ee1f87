//! The DHCP answers to clients that boot, and the use of DHCP's events.

use std::sync::{Arc, Mutex, PoisonError};

use firesteel_boot::{BootClient, HostNetwork, IpxeFeatures, LoaderTransport, UnservedClient, first_stage};
use firesteel_control::{Control, DhcpRequestSource, NetworkEvent};
use firesteel_dhcp::{self as dhcp, BootAnswer, DhcpEventKind, DhcpRequester};
use firesteel_facts::{Arch, Mac};
use firesteel_runtime::Live;
use jiff::Timestamp;

use firesteel_net::named_clients::{NamedClients, NamingDecision};

/// Makes the function that decides which boot file a client gets.
pub fn boot_answers(network: Live<HostNetwork>, upgrade_ipxe: bool) -> firesteel_net::dhcp::Boot {
    Arc::new(move |client: &DhcpRequester| {
        let endpoints = network.now().endpoints;
        let stage = first_stage(&asking(client, upgrade_ipxe), &endpoints).ok()?;
        Some(BootAnswer {
            server_address: (stage.via == LoaderTransport::Tftp).then_some(endpoints.address),
            file: stage.file_or_url,
            vendor_class: stage.vendor_class.map(str::to_owned),
            ipxe_no_pxedhcp: true,
        })
    })
}

fn asking(client: &DhcpRequester, upgrade_ipxe: bool) -> BootClient {
    let features = client.is_ipxe.then(|| IpxeFeatures::read(client.ipxe_options.as_deref()));
    BootClient {
        mac: client.mac,
        archs: client.archs.clone(),
        ipxe: features.filter(|features| !upgrade_ipxe || features.has_https()),
        vendor_class: client.vendor_class.clone(),
    }
}

/// Makes the function that records DHCP events in the timelines of hosts and in the table of live leases, and logs once
/// which clients cannot boot here.
pub fn dhcp_events(
    control: Control,
    network: Live<HostNetwork>,
    upgrade_ipxe: bool,
) -> firesteel_net::dhcp::DhcpEventSink {
    let named = Mutex::new(NamedClients::default());
    Arc::new(move |at, event: &dhcp::DhcpEvent| {
        let mac = event.client.mac;
        let (client, asker) = (describe(&event.client), asker(&event.client));
        let note = match &event.what {
            DhcpEventKind::Offered { address } => NetworkEvent::DhcpOffer { address: *address, client, asker },
            DhcpEventKind::Acked { address, expires_at } => {
                control.network.leased(mac, *address, *expires_at);
                NetworkEvent::DhcpAck { address: *address, client, asker }
            }
            DhcpEventKind::Refused { address, reason } => {
                NetworkEvent::DhcpNak { reason: format!("{address} was refused: {reason:?}"), asker }
            }
            DhcpEventKind::Exhausted => {
                NetworkEvent::DhcpNak { reason: "no address is left: enlarge provisioningDHCPRange".to_owned(), asker }
            }
            DhcpEventKind::TookAnother { server } => {
                NetworkEvent::DhcpNak { reason: format!("it took the offer of another DHCP server, {server}"), asker }
            }
            DhcpEventKind::NotCommitted { address } => {
                NetworkEvent::DhcpNak { reason: format!("the lease of {address} could not be written to disk"), asker }
            }
            DhcpEventKind::BootFileTooLong { bytes } => NetworkEvent::DhcpNak {
                reason: format!("the boot file's name has {bytes} bytes, too many for DHCP"),
                asker,
            },
            DhcpEventKind::NothingToBoot => {
                let Err(why @ UnservedClient::NoLoader { .. }) =
                    first_stage(&asking(&event.client, upgrade_ipxe), &network.now().endpoints)
                else {
                    return;
                };
                let mut named = named.lock().unwrap_or_else(PoisonError::into_inner);
                warn_once(&mut named, at, &event.client, control.is_host(mac), &why.to_string());
                NetworkEvent::NoLoader { reason: why.to_string() }
            }
            DhcpEventKind::Released { address } => {
                control.network.lease_ended(mac, *address);
                return;
            }
            DhcpEventKind::Declined { address, outcome } => {
                control.network.lease_ended(mac, *address);
                let text = format!("{address} is in use by another machine, it says; {}", outcome.text());
                NetworkEvent::DhcpDecline { text }
            }
            DhcpEventKind::Informed { .. } | DhcpEventKind::ReleaseIgnored { .. } => return,
        };
        control.network.note(mac, note);
    })
}

/// Clients with their architectures: another firmware mode of the same machine is named, too.
type WarnedClients = NamedClients<(Mac, Vec<Arch>)>;

fn warn_once(named: &mut WarnedClients, now: Timestamp, client: &DhcpRequester, is_known: bool, why: &str) {
    let mac = client.mac;
    match named.name(now, (mac, client.archs.clone()), is_known) {
        NamingDecision::Now => tracing::warn!(%mac, "{why}"),
        NamingDecision::More => tracing::warn!("more machines than the log names ask for missing loaders"),
        NamingDecision::Not => tracing::debug!(%mac, "{why}"),
    }
}

fn asker(client: &DhcpRequester) -> DhcpRequestSource {
    match (client.is_ipxe, client.boots()) {
        (true, _) => DhcpRequestSource::Ipxe,
        (false, true) => DhcpRequestSource::Firmware,
        (false, false) => DhcpRequestSource::System,
    }
}

fn describe(client: &DhcpRequester) -> String {
    if client.is_ipxe {
        return "iPXE".to_owned();
    }
    let Some(class) = &client.vendor_class else { return "the agent or an OS".to_owned() };
    let archs: Vec<String> = client.archs.iter().map(|arch| arch.0.to_string()).collect();
    if archs.is_empty() {
        return class.chars().take(40).collect();
    }
    format!("{} architecture {}", class.split(':').next().unwrap_or_default(), archs.join(", "))
}
