//! `BootImageStream` (firesteel.dev/v1alpha1): a stream of OS images that the appliance follows: where its metadata
//! comes from, what of it is fetched, and which releases are here. Upstream has it as the ConfigMap
//! `coreos-bootimages` (S1-2.2).
//!
//! Cluster scoped: an artifact is stored once for all namespaces, and who says which images are golden decides for the
//! whole fleet. Groups of hosts in any namespace name a stream; only an admin says what it is.
//!
//! ```text
//!   source ─► releases ─► artifacts: wanted ─► fetching ─► verified ─► the release is stamped: it may be golden
//!                                                     └─► failed
//! ```

use firesteel_facts::shown_url;
use firesteel_kube_types::{Cause, ObjectMeta};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::admit::typed;
use crate::bare_metal_host::annotations::HAND_OFF_WORDS;
use crate::condition::{self, Condition};
use crate::kind::{AGE, FIRESTEEL, Kind, KindScope, RuleVerdict, V1ALPHA1, column};
use crate::shape::{Field, Literal, Shape};
use crate::url;
use crate::zero::is_zero;

/// Everything of the newest release is verified, and it may be given to hosts.
pub const STAMPED: &str = "Stamped";
/// The stream cannot be followed; the message says what to do.
pub const DEGRADED: &str = "Degraded";
/// There is room for what is wanted.
pub const STORED: &str = "Stored";

/// Architectures by the names of stream metadata.
pub const ARCHITECTURES: [&str; 4] = ["aarch64", "ppc64le", "s390x", "x86_64"];
pub const FORMATS: [&str; 3] = ["metal", "pxe", "iso"];
/// Releases in the status; older ones that no host has make room first.
pub const RELEASES_MAX: usize = 32;
/// Artifacts of one release: four architectures with a disk for each of two sector sizes, three parts of pxe and an
/// ISO.
pub const ARTIFACTS_MAX: usize = 32;
/// Sources are asked at most each minute and at least each week.
const REFRESH_SECONDS: (i64, i64) = (60, 7 * 24 * 3600);
/// Upstream's streams change every two weeks.
const REFRESH_SECONDS_DEFAULT: i64 = 3600;
/// Longest name of a file on common file systems.
const FILE_NAME_MAX: usize = 255;
/// What is read of a stream is kept in a file of its name, written as `.NAME.json.new`.
const NAME_MAX: usize = FILE_NAME_MAX - ".".len() - ".json".len() - ".new".len();

