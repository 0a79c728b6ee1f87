//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders with what a build made, and with files of other projects. Hidden ones are not looked into either.
const SKIPPED: [&str; 2] = ["target", "fixtures"];

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// All files below a folder with this extension, in the order of their paths.
pub(crate) fn files(below: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![below.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = entry.file_name().to_string_lossy().into_owned();
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|ending| ending == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The path below the repository's root.
pub(crate) fn name_of(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned()
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
