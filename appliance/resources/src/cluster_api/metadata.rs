//! Labels and annotations of what is made from a template.

use firesteel_kube_types::Cause;
use serde_json::Value;

use crate::{label, shape::join};

/// All annotations of an object together, as Kubernetes has it.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// What Kubernetes would refuse in an object with this metadata.
pub(super) fn check(metadata: &Value, path: &str, causes: &mut Vec<Cause>) {
    let pairs = |part: &str| {
        let fields = metadata[part].as_object().into_iter().flatten();
        fields.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    };
    let labels = join(path, "labels");
    for (key, value) in pairs("labels") {
        causes.extend(label::key_fault(key).map(|why| Cause::invalid(&labels, key, why)));
        causes.extend(label::value_fault(value).map(|why| Cause::invalid(&labels, value, why)));
    }
    let annotations = join(path, "annotations");
    for (key, _) in pairs("annotations") {
        // Their keys may have capitals in the domain, too.
        let why = label::key_fault(&key.to_lowercase());
        causes.extend(why.map(|why| Cause::invalid(&annotations, key, why)));
    }
    if pairs("annotations").map(|(key, value)| key.len() + value.len()).sum::<usize>() > ANNOTATIONS_BYTES_MAX {
        causes.push(Cause::too_long(&annotations, ANNOTATIONS_BYTES_MAX));
    }
}
