//! Removes secrets from what goes into a support bundle, and keeps a list of what was removed.
//!
//! A secret is found in three ways: by the type of its object ([`crate::secret_types`]), by its value
//! ([`crate::secret_search`]: what a Secret holds is removed wherever it stands, however it is encoded), and by its form
//! ([`crate::secret_forms`]). What has none of these is not known to be a secret.
//!
//! Values and forms are looked for in the same text, and all that is found is removed at once: so neither breaks up what
//! the other would find.

use std::collections::BTreeMap;
use std::ops::Range;

use firesteel_facts::shown_url;
use serde_json::{Map, Value};

use crate::private_keys::KeyScan;
use crate::secret_forms::{REMOVED, SecretForms};
use crate::secret_names::{is_content_name, is_label_name, is_secret_name, is_secret_option, is_value_name};
use crate::secret_search::{SecretSearch, UnpackBudget};
use crate::user_data::{is_ignition, is_user_data};

/// The most entries of the list; further removals of a file are counted without their places.
const PLACES_MAX: usize = 50_000;
/// The longest place that is listed.
const PLACE_BYTES_MAX: usize = 300;

/// How a secret was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretTrace {
    /// The type of the object says that this content may be secret.
    ObjectType,
    /// User data or an Ignition config.
    UserData,
    /// A Secret or a config of the appliance has this value, or the caller logs in with it.
    KnownValue,
    UrlLogin,
    UrlQuery,
    DataUrl,
    PrivateKey,
    PasswordHash,
    RequestHeader,
    NamedField,
    WebToken,
}

impl SecretTrace {
    /// Says what it was, for the list.
    pub fn what(self) -> &'static str {
        match self {
            Self::ObjectType => "content that the type of its object makes secret",
            Self::UserData => "user data or an Ignition config",
            Self::KnownValue => "value of a Secret or a config, perhaps encoded",
            Self::UrlLogin => "login in a URL",
            Self::UrlQuery => "query or fragment of a URL",
            Self::DataUrl => "content of a data URL",
            Self::PrivateKey => "private key",
            Self::PasswordHash => "hash of a password",
            Self::RequestHeader => "header of a request",
            Self::NamedField => "value of a field or option that is named as a secret",
            Self::WebToken => "token",
        }
    }
}

/// Where something was removed, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretRemoval {
    pub file: String,
    /// A pointer into JSON (RFC 6901), or `line 7` of a text; empty where places are not listed any more.
    pub place: String,
    pub trace: SecretTrace,
}

/// What was removed, and how often at each place.
pub type RemovalList = BTreeMap<SecretRemoval, u64>;

/// Removes secrets.
pub struct Redactor {
    search: SecretSearch,
    forms: SecretForms,
    removals: RemovalList,
    budget: UnpackBudget,
    keys: KeyScan,
}

/// Where in a bundle a text stands.
#[derive(Clone, Copy)]
struct TextPlace<'a> {
    file: &'a str,
    pointer: &'a str,
}

opaque_debug!(Redactor);

impl Redactor {
    /// # Errors
    /// When a form cannot be read.
    pub fn new(search: SecretSearch) -> anyhow::Result<Self> {
        Ok(Self {
            search,
            forms: SecretForms::new()?,
            removals: RemovalList::new(),
            budget: UnpackBudget::default(),
            keys: KeyScan::default(),
        })
    }

    /// Returns what was removed so far.
    pub fn removals(&self) -> &RemovalList {
        &self.removals
    }

    /// Begins with a part of the bundle: what an earlier part spent or left open does not count.
    pub fn begin_part(&mut self) {
        self.budget = UnpackBudget::default();
        self.begin_object();
    }

    /// Begins with an object of a part: a private key does not go on from one to the next.
    pub fn begin_object(&mut self) {
        self.keys = KeyScan::default();
    }

    /// Says whether a known value is in this text as it is, which must not be.
    pub fn shows(&self, text: &str) -> bool {
        self.search.is_plainly_in(text.as_bytes())
    }

    /// Says whether a known value is in a text, number or key of JSON. What is around them is not of users.
    pub fn shows_in_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.shows(text),
            Value::Number(number) => self.shows(&number.to_string()),
            Value::Array(items) => items.iter().any(|item| self.shows_in_value(item)),
            Value::Object(fields) => fields.iter().any(|(key, value)| self.shows(key) || self.shows_in_value(value)),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Notes that content was removed because of the type of its object.
    pub fn note_type(&mut self, file: &str, pointer: &str) {
        // It has names of keys in it.
        let shown = self.clean_text(TextPlace { file, pointer: "" }, pointer, SecretScope::KnownValues);
        self.note(TextPlace { file, pointer: &shown }, SecretTrace::ObjectType);
    }

