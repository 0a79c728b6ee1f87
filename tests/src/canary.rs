//! Values that are nowhere else, and the search for them in everything that was written.

#![allow(clippy::unwrap_used, reason = "a test that cannot read what it looks at fails by panicking")]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use flate2::read::GzDecoder;
use memchr::memmem;
use serde_json::json;

/// What every canary begins with: letters that base64, URLs and JSON write otherwise.
pub const MARK: &str = "k9?Z/ä\"q7&w";

/// A value that is nowhere else, named after how it got in.
pub fn canary(way: &str) -> String {
    format!("{MARK}-{way}-{MARK}")
}

/// The same of letters and digits alone, for what takes nothing else.
pub const PLAIN_MARK: &str = "q7Kx9vZr2LmTw4";

/// A secret that is nowhere else, of letters and digits, named after how it got in.
pub fn planted(way: &str) -> String {
    format!("{PLAIN_MARK}{way}{PLAIN_MARK}")
}

/// Of what gzip streams hold: more than any config of a test.
const UNPACKED_BYTES_MAX: u64 = 1 << 20;
/// How each gzip stream begins, as it is and in base64.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
const GZIP_IN_BASE64: &[u8] = b"H4sI";

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

/// A mark of letters and digits as it may be written.
pub fn plain_forms(mark: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mark = mark.as_bytes();
    let mut forms = vec![("as it is", mark.to_vec()), ("in hexadecimal", hex::encode(mark).into_bytes())];
    for once in in_base64(mark, &STANDARD) {
        forms.extend(in_base64(&once, &STANDARD).into_iter().map(|twice| ("in base64 twice", twice)));
        forms.push(("in base64", once));
    }
    forms
}

/// What the gzip streams hold that are in these bytes, as they are or in base64, one after the other.
pub fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut unpack = |stream: &[u8]| {
        // What is no stream ends with an error, after what was one.
        drop(GzDecoder::new(stream).take(UNPACKED_BYTES_MAX).read_to_end(&mut all));
        all.push(b'\n');
    };
    for at in memmem::find_iter(bytes, &GZIP) {
        unpack(&bytes[at..]);
    }
    for at in memmem::find_iter(bytes, GZIP_IN_BASE64) {
        let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let text: Vec<u8> = bytes[at..].iter().take_while(is_letter).copied().collect();
        // Without the rest of the last byte, which the end of a stream does not need.
        if let Ok(stream) = STANDARD.decode(&text[..text.len() / 4 * 4]) {
            unpack(&stream);
        }
    }
    all
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
    memmem::find(bytes, wanted).is_some()
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

/// Where in a text or file something is written, also in what is packed in it; with what stands there.
pub fn shown_in(name: &str, bytes: &[u8], wanted: &[(&str, Vec<u8>)]) -> Vec<String> {
    let mut found = Vec::new();
    for (packed, bytes) in [("", bytes), (", packed", unpacked(bytes).as_slice())] {
        for (form, wanted) in wanted {
            if let Some(at) = memmem::find(bytes, wanted) {
                let around = &bytes[at.saturating_sub(40)..bytes.len().min(at + wanted.len() + 40)];
                found.push(format!("{name}: {form}{packed}: {:?}", String::from_utf8_lossy(around)));
            }
        }
    }
    found
}

/// The same of all files below a folder. Of a process that runs: a file may go meanwhile.
pub fn shown_below(folder: &Path, wanted: &[(&str, Vec<u8>)]) -> Vec<String> {
    let files = files_under(folder).into_iter().filter_map(|file| Some((fs::read(&file).ok()?, file)));
    files.flat_map(|(bytes, file)| shown_in(&file.display().to_string(), &bytes, wanted)).collect()
}
