//! Who asks, what is asked for, and who decides. Pure: an [`Authorizer`] is asked before anything else of a
//! request is looked at, so that one who may not see an object does not learn whether it exists.
//!
//! Every caller that is known may read what is no object (versions, health, discovery, OpenAPI) and ask
//! about himself; the group `system:masters` may do everything. All else is the authorizer's to say.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::model::namespace_quota::NamespaceQuota;
use crate::model::query::Query;
use crate::model::route::{ObjectRoute, Verb};
use crate::model::status::Status;

/// The group of every authenticated caller.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of every other caller.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";
/// Begins the names of programs' accounts: `system:serviceaccount:NAMESPACE:NAME`.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Paths that everybody may read, known or not.
const PUBLIC_PATHS: [&str; 8] =
    ["/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version", "/version/"];
/// What every known caller may read besides: together as Kubernetes' role `system:discovery`.
const OPEN_PATHS: [&str; 6] = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
/// Questions about oneself.
const OWN_REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// Who asks, as the server's authentication found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    pub name: String,
    /// The UID, which differs for two users who had the same name one after the other; empty where there are none.
    pub uid: String,
    pub groups: Vec<String>,
    /// What else is known of the caller, as for a log.
    pub extra: BTreeMap<String, Vec<String>>,
    /// When the credentials of the caller expire.
    pub until: Option<Timestamp>,
}

impl Caller {
    /// Makes an authenticated caller in no other group.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), groups: vec![AUTHENTICATED.into()], ..Self::default() }
    }

    /// The owner of the server.
    pub fn admin() -> Self {
        Self { groups: vec![MASTERS.into(), AUTHENTICATED.into()], ..Self::new("admin") }
    }

    /// One who said nothing of himself.
    pub fn anonymous() -> Self {
        Self { groups: vec![UNAUTHENTICATED.into()], ..Self::new("system:anonymous") }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The caller as Kubernetes' `UserInfo`.
    pub fn to_value(&self) -> Value {
        let mut user = json!({ "username": self.name, "groups": self.groups });
        if !self.uid.is_empty() {
            user["uid"] = json!(self.uid);
        }
        if !self.extra.is_empty() {
            user["extra"] = json!(self.extra);
        }
        user
    }
}

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRequest<'a> {
    Objects(OnObjects<'a>),
    /// Something that is no object. The verb is the HTTP method in small letters.
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

/// A verb on objects of a kind. What does not apply is empty: the namespace means all of them then, and
/// the name all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnObjects<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// The plural.
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> OnObjects<'a> {
    pub(crate) fn of(route: &'a ObjectRoute, query: &'a Query) -> Self {
        let is_namespace = route.group.is_empty() && route.plural == "namespaces";
        // Other verbs do not look at selectors: what they say is no limit to them.
        let selects = matches!(route.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let selector = query.field_selector.as_deref().filter(|_| selects);
        let named = || selector.and_then(selected_name).unwrap_or_default();
        Self {
            verb: route.verb.word(),
            group: &route.group,
            resource: &route.plural,
            subresource: &route.subresource,
            // Who has rights in a namespace may have some on the namespace itself.
            namespace: if is_namespace { &route.name } else { &route.namespace },
            name: if route.name.is_empty() { named() } else { &route.name },
        }
    }

    /// The resource in messages, as "secrets", "baremetalhosts/status".
    fn shown(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{}{slash}{}", self.resource, self.subresource)
    }
}

/// The one object that a field selector allows.
fn selected_name(selector: &str) -> Option<&str> {
    selector.split(',').find_map(|part| {
        let value = part.trim().strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value))
    })
}

/// The answer of an access check: allowed or not, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    pub allowed: bool,
    /// The reason for people; often empty.
    pub reason: String,
}

impl AccessDecision {
    pub fn allow(reason: impl Into<String>) -> Self {
        Self { allowed: true, reason: reason.into() }
    }

    pub fn deny() -> Self {
        Self::default()
    }
}

