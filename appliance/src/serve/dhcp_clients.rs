//! What DHCP answers to a client that boots, and what becomes of its events.

use std::sync::{Arc, Mutex, PoisonError};

use firesteel_boot::{BootClient, Endpoints, IpxeFeatures, Transport, Unserved, first_stage};
use firesteel_control::{Asker, Control, NetworkEvent};
use firesteel_dhcp::{self as dhcp, BootAnswer, Client, What};
use firesteel_facts::{Arch, Mac};
use jiff::Timestamp;

use crate::net::named::{Named, Naming};

/// Makes what DHCP answers to a client that boots.
pub fn boot_answers(endpoints: Endpoints, upgrade_ipxe: bool) -> crate::net::dhcp::Boot {
    Arc::new(move |client: &Client| {
        let stage = first_stage(&asking(client, upgrade_ipxe), &endpoints).ok()?;
        Some(BootAnswer {
            server_address: (stage.via == Transport::Tftp).then_some(endpoints.address),
            file: stage.file_or_url,
            vendor_class: stage.vendor_class.map(str::to_owned),
            ipxe_no_pxedhcp: true,
        })
    })
}

fn asking(client: &Client, upgrade_ipxe: bool) -> BootClient {
    let features = client.is_ipxe.then(|| IpxeFeatures::read(client.ipxe_options.as_deref()));
    BootClient {
        mac: client.mac,
        archs: client.archs.clone(),
        ipxe: features.filter(|features| !upgrade_ipxe || features.has_https()),
        vendor_class: client.vendor_class.clone(),
    }
}

/// Takes DHCP's events into the timelines of hosts and the table of live leases, and names in the log, once, who can boot nothing here.
pub fn dhcp_events(control: Control, endpoints: Endpoints, upgrade_ipxe: bool) -> crate::net::dhcp::Events {
    let named = Mutex::new(Named::default());
    Arc::new(move |at, event: &dhcp::Event| {
        let mac = event.client.mac;
        let (client, asker) = (describe(&event.client), asker(&event.client));
        let note = match &event.what {
            What::Offered { address } => NetworkEvent::DhcpOffer { address: *address, client, asker },
            What::Acked { address, expires_at } => {
                control.leased(mac, *address, *expires_at);
                NetworkEvent::DhcpAck { address: *address, client, asker }
            }
            What::Refused { address, reason } => {
                NetworkEvent::DhcpNak { reason: format!("{address} was refused: {reason:?}"), asker }
            }
            What::Exhausted => {
                NetworkEvent::DhcpNak { reason: "no address is left: enlarge provisioningDHCPRange".to_owned(), asker }
            }
            What::TookAnother { server } => {
                NetworkEvent::DhcpNak { reason: format!("it took the offer of another DHCP server, {server}"), asker }
            }
            What::NotCommitted { address } => {
                NetworkEvent::DhcpNak { reason: format!("the lease of {address} could not be written to disk"), asker }
            }
            What::BootFileTooLong { bytes } => NetworkEvent::DhcpNak {
                reason: format!("the boot file's name has {bytes} bytes, too many for DHCP"),
                asker,
            },
            What::NothingToBoot => {
                let Err(why @ Unserved::NoLoader { .. }) =
                    first_stage(&asking(&event.client, upgrade_ipxe), &endpoints)
                else {
                    return;
                };
                let mut named = named.lock().unwrap_or_else(PoisonError::into_inner);
                warn_once(&mut named, at, &event.client, control.is_host(mac), &why.to_string());
                NetworkEvent::NoLoader { reason: why.to_string() }
            }
            What::Released { address } => {
                control.lease_ended(mac, *address);
                return;
            }
            What::Declined { address, outcome } => {
                control.lease_ended(mac, *address);
                let text = format!("{address} is in use by another machine, it says; {}", outcome.text());
                NetworkEvent::DhcpDecline { text }
            }
            What::Informed { .. } | What::ReleaseIgnored { .. } => return,
        };
        control.note(mac, note);
    })
}

/// A client and what it can boot: another firmware mode of the same machine is named, too.
type NamedClients = Named<(Mac, Vec<Arch>)>;

fn warn_once(named: &mut NamedClients, now: Timestamp, client: &Client, is_known: bool, why: &str) {
    let mac = client.mac;
    match named.name(now, (mac, client.archs.clone()), is_known) {
        Naming::Now => tracing::warn!(%mac, "{why}"),
        Naming::More => tracing::warn!("more machines than are named ask for loaders that there are not here"),
        Naming::Not => tracing::debug!(%mac, "{why}"),
    }
}

fn asker(client: &Client) -> Asker {
    match (client.is_ipxe, client.boots()) {
        (true, _) => Asker::Ipxe,
        (false, true) => Asker::Firmware,
        (false, false) => Asker::System,
    }
}

fn describe(client: &Client) -> String {
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
