//! Values that are nowhere else, and the search for them in everything that was written.

#![allow(clippy::unwrap_used, reason = "a test that cannot read what it looks at fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{
    Engine as _,
    engine::{
        GeneralPurpose,
        general_purpose::{STANDARD, URL_SAFE},
    },
};
use serde_json::json;

/// What every canary begins with: letters that base64, URLs and JSON write otherwise.
pub const MARK: &str = "k9?Z/ä\"q7&w";

/// A value that is nowhere else, named after how it got in.
pub fn canary(way: &str) -> String {
    format!("{MARK}-{way}-{MARK}")
}

/// How often a text in a text in a text is escaped, at most: an applied object in an annotation, shown by Rust.
const ESCAPES_MAX: usize = 3;

/// The mark as it may be written.
pub fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let mark = MARK.as_bytes();
    let quoted =
        |byte: &u8| if byte.is_ascii_alphanumeric() { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    let quoted: String = mark.iter().map(quoted).collect();
    let mut forms = vec![
        ("as it is", mark.to_vec()),
        ("in a URL", quoted.clone().into_bytes()),
        ("in a URL, small letters", quoted.to_lowercase().into_bytes()),
        ("in plain letters", MARK.replace('ä', "?").into_bytes()),
        ("in hexadecimal", hex::encode(mark).into_bytes()),
    ];
    let mut escaped = MARK.to_owned();
    for _ in 0..ESCAPES_MAX {
        // JSON and Rust escape the same of it.
        escaped = json!(escaped).to_string();
        escaped = escaped[1..escaped.len() - 1].to_owned();
        forms.push(("escaped", escaped.clone().into_bytes()));
    }
    for once in in_base64(mark, &STANDARD) {
        forms.extend(in_base64(&once, &STANDARD).into_iter().map(|twice| ("in base64 twice", twice)));
        forms.push(("in base64", once));
    }
    forms.extend(in_base64(mark, &URL_SAFE).into_iter().map(|once| ("in base64 for URLs", once)));
    forms
}

/// At each place in a longer text, without the letters that its neighbours share.
fn in_base64(text: &[u8], alphabet: &GeneralPurpose) -> Vec<Vec<u8>> {
    (0..3)
        .map(|shift| {
            let whole = alphabet.encode([&[0; 3][..shift], text].concat());
            let whole = whole.trim_end_matches('=');
            whole.as_bytes()[if shift == 0 { 0 } else { shift + 1 }..whole.len() - 1].to_vec()
        })
        .collect()
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
