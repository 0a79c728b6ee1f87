//! Decides what a record says, and which requests have one. Pure.

use std::{collections::HashMap, net::IpAddr};

use bytes::Bytes;
use firesteel_kube::Query;
use firesteel_kube::route::{ApiRoute, ObjectRoute, route};
use http::{HeaderName, Method, Request, header::USER_AGENT};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::backup::serve::BACKUP_PATH;

/// The longest text in a record that the client chose: a name has at most 253 bytes, a path may be longer.
const TEXT_BYTES_MAX: usize = 512;
/// How many of a user's groups are recorded.
const GROUPS_MAX: usize = 32;
/// Requests without a user that are recorded in one second; the others are counted. Anyone can send them, and they must
/// not fill the log.
const UNKNOWN_PER_SECOND_MAX: u32 = 20;
/// How many bytes of records one known caller's refusals may fill in one minute; the others are counted. That is about
/// thirty usual records: at this pace it takes days to push the rest out of the log, however long each record is.
const REFUSED_BYTES_PER_MINUTE_MAX: usize = 8 << 10;
/// Callers whose refusals are counted separately in one minute; any more share one allowance.
const REFUSED_CALLERS_MAX: usize = 256;

/// The caller, as far as the credentials prove it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditCaller<'a> {
    pub name: &'a str,
    pub groups: &'a [String],
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditOutcome<'a> {
    /// The status code; 0 if the client did not wait for the answer.
    pub code: u16,
    /// The reason of a refusal, as a word of Kubernetes.
    pub reason: &'a str,
    /// The name of a new object, if the path does not say it.
    pub name: &'a str,
    /// Says that the request was refused because of who sent it, before anything was done.
    pub is_turned_away: bool,
}

impl AuditOutcome<'_> {
    /// The client ended the connection or the request; what it asked for may have been done or not.
    pub(super) const UNANSWERED: Self = Self { code: 0, reason: "Unanswered", name: "", is_turned_away: false };
}

/// A request, as far as it is recorded.
#[derive(Clone, Debug)]
pub struct AuditedRequest {
    verb: String,
    /// The object or kind; if there is none, the path is kept.
    object: Option<ObjectRoute>,
    path: String,
    is_dry_run: bool,
    source: IpAddr,
    agent: String,
    /// The user whom the caller impersonates; empty if none.
    acts_as: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditRecord<'a> {
    time: String,
    user: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    acts_as: &'a str,
    verb: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    source: IpAddr,
    #[serde(skip_serializing_if = "str::is_empty")]
    agent: &'a str,
    code: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
}

impl AuditedRequest {
    pub fn of<B>(request: &Request<B>, source: IpAddr) -> Self {
        let uri = request.uri();
        let query = Query::parse(uri.query().unwrap_or("")).unwrap_or_default();
        let (verb, object) = match route(request.method().as_str(), uri.path(), &query) {
            ApiRoute::Objects(route) => (format!("{:?}", route.verb).to_lowercase(), Some(route)),
            ApiRoute::Core
            | ApiRoute::Group(_)
            | ApiRoute::Groups
            | ApiRoute::Health
            | ApiRoute::Ready
            | ApiRoute::MethodNotAllowed
            | ApiRoute::NotFound
            | ApiRoute::OpenApi(_)
            | ApiRoute::OpenApiIndex
            | ApiRoute::OpenApiV2
            | ApiRoute::Resources { .. }
            | ApiRoute::Version => (request.method().as_str().to_lowercase(), None),
        };
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (agent, acts_as) = (header(USER_AGENT), header(HeaderName::from_static("impersonate-user")));
        Self {
            verb: cut(&verb).to_owned(),
            path: if object.is_none() { cut(uri.path()).to_owned() } else { String::new() },
            object,
            is_dry_run: !query.dry_run.is_empty(),
            source: source.to_canonical(),
            agent: cut(agent).to_owned(),
            acts_as: cut(acts_as).to_owned(),
        }
    }

