//! The Kubernetes API for any set of kinds, over a [`firesteel_store::Store`].
//!
//! ```text
//!   HTTP request ─► route (pure) ─► api (handlers) ─┐
//!                                                   ├─► core ─► rules (pure) ─► store
//!   controllers ─► client::Objects<T> ──────────────┘
//! ```
//!
//! It has four layers, and each uses only those before it: `model` (types), `codec` (bytes), `object` (writes) and
//! `serve` (requests). The listener of the appliance calls [`Api`], and controllers call [`Objects`].
//!
//! A server is a table of kinds ([`Registry`] of [`KindInfo`]). This crate brings Kubernetes' own ([`builtin`]:
//! Namespace, Secret, ConfigMap, ServiceAccount, ResourceQuota, Event, Lease, reviews of rights and tokens, the served
//! kinds as CustomResourceDefinitions, and empty lists of nodes and services) and must not know any other: what is
//! special to a kind, its schema included, comes in by its [`KindInfo`]. The caller has found out who asks; an
//! [`Authorizer`] says for every request what they may do ([`access`]). Sockets and TLS belong to the caller.

mod codec;
mod model;
mod object;
mod serve;

pub use codec::body::{BODY_BYTES_MAX, Body};
pub use codec::table::age;
pub use codec::{json, negotiate, protobuf, yaml};
pub use firesteel_kube_types::{Cause, CauseReason, ScaleSubresource};
pub use model::access::{self, Authorizer, Caller};
pub use model::convert::{KindVersion, VersionConversion};
pub use model::field_validation::FieldValidation;
pub use model::kind::KindInfo;
pub use model::kind_parts::{Admit, AdmittedObject, Cell, NameRule, PrinterColumn, ReviewKind, Writers};
pub use model::query::Query;
pub use model::registry::Registry;
pub use model::schema::is_time;
pub use model::selector::{FieldSelector, LabelSelector};
pub use model::status::Status;
pub use model::{instant_subresources, route};
pub use object::client::{self, ObjectChange, ObjectName, ObjectSubscription, Objects};
pub use object::core::Core;
pub use object::deletion::Propagation;
pub use object::held::UnstoredObjects;
pub use object::options::{ObjectUpdate, Preconditions, StoredWrite, WriteOptions, WriteOrigin};
pub use object::record::{EventSubject, RecordedEvent, Recorder};
pub use object::terms::{ObjectPart, ObjectTarget};
pub use object::{apply, builtin, heavy_json, lifecycle, patch, quota};
pub use serve::api::Api;
pub use serve::continue_token::check_token;
pub use serve::guard::AccessPass;
pub use serve::limits::{REQUESTS_PER_CALLER_MAX, WATCHES_PER_CALLER_MAX};
pub use serve::ready::ReadinessRemarks;
pub use serve::respond::ResponseAuditNote;
pub use serve::timing::Timing;
pub use serve::{logs, tokens};
