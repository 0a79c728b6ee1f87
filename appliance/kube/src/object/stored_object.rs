//! Stored objects as clients get them, without reading them: the bytes of the store with the
//! revision put in. What [`rules::shown`] does to a value, done to its text; what is added there has
//! to be added here. A version that is not the stored one goes by values, and [`WatchEventLines`] has lines
//! of its own for each version.
//!
//! An object is read only for a selector, and then only the part that selectors can look at.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use firesteel_store::{ChangeKind, ObjectKey, Revision, StoreEvent, StoredObject};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::kind::KindInfo;
use crate::model::selector::ListSelector;
use crate::model::status::Status;
use crate::object::stored;

/// What [`write_shown`] adds to an object, at most: the field's name and a number of 20 digits.
pub(crate) const ADDED_BYTES: usize = 48;

/// Writes an object as clients get it.
pub(crate) fn write_shown(
    out: &mut Vec<u8>,
    kind: &KindInfo,
    key: &ObjectKey,
    bytes: &Bytes,
    revision: Revision,
) -> Result<(), Status> {
    let Some(at) = metadata_at(bytes).filter(|_| kind.is_stored()) else {
        // Not as this server writes objects; it is JSON all the same, or an error.
        let value = stored::decode_bytes(key, bytes)?;
        if !value.get("metadata").is_some_and(Value::is_object) {
            return Err(Status::internal(format!("the stored object {} has no metadata", key.name)));
        }
        let value = stored::shown(kind.read_stored(value), revision);
        out.extend_from_slice(value.to_string().as_bytes());
        return Ok(());
    };
    put_revision(out, bytes, at, revision);
    Ok(())
}

/// An object as clients get it; `None` where its bytes have to be read for that.
pub(crate) fn shown(kind: &KindInfo, bytes: &[u8], revision: Revision) -> Option<Bytes> {
    let at = metadata_at(bytes).filter(|_| kind.is_stored())?;
    let mut out = Vec::with_capacity(bytes.len() + ADDED_BYTES);
    put_revision(&mut out, bytes, at, revision);
    Some(out.into())
}

fn put_revision(out: &mut Vec<u8>, bytes: &[u8], at: usize, revision: Revision) {
    let (head, rest) = bytes.split_at(at);
    out.extend_from_slice(head);
    let comma = if rest.starts_with(b"}") { "" } else { "," };
    out.extend_from_slice(format!("\"resourceVersion\":\"{revision}\"{comma}").as_bytes());
    out.extend_from_slice(rest);
}

/// An object as code of this process reads it: with its revision, and without the owners of its fields.
/// `None` for what is not as this server writes objects.
pub(crate) fn without_owners(bytes: &[u8], revision: Revision) -> Option<Vec<u8>> {
    let (mut out, at) = up_to_metadata(bytes, revision)?;
    out.extend_from_slice(bytes.get(at..)?);
    Some(out)
}

/// The object without what comes after the metadata: what is kept of one that is not needed as a whole.
pub(crate) fn metadata_only(bytes: &[u8], revision: Revision) -> Option<Vec<u8>> {
    let (mut out, _) = up_to_metadata(bytes, revision)?;
    out.extend_from_slice(b"}}");
    out.shrink_to_fit();
    Some(out)
}

/// An object up to the end of its metadata, and where that end is.
fn up_to_metadata(bytes: &[u8], revision: Revision) -> Option<(Vec<u8>, usize)> {
    let mut at = metadata_at(bytes)?;
    let mut out = Vec::with_capacity(bytes.len() + ADDED_BYTES);
    out.extend_from_slice(bytes.get(..at)?);
    out.extend_from_slice(format!("\"resourceVersion\":\"{revision}\"").as_bytes());
    loop {
        match bytes.get(at)? {
            b'}' => break,
            b',' => at += 1,
            b'"' => {
                let name_end = string_end(bytes, at + 1)?;
                let end = value_end(bytes, name_end + 1)?;
                if bytes.get(at..name_end) != Some(br#""managedFields""#) {
                    out.push(b',');
                    out.extend_from_slice(bytes.get(at..end)?);
                }
                at = end;
            }
            _ => return None,
        }
    }
    Some((out, at))
}

