//! The messages that are read, with the numbers of Kubernetes' `generated.proto` files.

use super::{FieldForm, ProtobufField, ProtobufMessage};

/// The table of a kind's objects.
pub(super) fn of(api_version: &str, kind: &str) -> Option<&'static ProtobufMessage> {
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

const fn field(number: u64, name: &'static str, form: FieldForm) -> ProtobufField {
    ProtobufField { number, name, form, is_pointer: false }
}

const fn pointer(number: u64, name: &'static str, form: FieldForm) -> ProtobufField {
    ProtobufField { number, name, form, is_pointer: true }
}

const TEXTS: FieldForm = FieldForm::List(&FieldForm::Text);
const TEXT_MAP: FieldForm = FieldForm::Map(&FieldForm::Text);
const BYTE_MAP: FieldForm = FieldForm::Map(&FieldForm::Bytes);

/// The envelope; field 2 has the bytes of the object.
pub(super) const UNKNOWN: ProtobufMessage = ProtobufMessage(&[
    field(
        1,
        "typeMeta",
        FieldForm::Message(&ProtobufMessage(&[
            field(1, "apiVersion", FieldForm::Text),
            field(2, "kind", FieldForm::Text),
        ])),
    ),
    field(3, "contentEncoding", FieldForm::Text),
    field(4, "contentType", FieldForm::Text),
]);

const METADATA: ProtobufField = field(
    1,
    "metadata",
    FieldForm::Message(&ProtobufMessage(&[
        field(1, "name", FieldForm::Text),
        field(2, "generateName", FieldForm::Text),
        field(3, "namespace", FieldForm::Text),
        field(5, "uid", FieldForm::Text),
        field(6, "resourceVersion", FieldForm::Text),
        field(7, "generation", FieldForm::Integer),
        field(8, "creationTimestamp", FieldForm::Time),
        pointer(9, "deletionTimestamp", FieldForm::Time),
        pointer(10, "deletionGracePeriodSeconds", FieldForm::Integer),
        field(11, "labels", TEXT_MAP),
        field(12, "annotations", TEXT_MAP),
        field(13, "ownerReferences", FieldForm::List(&FieldForm::Message(&OWNER_REFERENCE))),
        field(14, "finalizers", TEXTS),
        field(17, "managedFields", FieldForm::List(&FieldForm::Message(&MANAGED_FIELDS))),
    ])),
);

const OWNER_REFERENCE: ProtobufMessage = ProtobufMessage(&[
    field(1, "kind", FieldForm::Text),
    field(3, "name", FieldForm::Text),
    field(4, "uid", FieldForm::Text),
    field(5, "apiVersion", FieldForm::Text),
    pointer(6, "controller", FieldForm::Boolean),
    pointer(7, "blockOwnerDeletion", FieldForm::Boolean),
]);

const MANAGED_FIELDS: ProtobufMessage = ProtobufMessage(&[
    field(1, "manager", FieldForm::Text),
    field(2, "operation", FieldForm::Text),
    field(3, "apiVersion", FieldForm::Text),
    pointer(4, "time", FieldForm::Time),
    field(6, "fieldsType", FieldForm::Text),
    pointer(7, "fieldsV1", FieldForm::Fields),
    field(8, "subresource", FieldForm::Text),
]);

const CONDITION: ProtobufMessage = ProtobufMessage(&[
    field(1, "type", FieldForm::Text),
    field(2, "status", FieldForm::Text),
    field(4, "lastTransitionTime", FieldForm::Time),
    field(5, "reason", FieldForm::Text),
    field(6, "message", FieldForm::Text),
]);

const NAMESPACE: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(2, "spec", FieldForm::Message(&ProtobufMessage(&[field(1, "finalizers", TEXTS)]))),
    field(
        3,
        "status",
        FieldForm::Message(&ProtobufMessage(&[
            field(1, "phase", FieldForm::Text),
            field(2, "conditions", FieldForm::List(&FieldForm::Message(&CONDITION))),
        ])),
    ),
]);

