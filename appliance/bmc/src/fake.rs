//! A Redfish service with a memory, for tests of whatever drives one.
//!
//! [`Fake`] answers requests from a state that tests read and change while it runs: power, boot
//! override, logins, and [`Fault`]s as real services have them. The logic is pure ([`Fake::answer`]);
//! [`Fake::serve`] puts it behind a listener. It looks like a small DMTF-conformant service with one system.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::Credentials;
use crate::decide::PowerState;

/// How a service may misbehave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every request gets this status.
    Status(u16),
    /// Every request is sent elsewhere.
    Redirect(String),
    /// Answers that are no JSON.
    Garbage,
    /// Answers that do not end.
    Endless,
    /// Takes power actions and does nothing.
    IgnoresPower,
    /// Takes boot overrides and forgets them.
    ForgetsBoot,
    /// Says "Continuous" for "Once".
    SaysContinuous,
    /// Refuses Basic authentication; sessions only.
    SessionsOnly,
    /// Refuses a PATCH whose If-Match is not this service's idea of the resource.
    PickyEtag,
    /// Points its reset action at another server.
    ForeignReset(String),
}

/// What a test reads and changes.
#[derive(Clone, Debug)]
pub struct State {
    pub credentials: Credentials,
    pub power: PowerState,
    pub manufacturer: String,
    pub boot_enabled: String,
    pub boot_target: String,
    pub boot_mode: String,
    pub macs: Vec<[u8; 6]>,
    /// Identifiers of the systems; the first is the one with a state.
    pub systems: Vec<String>,
    pub resets_allowed: Vec<String>,
    pub faults: Vec<Fault>,
    /// `METHOD path` of every request, in order.
    pub requests: Vec<String>,
    /// Reset types that were taken.
    pub resets: Vec<String>,
    /// Open sessions, as tokens.
    pub sessions: Vec<String>,
    sessions_made: u32,
}

/// A request as far as the service looks at it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    pub session: Option<String>,
    pub if_match: Option<String>,
    pub body: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

/// A handle; clones share one state.
#[derive(Clone, Debug)]
pub struct Fake(Arc<Mutex<State>>);

const ROOT: &str = "/redfish/v1";
const ETAG: &str = "\"1\"";
/// More than a client may take.
const ENDLESS_BYTES: usize = 4 * 1024 * 1024;
const REQUEST_BYTES_MAX: usize = 64 * 1024;

impl Fake {
    /// A system that is off, with one MAC.
    #[must_use]
    pub fn new(credentials: Credentials, mac: [u8; 6]) -> Self {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        Self(Arc::new(Mutex::new(State {
            credentials,
            power: PowerState::Off,
            manufacturer: "Firesteel".to_owned(),
            boot_enabled: "Disabled".to_owned(),
            boot_target: "None".to_owned(),
            boot_mode: "UEFI".to_owned(),
            macs: vec![mac],
            systems: words(&["1"]),
            resets_allowed: words(&["On", "ForceOff", "GracefulShutdown", "ForceRestart"]),
            faults: Vec::new(),
            requests: Vec::new(),
            resets: Vec::new(),
            sessions: Vec::new(),
            sessions_made: 0,
        })))
    }