pub const KIND: Kind = Kind {
    short_names: &["bis"],
    scope: KindScope::Cluster,
    has_status: true,
    columns: &[
        column("Stream", ".status.stream", "The stream's own name", 1),
        column("Release", ".status.release", "The newest release that may be given to hosts", 0),
        column("Stamped", r#".status.conditions[?(@.type=="Stamped")].status"#, "Whether it is all verified", 0),
        column("Degraded", r#".status.conditions[?(@.type=="Degraded")].status"#, "Whether something is wrong", 0),
        column("Progress", ".status.progress", "What is fetched now, and how far it is", 0),
        column("Message", r#".status.conditions[?(@.type=="Degraded")].message"#, "What is wrong", 1),
        AGE,
    ],
    about: "A stream of OS images that is followed: its source, and the releases of it that are here.",
    rules: |new, old| typed(new, old, |new: &BootImageStream, _| RuleVerdict::of(causes(new))),
    ..Kind::new(FIRESTEEL, V1ALPHA1, "BootImageStream", "bootimagestreams", "bootimagestream", &SHAPE)
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootImageStream {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: BootImageStreamSpec,
    pub status: BootImageStreamStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootImageStreamSpec {
    pub source: StreamSource,
    /// The name that the metadata must say it is of; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stream: String,
    /// Is empty for those that the fleet's hosts have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// See [`BootImageStreamSpec::formats`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyring: Option<KeyringReference>,
    /// The form in which these images take their configuration, in the words of the hosts' annotation
    /// ([`HAND_OFF_WORDS`]), which goes before it; empty where the image itself tells.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hand_off: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_seconds: Option<i64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

impl BootImageStreamSpec {
    /// What is fetched: disk images, where nothing else is said.
    #[must_use]
    pub fn formats(&self) -> Vec<&str> {
        if self.formats.is_empty() { vec![FORMATS[0]] } else { self.formats.iter().map(String::as_str).collect() }
    }

    #[must_use]
    pub fn refresh_seconds(&self) -> i64 {
        self.refresh_seconds.unwrap_or(REFRESH_SECONDS_DEFAULT)
    }
}

/// Exactly one of them is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StreamSource {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The name of a file in the appliance's folder of streams.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<SourceMap>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceMap {
    pub namespace: String,
    pub name: String,
    pub key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyringReference {
    /// `Secret` or `ConfigMap`.
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// The form that a stream says its images take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredForm {
    /// The name of the BootImageStream.
    pub stream: String,
    /// Its `spec.handOff`: one of [`HAND_OFF_WORDS`], if it is of this version.
    pub word: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootImageStreamStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Name of the stream in the metadata.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stream: String,
    /// The newest one that is stamped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// Time of the last change, in the words of the metadata.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Timestamp>,
    pub stamped: bool,
    /// What is fetched now and how far it is, for people; empty while nothing is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// The newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<StreamRelease>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StreamRelease {
    pub release: String,
    pub seen_at: Timestamp,
    /// When the last of its wanted artifacts was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamped_at: Option<Timestamp>,
    /// The stream no longer names it, or names an older one: a host that only follows the stream does not get it.
    pub withdrawn: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactStatus {
    pub architecture: String,
    pub platform: String,
    /// One of [`FORMATS`].
    pub format: String,
    /// `disk`, `kernel`, `initramfs`, `rootfs` or `iso`.
    pub part: String,
    /// Sector size of a disk: 512 or 4096.
    #[serde(skip_serializing_if = "is_zero")]
    pub sector_bytes: u32,
    pub location: String,
    pub sha256: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uncompressed_sha256: String,
    /// Location of its detached signature; empty if the stream gives none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signature_location: String,
    pub signature: SignatureStatus,
    pub state: ArtifactState,
    /// Digest of the disk as it is written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub raw_sha256: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub done_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Rate of the download that is under way, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// The path at which the appliance's port for boot files and images has it, once it is verified.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub served: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureStatus {
    /// The stream gives none.
    #[default]
    None,
    /// There is one, and no key to check it with.
    Unverified,
    Good,
    Bad,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactState {
    #[default]
    Wanted,
    Fetching,
    Verified,
    Failed,
}

const CONFIG_MAP: Shape = Shape::object(&[
    Field::new("key", Shape::TEXT.chars_min(1).with_default(Literal::Text("stream")))
        .about("The key with the metadata."),
    Field::required("name", Shape::TEXT.chars_min(1)).about("The name of the ConfigMap."),
    Field::required("namespace", Shape::TEXT.chars_min(1)).about("The namespace of the ConfigMap."),
]);

const SOURCE: Shape = Shape::object(&[
    Field::new("configMap", CONFIG_MAP).about("A ConfigMap that has the metadata, as upstream's coreos-bootimages."),
    Field::new("file", Shape::TEXT.chars_min(1).chars_max(FILE_NAME_MAX).matching("^[A-Za-z0-9_-][A-Za-z0-9._-]*$"))
        .about("A file in the appliance's folder of streams."),
    Field::new("url", Shape::TEXT.chars_min(1).chars_max(2048)).about("Where the metadata is fetched from."),
]);

const KEYRING: Shape = Shape::object(&[
    Field::new("kind", Shape::one_of(&["ConfigMap", "Secret"]).with_default(Literal::Text("ConfigMap")))
        .about("What holds the key."),
    Field::required("name", Shape::TEXT.chars_min(1)).about("The name of the object."),
    Field::required("namespace", Shape::TEXT.chars_min(1)).about("The namespace of the object."),
]);

const SPEC: Shape = Shape::object(&[
    Field::new("architectures", Shape::list(&Shape::one_of(&ARCHITECTURES)).set().items_max(ARCHITECTURES.len()))
        .about("What is fetched; without it, for the architectures that hosts have."),
    Field::new("formats", Shape::list(&Shape::one_of(&FORMATS)).set().items_max(FORMATS.len()))
        .about("What is fetched; without it, metal: disk images."),
    Field::new("handOff", Shape::one_of(&HAND_OFF_WORDS))
        .about("The form in which these images take their configuration; without it, as the image itself tells."),
    Field::new("keyring", KEYRING).about("OpenPGP public keys by which signatures are checked."),
    Field::new("paused", Shape::BOOLEAN).about("Whether the source is left alone; what is here stays."),
    Field::new("refreshSeconds", Shape::INT64.min(REFRESH_SECONDS.0).max(REFRESH_SECONDS.1))
        .about("How often the source is asked; without it, each hour."),
    Field::required("source", SOURCE).about("Where the stream's metadata comes from: one of the fields."),
    Field::new("stream", Shape::TEXT.chars_max(253)).about("The name that the metadata must say it is of."),
]);

const ARTIFACT: Shape = Shape::object(&[
    Field::required("architecture", Shape::TEXT).about("The architecture that it is for."),
    Field::new("bytesPerSecond", Shape::INT64).about("How fast it comes, while it is downloaded."),
    Field::new("doneBytes", Shape::INT64).about("How much of it is here."),
    Field::required("format", Shape::TEXT).about("What it is: metal, pxe or iso."),
    Field::required("location", Shape::TEXT).about("Where it comes from."),
    Field::new("message", Shape::TEXT).about("Why it is not here, for people."),
    Field::required("part", Shape::TEXT).about("Which part of that."),
    Field::required("platform", Shape::TEXT).about("The platform that it is for."),
    Field::new("rawSha256", Shape::TEXT).about("The digest of the disk as it is written."),
    Field::new("secondsLeft", Shape::INT64).about("When it will be downloaded, as it looks now."),
    Field::new("sectorBytes", Shape::INT64).about("The sector size of the disk that it is for."),
    Field::new("served", Shape::TEXT).about("The path at which the appliance serves it to hosts."),
    Field::required("sha256", Shape::TEXT).about("The digest of the artifact as it is fetched."),
    Field::required("signature", Shape::one_of(&["none", "unverified", "good", "bad"])).about("What its signature is."),
    Field::new("signatureLocation", Shape::TEXT).about("Where its detached signature comes from."),
    Field::required("state", Shape::one_of(&["wanted", "fetching", "verified", "failed"])).about("How far it is."),
    Field::new("totalBytes", Shape::INT64).about("How large it is."),
    Field::new("uncompressedSha256", Shape::TEXT).about("The digest of the artifact when it is expanded."),
]);

const RELEASE: Shape = Shape::object(&[
    Field::new("artifacts", Shape::list(&ARTIFACT).atomic().items_max(ARTIFACTS_MAX)).about("What it consists of."),
    Field::required("release", Shape::TEXT).about("The release."),
    Field::required("seenAt", Shape::TIME).about("When the stream named it first."),
    Field::new("stampedAt", Shape::TIME).about("When all of it was verified."),
    Field::required("withdrawn", Shape::BOOLEAN).about("Whether the stream took it back."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("checkedAt", Shape::TIME).about("When the source was asked last."),
    Field::new("conditions", condition::LIST_SHAPE).about("How the stream is."),
    Field::new("lastModified", Shape::TEXT).about("When the stream changed last, as it says."),
    Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this was found of."),
    Field::new("progress", Shape::TEXT).about("What is fetched now, and how far it is."),
    Field::new("release", Shape::TEXT).about("The newest release that may be given to hosts."),
    Field::new("releases", Shape::list(&RELEASE).atomic().items_max(RELEASES_MAX)).about("Releases, the newest first."),
    Field::new("stamped", Shape::BOOLEAN).about("Whether the newest release may be given to hosts."),
    Field::new("stream", Shape::TEXT).about("The stream's own name."),
]);

const SHAPE: Shape = Shape::object(&[
    Field::required("spec", SPEC).about("What is followed."),
    Field::status(STATUS, "What of it is here."),
]);

/// What is wrong with a stream.
#[must_use]
pub fn causes(new: &BootImageStream) -> Vec<Cause> {
    let StreamSource { url, file, config_map } = &new.spec.source;
    let mut causes = Vec::new();
    if new.metadata.name.len() > NAME_MAX {
        let why = format!("must have at most {NAME_MAX} characters, for a file is named after it");
        causes.push(Cause::invalid("metadata.name", &new.metadata.name, &why));
    }
    let set = [!url.is_empty(), !file.is_empty(), config_map.is_some()];
    match set.iter().filter(|set| **set).count() {
        0 => causes.push(Cause::required("spec.source", "one of url, file and configMap")),
        1 => {}
        _ => causes.push(Cause::forbidden("spec.source", "only one of url, file and configMap may be set")),
    }
    if !url.is_empty() {
        match url::parts(url) {
            Ok(("http" | "https", host, _)) if host.contains('@') => {
                // Every reader of the object sees its spec.
                causes.push(Cause::forbidden("spec.source.url", "may not have a user name or password"));
            }
            Ok(("http" | "https", ..)) => {}
            Ok(_) => causes.push(Cause::invalid("spec.source.url", &shown_url(url), "must be an http or https URL")),
            Err(why) => causes.push(Cause::invalid("spec.source.url", &shown_url(url), &why.to_string())),
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use serde_json::{Value, json};

    use super::*;
    use crate::{admit, admit::decode};

    fn fields(spec: Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "stable"}, "spec": spec});
        admit(&KIND, &mut object, None).causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn a_name_fits_a_file() {
        for (length, told) in [(245, None), (246, Some("metadata.name"))] {
            let spec = json!({"source": {"file": "stable.json"}});
            let mut object = json!({"metadata": {"name": "s".repeat(length)}, "spec": spec});
            let field = admit(&KIND, &mut object, None).causes.into_iter().map(|cause| cause.field).next();
            assert_eq!(field.as_deref(), told, "{length}");
        }
    }

    #[test]
    fn a_stream_has_one_source() {
        let url = json!({"url": "https://a.example/stable.json"});
        assert_eq!(fields(json!({"source": url})), Vec::<String>::new());
        assert_eq!(fields(json!({"source": {"file": "stable.json"}})), Vec::<String>::new());
        assert_eq!(fields(json!({"source": {"configMap": {"namespace": "a", "name": "b"}}})), Vec::<String>::new());
        for (spec, field) in [
            (json!({}), "spec.source"),
            (json!({"source": {}}), "spec.source"),
            (json!({"source": {"url": "https://a/b", "file": "c"}}), "spec.source"),
            (json!({"source": {"url": "file:///etc/passwd"}}), "spec.source.url"),
            (json!({"source": {"url": "gopher://a/b"}}), "spec.source.url"),
            (json!({"source": {"url": "https://me:secret@a/b"}}), "spec.source.url"),
            (json!({"source": {"url": "https://a/\nb"}}), "spec.source.url"),
            (json!({"source": {"file": "../passwd"}}), "spec.source.file"),
            (json!({"source": {"file": ".hidden"}}), "spec.source.file"),
            (json!({"source": {"file": "a/b"}}), "spec.source.file"),
            (json!({"source": url, "architectures": ["vax"]}), "spec.architectures[0]"),
            (json!({"source": url, "formats": ["metal", "metal"]}), "spec.formats[1]"),
            (json!({"source": url, "handOff": "floppy"}), "spec.handOff"),
            (json!({"source": url, "handOff": "boot-file"}), "spec.handOff"),
            (json!({"source": url, "refreshSeconds": 1}), "spec.refreshSeconds"),
            (json!({"source": url, "keyring": {"name": "k"}}), "spec.keyring.namespace"),
        ] {
            assert_eq!(fields(spec.clone()), [field], "{spec}");
        }
    }

    #[test]
    fn a_hand_off_has_the_words_of_the_hosts_annotation() {
        for word in HAND_OFF_WORDS {
            let spec = json!({"source": {"file": "stable.json"}, "handOff": word});
            assert_eq!(fields(spec), Vec::<String>::new(), "{word}");
        }
    }

    #[test]
    fn what_is_not_said_has_a_meaning() {
        let mut object = json!({"spec": {"source": {"configMap": {"namespace": "a", "name": "b"}},
                                         "keyring": {"namespace": "a", "name": "k"}}});
        assert!(admit(&KIND, &mut object, None).causes.is_empty());
        let stream: BootImageStream = decode(&object).unwrap();
        assert_eq!(stream.spec.formats(), ["metal"]);
        assert_eq!(stream.spec.refresh_seconds(), 3600);
        assert_eq!(stream.spec.source.config_map.unwrap().key, "stream");
        assert_eq!(stream.spec.keyring.unwrap().kind, "ConfigMap");
    }

    /// A status that did not have its own shape could not be stored.
    #[test]
    fn a_full_status_has_its_shape() {
        let artifact = ArtifactStatus {
            sector_bytes: 4096,
            total_bytes: Some(9),
            done_bytes: 3,
            bytes_per_second: Some(2),
            seconds_left: Some(3),
            served: "/images/a.iso".into(),
            signature_location: "https://a.example/a.sig".into(),
            ..ArtifactStatus::default()
        };
        let release = StreamRelease {
            artifacts: vec![artifact],
            stamped_at: Some(Timestamp::UNIX_EPOCH),
            ..StreamRelease::default()
        };
        let status = BootImageStreamStatus {
            releases: vec![release],
            progress: "a".into(),
            checked_at: Some(Timestamp::UNIX_EPOCH),
            conditions: vec![Condition::new(STAMPED, true, "Verified", "")],
            ..BootImageStreamStatus::default()
        };
        let mut object = json!({"spec": {"source": {"file": "a"}}, "status": status});
        let admission = admit(&KIND, &mut object, None);
        assert!(admission.causes.is_empty() && admission.unknown_fields.is_empty(), "{admission:?}");
    }
}
