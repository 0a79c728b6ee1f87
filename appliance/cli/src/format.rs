//! The flag `-o` of all commands: the form in which a result is printed.

use anyhow::{Context as _, bail};
use firesteel_kube::negotiate;
use serde::Serialize;
use serde_json::{Map, Value};

use super::jsonpath::JsonPathTemplate;

/// The forms of objects, as `-o` names them.
pub(super) const OBJECT_FORMATS: [&str; 6] = ["table", "wide", "yaml", "json", "name", JSONPATH];
/// The forms of what is no object of the API, such as a plan.
pub(super) const PAGE_FORMATS: [&str; 4] = ["table", "yaml", "json", JSONPATH];
/// The start of a form that carries a template.
const JSONPATH: &str = "jsonpath=";
/// How a template looks, for errors.
const EXAMPLE: &str = "jsonpath='{.metadata.name}'";

/// The form in which a result is printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OutputFormat {
    /// Aligned columns, for people.
    #[default]
    Table,
    /// All columns, none of them cut.
    Wide,
    Yaml,
    Json,
    /// `KIND.GROUP/NAME`, a line for each object.
    Name,
    /// Some values of the result.
    JsonPath(JsonPathTemplate),
}

impl OutputFormat {
    /// Reads the form of a command that prints objects of the API.
    ///
    /// # Errors
    /// When there is no such form, or its template cannot be read.
    pub(super) fn of_objects(text: &str) -> anyhow::Result<Self> {
        Self::read(text, &OBJECT_FORMATS)
    }

    /// Reads the form of a command that prints one page.
    ///
    /// # Errors
    /// When the command has no such form, or its template cannot be read.
    pub(super) fn of_page(text: &str) -> anyhow::Result<Self> {
        Self::read(text, &PAGE_FORMATS)
    }

    fn read(text: &str, formats: &[&str]) -> anyhow::Result<Self> {
        if let Some(template) = text.strip_prefix(JSONPATH) {
            return Ok(Self::JsonPath(JsonPathTemplate::parse(template)?));
        }
        match text {
            "table" => Ok(Self::Table),
            "wide" if formats.contains(&text) => Ok(Self::Wide),
            "yaml" => Ok(Self::Yaml),
            "json" => Ok(Self::Json),
            "name" if formats.contains(&text) => Ok(Self::Name),
            "jsonpath" => bail!("a template is missing: write {EXAMPLE}"),
            _ => {
                let possible = formats.iter().map(|form| if *form == JSONPATH { EXAMPLE } else { *form });
                bail!("there is no such form here; possible are {}", possible.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Whether the result is printed for people.
    pub(super) fn is_table(&self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// Returns a value in a form for programs; `None` if the form is a table or a name.
    ///
    /// # Errors
    /// When the value cannot be written in this form.
    pub(super) fn text_of(&self, value: &impl Serialize) -> anyhow::Result<Option<String>> {
        Ok(match self {
            Self::Table | Self::Wide | Self::Name => None,
            Self::Json => Some(serde_json::to_string_pretty(value)? + "\n"),
            Self::Yaml => {
                let mut text = negotiate::yaml(value).context("could not write the result as YAML")?;
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                Some(text)
            }
            Self::JsonPath(template) => Some(template.print(&serde_json::to_value(value)?)?),
        })
    }
}

/// Renames the keys of an object, and of all that is in it, from `snake_case` to `camelCase`: files of the appliance
/// have the first form, what the command line prints has the second.
pub(super) fn camel_case_keys(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed = fields.into_iter().map(|(key, value)| (camel_case(&key), camel_case_keys(value)));
            Value::Object(renamed.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(camel_case_keys).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn camel_case(key: &str) -> String {
    let mut parts = key.split('_');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        text.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_is_read_where_it_is_possible() {
        assert_eq!(OutputFormat::of_objects("wide").unwrap(), OutputFormat::Wide);
        assert_eq!(OutputFormat::of_page("yaml").unwrap(), OutputFormat::Yaml);
        for (text, part) in [("yml", "jsonpath='{.metadata.name}'"), ("wide", "table, yaml, json"), ("name", "table")] {
            let error = OutputFormat::of_page(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("wide"), "{text}: {error}");
        }
        assert!(OutputFormat::of_objects("jsonpath").unwrap_err().to_string().contains("a template is missing"));
    }

    #[test]
    fn values_are_written_for_programs() {
        let value = json!({"metadata": {"name": "a"}, "size": 1});
        let text = |form: &str| OutputFormat::of_objects(form).unwrap().text_of(&value).unwrap();
        assert_eq!(text("table"), None);
        assert_eq!(text("yaml").unwrap(), "metadata:\n  name: a\nsize: 1\n");
        assert_eq!(text("jsonpath={.metadata.name}").unwrap(), "a");
        assert!(text("json").unwrap().ends_with("}\n"));
    }

    #[test]
    fn keys_are_in_camel_case() {
        let value = json!({"raw_sha256": "a_b", "sources": [{"signed_by": "x", "url": "u"}], "is_backup_table": true});
        let expected = json!({"rawSha256": "a_b", "sources": [{"signedBy": "x", "url": "u"}], "isBackupTable": true});
        assert_eq!(camel_case_keys(value), expected);
    }
}
