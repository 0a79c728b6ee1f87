//! The address as a service: looks at the interface, listens to ARP, and does what the keeper decides.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use firesteel_facts::Mac;
use firesteel_net::arp_socket::ArpSocket;
use firesteel_netlink::Netlink;
use firesteel_network::{ARP_BYTES, AddressKeeper, AddressState, ArpPacket, KeeperOutput, KeptAddress, ServiceFailure};
use firesteel_runtime::lock;
use tokio::sync::watch;

use super::ServiceTasks;
use super::put_address::PutAddressRecord;
use super::surroundings::{interface_look, interfaces, may_put_addresses};
use crate::serve::service_parts::ServiceParts;

/// The time between two looks at the interface: an address that was removed is back well within a minute.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The pause after the socket failed, which it does while the link is down.
const SOCKET_PAUSE: Duration = Duration::from_secs(1);

/// Pauses the keeper, and shows how the address is. When it is dropped, the keeper takes an address that it put from
/// the interface, and ends.
#[derive(Debug)]
pub(super) struct AddressControl {
    state: Arc<Mutex<AddressState>>,
    is_paused: watch::Sender<bool>,
}

impl AddressControl {
    pub(super) fn pause(&self, is_paused: bool) {
        self.is_paused.send_if_modified(|now| std::mem::replace(now, is_paused) != is_paused);
    }

    pub(super) fn state(&self) -> AddressState {
        lock(&self.state).clone()
    }
}

/// Starts to keep the address; paused, it is only looked for.
///
/// # Errors
/// When the interface is not there.
pub(super) fn start(
    tasks: &mut ServiceTasks,
    parts: &ServiceParts,
    kept: &KeptAddress,
    is_paused: bool,
) -> anyhow::Result<AddressControl> {
    let found = interfaces().context("could not read the network interfaces")?;
    let found = found.into_iter().find(|interface| interface.index == kept.link.index);
    let found = found.with_context(|| format!("there is no network interface {}", kept.link.name))?;
    // Without an Ethernet address there is no ARP, and no conflict to look for.
    let own = found.mac.unwrap_or(Mac([0; 6]));
    let may_put = may_put_addresses() && kept.prefix_length.is_some();
    let state = Arc::new(Mutex::new(AddressState::Probing));
    let mut keeper = AddressKeeper::new(kept.address, own, may_put);
    keeper.pause(is_paused);
    let (is_paused, paused) = watch::channel(is_paused);
    let work = AddressWork {
        kept: kept.clone(),
        keeper,
        arp: may_put
            .then(|| ArpSocket::open(kept.link.index))
            .transpose()
            .context("could not open a socket for ARP")?,
        state: Arc::clone(&state),
        paused,
        record: PutAddressRecord::open(&parts.data, Some(kept)),
    };
    tasks.spawn(work.run());
    Ok(AddressControl { state, is_paused })
}

struct AddressWork {
    kept: KeptAddress,
    keeper: AddressKeeper,
    /// Is absent where the process may not change interfaces.
    arp: Option<ArpSocket>,
    state: Arc<Mutex<AddressState>>,
    paused: watch::Receiver<bool>,
    record: PutAddressRecord,
}

impl AddressWork {
    async fn run(mut self) -> anyhow::Result<()> {
        let mut look_at = Instant::now();
        let mut buffer = [0; 2 * ARP_BYTES];
        loop {
            let now = Instant::now();
            if look_at <= now {
                self.keeper.look(now, interface_look(&self.kept.link.name, self.kept.address));
                look_at = now + LOOK_EVERY;
            }
            self.keeper.handle_timeout(now);
            self.perform();
            *lock(&self.state) = self.keeper.state(now);
            let next = self.keeper.poll_timeout().map_or(look_at, |at| at.min(look_at));
            tokio::select! {
                length = receive(self.arp.as_ref(), &mut buffer) => {
                    if let Ok(packet) = ArpPacket::read(&buffer[..length]) {
                        self.keeper.receive(Instant::now(), &packet);
                    }
                }
                changed = self.paused.changed() => {
                    if changed.is_err() {
                        self.record.take_back();
                        return Ok(());
                    }
                    let is_paused = *self.paused.borrow();
                    self.keeper.pause(is_paused);
                }
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    fn perform(&mut self) {
        while let Some(output) = self.keeper.poll_output() {
            let interface = self.kept.link.name.as_str();
            match output {
                KeeperOutput::Send(packet) => {
                    let sent = self.arp.as_ref().map_or(Ok(()), |arp| arp.send(&packet.encode()));
                    if let Err(error) = sent {
                        tracing::debug!(interface, %error, "could not send an ARP packet");
                    }
                }
                KeeperOutput::BringUp => {
                    let done = Netlink::open().and_then(|mut netlink| netlink.switch(interface, true));
                    match done {
                        Ok(()) => tracing::info!(interface, "the interface was off and is switched on"),
                        Err(error) => tracing::warn!(interface, %error, "could not switch the interface on"),
                    }
                }
                KeeperOutput::Put => {
                    let prefix_length = self.kept.prefix_length.unwrap_or(32);
                    let done = put(interface, self.kept.address, prefix_length);
                    match &done {
                        Ok(()) => {
                            self.record.note(&self.kept, prefix_length);
                            tracing::info!(interface, address = %self.kept.address, "the address is put on the interface");
                        }
                        Err(error) => {
                            tracing::warn!(interface, address = %self.kept.address, %error, "could not put the address")
                        }
                    }
                    self.keeper.put_done(Instant::now(), done);
                }
            }
        }
    }
}

fn put(interface: &str, address: Ipv4Addr, prefix: u8) -> Result<(), ServiceFailure> {
    let done = Netlink::open().and_then(|mut netlink| netlink.add_address(interface, IpAddr::V4(address), prefix));
    done.map_err(|error| ServiceFailure(error.to_string()))
}

/// Receives the next packet; waits forever without a socket.
async fn receive(arp: Option<&ArpSocket>, buffer: &mut [u8]) -> usize {
    let Some(arp) = arp else { return std::future::pending().await };
    loop {
        match arp.receive(buffer).await {
            Ok(length) => return length.min(buffer.len()),
            Err(error) => {
                tracing::debug!(%error, "could not receive ARP packets; trying again in a second");
                tokio::time::sleep(SOCKET_PAUSE).await;
            }
        }
    }
}
