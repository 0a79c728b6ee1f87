//! Which images objects refer to: none of them is ever collected (S1-11). Pure.
//!
//! Whatever in the spec or the status of a host, a claim, a set of machines, a machine of Cluster API, a host's journal
//! or the Provisioning object looks like the name of an image counts: too much of it costs room, too little an image in
//! use. Templates that sets of Cluster API name are of no kind that is here: a template counts where it stands in the
//! set itself. A group counts with what it gives, gave before, tries and may be restored to at once; its history is a
//! record of the past. A stream counts with what it follows and with what is golden until that is here.

use std::collections::BTreeSet;

use firesteel_facts::{Architecture, Sha256};
use firesteel_resources::host_group::{CanaryState, ImageReference, Restore};
use firesteel_resources::provisioning::digest_in_url;
use firesteel_resources::{BootImageStream, HostGroup};
use serde_json::Value;

use crate::depot::{ImageName, InUse};
use crate::releases;

/// Kinds whose objects name images in a spec or a status, by group and kind.
pub const KINDS: [(&str, &str); 7] = [
    ("metal3.io", "BareMetalHost"),
    ("metal3.io", "HostClaim"),
    ("metal3.io", "Provisioning"),
    ("firesteel.dev", "HostJournal"),
    ("machine.openshift.io", "MachineSet"),
    ("cluster.x-k8s.io", "MachineSet"),
    ("cluster.x-k8s.io", "Machine"),
];
/// Nothing that is stored is nested deeper.
const DEPTH_MAX: usize = 64;
/// The part of an artifact that is written to disks.
const DISK: &str = "disk";

/// What any object refers to, outside of its metadata. A network that is deleted takes its OS image along: hosts that
/// are written with it name it themselves.
#[must_use]
pub fn of_object(object: &Value) -> InUse {
    let mut found = InUse::default();
    if object["kind"] == "Provisioning" && !object["metadata"]["deletionTimestamp"].is_null() {
        return found;
    }
    for (part, value) in object.as_object().into_iter().flatten() {
        if part != "metadata" {
            walk(value, DEPTH_MAX, &mut found);
        }
    }
    found
}

fn walk(value: &Value, depth: usize, found: &mut InUse) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::String(text) => {
            found.digests.extend(text.parse::<Sha256>().ok().or_else(|| digest_in_url(text)));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, depth, found)),
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            if !text("url").is_empty() {
                found.images.insert(ImageName { url: text("url").to_owned(), checksum: text("checksum").to_owned() });
            }
            fields.values().for_each(|field| walk(field, depth, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add(found: &mut InUse, url: &str, digest: &str) {
    found.digests.extend(digest.parse::<Sha256>());
    if !url.is_empty() {
        found.images.insert(ImageName { url: url.to_owned(), checksum: digest.to_owned() });
    }
}

/// What a group refers to.
#[must_use]
pub fn of_group(group: &HostGroup) -> InUse {
    let mut found = InUse::default();
    let spec = &group.spec;
    for ImageReference { url, digest, .. } in may_give(group) {
        add(&mut found, url, digest);
    }
    add(&mut found, &spec.image.url, &spec.image.checksum);
    add(&mut found, "", &spec.image.digest);
    found
}

/// What a group pins by its release alone: every form of it.
fn pinned<'a>(group: &'a HostGroup, stream: &str) -> Option<&'a str> {
    let image = &group.spec.image;
    (image.stream == stream && !image.release.is_empty()).then_some(image.release.as_str())
}

/// What a group may give now. A group names the form for sectors of 512 bytes; which form a host gets tells its disk.
fn may_give(group: &HostGroup) -> Vec<&ImageReference> {
    let (spec, status) = (&group.spec, &group.status);
    let restored = spec.restore.map(|Restore { entry }| entry);
    let restored = status.history.iter().find(|known| Some(known.entry) == restored).map(|known| &known.image);
    // One that halted is remembered; it is given where it is golden, pinned or restored still.
    let tried = status.canary.as_ref().filter(|canary| canary.state != CanaryState::Halted);
    let canary = tried.map(|canary| &canary.image);
    let of_status = [status.golden.as_ref(), status.current.as_ref(), status.previous.as_ref(), canary, restored];
    of_status.into_iter().flatten().collect()
}