const SECRET: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(2, "data", BYTE_MAP),
    field(3, "type", FieldForm::Text),
    field(4, "stringData", TEXT_MAP),
    pointer(5, "immutable", FieldForm::Boolean),
]);

const CONFIG_MAP: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(2, "data", TEXT_MAP),
    field(3, "binaryData", BYTE_MAP),
    pointer(4, "immutable", FieldForm::Boolean),
]);

const REFERENCE: ProtobufMessage = ProtobufMessage(&[
    field(1, "kind", FieldForm::Text),
    field(2, "namespace", FieldForm::Text),
    field(3, "name", FieldForm::Text),
    field(4, "uid", FieldForm::Text),
    field(5, "apiVersion", FieldForm::Text),
    field(6, "resourceVersion", FieldForm::Text),
    field(7, "fieldPath", FieldForm::Text),
]);

const SERVICE_ACCOUNT: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(2, "secrets", FieldForm::List(&FieldForm::Message(&REFERENCE))),
    field(
        3,
        "imagePullSecrets",
        FieldForm::List(&FieldForm::Message(&ProtobufMessage(&[field(1, "name", FieldForm::Text)]))),
    ),
    pointer(4, "automountServiceAccountToken", FieldForm::Boolean),
]);

const SERIES: FieldForm = FieldForm::Message(&ProtobufMessage(&[
    field(1, "count", FieldForm::Integer),
    field(2, "lastObservedTime", FieldForm::MicroTime),
]));

const SOURCE: FieldForm =
    FieldForm::Message(&ProtobufMessage(&[field(1, "component", FieldForm::Text), field(2, "host", FieldForm::Text)]));

const EVENT: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(2, "involvedObject", FieldForm::Message(&REFERENCE)),
    field(3, "reason", FieldForm::Text),
    field(4, "message", FieldForm::Text),
    field(5, "source", SOURCE),
    field(6, "firstTimestamp", FieldForm::Time),
    field(7, "lastTimestamp", FieldForm::Time),
    field(8, "count", FieldForm::Integer),
    field(9, "type", FieldForm::Text),
    field(10, "eventTime", FieldForm::MicroTime),
    pointer(11, "series", SERIES),
    field(12, "action", FieldForm::Text),
    pointer(13, "related", FieldForm::Message(&REFERENCE)),
    field(14, "reportingComponent", FieldForm::Text),
    field(15, "reportingInstance", FieldForm::Text),
]);

const NEW_EVENT: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(2, "eventTime", FieldForm::MicroTime),
    pointer(3, "series", SERIES),
    field(4, "reportingController", FieldForm::Text),
    field(5, "reportingInstance", FieldForm::Text),
    field(6, "action", FieldForm::Text),
    field(7, "reason", FieldForm::Text),
    field(8, "regarding", FieldForm::Message(&REFERENCE)),
    pointer(9, "related", FieldForm::Message(&REFERENCE)),
    field(10, "note", FieldForm::Text),
    field(11, "type", FieldForm::Text),
    field(12, "deprecatedSource", SOURCE),
    field(13, "deprecatedFirstTimestamp", FieldForm::Time),
    field(14, "deprecatedLastTimestamp", FieldForm::Time),
    field(15, "deprecatedCount", FieldForm::Integer),
]);

const QUANTITIES: FieldForm = FieldForm::Map(&FieldForm::Quantity);

const REQUIREMENT: ProtobufMessage = ProtobufMessage(&[
    field(1, "scopeName", FieldForm::Text),
    field(2, "operator", FieldForm::Text),
    field(3, "values", TEXTS),
]);

const RESOURCE_QUOTA: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(
        2,
        "spec",
        FieldForm::Message(&ProtobufMessage(&[
            field(1, "hard", QUANTITIES),
            field(2, "scopes", TEXTS),
            field(
                3,
                "scopeSelector",
                FieldForm::Message(&ProtobufMessage(&[field(
                    1,
                    "matchExpressions",
                    FieldForm::List(&FieldForm::Message(&REQUIREMENT)),
                )])),
            ),
        ])),
    ),
    field(
        3,
        "status",
        FieldForm::Message(&ProtobufMessage(&[field(1, "hard", QUANTITIES), field(2, "used", QUANTITIES)])),
    ),
]);

