//! Addresses that a tenant or an operator names, and what is behind them: the appliance's own reach, a BMC that sends
//! without end, a login for a mirror.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};

use firesteel_tests::field::{self, Field, RELAY, discover, mac};
use firesteel_tests::network::Dhcp;
use serde_json::{Value, json};

use crate::{CLASS, bmc::Bmc, judge};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
/// What is only inside of the appliance's machine.
const INSIDE: &str = "planted-answer-of-an-internal-service";
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// More than the buffers of two sockets hold, and far less than a minute brings.
const SENT_MAX: usize = 64 << 20;
/// BMCs that send without end at the same time.
const BMCS: u8 = 8;

/// A server of plain texts: it answers each request by its path, and remembers all of them.
struct Texts {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Texts {
    /// Listens in this thread's namespace.
    fn start(at: impl std::net::ToSocketAddrs, answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let request = request_of(&mut stream);
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().unwrap().push(request);
                // The client may hang up.
                drop(stream.write_all(answer(&path).as_bytes()));
            }
        });
        Self { address, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// The head of a request, in lower case.
fn request_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|length| length == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).to_lowercase()
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn to(place: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: {place}\r\n\r\n")
}

/// A host that wants this image.
fn host(number: u8, url: &str, checksum: &str) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": format!("wants-{number}")},
        "spec": {
            "online": true, "bootMACAddress": mac(number).to_string(),
            "image": {"url": url, "checksum": checksum, "format": "raw"},
        },
    })
}

fn zeros() -> String {
    "0".repeat(64)
}

/// Applies an object, whatever comes of it.
fn try_apply(field: &Field, object: &Value) -> Output {
    let file = field.appliance.folder().join("tried.json");
    std::fs::write(&file, object.to_string()).unwrap();
    field.appliance.command().args(["apply", "-f", file.to_str().unwrap()]).output().unwrap()
}

/// Everything that people and programs read, but the specs of objects.
fn told(field: &Field, hosts: &[u8]) -> String {
    let mut texts = vec![field.appliance.log(), field.firesteel(&["audit", "--tail", "1000"])];
    texts.push(field.firesteel(&["get", "events", "-o", "json"]));
    for number in hosts {
        let name = format!("wants-{number}");
        texts.push(field.firesteel(&["describe", "host", &name]));
        let object: Value = serde_json::from_str(&field.firesteel(&["get", "hosts", &name, "-o", "json"])).unwrap();
        let mut status = object["status"].clone();
        // These two are the spec's image, byte for byte.
        status["provisioning"]["image"] = Value::Null;
        status["lastAttemptedImage"] = Value::Null;
        texts.push(status.to_string());
    }
    texts.join("\n")
}

