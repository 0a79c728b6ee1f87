//! Images that lie on the appliance itself: `file://` addresses, below one folder only.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use firesteel_facts::shown_url;

#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("{url}: the appliance has no folder for local images")]
    NoFolder { url: String },
    #[error("{url} is not a file:/// address of this machine")]
    Address { url: String },
    #[error("{url} cannot be found")]
    Find { url: String, source: io::Error },
    #[error("{url} lies outside {root}")]
    Outside { url: String, root: PathBuf },
    #[error("{url} is not a regular file")]
    NotAFile { url: String },
    #[error("opening {url}")]
    Open { url: String, source: io::Error },
}

/// Opens the file of a `file://` address. Links are followed first and judged by where they lead.
pub(super) fn open(url: &str, root: Option<&Path>) -> Result<File, LocalError> {
    let own = || shown_url(url);
    let root = root.ok_or_else(|| LocalError::NoFolder { url: own() })?;
    let root = root.canonicalize().map_err(|source| LocalError::Find { url: own(), source })?;
    let path = reqwest::Url::parse(url)
        .ok()
        .filter(|url| url.scheme() == "file" && url.query().is_none() && url.fragment().is_none())
        .and_then(|url| url.to_file_path().ok())
        .ok_or_else(|| LocalError::Address { url: own() })?;
    let path = path.canonicalize().map_err(|source| LocalError::Find { url: own(), source })?;
    if !path.starts_with(&root) {
        return Err(LocalError::Outside { url: own(), root });
    }
    // Judged before it is opened (opening a pipe would wait) and again after (it may have been
    // replaced in between).
    let regular = |metadata: io::Result<std::fs::Metadata>| metadata.is_ok_and(|metadata| metadata.is_file());
    if !regular(path.symlink_metadata()) {
        return Err(LocalError::NotAFile { url: own() });
    }
    let file = File::open(&path).map_err(|source| LocalError::Open { url: own(), source })?;
    if !regular(file.metadata()) {
        return Err(LocalError::NotAFile { url: own() });
    }
    Ok(file)
}
