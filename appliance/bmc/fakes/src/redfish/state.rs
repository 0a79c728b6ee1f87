//! What the fake service has, and what a request does to it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use firesteel_bmc::{Credentials, decide::PowerState};
use serde_json::Value;

use super::resources::{self, ROOT, empty, error, error_as, reply, respond};
use super::{Fault, Location, Quirks, Request, Response};

const ETAG: &str = "\"1\"";
const WEAK_ETAG: &str = "W/\"1\"";
/// More than a client may take.
const ENDLESS_BYTES: usize = 4 * 1024 * 1024;
/// More brackets than a reader may follow.
const DEEP: usize = 1000;

/// What a test reads and changes.
#[derive(Clone, Debug)]
pub struct State {
    pub credentials: Credentials,
    pub power: PowerState,
    pub vendor: String,
    pub product: String,
    pub manufacturer: String,
    pub model: String,
    pub manager_firmware: String,
    pub boot_enabled: String,
    pub boot_target: String,
    pub boot_mode: String,
    /// `None`: the system has no such property.
    pub http_boot_uri: Option<String>,
    pub boot_targets_allowed: Vec<String>,
    pub macs: Vec<[u8; 6]>,
    /// Identifiers of the systems; the first is the one with a state.
    pub systems: Vec<String>,
    pub resets_allowed: Vec<String>,
    /// Memory modules, as `Memory` resources.
    pub modules: usize,
    pub faults: Vec<Fault>,
    /// Differences that are data; [`Self::set_quirks`] sets them.
    pub(super) quirks: Quirks,
    /// `METHOD path` of every request, in order.
    pub requests: Vec<String>,
    /// Reset types that were taken.
    pub resets: Vec<String>,
    /// Open sessions, as tokens.
    pub sessions: Vec<String>,
    /// Sessions beyond these are refused.
    pub sessions_max: usize,
    /// Refused logins after which nobody is let in, as BMCs do.
    pub locks_after: Option<u32>,
    /// Logins that were refused since one was taken.
    pub logins_refused: u32,
    pub(super) sessions_made: u32,
    /// What is done after so many more looks at the system.
    later: Vec<(u32, Later)>,
}

#[derive(Clone, Debug)]
enum Later {
    Power(PowerState),
    Boot(Value),
}

impl State {
    pub(super) fn new(credentials: Credentials, mac: [u8; 6]) -> Self {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        Self {
            credentials,
            power: PowerState::Off,
            vendor: "Firesteel".to_owned(),
            product: "Fake".to_owned(),
            manufacturer: "Firesteel".to_owned(),
            model: "Fake".to_owned(),
            manager_firmware: "7.10".to_owned(),
            boot_enabled: "Disabled".to_owned(),
            boot_target: "None".to_owned(),
            boot_mode: "UEFI".to_owned(),
            http_boot_uri: Some(String::new()),
            boot_targets_allowed: words(&["None", "Pxe", "Hdd", "UefiHttp", "Cd"]),
            macs: vec![mac],
            systems: words(&["1"]),
            resets_allowed: words(&["On", "ForceOff", "GracefulShutdown", "ForceRestart"]),
            modules: 2,
            faults: Vec::new(),
            quirks: Quirks::default(),
            requests: Vec::new(),
            resets: Vec::new(),
            sessions: Vec::new(),
            sessions_max: 8,
            locks_after: None,
            logins_refused: 0,
            sessions_made: 0,
            later: Vec::new(),
        }
    }

