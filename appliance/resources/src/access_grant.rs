//! `AccessGrant` (firesteel.dev/v1alpha1): who has which role, and in which namespace. Cluster scoped. What
//! a role may do is in [`crate::roles`]. A user's credentials are made through one grant of that
//! user, and end with it.

use firesteel_kube_types::{Cause, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::admit::typed;
use crate::kind::{AGE, FIRESTEEL, Kind, KindScope, RuleVerdict, V1ALPHA1, column};
use crate::roles::Role;
use crate::shape::{Field, Shape};

pub const KIND: Kind = Kind {
    short_names: &["ag"],
    scope: KindScope::Cluster,
    columns: &[
        column("Subject", ".spec.subject.name", "Who has the role", 0),
        column("Kind", ".spec.subject.kind", "What the subject is", 1),
        column("Role", ".spec.role", "What the subject may do", 0),
        column("Namespace", ".spec.namespace", "Where; empty for everywhere", 0),
        AGE,
    ],
    about: "Who has which role, and in which namespace.",
    rules: |new, old| typed(new, old, |new: &AccessGrant, old| RuleVerdict::of(causes(new, old))),
    ..Kind::new(FIRESTEEL, V1ALPHA1, "AccessGrant", "accessgrants", "accessgrant", &SHAPE)
};

/// Longest name of a subject in a certificate.
const NAME_BYTES_MAX: usize = 64;
/// Prefix of the names that the API server itself gives, which no grant may give.
const RESERVED: &str = "system:";
/// The owner of the appliance, who needs no grant.
const OWNER: &str = "admin";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessGrant {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: AccessGrantSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessGrantSpec {
    pub subject: GrantSubject,
    /// One of [`Role`]'s words.
    pub role: String,
    /// Is empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrantSubject {
    /// One of [`SUBJECTS`].
    pub kind: String,
    pub name: String,
    /// Namespace of a service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

pub const USER: &str = "User";
pub const GROUP: &str = "Group";
pub const SERVICE_ACCOUNT: &str = "ServiceAccount";
const SUBJECTS: [&str; 3] = [USER, GROUP, SERVICE_ACCOUNT];

const SUBJECT: Shape = Shape::object(&[
    Field::required("kind", Shape::one_of(&SUBJECTS)).about("What the subject is."),
    Field::required("name", Shape::TEXT).about("Name of the user, group or service account."),
    Field::new("namespace", Shape::TEXT).about("Namespace of the service account."),
]);

const SPEC: Shape = Shape::object(&[
    Field::required("subject", SUBJECT).about("Who gets the role. It cannot be changed."),
    Field::required("role", Shape::one_of(&Role::WORDS)).about("What the subject may do."),
    Field::new("namespace", Shape::TEXT).about("Where; an operator and a tenant have one, an admin has none."),
]);

const SHAPE: Shape = Shape::object(&[Field::required("spec", SPEC).about("Who has what.")]);

/// What is wrong with a grant.
#[must_use]
pub fn causes(new: &AccessGrant, old: Option<&AccessGrant>) -> Vec<Cause> {
    let AccessGrantSpec { subject, role, namespace } = &new.spec;
    let mut causes = Vec::new();
    if let Some(old) = old
        && old.spec.subject != *subject
    {
        causes.push(Cause::invalid("spec.subject", &subject.name, "field is immutable"));
    }
    causes.extend(name_fault("spec.subject.name", &subject.name));
    if subject.kind != SERVICE_ACCOUNT && subject.name.starts_with(RESERVED) {
        causes.push(Cause::invalid("spec.subject.name", &subject.name, "names with \"system:\" are the server's own"));
    }
    if subject.kind == USER && subject.name == OWNER {
        causes.push(Cause::invalid("spec.subject.name", OWNER, "is the appliance's owner, who may do everything"));
    }
    match (subject.kind == SERVICE_ACCOUNT, subject.namespace.is_empty()) {
        (true, true) => causes.push(Cause::required("spec.subject.namespace", "of the service account")),
        (false, false) => {
            causes.push(Cause::forbidden("spec.subject.namespace", "only a service account has a namespace"));
        }
        (true, false) | (false, true) => {}
    }
    match (Role::of(role).map(Role::needs_namespace), namespace.is_empty()) {
        (Some(Some(true)), true) => causes.push(Cause::required("spec.namespace", "where the role is to be had")),
        (Some(Some(false)), false) => {
            causes.push(Cause::forbidden("spec.namespace", "this role is had in no single namespace"));
        }
        _ => {}
    }
    causes
}

fn name_fault(field: &str, name: &str) -> Option<Cause> {
    if name.is_empty() {
        return Some(Cause::required(field, ""));
    }
    if name.len() > NAME_BYTES_MAX {
        return Some(Cause::too_long(field, NAME_BYTES_MAX));
    }
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_@:+".contains(&byte));
    (!plain).then(|| Cause::invalid(field, name, "may have letters, digits and . - _ @ : +"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn grant(kind: &str, name: &str, role: &str, namespace: &str) -> AccessGrant {
        let subject = GrantSubject { kind: kind.into(), name: name.into(), namespace: String::new() };
        let spec = AccessGrantSpec { subject, role: role.into(), namespace: namespace.into() };
        AccessGrant { spec, ..AccessGrant::default() }
    }

    #[test]
    fn a_grant_says_where_its_role_is_had() {
        for (role, namespace, field) in [
            ("admin", "", None),
            ("admin", "a", Some("spec.namespace")),
            ("operator", "a", None),
            ("operator", "", Some("spec.namespace")),
            ("tenant", "", Some("spec.namespace")),
            ("viewer", "", None),
            ("viewer", "a", None),
            ("agent", "a", Some("spec.namespace")),
        ] {
            let found = causes(&grant(USER, "ann", role, namespace), None);
            assert_eq!(found.first().map(|cause| cause.field.as_str()), field, "{role} {namespace}: {found:?}");
        }
    }

    #[test]
    fn nobody_gets_a_name_of_the_server_and_nobody_becomes_another() {
        for name in ["system:anonymous", "admin", "", "a b", "a\n", &"a".repeat(65)] {
            assert_eq!(causes(&grant(USER, name, "viewer", ""), None).len(), 1, "{name:?}");
        }
        assert!(causes(&grant(USER, "ann@example.com", "viewer", ""), None).is_empty());
        let ann = grant(USER, "ann", "viewer", "");
        assert!(causes(&grant(USER, "ann", "operator", "rack1"), Some(&ann)).is_empty());
        assert_eq!(causes(&grant(USER, "bob", "viewer", ""), Some(&ann)).len(), 1);
        let mut robot = grant(SERVICE_ACCOUNT, "robot", "viewer", "");
        assert_eq!(causes(&robot, None)[0].field, "spec.subject.namespace");
        robot.spec.subject.namespace = "rack1".into();
        assert!(causes(&robot, None).is_empty());
    }
}
