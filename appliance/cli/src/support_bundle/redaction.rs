//! Removes secrets from what goes into a support bundle, and keeps a list of what was removed.
//!
//! A secret is found in three ways: by the type of its object ([`super::secret_types`]), by its value
//! ([`super::secret_search`]: what a Secret holds is removed wherever it stands, however it is encoded), and by its form
//! ([`super::secret_forms`]). What has none of these is not known to be a secret.

use std::collections::BTreeMap;

use firesteel_facts::shown_url;
use serde_json::{Map, Value};

use super::secret_forms::{REMOVED, SecretForms, is_secret_name};
use super::secret_search::SecretSearch;

/// The most entries of the list; further removals of a file are counted without their places.
const PLACES_MAX: usize = 50_000;
/// The longest place that is listed.
const PLACE_BYTES_MAX: usize = 300;

/// How a secret was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SecretTrace {
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
    pub(super) fn what(self) -> &'static str {
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
pub(super) struct SecretRemoval {
    pub(super) file: String,
    /// A pointer into JSON (RFC 6901), or `line 7` of a text; empty where places are not listed any more.
    pub(super) place: String,
    pub(super) trace: SecretTrace,
}

/// What was removed, and how often at each place.
pub(super) type RemovalList = BTreeMap<SecretRemoval, u64>;

/// Removes secrets.
pub(super) struct Redactor {
    search: SecretSearch,
    forms: SecretForms,
    removals: RemovalList,
}

/// Where in a bundle a text stands.
#[derive(Clone, Copy)]
struct TextPlace<'a> {
    file: &'a str,
    pointer: &'a str,
}

impl Redactor {
    /// # Errors
    /// When a form cannot be read.
    pub(super) fn new(search: SecretSearch) -> anyhow::Result<Self> {
        Ok(Self { search, forms: SecretForms::new()?, removals: RemovalList::new() })
    }

    /// Returns what was removed so far.
    pub(super) fn removals(&self) -> &RemovalList {
        &self.removals
    }

    /// Says whether a known value is in these bytes as it is, which must not be.
    pub(super) fn shows(&self, bytes: &[u8]) -> bool {
        self.search.is_plainly_in(bytes)
    }

    /// Notes that content was removed because of the type of its object.
    pub(super) fn note_type(&mut self, file: &str, pointer: &str) {
        // It has names of keys in it.
        let shown = self.clean_text(TextPlace { file, pointer: "" }, pointer, SecretScope::KnownValues);
        self.note(TextPlace { file, pointer: &shown }, SecretTrace::ObjectType);
    }

    /// Returns a text without secrets. Lines that are objects of JSON stay such objects.
    pub(super) fn clean_lines(&mut self, file: &str, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        // A private key has several lines: those are found in the text as a whole.
        let text = self.clean_text(TextPlace { file, pointer: "the text" }, text, SecretScope::SeveralLines);
        for (index, line) in text.lines().enumerate() {
            let place = format!("line {}", index + 1);
            match serde_json::from_str::<Value>(line) {
                Ok(mut value @ Value::Object(_)) => {
                    self.clean_value(file, &place, &mut value);
                    clean.push_str(&value.to_string());
                }
                Ok(_) | Err(_) => {
                    clean.push_str(&self.clean_text(TextPlace { file, pointer: &place }, line, SecretScope::All));
                }
            }
            clean.push('\n');
        }
        clean
    }

