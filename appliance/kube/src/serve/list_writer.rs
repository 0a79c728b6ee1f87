//! How a list is written, piece by piece: what comes before its objects, each of them, and what comes after
//! the last. Pure.
//!
//! | form | before | an object | after |
//! |---|---|---|---|
//! | JSON | `apiVersion`, `items` | as it is stored | `kind`, `metadata` |
//! | YAML | the same | the same, read and written | the same |
//! | metadata alone | the same | its metadata | the same |
//! | table | `apiVersion`, `columnDefinitions`, `kind`, `rows` | a row | `metadata` |
//!
//! What the list says of itself is known after its last object, so that it comes last.

use firesteel_store::StoredObject;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::codec::negotiate::{ResponseFormat, partial, yaml};
use crate::codec::table;
use crate::model::status::Status;
use crate::object::selection::ListSelection;
use crate::object::{stored, stored_object};

/// What stands before the objects. Where there are none it is followed by the end.
pub(crate) fn begin(out: &mut Vec<u8>, selection: &ListSelection) -> Result<(), Status> {
    let kind = &selection.kind;
    let head = match selection.format {
        ResponseFormat::Json | ResponseFormat::Discovery => {
            format!("{{\"apiVersion\":{},\"items\":[", json!(kind.api_version()))
        }
        // The name of the list of objects comes with the first of them: a list of none is written otherwise.
        ResponseFormat::Yaml => yaml(&json!({ "apiVersion": kind.api_version() }))?,
        ResponseFormat::Partial => "{\"apiVersion\":\"meta.k8s.io/v1\",\"items\":[".to_owned(),
        ResponseFormat::Table => format!(
            "{{\"apiVersion\":\"meta.k8s.io/v1\",\"columnDefinitions\":{},\"kind\":\"Table\",\"rows\":[",
            table::definitions(kind)
        ),
    };
    out.extend_from_slice(head.as_bytes());
    Ok(())
}

/// One object; `now` is that of the whole list.
pub(crate) fn item(
    out: &mut Vec<u8>,
    selection: &ListSelection,
    now: Timestamp,
    object: &StoredObject,
    is_first: bool,
) -> Result<(), Status> {
    let StoredObject { key, revision, value: bytes } = object;
    let kind = &selection.kind;
    let read = || stored::decode_shown(kind, key, bytes, *revision);
    if selection.format != ResponseFormat::Yaml && !is_first {
        out.push(b',');
    }
    match selection.format {
        ResponseFormat::Json | ResponseFormat::Discovery => {
            stored_object::write_shown(out, kind, key, bytes, *revision)?
        }
        ResponseFormat::Yaml => yaml_item(out, &read()?, is_first)?,
        ResponseFormat::Partial => out.extend_from_slice(partial(&read()?).to_string().as_bytes()),
        ResponseFormat::Table => {
            let row = table::row(kind, &read()?, selection.include, now);
            out.extend_from_slice(row.to_string().as_bytes());
        }
    }
    Ok(())
}

/// Writes a list of one object, without the list's name where it is not the first: only the writer of the whole list
/// knows where its lines begin and break.
fn yaml_item(out: &mut Vec<u8>, object: &Value, is_first: bool) -> Result<(), Status> {
    const NAME: &str = "items:\n";
    #[derive(Serialize)]
    struct List<'a> {
        items: [&'a Value; 1],
    }
    let text = yaml(&List { items: [object] })?;
    let lines = text.strip_prefix(NAME).ok_or_else(|| Status::internal("cannot write YAML: a list in one line"))?;
    out.extend_from_slice(if is_first { text.as_bytes() } else { lines.as_bytes() });
    Ok(())
}

/// What stands after the objects.
pub(crate) fn end(
    out: &mut Vec<u8>,
    selection: &ListSelection,
    metadata: &Value,
    had_objects: bool,
) -> Result<(), Status> {
    let list = json!(format!("{}List", selection.kind.kind));
    let tail = match selection.format {
        ResponseFormat::Json | ResponseFormat::Discovery => format!("],\"kind\":{list},\"metadata\":{metadata}}}"),
        ResponseFormat::Yaml if had_objects => yaml(&json!({ "kind": list, "metadata": metadata }))?,
        ResponseFormat::Yaml => yaml(&json!({ "items": [], "kind": list, "metadata": metadata }))?,
        ResponseFormat::Partial => format!("],\"kind\":\"PartialObjectMetadataList\",\"metadata\":{metadata}}}"),
        ResponseFormat::Table => format!("],\"metadata\":{metadata}}}"),
    };
    out.extend_from_slice(tail.as_bytes());
    Ok(())
}

