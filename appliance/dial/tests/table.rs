//! URLs × redirects × resolutions: what is connected to, and what is not. Servers are at addresses of loopback that one
//! block lets through, so that what is refused has a listener as well, which would notice.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_dial::{
    DialError, Dialer, ExchangeError, Proxy, Resolve, Resolving, Targets, Url, WebClient, WebError, WebLogin,
};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Where the block lets through.
const OPEN: Ipv4Addr = Ipv4Addr::new(127, 7, 0, 1);
/// Where it does not.
const SHUT: Ipv4Addr = Ipv4Addr::LOCALHOST;
const BODY_BYTES_MAX: u64 = 1 << 20;
const WITHIN: Duration = Duration::from_secs(60);

/// Names with their addresses, one list for each look-up; the last one stays.
#[derive(Debug, Default)]
struct Names(Mutex<HashMap<&'static str, Vec<Vec<IpAddr>>>>);

impl Names {
    fn of(names: &[(&'static str, &[&[&str]])]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(names.iter().map(|(name, lists)| (*name, addresses(lists))).collect())))
    }
}

fn addresses(lists: &[&[&str]]) -> Vec<Vec<IpAddr>> {
    lists.iter().map(|list| list.iter().map(|ip| ip.parse().unwrap()).collect()).collect()
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        let mut names = self.0.lock().unwrap();
        let found = names.get_mut(host).map(|lists| if lists.len() > 1 { lists.remove(0) } else { lists[0].clone() });
        let found = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such name"));
        let addresses = found.map(|list| list.into_iter().map(|ip| SocketAddr::new(ip, port)).collect());
        Box::pin(std::future::ready(addresses))
    }
}

/// A server that answers by path, and remembers its requests.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(at: Ipv4Addr, answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((at, 0)).await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (seen, answer) = (Arc::clone(&server.requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    let request = String::from_utf8(head).unwrap();
                    let path = request.split(' ').nth(1).unwrap().to_owned();
                    seen.lock().unwrap().push(request);
                    // The client may hang up.
                    drop(stream.write_all(answer(&path).as_bytes()).await);
                });
            }
        });
        server
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect(status: u16, to: &str) -> String {
    format!("HTTP/1.1 {status} Elsewhere\r\nConnection: close\r\nContent-Length: 0\r\nLocation: {to}\r\n\r\n")
}

fn targets() -> Targets {
    Targets::allowing(["127.7.0.0/24".parse().unwrap()])
}

fn client(names: &Arc<Names>) -> WebClient {
    let resolver: Arc<dyn Resolve> = Arc::<Names>::clone(names);
    WebClient::new(Dialer::with_resolver(targets(), resolver)).unwrap()
}

async fn get(client: &WebClient, url: &str, login: Option<&WebLogin>) -> Result<(StatusCode, Vec<u8>), WebError> {
    let asked = async {
        let mut answer = client.get(&Url::parse(url).unwrap(), &HeaderMap::new(), login, BODY_BYTES_MAX).await?;
        let mut body = Vec::new();
        while let Some(bytes) = answer.chunk().await? {
            body.extend_from_slice(&bytes);
        }
        Ok::<_, WebError>((answer.status, body))
    };
    tokio::time::timeout(WITHIN, asked).await.expect("each answer comes, or is refused")
}

/// What came of it, in a word.
fn word(got: &Result<(StatusCode, Vec<u8>), WebError>) -> &'static str {
    match got {
        Ok((_, body)) if body == b"open" => "open",
        Ok(_) => "another body",
        Err(error) if error.refused().is_some() => "refused",
        Err(WebError::Exchange(ExchangeError::Dial(DialError::Resolve { .. }))) => "unknown",
        Err(WebError::UserInformation) => "login",
        Err(WebError::Redirect { .. }) => "not followed",
        Err(WebError::Circle) => "circle",
        Err(_) => "failed",
    }
}

