//! What the fake service has, and what a request does to it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use firesteel_bmc::{BmcCredentials, decide::PowerState};
use serde_json::Value;

use super::resources::{self, ROOT, empty, error, error_as, reply, respond};
use super::sensors::FakeSensors;
use super::{FakeQuirks, FakeRequest, FakeResponse, RedfishFault, SessionLocation};

const ETAG: &str = "\"1\"";
const WEAK_ETAG: &str = "W/\"1\"";
/// More than a client may take.
const ENDLESS_BYTES: usize = 4 * 1024 * 1024;
/// More brackets than a reader may follow.
const DEEP: usize = 1000;

/// What a test reads and changes.
#[derive(Clone, Debug)]
pub struct FakeBmcState {
    pub credentials: BmcCredentials,
    pub power: PowerState,
    pub vendor: String,
    pub product: String,
    pub manufacturer: String,
    pub model: String,
    pub manager_firmware: String,
    pub boot_enabled: String,
    pub boot_target: String,
    pub boot_mode: String,
    /// The property of that name; `None` if the system has none.
    pub http_boot_uri: Option<String>,
    pub boot_targets_allowed: Vec<String>,
    pub macs: Vec<[u8; 6]>,
    /// Identifiers of the systems; the first is the one with a state.
    pub systems: Vec<String>,
    pub resets_allowed: Vec<String>,
    /// Memory modules, as `Memory` resources.
    pub modules: usize,
    /// Drives, as `Drive` resources below one controller.
    pub drives: usize,
    pub sensors: FakeSensors,
    pub faults: Vec<RedfishFault>,
    /// Differences that are data; [`Self::set_quirks`] sets them.
    pub(super) quirks: FakeQuirks,
    /// `METHOD path` of every request, in order.
    pub requests: Vec<String>,
    /// Reset types that were taken.
    pub resets: Vec<String>,
    /// Open sessions, as tokens.
    pub sessions: Vec<String>,
    /// Sessions beyond these are refused.
    pub sessions_max: usize,
    /// Refused logins after which no login is taken, as BMCs do.
    pub locks_after: Option<u32>,
    /// Logins that were refused since one was taken.
    pub logins_refused: u32,
    pub(super) sessions_made: u32,
    /// What is done after so many more looks at the system.
    later: Vec<(u32, DelayedChange)>,
}

#[derive(Clone, Debug)]
enum DelayedChange {
    Power(PowerState),
    Boot(Value),
}

