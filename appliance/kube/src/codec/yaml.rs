//! YAML as users write it, within bounds that no object comes near. Pure.
//!
//! A few bytes of YAML can stand for gigabytes (aliases of aliases) or exhaust a stack (nesting), so
//! all YAML of the appliance and its command line is read here.

use serde::de::DeserializeOwned;
use serde_saphyr::{Options, budget, options};

use crate::codec::json::READ_VALUES_MAX;

/// Most bytes of one body or one small file, with its aliases resolved.
pub const OBJECT_BYTES_MAX: usize = crate::BODY_BYTES_MAX;
/// Most bytes of a file with many objects: ten thousand hosts.
pub const MANIFEST_BYTES_MAX: usize = 32 << 20;
/// The deepest schema of Kubernetes has about thirty levels; each takes room on the stack.
const DEPTH_MAX: usize = 48;
/// Anchors save typing in a list of similar hosts; they are no way to write a large object.
const REPLAYED_EVENTS_MAX: usize = 10_000;
/// Most objects of that size are long texts; a node in memory takes some seventy bytes.
const BYTES_PER_NODE: usize = 16;

/// Why a text cannot be read. One line, nothing of the text in it beyond names of fields.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// What the parser says to programmers where a field is there twice.
const PARSER_HINT: &str = ", set DuplicateKeyPolicy in Options if acceptable";

impl From<serde_saphyr::Error> for YamlError {
    fn from(error: serde_saphyr::Error) -> Self {
        Self(crate::model::status::one_line(&error.to_string().replace(PARSER_HINT, "")))
    }
}

/// One document.
///
/// # Errors
/// When the text is no YAML, no `T`, or stands for more than [`OBJECT_BYTES_MAX`].
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, YamlError> {
    within(bytes, OBJECT_BYTES_MAX)?;
    Ok(serde_saphyr::from_slice_with_options(bytes, bounds(OBJECT_BYTES_MAX, OBJECT_BYTES_MAX / BYTES_PER_NODE))?)
}

/// One object of a request, with as many fields and items as in JSON.
///
/// # Errors
/// When the text is no YAML, no `T`, or stands for more than an object may have.
pub(crate) fn read_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, YamlError> {
    within(bytes, OBJECT_BYTES_MAX)?;
    // A field is a node for its name and one for its value.
    let nodes_max = 2 * READ_VALUES_MAX;
    Ok(serde_saphyr::from_slice_with_options(bytes, bounds(OBJECT_BYTES_MAX, nodes_max))?)
}

/// All documents of a file.
///
/// # Errors
/// When the text is no YAML, a document is no `T`, or all stand for more than [`MANIFEST_BYTES_MAX`].
pub fn read_all<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    within(text.as_bytes(), MANIFEST_BYTES_MAX)?;
    Ok(serde_saphyr::from_multiple_with_options(text, bounds(MANIFEST_BYTES_MAX, MANIFEST_BYTES_MAX / BYTES_PER_NODE))?)
}

fn within(bytes: &[u8], bytes_max: usize) -> Result<(), YamlError> {
    if bytes.len() > bytes_max {
        return Err(YamlError(format!("it has {} bytes, more than the {bytes_max} that are read", bytes.len())));
    }
    Ok(())
}

fn bounds(bytes_max: usize, nodes_max: usize) -> Options {
    let mut options = options! {
        budget: budget! {
            max_depth: DEPTH_MAX,
            max_nodes: nodes_max,
            // A node has a beginning and an end at most.
            max_events: nodes_max * 2,
            max_documents: nodes_max,
            max_total_scalar_bytes: bytes_max,
        },
        // A piece of the text could be a password.
        with_snippet: false,
    };
    options.alias_limits.max_total_replayed_events = REPLAYED_EVENTS_MAX;
    options
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use serde_json::{Value, json};

    fn refusal(text: &str) -> String {
        let one = read::<Value>(text.as_bytes()).unwrap_err().to_string();
        assert!(read_all::<Value>(text).is_err());
        one
    }

    #[test]
    fn few_aliases_are_read_and_many_are_refused() {
        let text = "a: &a {x: 1}\nb: *a\nc: [*a, *a]\n";
        assert_eq!(read::<Value>(text.as_bytes()).unwrap()["c"], json!([{"x": 1}, {"x": 1}]));
        // 9⁵ values in 200 bytes: below every default of the parser.
        let row = |name: char, of: &str| format!("{name}: &{name} [{}]\n", [of; 9].join(","));
        let bomb: String = ["x", "*a", "*b", "*c", "*d"].iter().zip('a'..).map(|(of, name)| row(name, of)).collect();
        assert!(bomb.len() < 300);
        assert!(refusal(&bomb).contains("alias"), "{}", refusal(&bomb));
    }

    #[test]
    fn a_long_text_cannot_be_multiplied() {
        let long = "x".repeat(100_000);
        let text = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 40].join(","));
        let refusal = read::<Value>(text.as_bytes()).unwrap_err().to_string();
        assert!(refusal.contains("scalar"), "{refusal}");
        assert!(read::<Value>(format!("a: &a {long}\nb: [*a, *a]\n").as_bytes()).is_ok());
    }

    #[test]
    fn nesting_is_bounded_in_both_styles() {
        let flow = |levels: usize| format!("{}x{}", "[".repeat(levels), "]".repeat(levels));
        let block = |levels: usize| (0..levels).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
        for style in [&flow as &dyn Fn(usize) -> String, &block] {
            assert!(read::<Value>(style(DEPTH_MAX / 2).as_bytes()).is_ok());
            for levels in [DEPTH_MAX + 2, 20_000] {
                refusal(&style(levels));
            }
        }
    }

    #[test]
    fn many_documents_are_a_manifest_but_not_endlessly_many() {
        let hosts = "kind: BareMetalHost\nmetadata: {name: a}\n---\n".repeat(5000);
        assert_eq!(read_all::<Value>(&hosts).unwrap().len(), 5000);
        let spaces = " ".repeat(MANIFEST_BYTES_MAX + 1);
        for error in [
            read::<Value>(&spaces.as_bytes()[..=OBJECT_BYTES_MAX]).unwrap_err(),
            read_all::<Value>(&spaces).unwrap_err(),
        ] {
            assert!(error.to_string().contains("more than"), "{error}");
        }
    }

    #[test]
    fn a_body_of_nothing_but_values_is_refused() {
        let list = |values: usize| format!("[{}]", "1,".repeat(values));
        assert!(read::<Value>(list(100_000).as_bytes()).is_ok());
        let error = read::<Value>(list(220_000).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("nodes"), "{error}");
        assert!(read_object::<Value>(list(READ_VALUES_MAX).as_bytes()).is_ok());
        let error = read_object::<Value>(list(2 * READ_VALUES_MAX + 1).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("nodes"), "{error}");
    }

    #[test]
    fn a_field_that_is_there_twice_is_named() {
        let error = refusal("spec:\n  online: true\n  online: false\n");
        assert!(error.contains("duplicate mapping key: online") && !error.contains("DuplicateKeyPolicy"), "{error}");
    }

    #[test]
    fn a_refusal_shows_nothing_of_the_text() {
        let error = read::<Value>(b"password: hunter2\npassword: \x1b[2Jhunter3\n  : - :\n").unwrap_err().to_string();
        assert!(!error.contains("hunter") && !error.chars().any(char::is_control), "{error:?}");
    }
}
