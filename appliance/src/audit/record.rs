//! What a record says, and which requests have one. Pure.

use std::net::IpAddr;

use bytes::Bytes;
use firesteel_kube::{
    Query,
    route::{ObjectRoute, Route, route},
};
use http::{HeaderName, Method, Request, header::USER_AGENT};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::backup::serve::BACKUP_PATH;

/// Of one text in a record that a client chose: a name has 253 at most, a path is the longest of them.
const TEXT_BYTES_MAX: usize = 512;
/// Of a user's groups.
const GROUPS_MAX: usize = 32;
/// Requests without a user that have a record in one second; others are counted. Anybody can send them, and
/// they must not fill the log until nothing else is in it.
const UNKNOWN_PER_SECOND_MAX: u32 = 20;

/// Who asked, as far as he proved it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Who<'a> {
    pub name: &'a str,
    pub groups: &'a [String],
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome<'a> {
    /// 0 where nobody waited for the answer.
    pub code: u16,
    /// Kubernetes' word for a refusal.
    pub reason: &'a str,
    /// Of an object that was made, where the path does not say it.
    pub name: &'a str,
}

impl Outcome<'_> {
    /// The connection or the request was ended by its client; what was asked may have been done or not.
    pub(super) const UNANSWERED: Self = Self { code: 0, reason: "Unanswered", name: "" };
}

/// A request, as far as it is on record.
#[derive(Clone, Debug)]
pub struct Asked {
    verb: String,
    /// An object's or a kind's; otherwise the path is kept.
    object: Option<ObjectRoute>,
    path: String,
    is_dry_run: bool,
    source: IpAddr,
    agent: String,
    /// As whom he wants to ask, if not as himself.
    acts_as: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record<'a> {
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

impl Asked {
    pub fn of<B>(request: &Request<B>, source: IpAddr) -> Self {
        let uri = request.uri();
        let query = Query::parse(uri.query().unwrap_or("")).unwrap_or_default();
        let (verb, object) = match route(request.method().as_str(), uri.path(), &query) {
            Route::Objects(route) => (format!("{:?}", route.verb).to_lowercase(), Some(route)),
            Route::Core
            | Route::Group(_)
            | Route::Groups
            | Route::Health
            | Route::MethodNotAllowed
            | Route::NotFound
            | Route::OpenApi(_)
            | Route::OpenApiIndex
            | Route::OpenApiV2
            | Route::Resources { .. }
            | Route::Version => (request.method().as_str().to_lowercase(), None),
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

    /// The record, if the request has one.
    pub(super) fn record<'a>(&'a self, who: &Who<'a>, outcome: &Outcome<'a>, now: Timestamp) -> Option<Record<'a>> {
        let is_denied = matches!(outcome.code, 401 | 403);
        if !is_denied && !self.is_write() && !self.shows_secrets() {
            return None;
        }
        let part = |of: fn(&ObjectRoute) -> &String| self.object.as_ref().map_or("", |object| cut(of(object)));
        let named = part(|object| &object.name);
        Some(Record {
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
            // All of them, sealed.
            None => self.path == BACKUP_PATH,
        }
    }
}

impl Record<'_> {
    pub(super) fn line(&self) -> Bytes {
        // Texts, numbers and lists of texts: nothing that JSON could not say.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line.into()
    }
}

/// How many records are missing here, and why.
pub(super) fn count(why: &str, records: u64, now: Timestamp) -> Bytes {
    format!("{}\n", json!({ "time": format!("{now:.6}"), why: records })).into()
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Requests without a user in this second.
#[derive(Debug, Default)]
pub(super) struct Flood {
    second: i64,
    kept: u32,
    suppressed: u64,
}

impl Flood {
    /// Whether this one is kept, and how many were not since the last one that was.
    pub(super) fn admit(&mut self, code: u16, now: Timestamp) -> Option<u64> {
        if code == 401 {
            if self.second != now.as_second() {
                *self = Self { second: now.as_second(), kept: 0, suppressed: self.suppressed };
            }
            if self.kept >= UNKNOWN_PER_SECOND_MAX {
                self.suppressed += 1;
                return None;
            }
            self.kept += 1;
        }
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::Value;

    use super::*;

    fn recorded(method: &str, uri: &str, code: u16) -> Option<Value> {
        let request = Request::builder().method(method).uri(uri).header(USER_AGENT, "kubectl/v1").body(()).unwrap();
        let asked = Asked::of(&request, "::ffff:192.0.2.7".parse().unwrap());
        let groups = ["system:authenticated".to_owned()];
        let who = Who { name: "ann", groups: &groups };
        let outcome = Outcome { code, reason: if code == 403 { "Forbidden" } else { "" }, name: "made" };
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
        let kept = (0..1000).filter(|_| flood.admit(401, at(7)).is_some()).count();
        assert_eq!(kept, usize::try_from(UNKNOWN_PER_SECOND_MAX).unwrap());
        assert_eq!(flood.admit(200, at(7)), Some(980), "known callers go on");
        assert_eq!(flood.admit(401, at(8)), Some(0));
    }
}
