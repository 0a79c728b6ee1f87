//! Clients that keep us waiting, over real connections on loopback. The limits are short if the test waits for them,
//! and longer than any test otherwise.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::{io, net::IpAddr, sync::Mutex, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::http::body::{Observed, text};
use crate::http::connection_table::ClientClass;
use crate::http::file::{ServedContent, answer_bytes};
use crate::serve::data_dir::DataDir;
use crate::serve::pki::Pki;

const SOON: Duration = Duration::from_millis(40);
/// The idle limit: longer than a client needs from its handshake to its request.
const IDLE: Duration = Duration::from_secs(1);
const NEVER: Duration = Duration::from_secs(3600);
/// How long a test waits for the server to end something.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENT: HttpTimeouts = HttpTimeouts { handshake: NEVER, head: NEVER, body: NEVER, answer: NEVER, idle: NEVER };

async fn serve<H, F>(patience: HttpTimeouts, tls: Option<Arc<rustls::ServerConfig>>, handler: H) -> SocketAddr
where
    H: Fn(Request<RequestBody>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let standings = Standings::new(|_| ClientClass::Stranger);
    serve_in(CONNECTIONS, standings, patience, (listener, tls), handler);
    address
}

fn serve_in<H, F>(
    share: Share,
    standings: Standings,
    patience: HttpTimeouts,
    (listener, tls): (TcpListener, Option<Arc<rustls::ServerConfig>>),
    handler: H,
) where
    H: Fn(Request<RequestBody>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let requests = RequestMetrics::default();
    tokio::spawn(Server { name: "test", listener, tls, share, standings, patience, requests }.run(handler));
}

async fn hello(_: Request<RequestBody>, _: SocketAddr) -> Response<ResponseBody> {
    text(StatusCode::OK, "hello")
}

/// Reads everything until the server ends the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // An abrupt end is an end as well.
    drop(timeout(PATIENCE, stream.read_to_end(&mut all)).await.expect("the server ends it"));
    String::from_utf8_lossy(&all).into_owned()
}

