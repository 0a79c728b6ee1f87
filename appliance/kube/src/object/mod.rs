//! An object through a write: its rules, its owners, its versions, and the store below them; and what lives in the same
//! process and does the same without HTTP.

pub mod apply;
pub mod builtin;
pub(crate) mod cache;
pub(crate) mod changed_by;
pub mod client;
pub(crate) mod core;
pub(crate) mod deletion;
pub mod heavy_json;
pub(crate) mod held;
pub mod lifecycle;
pub(crate) mod memory_objects;
pub(crate) mod options;
pub mod patch;
pub(crate) mod publish;
pub mod quota;
pub(crate) mod record;
pub(crate) mod rules;
pub(crate) mod scale;
pub(crate) mod selection;
pub(crate) mod store_errors;
pub(crate) mod stored;
pub(crate) mod stored_object;
pub(crate) mod terms;
