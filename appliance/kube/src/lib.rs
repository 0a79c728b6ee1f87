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
pub use firesteel_kube_types::{Cause, CauseReason, Scale};
pub use model::{
    access::{self, Authorizer, Caller},
    convert::{Conversion, Version},
    field_validation::FieldValidation,
    issue,
    kind::KindInfo,
    kind_parts::{Admit, Admitted, Cell, Column, NameRule, Review, Writers},
    query::Query,
    registry::Registry,
    route,
    schema::is_time,
    selector::{FieldSelector, LabelSelector},
    status::Status,
};
pub use object::{
    apply, builtin,
    client::{self, Change, Changes, ObjectName, Objects},
    core::Core,
    deletion::Propagation,
    heavy,
    held::UnstoredObjects,
    life,
    options::{Change as ObjectChange, Preconditions, WriteOptions, WriteOrigin, Written},
    patch, quota,
    record::{Occurrence, Recorder, Regarding},
    terms::{Part, Target},
};
pub use serve::{
    api::Api,
    continue_token::check_token,
    guard::Pass,
    limits::{REQUESTS_PER_CALLER_MAX, WATCHES_PER_CALLER_MAX},
    logs,
    ready::Remarks,
    respond::Told,
    timing::Timing,
    tokens,
};
