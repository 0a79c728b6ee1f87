//! The values that are secret, as far as the caller may read them: what Secrets and MachineConfigs hold, what URLs carry,
//! and what the caller logs in with. They are looked for in all of the bundle. Pure.
//!
//! A document, such as user data, is more than one value: the whole, its lines, what its fields that are named as secrets
//! hold, and each long word of letters and digits. It may be packed, and may hold further documents in data URLs.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::secret_forms::is_secret_name;
use super::secret_search::{from_base64, unpack};
use super::secret_types;

/// Shorter values are words that stand everywhere, such as `admin`: they are removed from their Secrets alone.
const VALUE_BYTES_MIN: usize = 6;
/// Shorter lines of a document stand in other texts, too.
const LINE_BYTES_MIN: usize = 12;
/// Shorter words of letters and digits are names.
const WORD_BYTES_MIN: usize = 16;
/// The longest part of a value that is looked for as one. A longer one is looked for piece by piece.
const PIECE_BYTES: usize = 1024;
/// How deep documents in documents are read.
const DEPTH_MAX: usize = 4;

/// Collects the values.
#[derive(Debug, Default)]
pub(super) struct KnownSecrets {
    values: BTreeSet<Vec<u8>>,
    /// Names of objects and other words that everyone may see: a Secret that holds one of them hides nothing else.
    public: BTreeSet<String>,
    too_short: u64,
}

impl KnownSecrets {
    /// Adds what the caller logs in with.
    pub(super) fn add_login(&mut self, token: &str) {
        self.add(token.as_bytes());
    }

    /// Adds what an object holds.
    pub(super) fn add_object(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let names = [&metadata["name"], &metadata["namespace"], &object["kind"]];
        self.public.extend(names.into_iter().filter_map(Value::as_str).map(str::to_owned));
        if secret_types::is_secret(object) {
            for (text, is_base64) in secret_types::values_of_secret(object) {
                let bytes =
                    if is_base64 { STANDARD.decode(text).unwrap_or_default() } else { text.as_bytes().to_vec() };
                self.too_short += u64::from(bytes.trim_ascii().len() < VALUE_BYTES_MIN);
                self.add_document(&bytes, 0);
            }
        } else if secret_types::is_machine_config(object) {
            self.add_fields("", &object["spec"]["config"], 0);
        }
        self.add_urls(object);
    }

    /// Returns the values to look for.
    pub(super) fn values(&self) -> BTreeSet<Vec<u8>> {
        let is_public = |value: &[u8]| std::str::from_utf8(value).is_ok_and(|text| self.public.contains(text));
        self.values.iter().filter(|value| !is_public(value)).cloned().collect()
    }

    /// Returns how many values of Secrets are too short to be looked for elsewhere.
    pub(super) fn too_short(&self) -> u64 {
        self.too_short
    }

    /// Adds a value as it is, if it is long enough to be recognised.
    fn add(&mut self, value: &[u8]) {
        let value = value.trim_ascii();
        if value.len() < VALUE_BYTES_MIN {
            return;
        }
        let mut rest = value;
        while rest.len() > PIECE_BYTES + VALUE_BYTES_MIN {
            let (piece, further) = rest.split_at(PIECE_BYTES);
            self.values.insert(piece.to_vec());
            rest = further;
        }
        self.values.insert(rest.to_vec());
        // A program that knows no UTF-8 shows other letters as question marks.
        if !value.is_ascii() && value.len() <= PIECE_BYTES {
            let text = String::from_utf8_lossy(value);
            let plain: String = text.chars().map(|letter| if letter.is_ascii() { letter } else { '?' }).collect();
            self.values.insert(plain.into_bytes());
        }
    }