    /// Removes secrets from a value of JSON. It stays one: keys and texts are cleaned, each by itself.
    pub(super) fn clean_value(&mut self, file: &str, pointer: &str, value: &mut Value) {
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
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.clean_value(file, &format!("{pointer}/{index}"), item);
                }
            }
            Value::Object(fields) if is_ignition(fields) => {
                self.note(place, SecretTrace::UserData);
                *value = REMOVED.into();
            }
            Value::Object(fields) => self.clean_fields(place, fields),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn clean_fields(&mut self, TextPlace { file, pointer }: TextPlace<'_>, fields: &mut Map<String, Value>) {
        for (key, mut value) in std::mem::take(fields) {
            let mut shown = self.clean_text(TextPlace { file, pointer }, &key, SecretScope::KnownValues);
            while fields.contains_key(&shown) {
                shown.push('\'');
            }
            let inner = format!("{pointer}/{}", shown.replace('~', "~0").replace('/', "~1"));
            if is_secret_name(&key) {
                self.remove_leaves(TextPlace { file, pointer: &inner }, &mut value);
            }
            self.clean_value(file, &inner, &mut value);
            fields.insert(shown, value);
        }
    }

    /// Removes the value of a field that is named as a secret, or each text of a list. Objects have fields of their own.
    fn remove_leaves(&mut self, place: TextPlace<'_>, value: &mut Value) {
        match value {
            Value::String(text) if text.is_empty() || text.starts_with(REMOVED) => {}
            Value::String(_) | Value::Number(_) => {
                self.note(place, SecretTrace::NamedField);
                *value = REMOVED.into();
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.remove_leaves(place, item)),
            Value::Object(_) | Value::Null | Value::Bool(_) => {}
        }
    }

    /// Cleans a text of JSON. What is a URL as a whole is shown as everywhere else.
    fn clean_string(&mut self, place: TextPlace<'_>, text: &str) -> String {
        if is_user_data(text) {
            self.note(place, SecretTrace::UserData);
            return REMOVED.to_owned();
        }
        let is_url = text.contains("://") && !text.contains(char::is_whitespace) && !text.contains("(removed)");
        let shown = if is_url { shown_url(text) } else { text.to_owned() };
        if shown != text {
            let has_login = text.contains('@') && shown.contains('@');
            self.note(place, if has_login { SecretTrace::UrlLogin } else { SecretTrace::UrlQuery });
        }
        self.clean_text(place, &shown, SecretScope::All)
    }

    fn clean_text(&mut self, place: TextPlace<'_>, text: &str, scope: SecretScope) -> String {
        let mut found = Vec::new();
        let mut bytes = text.as_bytes().to_vec();
        if scope != SecretScope::KnownValues {
            bytes = self.forms.clean(bytes, |trace| found.push(trace), scope == SecretScope::SeveralLines);
        }
        if scope != SecretScope::SeveralLines {
            let ranges = self.search.find(&self.forms, &bytes);
            found.extend(ranges.iter().map(|_| SecretTrace::KnownValue));
            // From the end, so that the places before stay right.
            for range in ranges.into_iter().rev() {
                bytes.splice(range, REMOVED.bytes());
            }
        }
        found.into_iter().for_each(|trace| self.note(place, trace));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn note(&mut self, TextPlace { file, pointer }: TextPlace<'_>, trace: SecretTrace) {
        let is_listed = self.removals.len() < PLACES_MAX;
        let place = if is_listed { &pointer[..pointer.floor_char_boundary(PLACE_BYTES_MAX)] } else { "" };
        *self.removals.entry(SecretRemoval { file: file.to_owned(), place: place.to_owned(), trace }).or_default() += 1;
    }
}

/// What is looked for in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretScope {
    All,
    /// The forms that have several lines.
    SeveralLines,
    /// Known values alone: a name of a field has no form.
    KnownValues,
}

/// Says whether an object is an Ignition config.
fn is_ignition(fields: &Map<String, Value>) -> bool {
    fields.get("ignition").is_some_and(|ignition| ignition["version"].is_string())
}