    /// Whether the account is locked: the right password opens it no more.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locks_after.is_some_and(|most| self.logins_refused >= most)
    }

    pub(super) fn has(&self, fault: &Fault) -> bool {
        self.faults.contains(fault)
    }

    /// Makes it a service with these differences.
    pub fn set_quirks(&mut self, quirks: Quirks) {
        if let Some(limit) = quirks.session_limit {
            self.sessions_max = limit;
        }
        if let Some(system) = &quirks.system {
            self.systems = vec![system.clone()];
        }
        self.sessions.extend((0..quirks.session_taken).map(|number| format!("another-{number}")));
        self.quirks = quirks;
    }

    pub(super) fn answer(&mut self, request: &Request) -> Response {
        self.requests.push(format!("{} {}", request.method, request.path));
        if let Some(answer) = self.spoilt() {
            return answer;
        }
        let quirks = self.quirks.clone();
        let Some(path) = request.path.strip_prefix(&quirks.prefix) else { return error(404, "another service") };
        let request = Request { path: path.to_owned(), ..request.clone() };
        if let Some(answer) = quirks.instead(&request) {
            return answer;
        }
        let answer = self.answer_honestly(&request);
        quirks.changed(&request.path, answer)
    }

    fn answer_honestly(&mut self, request: &Request) -> Response {
        let path = request.path.trim_end_matches('/');
        let parts: Vec<&str> = path.strip_prefix(ROOT).unwrap_or("/-").split('/').skip(1).collect();
        let method = request.method.as_str();
        match (method, parts.as_slice()) {
            ("GET", []) => return reply(&self.root()),
            ("POST", ["SessionService", "Sessions"]) if !self.has(&Fault::NoSessions) => {
                return self.open_session(&request.body);
            }
            _ if !self.lets_in(request) => return error(401, "who are you?"),
            _ => {}
        }
        match (method, parts.as_slice()) {
            ("DELETE", ["SessionService", "Sessions", token]) => {
                self.sessions.retain(|open| open != token);
                empty()
            }
            ("GET", ["SessionService", "Sessions"]) => {
                reply(&resources::collection(&format!("{ROOT}/SessionService/Sessions"), &self.sessions))
            }
            ("GET", ["Systems"]) => reply(&resources::collection(&format!("{ROOT}/Systems"), &self.systems)),
            (method, ["Systems", below @ ..]) if self.system_in(below).is_some() => {
                let (id, length) = self.system_in(below).unwrap_or_default();
                self.answer_system(method, &id, below.get(length..).unwrap_or_default(), request)
            }
            ("GET", ["Managers", "BMC"]) => reply(&self.manager()),
            ("GET", ["UpdateService", rest @ ..]) => resources::update(rest),
            _ => error(404, "no such resource"),
        }
    }

    /// The system that a path below `Systems` begins with, and how many parts its identifier has.
    fn system_in(&self, below: &[&str]) -> Option<(String, usize)> {
        let id = self.systems.first()?;
        let parts: Vec<&str> = id.split('/').collect();
        below.starts_with(&parts).then(|| (id.clone(), parts.len()))
    }

    /// The answer of a service that has something against every request.
    fn spoilt(&self) -> Option<Response> {
        for fault in &self.faults {
            if let Fault::Status(status) = fault {
                return Some(error(*status, "as the test wants it"));
            }
            if let Fault::Redirect(to) = fault {
                return Some(Response { status: 307, headers: vec![("location", to.clone())], body: Bytes::new() });
            }
        }
        let body = if self.has(&Fault::Garbage) {
            Bytes::from_static(b"<html>not Redfish</html>")
        } else if self.has(&Fault::Deep) {
            Bytes::from("[".repeat(DEEP) + &"]".repeat(DEEP))
        } else if self.has(&Fault::Endless) {
            Bytes::from(vec![b' '; ENDLESS_BYTES])
        } else {
            return None;
        };
        Some(respond(200, body))
    }

    fn answer_system(&mut self, method: &str, id: &str, rest: &[&str], request: &Request) -> Response {
        let path = format!("{ROOT}/Systems/{id}");
        match (method, rest) {
            ("GET", []) => {
                self.look();
                let mut response = reply(&self.system(&path));
                let etag = if self.has(&Fault::WeakEtag) { WEAK_ETAG } else { ETAG };
                response.headers.push(("etag", etag.to_owned()));
                response
            }
            ("PATCH", []) if self.has(&Fault::BootInSettings) => {
                error_as(400, "Ami.1.0.OperationSupportedInFutureStateURI", "moved to FutureState URI")
            }
            ("PATCH", [] | ["SD"]) => self.patch(request),
            ("GET", ["SD"]) => reply(&serde_json::json!({"@odata.id": format!("{path}/SD"), "@odata.etag": ETAG})),
            ("POST", ["Actions", "ComputerSystem.Reset"]) => self.reset(&request.body),
            ("GET", rest) => self.part_of_system(&path, rest),
            _ => error(405, "not done here"),
        }
    }

    fn lets_in(&mut self, request: &Request) -> bool {
        if let Some(token) = &request.session {
            return self.sessions.contains(token);
        }
        let pair = format!("{}:{}", self.credentials.username, self.credentials.password);
        let basic = format!("Basic {}", STANDARD.encode(pair));
        let Some(given) = &request.authorization else { return false };
        let is_right = !self.has(&Fault::SessionsOnly) && !self.quirks.no_basic && *given == basic;
        self.judged(is_right)
    }

    /// Counts a login, as a BMC does.
    fn judged(&mut self, is_right: bool) -> bool {
        if is_right && !self.is_locked() {
            self.logins_refused = 0;
            return true;
        }
        self.logins_refused += 1;
        false
    }

    fn open_session(&mut self, body: &Bytes) -> Response {
        let refusal = self.faults.iter().find_map(|fault| {
            if let Fault::SessionRefused(status, id) = fault { Some(error_as(*status, id, "no session")) } else { None }
        });
        if let Some(refusal) = refusal {
            return refusal;
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let given = (body["UserName"].as_str(), body["Password"].as_str());
        let is_right = given == (Some(&self.credentials.username), Some(&self.credentials.password));
        if !self.judged(is_right) {
            return error(401, "wrong user or password");
        }
        if self.sessions.len() >= self.sessions_max {
            return error_as(503, "Base.1.8.SessionLimitExceeded", "no place for one more session");
        }
        self.sessions_made += 1;
        let token = format!("session-{}", self.sessions_made);
        self.sessions.push(token.clone());
        let location = format!("{ROOT}/SessionService/Sessions/{token}");
        let body = match self.quirks.location {
            Location::Header | Location::None => serde_json::json!({"@odata.id": location, "Id": token}),
            Location::Id => serde_json::json!({"Id": token}),
            Location::Nowhere => serde_json::json!({}),
        };
        let mut response = respond(201, Bytes::from(body.to_string()));
        response.headers.push(("x-auth-token", token));
        if self.quirks.location == Location::Header {
            response.headers.push(("location", location));
        }
        response
    }

    /// What was to be done after some looks comes closer.
    fn look(&mut self) {
        for (count, _) in &mut self.later {
            *count = count.saturating_sub(1);
        }
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.later).into_iter().partition(|(n, _)| *n == 0);
        self.later = later;
        for (_, work) in due {
            match work {
                Later::Power(power) => self.switch(power),
                Later::Boot(boot) => drop(self.set_boot(&boot)),
            }
        }
    }

    fn patch(&mut self, request: &Request) -> Response {
        let if_match = request.if_match.as_deref();
        let is_refused =
            self.has(&Fault::PickyEtag) && if_match.is_some() || self.has(&Fault::WeakEtag) && if_match != Some(ETAG);
        if is_refused {
            return error(412, "the resource has changed");
        }
        if self.has(&Fault::WantsEtag) && if_match.is_none() {
            return error(428, "a precondition is required");
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(boot) = body.get("Boot").filter(|boot| boot.is_object()) else {
            return error(400, "nothing here can be changed but Boot");
        };
        if self.has(&Fault::WantsMode) && boot.get("BootSourceOverrideMode").is_none() {
            return error(400, "The property BootSourceOverrideMode is a required property");
        }
        if self.has(&Fault::RefusesNone) && boot["BootSourceOverrideTarget"] == "None" {
            return error(400, "the value None is not taken");
        }
        if self.has(&Fault::ForgetsBoot) {
            return empty();
        }
        let after = self.faults.iter().find_map(|fault| if let Fault::BootLater(n) = fault { Some(*n) } else { None });
        match after {
            Some(looks) => {
                self.later.push((looks, Later::Boot(boot.clone())));
                empty()
            }
            None => self.set_boot(&boot.clone()),
        }
    }

    fn set_boot(&mut self, boot: &Value) -> Response {
        for (name, value) in boot.as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            match name.as_str() {
                "BootSourceOverrideEnabled" if self.has(&Fault::SaysContinuous) && value == "Once" => {
                    self.boot_enabled = "Continuous".to_owned();
                }
                "BootSourceOverrideEnabled" if value == "Once" => {
                    self.boot_enabled = self.quirks.once.clone().unwrap_or(value);
                }
                "BootSourceOverrideEnabled" => self.boot_enabled = value,
                "BootSourceOverrideTarget" if !self.boot_targets_allowed.contains(&value) => {
                    return error(400, "the target is not offered");
                }
                "BootSourceOverrideTarget" => self.boot_target = value,
                "BootSourceOverrideMode" if self.has(&Fault::ModeByJob) => {}
                "BootSourceOverrideMode" => self.boot_mode = value,
                "HttpBootUri" if self.http_boot_uri.is_some() => self.http_boot_uri = Some(value),
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
            ("ForceOff" | "GracefulShutdown" | "PushPowerButton", true) => PowerState::Off,
            _ => PowerState::On,
        };
        self.resets.push(reset_type);
        let after = self.faults.iter().find_map(|fault| if let Fault::PowerLater(n) = fault { Some(*n) } else { None });
        match after {
            _ if self.has(&Fault::IgnoresPower) => {}
            Some(looks) => self.later.push((looks, Later::Power(next))),
            None => self.switch(next),
        }
        empty()
    }

    fn switch(&mut self, power: PowerState) {
        self.power = power;
        // A boot once is used up by the boot.
        if power == PowerState::On && self.boot_enabled == "Once" {
            self.boot_enabled = "Disabled".to_owned();
            self.boot_target = "None".to_owned();
        }
    }
}