/// What a user may do, as `kubectl auth can-i --list` shows it. `*` stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    /// Plurals, and parts of objects as in "baremetalhosts/status".
    pub resources: Vec<String>,
    /// Paths of what is no object; a rule has either these or resources.
    pub paths: Vec<String>,
}

/// Decides who may do what.
///
/// Decisions are about now: a right that was taken away by a finished write is gone for the next call.
pub trait Authorizer: fmt::Debug + Send + Sync {
    fn decide(&self, caller: &Caller, asked: AccessRequest<'_>) -> AccessDecision;

    /// What a user may do in a namespace.
    fn rules(&self, caller: &Caller, namespace: &str) -> Vec<AccessRule>;

    /// What the caller may have in a namespace where no quota of an admin says it.
    fn default_quota(&self, _caller: &Caller, _namespace: &str) -> Option<Arc<NamespaceQuota>> {
        None
    }

    /// Whether what the caller proved himself with is still good.
    fn is_valid(&self, _caller: &Caller) -> bool {
        true
    }

    /// Grows whenever a decision may have become another.
    fn generation(&self) -> u64 {
        0
    }

    /// The generation as a channel, for those who wait for its next value.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// Everything for `system:masters`, and for others what everybody may.
#[derive(Debug)]
pub struct MastersAuthorizer(watch::Sender<u64>);

impl Default for MastersAuthorizer {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Authorizer for MastersAuthorizer {
    fn decide(&self, caller: &Caller, asked: AccessRequest<'_>) -> AccessDecision {
        common(caller, asked).unwrap_or_else(AccessDecision::deny)
    }

    fn rules(&self, caller: &Caller, _namespace: &str) -> Vec<AccessRule> {
        common_rules(caller)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// What is the same for every authorizer. `None`: it is for the authorizer to say.
pub fn common(caller: &Caller, asked: AccessRequest<'_>) -> Option<AccessDecision> {
    if caller.is_in(MASTERS) {
        return Some(AccessDecision::allow(""));
    }
    let open = |paths: &[&str], path: &str| paths.iter().any(|pattern| path_matches(pattern, path));
    let allowed = match asked {
        AccessRequest::Path { verb: "get" | "head", path } => {
            open(&PUBLIC_PATHS, path) || (caller.is_in(AUTHENTICATED) && open(&OPEN_PATHS, path))
        }
        AccessRequest::Path { .. } => false,
        AccessRequest::Objects(objects) => {
            let own = (objects.group, objects.resource);
            caller.is_in(AUTHENTICATED)
                && (objects.verb, objects.subresource) == ("create", "")
                && OWN_REVIEWS.contains(&own)
        }
    };
    allowed.then(|| AccessDecision::allow(""))
}

/// The rules of [`common`].
pub fn common_rules(caller: &Caller) -> Vec<AccessRule> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    if caller.is_in(MASTERS) {
        let all = || owned(&["*"]);
        return vec![
            AccessRule { verbs: all(), groups: all(), resources: all(), ..AccessRule::default() },
            AccessRule { verbs: all(), paths: all(), ..AccessRule::default() },
        ];
    }
    let mut rules = Vec::new();
    let mut paths = owned(&PUBLIC_PATHS);
    if caller.is_in(AUTHENTICATED) {
        for (group, resource) in OWN_REVIEWS {
            let (groups, resources) = (owned(&[group]), owned(&[resource]));
            rules.push(AccessRule { verbs: owned(&["create"]), groups, resources, ..AccessRule::default() });
        }
        paths.extend(owned(&OPEN_PATHS));
        paths.sort_unstable();
    }
    rules.push(AccessRule { verbs: owned(&["get"]), paths, ..AccessRule::default() });
    rules
}

/// A pattern is a path, or the beginning of one with `*` after it.
pub fn path_matches(pattern: &str, path: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == path, |start| path.starts_with(start))
}

/// The answer to one who may not, in Kubernetes' words.
pub fn refusal(caller: &Caller, asked: AccessRequest<'_>, reason: &str) -> Status {
    let user = &caller.name;
    let colon = if reason.is_empty() { "" } else { ": " };
    match asked {
        AccessRequest::Path { verb, path } => {
            Status::forbidden_to("", "", "", &format!("User {user:?} cannot {verb} path {path:?}{colon}{reason}"))
        }
        AccessRequest::Objects(objects) => {
            let place = if objects.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {:?}", objects.namespace)
            };
            let (verb, group, shown) = (objects.verb, objects.group, objects.shown());
            let detail =
                format!("User {user:?} cannot {verb} resource {shown:?} in API group {group:?} {place}{colon}{reason}");
            Status::forbidden_to(group, objects.resource, objects.name, &detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_worded_as_by_kubernetes() {
        let x = Caller::new("x");
        let list = OnObjects { verb: "list", group: "metal3.io", resource: "baremetalhosts", ..OnObjects::default() };
        let text = |objects| refusal(&x, AccessRequest::Objects(objects), "").message;
        assert_eq!(
            text(OnObjects { namespace: "y", ..list }),
            r#"baremetalhosts.metal3.io is forbidden: User "x" cannot list resource "baremetalhosts" in API group "metal3.io" in the namespace "y""#
        );
        assert_eq!(
            text(list),
            r#"baremetalhosts.metal3.io is forbidden: User "x" cannot list resource "baremetalhosts" in API group "metal3.io" at the cluster scope"#
        );
        let one = OnObjects { verb: "patch", subresource: "status", namespace: "y", name: "h", ..list };
        assert_eq!(
            text(one),
            r#"baremetalhosts.metal3.io "h" is forbidden: User "x" cannot patch resource "baremetalhosts/status" in API group "metal3.io" in the namespace "y""#
        );
        let path = refusal(&x, AccessRequest::Path { verb: "get", path: "/metrics" }, "why");
        assert_eq!(path.message, r#"forbidden: User "x" cannot get path "/metrics": why"#);
        assert_eq!((path.code, path.reason), (403, "Forbidden"));
    }

    #[test]
    fn everybody_may_read_what_is_no_object_and_ask_about_himself() {
        let known = Caller::new("x");
        let may = |caller: &Caller, verb, path| common(caller, AccessRequest::Path { verb, path }).is_some();
        assert!(may(&known, "get", "/openapi/v3/apis/metal3.io/v1alpha1") && may(&known, "head", "/apis"));
        assert!(!may(&known, "post", "/apis") && !may(&known, "get", "/metrics") && !may(&known, "get", "/apisx"));
        let nobody = Caller::anonymous();
        assert!(may(&nobody, "get", "/readyz") && !may(&nobody, "get", "/apis"));
        let review = OnObjects {
            verb: "create",
            group: "authorization.k8s.io",
            resource: "selfsubjectaccessreviews",
            ..OnObjects::default()
        };
        let asks = |caller: &Caller, objects| common(caller, AccessRequest::Objects(objects)).is_some();
        assert!(asks(&known, review) && !asks(&nobody, review));
        assert!(!asks(&known, OnObjects { resource: "subjectaccessreviews", ..review }));
        assert!(asks(&Caller::admin(), OnObjects { verb: "x", ..OnObjects::default() }));
    }

    #[test]
    fn a_selector_names_an_object_for_verbs_that_select() {
        let query = Query { field_selector: Some("metadata.name=a".into()), ..Query::default() };
        let name = |verb| {
            let route = ObjectRoute {
                verb,
                group: String::new(),
                version: "v1".into(),
                namespace: "b".into(),
                plural: "secrets".into(),
                name: String::new(),
                subresource: String::new(),
            };
            OnObjects::of(&route, &query).name.to_owned()
        };
        for verb in [Verb::List, Verb::Watch, Verb::DeleteCollection] {
            assert_eq!(name(verb), "a", "{verb:?}");
        }
        assert_eq!(name(Verb::Create), "", "what is made may have any name");
    }

    #[test]
    fn a_field_selector_names_an_object() {
        for (selector, name) in [
            ("metadata.name=a", Some("a")),
            ("type=x,metadata.name==a", Some("a")),
            ("metadata.name!=a", None),
            ("x", None),
        ] {
            assert_eq!(selected_name(selector), name, "{selector}");
        }
    }
}