#[test]
fn what_only_the_appliance_reaches_is_not_asked() {
    field::with_field_that(PROGRAM, Dhcp::Managed, &[], |field| {
        let inside = Texts::start(LOOPBACK, |_| ok(INSIDE));
        let port = inside.address.port();
        let internal = inside.url("redirected");
        let origin = field.there(|| {
            Texts::start((RELAY, 0), move |path| match path {
                "/to-loopback" => to(&internal),
                "/to-metadata" => to("http://169.254.169.254/latest/user-data"),
                "/to-api" => to("https://10.77.0.1:6443/version"),
                _ => ok("an origin that may be asked"),
            })
        });
        let here = "--allow-target";
        let own = "a listener of this appliance";
        let attempts = [
            ("loopback", format!("http://127.0.0.1:{port}/a"), here),
            ("loopback as IPv6", format!("http://[::ffff:127.0.0.1]:{port}/b"), here),
            ("loopback as a number", format!("http://2130706433:{port}/c"), here),
            ("loopback by name", format!("http://localhost:{port}/d"), here),
            ("the unspecified address", format!("http://0.0.0.0:{port}/e"), here),
            ("a cloud's metadata", "http://169.254.169.254/latest/meta-data".to_owned(), here),
            ("the API", "https://10.77.0.1:6443/version".to_owned(), own),
            ("boot files", "http://10.77.0.1:8080/boot.ipxe".to_owned(), own),
            ("a redirect to loopback", origin.url("to-loopback"), here),
            ("a redirect to metadata", origin.url("to-metadata"), here),
            ("a redirect to the API", origin.url("to-api"), own),
        ];
        let numbers: Vec<u8> = (1..).take(attempts.len() + 2).collect();
        for (number, (attack, url, why)) in numbers.iter().zip(&attempts) {
            field.apply(&host(*number, url, &zeros()));
            field.appliance.wait_for_log(&format!("{url} is not fetched"));
            let log = field.appliance.log();
            let line = log.lines().rev().find(|line| line.contains(&format!("{url} is not fetched"))).unwrap();
            judge(attack, "an answer from inside", "not asked", if line.contains(why) { "not asked" } else { line });
        }
        let checksum = inside.url("sums");
        field.apply(&host(numbers[attempts.len()], &origin.url("image"), &checksum));
        field.appliance.wait_for_log(&format!("{checksum} is not fetched"));
        judge("a checksum on loopback", "an answer from inside", "not asked", "not asked");

        // The origin itself may be asked: what is refused is refused for where it leads. What it sends is a text, which
        // no message quotes.
        let number = numbers[attempts.len() + 1];
        field.apply(&host(number, &origin.url("text"), &zeros()));
        field.appliance.wait_for_log("the image's checksum is");
        assert!(origin.requests().iter().any(|request| request.starts_with("get /text ")), "an origin is asked");
        assert_eq!(inside.requests(), Vec::<String>::new(), "nothing inside was asked");
        let told = told(field, &numbers);
        assert!(!told.contains(INSIDE) && !told.contains("an origin that may be asked"), "{told}");
    });
}

#[test]
fn a_bmc_inside_of_the_appliance_is_not_asked() {
    field::with_field_that(PROGRAM, Dhcp::Managed, &[], |field| {
        let inside = Texts::start(LOOPBACK, |_| ok(INSIDE));
        field.apply(&Bmc::secret("login"));
        let address = format!("redfish+http://{}/redfish/v1/Systems/1", inside.address);
        field.apply(&bmc_host(1, &address));
        field.until(&["describe", "host", "bmc-1"], |page| page.contains("--allow-target 127.0.0.1/32"));
        judge("a BMC on loopback", "an answer from inside", "not asked", "not asked");
        let ipmi = format!("ipmi://127.0.0.1:{}", inside.address.port());
        field.apply(&bmc_host(2, &ipmi));
        field.until(&["describe", "host", "bmc-2"], |page| page.contains("--allow-target 127.0.0.1/32"));
        judge("IPMI on loopback", "an answer from inside", "not asked", "not asked");
        assert_eq!(inside.requests(), Vec::<String>::new());
    });
}

fn bmc_host(number: u8, address: &str) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": format!("bmc-{number}")},
        "spec": {
            "online": true, "bootMACAddress": mac(number).to_string(),
            "bmc": {"address": address, "credentialsName": "login"},
        },
    })
}

/// A server that answers each request with `100 Continue`, again and again. What it got rid of on each connection.
struct Endless {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<usize>>>,
}

impl Endless {
    fn start() -> Self {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let address = listener.local_addr().unwrap();
        let sent: Arc<Mutex<Vec<usize>>> = Arc::default();
        let seen = Arc::clone(&sent);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                request_of(&mut stream);
                seen.lock().unwrap().push(send_without_end(&mut stream));
            }
        });
        Self { address, sent }
    }
}

/// Until the client ends it, or nothing else would.
fn send_without_end(stream: &mut TcpStream) -> usize {
    let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
    let mut sent = 0;
    while sent < SENT_MAX && stream.write_all(many.as_bytes()).is_ok() {
        sent += many.len();
    }
    sent
}

