//! A hostile machine: a process on a wire that says whatever a test has it say, and whose every answer the test sees.
//!
//! ```text
//!   test ── one Move a line, as JSON ──► firesteel-hostile, in the machines' namespace ──► the appliance's listeners
//!     ◄────────────── one Got a line ──┘
//! ```

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use crate::field::{Field, boot_request};
use crate::flood::{self, Flood};
use crate::network::ADDRESS;

/// So small that the appliance cannot hand a large file to the connection.
const SLOW_BUFFER_BYTES: usize = 4096;
/// Between two sips of a crowd: each takes enough to be waited for.
const SIP_EVERY: Duration = Duration::from_secs(1);
/// A datagram that is lost is sent again.
const AGAIN: Duration = Duration::from_millis(500);
/// Only what hangs takes so many tries.
const TRIES_MAX: usize = 240;

/// What it does next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "move", rename_all = "kebab-case")]
pub enum Move {
    /// A request at the boot listener, from an address that the wire's end has.
    Boot { from: Ipv4Addr, method: String, path: String },
    /// So many connections to this port from each address, each of which says this, and takes of an answer as little as is
    /// waited for. They are kept until it ends.
    Crowd { from: Vec<Ipv4Addr>, each: usize, port: u16, says: String },
    /// So many reads by TFTP from each address, with this timeout; the offered options are taken, and nothing comes after
    /// that. The status is the number of those that the appliance began.
    Transfers { from: Vec<Ipv4Addr>, each: usize, timeout_s: u8 },
    /// As many requests as it can make in so many seconds. `ca` is the appliance's CA in PEM. The answer's body says how
    /// many were answered.
    Flood { flood: Flood, from: Ipv4Addr, seconds: u64, ca: String },
}

/// What it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Got {
    pub status: u16,
    pub body: String,
}

/// Does what it reads, until there is no more.
pub fn run() {
    let crowd: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let (sipping, mut transfers) = (Arc::clone(&crowd), Vec::new());
    // It ends with the process.
    std::thread::spawn(move || sip_forever(&sipping));
    for line in io::stdin().lines() {
        let next: Move = serde_json::from_str(&line.unwrap()).unwrap();
        let (status, body) = match next {
            Move::Boot { from, method, path } => boot_request(from, &method, &path),
            Move::Crowd { from, each, port, says } => {
                for (from, _) in from.iter().flat_map(|from| (0..each).map(move |number| (from, number))) {
                    let stream = connect(*from, port, says.as_bytes());
                    crowd.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
                }
                (200, String::new())
            }
            Move::Transfers { from, each, timeout_s } => {
                let begun = from.iter().flat_map(|from| (0..each).filter_map(move |_| transfer(*from, timeout_s)));
                transfers.extend(begun);
                (u16::try_from(transfers.len()).unwrap(), String::new())
            }
            Move::Flood { flood, from, seconds, ca } => {
                (0, flood::run(flood, from, Duration::from_secs(seconds), ca.as_bytes()).to_string())
            }
        };
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &Got { status, body }).unwrap();
        out.write_all(b"\n").unwrap();
        out.flush().unwrap();
    }
}

/// A connection that says something. The appliance may have closed it by then.
fn connect(from: Ipv4Addr, port: u16, says: &[u8]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(SLOW_BUFFER_BYTES).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&SocketAddr::from((ADDRESS, port)).into()).unwrap();
    let mut stream = TcpStream::from(socket);
    drop(stream.write_all(says));
    stream.set_nonblocking(true).unwrap();
    stream
}

fn sip_forever(crowd: &Mutex<Vec<TcpStream>>) {
    let mut buffer = [0; SLOW_BUFFER_BYTES];
    loop {
        std::thread::sleep(SIP_EVERY);
        for stream in crowd.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            // One that was closed has nothing more.
            drop(stream.read(&mut buffer));
        }
    }
}

/// Begins a read and takes the options that are offered; nothing where it is refused.
fn transfer(from: Ipv4Addr, timeout_s: u8) -> Option<UdpSocket> {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.set_read_timeout(Some(AGAIN)).unwrap();
    let request = format!("\0\x01undionly.kpxe\0octet\0timeout\0{timeout_s}\0tsize\00\0");
    let mut answer = [0; 1024];
    for _ in 0..TRIES_MAX {
        socket.send_to(request.as_bytes(), (ADDRESS, 69)).unwrap();
        let Ok((length, port)) = socket.recv_from(&mut answer) else { continue };
        return match answer[..length] {
            [0, 6, ..] => {
                socket.send_to(&[0, 4, 0, 0], port).unwrap();
                Some(socket)
            }
            _ => None,
        };
    }
    panic!("the appliance does not answer TFTP");
}

/// A running one. It ends with the value.
#[derive(Debug)]
pub struct Hostile {
    child: Child,
    moves: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Hostile {
    /// Starts it on the field's wire. `program` is the test suite's `env!("CARGO_BIN_EXE_firesteel-hostile")`.
    #[must_use]
    pub fn start(field: &Field, program: &str) -> Self {
        // A child is in the namespace of the thread that starts it.
        let mut child =
            field.there(|| Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { moves: child.stdin.take(), child, answers }
    }

    /// Has it do something, and returns what came of it.
    pub fn does(&mut self, next: &Move) -> Got {
        let mut line = serde_json::to_string(next).unwrap();
        line.push('\n');
        self.moves.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("the hostile machine ended: {error}: {answer}"))
    }

    /// Asks for the boot script of this MAC.
    pub fn script(&mut self, from: Ipv4Addr, mac: &str) -> Got {
        let path = format!("/boot.ipxe?mac={}&platform=efi", mac.replace(':', "-"));
        self.does(&Move::Boot { from, method: "GET".to_owned(), path })
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        // Without moves it ends.
        drop(self.moves.take());
        drop(self.child.wait());
    }
}