/// What ends a list of which the rest cannot be read. Without its end no JSON is whole; YAML is whole after
/// any line, but no line begins with this sign.
pub(crate) fn cut(format: ResponseFormat) -> Option<&'static str> {
    (format == ResponseFormat::Yaml).then_some("@ The rest of the list cannot be read.\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Arc;

    use firesteel_store::{GroupResource, ObjectKey, Revision};
    use proptest::prelude::*;

    use super::*;
    use crate::codec::table::Include;
    use crate::model::kind::KindInfo;
    use crate::model::selector::ListSelector;

    fn selection(format: ResponseFormat) -> ListSelection {
        let kind = Arc::new(KindInfo::namespaced("example.org", "v1", "Toy", "toys"));
        ListSelection {
            kind,
            namespace: String::new(),
            selector: ListSelector::default(),
            include: Include::Object,
            format,
        }
    }

    /// Objects by what they are shown as, and all of them in pieces.
    fn written(format: ResponseFormat, specs: &[Value]) -> (Vec<Value>, String) {
        let (selection, mut out, mut shown) = (selection(format), Vec::new(), Vec::new());
        begin(&mut out, &selection).unwrap();
        for (number, spec) in specs.iter().enumerate() {
            let key = ObjectKey::new(&GroupResource::new("example.org", "toys"), "default", "a");
            let value = json!({ "metadata": { "annotations": spec, "name": "a" }, "spec": spec }).to_string().into();
            let object = StoredObject { key, revision: Revision(7), value };
            item(&mut out, &selection, Timestamp::UNIX_EPOCH, &object, number == 0).unwrap();
            shown.push(stored::decode_shown(&selection.kind, &object.key, &object.value, object.revision).unwrap());
        }
        end(&mut out, &selection, &metadata(), !specs.is_empty()).unwrap();
        (shown, String::from_utf8(out).unwrap())
    }

    fn metadata() -> Value {
        json!({ "continue": "", "resourceVersion": "9" })
    }

    fn check(specs: &[Value]) {
        let whole = |items: Vec<Value>, version: &str, kind: &str| json!({ "apiVersion": version, "items": items, "kind": kind, "metadata": metadata() });
        let (shown, text) = written(ResponseFormat::Yaml, specs);
        assert_eq!(text, yaml(&whole(shown, "example.org/v1", "ToyList")).unwrap());
        let (shown, text) = written(ResponseFormat::Json, specs);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, whole(shown, "example.org/v1", "ToyList"));
        let (shown, text) = written(ResponseFormat::Partial, specs);
        let items = shown.iter().map(partial).collect();
        assert_eq!(text, whole(items, "meta.k8s.io/v1", "PartialObjectMetadataList").to_string());
        let (shown, text) = written(ResponseFormat::Table, specs);
        let read: Value = serde_json::from_str(&text).unwrap();
        let kind = selection(ResponseFormat::Table).kind;
        assert_eq!(read, table::table(&kind, metadata(), &shown, Include::Object, Timestamp::UNIX_EPOCH, true));
    }

    #[test]
    fn a_list_of_none_is_whole() {
        check(&[]);
    }

    #[test]
    fn yaml_that_was_cut_is_none() {
        let (_, text) = written(ResponseFormat::Yaml, &[json!({ "a": "b" })]);
        let objects = text.split_once("kind:").unwrap().0;
        assert!(crate::codec::yaml::read::<Value>(objects.as_bytes()).is_ok(), "{objects}");
        let cut = format!("{objects}{}", cut(ResponseFormat::Yaml).unwrap());
        assert!(crate::codec::yaml::read::<Value>(cut.as_bytes()).is_err(), "{cut}");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(|value| json!(value)),
            any::<i64>().prop_map(|value| json!(value)),
            "[ -~é\n\t]{0,120}".prop_map(|value| json!(value)),
            "[a-z \n]{60,200}".prop_map(|value| json!(value)),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|values| json!(values)),
                prop::collection::btree_map("[ -~]{0,12}", inner, 0..4).prop_map(|values| json!(values)),
            ]
        })
    }

    proptest! {
        /// Pieces together are what the whole would be: in YAML to the byte, line breaks of long texts included.
        #[test]
        fn a_list_in_pieces_is_the_list_as_a_whole(specs in prop::collection::vec(value(), 0..4)) {
            check(&specs);
        }
    }
}
