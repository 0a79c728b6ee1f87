//! One stream's metadata, entry by entry (S1-2.2).

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use firesteel_facts::{Architecture, Sha256};

use super::json::{DuplicateJsonKey, Json, JsonObject};
use super::location::{ArtifactUrl, LocationError};
use super::text::{is_name, shown};
use super::types::{Artifact, ArtifactKind, ArtifactPart, of_format};

/// The most artifacts of one stream; the largest published one has 78.
const ARTIFACTS_MAX: usize = 2000;
/// The faults that are listed; a person reads the first ones, the rest is counted.
const FAULTS_MAX: usize = 100;

/// What a stream offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMetadata {
    /// The name, such as `stable` or `rhcos-4.21`.
    pub name: String,
    /// The time as written; empty where the stream does not say.
    pub last_modified: String,
    /// The artifacts by architecture, platform, format and part.
    pub artifacts: Vec<Artifact>,
    /// Entries that cannot be used, in the same order.
    pub faults: Vec<StreamEntryFault>,
    /// The number of further faults, which are not listed.
    pub faults_unlisted: usize,
}

/// Why a document is no stream at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error("the document has {bytes} bytes; stream metadata has at most {}", super::DOCUMENT_BYTES_MAX)]
    TooLong { bytes: usize },
    #[error("the document is not JSON that can be used: {why}")]
    Json { why: String },
    #[error("the document is no stream metadata: {field} must be {wanted}")]
    Shape { field: &'static str, wanted: &'static str },
    #[error("the document has the field {field} twice")]
    Twice { field: &'static str },
}

/// Where in the document an entry stands, as it is shown: as far as the entry goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamEntryPath(Vec<String>);

impl StreamEntryPath {
    fn at(names: &[&str]) -> Self {
        Self(names.iter().map(|name| shown(name)).collect())
    }

    fn of(artifact: &Artifact) -> Self {
        let part = if artifact.part == ArtifactPart::Iso { ArtifactPart::Disk } else { artifact.part };
        Self::at(&[artifact.architecture.name(), &artifact.platform, &artifact.format, &part.to_string()])
    }

    /// Whether this is about an architecture's artifacts for a platform, or about everything of it.
    #[must_use]
    pub fn covers(&self, architecture: Architecture, platform: &str) -> bool {
        let wanted = [architecture.name(), platform];
        self.0.iter().zip(wanted).all(|(name, wanted)| name == wanted)
    }

    /// Whether this is about such a form, or about everything that holds one.
    fn may_be(&self, kind: ArtifactKind, sector_bytes: u32) -> bool {
        self.0.get(2).is_none_or(|format| of_format(format) == (kind, sector_bytes))
    }
}

impl fmt::Display for StreamEntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