    /// Makes the record, if the request has one.
    pub(super) fn record<'a>(
        &'a self,
        who: &AuditCaller<'a>,
        outcome: &AuditOutcome<'a>,
        now: Timestamp,
    ) -> Option<AuditRecord<'a>> {
        let is_denied = matches!(outcome.code, 401 | 403);
        if !is_denied && !self.is_write() && !self.shows_secrets() {
            return None;
        }
        let part = |of: fn(&ObjectRoute) -> &String| self.object.as_ref().map_or("", |object| cut(of(object)));
        let named = part(|object| &object.name);
        Some(AuditRecord {
            time: format!("{now:.6}"),
            user: cut(who.name),
            groups: &who.groups[..who.groups.len().min(GROUPS_MAX)],
            acts_as: &self.acts_as,
            verb: &self.verb,
            group: part(|object| &object.group),
            resource: part(|object| &object.plural),
            subresource: part(|object| &object.subresource),
            namespace: part(|object| &object.namespace),
            name: if named.is_empty() { cut(outcome.name) } else { named },
            path: &self.path,
            dry_run: self.is_dry_run,
            source: self.source,
            agent: &self.agent,
            code: outcome.code,
            reason: cut(outcome.reason),
        })
    }

    /// The limit that keeps such records from filling the log. What changed something, or may have, has none.
    pub(super) fn limit<'a>(&self, who: &AuditCaller<'a>, outcome: &AuditOutcome<'_>) -> FloodClass<'a> {
        // It may fail in the middle.
        let may_be_partly_done = self.verb == "deletecollection" && !outcome.is_turned_away;
        match outcome.code {
            401 => FloodClass::Unknown,
            400 | 403..=406 | 409 | 410 | 413 | 415 | 422 | 429 if !may_be_partly_done => FloodClass::Refused(who.name),
            _ => FloodClass::None,
        }
    }

    fn is_write(&self) -> bool {
        match &self.object {
            // A review is a question that is asked by POST.
            Some(object) => {
                !matches!(self.verb.as_str(), "get" | "list" | "watch") && !object.plural.ends_with("reviews")
            }
            None => ![Method::GET, Method::HEAD, Method::OPTIONS]
                .iter()
                .any(|read| read.as_str().eq_ignore_ascii_case(&self.verb)),
        }
    }

    fn shows_secrets(&self) -> bool {
        match &self.object {
            Some(object) => object.group.is_empty() && object.plural == "secrets",
            // A backup holds all of them, sealed.
            None => self.path == BACKUP_PATH,
        }
    }
}

impl AuditRecord<'_> {
    pub(super) fn line(&self) -> Bytes {
        // These are texts, numbers and lists of texts, all of which JSON can express.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line.into()
    }
}

