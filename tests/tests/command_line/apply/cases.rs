//! Small files that kubectl and firesteel get, one after the other, and what both have to make of them.

/// One object, as a file has it first and then.
pub(super) struct SmallFiles {
    /// The name of the files, and of the object in them.
    pub(super) name: &'static str,
    pub(super) first: &'static str,
    pub(super) second: &'static str,
}

/// What each client makes of the first and the second file: `c`reated, `m`odified, `u`nchanged, `r`efused.
pub(super) const EXPECTED: &[(&str, &str)] = &[
    ("same", "cu"),
    ("changed", "cm"),
    ("field-gone", "cm"),
    ("image-gone", "cm"),
    ("image-form", "cm"),
    ("label-gone", "cm"),
    ("labels-gone", "cm"),
    ("note-gone", "cm"),
    ("hints", "cm"),
    ("finalizers", "cm"),
    ("null-value", "cu"),
    ("empty-map", "cu"),
    ("yes-no", "cm"),
    ("typo", "rr"),
    ("typo-below", "rc"),
    ("type-of-value", "rr"),
    ("number-for-text", "rr"),
    ("bad-mac", "rc"),
    ("Bad_Name", "rr"),
    ("status", "cu"),
    ("managed-fields", "rr"),
    ("old-revision", "cr"),
    ("other-uid", "rr"),
    ("other-version", "rr"),
    ("no-such-kind", "rr"),
    ("no-name", "rr"),
    ("no-kind", "rr"),
    ("other-namespace", "rr"),
    ("map", "cu"),
    ("map-key-gone", "cm"),
    ("map-bytes", "cm"),
    ("secret-data", "cm"),
    ("secret-texts", "cm"),
    ("secret-same", "cu"),
    ("secret-type", "cr"),
    ("space-TOOL", "cm"),
    ("listed", "cm"),
    ("conflict", "cr"),
    ("shared", "cm"),
];

const fn files(name: &'static str, first: &'static str, second: &'static str) -> SmallFiles {
    SmallFiles { name, first, second }
}