    fn add_document(&mut self, bytes: &[u8], depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let unpacked = unpack(bytes);
        if !unpacked.is_empty() {
            self.add_document(&unpacked, depth + 1);
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.add(bytes);
            return;
        };
        if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
            self.add_fields("", &value, depth + 1);
        }
        let has_lines = text.trim().lines().count() > 1;
        // Of a text of several lines, each line is a value.
        if !has_lines {
            self.add(bytes);
        }
        let is_long = text.trim().len() >= LINE_BYTES_MIN;
        if has_lines {
            for line in text.lines().map(str::trim) {
                // The first and the last line of a key or a certificate are the same in all of them.
                if line.len() >= LINE_BYTES_MIN && !line.starts_with("-----") {
                    self.add(line.as_bytes());
                }
                if let Some((_, value)) = line.split_once([':', '=']).filter(|(name, _)| is_secret_name(name.trim())) {
                    self.add(value.trim().trim_matches(['"', '\'']).as_bytes());
                }
            }
        }
        if is_long {
            self.add_words(text);
            self.add_encoded(text, depth);
        }
    }

    /// Adds the texts of a document that is JSON.
    fn add_fields(&mut self, name: &str, value: &Value, depth: usize) {
        match value {
            Value::String(text) if is_secret_name(name) => self.add_document(text.as_bytes(), depth),
            Value::String(text) => {
                if let Some(content) = content_of_data_url(text) {
                    self.add_document(&content, depth);
                } else if text.trim().lines().count() > 1 {
                    self.add_document(text.as_bytes(), depth);
                } else {
                    self.add_words(text);
                    self.add_encoded(text, depth);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_fields(name, item, depth)),
            Value::Object(fields) => {
                // A header has its name in one field, and its value in another.
                let is_header = fields.contains_key("name") && fields.contains_key("value");
                for (key, value) in fields {
                    let name = if is_header && key == "value" { "password" } else { key.as_str() };
                    self.add_fields(name, value, depth);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Adds the long words that look as if a program had made them: letters and digits.
    fn add_words(&mut self, text: &str) {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        for word in words.filter(|word| word.len() >= WORD_BYTES_MIN) {
            let has = |is_one: fn(&u8) -> bool| word.bytes().any(|byte| is_one(&byte));
            if has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) {
                self.add(word.as_bytes());
            }
        }
    }

    /// Adds documents that are encoded in a text.
    fn add_encoded(&mut self, text: &str, depth: usize) {
        if depth >= DEPTH_MAX {
            return;
        }
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "+/-_=".contains(letter);
        for run in text.split(|letter| !is_letter(letter)).filter(|run| run.len() >= WORD_BYTES_MIN) {
            let decoded = from_base64(run.as_bytes(), 0);
            let is_document = !unpack(&decoded).is_empty() || is_printed(&decoded);
            if is_document {
                self.add_document(&decoded, depth + 1);
            }
        }
    }

    /// Adds the passwords and queries of all URLs in an object.
    fn add_urls(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_url(text),
            Value::Array(items) => items.iter().for_each(|item| self.add_urls(item)),
            Value::Object(fields) => fields.values().for_each(|value| self.add_urls(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_url(&mut self, text: &str) {
        let Some((_, rest)) = text.split_once("://").filter(|_| !text.contains(char::is_whitespace)) else { return };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        if let Some((_, password)) = rest[..end].rsplit_once('@').and_then(|(login, _)| login.split_once(':')) {
            self.add(password.as_bytes());
            self.add(&unescaped(password));
        }
        let query = rest.split_once(['?', '#']).map_or("", |(_, query)| query);
        for value in query.split(['&', '#', ';']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value)) {
            if value.len() >= 2 * VALUE_BYTES_MIN || is_mixed(value) {
                self.add(value.as_bytes());
                self.add(&unescaped(value));
            }
        }
    }
}

/// Says whether a value of a query is no word, such as `latest`.
fn is_mixed(value: &str) -> bool {
    value.len() > VALUE_BYTES_MIN && value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Says whether bytes are a text.
fn is_printed(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Returns the content of a data URL (RFC 2397).
fn content_of_data_url(text: &str) -> Option<Vec<u8>> {
    let (kind, content) = text.strip_prefix("data:")?.split_once(',')?;
    let content = unescaped(content);
    Some(if kind.ends_with(";base64") { from_base64(&content, 0) } else { content })
}

/// Replaces the escapes of a URL (RFC 3986, section 2.1).
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, further @ ..] = rest {
        let escaped = further.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &further[2..];
            }
            None => {
                bytes.push(*first);
                rest = further;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

    const WORD: &str = "q7Kx9vZr2LmTw4planted";

    fn values(objects: &[Value]) -> Vec<String> {
        let mut known = KnownSecrets::default();
        objects.iter().for_each(|object| known.add_object(object));
        known.values().iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    fn secret(value: &[u8]) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": STANDARD.encode(value)}})
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_secret_is_known_as_a_whole_by_its_lines_and_by_what_is_in_it() {
        assert_eq!(values(&[secret(b"hunter22\n")]), ["hunter22"]);
        assert_eq!(values(&[secret(b"short")]), Vec::<String>::new());
        let cloud = format!("#cloud-config\npassword: hunter22\nkey: {WORD}\n");
        let known = values(&[secret(cloud.as_bytes())]);
        for part in ["hunter22", WORD, "password: hunter22", "#cloud-config"] {
            assert!(known.iter().any(|value| value == part), "{part}: {known:?}");
        }
        let packed = values(&[secret(&gzip(&cloud))]);
        assert!(packed.iter().any(|value| value == "hunter22"), "{packed:?}");
        let plain = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"k": "hunter22"}});
        assert_eq!(values(&[plain]), ["hunter22"]);
    }

    #[test]
    fn documents_in_documents_are_read() {
        let packed = STANDARD.encode(gzip(WORD));
        for source in [
            format!("data:,{WORD}"),
            format!("data:,%71{}", &WORD[1..]),
            format!("data:text/plain;base64,{}", STANDARD.encode(WORD)),
            format!("data:;base64,{packed}"),
        ] {
            let config =
                json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{"contents": {"source": source}}]}});
            let machine_config = json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "spec": {"config": config},
            });
            for object in [machine_config, secret(config.to_string().as_bytes())] {
                let known = values(&[object]);
                assert!(known.iter().any(|value| value == WORD), "{source}: {known:?}");
            }
        }
        let header = json!({"httpHeaders": [{"name": "Authorization", "value": "Bearer abcdefghijk"}]});
        let known = values(&[secret(header.to_string().as_bytes())]);
        assert!(known.iter().any(|value| value == "Bearer abcdefghijk"), "{known:?}");
    }

    #[test]
    fn urls_carry_passwords_and_queries() {
        let host = json!({"spec": {"image": {"url": "https://u:p%40ssword@h/i?sig=AbC1234567&format=raw"}}});
        let known = values(&[host]);
        for part in ["p%40ssword", "p@ssword", "AbC1234567"] {
            assert!(known.iter().any(|value| value == part), "{part}: {known:?}");
        }
        assert!(!known.iter().any(|value| value == "raw"), "{known:?}");
    }

    #[test]
    fn a_name_that_everyone_may_see_is_no_secret() {
        let host = json!({"kind": "BareMetalHost", "metadata": {"name": "rack1-07", "namespace": "default"}});
        assert_eq!(values(&[secret(b"default"), secret(b"rack1-07"), host]), Vec::<String>::new());
    }

    #[test]
    fn long_values_are_looked_for_piece_by_piece() {
        let known = values(&[secret("x".repeat(PIECE_BYTES * 2 + 3).as_bytes())]);
        assert_eq!(known.iter().map(String::len).collect::<Vec<_>>(), [PIECE_BYTES, PIECE_BYTES + 3]);
    }
}
