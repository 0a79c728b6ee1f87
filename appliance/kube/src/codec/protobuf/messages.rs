//! The messages that are read, with the numbers of Kubernetes' `generated.proto` files.

use super::{Field, Form, Message};

/// The table of a kind's objects.
pub(super) fn of(api_version: &str, kind: &str) -> Option<&'static Message> {
    match (api_version, kind) {
        ("v1", "Namespace") => Some(&NAMESPACE),
        ("v1", "Secret") => Some(&SECRET),
        ("v1", "ConfigMap") => Some(&CONFIG_MAP),
        ("v1", "ServiceAccount") => Some(&SERVICE_ACCOUNT),
        ("v1", "ResourceQuota") => Some(&RESOURCE_QUOTA),
        ("v1", "Event") => Some(&EVENT),
        ("events.k8s.io/v1", "Event") => Some(&NEW_EVENT),
        ("coordination.k8s.io/v1", "Lease") => Some(&LEASE),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => Some(&ACCESS_REVIEW),
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => Some(&RULES_REVIEW),
        ("authentication.k8s.io/v1", "SelfSubjectReview") => Some(&SUBJECT_REVIEW),
        ("authorization.k8s.io/v1", "SubjectAccessReview" | "LocalSubjectAccessReview") => Some(&OTHERS_REVIEW),
        ("authentication.k8s.io/v1", "TokenReview") => Some(&TOKEN_REVIEW),
        ("authentication.k8s.io/v1", "TokenRequest") => Some(&TOKEN_REQUEST),
        // Clients name it in the version of the object that is to go.
        (_, "DeleteOptions") => Some(&DELETE_OPTIONS),
        _ => None,
    }
}

const fn field(number: u64, name: &'static str, form: Form) -> Field {
    Field { number, name, form, is_pointer: false }
}

const fn pointer(number: u64, name: &'static str, form: Form) -> Field {
    Field { number, name, form, is_pointer: true }
}

const TEXTS: Form = Form::List(&Form::Text);
const TEXT_MAP: Form = Form::Map(&Form::Text);
const BYTE_MAP: Form = Form::Map(&Form::Bytes);

/// The envelope; field 2 has the bytes of the object.
pub(super) const UNKNOWN: Message = Message(&[
    field(1, "typeMeta", Form::Message(&Message(&[field(1, "apiVersion", Form::Text), field(2, "kind", Form::Text)]))),
    field(3, "contentEncoding", Form::Text),
    field(4, "contentType", Form::Text),
]);

const METADATA: Field = field(
    1,
    "metadata",
    Form::Message(&Message(&[
        field(1, "name", Form::Text),
        field(2, "generateName", Form::Text),
        field(3, "namespace", Form::Text),
        field(5, "uid", Form::Text),
        field(6, "resourceVersion", Form::Text),
        field(7, "generation", Form::Integer),
        field(8, "creationTimestamp", Form::Time),
        pointer(9, "deletionTimestamp", Form::Time),
        pointer(10, "deletionGracePeriodSeconds", Form::Integer),
        field(11, "labels", TEXT_MAP),
        field(12, "annotations", TEXT_MAP),
        field(13, "ownerReferences", Form::List(&Form::Message(&OWNER_REFERENCE))),
        field(14, "finalizers", TEXTS),
        field(17, "managedFields", Form::List(&Form::Message(&MANAGED_FIELDS))),
    ])),
);

const OWNER_REFERENCE: Message = Message(&[
    field(1, "kind", Form::Text),
    field(3, "name", Form::Text),
    field(4, "uid", Form::Text),
    field(5, "apiVersion", Form::Text),
    pointer(6, "controller", Form::Boolean),
    pointer(7, "blockOwnerDeletion", Form::Boolean),
]);

const MANAGED_FIELDS: Message = Message(&[
    field(1, "manager", Form::Text),
    field(2, "operation", Form::Text),
    field(3, "apiVersion", Form::Text),
    pointer(4, "time", Form::Time),
    field(6, "fieldsType", Form::Text),
    pointer(7, "fieldsV1", Form::Fields),
    field(8, "subresource", Form::Text),
]);