/// The index after a value that begins here, in JSON without spaces.
fn value_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at + 1)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            b',' | b'}' | b']' if depth == 0 => return Some(at),
            _ => at += 1,
        }
        if depth == 0 && matches!(bytes.get(at)?, b',' | b'}' | b']') {
            return Some(at);
        }
    }
}

/// Where the members of an object's `metadata` begin, in JSON without spaces.
fn metadata_at(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut depth, mut last) = (0, 0_usize, 0);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => {
                at = string_end(bytes, at)?;
                let is_name = depth == 1 && matches!(last, b'{' | b',');
                if is_name && bytes.get(start..at) == Some(br#""metadata""#) {
                    return bytes.get(at..)?.starts_with(b":{").then_some(at + 2);
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        last = byte;
    }
    None
}

/// The index after the quote that ends a string.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// The part of an object that selectors look at.
#[derive(Deserialize)]
struct SelectableObject {
    #[serde(default)]
    metadata: SelectableMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SelectableMeta {
    name: Value,
    namespace: Value,
    labels: Value,
}

/// An object reduced to what selectors look at.
fn head(kind: &KindInfo, key: &ObjectKey, bytes: &Bytes) -> Result<Value, Status> {
    let failed = |error: serde_json::Error| Status::internal(format!("stored object {key} is not JSON: {error}"));
    let SelectableObject { metadata: SelectableMeta { name, namespace, labels } } =
        serde_json::from_slice(bytes).map_err(failed)?;
    let mut head = json!({ "metadata": { "name": name, "namespace": namespace, "labels": labels } });
    if !kind.selectable.is_empty() {
        let whole = kind.read_stored(serde_json::from_slice(bytes).map_err(failed)?);
        for first in kind.selectable.iter().filter_map(|path| path.split('.').next()) {
            if first != "metadata" && whole.get(first).is_some() {
                head[first] = whole[first].clone();
            }
        }
    }
    Ok(head)
}

/// Whether a selector takes a stored object.
pub(crate) fn matches(kind: &KindInfo, selector: &ListSelector, object: &StoredObject) -> Result<bool, Status> {
    if selector.is_empty() {
        return Ok(true);
    }
    // Watching or waiting for one object by its name must not read all of them.
    if selector.fields.name().is_some_and(|name| name != object.key.name) {
        return Ok(false);
    }
    Ok(selector.matches(&head(kind, &object.key, &object.value)?))
}

/// What an event is to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEventType {
    Added,
    Modified,
    Deleted,
    /// Exists, and is no longer one that the client's selector takes: the state before, as deleted.
    Left,
}

impl WatchEventType {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted | Self::Left => "DELETED",
        }
    }
}

/// What watches make of one event, once for all of them.
#[derive(Debug, Default)]
pub(crate) struct WatchEventLines {
    stored: VersionLines,
    /// The lines of versions that are not the stored one: few, and mostly none.
    others: Mutex<Vec<OfVersion>>,
}

/// A version's group and name, with its lines.
type OfVersion = ((&'static str, &'static str), Arc<VersionLines>);

/// The lines for the watches of one version.
#[derive(Debug, Default)]
struct VersionLines {
    lines: [OnceLock<Bytes>; 4],
    heads: OnceLock<(Value, Option<Value>)>,
}

impl WatchEventLines {
    /// The line of an event, ready to be sent.
    pub(crate) fn line(&self, kind: &KindInfo, change: WatchEventType, event: &StoreEvent) -> Result<Bytes, Status> {
        self.of(kind, |lines| lines.line(kind, change, event))
    }

    /// What an event is to a client that sees only objects that its selector takes.
    pub(crate) fn event_type(
        &self,
        kind: &KindInfo,
        selector: &ListSelector,
        event: &StoreEvent,
    ) -> Result<Option<WatchEventType>, Status> {
        self.of(kind, |lines| lines.event_type(kind, selector, event))
    }

