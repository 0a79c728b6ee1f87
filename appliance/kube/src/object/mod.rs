//! An object through a write: its rules, its owners, its versions, and the store below them; and what lives in the same
//! process and does the same without HTTP.

pub mod apply;
pub(crate) mod author;
pub mod builtin;
pub(crate) mod cache;
pub mod client;
pub(crate) mod core;
pub(crate) mod deletion;
pub mod heavy;
pub(crate) mod held;
pub mod life;
pub(crate) mod options;
pub mod patch;
pub(crate) mod publish;
pub mod quota;
pub(crate) mod raw;
pub(crate) mod record;
pub(crate) mod rules;
pub(crate) mod scale;
pub(crate) mod selection;
pub(crate) mod store_errors;
pub(crate) mod stored;
pub(crate) mod terms;
pub(crate) mod unstored;