    /// Returns a text without secrets. Lines that are JSON stay that.
    pub fn clean_lines(&mut self, file: &str, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        // Some secrets have several lines: those are found in the text as a whole.
        let text = self.clean_text(TextPlace { file, pointer: "the text" }, text, SecretScope::SeveralLines);
        for (index, line) in text.lines().enumerate() {
            let pointer = format!("line {}", index + 1);
            match serde_json::from_str::<Value>(line) {
                Ok(mut value @ (Value::Object(_) | Value::Array(_))) => {
                    self.clean_value(file, &pointer, &mut value);
                    clean.push_str(&value.to_string());
                }
                Ok(_) | Err(_) => {
                    let place = TextPlace { file, pointer: &pointer };
                    let line = self.remove_key_part(place, line);
                    clean.push_str(&self.clean_text(place, &line, SecretScope::All));
                }
            }
            clean.push('\n');
        }
        clean
    }

    /// Removes secrets from a value of JSON. It stays one: keys and texts are cleaned, each by itself.
    pub fn clean_value(&mut self, file: &str, pointer: &str, value: &mut Value) {
        let place = TextPlace { file, pointer };
        match value {
            Value::String(text) => {
                let clean = self.clean_string(place, text);
                *text = clean;
            }
            Value::Number(number) => {
                if self.search.is_plainly_in(number.to_string().as_bytes()) {
                    self.note(place, SecretTrace::KnownValue);
                    *value = REMOVED.into();
                }
            }
            Value::Array(items) => self.clean_items(place, items),
            Value::Object(fields) if is_ignition(fields) => {
                self.note(place, SecretTrace::UserData);
                *value = REMOVED.into();
            }
            Value::Object(fields) => self.clean_fields(place, fields),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Cleans the items of a list. What follows an option such as `--password` is its value.
    fn clean_items(&mut self, TextPlace { file, pointer }: TextPlace<'_>, items: &mut [Value]) {
        let mut is_argument = false;
        for (index, item) in items.iter_mut().enumerate() {
            let inner = format!("{pointer}/{index}");
            if is_argument {
                self.remove_leaves(TextPlace { file, pointer: &inner }, item);
            }
            is_argument = item.as_str().is_some_and(is_secret_option);
            self.clean_value(file, &inner, item);
        }
    }

    fn clean_fields(&mut self, TextPlace { file, pointer }: TextPlace<'_>, fields: &mut Map<String, Value>) {
        // A header or a variable has its name in one field, and its value in another.
        let is_pair =
            fields.iter().any(|(key, value)| is_label_name(key) && value.as_str().is_some_and(is_secret_name));
        for (key, mut value) in std::mem::take(fields) {
            let mut shown = self.clean_text(TextPlace { file, pointer }, &key, SecretScope::KnownValues);
            while fields.contains_key(&shown) {
                shown.push('\'');
            }
            let inner = format!("{pointer}/{}", shown.replace('~', "~0").replace('/', "~1"));
            if is_secret_name(&key) || (is_pair && is_value_name(&key)) {
                self.remove_leaves(TextPlace { file, pointer: &inner }, &mut value);
            }
            self.clean_value(file, &inner, &mut value);
            fields.insert(shown, value);
        }
    }

    /// Removes the value of a field that is named as a secret, or each text of a list. Objects have fields of their own; of
    /// these, the ones that hold its content are removed.
    fn remove_leaves(&mut self, place: TextPlace<'_>, value: &mut Value) {
        match value {
            Value::String(text) if text.is_empty() || text == REMOVED => {}
            Value::String(_) | Value::Number(_) => {
                self.note(place, SecretTrace::NamedField);
                *value = REMOVED.into();
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.remove_leaves(place, item)),
            Value::Object(fields) => {
                let contents = fields.iter_mut().filter(|(key, _)| is_content_name(key));
                contents.for_each(|(_, content)| self.remove_leaves(place, content));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Cleans a text of JSON. What is a URL as a whole is shown as everywhere else, and what is JSON stays that.
    fn clean_string(&mut self, place: TextPlace<'_>, text: &str) -> String {
        if is_user_data(text) {
            self.note(place, SecretTrace::UserData);
            return REMOVED.to_owned();
        }
        let mut shown = self.remove_key_part(place, text);
        if let Some(document) = self.clean_document(place, &shown) {
            shown = document;
        }
        let is_url = text.contains("://") && !text.contains(char::is_whitespace) && !text.starts_with(['{', '[']);
        if is_url && !text.contains(REMOVED) {
            // What ends a login or a query may be a letter of a known value.
            let known = self.clean_text(place, &shown, SecretScope::KnownValues);
            shown = shown_url(&known);
            if shown != known {
                let has_login = known.contains('@') && shown.contains('@');
                self.note(place, if has_login { SecretTrace::UrlLogin } else { SecretTrace::UrlQuery });
            }
        }
        self.clean_text(place, &shown, SecretScope::All)
    }

    /// Cleans a text that is an object or a list of JSON; `None` if it is none, or clean.
    fn clean_document(&mut self, TextPlace { file, pointer }: TextPlace<'_>, text: &str) -> Option<String> {
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let before: Value = serde_json::from_str(text).ok()?;
        let mut value = before.clone();
        self.clean_value(file, pointer, &mut value);
        (value != before).then(|| value.to_string())
    }

    /// Removes what belongs to a private key that began in a text before.
    fn remove_key_part(&mut self, place: TextPlace<'_>, text: &str) -> String {
        match self.keys.next(text) {
            Some(range) => {
                self.note(place, SecretTrace::PrivateKey);
                format!("{}{REMOVED}{}", &text[..range.start], &text[range.end..])
            }
            None => text.to_owned(),
        }
    }

    fn clean_text(&mut self, place: TextPlace<'_>, text: &str, scope: SecretScope) -> String {
        let bytes = text.as_bytes();
        let values = match scope {
            SecretScope::SeveralLines => self.search.find_across_lines(&self.forms, &self.budget, bytes),
            SecretScope::All | SecretScope::KnownValues => self.search.find(&self.forms, &self.budget, bytes),
        };
        let forms = match scope {
            SecretScope::All => self.forms.find(bytes),
            SecretScope::SeveralLines => self.forms.find_keys(bytes),
            SecretScope::KnownValues => Vec::new(),
        };
        let values = values.into_iter().map(|range| (range, SecretTrace::KnownValue));
        let found = joined(values.chain(forms.into_iter().map(|form| (form.range, form.trace))).collect());
        let (mut clean, mut end) = (Vec::with_capacity(text.len()), 0);
        for (range, trace) in found {
            clean.extend_from_slice(&bytes[end..range.start]);
            clean.extend_from_slice(REMOVED.as_bytes());
            end = range.end;
            self.note(place, trace);
        }
        clean.extend_from_slice(&bytes[end..]);
        String::from_utf8_lossy(&clean).into_owned()
    }

    fn note(&mut self, TextPlace { file, pointer }: TextPlace<'_>, trace: SecretTrace) {
        let is_listed = self.removals.len() < PLACES_MAX;
        let place = if is_listed { &pointer[..pointer.floor_char_boundary(PLACE_BYTES_MAX)] } else { "" };
        *self.removals.entry(SecretRemoval { file: file.to_owned(), place: place.to_owned(), trace }).or_default() += 1;
    }
}

/// Puts what was found in order, and joins what overlaps. The longest part says what it was.
fn joined(mut found: Vec<(Range<usize>, SecretTrace)>) -> Vec<(Range<usize>, SecretTrace)> {
    found.sort_by_key(|(range, trace)| (range.start, range.end, *trace));
    let mut joined: Vec<(Range<usize>, SecretTrace)> = Vec::with_capacity(found.len());
    let mut longest = 0;
    for (range, trace) in found {
        match joined.last_mut().filter(|(last, _)| range.start < last.end) {
            Some((last, named)) => {
                if range.len() > longest {
                    (longest, *named) = (range.len(), trace);
                }
                last.end = last.end.max(range.end);
            }
            None => {
                longest = range.len();
                joined.push((range, trace));
            }
        }
    }
    joined
}

/// What is looked for in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretScope {
    All,
    /// What has several lines.
    SeveralLines,
    /// Known values alone: a name of a field has no form.
    KnownValues,
}

#[cfg(test)]
mod tests;