    fn of<T>(&self, kind: &KindInfo, work: impl FnOnce(&VersionLines) -> T) -> T {
        if kind.is_stored() {
            return work(&self.stored);
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = match others.iter().find(|(version, _)| *version == (kind.group, kind.version)) {
            Some((_, lines)) => Arc::clone(lines),
            None => {
                let lines = Arc::<VersionLines>::default();
                others.push(((kind.group, kind.version), Arc::clone(&lines)));
                lines
            }
        };
        drop(others);
        work(&lines)
    }
}

impl VersionLines {
    fn line(&self, kind: &KindInfo, change: WatchEventType, event: &StoreEvent) -> Result<Bytes, Status> {
        let slot = &self.lines[change as usize];
        if let Some(line) = slot.get() {
            return Ok(line.clone());
        }
        let bytes =
            if change == WatchEventType::Left { event.previous.as_ref().unwrap_or(&event.value) } else { &event.value };
        let line = line(change.word(), kind, &event.key, bytes, event.revision)?;
        Ok(slot.get_or_init(|| line).clone())
    }

    fn event_type(
        &self,
        kind: &KindInfo,
        selector: &ListSelector,
        event: &StoreEvent,
    ) -> Result<Option<WatchEventType>, Status> {
        if selector.is_empty() {
            return Ok(Some(match event.kind {
                ChangeKind::Created => WatchEventType::Added,
                ChangeKind::Updated => WatchEventType::Modified,
                ChangeKind::Deleted => WatchEventType::Deleted,
            }));
        }
        if selector.fields.name().is_some_and(|name| name != event.key.name) {
            return Ok(None);
        }
        let (now, before) = match self.heads.get() {
            Some(heads) => heads,
            None => {
                let read = |bytes| head(kind, &event.key, bytes);
                let heads = (read(&event.value)?, event.previous.as_ref().map(read).transpose()?);
                self.heads.get_or_init(|| heads)
            }
        };
        let before = event.kind != ChangeKind::Created && before.as_ref().is_some_and(|head| selector.matches(head));
        Ok(match (before, event.kind != ChangeKind::Deleted && selector.matches(now)) {
            (false, true) => Some(WatchEventType::Added),
            (true, true) => Some(WatchEventType::Modified),
            (true, false) if event.kind == ChangeKind::Deleted => Some(WatchEventType::Deleted),
            (true, false) => Some(WatchEventType::Left),
            (false, false) => None,
        })
    }
}

/// One line of a watch: a stored object and what happened to it.
pub(crate) fn line(
    word: &str,
    kind: &KindInfo,
    key: &ObjectKey,
    bytes: &Bytes,
    revision: Revision,
) -> Result<Bytes, Status> {
    let mut line = Vec::with_capacity(bytes.len() + ADDED_BYTES + 40);
    line.extend_from_slice(format!("{{\"type\":\"{word}\",\"object\":").as_bytes());
    write_shown(&mut line, kind, key, bytes, revision)?;
    line.extend_from_slice(b"}\n");
    Ok(line.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use firesteel_store::GroupResource;
    use proptest::prelude::*;

    fn key() -> ObjectKey {
        ObjectKey::new(&GroupResource::new("example.org", "toys"), "default", "a")
    }

    fn toys() -> KindInfo {
        KindInfo { selectable: &["spec.color"], ..KindInfo::namespaced("example.org", "v1", "Toy", "toys") }
    }

    /// Any JSON, with names that look like what is searched for.
    fn json_value() -> impl Strategy<Value = Value> {
        let text =
            prop_oneof![Just("metadata".to_owned()), Just("\"metadata\":{".to_owned()), "[a-c\"\\\\{},\\[]{0,6}"];
        let leaf =
            prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), text.clone().prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The text with the revision put in reads as the value with the revision put in.
        #[test]
        fn the_revision_lands_in_the_metadata_and_nowhere_else(
            annotations in json_value(), status in json_value(), other in json_value(), bare in any::<bool>()
        ) {
            let metadata = if bare { json!({}) } else { json!({ "annotations": annotations, "name": "a" }) };
            let object = json!({ "aaa": other, "metadata": metadata, "status": status });
            let mut out = Vec::new();
            write_shown(&mut out, &toys(), &key(), &object.to_string().into(), Revision(7)).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), stored::shown(object, Revision(7)));
        }