    /// The state, locked: do not hold it across a request.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn answer(&self, request: &Request) -> Response {
        self.state().answer(request)
    }

    /// Answers on `listener` until the task is dropped.
    pub async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(self.clone().converse(stream));
        }
    }

    /// One connection: plain, or what a TLS handshake has made of it.
    pub async fn converse<S>(self, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request| {
            let fake = self.clone();
            async move { Ok::<_, Infallible>(fake.respond(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to the fake BMC");
        }
    }

    async fn respond(&self, request: hyper::Request<Incoming>) -> hyper::Response<Full<Bytes>> {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut plain = Request {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            authorization: header("authorization"),
            session: header("x-auth-token"),
            if_match: header("if-match"),
            body: Bytes::new(),
        };
        plain.body = match Limited::new(request.into_body(), REQUEST_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => Bytes::new(),
        };
        let answer = self.answer(&plain);
        let mut response = hyper::Response::new(Full::new(answer.body));
        *response.status_mut() = hyper::StatusCode::from_u16(answer.status).unwrap_or_default();
        for (name, value) in answer.headers {
            if let Ok(value) = value.parse() {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl State {
    fn has(&self, fault: &Fault) -> bool {
        self.faults.contains(fault)
    }

    fn answer(&mut self, request: &Request) -> Response {
        self.requests.push(format!("{} {}", request.method, request.path));
        for fault in &self.faults {
            match fault {
                Fault::Status(status) => return error(*status, "as the test wants it"),
                Fault::Redirect(to) => {
                    return Response { status: 307, headers: vec![("location", to.clone())], body: Bytes::new() };
                }
                Fault::Garbage => return respond(200, Bytes::from_static(b"<html>not Redfish</html>")),
                Fault::Endless => return respond(200, Bytes::from(vec![b' '; ENDLESS_BYTES])),
                Fault::IgnoresPower
                | Fault::ForgetsBoot
                | Fault::SaysContinuous
                | Fault::SessionsOnly
                | Fault::PickyEtag
                | Fault::ForeignReset(_) => {}
            }
        }
        let path = request.path.trim_end_matches('/');
        let parts: Vec<&str> = path.strip_prefix(ROOT).unwrap_or("/-").split('/').skip(1).collect();
        let method = request.method.as_str();
        match (method, parts.as_slice()) {
            ("GET", []) => return reply(&root()),
            ("POST", ["SessionService", "Sessions"]) => return self.open_session(&request.body),
            _ if !self.is_known(request) => return error(401, "who are you?"),
            _ => {}
        }
        match (method, parts.as_slice()) {
            ("DELETE", ["SessionService", "Sessions", token]) => {
                self.sessions.retain(|open| open != token);
                empty()
            }
            ("GET", ["Systems"]) => reply(&collection(&format!("{ROOT}/Systems"), &self.systems)),
            (method, ["Systems", id, rest @ ..]) if self.systems.first().is_some_and(|first| first == id) => {
                let id = (*id).to_owned();
                self.answer_system(method, &id, rest, request)
            }
            _ => error(404, "no such resource"),
        }
    }

    fn answer_system(&mut self, method: &str, id: &str, rest: &[&str], request: &Request) -> Response {
        let path = format!("{ROOT}/Systems/{id}");
        let names = || (0..self.macs.len()).map(|n| format!("eth{n}")).collect::<Vec<_>>();
        match (method, rest) {
            ("GET", []) => {
                let mut response = reply(&self.system(&path));
                response.headers.push(("etag", ETAG.to_owned()));
                response
            }
            ("PATCH", []) => self.patch(request),
            ("POST", ["Actions", "ComputerSystem.Reset"]) => self.reset(&request.body),
            ("GET", ["EthernetInterfaces"]) => reply(&collection(&format!("{path}/EthernetInterfaces"), &names())),
            ("GET", ["EthernetInterfaces", name]) => {
                let mac = name.strip_prefix("eth").and_then(|n| n.parse().ok()).and_then(|n: usize| self.macs.get(n));
                match mac {
                    Some(mac) => reply(&json!({"Id": name, "MACAddress": mac_text(mac), "LinkStatus": "LinkUp"})),
                    None => error(404, "no such interface"),
                }
            }
            _ => error(405, "not done here"),
        }
    }

    fn is_known(&self, request: &Request) -> bool {
        let pair = format!("{}:{}", self.credentials.username, self.credentials.password);
        let basic = format!("Basic {}", STANDARD.encode(pair));
        let is_basic = !self.has(&Fault::SessionsOnly) && request.authorization.as_ref() == Some(&basic);
        is_basic || request.session.as_ref().is_some_and(|token| self.sessions.contains(token))
    }

    fn open_session(&mut self, body: &Bytes) -> Response {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let given = (body["UserName"].as_str(), body["Password"].as_str());
        if given != (Some(&self.credentials.username), Some(&self.credentials.password)) {
            return error(401, "wrong user or password");
        }
        self.sessions_made += 1;
        let token = format!("session-{}", self.sessions_made);
        self.sessions.push(token.clone());
        let location = format!("{ROOT}/SessionService/Sessions/{token}");
        Response { status: 201, headers: vec![("x-auth-token", token), ("location", location)], body: Bytes::new() }
    }

    fn system(&self, path: &str) -> Value {
        let power = match self.power {
            PowerState::On => "On",
            PowerState::Off => "Off",
            PowerState::PoweringOn => "PoweringOn",
            PowerState::PoweringOff => "PoweringOff",
            PowerState::Unknown => "Reset",
        };
        let foreign = self
            .faults
            .iter()
            .find_map(|fault| if let Fault::ForeignReset(to) = fault { Some(to.clone()) } else { None });
        json!({
            "@odata.id": path,
            "Manufacturer": self.manufacturer,
            "Model": "Fake",
            "SerialNumber": "FAKE-1",
            "UUID": "00000000-0000-4000-8000-000000000001",
            "PowerState": power,
            "Boot": {
                "BootSourceOverrideEnabled": self.boot_enabled,
                "BootSourceOverrideTarget": self.boot_target,
                "BootSourceOverrideMode": self.boot_mode,
                "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "UefiHttp"],
            },
            "EthernetInterfaces": {"@odata.id": format!("{path}/EthernetInterfaces")},
            "Actions": {"#ComputerSystem.Reset": {
                "target": foreign.unwrap_or_else(|| format!("{path}/Actions/ComputerSystem.Reset")),
                "ResetType@Redfish.AllowableValues": self.resets_allowed,
            }},
        })
    }

    fn patch(&mut self, request: &Request) -> Response {
        if self.has(&Fault::PickyEtag) && request.if_match.is_some() {
            return error(412, "the resource has changed");
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(boot) = body.get("Boot").and_then(Value::as_object) else {
            return error(400, "nothing here can be changed but Boot");
        };
        if self.has(&Fault::ForgetsBoot) {
            return empty();
        }
        for (name, value) in boot {
            let value = value.as_str().unwrap_or_default().to_owned();
            match name.as_str() {
                "BootSourceOverrideEnabled" if self.has(&Fault::SaysContinuous) && value == "Once" => {
                    self.boot_enabled = "Continuous".to_owned();
                }
                "BootSourceOverrideEnabled" => self.boot_enabled = value,
                "BootSourceOverrideTarget" => self.boot_target = value,
                "BootSourceOverrideMode" => self.boot_mode = value,
                _ => return error(400, "an unknown property"),
            }
        }
        empty()
    }

    fn reset(&mut self, body: &Bytes) -> Response {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let reset_type = body["ResetType"].as_str().unwrap_or_default().to_owned();
        if !self.resets_allowed.contains(&reset_type) {
            return error(400, "this reset type is not offered");
        }
        let is_on = self.power == PowerState::On;
        let next = match (reset_type.as_str(), is_on) {
            ("On" | "ForceOn", true) | ("ForceOff" | "GracefulShutdown", false) => {
                return error(409, "the system is in that state already");
            }
            ("ForceOff" | "GracefulShutdown", true) => PowerState::Off,
            _ => PowerState::On,
        };
        self.resets.push(reset_type);
        if !self.has(&Fault::IgnoresPower) {
            self.power = next;
            // A boot once is used up by the boot.
            if next == PowerState::On && self.boot_enabled == "Once" {
                self.boot_enabled = "Disabled".to_owned();
                self.boot_target = "None".to_owned();
            }
        }
        empty()
    }
}

fn root() -> Value {
    json!({
        "@odata.id": ROOT,
        "RedfishVersion": "1.15.0",
        "Systems": {"@odata.id": format!("{ROOT}/Systems")},
        "Links": {"Sessions": {"@odata.id": format!("{ROOT}/SessionService/Sessions")}},
    })
}

fn collection(path: &str, names: &[String]) -> Value {
    let members: Vec<Value> = names.iter().map(|name| json!({"@odata.id": format!("{path}/{name}")})).collect();
    json!({"@odata.id": path, "Members@odata.count": members.len(), "Members": members})
}

fn mac_text(mac: &[u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02X}")).join(":")
}

fn reply(value: &Value) -> Response {
    respond(200, Bytes::from(value.to_string()))
}

fn respond(status: u16, body: Bytes) -> Response {
    Response { status, headers: vec![("content-type", "application/json".to_owned())], body }
}

fn empty() -> Response {
    Response { status: 204, headers: Vec::new(), body: Bytes::new() }
}

fn error(status: u16, message: &str) -> Response {
    let body = json!({"error": {"code": "Base.1.0.GeneralError", "@Message.ExtendedInfo": [{"Message": message}]}});
    respond(status, Bytes::from(body.to_string()))
}