/// The table. `HOST`, `MAP` and `SECRET` stand for the head of an object with the name of its case, and `TOOL` for the
/// client.
pub(super) const CASES: &[SmallFiles] = &[
    files("same", "HOST\nspec: {online: true, description: a}", "HOST\nspec: {description: a, online: true}"),
    files("changed", "HOST\nspec: {online: true}", "HOST\nspec: {online: false}"),
    files("field-gone", "HOST\nspec: {online: true, description: a}", "HOST\nspec: {online: true}"),
    files(
        "image-gone",
        "HOST\nspec: {online: true, image: {url: http://a.example/b.raw, checksum: 00112233445566778899aabbccddeeff}}",
        "HOST\nspec: {online: true}",
    ),
    files(
        "image-form",
        "HOST\nspec: {online: true, image: {url: http://a.example/b.raw, checksum: 00112233445566778899aabbccddeeff, format: raw}}",
        "HOST\nspec: {online: true, image: {url: http://a.example/b.raw, checksum: 00112233445566778899aabbccddeeff}}",
    ),
    files("label-gone", "HOST\n  labels: {a: b, c: d}", "HOST\n  labels: {a: b}"),
    files("labels-gone", "HOST\n  labels: {a: b, c: d}", "HOST"),
    files("note-gone", "HOST\n  annotations: {a.example/b: c}\nspec: {online: true}", "HOST\nspec: {online: true}"),
    files(
        "hints",
        "HOST\nspec: {online: true, rootDeviceHints: {deviceName: /dev/sda, vendor: v}}",
        "HOST\nspec: {online: true, rootDeviceHints: {model: m, vendor: v}}",
    ),
    files("finalizers", "HOST\n  finalizers: [a.example/b, a.example/c]", "HOST\n  finalizers: [a.example/c]"),
    files(
        "null-value",
        "HOST\nspec: {online: true, description: null}",
        "HOST\nspec: {online: true, description: null}",
    ),
    files("empty-map", "HOST\n  labels: {}\nspec: {online: true}", "HOST\n  labels: {}\nspec: {online: true}"),
    files("yes-no", "HOST\nspec: {online: yes}", "HOST\nspec: {online: off}"),
    files("typo", "HOST\nspec: {imge: {url: http://a.example/b}}", "HOST\nspec: {onlin: true}"),
    files("typo-below", "HOST\nspec: {bmc: {addres: ipmi://10.0.0.1}}", "HOST\nspec: {online: true}"),
    files("type-of-value", "HOST\nspec: {online: maybe}", "HOST\nspec: [online]"),
    files("number-for-text", "HOST\nspec: {description: 7}", "HOST\nspec: {bootMACAddress: 7}"),
    files(
        "bad-mac",
        "HOST\nspec: {online: true, bootMACAddress: no-mac}",
        "HOST\nspec: {online: true, bootMACAddress: \"52:54:00:00:00:77\"}",
    ),
    files("Bad_Name", "HOST\nspec: {online: true}", "HOST\nspec: {online: true}"),
    files("status", "HOST\nspec: {online: true}\nstatus: {poweredOn: true}", "HOST\nspec: {online: true}\nstatus: {}"),
    files(
        "managed-fields",
        "HOST\n  managedFields: [{manager: a, operation: Update}]\nspec: {online: true}",
        "HOST\n  managedFields: [{}]\nspec: {online: true}",
    ),
    files("old-revision", "HOST\nspec: {online: true}", "HOST\n  resourceVersion: \"1\"\nspec: {online: false}"),
    files("other-uid", "HOST\n  uid: 7b5ecc0c-66fb-4bcd-a1d9-3d7a3d1a5c3f", "HOST\n  resourceVersion: \"7\""),
    files(
        "other-version",
        "apiVersion: metal3.io/v1\nkind: BareMetalHost\nmetadata: {name: other-version}",
        "apiVersion: v1\nkind: BareMetalHost\nmetadata: {name: other-version}",
    ),
    files(
        "no-such-kind",
        "apiVersion: metal3.io/v1alpha1\nkind: BareMetalRack\nmetadata: {name: no-such-kind}",
        "apiVersion: a.example/v1\nkind: BareMetalHost\nmetadata: {name: no-such-kind}",
    ),
    files(
        "no-name",
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: no-name-}",
    ),
    files("no-kind", "apiVersion: v1\nmetadata: {name: no-kind}", "kind: ConfigMap\nmetadata: {name: no-kind}"),
    files("other-namespace", "MAP\n  namespace: elsewhere", "MAP\n  namespace: default\ndata: {a: b}"),
    files("map", "MAP\ndata: {a: b, c: d}", "MAP\ndata: {c: d, a: b}"),
    files("map-key-gone", "MAP\ndata: {a: b, c: d}", "MAP\ndata: {a: x}"),
    files("map-bytes", "MAP\nbinaryData: {a: AAEC}", "MAP\nbinaryData: {b: AAEC}"),
    files("secret-data", "SECRET\ndata: {a: YQ==, b: Yg==}", "SECRET\ndata: {a: YQ==}"),
    files("secret-texts", "SECRET\nstringData: {a: x}", "SECRET\nstringData: {a: z}"),
    files("secret-same", "SECRET\nstringData: {a: x}", "SECRET\nstringData: {a: x}"),
    files("secret-type", "SECRET\ntype: Opaque\ndata: {a: YQ==}", "SECRET\ntype: a.example/b\ndata: {a: YQ==}"),
    files(
        "space-TOOL",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: space-TOOL, labels: {a: b}}",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: space-TOOL, labels: {a: c}}",
    ),
    files(
        "listed",
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: listed}, data: {a: b}}]",
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: listed}}]",
    ),
    files("conflict", "MAP\ndata: {a: b}", "MAP\ndata: {a: c}"),
    files("shared", "MAP\ndata: {a: b}", "MAP\ndata: {a: others, c: d}"),
];

/// What another manager applies between the two files: values of `conflict` and `shared`, by force.
pub(super) const OTHERS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: conflict}
data: {a: others}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data: {a: others}
";
