//! An appliance in this process: HTTPS for the protocol, HTTP for one image. It checks signatures, remembers what it
//! received, answers as the test asks, and falls silent on demand.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_wire::{
    AgentInstruction, AgentReport, HELLO_PATH, Hello, HelloReply, ReceiptPlace, RefusalReason, RefusalReply,
    ReportReply, SIGNATURE_HEADER, StepReceipt, signing_input,
};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

pub(crate) const ATTEMPT: u64 = 7;
pub(crate) const TIME_MS: u64 = 1_795_224_093_000;

#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) hellos: Vec<Hello>,
    pub(crate) reports: Vec<AgentReport>,
    pub(crate) requests_for_image: Vec<String>,
    stored: Vec<ReceiptPlace>,
}

pub(crate) struct Appliance {
    pub(crate) address: SocketAddr,
    pub(crate) image_address: SocketAddr,
    pub(crate) pin_sha256: String,
    pub(crate) heard: Mutex<Heard>,
    /// Said in answer to the next reports, one each; then `Continue`.
    verdicts: Mutex<VecDeque<AgentInstruction>>,
    /// What every reply says of a hold.
    pub(crate) hold: Mutex<Option<String>>,
    pub(crate) refusal: Mutex<Option<RefusalReason>>,
    /// How often it refused.
    pub(crate) refused: AtomicU32,
    pub(crate) silent: AtomicBool,
    /// Requests that were met with silence.
    pub(crate) unanswered: AtomicU64,
    /// It says which receipts it has.
    pub(crate) stores: AtomicBool,
    image: Mutex<Vec<u8>>,
    /// The image's connection breaks once after this many bytes.
    pub(crate) break_after: AtomicU64,
    /// The image's body waits after this many bytes until `go_on`.
    pub(crate) hold_after: AtomicU64,
    pub(crate) held: AtomicBool,
    pub(crate) go_on: Notify,
}

impl Appliance {
    /// Starts both servers in threads of their own.
    pub(crate) fn start() -> Arc<Self> {
        Self::start_valid(2020, 2090)
    }

