//! A copy of the checkout in the cache, for cargo-mutants to change: always at the same place, so that cargo builds again
//! only what differs. What an interrupted run left changed is put back by the next one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::checkout::git;

/// Folder beside the checkout that tests look for fixtures in, where there is one.
const BESIDE: &str = "shared";

/// Makes `tree` a copy of the checkout as it stands, files that git does not know included and those that it ignores not.
pub(super) fn copy(repository: &Path, tree: &Path) -> anyhow::Result<()> {
    let listed = git(repository, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"], &[])?;
    let listed: BTreeSet<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    fs::create_dir_all(tree).with_context(|| format!("making {}", tree.display()))?;
    remove_others(tree, tree, &listed).with_context(|| format!("removing old files from {}", tree.display()))?;
    for name in &listed {
        copy_file(&repository.join(name), &tree.join(name)).with_context(|| format!("copying {}", name.display()))?;
    }
    let (source, link) = (repository.with_file_name(BESIDE), tree.with_file_name(BESIDE));
    match fs::remove_file(&link) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", link.display()));
        }
        Ok(()) | Err(_) => {}
    }
    if source.is_dir() {
        symlink(&source, &link).with_context(|| format!("linking {}", link.display()))?;
    }
    Ok(())
}

fn remove_others(tree: &Path, folder: &Path, listed: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.strip_prefix(tree)?;
        let is_folder = fs::symlink_metadata(&path)?.is_dir();
        // In the order of paths, what lies in a folder follows the folder's own name.
        let is_wanted = listed.range(name.to_owned()..).next().is_some_and(|next| next.starts_with(name));
        match (is_folder, is_wanted) {
            (true, true) => remove_others(tree, &path, listed)?,
            (true, false) => fs::remove_dir_all(&path)?,
            (false, _) if !listed.contains(name) => fs::remove_file(&path)?,
            (false, _) => {}
        }
    }
    Ok(())
}

/// A file that is as it should be keeps its time, by which cargo tells what to build.
fn copy_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    let metadata = match fs::symlink_metadata(from) {
        // Removed from the folder, and still in the index.
        Err(error) if error.kind() == ErrorKind::NotFound => return remove(to),
        metadata => metadata?,
    };
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if metadata.is_symlink() {
        let target = fs::read_link(from)?;
        if fs::read_link(to).ok().as_ref() != Some(&target) {
            remove(to)?;
            symlink(target, to)?;
        }
        return Ok(());
    }
    let content = fs::read(from)?;
    let is_same = fs::symlink_metadata(to).is_ok_and(|there| there.is_file()) && fs::read(to)? == content;
    if !is_same {
        remove(to)?;
        fs::write(to, content)?;
    }
    let mode = metadata.permissions().mode() & 0o777;
    if fs::metadata(to)?.permissions().mode() & 0o777 != mode {
        fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(fs::remove_dir_all(path)?),
        Ok(_) => Ok(fs::remove_file(path)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The text of a line of a file, which is counted from 1; empty where there is none.
pub(super) fn line(tree: &Path, file: &str, number: usize) -> anyhow::Result<String> {
    let path = tree.join(OsStr::from_bytes(file.as_bytes()));
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.lines().nth(number.saturating_sub(1)).unwrap_or_default().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_the_checkout_as_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, tree) = (folder.path().join("a/repository"), folder.path().join("b/tree"));
        fs::create_dir_all(repository.join("src/deep")).unwrap();
        fs::create_dir_all(folder.path().join("a/shared")).unwrap();
        git(&repository, &["init", "--quiet"], &[]).unwrap();
        for (name, text) in [("a.rs", "one\ntwo\n"), ("src/deep/b.rs", "b"), (".gitignore", "/target\n"), ("run", "#!")]
        {
            fs::write(repository.join(name), text).unwrap();
        }
        fs::set_permissions(repository.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a.rs", repository.join("link")).unwrap();
        fs::create_dir(repository.join("target")).unwrap();
        fs::write(repository.join("target/x"), "x").unwrap();
        git(&repository, &["add", "--all"], &[]).unwrap();
        copy(&repository, &tree).unwrap();
        assert_eq!(fs::read_to_string(tree.join("link")).unwrap(), "one\ntwo\n");
        assert_eq!(fs::metadata(tree.join("run")).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!tree.join("target").exists() && folder.path().join("b/shared").is_dir());
        let written = fs::metadata(tree.join("a.rs")).unwrap().modified().unwrap();

        // An interrupted run left a change, and tests left files.
        fs::write(tree.join("src/deep/b.rs"), "changed").unwrap();
        fs::create_dir(tree.join("src/deeper")).unwrap();
        fs::write(tree.join("src/deeper/x"), "x").unwrap();
        fs::write(tree.join("src/deep/new"), "x").unwrap();
        fs::remove_file(repository.join("run")).unwrap();
        fs::write(repository.join("untracked.rs"), "u").unwrap();
        copy(&repository, &tree).unwrap();
        assert_eq!(fs::read_to_string(tree.join("src/deep/b.rs")).unwrap(), "b");
        assert!(!tree.join("src/deeper").exists() && !tree.join("src/deep/new").exists() && !tree.join("run").exists());
        assert!(tree.join("untracked.rs").exists());
        assert_eq!(fs::metadata(tree.join("a.rs")).unwrap().modified().unwrap(), written, "it is not built again");
        assert_eq!(line(&tree, "a.rs", 2).unwrap(), "two");
        assert_eq!(line(&tree, "a.rs", 9).unwrap(), "");
        assert!(line(&tree, "none.rs", 1).is_err());
    }
}