/// An entry that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct StreamEntryFault {
    pub place: StreamEntryPath,
    pub cause: FaultCause,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultCause {
    #[error("the field {field} is missing")]
    Missing { field: &'static str },
    #[error("{field} must be {wanted}")]
    Type { field: &'static str, wanted: &'static str },
    #[error("it stands twice")]
    Twice,
    #[error("the field {field} stands twice")]
    FieldTwice { field: &'static str },
    #[error("{text} is no architecture that is known: x86_64, aarch64, ppc64le or s390x")]
    Architecture { text: String },
    #[error("{text} is no name: at most 128 letters, digits, and the characters . _ - +")]
    Name { text: String },
    #[error("{text} is no part that is known: disk, or kernel, initramfs and rootfs of pxe")]
    Part { text: String },
    #[error("{field} is no address that is fetched: {source}")]
    Location { field: &'static str, source: LocationError },
    #[error("{field} is no sha256 of 64 hexadecimal digits: {text}")]
    Digest { field: &'static str, text: String },
    #[error("{other} has the same sha256, but is another file")]
    SameDigest { other: StreamEntryPath },
    #[error("{other} has the same address, but another sha256")]
    SameLocation { other: StreamEntryPath },
    #[error("the stream has more than {ARTIFACTS_MAX} artifacts")]
    TooMany,
}

impl StreamMetadata {
    /// Whether an image of this form may be missing only because what the stream says of it cannot be used.
    #[must_use]
    pub fn is_faulty(&self, architecture: Architecture, platform: &str, kind: ArtifactKind, sector_bytes: u32) -> bool {
        self.faults
            .iter()
            .any(|fault| fault.place.covers(architecture, platform) && fault.place.may_be(kind, sector_bytes))
    }

    pub(super) fn of_json(json: &Json) -> Result<Self, StreamError> {
        let shape = |field, wanted| StreamError::Shape { field, wanted };
        let root = json.object().ok_or(shape("the document", "an object"))?;
        let get = |field: &'static str| root.get(field).map_err(|DuplicateJsonKey| StreamError::Twice { field });
        let name = get("stream")?.and_then(Json::text).filter(|name| is_name(name));
        let name = name.ok_or(shape("stream", "a name"))?.to_owned();
        let architectures = get("architectures")?.and_then(Json::object).ok_or(shape("architectures", "an object"))?;
        let metadata = get("metadata")?.and_then(Json::object);
        let date = metadata.and_then(|metadata| metadata.get("last-modified").ok().flatten()).and_then(Json::text);
        let last_modified = date.map(shown).unwrap_or_default();
        let mut found = StreamParser::default();
        for (architecture, value) in architectures.entries() {
            found.architecture(architecture, value);
        }
        found.contradictions();
        let StreamParser { artifacts, mut faults } = found;
        faults.sort_by(|a, b| a.place.cmp(&b.place));
        let faults_unlisted = faults.len().saturating_sub(FAULTS_MAX);
        faults.truncate(FAULTS_MAX);
        Ok(Self { name, last_modified, artifacts, faults, faults_unlisted })
    }
}

#[derive(Default)]
struct StreamParser {
    artifacts: Vec<Artifact>,
    faults: Vec<StreamEntryFault>,
}

type Value<'a> = Result<&'a Json, DuplicateJsonKey>;

impl StreamParser {
    fn fault(&mut self, names: &[&str], cause: FaultCause) {
        self.faults.push(StreamEntryFault { place: StreamEntryPath::at(names), cause });
    }

    /// The object at a place, or a fault there.
    fn object<'a>(&mut self, names: &[&str], value: Value<'a>) -> Option<&'a JsonObject> {
        match value.map(Json::object) {
            Ok(Some(object)) => return Some(object),
            Ok(None) => self.fault(names, FaultCause::Type { field: "it", wanted: "an object" }),
            Err(DuplicateJsonKey) => self.fault(names, FaultCause::Twice),
        }
        None
    }

    /// The object in a field. Where the field may be missing, that is no fault.
    fn field<'a>(
        &mut self,
        names: &[&str],
        object: &'a JsonObject,
        field: &'static str,
        must: bool,
    ) -> Option<&'a JsonObject> {
        match object.get(field) {
            Ok(Some(Json::Object(object))) => return Some(object),
            Ok(Some(_)) => self.fault(names, FaultCause::Type { field, wanted: "an object" }),
            Ok(None) if must => self.fault(names, FaultCause::Missing { field }),
            Ok(None) => {}
            Err(DuplicateJsonKey) => self.fault(names, FaultCause::FieldTwice { field }),
        }
        None
    }

    fn architecture(&mut self, name: &str, value: Value<'_>) {
        let at = [name];
        // The stream's own spelling only: with aliases one architecture could stand there twice.
        let Some(architecture) = Architecture::ALL.into_iter().find(|known| known.name() == name) else {
            return self.fault(&at, FaultCause::Architecture { text: shown(name) });
        };
        let Some(object) = self.object(&at, value) else { return };
        let Some(platforms) = self.field(&at, object, "artifacts", false) else { return };
        for (platform, value) in platforms.entries() {
            self.platform(architecture, platform, value);
        }
    }

    fn platform(&mut self, architecture: Architecture, platform: &str, value: Value<'_>) {
        let at = [architecture.name(), platform];
        if !is_name(platform) {
            return self.fault(&at, FaultCause::Name { text: shown(platform) });
        }
        let Some(object) = self.object(&at, value) else { return };
        let release = match text_of(object, "release") {
            Ok(release) if is_name(release) => release,
            Ok(release) => return self.fault(&at, FaultCause::Name { text: shown(release) }),
            Err(cause) => return self.fault(&at, cause),
        };
        let Some(formats) = self.field(&at, object, "formats", true) else { return };
        for (format, value) in formats.entries() {
            let at = [architecture.name(), platform, format];
            if !is_name(format) {
                self.fault(&at, FaultCause::Name { text: shown(format) });
                continue;
            }
            let Some(parts) = self.object(&at, value) else { continue };
            for (part, value) in parts.entries() {
                let at = [architecture.name(), platform, format, part];
                let Some(fields) = self.object(&at, value) else { continue };
                if self.artifacts.len() == ARTIFACTS_MAX {
                    return self.fault(&at, FaultCause::TooMany);
                }
                match artifact(architecture, platform, release, format, part, fields) {
                    Ok(artifact) => self.artifacts.push(artifact),
                    Err(cause) => self.fault(&at, cause),
                }
            }
            for part in missing_parts(format, parts) {
                self.fault(&[architecture.name(), platform, format, part], FaultCause::Missing { field: part });
            }
        }
    }

    /// Entries that cannot all be true are all faults: nothing shows which one is wrong.
    fn contradictions(&mut self) {
        let mut bad: BTreeMap<usize, FaultCause> = BTreeMap::new();
        let (mut by_digest, mut by_location) = (HashMap::new(), HashMap::new());
        for (index, artifact) in self.artifacts.iter().enumerate() {
            let first = *by_digest.entry(artifact.sha256).or_insert(index);
            let other = &self.artifacts[first];
            // The same file may serve several platforms and architectures, but not as something else.
            let same = |a: &Artifact, b: &Artifact| {
                (a.kind, a.part, a.sector_bytes, a.uncompressed_sha256)
                    == (b.kind, b.part, b.sector_bytes, b.uncompressed_sha256)
                    && (a.kind != ArtifactKind::Other || a.format == b.format)
            };
            if !same(artifact, other) {
                bad.insert(first, FaultCause::SameDigest { other: StreamEntryPath::of(artifact) });
                bad.insert(index, FaultCause::SameDigest { other: StreamEntryPath::of(other) });
            }
            let first = *by_location.entry(artifact.location.as_str()).or_insert(index);
            let other = &self.artifacts[first];
            if artifact.sha256 != other.sha256 {
                bad.insert(first, FaultCause::SameLocation { other: StreamEntryPath::of(artifact) });
                bad.insert(index, FaultCause::SameLocation { other: StreamEntryPath::of(other) });
            }
        }
        for (index, cause) in bad.into_iter().rev() {
            let artifact = self.artifacts.remove(index);
            self.faults.push(StreamEntryFault { place: StreamEntryPath::of(&artifact), cause });
        }
    }
}