/// What a stream itself refers to, and what of it groups pin by name, and the other forms of what they give.
#[must_use]
pub fn of_stream(stream: &BootImageStream, groups: &[HostGroup]) -> InUse {
    let mut found = InUse::default();
    let of_releases = &stream.status.releases;
    let pins: Vec<&str> = groups.iter().filter_map(|group| pinned(group, &stream.metadata.name)).collect();
    let of_pins = of_releases.iter().filter(|release| pins.contains(&release.release.as_str()));
    let given: BTreeSet<&str> = groups
        .iter()
        .flat_map(may_give)
        .filter(|image| image.stream == stream.metadata.name)
        .map(|image| image.release.as_str())
        .collect();
    let of_given = of_releases.iter().filter(|release| given.contains(release.release.as_str()));
    let disks = of_given.flat_map(|release| &release.artifacts).filter(|artifact| artifact.part == DISK);
    let of_pins = of_pins.flat_map(|release| &release.artifacts);
    let artifacts = releases::in_use(of_releases).into_iter().chain(of_pins).chain(disks);
    for artifact in artifacts {
        add(&mut found, "", &artifact.sha256);
        add(&mut found, "", &artifact.raw_sha256);
    }
    found
}

/// The architecture of a host by its hardware or its spec.
#[must_use]
pub fn architecture_of(object: &Value) -> Option<Architecture> {
    let places = ["/spec/hardware/cpu/arch", "/spec/architecture"];
    places.iter().find_map(|place| object.pointer(place)?.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_resources::host_group::{Canary, HistoryEntry};
    use serde_json::json;

    use super::*;

    fn digest(name: &str) -> Sha256 {
        Sha256::of(name.as_bytes())
    }

    fn reference(name: &str) -> ImageReference {
        ImageReference {
            digest: digest(name).to_string(),
            url: format!("http://a/{name}"),
            ..ImageReference::default()
        }
    }

    #[test]
    fn what_a_host_wants_has_and_is_given_is_in_use() {
        let host = json!({
            "metadata": {"name": "a", "annotations": {"x": digest("note").to_string()}},
            "spec": {"image": {"url": "http://a/disk", "checksum": digest("wanted").to_string()}},
            "status": {"provisioning": {"image": {"url": "http://b/disk", "checksum": "http://b/SHA256SUMS"}}},
        });
        let found = of_object(&host);
        assert!(found.digests.contains(&digest("wanted")) && !found.digests.contains(&digest("note")));
        let by_file = ImageName { url: "http://b/disk".into(), checksum: "http://b/SHA256SUMS".into() };
        assert!(found.images.contains(&by_file) && found.images.len() == 2);
        let journal = json!({"memory": {"plan": {"steps": [{"write": {"raw": digest("given").to_string()}}]}}});
        assert!(of_object(&journal).digests.contains(&digest("given")));
        let url = format!("https://a/os.qcow2.gz?sha256={}", digest("cached"));
        let mut provisioning = json!({"kind": "Provisioning", "spec": {"provisioningOSDownloadURL": url}});
        assert!(of_object(&provisioning).digests.contains(&digest("cached")));
        provisioning["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(of_object(&provisioning), InUse::default(), "it takes its image along");
    }

    #[test]
    fn a_group_keeps_what_it_may_give_and_not_its_past() {
        let mut group = HostGroup::default();
        group.status.golden = Some(reference("golden"));
        group.status.current = Some(reference("current"));
        group.status.previous = Some(reference("previous"));
        group.status.canary = Some(Canary { image: reference("canary"), ..Canary::default() });
        let entry = |entry, name| HistoryEntry { entry, image: reference(name), ..HistoryEntry::default() };
        group.status.history = vec![entry(1, "old"), entry(2, "restored")];
        group.spec.restore = Some(Restore { entry: 2 });
        group.spec.image.digest = digest("pinned").to_string();
        let found = of_group(&group).digests;
        for name in ["golden", "current", "previous", "canary", "restored", "pinned"] {
            assert!(found.contains(&digest(name)), "{name}");
        }
        assert!(!found.contains(&digest("old")));
        if let Some(canary) = &mut group.status.canary {
            canary.state = CanaryState::Halted;
        }
        assert!(!of_group(&group).digests.contains(&digest("canary")), "a halt may be remembered for ever");
    }

    #[test]
    fn a_stream_keeps_what_it_follows_what_is_golden_and_what_is_pinned() {
        let release = |name: &str, stamped: bool| {
            let artifact = json!({"architecture": "x86_64", "platform": "metal", "format": "metal", "part": "disk",
                "sectorBytes": 512, "location": "l", "sha256": digest(name).to_string(), "signature": "none",
                "state": if stamped { "verified" } else { "fetching" }});
            let at = stamped.then_some("2026-01-01T00:00:00Z");
            json!({"release": name, "seenAt": "2026-01-01T00:00:00Z", "withdrawn": false, "stampedAt": at,
                   "artifacts": [artifact]})
        };
        let releases = [release("4", false), release("3", true), release("2", true), release("1", true)];
        let stream: BootImageStream =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "status": {"releases": releases}})).unwrap();
        let mut group = HostGroup::default();
        (group.spec.image.stream, group.spec.image.release) = ("s".into(), "1".into());
        let found = of_stream(&stream, &[group]).digests;
        let kept: Vec<bool> = ["4", "3", "2", "1"].iter().map(|name| found.contains(&digest(name))).collect();
        assert_eq!(kept, [true, true, false, true]);
    }

    #[test]
    fn a_release_that_a_group_gives_is_kept_in_the_forms_for_all_disks() {
        let artifact = |name: &str, part: &str, sectors: u32| {
            json!({"architecture": "x86_64", "platform": "metal", "format": "metal", "part": part, "sectorBytes": sectors,
                   "location": "l", "sha256": digest(name).to_string(), "signature": "none", "state": "verified"})
        };
        let release = |name: &str| {
            let artifacts = [
                artifact(name, "disk", 512),
                artifact(&format!("{name}-4k"), "disk", 4096),
                artifact(&format!("{name}-kernel"), "kernel", 0),
            ];
            json!({"release": name, "seenAt": "2026-01-01T00:00:00Z", "withdrawn": false,
                   "stampedAt": "2026-01-01T00:00:00Z", "artifacts": artifacts})
        };
        let stream: BootImageStream = serde_json::from_value(
            json!({"metadata": {"name": "s"}, "status": {"releases": [release("2"), release("1")]}}),
        )
        .unwrap();
        let mut group = HostGroup::default();
        assert!(!of_stream(&stream, &[group.clone()]).digests.contains(&digest("1-4k")), "it is superseded");
        group.status.current = Some(ImageReference { stream: "s".into(), release: "1".into(), ..reference("1") });
        let found = of_stream(&stream, &[group]).digests;
        assert!(found.contains(&digest("1-4k")) && !found.contains(&digest("1-kernel")));
    }

    #[test]
    fn the_architecture_is_that_of_the_hardware() {
        let of = |object: &Value| architecture_of(object).map(Architecture::name);
        assert_eq!(of(&json!({"spec": {"hardware": {"cpu": {"arch": "x86_64"}}}})), Some("x86_64"));
        assert_eq!(of(&json!({"spec": {"architecture": "arm64"}})), Some("aarch64"));
        assert_eq!(of(&json!({"spec": {"architecture": "vax"}})), None);
    }
}