/// Sends something and then nothing more.
async fn falls_silent(address: SocketAddr, said: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(said).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[tokio::test]
async fn a_client_that_falls_silent_before_its_request_is_cut_off() {
    let address = serve(HttpTimeouts { head: SOON, ..PATIENT }, None, hello).await;
    falls_silent(address, b"").await;
    falls_silent(address, b"GET / HTTP/1.1\r\nHost: a\r\nX: ").await;
    // The beginning of HTTP/2, which once was waited for without end.
    falls_silent(address, b"PRI * HT").await;
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_cut_off() {
    let address = serve(HttpTimeouts { head: SOON, ..PATIENT }, None, hello).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
    let dripping = async {
        while stream.write_all(b"a").await.is_ok() {
            tokio::time::sleep(SOON / 10).await;
        }
    };
    timeout(PATIENCE, dripping).await.expect("the server ends it");
}

#[tokio::test]
async fn a_connection_that_asks_no_more_is_ended() {
    let address = serve(HttpTimeouts { head: SOON, ..PATIENT }, None, hello).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.contains("hello"));
}

#[tokio::test]
async fn a_tls_handshake_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let pki = Pki::open(&data, &["127.0.0.1".parse().unwrap()], Timestamp::now()).unwrap();
    let address = serve(HttpTimeouts { handshake: SOON, ..PATIENT }, Some(pki.server), hello).await;
    falls_silent(address, b"").await;
    falls_silent(address, b"\x16\x03\x01\x01\x00").await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let address = serve(HttpTimeouts { body: SOON, ..PATIENT }, None, async |request: Request<RequestBody>, _| {
        match request.into_body().collect().await {
            Ok(_) => text(StatusCode::OK, "read"),
            Err(error) => text(StatusCode::REQUEST_TIMEOUT, error.to_string()),
        }
    })
    .await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.contains("408") && answer.contains("it took longer than"), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_cut_off() {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let address = serve(HttpTimeouts { answer: SOON, ..PATIENT }, None, move |_, _| {
        let ended = ended.clone();
        async move {
            let endless = stream::repeat_with(|| Ok::<_, io::Error>(Frame::data(Bytes::from_static(&[7; 65536]))));
            let body = StreamBody::new(endless).boxed_unsync();
            Response::new(Observed::boxed(body, move |_, whole| assert!(ended.send(whole).is_ok())))
        }
    })
    .await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let whole = timeout(PATIENCE, has_ended.recv()).await.expect("its answer is let go");
    assert_eq!(whole, Some(false));
    drop(stream);
}

/// A thousand ranges get the whole content, once; more than a head may hold is refused.
#[tokio::test]
async fn thousands_of_ranges_cost_no_more_than_one_answer() {
    static SENT: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let address = serve(PATIENT, None, async |request: Request<RequestBody>, _| {
        let bytes = Bytes::from(vec![7; 50_000]);
        let content = ServedContent { length: 50_000, etag: "tag".into(), content_type: "x/y" };
        answer_bytes(&Method::GET, request.headers(), &content, &[bytes]).map(|body| {
            Observed::boxed(body, |bytes, _| SENT.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(bytes))
        })
    })
    .await;
    let ask = async |ranges: usize| {
        let list: Vec<String> = (0..ranges).map(|n| format!("{0}-{0}", n * 2)).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes={}\r\n\r\n", list.join(","));
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may end the connection before all is written.
        drop(stream.write_all(head.as_bytes()).await);
        rest(&mut stream).await
    };
    let whole = ask(1000).await;
    assert!(whole.starts_with("HTTP/1.1 200 OK") && whole.contains("content-length: 50000"), "{}", &whole[..200]);
    assert_eq!(SENT.lock().unwrap().as_slice(), [50_000]);
    assert!(!ask(9000).await.contains("200 OK"));
    assert_eq!(SENT.lock().unwrap().len(), 1, "no handler saw it");
    let one = ask(1).await;
    assert!(one.starts_with("HTTP/1.1 206") && one.contains("content-range: bytes 0-0/50000"), "{one}");
}

/// Opens a connection over which HTTP/2 was agreed on, and nothing was sent yet.
async fn agreed_on_http2(
    patience: HttpTimeouts,
    body: fn() -> ResponseBody,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let pki = Pki::open(&data, &["127.0.0.1".parse().unwrap()], Timestamp::now()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let address = serve(patience, Some(pki.server), move |_, _| async move { Response::new(body()) }).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let name = "127.0.0.1".try_into().unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap()
}

/// Opens a client of HTTP/2; returns the end of its connection as well.
async fn http2(
    patience: HttpTimeouts,
    window: u32,
    body: fn() -> ResponseBody,
) -> (hyper::client::conn::http2::SendRequest<http_body_util::Empty<Bytes>>, tokio::task::JoinHandle<()>) {
    let stream = agreed_on_http2(patience, body).await;
    let mut client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(window).initial_connection_window_size(window.max(65_535));
    let (sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(async move { drop(connection.await) }))
}

fn ask() -> Request<http_body_util::Empty<Bytes>> {
    Request::builder().uri("https://127.0.0.1/").body(http_body_util::Empty::new()).unwrap()
}

/// A client that answers every ping, but sends no request.
#[tokio::test]
async fn an_http2_client_that_asks_nothing_gives_its_place_back() {
    let (mut sender, ended) =
        http2(HttpTimeouts { idle: IDLE, ..PATIENT }, 65_535, || crate::http::body::full("hello")).await;
    let answer = sender.send_request(ask()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
    timeout(PATIENCE, ended).await.expect("the server ends it").unwrap();
}

/// Replies to its pings were counted as use of the connection.
#[tokio::test]
async fn an_http2_client_that_only_pings_gives_its_place_back() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const PING: [u8; 17] = *b"\0\0\x08\x06\0\0\0\0\0 a ping ";
    let patience = HttpTimeouts { idle: IDLE, answer: IDLE, ..PATIENT };
    let stream = agreed_on_http2(patience, || crate::http::body::full("hello")).await;
    let (from, mut to) = tokio::io::split(stream);
    to.write_all(PREFACE).await.unwrap();
    let (answers, mut due) = mpsc::unbounded_channel::<Vec<u8>>();
    // It sends as many as it can: 4,000 in a second were enough.
    let pings = PING.repeat(512);
    let pinging = async {
        loop {
            let answered = std::iter::from_fn(|| due.try_recv().ok()).flatten();
            let all: Vec<u8> = answered.chain(pings.iter().copied()).collect();
            if to.write_all(&all).await.is_err() || to.flush().await.is_err() {
                return;
            }
        }
    };
    // It answers the server's own pings: otherwise it would be cut off for that.
    let hearing = async {
        let mut from = tokio::io::BufReader::new(from);
        let mut head = [0; 9];
        while from.read_exact(&mut head).await.is_ok() {
            let [high, middle, low, kind, flags, ..] = head;
            let mut payload = vec![0; usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)];
            let is_ping = (kind, flags) == (6, 0);
            let is_over = from.read_exact(&mut payload).await.is_err();
            if is_over || is_ping && answers.send([&PING[..4], &[1, 0, 0, 0, 0], &payload].concat()).is_err() {
                return;
            }
        }
    };
    let ended = async {
        tokio::select! {
            () = pinging => {}
            () = hearing => {}
        }
    };
    timeout(PATIENCE, ended).await.expect("the server ends it");
}

/// A watch without events lasts longer than every limit, and stays whole.
#[tokio::test]
async fn an_http2_answer_that_has_nothing_to_say_for_long_is_not_ended() {
    let patience = HttpTimeouts { idle: IDLE, answer: SOON, ..PATIENT };
    let (mut sender, ended) = http2(patience, 65_535, || {
        let rare = stream::unfold(0, |sent| async move {
            tokio::time::sleep(IDLE * 2).await;
            (sent < 2).then(|| (Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"event"))), sent + 1))
        });
        StreamBody::new(Box::pin(rare)).boxed_unsync()
    })
    .await;
    let answer = sender.send_request(ask()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "eventevent");
    timeout(PATIENCE, ended).await.expect("then it is idle").unwrap();
}

