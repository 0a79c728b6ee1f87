//! The private keys of a data folder and their digests. The keys are random and long, so a digest reveals nothing of
//! them.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use ring::digest;

/// Folders of a data folder that hold only keys, certificates and tokens.
pub(super) const FOLDERS: [&str; 2] = ["pki", "secrets"];
/// The limit of a key file; a key is a few hundred bytes.
pub(super) const KEY_BYTES_MAX: u64 = 1 << 20;

/// Returns the name (`secrets/token.key`) and SHA-256 of each private key in a data folder.
///
/// # Errors
/// When one cannot be read.
pub fn digests(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        for name in files(&root.join(folder))? {
            if is_private(folder, &name) {
                let path = root.join(folder).join(&name);
                let bytes = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
                found.insert(
                    format!("{folder}/{name}"),
                    hex::encode(digest::digest(&digest::SHA256, bytes.trim_ascii())),
                );
            }
        }
    }
    Ok(found)
}

/// Certificates can be made again from their keys, and a file that is being written (`.new`) is no key yet.
fn is_private(folder: &str, name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ending != "new" && (folder != "pki" || ending == "key")
}

/// The regular files of a folder by name, sorted, including links to such files; empty if there is no folder.
pub(super) fn files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let reading = || format!("could not read the folder {}", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(reading)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(reading)?;
        // For a link, this is its target: a key may be kept elsewhere.
        let found = match fs::metadata(entry.path()) {
            // The file was being written, and has its final name by now.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            found => found.with_context(reading)?,
        };
        if found.is_file()
            && found.len() <= KEY_BYTES_MAX
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Describes for people how the keys of a folder differ from those that a backup names.
pub(super) fn differences(wanted: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let differs = |(name, digest): (&String, &String)| match found.get(name) {
        None => Some(format!("{name} is missing")),
        Some(other) if other != digest => Some(format!("{name} is another one")),
        Some(_) => None,
    };
    wanted.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_key_that_is_linked_to_belongs_to_the_backup() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = root.path().join("elsewhere");
        fs::write(&elsewhere, "the key\n").unwrap();
        let secrets = root.path().join("secrets");
        fs::create_dir(&secrets).unwrap();
        std::os::unix::fs::symlink(&elsewhere, secrets.join("at-rest.key")).unwrap();
        std::os::unix::fs::symlink(root.path().join("nothing"), secrets.join("lost.key")).unwrap();
        fs::write(secrets.join("token.key"), "the key").unwrap();
        fs::write(secrets.join("token.new"), "half").unwrap();
        let found = digests(root.path()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["secrets/at-rest.key", "secrets/token.key"]);
        assert_eq!(found["secrets/at-rest.key"], found["secrets/token.key"]);
    }
}
