//! Floods: as many requests as one machine can make, for a while. They run in the hostile machine's process.

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet, code};
use firesteel_facts::Mac;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use crate::agent_line;
use crate::field::{dhcp_socket, host_mac};
use crate::network::ADDRESS;

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flood {
    /// Boot scripts of machines that are not there.
    Scripts,
    /// Boot scripts in the names of hosts.
    ScriptsOfHosts,
    /// Configs without a token.
    Configs,
    /// DHCP leases for machines that are not there.
    Leases,
}

/// Clients of one flood.
const CLIENTS: u64 = 8;
/// Hosts whose names are used.
pub const HOSTS: u16 = 200;
/// An answer that does not come in this time is none.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries to connect.
const PAUSE: Duration = Duration::from_millis(5);
/// Machines that ask for a lease together.
const DISCOVERS: u64 = 4;

/// Floods for so long; counts what was answered.
#[must_use]
pub fn run(flood: Flood, from: Ipv4Addr, time: Duration, ca_pem: &[u8]) -> u64 {
    let ends_at = Instant::now() + time;
    match flood {
        Flood::Scripts => scripts(from, ends_at, made_up),
        Flood::ScriptsOfHosts => {
            scripts(from, ends_at, |number| host_mac(u16::try_from(number % u64::from(HOSTS)).unwrap_or(0)))
        }
        Flood::Configs => configs(ends_at, ca_pem),
        Flood::Leases => leases(ends_at),
    }
}

/// The MAC of a machine that is not there.
#[must_use]
pub fn made_up(number: u64) -> Mac {
    let [.., a, b, c, d] = number.to_be_bytes();
    Mac([0x02, 0xa7, a, b, c, d])
}

fn scripts(from: Ipv4Addr, ends_at: Instant, mac: fn(u64) -> Mac) -> u64 {
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| thread::spawn(move || ask_for_scripts(from, ends_at, client, mac))).collect();
    clients.into_iter().map(|client| client.join().unwrap()).sum()
}

fn ask_for_scripts(from: Ipv4Addr, ends_at: Instant, client: u64, mac: fn(u64) -> Mac) -> u64 {
    let (mut line, mut answered, mut number) = (None, 0, client);
    while Instant::now() < ends_at {
        let Some(open) = line.take().or_else(|| connect(from).ok()) else {
            thread::sleep(PAUSE);
            continue;
        };
        let path = format!("/boot.ipxe?mac={}&platform=efi", mac(number).to_string().replace(':', "-"));
        line = ask(open, &path).ok();
        answered += u64::from(line.is_some());
        number += CLIENTS;
    }
    answered
}

fn connect(from: Ipv4Addr) -> io::Result<BufReader<TcpStream>> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&SocketAddr::from((ADDRESS, 8080)).into())?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}

/// Asks by a connection that is kept, and reads the answer.
fn ask(mut line: BufReader<TcpStream>, path: &str) -> io::Result<BufReader<TcpStream>> {
    line.get_mut().write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let mut length = 0;
    loop {
        let mut head = String::new();
        if line.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let head = head.trim_end().to_ascii_lowercase();
        if head.is_empty() {
            break;
        }
        if let Some(value) = head.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    io::copy(&mut (&mut line).take(length), &mut io::sink())?;
    Ok(line)
}

fn configs(ends_at: Instant, ca_pem: &[u8]) -> u64 {
    let http = agent_line::keeping_client(ca_pem);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..CLIENTS {
            let http = http.clone();
            clients.spawn(async move {
                let mut answered = 0;
                while Instant::now() < ends_at {
                    let url = format!("https://{ADDRESS}:22623/config/worker-{client}-{answered}");
                    let answer = tokio::time::timeout(PATIENCE, http.get(url).send()).await;
                    match answer {
                        Ok(Ok(_)) => answered += 1,
                        Ok(Err(_)) | Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                }
                answered
            });
        }
        clients.join_all().await.into_iter().sum()
    })
}

/// Takes every address that is offered.
fn leases(ends_at: Instant) -> u64 {
    let socket = dhcp_socket(68);
    socket.set_read_timeout(Some(PAUSE)).unwrap();
    let (mut number, mut leased, mut buffer) = (0, 0, [0; 2048]);
    let send = |packet: &Packet| drop(socket.send_to(&wire::encode(packet).unwrap(), (Ipv4Addr::BROADCAST, 67)));
    while Instant::now() < ends_at {
        for _ in 0..DISCOVERS {
            number += 1;
            send(&message(number, MessageType::Discover));
        }
        while let Ok(length) = socket.recv(&mut buffer) {
            let Ok(reply) = wire::decode(&buffer[..length]) else { continue };
            // The other's machines are known by their MACs.
            if reply.operation != DhcpOperation::Reply || reply.mac.0[..2] != [0x02, 0xa7] {
                continue;
            }
            match reply.options.message_type() {
                Some(MessageType::Offer) => {
                    let [_, _, a, b, c, d] = reply.mac.0;
                    let mut request = message(u64::from(u32::from_be_bytes([a, b, c, d])), MessageType::Request);
                    request.options.set(code::REQUESTED_ADDRESS, reply.yiaddr.octets());
                    request.options.set(code::SERVER_ID, ADDRESS.octets());
                    send(&request);
                }
                Some(MessageType::Ack) => leased += 1,
                Some(_) | None => {}
            }
        }
    }
    leased
}

fn message(number: u64, kind: MessageType) -> Packet {
    let [.., a, b, c, d] = number.to_be_bytes();
    let mut packet =
        Packet::new(DhcpOperation::Request, u32::from_be_bytes([a, b, c, d]) | 0x8000_0000, made_up(number));
    packet.broadcast = true;
    packet.options.set_message_type(kind);
    packet
}