/// A record that says how many records are missing here, and why.
pub(super) fn count(why: &str, records: u64, now: Timestamp) -> Bytes {
    format!("{}\n", json!({ "time": format!("{now:.6}"), why: records })).into()
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// The limit that a record falls under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloodClass<'a> {
    /// The record is always kept.
    None,
    /// A request without a user.
    Unknown,
    /// A refusal of this caller.
    Refused(&'a str),
}

/// Counts of requests without a user in this second, and of the others' refusals in this minute.
#[derive(Debug, Default)]
pub(super) struct Flood {
    second: i64,
    kept: u32,
    minute: i64,
    /// The bytes of records by caller.
    refused: HashMap<String, usize>,
    suppressed: u64,
}

impl Flood {
    /// Decides whether a record of `bytes` is kept, and says how many were not since the last one that was.
    pub(super) fn admit(&mut self, limit: FloodClass<'_>, bytes: usize, now: Timestamp) -> Option<u64> {
        let has_room = match limit {
            FloodClass::None => true,
            FloodClass::Unknown => self.admits_unknown(now),
            FloodClass::Refused(caller) => self.admits_refused(caller, bytes, now),
        };
        if !has_room {
            self.suppressed += 1;
            return None;
        }
        Some(std::mem::take(&mut self.suppressed))
    }

    fn admits_unknown(&mut self, now: Timestamp) -> bool {
        if self.second != now.as_second() {
            (self.second, self.kept) = (now.as_second(), 0);
        }
        let has_room = self.kept < UNKNOWN_PER_SECOND_MAX;
        self.kept += u32::from(has_room);
        has_room
    }

    fn admits_refused(&mut self, caller: &str, bytes: usize, now: Timestamp) -> bool {
        let minute = now.as_second().div_euclid(60);
        if self.minute != minute {
            self.minute = minute;
            self.refused.clear();
        }
        let is_told_apart = self.refused.contains_key(caller) || self.refused.len() < REFUSED_CALLERS_MAX;
        let caller = if is_told_apart { cut(caller) } else { "" };
        let written = self.refused.entry(caller.to_owned()).or_default();
        let has_room = *written < REFUSED_BYTES_PER_MINUTE_MAX;
        *written += if has_room { bytes } else { 0 };
        has_room
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::Value;

    use super::*;

    fn recorded(method: &str, uri: &str, code: u16) -> Option<Value> {
        let request = Request::builder().method(method).uri(uri).header(USER_AGENT, "kubectl/v1").body(()).unwrap();
        let asked = AuditedRequest::of(&request, "::ffff:192.0.2.7".parse().unwrap());
        let groups = ["system:authenticated".to_owned()];
        let who = AuditCaller { name: "ann", groups: &groups };
        let outcome = AuditOutcome {
            code,
            reason: if code == 403 { "Forbidden" } else { "" },
            name: "made",
            ..AuditOutcome::default()
        };
        let line = asked.record(&who, &outcome, Timestamp::UNIX_EPOCH)?.line();
        assert!(line.ends_with(b"\n") && line.iter().filter(|byte| **byte == b'\n').count() == 1);
        Some(serde_json::from_slice(&line).unwrap())
    }

    #[test]
    fn writes_refusals_and_reading_of_secrets_are_on_record() {
        let hosts = "/apis/metal3.io/v1alpha1/namespaces/rack/baremetalhosts";
        assert_eq!(
            recorded("PATCH", &format!("{hosts}/h1/status?dryRun=All"), 200).unwrap(),
            json!({
                "time": "1970-01-01T00:00:00.000000Z", "user": "ann", "groups": ["system:authenticated"],
                "verb": "patch", "group": "metal3.io", "resource": "baremetalhosts", "subresource": "status",
                "namespace": "rack", "name": "h1", "dryRun": true, "source": "192.0.2.7", "agent": "kubectl/v1",
                "code": 200,
            })
        );
        assert_eq!(recorded("POST", hosts, 201).unwrap()["name"], "made");
        assert_eq!(recorded("DELETE", hosts, 200).unwrap()["verb"], "deletecollection");
        let refused = recorded("GET", hosts, 403).unwrap();
        assert_eq!((&refused["verb"], &refused["reason"]), (&json!("list"), &json!("Forbidden")));
        assert_eq!(recorded("GET", "/api/v1/secrets?watch=true", 200).unwrap()["verb"], "watch");
        assert_eq!(recorded("POST", "/firesteel.dev/rekey", 200).unwrap()["path"], "/firesteel.dev/rekey");
        assert_eq!(recorded("GET", BACKUP_PATH, 200).unwrap()["path"], BACKUP_PATH);
        assert_eq!(recorded("GET", "/nothing", 401).unwrap()["path"], "/nothing");
        for (method, uri) in [
            ("GET", hosts),
            ("GET", "/version"),
            ("GET", "/apis"),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ] {
            assert_eq!(recorded(method, uri, 200), None, "{method} {uri}");
        }
    }

    #[test]
    fn what_a_client_chose_is_cut_and_stays_one_line() {
        for (letters, what) in [(600, "name"), (2000, "path")] {
            let path = format!("/api/v1/namespaces/default/secrets/{}", "%0A".repeat(letters));
            let record = recorded("DELETE", &path, 404).unwrap();
            assert_eq!(record[what].as_str().unwrap().len(), TEXT_BYTES_MAX, "{record}");
        }
    }

    #[test]
    fn a_flood_of_strangers_is_counted() {
        let mut flood = Flood::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let kept = (0..1000).filter(|_| flood.admit(FloodClass::Unknown, 300, at(7)).is_some()).count();
        assert_eq!(kept, usize::try_from(UNKNOWN_PER_SECOND_MAX).unwrap());
        assert_eq!(flood.admit(FloodClass::None, 300, at(7)), Some(980), "known callers go on");
        assert_eq!(flood.admit(FloodClass::Unknown, 300, at(8)), Some(0));
    }

    #[test]
    fn a_flood_of_refusals_is_counted_by_caller() {
        let mut flood = Flood::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let kept = (0..1000).filter(|_| flood.admit(FloodClass::Refused("eve"), 1 << 10, at(7)).is_some()).count();
        assert_eq!(kept, REFUSED_BYTES_PER_MINUTE_MAX >> 10);
        assert_eq!(flood.admit(FloodClass::Refused("ann"), 300, at(7)), Some(992), "another one goes on");
        assert_eq!(flood.admit(FloodClass::Refused("eve"), 300, at(59)), None);
        assert_eq!(flood.admit(FloodClass::None, 300, at(59)), Some(1), "her changes are on record, all of them");
        assert_eq!(flood.admit(FloodClass::Refused("eve"), 300, at(60)), Some(0), "another minute");
        let many =
            (0..100_000).filter(|n| flood.admit(FloodClass::Refused(&format!("u{n}")), 8 << 10, at(61)).is_some());
        assert_eq!(many.count(), REFUSED_CALLERS_MAX, "as many names as she likes");
        assert!(flood.refused.len() <= REFUSED_CALLERS_MAX + 1);
    }

    #[test]
    fn what_may_have_been_done_is_never_left_out() {
        let who = AuditCaller { name: "eve", groups: &[] };
        let limit = |method: &str, uri: &str, code: u16, is_turned_away| {
            let asked = AuditedRequest::of(
                &Request::builder().method(method).uri(uri).body(()).unwrap(),
                [192, 0, 2, 7].into(),
            );
            asked.limit(&who, &AuditOutcome { code, is_turned_away, ..AuditOutcome::default() })
        };
        let (one, all) = ("/api/v1/namespaces/a/configmaps/b", "/api/v1/namespaces/a/configmaps");
        for code in [0, 200, 201, 408, 500, 503, 504] {
            assert_eq!(limit("DELETE", one, code, false), FloodClass::None, "{code}");
        }
        for code in [403, 404, 409, 422] {
            assert_eq!(limit("DELETE", one, code, false), FloodClass::Refused("eve"), "{code}");
            assert_eq!(limit("DELETE", all, code, false), FloodClass::None, "some may be gone: {code}");
        }
        assert_eq!(limit("DELETE", all, 403, true), FloodClass::Refused("eve"));
        assert_eq!(limit("GET", one, 401, false), FloodClass::Unknown);
    }
}
