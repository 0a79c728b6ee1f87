//! The values that are secret, as far as the caller may read them: what Secrets and MachineConfigs hold, what URLs carry,
//! and what the caller logs in with. They are looked for in all of the bundle. Pure.
//!
//! A document, such as user data, is more than one value: the whole, its lines, what its fields that are named as secrets
//! hold, what its URLs carry, the password behind a user, and each long word of letters and digits. It may be packed, and
//! may hold further documents in data URLs. Lines of JSON are no values: they stand in every rendering.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::encodings::{BASE64_LETTERS_MIN, base64_runs, from_base64, unpack};
use crate::secret_forms::{HIDDEN, REMOVED, SecretForms};
use crate::secret_names::{is_label_name, is_secret_name, is_value_name};
use crate::secret_search::{TooManyValues, VALUES_BYTES_MAX, VALUES_MAX};
use crate::secret_types;
use crate::url_secrets::{content_of_data_url, secrets_in};

/// Shorter values are words that stand everywhere, such as `admin`: they are removed from their Secrets alone.
pub(crate) const VALUE_BYTES_MIN: usize = 6;
/// Shorter lines of a document stand in other texts, too.
const LINE_BYTES_MIN: usize = 12;
/// A text of several lines that is no longer may be a secret of several lines, and no document.
const SECRET_TEXT_BYTES_MAX: usize = 64;
/// Shorter words of letters and digits are names.
const WORD_BYTES_MIN: usize = 16;
/// The longest part of a value that is looked for as one. A longer one is looked for piece by piece.
const PIECE_BYTES: usize = 1024;
/// How deep documents in documents are read.
const DEPTH_MAX: usize = 4;
/// The most bytes that a packed document is unpacked to: more values than these are refused anyway.
const UNPACKED_BYTES_MAX: usize = 2 * VALUES_BYTES_MAX;
/// Names before a colon whose value is no password.
const DIGEST_NAMES: [&str; 5] = ["md5", "sha1", "sha256", "sha384", "sha512"];

/// Collects the values.
pub struct KnownSecrets {
    values: BTreeSet<Vec<u8>>,
    values_bytes: usize,
    has_too_many: bool,
    /// Names of objects and other words that everyone may see, in small letters: a Secret that holds one of them hides
    /// nothing else.
    public: BTreeSet<String>,
    too_short: u64,
    forms: SecretForms,
}

opaque_debug!(KnownSecrets);

