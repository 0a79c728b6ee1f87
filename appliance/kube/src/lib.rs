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

pub mod access;
mod api;
pub mod apply;
mod author;
pub mod builtin;
mod cache;
pub mod client;
mod convert;
mod core;
mod deletion;
mod discovery;
mod form;
mod guard;
mod gzip;
pub mod heavy;
mod impersonate;
pub mod issue;
pub mod json;
mod jsonpath;
mod kind;
pub mod life;
mod limits;
mod list;
mod listing;
pub mod logs;
mod meta;
mod name;
pub mod negotiate;
mod openapi;
pub mod patch;
pub mod protobuf;
mod publish;
mod query;
pub mod quota;
mod raw;
mod ready;
mod record;
mod respond;
mod reviews;
pub mod route;
mod rules;
mod scale;
mod schema;
mod selector;
mod status;
mod table;
pub mod tokens;
mod unstored;
mod watch;
mod write;
pub mod yaml;

pub use access::{Authorizer, Caller};
pub use api::{Api, BODY_BYTES_MAX, Timing};
pub use client::{Change, Changes, ObjectName, Objects};
pub use convert::{Conversion, Version};
pub use core::{Change as ObjectChange, Core, Preconditions, WriteOptions, WriteOrigin, Written};
pub use deletion::Propagation;
pub use guard::Pass;
pub use kind::{Admit, Admitted, Cell, Column, KindInfo, NameRule, Registry, Writers};
pub use limits::{REQUESTS_PER_CALLER_MAX, WATCHES_PER_CALLER_MAX};
pub use list::check_token;
pub use meta::{ObjectMeta, OwnerReference};
pub use query::Query;
pub use ready::Remarks;
pub use record::{Occurrence, Recorder, Regarding};
pub use respond::{Body, Told};
pub use reviews::Review;
pub use rules::{FieldValidation, Part, Target};
pub use scale::Scale;
pub use schema::is_time;
pub use selector::{FieldSelector, LabelSelector};
pub use status::{Cause, Status};
pub use table::age;
pub use unstored::UnstoredObjects;