const CONDITION: Message = Message(&[
    field(1, "type", Form::Text),
    field(2, "status", Form::Text),
    field(4, "lastTransitionTime", Form::Time),
    field(5, "reason", Form::Text),
    field(6, "message", Form::Text),
]);

const NAMESPACE: Message = Message(&[
    METADATA,
    field(2, "spec", Form::Message(&Message(&[field(1, "finalizers", TEXTS)]))),
    field(
        3,
        "status",
        Form::Message(&Message(&[
            field(1, "phase", Form::Text),
            field(2, "conditions", Form::List(&Form::Message(&CONDITION))),
        ])),
    ),
]);

const SECRET: Message = Message(&[
    METADATA,
    field(2, "data", BYTE_MAP),
    field(3, "type", Form::Text),
    field(4, "stringData", TEXT_MAP),
    pointer(5, "immutable", Form::Boolean),
]);

const CONFIG_MAP: Message = Message(&[
    METADATA,
    field(2, "data", TEXT_MAP),
    field(3, "binaryData", BYTE_MAP),
    pointer(4, "immutable", Form::Boolean),
]);

const REFERENCE: Message = Message(&[
    field(1, "kind", Form::Text),
    field(2, "namespace", Form::Text),
    field(3, "name", Form::Text),
    field(4, "uid", Form::Text),
    field(5, "apiVersion", Form::Text),
    field(6, "resourceVersion", Form::Text),
    field(7, "fieldPath", Form::Text),
]);

const SERVICE_ACCOUNT: Message = Message(&[
    METADATA,
    field(2, "secrets", Form::List(&Form::Message(&REFERENCE))),
    field(3, "imagePullSecrets", Form::List(&Form::Message(&Message(&[field(1, "name", Form::Text)])))),
    pointer(4, "automountServiceAccountToken", Form::Boolean),
]);

const SERIES: Form =
    Form::Message(&Message(&[field(1, "count", Form::Integer), field(2, "lastObservedTime", Form::MicroTime)]));

const SOURCE: Form = Form::Message(&Message(&[field(1, "component", Form::Text), field(2, "host", Form::Text)]));

const EVENT: Message = Message(&[
    METADATA,
    field(2, "involvedObject", Form::Message(&REFERENCE)),
    field(3, "reason", Form::Text),
    field(4, "message", Form::Text),
    field(5, "source", SOURCE),
    field(6, "firstTimestamp", Form::Time),
    field(7, "lastTimestamp", Form::Time),
    field(8, "count", Form::Integer),
    field(9, "type", Form::Text),
    field(10, "eventTime", Form::MicroTime),
    pointer(11, "series", SERIES),
    field(12, "action", Form::Text),
    pointer(13, "related", Form::Message(&REFERENCE)),
    field(14, "reportingComponent", Form::Text),
    field(15, "reportingInstance", Form::Text),
]);

const NEW_EVENT: Message = Message(&[
    METADATA,
    field(2, "eventTime", Form::MicroTime),
    pointer(3, "series", SERIES),
    field(4, "reportingController", Form::Text),
    field(5, "reportingInstance", Form::Text),
    field(6, "action", Form::Text),
    field(7, "reason", Form::Text),
    field(8, "regarding", Form::Message(&REFERENCE)),
    pointer(9, "related", Form::Message(&REFERENCE)),
    field(10, "note", Form::Text),
    field(11, "type", Form::Text),
    field(12, "deprecatedSource", SOURCE),
    field(13, "deprecatedFirstTimestamp", Form::Time),
    field(14, "deprecatedLastTimestamp", Form::Time),
    field(15, "deprecatedCount", Form::Integer),
]);

const QUANTITIES: Form = Form::Map(&Form::Quantity);

const REQUIREMENT: Message =
    Message(&[field(1, "scopeName", Form::Text), field(2, "operator", Form::Text), field(3, "values", TEXTS)]);