const LEASE: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(
        2,
        "spec",
        FieldForm::Message(&ProtobufMessage(&[
            pointer(1, "holderIdentity", FieldForm::Text),
            pointer(2, "leaseDurationSeconds", FieldForm::Integer),
            pointer(3, "acquireTime", FieldForm::MicroTime),
            pointer(4, "renewTime", FieldForm::MicroTime),
            pointer(5, "leaseTransitions", FieldForm::Integer),
            pointer(6, "strategy", FieldForm::Text),
            pointer(7, "preferredHolder", FieldForm::Text),
        ])),
    ),
]);

const RESOURCE_ATTRIBUTES: ProtobufField = pointer(
    1,
    "resourceAttributes",
    FieldForm::Message(&ProtobufMessage(&[
        field(1, "namespace", FieldForm::Text),
        field(2, "verb", FieldForm::Text),
        field(3, "group", FieldForm::Text),
        field(4, "version", FieldForm::Text),
        field(5, "resource", FieldForm::Text),
        field(6, "subresource", FieldForm::Text),
        field(7, "name", FieldForm::Text),
    ])),
);

const PATH_ATTRIBUTES: ProtobufField = pointer(
    2,
    "nonResourceAttributes",
    FieldForm::Message(&ProtobufMessage(&[field(1, "path", FieldForm::Text), field(2, "verb", FieldForm::Text)])),
);

const ACCESS_REVIEW: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(2, "spec", FieldForm::Message(&ProtobufMessage(&[RESOURCE_ATTRIBUTES, PATH_ATTRIBUTES]))),
]);

const OTHERS_REVIEW: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(
        2,
        "spec",
        FieldForm::Message(&ProtobufMessage(&[
            RESOURCE_ATTRIBUTES,
            PATH_ATTRIBUTES,
            field(3, "user", FieldForm::Text),
            field(4, "groups", TEXTS),
            field(6, "uid", FieldForm::Text),
        ])),
    ),
]);

const TOKEN_REVIEW: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(
        2,
        "spec",
        FieldForm::Message(&ProtobufMessage(&[field(1, "token", FieldForm::Text), field(2, "audiences", TEXTS)])),
    ),
]);

const RULES_REVIEW: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(2, "spec", FieldForm::Message(&ProtobufMessage(&[field(1, "namespace", FieldForm::Text)]))),
]);

const SUBJECT_REVIEW: ProtobufMessage = ProtobufMessage(&[METADATA]);

const TOKEN_REQUEST: ProtobufMessage = ProtobufMessage(&[
    METADATA,
    field(
        2,
        "spec",
        FieldForm::Message(&ProtobufMessage(&[
            field(1, "audiences", TEXTS),
            pointer(
                3,
                "boundObjectRef",
                FieldForm::Message(&ProtobufMessage(&[
                    field(1, "kind", FieldForm::Text),
                    field(2, "apiVersion", FieldForm::Text),
                    field(3, "name", FieldForm::Text),
                    field(4, "uid", FieldForm::Text),
                ])),
            ),
            pointer(4, "expirationSeconds", FieldForm::Integer),
        ])),
    ),
]);

const DELETE_OPTIONS: ProtobufMessage = ProtobufMessage(&[
    pointer(1, "gracePeriodSeconds", FieldForm::Integer),
    pointer(
        2,
        "preconditions",
        FieldForm::Message(&ProtobufMessage(&[
            pointer(1, "uid", FieldForm::Text),
            pointer(2, "resourceVersion", FieldForm::Text),
        ])),
    ),
    pointer(3, "orphanDependents", FieldForm::Boolean),
    pointer(4, "propagationPolicy", FieldForm::Text),
    field(5, "dryRun", TEXTS),
    pointer(6, "ignoreStoreReadErrorWithClusterBreakingPotential", FieldForm::Boolean),
]);
