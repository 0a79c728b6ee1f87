//! An appliance, a web server, and a stream between them.

use std::io::Write as _;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use firesteel_facts::Sha256;
use firesteel_tests::appliance::Appliance;
use serde_json::{Value, json};

use crate::file_server::{File, FileServer};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
/// Only what never comes is waited for so long.
const PATIENCE: Duration = Duration::from_secs(240);

/// The image of a disk that compresses like that of a system.
pub(crate) fn disk(mib: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0_u8; mib << 20];
    let mut state = 0x9e37_79b9_u32 ^ (u32::from(seed) << 8);
    for chunk in bytes.chunks_mut(3) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        chunk[0] = state.to_be_bytes()[0];
    }
    // The signature of a boot sector: bytes that mean nothing are no image.
    (bytes[510], bytes[511]) = (0x55, 0xaa);
    bytes
}

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// One file of a stream's metadata.
pub(crate) fn file(url: &str, sha256: Sha256, uncompressed: Option<Sha256>) -> Value {
    let mut file = json!({"location": url, "sha256": sha256.to_string()});
    if let Some(sha256) = uncompressed {
        file["uncompressed-sha256"] = json!(sha256.to_string());
    }
    file
}

/// Metadata with these formats for the architecture of this machine.
pub(crate) fn metadata(release: &str, formats: &Value) -> Vec<u8> {
    let metal = json!({"metal": {"release": release, "formats": formats}});
    let architecture = std::env::consts::ARCH;
    json!({"stream": "stable", "architectures": {architecture: {"artifacts": metal}}}).to_string().into_bytes()
}

/// A release with one disk image, on a server.
pub(crate) fn publish(server: &FileServer, release: &str, mib: usize) -> (Vec<u8>, Sha256) {
    let image = disk(mib, 7);
    let packed = gzip(&image);
    let url = server.put(&format!("/{release}.raw.gz"), File::of(&packed));
    let raw = Sha256::of(&image);
    let formats = json!({"raw.gz": {"disk": file(&url, Sha256::of(&packed), Some(raw))}});
    server.put("/stable.json", File::of(&metadata(release, &formats)));
    (packed, raw)
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

pub(crate) fn output(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn apply(appliance: &Appliance, object: &Value) {
    let path = appliance.folder().join("object.json");
    std::fs::write(&path, object.to_string()).unwrap();
    output(appliance.command().args(["apply", "--filename"]).arg(&path));
}

pub(crate) fn follow(appliance: &Appliance, source: &Value) {
    apply(
        appliance,
        &json!({"apiVersion": "firesteel.dev/v1alpha1", "kind": "BootImageStream", "metadata": {"name": "stable"},
                "spec": {"source": source}}),
    );
}

pub(crate) fn status(appliance: &Appliance) -> Value {
    let text = output(appliance.command().args(["get", "bootimagestreams", "stable", "--output", "json"]));
    let stream: Value = serde_json::from_str(&text).unwrap();
    stream["status"].clone()
}

/// Waits until the stream's status is as it should be.
pub(crate) fn until(appliance: &Appliance, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let ends_at = Instant::now() + PATIENCE;
    loop {
        let status = status(appliance);
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < ends_at, "{what} never came: {status:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    let all = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}
