//! `kubectl --as`: a caller who may `impersonate` acts as another user, as to see what that user may do. Pure.
//!
//! The headers are never passed over: what is meant for another's rights must not be done with one's own.

use http::HeaderMap;

use crate::model::access::{self, AUTHENTICATED, AccessRequest, Authorizer, Caller, OnObjects, SERVICE_ACCOUNT};
use crate::model::status::Status;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
/// Begins the names of all such headers.
const ALL: &str = "impersonate-";
/// Most groups of a user, as Kubernetes has it.
const GROUPS_MAX: usize = 64;

/// Who the caller wants to be; `None` for himself.
pub(crate) fn wanted(
    headers: &HeaderMap,
    caller: &Caller,
    authorizer: &dyn Authorizer,
) -> Result<Option<Caller>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with(ALL)) {
        return Ok(None);
    }
    let texts = |name: &str| -> Result<Vec<String>, Status> {
        let values = headers.get_all(name).iter().take(GROUPS_MAX + 1);
        let texts: Result<Vec<_>, _> = values.map(|value| value.to_str().map(str::to_owned)).collect();
        texts.map_err(|_| Status::bad_request(format!("the header {name} is no text")))
    };
    let (users, mut groups, uids) = (texts(USER)?, texts(GROUP)?, texts(UID)?);
    let [name] = users.as_slice() else {
        return Err(Status::bad_request(format!("one {USER} is needed to act as another user")));
    };
    if groups.len() > GROUPS_MAX || uids.len() > 1 {
        return Err(Status::bad_request("too many headers that say who to act as"));
    }
    let known = [USER, GROUP, UID];
    if let Some(other) = headers.keys().find(|key| key.as_str().starts_with(ALL) && !known.contains(&key.as_str())) {
        return Err(Status::bad_request(format!("the header {other} is not known here")));
    }
    let uid = uids.into_iter().next().unwrap_or_default();
    if let Some((namespace, _)) = account_of(name).filter(|_| groups.is_empty()) {
        groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    if groups.iter().all(|group| group != AUTHENTICATED) {
        groups.push(AUTHENTICATED.into());
    }
    let other = Caller { name: name.clone(), uid, groups, extra: caller.extra.clone(), until: caller.until };
    check(authorizer, caller, &other)?;
    Ok(Some(other))
}

/// Whether the caller may act as another user: by name, in each of the groups, and by uid.
pub(crate) fn check(authorizer: &dyn Authorizer, caller: &Caller, other: &Caller) -> Result<(), Status> {
    let may = |group: &str, resource: &str, namespace: &str, name: &str| {
        let objects = OnObjects { verb: "impersonate", group, resource, subresource: "", namespace, name };
        let asked = AccessRequest::Objects(objects);
        let decision = authorizer.decide(caller, asked);
        if decision.allowed { Ok(()) } else { Err(access::refusal(caller, asked, &decision.reason)) }
    };
    match account_of(&other.name) {
        Some((namespace, account)) => may("", "serviceaccounts", namespace, account)?,
        None => may("", "users", "", &other.name)?,
    }
    for group in other.groups.iter().filter(|group| *group != AUTHENTICATED) {
        may("", "groups", "", group)?;
    }
    if other.uid.is_empty() { Ok(()) } else { may("authentication.k8s.io", "uids", "", &other.uid) }
}

/// Namespace and name of a service account.
fn account_of(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::model::access::MastersAuthorizer;

    fn ask(caller: &Caller, headers: &[(&'static str, &'static str)]) -> Result<Option<Caller>, Status> {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        wanted(&headers.iter().map(header).collect(), caller, &MastersAuthorizer::default())
    }

    #[test]
    fn one_who_may_asks_as_another() {
        let admin = Caller::admin();
        assert_eq!(ask(&admin, &[("accept", "x")]).unwrap(), None);
        let ann = ask(&admin, &[(USER, "ann"), (GROUP, "racks")]).unwrap().unwrap();
        assert_eq!((ann.name.as_str(), ann.groups), ("ann", vec!["racks".to_owned(), AUTHENTICATED.to_owned()]));
        let robot = ask(&admin, &[(USER, "system:serviceaccount:a:robot")]).unwrap().unwrap();
        assert!(robot.is_in("system:serviceaccounts:a") && !robot.is_in("system:masters"));
    }

    #[test]
    fn the_wish_is_never_passed_over() {
        let (admin, ann) = (Caller::admin(), Caller::new("ann"));
        let refused = ask(&ann, &[(USER, "bob")]).unwrap_err();
        assert_eq!(refused.code, 403);
        let message = r#"users "bob" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope"#;
        assert_eq!(refused.message, message);
        for headers in [&[(GROUP, "x")][..], &[(USER, "a"), (USER, "b")], &[(USER, "a"), ("impersonate-extra-b", "c")]]
        {
            assert_eq!(ask(&admin, headers).unwrap_err().code, 400, "{headers:?}");
        }
    }
}
