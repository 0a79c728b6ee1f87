//! Bytes to values and back: JSON, YAML, protobuf and tables, within bounds.

pub(crate) mod body;
pub(crate) mod gzip;
pub mod json;
pub mod negotiate;
pub mod protobuf;
pub(crate) mod table;
pub mod yaml;
