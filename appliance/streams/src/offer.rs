//! What a stream offers now, of what is wanted of it. Pure: a document and a spec in; releases, and what is wrong, out.

use std::collections::BTreeMap;

use firesteel_facts::Architecture;
use firesteel_images::catalogue::{
    self, Artifact, ArtifactKind, BootImages, NoChoice, SourceDocument, StampState, StreamError, StreamMetadata,
};
use firesteel_resources::boot_image_stream::BootImageStreamSpec;

/// Sector sizes that images are made for, the usual one first.
const SECTORS: [u32; 2] = [512, 4096];
/// Faults that a status names; the others are counted.
const FAULTS_TOLD: usize = 5;

/// Why a document offers nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OfferError {
    #[error(transparent)]
    Document(#[from] StreamError),
    #[error("the metadata is of the stream {found}, and spec.stream says {wanted}: correct one of them")]
    OtherStream { wanted: String, found: String },
    #[error("the list has no stream {wanted}; it has {has}: correct spec.stream")]
    NoStream { wanted: String, has: String },
    #[error("the list has the streams {has}: say in spec.stream which of them this is")]
    WhichStream { has: String },
}

/// What a source offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceOffer {
    /// The stream's own name.
    pub(crate) stream: String,
    pub(crate) last_modified: String,
    /// The artifacts by their release.
    pub(crate) releases: BTreeMap<String, Vec<Artifact>>,
    /// Architectures of which something that is wanted cannot be read: what was known of them stays.
    pub(crate) unreadable: Vec<Architecture>,
    /// What is wrong with what is wanted, for people.
    pub(crate) faults: Vec<String>,
    /// Why the source itself says that nothing of it is to be used yet.
    pub(crate) held: Option<String>,
}

impl SourceOffer {
    pub(crate) fn release_of(&self, architecture: &str) -> Option<&str> {
        let has = |artifacts: &Vec<Artifact>| artifacts.iter().any(|one| one.architecture.name() == architecture);
        self.releases.iter().find(|(_, artifacts)| has(artifacts)).map(|(release, _)| release.as_str())
    }

    pub(crate) fn is_unreadable(&self, architecture: &str) -> bool {
        self.unreadable.iter().any(|known| known.name() == architecture)
    }
}

/// Reads a document. `fleet`: the architectures that are wanted where the spec names none.
pub(crate) fn read(
    bytes: &[u8],
    spec: &BootImageStreamSpec,
    fleet: &[Architecture],
) -> Result<SourceOffer, OfferError> {
    let (stream, held) = match catalogue::read(bytes)? {
        SourceDocument::Stream(stream) if spec.stream.is_empty() || spec.stream == stream.name => (stream, None),
        SourceDocument::Stream(stream) => {
            return Err(OfferError::OtherStream { wanted: spec.stream.clone(), found: stream.name });
        }
        SourceDocument::BootImages(list) => {
            let held = held(&list);
            (of_list(list, &spec.stream)?, held)
        }
    };
    Ok(offer(&stream, spec, fleet, held))
}

/// One stream of a golden list: the one that is named, or the only one.
fn of_list(list: BootImages, wanted: &str) -> Result<StreamMetadata, OfferError> {
    let has = list.streams.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut streams = list.streams;
    let found = match (wanted, streams.len()) {
        ("", 1) => streams.pop_first().map(|(_, stream)| stream),
        ("", _) => return Err(OfferError::WhichStream { has }),
        (wanted, _) => streams.remove(wanted),
    };
    Ok(found.ok_or_else(|| OfferError::NoStream { wanted: wanted.to_owned(), has })??)
}

/// Upstream's list is of no use before a node was seen running its release (S1-2.2).
fn held(list: &BootImages) -> Option<String> {
    match &list.stamp {
        StampState::Stamped { .. } => None,
        StampState::Missing => Some("the list is not stamped: no node of its release was seen running yet".to_owned()),
        StampState::OtherRelease { stamped } => {
            Some(format!("the list is of release {}, and stamped for {stamped}", list.release_version))
        }
    }
}