const RESOURCE_QUOTA: Message = Message(&[
    METADATA,
    field(
        2,
        "spec",
        Form::Message(&Message(&[
            field(1, "hard", QUANTITIES),
            field(2, "scopes", TEXTS),
            field(
                3,
                "scopeSelector",
                Form::Message(&Message(&[field(1, "matchExpressions", Form::List(&Form::Message(&REQUIREMENT)))])),
            ),
        ])),
    ),
    field(3, "status", Form::Message(&Message(&[field(1, "hard", QUANTITIES), field(2, "used", QUANTITIES)]))),
]);

const LEASE: Message = Message(&[
    METADATA,
    field(
        2,
        "spec",
        Form::Message(&Message(&[
            pointer(1, "holderIdentity", Form::Text),
            pointer(2, "leaseDurationSeconds", Form::Integer),
            pointer(3, "acquireTime", Form::MicroTime),
            pointer(4, "renewTime", Form::MicroTime),
            pointer(5, "leaseTransitions", Form::Integer),
            pointer(6, "strategy", Form::Text),
            pointer(7, "preferredHolder", Form::Text),
        ])),
    ),
]);

const RESOURCE_ATTRIBUTES: Field = pointer(
    1,
    "resourceAttributes",
    Form::Message(&Message(&[
        field(1, "namespace", Form::Text),
        field(2, "verb", Form::Text),
        field(3, "group", Form::Text),
        field(4, "version", Form::Text),
        field(5, "resource", Form::Text),
        field(6, "subresource", Form::Text),
        field(7, "name", Form::Text),
    ])),
);

const PATH_ATTRIBUTES: Field = pointer(
    2,
    "nonResourceAttributes",
    Form::Message(&Message(&[field(1, "path", Form::Text), field(2, "verb", Form::Text)])),
);

const ACCESS_REVIEW: Message =
    Message(&[METADATA, field(2, "spec", Form::Message(&Message(&[RESOURCE_ATTRIBUTES, PATH_ATTRIBUTES])))]);

const OTHERS_REVIEW: Message = Message(&[
    METADATA,
    field(
        2,
        "spec",
        Form::Message(&Message(&[
            RESOURCE_ATTRIBUTES,
            PATH_ATTRIBUTES,
            field(3, "user", Form::Text),
            field(4, "groups", TEXTS),
            field(6, "uid", Form::Text),
        ])),
    ),
]);

const TOKEN_REVIEW: Message = Message(&[
    METADATA,
    field(2, "spec", Form::Message(&Message(&[field(1, "token", Form::Text), field(2, "audiences", TEXTS)]))),
]);

const RULES_REVIEW: Message =
    Message(&[METADATA, field(2, "spec", Form::Message(&Message(&[field(1, "namespace", Form::Text)])))]);

const SUBJECT_REVIEW: Message = Message(&[METADATA]);

const TOKEN_REQUEST: Message = Message(&[
    METADATA,
    field(
        2,
        "spec",
        Form::Message(&Message(&[
            field(1, "audiences", TEXTS),
            pointer(
                3,
                "boundObjectRef",
                Form::Message(&Message(&[
                    field(1, "kind", Form::Text),
                    field(2, "apiVersion", Form::Text),
                    field(3, "name", Form::Text),
                    field(4, "uid", Form::Text),
                ])),
            ),
            pointer(4, "expirationSeconds", Form::Integer),
        ])),
    ),
]);

const DELETE_OPTIONS: Message = Message(&[
    pointer(1, "gracePeriodSeconds", Form::Integer),
    pointer(
        2,
        "preconditions",
        Form::Message(&Message(&[pointer(1, "uid", Form::Text), pointer(2, "resourceVersion", Form::Text)])),
    ),
    pointer(3, "orphanDependents", Form::Boolean),
    pointer(4, "propagationPolicy", Form::Text),
    field(5, "dryRun", TEXTS),
    pointer(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Form::Boolean),
]);