impl FakeBmcState {
    pub(super) fn new(credentials: BmcCredentials, mac: [u8; 6]) -> Self {
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
            drives: 2,
            sensors: FakeSensors::default(),
            faults: Vec::new(),
            quirks: FakeQuirks::default(),
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

    pub(super) fn has(&self, fault: &RedfishFault) -> bool {
        self.faults.contains(fault)
    }

    /// Makes it a service with these differences.
    pub fn set_quirks(&mut self, quirks: FakeQuirks) {
        if let Some(limit) = quirks.session_limit {
            self.sessions_max = limit;
        }
        if let Some(system) = &quirks.system {
            self.systems = vec![system.clone()];
        }
        self.sessions.extend((0..quirks.session_taken).map(|number| format!("another-{number}")));
        self.quirks = quirks;
    }

    pub(super) fn answer(&mut self, request: &FakeRequest) -> FakeResponse {
        self.requests.push(format!("{} {}", request.method, request.path));
        if let Some(answer) = self.spoilt() {
            return answer;
        }
        let quirks = self.quirks.clone();
        let Some(path) = request.path.strip_prefix(&quirks.prefix) else { return error(404, "another service") };
        let request = FakeRequest { path: path.to_owned(), ..request.clone() };
        if let Some(answer) = quirks.instead(&request) {
            return answer;
        }
        let answer = self.answer_honestly(&request);
        quirks.changed(&request.path, answer)
    }

    fn answer_honestly(&mut self, request: &FakeRequest) -> FakeResponse {
        let path = request.path.trim_end_matches('/');
        let parts: Vec<&str> = path.strip_prefix(ROOT).unwrap_or("/-").split('/').skip(1).collect();
        let method = request.method.as_str();
        match (method, parts.as_slice()) {
            ("GET", []) => return reply(&self.root()),
            ("POST", ["SessionService", "Sessions"]) if !self.has(&RedfishFault::NoSessions) => {
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
            ("GET", ["Chassis", "1", rest @ ..]) => self.chassis(rest, request),
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
    fn spoilt(&self) -> Option<FakeResponse> {
        for fault in &self.faults {
            if let RedfishFault::Status(status) = fault {
                return Some(error(*status, "as the test wants it"));
            }
            if let RedfishFault::Redirect(to) = fault {
                return Some(FakeResponse { status: 307, headers: vec![("location", to.clone())], body: Bytes::new() });
            }
        }
        let body = if self.has(&RedfishFault::Garbage) {
            Bytes::from_static(b"<html>not Redfish</html>")
        } else if self.has(&RedfishFault::Deep) {
            Bytes::from("[".repeat(DEEP) + &"]".repeat(DEEP))
        } else if self.has(&RedfishFault::Endless) {
            Bytes::from(vec![b' '; ENDLESS_BYTES])
        } else {
            return None;
        };
        Some(respond(200, body))
    }

    fn answer_system(&mut self, method: &str, id: &str, rest: &[&str], request: &FakeRequest) -> FakeResponse {
        let path = format!("{ROOT}/Systems/{id}");
        match (method, rest) {
            ("GET", []) => {
                self.apply_due_changes();
                let mut response = reply(&self.system(&path));
                let etag = if self.has(&RedfishFault::WeakEtag) { WEAK_ETAG } else { ETAG };
                response.headers.push(("etag", etag.to_owned()));
                response
            }
            ("PATCH", []) if self.has(&RedfishFault::BootInSettings) => {
                error_as(400, "Ami.1.0.OperationSupportedInFutureStateURI", "moved to FutureState URI")
            }
            ("PATCH", [] | ["SD"]) => self.patch(request),
            ("GET", ["SD"]) => reply(&serde_json::json!({"@odata.id": format!("{path}/SD"), "@odata.etag": ETAG})),
            ("POST", ["Actions", "ComputerSystem.Reset"]) => self.reset(&request.body),
            ("GET", rest) => self.part_of_system(&path, rest),
            _ => error(405, "not done here"),
        }
    }

    fn lets_in(&mut self, request: &FakeRequest) -> bool {
        if let Some(token) = &request.session {
            return self.sessions.contains(token);
        }
        let pair = format!("{}:{}", self.credentials.username, self.credentials.password);
        let basic = format!("Basic {}", STANDARD.encode(pair));
        let Some(given) = &request.authorization else { return false };
        let is_right = !self.has(&RedfishFault::SessionsOnly) && !self.quirks.no_basic && *given == basic;
        self.count_login(is_right)
    }

    /// Counts a login, as a BMC does.
    fn count_login(&mut self, is_right: bool) -> bool {
        if is_right && !self.is_locked() {
            self.logins_refused = 0;
            return true;
        }
        self.logins_refused += 1;
        false
    }

    fn open_session(&mut self, body: &Bytes) -> FakeResponse {
        let refusal = self.faults.iter().find_map(|fault| {
            if let RedfishFault::SessionRefused(status, id) = fault {
                Some(error_as(*status, id, "no session"))
            } else {
                None
            }
        });
        if let Some(refusal) = refusal {
            return refusal;
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let given = (body["UserName"].as_str(), body["Password"].as_str());
        let is_right = given == (Some(&self.credentials.username), Some(&self.credentials.password));
        if !self.count_login(is_right) {
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
            SessionLocation::Header | SessionLocation::None => serde_json::json!({"@odata.id": location, "Id": token}),
            SessionLocation::Id => serde_json::json!({"Id": token}),
            SessionLocation::Nowhere => serde_json::json!({}),
        };
        let mut response = respond(201, Bytes::from(body.to_string()));
        response.headers.push(("x-auth-token", token));
        if self.quirks.location == SessionLocation::Header {
            response.headers.push(("location", location));
        }
        response
    }

    /// What was to be done after some looks comes closer.
    fn apply_due_changes(&mut self) {
        for (count, _) in &mut self.later {
            *count = count.saturating_sub(1);
        }
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.later).into_iter().partition(|(n, _)| *n == 0);
        self.later = later;
        for (_, work) in due {
            match work {
                DelayedChange::Power(power) => self.switch(power),
                DelayedChange::Boot(boot) => drop(self.set_boot(&boot)),
            }
        }
    }

    fn patch(&mut self, request: &FakeRequest) -> FakeResponse {
        let if_match = request.if_match.as_deref();
        let is_refused = self.has(&RedfishFault::PickyEtag) && if_match.is_some()
            || self.has(&RedfishFault::WeakEtag) && if_match != Some(ETAG);
        if is_refused {
            return error(412, "the resource has changed");
        }
        if self.has(&RedfishFault::WantsEtag) && if_match.is_none() {
            return error(428, "a precondition is required");
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(boot) = body.get("Boot").filter(|boot| boot.is_object()) else {
            return error(400, "nothing here can be changed but Boot");
        };
        if self.has(&RedfishFault::WantsMode) && boot.get("BootSourceOverrideMode").is_none() {
            return error(400, "The property BootSourceOverrideMode is a required property");
        }
        if self.has(&RedfishFault::RefusesNone) && boot["BootSourceOverrideTarget"] == "None" {
            return error(400, "the value None is not taken");
        }
        if self.has(&RedfishFault::ForgetsBoot) {
            return empty();
        }
        let after =
            self.faults.iter().find_map(|fault| if let RedfishFault::BootLater(n) = fault { Some(*n) } else { None });
        match after {
            Some(looks) => {
                self.later.push((looks, DelayedChange::Boot(boot.clone())));
                empty()
            }
            None => self.set_boot(&boot.clone()),
        }
    }

    fn set_boot(&mut self, boot: &Value) -> FakeResponse {
        for (name, value) in boot.as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            match name.as_str() {
                "BootSourceOverrideEnabled" if self.has(&RedfishFault::SaysContinuous) && value == "Once" => {
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
                "BootSourceOverrideMode" if self.has(&RedfishFault::ModeByJob) => {}
                "BootSourceOverrideMode" => self.boot_mode = value,
                "HttpBootUri" if self.http_boot_uri.is_some() => self.http_boot_uri = Some(value),
                _ => return error(400, "an unknown property"),
            }
        }
        empty()
    }

    fn reset(&mut self, body: &Bytes) -> FakeResponse {
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
        let after =
            self.faults.iter().find_map(|fault| if let RedfishFault::PowerLater(n) = fault { Some(*n) } else { None });
        match after {
            _ if self.has(&RedfishFault::IgnoresPower) => {}
            Some(looks) => self.later.push((looks, DelayedChange::Power(next))),
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
