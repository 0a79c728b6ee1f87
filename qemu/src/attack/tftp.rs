//! A flood of reads: each from a port of its own, none of them ever acknowledged. What comes back is
//! counted, for a server that sends much to any client is a weapon against others.

use std::{collections::VecDeque, time::Duration};

use tokio::{net::UdpSocket, time};

use super::{AttackContext, address, appliance, count, packets};

const EVERY: Duration = Duration::from_millis(4);
/// Sockets that stay open, so that what the server sends arrives.
const SOCKETS_MAX: usize = 512;
const FILE: &str = "undionly.kpxe";
const PACKET_BYTES_MAX: usize = 65_536;

pub(super) async fn flood(scene: AttackContext) -> anyhow::Result<()> {
    let mut sockets: VecDeque<UdpSocket> = VecDeque::new();
    let mut tick = time::interval(EVERY);
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    for number in 0.. {
        tick.tick().await;
        if sockets.len() >= SOCKETS_MAX
            && let Some(oldest) = sockets.pop_front()
        {
            while let Ok(length) = oldest.try_recv(&mut buffer) {
                count(&scene.counters.tftp_bytes_got, length as u64);
            }
        }
        let Ok(socket) = UdpSocket::bind((address(number), 0)).await else { continue };
        let request = packets::read_request(FILE, number);
        if socket.send_to(&request, appliance(69)).await.is_ok() {
            count(&scene.counters.reads, 1);
            count(&scene.counters.tftp_bytes_sent, request.len() as u64);
        }
        sockets.push_back(socket);
    }
    Ok(())
}