/// Its window is full, and it never opens it again, while the connection itself takes everything.
#[tokio::test]
async fn an_http2_client_that_allows_nothing_of_its_answer_is_cut_off() {
    let (mut sender, ended) = http2(HttpTimeouts { answer: SOON, ..PATIENT }, 1000, || {
        let endless = stream::repeat_with(|| Ok::<_, io::Error>(Frame::data(Bytes::from_static(&[7; 1000]))));
        StreamBody::new(endless).boxed_unsync()
    })
    .await;
    let answer = sender.send_request(ask()).await.unwrap();
    timeout(PATIENCE, ended).await.expect("the server ends it").unwrap();
    drop(answer);
}

/// Three places for strangers, who are at 127.0.0.1, and one reserved for the host at 127.0.0.2.
const FEW: Share = Share { total: 4, per_client: 4, per_known: 1 };

async fn serve_few<H, F>(handler: H) -> SocketAddr
where
    H: Fn(Request<RequestBody>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let host = IpAddr::from([127, 0, 0, 2]);
    let standings =
        Standings::new(
            move |client| {
                if client == host { ClientClass::Known(vec!["host".into()]) } else { ClientClass::Stranger }
            },
        );
    serve_in(FEW, standings, PATIENT, (listener, None), handler);
    address
}

async fn connect(from: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

/// Sends a request on a connection that stays open; returns whether it was answered.
async fn is_answered(stream: &mut TcpStream) -> bool {
    let asking = async {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        let mut head = [0; 8];
        stream.read_exact(&mut head).await
    };
    timeout(PATIENCE, asking).await.expect("it is answered or closed").is_ok()
}

/// Idle connections held every place for as long as they were waited for.
#[tokio::test]
async fn a_connection_that_sends_no_request_yields_to_the_next() {
    let address = serve_few(hello).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        let mut stream = connect([127, 0, 0, 1], address).await;
        stream.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
        idle.push(stream);
    }
    let mut new = connect([127, 0, 0, 1], address).await;
    assert!(is_answered(&mut new).await);
    assert_eq!(rest(&mut idle.remove(0)).await, "", "the one that waited for longest is closed");
    for stream in &mut idle {
        stream.write_all(b"\r\n\r\n").await.unwrap();
        let mut head = [0; 8];
        timeout(PATIENCE, stream.read_exact(&mut head)).await.expect("it is there").expect("it was not closed");
    }
}

/// An answer under way is never cut off for another client.
#[tokio::test]
async fn what_is_being_answered_stays_and_a_known_host_has_its_place() {
    let (asked, mut has_asked) = mpsc::unbounded_channel();
    let handler = move |request: Request<RequestBody>, remote| {
        let asked = asked.clone();
        async move {
            assert!(asked.send(()).is_ok());
            if request.uri().path() == "/slow" {
                std::future::pending::<()>().await;
            }
            hello(request, remote).await
        }
    };
    let address = serve_few(handler).await;
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut stream = connect([127, 0, 0, 1], address).await;
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        timeout(PATIENCE, has_asked.recv()).await.expect("it is asked").unwrap();
        slow.push(stream);
    }
    let mut stranger = connect([127, 0, 0, 1], address).await;
    assert_eq!(rest(&mut stranger).await, "", "there is none for a stranger");
    let mut host = connect([127, 0, 0, 2], address).await;
    assert!(is_answered(&mut host).await);
    for stream in &mut slow {
        let silent = timeout(SOON, stream.read_u8()).await;
        assert!(silent.is_err(), "it is still served: {silent:?}");
    }
}
