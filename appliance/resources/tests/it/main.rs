//! The kinds against upstream's own schemas, examples and rules.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod boot_images;
mod cluster_api;
mod rules;
mod shapes;
mod upstream;

use std::path::PathBuf;

/// A fixture's text, or `None` with a message where the fixtures are not beside the project.
pub(crate) fn fixture(path: &str) -> Option<String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures").join(path);
    let text = std::fs::read_to_string(&file).ok();
    if text.is_none() {
        println!("skipped: the fixtures are not beside the project ({})", file.display());
    }
    text
}
