//! Who changed an object's spec last, for kinds whose history names people. Pure.
//!
//! Kubernetes' `managedFields` name the program, and its objects have no place for the person. So a kind may name an
//! annotation that the server alone writes: with each change of the generation it is the caller's name, and otherwise
//! it stays what it was, whatever a client sends.

use serde_json::{Value, json};

use crate::model::kind::KindInfo;

/// Most bytes of a caller's name: more than a certificate's common name has.
const AUTHOR_BYTES_MAX: usize = 256;

/// Puts the author into a new object, or into one that has its next generation already.
pub(crate) fn sign(kind: &KindInfo, value: &mut Value, current: Option<&Value>, author: &str) {
    let Some(annotation) = kind.author_annotation else { return };
    let same = current.filter(|current| current["metadata"]["generation"] == value["metadata"]["generation"]);
    let said = match same {
        Some(current) => current["metadata"]["annotations"].get(annotation).cloned(),
        None => Some(json!(&author[..author.floor_char_boundary(AUTHOR_BYTES_MAX)])),
    };
    let metadata = &mut value["metadata"];
    if let Some(said) = said {
        metadata["annotations"][annotation] = said;
    } else if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(annotation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: &str = "x.io/changed-by";

    fn kind() -> KindInfo {
        KindInfo { author_annotation: Some(BY), ..KindInfo::namespaced("x.io", "v1", "Toy", "toys") }
    }

    fn object(generation: u64, said: Option<&str>) -> Value {
        let annotations = said.map_or_else(|| json!({ "a": "b" }), |said| json!({ "a": "b", BY: said }));
        json!({ "metadata": { "generation": generation, "annotations": annotations } })
    }

    fn signed(mut value: Value, current: Option<&Value>, author: &str) -> Option<String> {
        sign(&kind(), &mut value, current, author);
        assert_eq!(value["metadata"]["annotations"]["a"], "b");
        value["metadata"]["annotations"].get(BY).and_then(Value::as_str).map(str::to_owned)
    }

    #[test]
    fn a_change_of_the_spec_names_its_caller_and_nothing_else_does() {
        let (ann, none) = (object(3, Some("ann")), object(3, None));
        assert_eq!(signed(object(1, Some("forged")), None, "ann").as_deref(), Some("ann"), "a new one");
        assert_eq!(signed(object(4, Some("ann")), Some(&ann), "bob").as_deref(), Some("bob"));
        assert_eq!(signed(object(3, Some("forged")), Some(&ann), "bob").as_deref(), Some("ann"));
        assert_eq!(signed(object(3, None), Some(&ann), "bob").as_deref(), Some("ann"), "a PUT without it");
        assert_eq!(signed(object(3, Some("forged")), Some(&none), "bob"), None, "of an older version");
    }

    #[test]
    fn other_kinds_are_left_alone_and_names_are_bounded() {
        let mut value = json!({ "metadata": { "generation": 1 } });
        sign(&KindInfo::namespaced("x.io", "v1", "Toy", "toys"), &mut value, None, "ann");
        assert_eq!(value, json!({ "metadata": { "generation": 1 } }));
        sign(&kind(), &mut value, None, &"ä".repeat(AUTHOR_BYTES_MAX));
        let said = value["metadata"]["annotations"][BY].as_str().map(str::len);
        assert_eq!(said, Some(AUTHOR_BYTES_MAX));
    }
}
