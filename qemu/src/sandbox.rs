//! Two lives of one process. First it prepares what needs the computer's own network: programs,
//! packages, images. Then it replaces itself by itself, and the second life begins in a network
//! namespace of its own, before any thread exists (user namespaces ask for that). Process id, terminal and
//! signals stay as they are, and nothing has to be cleaned up: the namespace ends with its last
//! process.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::{os, run_folder::RunFolder};

/// This very program, though its file may have been replaced by a newer build meanwhile.
pub const SELF: &str = "/proc/self/exe";
/// Names the run's folder in the second life.
const PREPARED: &str = "FIRESTEEL_LAB_PREPARED";
const PREPARED_FILE: &str = "prepared.json";

#[derive(Debug, Error)]
pub enum SandboxError {
    #[error("handing over what was prepared")]
    HandOver(#[source] io::Error),
    #[error("reading what was prepared")]
    Read(#[source] io::Error),
    #[error("making a private network (where user namespaces are not allowed, this needs root)")]
    Namespace(#[source] io::Error),
}

/// Ends the first life. Returns only if that failed.
pub fn begin_second_life<T: Serialize>(prepared: &T, run: RunFolder) -> SandboxError {
    let write = |run: &Path| fs::write(run.join(PREPARED_FILE), serde_json::to_vec(prepared)?);
    match write(run.path()) {
        Ok(()) => {
            let folder = run.hand_over();
            SandboxError::HandOver(Command::new(SELF).args(env::args_os().skip(1)).env(PREPARED, folder).exec())
        }
        Err(error) => SandboxError::HandOver(error),
    }
}

/// Whether this is the second life, and then what the first one prepared. Enters the namespace.
pub fn second_life<T: DeserializeOwned>() -> Result<Option<(T, RunFolder)>, SandboxError> {
    let Some(folder) = env::var_os(PREPARED) else { return Ok(None) };
    let run = RunFolder::adopt(PathBuf::from(folder));
    let text = fs::read(run.path().join(PREPARED_FILE)).map_err(SandboxError::Read)?;
    let prepared = serde_json::from_slice(&text).map_err(|error| SandboxError::Read(error.into()))?;
    os::enter_private_network().map_err(SandboxError::Namespace)?;
    Ok(Some((prepared, run)))
}
