//! A stream of the lab's own images: its metadata as Fedora CoreOS publishes such, on the lab's file server, and the
//! objects that follow it.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::files::OriginFault;
use crate::lab::Lab;
use crate::manifests::{self, ManifestImage};

/// The name of the object, and the stream's own.
pub(super) const STREAM: &str = "lab";
/// The shortest that the object takes.
const REFRESH_SECONDS: u64 = 60;
/// Where the file lies on the file server.
const FOLDER: &str = "streams";

/// One disk image of a release.
#[derive(Clone, Debug)]
pub(super) struct ReleaseDiskImage {
    /// The format as the stream names it: `raw.zst`.
    pub(super) format: &'static str,
    pub(super) source: ManifestImage,
}

impl ReleaseDiskImage {
    pub(super) fn zst(source: ManifestImage) -> Self {
        Self { format: "raw.zst", source }
    }
}

/// Publishes the stream with one release, in place of any before, and says where it is.
pub(super) fn publish(lab: &Lab, stream: &str, release: &str, disk: &ReleaseDiskImage) -> anyhow::Result<String> {
    let folder = lab.folder().join(FOLDER);
    fs::create_dir_all(&folder).context("making a folder for streams")?;
    let file = folder.join(format!("{stream}.json"));
    fs::write(&file, metadata(stream, release, disk).to_string()).context("writing a stream")?;
    Ok(lab.publish_file(FOLDER, &file, Vec::new())?)
}

/// Publishes a file as an artifact, with faults of its origin. Its digest is as said, true or not.
pub(super) fn publish_artifact(
    lab: &Lab,
    file: &Path,
    sha256: &str,
    faults: Vec<OriginFault>,
) -> anyhow::Result<ManifestImage> {
    let url = lab.publish_file("artifacts", file, faults)?;
    Ok(ManifestImage { url, sha256: sha256.to_owned(), format: "raw" })
}

fn metadata(stream: &str, release: &str, disk: &ReleaseDiskImage) -> Value {
    let artifact = json!({"location": disk.source.url, "sha256": disk.source.sha256});
    json!({
        "stream": stream,
        "metadata": {"last-modified": "2026-01-01T00:00:00Z"},
        "architectures": {"x86_64": {"artifacts": {"metal": {
            "release": release,
            "formats": {disk.format: {"disk": artifact}},
        }}}},
    })
}

/// The object that follows it. `hand_off`: one of the kind's own words; without it the image tells.
pub(super) fn object(stream: &str, url: &str, hand_off: Option<&str>) -> Value {
    let mut spec = json!({
        "source": {"url": url},
        "stream": stream,
        "architectures": ["x86_64"],
        "formats": ["metal"],
        "refreshSeconds": REFRESH_SECONDS,
    });
    if let Some(form) = hand_off {
        spec["handOff"] = json!(form);
    }
    json!({
        "apiVersion": "firesteel.dev/v1alpha1", "kind": "BootImageStream",
        "metadata": {"name": stream}, "spec": spec,
    })
}

/// The policy under which all groups of hosts follow their streams.
pub(super) fn policy() -> Value {
    json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
        "metadata": {"name": "cluster"},
        "spec": {"managedBootImages": {"machineManagers": [
            {"resource": "hostgroups", "apiGroup": "firesteel.dev", "selection": {"mode": "All"}},
        ]}},
    })
}

/// A group of the hosts with the label `role`.
pub(super) fn group(name: &str, role: &str, rest: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"role": role}}, "architecture": "x86_64"});
    if let (Value::Object(spec), Value::Object(rest)) = (&mut spec, rest) {
        spec.extend(rest);
    }
    json!({
        "apiVersion": "firesteel.dev/v1alpha1", "kind": "HostGroup",
        "metadata": {"name": name, "namespace": manifests::NAMESPACE}, "spec": spec,
    })
}

/// Waits until this release is the newest that hosts may get.
pub(super) async fn wait_stamped(lab: &Lab, stream: &str, release: &str) -> anyhow::Result<Value> {
    let what = format!("release {release} to be stamped");
    let is_so = |object: &Value| object["status"]["stamped"] == true && object["status"]["release"] == release;
    Ok(lab.wait_object("bootimagestreams", stream, &what, is_so).await?)
}

/// The first artifact of the newest release, as the object tells.
pub(super) fn artifact(stream: &Value) -> &Value {
    &stream["status"]["releases"][0]["artifacts"][0]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_is_what_the_product_reads() {
        let sha256 = "ab".repeat(32);
        let source = ManifestImage { url: "http://10.77.0.1:1/a.raw.zst".to_owned(), sha256, format: "raw" };
        let text = metadata(STREAM, "2", &ReleaseDiskImage::zst(source)).to_string();
        let read = firesteel_images::catalogue::read_stream(text.as_bytes()).unwrap();
        assert_eq!((read.name.as_str(), read.artifacts.len(), read.faults.len()), (STREAM, 1, 0));
        assert_eq!((read.artifacts[0].release.as_str(), read.artifacts[0].sector_bytes), ("2", 512));
    }

    #[test]
    fn a_group_has_its_selector_and_the_rest() {
        let group = group("web", "web", json!({"image": {"stream": STREAM}, "architecture": "aarch64"}));
        assert_eq!(group["spec"]["selector"]["matchLabels"]["role"], "web");
        assert_eq!(
            (&group["spec"]["image"]["stream"], &group["spec"]["architecture"]),
            (&json!("lab"), &json!("aarch64"))
        );
    }
}