        /// The text without owners reads as the value without them.
        #[test]
        fn owners_are_cut_out_and_nothing_else(
            annotations in json_value(), owners in json_value(), status in json_value(), bare in any::<bool>()
        ) {
            let metadata = if bare { json!({ "managedFields": owners }) } else {
                json!({ "annotations": annotations, "managedFields": owners, "name": "a" })
            };
            let object = json!({ "aaa": annotations, "metadata": metadata, "status": status });
            let read: Value = serde_json::from_slice(&without_owners(object.to_string().as_bytes(), Revision(7)).unwrap()).unwrap();
            let text = object.to_string();
            let mut wanted = stored::shown(object, Revision(7));
            wanted["metadata"].as_object_mut().unwrap().remove("managedFields");
            prop_assert_eq!(&read, &wanted);
            let head: Value = serde_json::from_slice(&metadata_only(text.as_bytes(), Revision(7)).unwrap()).unwrap();
            prop_assert_eq!(&head["metadata"], &wanted["metadata"]);
            prop_assert!(head.get("status").is_none());
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            drop(without_owners(&bytes, Revision(1)));
            drop(write_shown(&mut Vec::new(), &toys(), &key(), &bytes.into(), Revision(1)));
        }
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in ["0", "[]", r#"{"metadata":1}"#, r#"{"metadata":null}"#, "{}", "nonsense"] {
            assert!(write_shown(&mut Vec::new(), &toys(), &key(), &text.into(), Revision(1)).is_err(), "{text}");
        }
    }

    #[test]
    fn selectors_see_objects_come_and_go() {
        let labels = ListSelector::parse(&toys(), Some("a=1"), None).unwrap();
        let fields = ListSelector::parse(&toys(), None, Some("spec.color=1")).unwrap();
        let object = |value: &str| {
            Bytes::from(json!({ "metadata": { "labels": { "a": value } }, "spec": { "color": value } }).to_string())
        };
        let (yes, no) = (&object("1"), &object("2"));
        for selector in [labels, fields] {
            let sent = |kind, value: &Bytes, previous: Option<&Bytes>| {
                let previous = previous.cloned();
                let event = StoreEvent { revision: Revision(9), kind, key: key(), value: value.clone(), previous };
                let lines = WatchEventLines::default();
                let sent = lines.event_type(&toys(), &selector, &event).unwrap()?;
                let line: Value = serde_json::from_slice(&lines.line(&toys(), sent, &event).unwrap()).unwrap();
                assert_eq!(line["object"]["metadata"]["resourceVersion"], "9", "the revision of the event");
                let label = line["object"]["metadata"]["labels"]["a"].as_str().unwrap().to_owned();
                Some((line["type"].as_str().unwrap().to_owned(), label))
            };
            let line = |word: &str, label: &str| Some((word.to_owned(), label.to_owned()));
            assert_eq!(sent(ChangeKind::Created, yes, None), line("ADDED", "1"));
            assert_eq!(sent(ChangeKind::Created, no, None), None);
            assert_eq!(sent(ChangeKind::Updated, yes, Some(no)), line("ADDED", "1"));
            assert_eq!(sent(ChangeKind::Updated, yes, Some(yes)), line("MODIFIED", "1"));
            assert_eq!(sent(ChangeKind::Updated, no, Some(yes)), line("DELETED", "1"), "as it was when it matched");
            assert_eq!(sent(ChangeKind::Updated, no, Some(no)), None);
            assert_eq!(sent(ChangeKind::Deleted, yes, Some(yes)), line("DELETED", "1"));
            assert_eq!(sent(ChangeKind::Deleted, no, Some(no)), None);
        }
    }

    #[test]
    fn an_event_is_written_once_for_all_watches() {
        let value = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
        let event = StoreEvent { revision: Revision(9), kind: ChangeKind::Created, key: key(), value, previous: None };
        let lines = WatchEventLines::default();
        let [one, two] = [(); 2].map(|()| lines.line(&toys(), WatchEventType::Added, &event).unwrap());
        assert_eq!(
            &one[..],
            b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\",\"name\":\"a\"}}}\n"
        );
        assert_eq!(one.as_ptr(), two.as_ptr(), "the same bytes, not equal ones");
    }
}