fn offer(
    stream: &StreamMetadata,
    spec: &BootImageStreamSpec,
    fleet: &[Architecture],
    held: Option<String>,
) -> SourceOffer {
    let asked: Vec<Architecture> = spec.architectures.iter().filter_map(|name| name.parse().ok()).collect();
    let wanted = if asked.is_empty() { fleet } else { asked.as_slice() };
    let mut offer = SourceOffer {
        stream: stream.name.clone(),
        last_modified: stream.last_modified.clone(),
        held,
        ..SourceOffer::default()
    };
    let mut faults = Vec::new();
    for architecture in wanted.iter().copied() {
        let (found, missing) = chosen(stream, architecture, &spec.formats());
        let is_there = stream.artifacts.iter().any(|one| one.architecture == architecture && is_of_metal(one));
        let is_faulty = stream.faults.iter().any(|fault| fault.place.covers(architecture, METAL));
        if !missing.is_empty() && is_faulty {
            offer.unreadable.push(architecture);
        }
        // An architecture that only some host has may be another stream's.
        if !asked.is_empty() || is_there || is_faulty {
            faults.extend(missing);
        }
        for artifact in found {
            offer.releases.entry(artifact.release.clone()).or_default().push(artifact.clone());
        }
    }
    let unlisted = faults.len().saturating_sub(FAULTS_TOLD);
    faults.truncate(FAULTS_TOLD);
    if unlisted > 0 {
        faults.push(format!("and {unlisted} more"));
    }
    offer.faults = faults;
    offer
}

const METAL: &str = "metal";

fn is_of_metal(artifact: &Artifact) -> bool {
    artifact.platform == METAL && artifact.kind != ArtifactKind::Other
}

