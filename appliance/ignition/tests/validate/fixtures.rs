//! The fixtures' configs, as they are when they are unpacked: out of gzip, base64, Secrets and MachineConfigs.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::Sample;

/// Reads the configs; prints a message and returns nothing where there are no fixtures.
pub(crate) fn configs() -> Vec<Sample> {
    let folders = ["ignition/stubs", "mco", "mco/server-testdata"].map(firesteel_fixtures::path);
    let Some(folders) = folders.into_iter().collect::<Option<Vec<PathBuf>>>() else { return Vec::new() };
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files.iter().filter_map(|path| read(path)).collect()
}

/// Reads a sample; `None` for what is neither a config nor has one in it.
fn read(path: &Path) -> Option<Sample> {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let config = if name.ends_with(".yaml") {
        let object: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).ok()?;
        object.pointer("/spec/config")?.to_string().into_bytes()
    } else {
        out_of_secret(unpack(std::fs::read(path).unwrap()))
    };
    Some(Sample { wanted: name.starts_with("v3").then_some(true), name, config })
}

fn unpack(bytes: Vec<u8>) -> Vec<u8> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
        return unpack(plain);
    }
    match STANDARD.decode(bytes.trim_ascii()) {
        Ok(inner) if !inner.is_empty() => unpack(inner),
        _ => bytes,
    }
}

fn out_of_secret(bytes: Vec<u8>) -> Vec<u8> {
    let secret = serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
    match secret.pointer("/data/userData").and_then(Value::as_str) {
        Some(data) => unpack(STANDARD.decode(data).unwrap()),
        None => bytes,
    }
}
