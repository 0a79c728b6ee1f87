//! A release of 2 GiB is fetched though its connection stalls, the appliance is killed and the connection is cut: what
//! is here is not fetched twice, and how far it is can be seen. What has not its digest never becomes a release.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use firesteel_lab_image::PackedFormat;
use ring::digest;
use serde_json::Value;

use super::stream;
use crate::files::{OriginFault, OriginFaultKind};
use crate::lab::{Lab, LabConfig};
use crate::manifests;
use crate::progress::{bytes, print_status};

const MIB: u64 = 1 << 20;
const ARTIFACT_BYTES: u64 = 2 << 30;
/// Nothing more comes from here on, until the appliance is killed.
const STALL_AT: u64 = 600 * MIB;
/// The connection ends here, once.
const CUT_AT: u64 = 1400 * MIB;
/// Fetched a second time at most at each of the two: what was under way when it happened.
const AGAIN_BYTES_MAX: u64 = 64 * MIB;
const WRONG: &str = "wrong";

pub(super) async fn import(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let file = lab.folder().join("large.raw");
    let sha256 = {
        let file = file.clone();
        tokio::task::spawn_blocking(move || write_artifact(&file, ARTIFACT_BYTES))
            .await
            .context("writing an artifact")??
    };
    let faults = vec![fault(OriginFaultKind::Stall, STALL_AT), fault(OriginFaultKind::Cut, CUT_AT)];
    let source = stream::publish_artifact(lab, &file, &sha256, faults)?;
    let artifact_url = source.url.clone();
    let disk = stream::ReleaseDiskImage { format: "raw", source };
    let url = stream::publish(lab, stream::STREAM, "1", &disk)?;
    lab.apply(&manifests::yaml(&[stream::object(stream::STREAM, &url, None)])).await?;

    let reached = STALL_AT - AGAIN_BYTES_MAX;
    let far = |object: &Value| stream::artifact(object)["doneBytes"].as_u64().unwrap_or(0) >= reached;
    let object = lab.wait_object("bootimagestreams", stream::STREAM, "the import to come to its stall", far).await?;
    let artifact = stream::artifact(&object);
    ensure!(
        artifact["state"] == "fetching" && artifact["totalBytes"] == ARTIFACT_BYTES,
        "the progress is missing: {artifact}"
    );
    print_status(&format!(
        "the import shows {} of {}; now the appliance is killed",
        bytes(done(artifact)),
        bytes(ARTIFACT_BYTES)
    ));
    lab.appliance.crash_and_restart().await?;
    stream::wait_stamped(lab, stream::STREAM, "1").await?;
    check_resumed(&lab.starts(&artifact_url))?;
    print_status("the import went on where it was, after the kill and after the cut, and was verified");

    wrong_digest(lab, config).await
}

fn done(artifact: &Value) -> u64 {
    artifact["doneBytes"].as_u64().unwrap_or(0)
}

fn fault(kind: OriginFaultKind, at: u64) -> OriginFault {
    OriginFault { kind, at, times: Some(1), bytes: 1, code: 503 }
}

/// Whether what was asked for is the rest each time: first all, then from the stall on, then from the cut on.
fn check_resumed(starts: &[u64]) -> anyhow::Result<()> {
    ensure!(starts.first() == Some(&0) && starts.len() >= 3, "the origin was asked for {starts:?}");
    let of_place = |at: u64| starts[1..].iter().filter(|start| (at - AGAIN_BYTES_MAX..=at).contains(start)).count();
    ensure!(of_place(STALL_AT) > 0, "the import did not go on at its stall ({STALL_AT}): {starts:?}");
    ensure!(of_place(CUT_AT) > 0, "the import did not go on at its cut ({CUT_AT}): {starts:?}");
    ensure!(starts[1..].iter().all(|start| *start >= STALL_AT - AGAIN_BYTES_MAX), "it began again: {starts:?}");
    Ok(())
}

/// A good image that the metadata state another digest of.
async fn wrong_digest(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = config.artefacts.image(PackedFormat::Zst)?;
    let source = stream::publish_artifact(lab, image, &"0".repeat(64), Vec::new())?;
    let url = stream::publish(lab, WRONG, "1", &stream::ReleaseDiskImage::zst(source))?;
    let group = stream::group(WRONG, WRONG, serde_json::json!({"image": {"stream": WRONG}}));
    lab.apply(&manifests::yaml(&[stream::policy(), stream::object(WRONG, &url, None), group])).await?;
    let failed = |object: &Value| stream::artifact(object)["state"] == "failed";
    let object = lab.wait_object("bootimagestreams", WRONG, "the digest to be found wrong", failed).await?;
    let message = stream::artifact(&object)["message"].as_str().unwrap_or_default().to_owned();
    ensure!(message.contains("sha256"), "the message does not say what is wrong: {message:?}");
    lab.appliance.crash_and_restart().await?;
    let object = lab.wait_object("bootimagestreams", WRONG, "the digest to be found wrong again", failed).await?;
    let status = &object["status"];
    ensure!(status["stamped"] != true, "a release with a wrong digest is stamped");
    ensure!(status["release"].as_str().unwrap_or("").is_empty(), "a release with a wrong digest is given to hosts");
    let group = lab.object("hostgroups", WRONG).await?;
    for field in ["golden", "current"] {
        ensure!(group["status"][field].is_null(), "the group's {field} image is one with a wrong digest");
    }
    print_status(&format!("a wrong digest is no release: {message}"));
    Ok(())
}

/// Bytes that no compression makes fewer, and their digest.
fn write_artifact(path: &Path, length: u64) -> anyhow::Result<String> {
    let mut file = BufWriter::new(File::create(path).context("making an artifact")?);
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut state = length;
    let mut left = length;
    while left > 0 {
        let mut piece = firesteel_lab_image::noise(&mut state);
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX).min(piece.len()));
        if left == length {
            // A boot sector: bytes that mean nothing are no image.
            piece[510..512].copy_from_slice(&[0x55, 0xaa]);
        }
        hash.update(&piece);
        file.write_all(&piece).context("writing an artifact")?;
        left -= piece.len() as u64;
    }
    file.flush().context("writing an artifact")?;
    Ok(hex::encode(hash.finish()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_tells_whether_it_was_resumed() {
        let near = |at: u64| at - 3 * MIB;
        assert!(check_resumed(&[0, near(STALL_AT), near(CUT_AT)]).is_ok());
        assert!(check_resumed(&[0, STALL_AT, STALL_AT, CUT_AT]).is_ok());
        for wrong in [
            &[0, 0, near(CUT_AT)][..],
            &[0, near(STALL_AT), 0],
            &[0, near(STALL_AT)],
            &[0, near(STALL_AT), near(CUT_AT), 0],
            &[],
        ] {
            assert!(check_resumed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_artifact_has_its_length_and_its_digest() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sha256 = write_artifact(file.path(), 3 * MIB + 5).unwrap();
        let written = std::fs::read(file.path()).unwrap();
        assert_eq!(written.len() as u64, 3 * MIB + 5);
        assert_eq!(hex::encode(digest::digest(&digest::SHA256, &written)), sha256);
    }
}