/// Says whether a text is user data as a whole: of cloud-init, a script, or Ignition.
fn is_user_data(text: &str) -> bool {
    let text = text.trim_start();
    let begins = ["#cloud-config", "#!", "#include", "Content-Type: multipart/mixed", "#ignition"];
    begins.iter().any(|begin| text.starts_with(begin))
        || (text.starts_with('{')
            && serde_json::from_str::<Value>(text).is_ok_and(|value| value.as_object().is_some_and(is_ignition)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn redactor(values: &[&str]) -> Redactor {
        let values: BTreeSet<Vec<u8>> = values.iter().map(|value| value.as_bytes().to_vec()).collect();
        Redactor::new(SecretSearch::new(&values).unwrap()).unwrap()
    }

    fn places(redactor: &Redactor) -> Vec<String> {
        redactor
            .removals()
            .iter()
            .map(|(removal, count)| format!("{} {} {count}", removal.file, removal.place))
            .collect()
    }

    #[test]
    fn the_value_of_a_secret_is_removed_wherever_it_stands() {
        let mut redactor = redactor(&["hunter22", "hunter22-longer"]);
        let text = "log: hunter22 and \"hunter22-longer\", but short words stay\nand hunter22";
        let clean = redactor.clean_lines("log", text);
        assert_eq!(clean, "log: (removed) and \"(removed)\", but short words stay\nand (removed)\n");
        assert_eq!(places(&redactor), ["log line 1 2", "log line 2 1"]);
        assert!(!redactor.shows(clean.as_bytes()) && redactor.shows(text.as_bytes()));
    }

    #[test]
    fn json_stays_json_and_the_list_says_where_and_not_what() {
        let mut redactor = redactor(&["hunter22", "12345678"]);
        let mut value = json!({
            "bmcPassword": "x", "pin": 12_345_678, "tokens": ["a", "b"], "credentialsName": "bmc-1",
            "a/b": "quoted \"hunter22\"", "hunter22": 1, "url": "https://u:p@h.example/i?sig=a",
            "userData": "#cloud-config\nusers: []\n", "config": {"ignition": {"version": "3.2.0"}, "x": 1},
            "inner": {"credentials": {"username": "root", "password": "p"}},
        });
        redactor.clean_value("f.json", "", &mut value);
        assert_eq!(
            value,
            json!({
                "bmcPassword": REMOVED, "pin": REMOVED, "tokens": [REMOVED, REMOVED], "credentialsName": "bmc-1",
                "a/b": "quoted \"(removed)\"", "(removed)": 1, "url": "https://(hidden)@h.example/i?(hidden)",
                "userData": REMOVED, "config": REMOVED,
                "inner": {"credentials": {"username": "root", "password": REMOVED}},
            })
        );
        let listed = places(&redactor).join("\n");
        assert!(
            listed.contains("f.json /a~1b 1") && listed.contains("f.json /inner/credentials/password 1"),
            "{listed}"
        );
        assert!(!listed.contains("hunter22"), "{listed}");
    }

    #[test]
    fn lines_of_json_stay_that_and_keys_of_several_lines_are_found() {
        let mut redactor = redactor(&[]);
        let text = "{\"fields\":{\"token\":\"abc\",\"message\":\"m\"}}\n-----BEGIN PRIVATE KEY-----\nMHc=\n-----END PRIVATE \
                    KEY-----\nplain\n";
        let clean = redactor.clean_lines("log", text);
        assert_eq!(clean, "{\"fields\":{\"message\":\"m\",\"token\":\"(removed)\"}}\n(removed)\nplain\n");
    }

    #[test]
    fn a_text_that_is_clean_stays_as_it_is() {
        let mut redactor = redactor(&["hunter22"]);
        let once = redactor.clean_lines("f", "redfish://admin:pa55@10.0.0.1/x?y=1 token: abcdef hunter22");
        assert_eq!(redactor.clean_lines("f", &once), once);
    }

    #[test]
    fn the_list_is_bounded() {
        let mut redactor = redactor(&["hunter22"]);
        let text = "hunter22\n".repeat(PLACES_MAX + 10);
        redactor.clean_lines("log", &text);
        assert_eq!(redactor.removals().len(), PLACES_MAX + 1);
        assert_eq!(redactor.removals().values().sum::<u64>(), PLACES_MAX as u64 + 10);
    }
}