#[tokio::test]
async fn what_is_connected_to_was_judged() {
    let shut = Server::start(SHUT, |_| ok("shut")).await;
    let inside = shut.address.port();
    let open = Server::start(OPEN, |_| ok("open")).await;
    let port = open.address.port();
    let names = Names::of(&[
        ("open.example", &[&["127.7.0.1"]]),
        ("shut.example", &[&["127.0.0.1"]]),
        ("mapped.example", &[&["::ffff:127.0.0.1"]]),
        ("mapped-open.example", &[&["::ffff:127.7.0.1"]]),
        ("both.example", &[&["127.0.0.1", "127.7.0.1"]]),
        ("nobody.example", &[&[]]),
    ]);
    let client = client(&names);
    for (host, direct) in [
        ("127.7.0.1", "open"),
        ("[::ffff:127.7.0.1]", "open"),
        ("open.example", "open"),
        ("mapped-open.example", "open"),
        ("both.example", "open"),
        ("127.0.0.1", "refused"),
        ("2130706433", "refused"),
        ("0x7f.1", "refused"),
        ("0177.0.0.1", "refused"),
        ("[::1]", "refused"),
        ("[::ffff:127.0.0.1]", "refused"),
        ("[::ffff:7f00:1]", "refused"),
        ("0.0.0.0", "refused"),
        ("0", "refused"),
        ("[::]", "refused"),
        ("169.254.169.254", "refused"),
        ("[fe80::1]", "refused"),
        ("224.0.0.1", "refused"),
        ("255.255.255.255", "refused"),
        ("shut.example", "refused"),
        ("mapped.example", "refused"),
        ("nobody.example", "failed"),
        ("missing.example", "unknown"),
    ] {
        // What is refused has a listener at the other port.
        let at = if direct == "open" { port } else { inside };
        let url = format!("http://{host}:{at}/x");
        assert_eq!(word(&get(&client, &url, None).await), direct, "{url}");
        // And the same through each kind of redirect.
        for status in [301, 302, 303, 307, 308] {
            let to = url.clone();
            let origin = Server::start(OPEN, move |_| redirect(status, &to)).await;
            let got = get(&client, &format!("http://{}/", origin.address), None).await;
            assert_eq!(word(&got), direct, "{status} to {url}");
        }
    }
    assert_eq!(shut.requests(), Vec::<String>::new(), "nothing that is refused was connected to");
}

