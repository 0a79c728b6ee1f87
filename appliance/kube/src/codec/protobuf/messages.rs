//! The messages that are read, with the numbers of Kubernetes' `generated.proto` files.

use super::FieldForm::{self, Boolean, Bytes, Fields, Integer, List, Map, Message, MicroTime, Quantity, Text, Time};
use super::ProtobufField;

/// The table of a kind's objects.
pub(super) fn of(api_version: &str, kind: &str) -> Option<&'static [ProtobufField]> {
    match (api_version, kind) {
        ("v1", "Namespace") => Some(NAMESPACE),
        ("v1", "Secret") => Some(SECRET),
        ("v1", "ConfigMap") => Some(CONFIG_MAP),
        ("v1", "ServiceAccount") => Some(SERVICE_ACCOUNT),
        ("v1", "ResourceQuota") => Some(RESOURCE_QUOTA),
        ("v1", "Event") => Some(EVENT),
        ("events.k8s.io/v1", "Event") => Some(NEW_EVENT),
        ("coordination.k8s.io/v1", "Lease") => Some(LEASE),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => Some(ACCESS_REVIEW),
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => Some(RULES_REVIEW),
        ("authentication.k8s.io/v1", "SelfSubjectReview") => Some(SUBJECT_REVIEW),
        ("authorization.k8s.io/v1", "SubjectAccessReview" | "LocalSubjectAccessReview") => Some(OTHERS_REVIEW),
        ("authentication.k8s.io/v1", "TokenReview") => Some(TOKEN_REVIEW),
        ("authentication.k8s.io/v1", "TokenRequest") => Some(TOKEN_REQUEST),
        // Clients name it in the version of the object that is to go.
        (_, "DeleteOptions") => Some(DELETE_OPTIONS),
        _ => None,
    }
}

const fn field(number: u64, name: &'static str, form: FieldForm) -> ProtobufField {
    ProtobufField { number, name, form, is_pointer: false }
}

const fn pointer(number: u64, name: &'static str, form: FieldForm) -> ProtobufField {
    ProtobufField { number, name, form, is_pointer: true }
}

const fn spec(fields: &'static [ProtobufField]) -> ProtobufField {
    field(2, "spec", Message(fields))
}

const fn status(fields: &'static [ProtobufField]) -> ProtobufField {
    field(3, "status", Message(fields))
}

const TEXTS: FieldForm = List(&Text);
const TEXT_MAP: FieldForm = Map(&Text);
const BYTE_MAP: FieldForm = Map(&Bytes);

/// The envelope; field 2 has the bytes of the object.
pub(super) const UNKNOWN: &[ProtobufField] = &[
    field(1, "typeMeta", Message(&[field(1, "apiVersion", Text), field(2, "kind", Text)])),
    field(3, "contentEncoding", Text),
    field(4, "contentType", Text),
];

const METADATA: ProtobufField = field(
    1,
    "metadata",
    Message(&[
        field(1, "name", Text),
        field(2, "generateName", Text),
        field(3, "namespace", Text),
        field(5, "uid", Text),
        field(6, "resourceVersion", Text),
        field(7, "generation", Integer),
        field(8, "creationTimestamp", Time),
        pointer(9, "deletionTimestamp", Time),
        pointer(10, "deletionGracePeriodSeconds", Integer),
        field(11, "labels", TEXT_MAP),
        field(12, "annotations", TEXT_MAP),
        field(13, "ownerReferences", List(&Message(OWNER_REFERENCE))),
        field(14, "finalizers", TEXTS),
        field(17, "managedFields", List(&Message(MANAGED_FIELDS))),
    ]),
);

const OWNER_REFERENCE: &[ProtobufField] = &[
    field(1, "kind", Text),
    field(3, "name", Text),
    field(4, "uid", Text),
    field(5, "apiVersion", Text),
    pointer(6, "controller", Boolean),
    pointer(7, "blockOwnerDeletion", Boolean),
];

const MANAGED_FIELDS: &[ProtobufField] = &[
    field(1, "manager", Text),
    field(2, "operation", Text),
    field(3, "apiVersion", Text),
    pointer(4, "time", Time),
    field(6, "fieldsType", Text),
    pointer(7, "fieldsV1", Fields),
    field(8, "subresource", Text),
];

const CONDITION: &[ProtobufField] = &[
    field(1, "type", Text),
    field(2, "status", Text),
    field(4, "lastTransitionTime", Time),
    field(5, "reason", Text),
    field(6, "message", Text),
];

const NAMESPACE: &[ProtobufField] = &[
    METADATA,
    spec(&[field(1, "finalizers", TEXTS)]),
    status(&[field(1, "phase", Text), field(2, "conditions", List(&Message(CONDITION)))]),
];

const SECRET: &[ProtobufField] = &[
    METADATA,
    field(2, "data", BYTE_MAP),
    field(3, "type", Text),
    field(4, "stringData", TEXT_MAP),
    pointer(5, "immutable", Boolean),
];

const CONFIG_MAP: &[ProtobufField] =
    &[METADATA, field(2, "data", TEXT_MAP), field(3, "binaryData", BYTE_MAP), pointer(4, "immutable", Boolean)];

const REFERENCE: &[ProtobufField] = &[
    field(1, "kind", Text),
    field(2, "namespace", Text),
    field(3, "name", Text),
    field(4, "uid", Text),
    field(5, "apiVersion", Text),
    field(6, "resourceVersion", Text),
    field(7, "fieldPath", Text),
];

