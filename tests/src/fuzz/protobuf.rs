//! Bodies in Kubernetes' protobuf, and the kinds that are made of them.

use firesteel_kube::{builtin, negotiate, protobuf};

/// Bytes of JSON that one byte of a body can become: a flag of two bytes has a name of some 25 letters.
const GROWTH_MAX: usize = 32;
/// Of a body that cannot be read: 512 characters.
const REFUSAL_BYTES_MAX: usize = 2048;

pub(super) fn check(input: &[u8]) {
    let mut object = match negotiate::parse_object(Some(protobuf::MEDIA_TYPE), input, "Secret") {
        Ok(object) => object,
        Err(status) => {
            super::assert_plain(&status.message);
            assert!(status.message.len() <= REFUSAL_BYTES_MAX, "{} bytes", status.message.len());
            return;
        }
    };
    let text = object.to_string();
    assert!(text.len() <= GROWTH_MAX * input.len() + 1024, "{} bytes became {}", input.len(), text.len());
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), object);
    let kinds = builtin::kinds();
    let Some(kind) =
        kinds.iter().find(|kind| object["kind"] == kind.kind && object["apiVersion"] == kind.api_version())
    else {
        return;
    };
    // What is admitted is not changed by being admitted again, and every field that this form knows is known.
    if let Ok(first) = (kind.admit)(&mut object, None) {
        assert_eq!(first.unknown_fields, Vec::<String>::new());
        let mut again = object.clone();
        (kind.admit)(&mut again, Some(&object)).unwrap();
        assert_eq!(again, object);
    }
}

/// A field of a small number with bytes.
fn part(field: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    assert!(field < 16 && bytes.len() < 1 << 14, "a tag of one byte and a length of two");
    let [low, high] = u16::try_from(bytes.len() & 0x7f | 0x80 | bytes.len() >> 7 << 8).unwrap().to_le_bytes();
    [&[field << 3 | 2, low, high], bytes].concat()
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn body(api_version: &str, kind: &str, object: &[Vec<u8>]) -> Vec<u8> {
    let type_meta = part(1, [part(1, api_version), part(2, kind)].concat());
    [b"k8s\0".to_vec(), type_meta, part(2, object.concat()), part(3, ""), part(4, "")].concat()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let pair = |key: &str, value: &[u8]| [part(1, key), part(2, value)].concat();
    let owner =
        part(13, [part(1, "Toy"), part(3, "t"), part(4, "u"), part(5, "v1"), number(6, 1), number(7, 0)].concat());
    let labels = part(11, pair("rack", b"r1"));
    let metadata =
        part(1, [part(1, "a"), part(2, ""), part(3, "default"), part(8, ""), labels, owner, part(14, "x/y")].concat());
    // 2026-01-01T00:00:00Z and a millisecond.
    let at = [0x08, 0x80, 0xf2, 0xd6, 0xca, 0x06, 0x10, 0xc0, 0x84, 0x3d];
    let review = "authorization.k8s.io/v1";
    let access = part(1, [part(2, "create"), part(3, "metal3.io"), part(5, "baremetalhosts")].concat());
    vec![
        body("v1", "Namespace", &[metadata.clone(), part(2, part(1, "kubernetes")), part(3, part(1, "Active"))]),
        body(
            "v1",
            "Secret",
            &[
                metadata.clone(),
                part(2, pair("k", &[0, 255])),
                part(3, "Opaque"),
                part(4, pair("u", b"r")),
                number(5, 1),
            ],
        ),
        body("v1", "ConfigMap", &[metadata.clone(), part(2, pair("a", b"b")), part(3, pair("c", &[1]))]),
        body("v1", "ServiceAccount", &[metadata.clone(), part(2, part(3, "s")), part(3, part(1, "p")), number(4, 0)]),
        body(
            "v1",
            "Event",
            &[
                metadata.clone(),
                part(2, part(1, "Toy")),
                part(3, "Made"),
                part(5, part(1, "c")),
                part(6, at),
                part(7, ""),
                number(8, 3),
                part(10, at),
                part(11, [number(1, 2), part(2, at)].concat()),
                part(13, part(1, "Toy")),
            ],
        ),
        body(
            "coordination.k8s.io/v1",
            "Lease",
            &[
                metadata.clone(),
                part(2, [part(1, "me"), number(2, 15), part(3, at), part(4, at), number(5, 1)].concat()),
            ],
        ),
        body(review, "SelfSubjectAccessReview", &[part(1, ""), part(2, access)]),
        body(review, "SelfSubjectAccessReview", &[part(2, part(2, [part(1, "/version"), part(2, "get")].concat()))]),
        body(review, "SelfSubjectRulesReview", &[part(2, part(1, "default"))]),
        body("authentication.k8s.io/v1", "SelfSubjectReview", &[part(1, "")]),
        body(
            "authentication.k8s.io/v1",
            "TokenRequest",
            &[part(2, [part(1, "a"), part(3, part(3, "p")), number(4, 100)].concat())],
        ),
        body(
            "v1",
            "DeleteOptions",
            &[
                number(1, 0),
                part(2, [part(1, "u"), part(2, "7")].concat()),
                number(3, 1),
                part(4, "Orphan"),
                part(5, "All"),
            ],
        ),
        body("v1", "Pod", &[metadata]),
        b"k8s\0\x0a\xff".to_vec(),
        b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f".to_vec(),
        b"k8s\0\x1a\x04gzip".to_vec(),
        b"{}".to_vec(),
    ]
}