    /// The same with a certificate of these years.
    pub(crate) fn start_valid(from: i32, to: i32) -> Arc<Self> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["appliance".into()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        let end_entity = webpki::EndEntityCert::try_from(certificate.der()).unwrap();
        let pin = digest(&SHA256, end_entity.subject_public_key_info().as_ref());
        let (tls, plain) = (listener(), listener());
        let appliance = Arc::new(Self {
            address: tls.local_addr().unwrap(),
            image_address: plain.local_addr().unwrap(),
            pin_sha256: hex::encode(pin.as_ref()),
            heard: Mutex::default(),
            verdicts: Mutex::default(),
            refusal: Mutex::default(),
            refused: AtomicU32::default(),
            hold: Mutex::default(),
            silent: AtomicBool::new(false),
            unanswered: AtomicU64::new(0),
            stores: AtomicBool::new(false),
            image: Mutex::default(),
            break_after: AtomicU64::new(u64::MAX),
            hold_after: AtomicU64::new(u64::MAX),
            held: AtomicBool::new(false),
            go_on: Notify::new(),
        });
        let shared = Arc::clone(&appliance);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::join!(shared.serve_protocol(tls, TlsAcceptor::from(Arc::new(config))), shared.serve_image(plain))
            });
        });
        appliance
    }

    pub(crate) fn say(&self, verdict: AgentInstruction) {
        self.verdicts.lock().unwrap().push_back(verdict);
    }

    /// What is to be said to an agent that reports of this plan. A plan is said until the agent has it, as the real
    /// appliance does: one that is still at an older plan takes no other.
    fn verdict(&self, reported: u32) -> AgentInstruction {
        let mut verdicts = self.verdicts.lock().unwrap();
        while let Some(AgentInstruction::Plan { plan }) = verdicts.front() {
            if reported < plan.number {
                return AgentInstruction::Plan { plan: plan.clone() };
            }
            verdicts.pop_front();
        }
        verdicts.pop_front().unwrap_or(AgentInstruction::Continue)
    }

    pub(crate) fn put_image(&self, stream: Vec<u8>) {
        *self.image.lock().unwrap() = stream;
    }

    pub(crate) fn last_report(&self) -> Option<AgentReport> {
        self.heard.lock().unwrap().reports.last().cloned()
    }

    async fn serve_protocol(self: &Arc<Self>, listener: std::net::TcpListener, acceptor: TlsAcceptor) {
        let listener = TcpListener::from_std(listener).unwrap();
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (appliance, acceptor) = (Arc::clone(self), acceptor.clone());
            tokio::spawn(async move {
                // A client that does not trust us ends the handshake.
                if let Ok(stream) = acceptor.accept(socket).await {
                    appliance.talk(stream).await;
                }
            });
        }
    }

    async fn talk(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        while let Some((head, body)) = read_request(&mut stream).await {
            if self.silent.load(Ordering::SeqCst) {
                self.unanswered.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let (status, reply) = self.answer(&path, &head, &body);
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", reply.len());
            if stream.write_all(head.as_bytes()).await.is_err() || stream.write_all(&reply).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, path: &str, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let signature = hex::decode(header(head, SIGNATURE_HEADER).unwrap()).unwrap();
        let key = serde_json::from_slice::<serde_json::Value>(body).unwrap()["key"].as_str().unwrap().to_owned();
        UnparsedPublicKey::new(&ED25519, hex::decode(key).unwrap())
            .verify(&signing_input(path, body), &signature)
            .expect("every request is signed by its key");
        if let Some(reason) = *self.refusal.lock().unwrap() {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return (403, serde_json::to_vec(&RefusalReply { reason, message: "refused by the test".into() }).unwrap());
        }
        let mut heard = self.heard.lock().unwrap();
        if path == HELLO_PATH {
            heard.hellos.push(serde_json::from_slice(body).unwrap());
            let reply = HelloReply {
                host: "lab-1".into(),
                attempt: ATTEMPT,
                time_ms: TIME_MS,
                verdict: AgentInstruction::Continue,
                hold: self.hold.lock().unwrap().clone(),
            };
            return (200, serde_json::to_vec(&reply).unwrap());
        }
        let report: AgentReport = serde_json::from_slice(body).unwrap();
        let log_acknowledged = report.log.last().map_or(0, |line| line.sequence);
        heard.stored.extend(report.receipts.iter().map(StepReceipt::place));
        let stored = if self.stores.load(Ordering::SeqCst) { heard.stored.clone() } else { Vec::new() };
        let reported = report.plan;
        heard.reports.push(report);
        let verdict = self.verdict(reported);
        let hold = self.hold.lock().unwrap().clone();
        (200, serde_json::to_vec(&ReportReply { time_ms: TIME_MS, log_acknowledged, stored, verdict, hold }).unwrap())
    }

    async fn serve_image(self: &Arc<Self>, listener: std::net::TcpListener) {
        let listener = TcpListener::from_std(listener).unwrap();
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let appliance = Arc::clone(self);
            tokio::spawn(async move { appliance.send_image(socket).await });
        }
    }

    async fn send_image(&self, mut socket: tokio::net::TcpStream) -> Option<()> {
        let (head, _) = read_request(&mut socket).await?;
        self.heard.lock().unwrap().requests_for_image.push(head.clone());
        let image = self.image.lock().unwrap().clone();
        let range =
            header(&head, "range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let start: usize = range.unwrap_or(0);
        let status = match range {
            Some(start) => format!("206 x\r\ncontent-range: bytes {start}-{}/{}", image.len() - 1, image.len()),
            None => "200 x".to_owned(),
        };
        let head = format!("HTTP/1.1 {status}\r\netag: \"1\"\r\ncontent-length: {}\r\n\r\n", image.len() - start);
        socket.write_all(head.as_bytes()).await.ok()?;
        for piece_start in (start..image.len()).step_by(64 << 10) {
            if piece_start as u64 >= self.break_after.load(Ordering::SeqCst) {
                self.break_after.store(u64::MAX, Ordering::SeqCst);
                return None;
            }
            if piece_start as u64 >= self.hold_after.load(Ordering::SeqCst) {
                self.hold_after.store(u64::MAX, Ordering::SeqCst);
                self.held.store(true, Ordering::SeqCst);
                self.go_on.notified().await;
            }
            socket.write_all(&image[piece_start..image.len().min(piece_start + (64 << 10))]).await.ok()?;
        }
        Some(())
    }
}

fn listener() -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Head and body of one request; `None` at the end of the connection.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let length: usize = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, bytes[head_end..head_end + length].to_vec()))
}

/// Looks again and again until the condition holds; fails the test when it never does.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