const SERVICE_ACCOUNT: &[ProtobufField] = &[
    METADATA,
    field(2, "secrets", List(&Message(REFERENCE))),
    field(3, "imagePullSecrets", List(&Message(&[field(1, "name", Text)]))),
    pointer(4, "automountServiceAccountToken", Boolean),
];

const SERIES: FieldForm = Message(&[field(1, "count", Integer), field(2, "lastObservedTime", MicroTime)]);

const SOURCE: FieldForm = Message(&[field(1, "component", Text), field(2, "host", Text)]);

const EVENT: &[ProtobufField] = &[
    METADATA,
    field(2, "involvedObject", Message(REFERENCE)),
    field(3, "reason", Text),
    field(4, "message", Text),
    field(5, "source", SOURCE),
    field(6, "firstTimestamp", Time),
    field(7, "lastTimestamp", Time),
    field(8, "count", Integer),
    field(9, "type", Text),
    field(10, "eventTime", MicroTime),
    pointer(11, "series", SERIES),
    field(12, "action", Text),
    pointer(13, "related", Message(REFERENCE)),
    field(14, "reportingComponent", Text),
    field(15, "reportingInstance", Text),
];

const NEW_EVENT: &[ProtobufField] = &[
    METADATA,
    field(2, "eventTime", MicroTime),
    pointer(3, "series", SERIES),
    field(4, "reportingController", Text),
    field(5, "reportingInstance", Text),
    field(6, "action", Text),
    field(7, "reason", Text),
    field(8, "regarding", Message(REFERENCE)),
    pointer(9, "related", Message(REFERENCE)),
    field(10, "note", Text),
    field(11, "type", Text),
    field(12, "deprecatedSource", SOURCE),
    field(13, "deprecatedFirstTimestamp", Time),
    field(14, "deprecatedLastTimestamp", Time),
    field(15, "deprecatedCount", Integer),
];

const QUANTITIES: FieldForm = Map(&Quantity);

const REQUIREMENT: &[ProtobufField] =
    &[field(1, "scopeName", Text), field(2, "operator", Text), field(3, "values", TEXTS)];

const RESOURCE_QUOTA: &[ProtobufField] = &[
    METADATA,
    spec(&[
        field(1, "hard", QUANTITIES),
        field(2, "scopes", TEXTS),
        field(3, "scopeSelector", Message(&[field(1, "matchExpressions", List(&Message(REQUIREMENT)))])),
    ]),
    status(&[field(1, "hard", QUANTITIES), field(2, "used", QUANTITIES)]),
];

const LEASE: &[ProtobufField] = &[
    METADATA,
    spec(&[
        pointer(1, "holderIdentity", Text),
        pointer(2, "leaseDurationSeconds", Integer),
        pointer(3, "acquireTime", MicroTime),
        pointer(4, "renewTime", MicroTime),
        pointer(5, "leaseTransitions", Integer),
        pointer(6, "strategy", Text),
        pointer(7, "preferredHolder", Text),
    ]),
];

const RESOURCE_ATTRIBUTES: ProtobufField = pointer(
    1,
    "resourceAttributes",
    Message(&[
        field(1, "namespace", Text),
        field(2, "verb", Text),
        field(3, "group", Text),
        field(4, "version", Text),
        field(5, "resource", Text),
        field(6, "subresource", Text),
        field(7, "name", Text),
    ]),
);

const PATH_ATTRIBUTES: ProtobufField =
    pointer(2, "nonResourceAttributes", Message(&[field(1, "path", Text), field(2, "verb", Text)]));

const ACCESS_REVIEW: &[ProtobufField] = &[METADATA, spec(&[RESOURCE_ATTRIBUTES, PATH_ATTRIBUTES])];

const OTHERS_REVIEW: &[ProtobufField] = &[
    METADATA,
    spec(&[
        RESOURCE_ATTRIBUTES,
        PATH_ATTRIBUTES,
        field(3, "user", Text),
        field(4, "groups", TEXTS),
        field(6, "uid", Text),
    ]),
];

const TOKEN_REVIEW: &[ProtobufField] = &[METADATA, spec(&[field(1, "token", Text), field(2, "audiences", TEXTS)])];

const RULES_REVIEW: &[ProtobufField] = &[METADATA, spec(&[field(1, "namespace", Text)])];

const SUBJECT_REVIEW: &[ProtobufField] = &[METADATA];

const TOKEN_REQUEST: &[ProtobufField] = &[
    METADATA,
    spec(&[
        field(1, "audiences", TEXTS),
        pointer(
            3,
            "boundObjectRef",
            Message(&[
                field(1, "kind", Text),
                field(2, "apiVersion", Text),
                field(3, "name", Text),
                field(4, "uid", Text),
            ]),
        ),
        pointer(4, "expirationSeconds", Integer),
    ]),
];

const DELETE_OPTIONS: &[ProtobufField] = &[
    pointer(1, "gracePeriodSeconds", Integer),
    pointer(2, "preconditions", Message(&[pointer(1, "uid", Text), pointer(2, "resourceVersion", Text)])),
    pointer(3, "orphanDependents", Boolean),
    pointer(4, "propagationPolicy", Text),
    field(5, "dryRun", TEXTS),
    pointer(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Boolean),
];
