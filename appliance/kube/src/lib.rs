//! The Kubernetes wire format for any set of kinds, over a [`firesteel_store::Store`].
//!
//! ```text
//!   HTTP request ─► route (pure) ─► api (handlers) ─┐
//!                                                   ├─► core ─► rules (pure) ─► store
//!   controllers ─► client::Objects<T> ──────────────┘
//! ```
//!
//! A server is a table of kinds ([`Registry`] of [`KindInfo`]). This crate brings Kubernetes' own
//! ([`builtin`]: Namespace, Secret, ConfigMap, ServiceAccount, ResourceQuota, Event, Lease, reviews of rights and tokens, the
//! served kinds as CustomResourceDefinitions, and empty lists of nodes and services) and must not know any
//! other: what is special to a kind, its schema included, comes in by its [`KindInfo`]. Who the caller is was
//! found out before; what he may do is asked of an [`Authorizer`] for every request ([`access`]). Sockets and
//! TLS belong to whoever calls.

mod codec;
mod model;
mod object;
mod serve;

pub use codec::{
    body::{BODY_BYTES_MAX, Body},
    json, negotiate, protobuf,
    table::age,
    yaml,
};
pub use firesteel_kube_types::{Cause, CauseReason, ScaleSubresource};
pub use model::{
    access::{self, Authorizer, Caller},
    convert::{KindVersion, VersionConversion},
    field_validation::FieldValidation,
    instant_subresources,
    kind::KindInfo,
    kind_parts::{Admit, AdmittedObject, Cell, NameRule, PrinterColumn, ReviewKind, Writers},
    query::Query,
    registry::Registry,
    route,
    schema::is_time,
    selector::{FieldSelector, LabelSelector},
    status::Status,
};
pub use object::{
    apply, builtin,
    client::{self, ObjectChange, ObjectName, ObjectSubscription, Objects},
    core::Core,
    deletion::Propagation,
    heavy_json,
    held::UnstoredObjects,
    lifecycle,
    options::{ObjectUpdate, Preconditions, StoredWrite, WriteOptions, WriteOrigin},
    patch, quota,
    record::{EventSubject, RecordedEvent, Recorder},
    terms::{ObjectPart, ObjectTarget},
};
pub use serve::{
    api::Api,
    continue_token::check_token,
    guard::AccessPass,
    limits::{REQUESTS_PER_CALLER_MAX, WATCHES_PER_CALLER_MAX},
    logs,
    ready::ReadinessRemarks,
    respond::ResponseAuditNote,
    timing::Timing,
    tokens,
};