#[test]
fn bmcs_that_answer_continue_without_end_are_cut_off_while_hosts_get_leases() {
    field::with_field(PROGRAM, Dhcp::Managed, |field| {
        let bmcs: Vec<Endless> = (0..BMCS).map(|_| Endless::start()).collect();
        field.apply(&Bmc::secret("login"));
        for (number, bmc) in (1..).zip(&bmcs) {
            let address = format!("redfish+http://{}/redfish/v1/Systems/1", bmc.address);
            field.apply(&bmc_host(number, &address));
        }
        // Hosts go on getting addresses meanwhile.
        for number in 100..110 {
            field.lease(&discover(number, CLASS, &[7]));
        }
        for number in 1..=BMCS {
            let name = format!("bmc-{number}");
            field.until(&["describe", "host", &name], |page| {
                page.contains("sends more than an answer like this may have")
            });
        }
        let sent: Vec<usize> = bmcs.iter().flat_map(|bmc| bmc.sent.lock().unwrap().clone()).collect();
        let is_cut = !sent.is_empty() && sent.iter().all(|bytes| *bytes < SENT_MAX);
        let got = if is_cut { "the connection ends" } else { "a core for a minute" };
        judge("100 Continue without end", "a core for a minute", "the connection ends", got);
        println!(
            "100 Continue: {} connections of {BMCS} BMCs, {} bytes at most",
            sent.len(),
            sent.iter().max().unwrap()
        );
    });
}

#[test]
fn a_login_is_refused_in_an_address_and_shown_to_its_origin_alone() {
    field::with_field_that(PROGRAM, Dhcp::Managed, &[], |field| {
        let other = field.there(|| Texts::start((RELAY, 0), |_| ok("elsewhere")));
        let elsewhere = other.url("moved");
        let mirror = field.there(|| {
            Texts::start((RELAY, 0), move |path| match path {
                "/sums" => ok(&format!("{}  image\n", zeros())),
                _ => to(&elsewhere),
            })
        });

        // In the address itself.
        let refused = format!("http://planted-user:planted-password@{}/image?planted-query=1", mirror.address);
        let output = try_apply(field, &host(1, &refused, &zeros()));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("firesteel.dev/image-login"), "{said}");
        assert!(!said.contains("planted"), "{said}");
        judge("a login in an address", "a login that everybody reads", "refused", "refused");

        // By the Secret that the annotation names: at the mirror, for image and checksum, and nowhere else.
        field.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mirror-login"},
            "stringData": {"username": "reader", "password": "planted-secret"},
        }));
        let url = format!("{}?signature=planted-query", mirror.url("image"));
        let mut wanted = host(2, &url, &mirror.url("sums"));
        wanted["metadata"]["annotations"] = json!({"firesteel.dev/image-login": "mirror-login"});
        field.apply(&wanted);
        field.appliance.wait_for_log("the image's checksum is");
        // base64 of `reader:planted-secret`, in lower case as all that is kept of requests.
        let login = "authorization: basic cmvhzgvyonbsyw50zwqtc2vjcmv0";
        let with_login = |texts: &Texts, path: &str| {
            let requests = texts.requests();
            let asked = requests.iter().find(|request| request.starts_with(&format!("get /{path}"))).cloned();
            asked.unwrap_or_else(|| panic!("/{path} was not asked for: {requests:?}")).contains(login)
        };
        assert!(with_login(&mirror, "sums") && with_login(&mirror, "image?signature=planted-query"));
        let got = if with_login(&other, "moved") { "the login" } else { "no login" };
        judge("a redirect to another origin", "the login", "no login", got);

        // The query stays in the spec, and is in nothing that is told.
        let spec = field.firesteel(&["get", "hosts", "wants-2", "-o", "json"]);
        assert!(spec.contains("?signature=planted-query"), "{spec}");
        let told = told(field, &[2]);
        assert!(told.contains("image?(hidden)"), "{told}");
        assert!(!told.contains("planted"), "{told}");
    });
}
