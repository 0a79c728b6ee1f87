//! The kinds against upstream's own schemas, examples and rules.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "the table of fields is what its test is run for")]

mod boot_images;
mod cluster_api;
mod fields;
mod rules;
mod shapes;
mod upstream;

pub(crate) use firesteel_fixtures::text as fixture;