impl KnownSecrets {
    /// Begins with no value.
    ///
    /// # Errors
    /// When a form of secrets cannot be read.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            values: BTreeSet::new(),
            values_bytes: 0,
            has_too_many: false,
            public: BTreeSet::new(),
            too_short: 0,
            forms: SecretForms::new()?,
        })
    }

    /// Adds what the caller logs in with.
    pub fn add_login(&mut self, token: &str) {
        self.add(token.as_bytes());
    }

    /// Adds what an object holds.
    pub fn add_object(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let names = [&metadata["name"], &metadata["namespace"], &object["kind"]];
        self.public.extend(names.into_iter().filter_map(Value::as_str).map(str::to_ascii_lowercase));
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
    ///
    /// # Errors
    /// When there are too many of them.
    pub fn values(&self) -> anyhow::Result<BTreeSet<Vec<u8>>> {
        if self.has_too_many {
            return Err(TooManyValues.into());
        }
        let is_public = |value: &[u8]| {
            std::str::from_utf8(value).is_ok_and(|text| self.public.contains(&text.to_ascii_lowercase()))
        };
        Ok(self.values.iter().filter(|value| !is_public(value)).cloned().collect())
    }

    /// Returns how many values of Secrets are too short to be looked for elsewhere.
    pub fn too_short(&self) -> u64 {
        self.too_short
    }

    /// Adds a value as it is, if it is long enough to be recognised.
    fn add(&mut self, value: &[u8]) {
        let value = value.trim_ascii();
        let mut rest = value;
        while rest.len() > PIECE_BYTES + VALUE_BYTES_MIN {
            let (piece, further) = rest.split_at(PIECE_BYTES);
            self.insert(piece.to_vec());
            rest = further;
        }
        self.insert(rest.to_vec());
        // A program that knows no UTF-8 shows other letters as question marks.
        if !value.is_ascii() && value.len() <= PIECE_BYTES {
            let text = String::from_utf8_lossy(value);
            let plain: String = text.chars().map(|letter| if letter.is_ascii() { letter } else { '?' }).collect();
            self.insert(plain.into_bytes());
        }
    }

    /// Puts in a value, unless it is short, stands for secrets itself, or there are too many.
    fn insert(&mut self, value: Vec<u8>) {
        if value.len() < VALUE_BYTES_MIN || is_mark(&value) || self.has_too_many {
            return;
        }
        let bytes = value.len();
        if self.values.insert(value) {
            self.values_bytes += bytes;
            self.has_too_many = self.values.len() > VALUES_MAX || self.values_bytes > VALUES_BYTES_MAX;
        }
    }

    fn add_document(&mut self, bytes: &[u8], depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let unpacked = unpack(bytes, UNPACKED_BYTES_MAX).bytes;
        if !unpacked.is_empty() {
            self.add_document(&unpacked, depth + 1);
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.add(bytes);
            return;
        };
        let json = serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array());
        if let Some(value) = &json {
            self.add_fields("", value, depth + 1);
        }
        let text = text.trim();
        let has_lines = text.lines().count() > 1;
        // Of a long text of several lines, each line is a value.
        if !has_lines || text.len() <= PIECE_BYTES {
            self.add(bytes);
        }
        if json.is_none() {
            self.add_lines(text, has_lines);
        }
        for value in self.forms.named_values(text.as_bytes()).into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>() {
            self.add_quoted(&value);
        }
        secrets_in(text).iter().for_each(|secret| self.add(secret));
        if text.len() >= LINE_BYTES_MIN {
            self.add_words(text);
            self.add_encoded(text, depth);
        }
    }

    /// Adds the lines of a text, and what stands behind names in them.
    fn add_lines(&mut self, text: &str, has_lines: bool) {
        let length_min = if text.len() <= SECRET_TEXT_BYTES_MAX { VALUE_BYTES_MIN } else { LINE_BYTES_MIN };
        // JSON with comments has lines of JSON, too.
        let is_like_json = text.starts_with('{') || text.starts_with("//") || text.starts_with("/*");
        for line in text.lines().map(str::trim) {
            // The first and the last line of a key or a certificate are the same in all of them.
            if has_lines && line.len() >= length_min && !line.starts_with("-----") && !is_like_json {
                self.add(line.as_bytes());
            }
            if let Some((_, value)) = line.split_once([':', '=']).filter(|(name, _)| is_secret_name(bare(name))) {
                self.add_quoted(value.trim().as_bytes());
            }
            self.add_login_of(line);
        }
    }

    /// Adds a value of a field as it is, and without what a document puts around it.
    fn add_quoted(&mut self, value: &[u8]) {
        self.add(value);
        let text = String::from_utf8_lossy(value);
        let unquoted = bare(&text);
        self.add(unquoted.as_bytes());
        if let Ok(unescaped) = serde_json::from_str::<String>(&format!("\"{unquoted}\"")) {
            self.add(unescaped.as_bytes());
        }
    }

    /// Adds the password of `user:password`, and what stands behind the scheme of a header.
    fn add_login_of(&mut self, text: &str) {
        if let Some((scheme, rest)) = text.split_once(' ')
            && ["basic", "bearer", "digest", "token"].contains(&scheme.to_ascii_lowercase().as_str())
        {
            self.add(rest.as_bytes());
        }
        let Some((user, password)) = text.split_once(':').filter(|_| !text.contains(char::is_whitespace)) else {
            return;
        };
        let is_user = user.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._@\\+-".contains(&byte))
            && !DIGEST_NAMES.contains(&user.to_ascii_lowercase().as_str());
        // A hardware address has colons between two digits each.
        let is_address = password.contains(':') && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
        if is_user && !is_address && !password.starts_with("//") {
            self.add(password.as_bytes());
        }
    }

    /// Adds the texts of a document that is JSON.
    fn add_fields(&mut self, name: &str, value: &Value, depth: usize) {
        match value {
            Value::String(text) if is_secret_name(name) => self.add_document(text.as_bytes(), depth),
            Value::String(text) => {
                if let Some(content) = content_of_data_url(text) {
                    self.add_document(&content, depth);
                } else if text.trim().lines().count() > 1 || text.trim_start().starts_with(['{', '[']) {
                    self.add_document(text.as_bytes(), depth);
                } else {
                    self.add_login_of(text);
                    secrets_in(text).iter().for_each(|secret| self.add(secret));
                    self.add_words(text);
                    self.add_encoded(text, depth);
                }
            }
            Value::Number(number) if is_secret_name(name) => self.add(number.to_string().as_bytes()),
            Value::Array(items) => items.iter().for_each(|item| self.add_fields(name, item, depth)),
            Value::Object(fields) => {
                // A header has its name in one field, and its value in another.
                let is_pair =
                    fields.keys().any(|key| is_label_name(key)) && fields.keys().any(|key| is_value_name(key));
                for (key, value) in fields {
                    let name = if is_pair && is_value_name(key) { "password" } else { key.as_str() };
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
        for run in base64_runs(text.as_bytes(), BASE64_LETTERS_MIN) {
            let decoded = from_base64(&run.letters, 0);
            let is_document = !unpack(&decoded, UNPACKED_BYTES_MAX).bytes.is_empty() || is_printed(&decoded);
            if is_document {
                self.add_document(&decoded, depth + 1);
            }
        }
    }

    /// Adds the passwords and queries of all URLs in an object.
    fn add_urls(&mut self, value: &Value) {
        match value {
            Value::String(text) => secrets_in(text).iter().for_each(|secret| self.add(secret)),
            Value::Array(items) => items.iter().for_each(|item| self.add_urls(item)),
            Value::Object(fields) => fields.values().for_each(|value| self.add_urls(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Takes away what a document puts around names and values.
fn bare(text: &str) -> &str {
    text.trim_matches(|letter: char| letter.is_whitespace() || "\"'\\,;{}[]-".contains(letter))
}

/// Says whether this is a part of what stands for secrets: each file has it.
fn is_mark(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    [REMOVED, HIDDEN].iter().any(|mark| mark.contains(&text))
}

/// Says whether bytes are a text.
fn is_printed(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests;
