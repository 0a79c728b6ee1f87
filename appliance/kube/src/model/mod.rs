//! What kinds, names, labels, selectors, requests and refusals are: types with their checks, and no bytes.

pub mod access;
pub(crate) mod convert;
pub(crate) mod field_schema;
pub(crate) mod field_validation;
pub mod instant_subresources;
pub(crate) mod jsonpath;
pub(crate) mod kind;
pub(crate) mod kind_parts;
pub(crate) mod log_options;
pub(crate) mod meta;
pub(crate) mod name;
pub(crate) mod namespace_quota;
pub(crate) mod parameter;
pub(crate) mod query;
pub(crate) mod registry;
pub mod route;
pub(crate) mod schema;
pub(crate) mod selector;
pub(crate) mod status;
pub(crate) mod versions;