/// What of a stream is wanted for an architecture, and what of that it does not have.
fn chosen<'a>(
    stream: &'a StreamMetadata,
    architecture: Architecture,
    formats: &[&str],
) -> (Vec<&'a Artifact>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for format in formats {
        let chosen: Result<Vec<&Artifact>, NoChoice> = match *format {
            "metal" => {
                let forms = SECTORS.map(|sectors| catalogue::disk_image(stream, architecture, sectors));
                let is_any = forms.iter().any(Result::is_ok);
                for (sectors, form) in SECTORS.into_iter().zip(&forms) {
                    // A stream need not have both forms; one that has it wrong shows as a fault.
                    if let Err(error) = form
                        && is_any
                        && stream.is_faulty(architecture, METAL, ArtifactKind::Metal, sectors)
                    {
                        missing.push(error.to_string());
                    }
                }
                let [plain, four_k] = forms;
                match (plain, four_k) {
                    (Err(plain), Err(_)) => Err(plain),
                    (plain, four_k) => Ok(plain.into_iter().chain(four_k).collect()),
                }
            }
            "pxe" => catalogue::pxe(stream, architecture).map(|pxe| vec![pxe.kernel, pxe.initramfs, pxe.rootfs]),
            "iso" => catalogue::iso(stream, architecture).map(|iso| vec![iso]),
            _ => Ok(Vec::new()),
        };
        match chosen {
            Ok(artifacts) => found.extend(artifacts),
            Err(error) => missing.push(error.to_string()),
        }
    }
    (found, missing)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    fn file(name: &str) -> Value {
        let sha256 = hex(name);
        json!({"location": format!("https://a.example/{name}"), "sha256": sha256})
    }

    fn hex(name: &str) -> String {
        firesteel_facts::Sha256::of(name.as_bytes()).to_string()
    }

    fn metal(release: &str, formats: Value) -> Value {
        json!({"artifacts": {"metal": {"release": release, "formats": formats}}})
    }

    fn stream(architectures: Value) -> Vec<u8> {
        json!({"stream": "stable", "metadata": {"last-modified": "x"}, "architectures": architectures})
            .to_string()
            .into_bytes()
    }

    fn disks(tag: &str) -> Value {
        json!({"raw.gz": {"disk": file(&format!("{tag}.raw.gz"))}, "4k.raw.gz": {"disk": file(&format!("{tag}.4k.raw.gz"))}})
    }

    #[test]
    fn both_sector_sizes_of_the_wanted_architectures_are_taken() {
        let both = stream(json!({"x86_64": metal("2", disks("x")), "aarch64": metal("1", disks("a"))}));
        let spec = BootImageStreamSpec::default();
        let offer = read(&both, &spec, &[Architecture::X86_64]).unwrap();
        assert_eq!((offer.stream.as_str(), offer.last_modified.as_str()), ("stable", "x"));
        let sectors: Vec<u32> = offer.releases["2"].iter().map(|artifact| artifact.sector_bytes).collect();
        assert_eq!((offer.releases.len(), sectors), (1, vec![512, 4096]));
        let spec = BootImageStreamSpec { architectures: vec!["aarch64".into(), "x86_64".into()], ..spec };
        let offer = read(&both, &spec, &[]).unwrap();
        assert_eq!(offer.releases.keys().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((offer.release_of("aarch64"), offer.release_of("s390x")), (Some("1"), None));
        assert!(offer.faults.is_empty());
    }

    #[test]
    fn what_is_asked_for_and_missing_is_told_and_the_rest_is_taken() {
        let only_disk = stream(json!({"x86_64": metal("2", disks("x"))}));
        let spec = BootImageStreamSpec {
            architectures: vec!["x86_64".into(), "s390x".into()],
            formats: vec!["metal".into(), "iso".into()],
            ..BootImageStreamSpec::default()
        };
        let offer = read(&only_disk, &spec, &[]).unwrap();
        assert_eq!(offer.releases["2"].len(), 2);
        assert_eq!(offer.faults.len(), 3, "{:?}", offer.faults);
        assert!(offer.unreadable.is_empty(), "what was left out is no fault of an entry");
        // What no object asks for is no fault.
        let fleet = [Architecture::X86_64, Architecture::Aarch64];
        assert!(read(&only_disk, &BootImageStreamSpec::default(), &fleet).unwrap().faults.is_empty());
    }

    #[test]
    fn an_entry_that_cannot_be_read_takes_nothing_back() {
        let broken = stream(json!({"x86_64": metal("2", json!({"raw.gz": {"disk": {"location": "file:///x"}}}))}));
        let offer = read(&broken, &BootImageStreamSpec::default(), &[Architecture::X86_64]).unwrap();
        assert!(offer.releases.is_empty() && offer.is_unreadable("x86_64"));
        assert!(offer.faults[0].contains("raw.gz"), "{:?}", offer.faults);
    }

    /// The image for disks of 4 KiB sectors was gone from a release by a slip of its publisher, and nobody was told.
    #[test]
    fn of_two_forms_the_faulty_one_is_told_and_the_other_one_taken() {
        let read = |formats: Value| {
            let bytes = stream(json!({"x86_64": metal("2", formats)}));
            super::read(&bytes, &BootImageStreamSpec::default(), &[Architecture::X86_64]).unwrap()
        };
        let mut formats = disks("x");
        formats["4k.raw.gz"]["disk"]["sha256"] = json!("no digest");
        let offer = read(formats.clone());
        assert_eq!(offer.releases["2"].len(), 1);
        assert!(offer.is_unreadable("x86_64") && offer.faults[0].contains("4k.raw.gz"), "{:?}", offer.faults);
        assert_eq!(offer.faults.len(), 1);
        // One that it does not have is no fault, whatever else is wrong.
        formats.as_object_mut().unwrap().remove("4k.raw.gz");
        formats["iso"] = json!({"disk": {"location": "file:///x"}});
        let offer = read(formats);
        assert!(offer.faults.is_empty() && !offer.is_unreadable("x86_64"), "{:?}", offer.faults);
    }

    #[test]
    fn a_stream_of_another_name_is_not_this_one() {
        let bytes = stream(json!({}));
        let spec = |name: &str| BootImageStreamSpec { stream: name.into(), ..BootImageStreamSpec::default() };
        assert!(read(&bytes, &spec("stable"), &[]).is_ok());
        assert!(matches!(read(&bytes, &spec("next"), &[]), Err(OfferError::OtherStream { .. })));
        assert!(matches!(read(b"{", &spec(""), &[]), Err(OfferError::Document(_))));
    }

    #[test]
    fn a_golden_list_waits_for_its_stamp() {
        let one = String::from_utf8(stream(json!({"x86_64": metal("2", disks("x"))}))).unwrap();
        let list = |streams: Value, stamp: Option<&str>| {
            let mut data = json!({"streams": streams.to_string(), "releaseVersion": "4.21.0"});
            if let Some(stamp) = stamp {
                data["MCOReleaseImageVersion"] = json!(stamp);
                data["MCOVersionHash"] = json!("abc");
            }
            json!({"kind": "ConfigMap", "data": data}).to_string().into_bytes()
        };
        let parsed: Value = serde_json::from_str(&one).unwrap();
        let single = json!({"rhel-9": parsed});
        let read = |bytes: &[u8], name: &str| {
            let spec = BootImageStreamSpec { stream: name.into(), ..BootImageStreamSpec::default() };
            super::read(bytes, &spec, &[Architecture::X86_64])
        };
        assert!(read(&list(single.clone(), Some("4.21.0")), "").unwrap().held.is_none());
        assert!(read(&list(single.clone(), None), "rhel-9").unwrap().held.unwrap().contains("not stamped"));
        assert!(read(&list(single.clone(), Some("4.20.0")), "").unwrap().held.unwrap().contains("4.20.0"));
        let two = json!({"rhel-9": parsed, "rhel-10": parsed});
        assert!(matches!(read(&list(two.clone(), None), ""), Err(OfferError::WhichStream { .. })));
        assert!(matches!(read(&list(two, None), "rhel-8"), Err(OfferError::NoStream { .. })));
    }
}