/// A name is looked up for each connection, and each time it is judged.
#[tokio::test]
async fn a_name_that_changes_is_judged_again() {
    let shut = Server::start(SHUT, |_| ok("shut")).await;
    let port = shut.address.port();
    let listener = TcpListener::bind((OPEN, port)).await;
    // Only where the port is free at both addresses.
    let Ok(listener) = listener else { return };
    let again = format!("http://changes.example:{port}/again");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok() {
                drop(stream.write_all(redirect(302, &again).as_bytes()).await);
            }
        }
    });
    let names = Names::of(&[("changes.example", &[&["127.7.0.1"], &["127.0.0.1"]])]);
    let got = get(&client(&names), &format!("http://changes.example:{port}/"), None).await;
    assert_eq!(word(&got), "refused");
    assert_eq!(shut.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn redirects_end_and_lead_nowhere_else() {
    let names = Names::of(&[]);
    let circle = Server::start(OPEN, |_| redirect(302, "/again")).await;
    assert_eq!(word(&get(&client(&names), &format!("http://{}/", circle.address), None).await), "circle");
    assert_eq!(circle.requests().len(), firesteel_dial::REDIRECTS_MAX + 1);
    for to in ["file:///etc/shadow", "ftp://127.7.0.1/x", "gopher://127.7.0.1/x", "http://me:secret@127.7.0.1/x"] {
        let origin = Server::start(OPEN, move |_| redirect(302, to)).await;
        let got = get(&client(&names), &format!("http://{}/", origin.address), None).await;
        assert_eq!(word(&got), "not followed", "{to}");
        assert!(!got.unwrap_err().to_string().contains("secret"));
    }
    let got = get(&client(&names), "http://me:secret@127.7.0.1/x", None).await;
    assert_eq!(word(&got), "login");
}

#[tokio::test]
async fn a_login_is_shown_to_its_own_origin_alone() {
    let login = WebLogin { username: "reader".into(), password: "secret".into() };
    assert_eq!(format!("{login:?}"), "WebLogin(…)");
    let other = Server::start(OPEN, |_| ok("open")).await;
    let elsewhere = format!("http://{}/there", other.address);
    let origin = Server::start(OPEN, move |path| match path {
        "/" => redirect(302, "/here"),
        _ => redirect(302, &elsewhere),
    })
    .await;
    let got = get(&client(&Names::of(&[])), &format!("http://{}/", origin.address), Some(&login)).await;
    assert_eq!(word(&got), "open");
    let is_shown = |request: &String| request.contains("authorization: Basic cmVhZGVyOnNlY3JldA==");
    assert!(origin.requests().len() == 2 && origin.requests().iter().all(is_shown), "{:?}", origin.requests());
    assert!(!other.requests().iter().any(is_shown), "{:?}", other.requests());
}

/// Heads, what comes before them, and what is around a body cost time, and have no end in HTTP.
#[tokio::test]
async fn what_has_no_end_is_cut_off_below_http() {
    for (what, many) in [
        ("informational answers", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".to_owned()),
        ("chunks of nothing much", format!("1;{}\r\nx\r\n", "e".repeat(100))),
        ("fields of a head", format!("X-Field: {}\r\n", "v".repeat(100))),
    ] {
        let listener = TcpListener::bind((OPEN, 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            /// More than the buffers of two sockets hold.
            const SENT_MAX: usize = 128 << 20;
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let head = match what {
                "informational answers" => "",
                "fields of a head" => "HTTP/1.1 200 OK\r\n",
                _ => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            };
            let (block, mut sent) = (many.repeat(200), head.len());
            let mut is_open = stream.write_all(head.as_bytes()).await.is_ok();
            while is_open && sent < SENT_MAX {
                is_open = stream.write_all(block.as_bytes()).await.is_ok();
                sent += block.len();
            }
            is_open
        });
        let got = get(&client(&Names::of(&[])), &url, None).await;
        assert_eq!(word(&got), "failed", "{what}");
        assert!(!server.await.unwrap(), "{what}: the connection was ended");
    }
}

#[tokio::test]
async fn a_proxy_fetches_for_us_and_is_not_asked_for_what_is_refused() {
    let proxy = Server::start(SHUT, |_| ok("open")).await;
    let setting = Proxy::parse(&format!("http://{}", proxy.address), &["direct.example".to_owned()]).unwrap();
    let names = Names::of(&[("direct.example", &[&["127.0.0.1"]])]);
    let through = client(&names).through(Some(setting));
    assert_eq!(word(&get(&through, "http://somewhere.example/x?y", None).await), "open");
    assert!(proxy.requests()[0].starts_with("GET http://somewhere.example/x?y HTTP/1.1\r\n"), "{:?}", proxy.requests());
    for refused in ["http://127.0.0.1/", "http://169.254.169.254/", "http://localhost/", "http://a.localhost./"] {
        assert_eq!(word(&get(&through, refused, None).await), "refused", "{refused}");
    }
    assert_eq!(word(&get(&through, "http://direct.example/", None).await), "refused", "it is judged as any other");
    assert_eq!(proxy.requests().len(), 1, "{:?}", proxy.requests());
    // A tunnel: what answers the wish for one is no TLS.
    assert_eq!(word(&get(&through, "https://somewhere.example/x", None).await), "failed");
    assert!(proxy.requests()[1].starts_with("CONNECT somewhere.example:443 HTTP/1.1\r\n"), "{:?}", proxy.requests());
}

/// Where a test runs itself once more: what it asks for.
const ASK: &str = "FIRESTEEL_DIAL_TEST_ASKS";

/// Variables of the environment are for other programs.
#[tokio::test]
async fn the_environment_names_no_proxy() {
    let proxy = Server::start(SHUT, |_| ok("proxied")).await;
    let open = Server::start(OPEN, |_| ok("open")).await;
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "asks_as_a_child"]).env(ASK, format!("http://{}/", open.address));
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        again.env(name, format!("http://{}", proxy.address));
    }
    assert!(again.status().await.unwrap().success());
    assert_eq!((proxy.requests().len(), open.requests().len()), (0, 1));
}

#[tokio::test]
async fn asks_as_a_child() {
    let Ok(url) = std::env::var(ASK) else { return };
    assert_eq!(word(&get(&client(&Names::of(&[])), &url, None).await), "open");
}