fn artifact(
    architecture: Architecture,
    platform: &str,
    release: &str,
    format: &str,
    part: &str,
    fields: &JsonObject,
) -> Result<Artifact, FaultCause> {
    let (kind, sector_bytes) = of_format(format);
    let part = match (kind, part) {
        (ArtifactKind::Iso, "disk") => ArtifactPart::Iso,
        (ArtifactKind::Metal | ArtifactKind::Other, "disk") => ArtifactPart::Disk,
        (ArtifactKind::Pxe, "kernel") => ArtifactPart::Kernel,
        (ArtifactKind::Pxe, "initramfs") => ArtifactPart::Initramfs,
        (ArtifactKind::Pxe, "rootfs") => ArtifactPart::Rootfs,
        (ArtifactKind::Metal | ArtifactKind::Iso | ArtifactKind::Pxe | ArtifactKind::Other, _) => {
            return Err(FaultCause::Part { text: shown(part) });
        }
    };
    let location =
        |field, text: &str| ArtifactUrl::parse(text).map_err(|source| FaultCause::Location { field, source });
    let digest =
        |field, text: &str| text.parse::<Sha256>().map_err(|_| FaultCause::Digest { field, text: shown(text) });
    let optional = |field| match text_of(fields, field) {
        Ok(text) => Ok(Some(text)),
        Err(FaultCause::Missing { .. }) => Ok(None),
        Err(cause) => Err(cause),
    };
    Ok(Artifact {
        architecture,
        platform: platform.to_owned(),
        kind,
        format: format.to_owned(),
        part,
        sector_bytes,
        release: release.to_owned(),
        location: location("location", text_of(fields, "location")?)?,
        sha256: digest("sha256", text_of(fields, "sha256")?)?,
        uncompressed_sha256: optional("uncompressed-sha256")?
            .map(|text| digest("uncompressed-sha256", text))
            .transpose()?,
        signature: optional("signature")?.map(|text| location("signature", text)).transpose()?,
    })
}

fn text_of<'a>(object: &'a JsonObject, field: &'static str) -> Result<&'a str, FaultCause> {
    match object.get(field) {
        Ok(Some(Json::Text(text))) => Ok(text),
        Ok(Some(_)) => Err(FaultCause::Type { field, wanted: "a text" }),
        Ok(None) => Err(FaultCause::Missing { field }),
        Err(DuplicateJsonKey) => Err(FaultCause::FieldTwice { field }),
    }
}

/// Parts without which a format is of no use.
fn missing_parts(format: &str, parts: &JsonObject) -> Vec<&'static str> {
    let needed: &[&'static str] = match of_format(format).0 {
        ArtifactKind::Metal | ArtifactKind::Iso => &["disk"],
        ArtifactKind::Pxe => &["kernel", "initramfs", "rootfs"],
        ArtifactKind::Other => &[],
    };
    needed.iter().filter(|part| matches!(parts.get(part), Ok(None))).copied().collect()
}
