//! Values that are nowhere else, and the search for them in everything that was written.

#![allow(clippy::unwrap_used, reason = "a test that cannot read what it looks at fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

/// What every canary begins with: letters that base64, URLs and JSON write otherwise.
pub const MARK: &str = "k9?Z/ä\"q7&w";

/// A value that is nowhere else, named after how it got in.
pub fn canary(way: &str) -> String {
    format!("{MARK}-{way}-{MARK}")
}

/// The mark as it may be written.
pub fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let mark = MARK.as_bytes();
    let quoted =
        |byte: &u8| if byte.is_ascii_alphanumeric() { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    let quoted: String = mark.iter().map(quoted).collect();
    let escaped = json!(MARK).to_string();
    let hex: String = mark.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![
        ("as it is", mark.to_vec()),
        ("in a URL", quoted.clone().into_bytes()),
        ("in a URL, small letters", quoted.to_lowercase().into_bytes()),
        ("in JSON", escaped.trim_matches('"').as_bytes().to_vec()),
        ("as Rust shows it", format!("{MARK:?}").trim_matches('"').as_bytes().to_vec()),
        ("in hexadecimal", hex.into_bytes()),
    ];
    // At each place in a longer text; what the neighbours share a letter with is left out.
    for shift in 0..3 {
        let text = STANDARD.encode([&[0; 3][..shift], mark].concat());
        let whole = text.trim_end_matches('=');
        let of_mark = &whole[if shift == 0 { 0 } else { shift + 1 }..whole.len() - 1];
        forms.push(("in base64", of_mark.as_bytes().to_vec()));
        forms.push(("in base64 twice", STANDARD.encode(of_mark)[2..of_mark.len()].as_bytes().to_vec()));
    }
    forms
}

pub fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_under(&path)) } else { found.push(path) }
    }
    found
}

pub fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Where in these files something is written.
pub fn found_in(files: &[PathBuf], wanted: &[(&str, Vec<u8>)]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let bytes = fs::read(file).unwrap();
        for (form, wanted) in wanted {
            if holds(&bytes, wanted) {
                found.push(format!("{}: {form}", file.display()));
            }
        }
    }
    found
}
