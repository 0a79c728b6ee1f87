//! Which files are tested: the digest that git gives the checkout as it stands, changes and new files included. Results
//! are kept under it, so that they are never shown for other files. The repository itself stays as it is.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

/// The files of a checkout at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutState {
    /// git's digest of all files that it does not ignore.
    pub tree: String,
    pub commit: String,
    /// Files differ from those of the commit.
    pub is_changed: bool,
}

impl CheckoutState {
    /// Reads all files; what git writes for that goes into a folder of `scratch` and is removed.
    pub fn read(repository: &Path, scratch: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(scratch).with_context(|| format!("making {}", scratch.display()))?;
        let folder = tempfile::tempdir_in(scratch).context("making a folder for git")?;
        let (index, objects) = (folder.path().join("index"), folder.path().join("objects"));
        fs::create_dir(&objects).context("making a folder for git's objects")?;
        let own = git(repository, &["rev-parse", "--path-format=absolute", "--git-path", "objects"], &[])?;
        let beside = [
            ("GIT_INDEX_FILE", index.as_os_str()),
            ("GIT_OBJECT_DIRECTORY", objects.as_os_str()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", OsStr::new(&own)),
        ];
        git(repository, &["add", "--all"], &beside)?;
        let tree = git(repository, &["write-tree"], &beside)?;
        let commit = git(repository, &["rev-parse", "--verify", "HEAD"], &[])?;
        let of_commit = git(repository, &["rev-parse", "--verify", "HEAD^{tree}"], &[])?;
        Ok(Self { is_changed: tree != of_commit, tree, commit })
    }

    /// The text for people: the commit, and whether files differ from it.
    #[must_use]
    pub fn describe(&self) -> String {
        let commit = self.commit.get(..12).unwrap_or(&self.commit);
        if self.is_changed { format!("commit {commit} with changes") } else { format!("commit {commit}") }
    }
}

/// What git prints, without the line's end.
pub fn git(repository: &Path, arguments: &[&str], environment: &[(&str, &OsStr)]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository).args(arguments).envs(environment.iter().copied());
    let output = command.output().context("running git")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("git {} failed in {}: {}", arguments.join(" "), repository.display(), why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn changes_and_new_files_are_other_files_and_ignored_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, scratch) = (folder.path().join("r"), folder.path().join("s"));
        fs::create_dir(&repository).unwrap();
        let name = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        git(&repository, &["init", "--quiet"], &[]).unwrap();
        fs::write(repository.join("a"), "1").unwrap();
        fs::write(repository.join(".gitignore"), "/target\n").unwrap();
        git(&repository, &["add", "--all"], &[]).unwrap();
        git(&repository, &[&name[..], &["commit", "--quiet", "-m", "x"]].concat(), &[]).unwrap();

        let committed = CheckoutState::read(&repository, &scratch).unwrap();
        assert!(!committed.is_changed && !committed.describe().contains("changes"), "{committed:?}");
        fs::write(repository.join("target"), "x").unwrap();
        assert_eq!(CheckoutState::read(&repository, &scratch).unwrap(), committed, "it is ignored");
        fs::write(repository.join("b"), "2").unwrap();
        let with_new = CheckoutState::read(&repository, &scratch).unwrap();
        assert!(
            with_new.is_changed && with_new.tree != committed.tree && with_new.describe().ends_with("with changes")
        );
        fs::remove_file(repository.join("b")).unwrap();
        fs::write(repository.join("a"), "2").unwrap();
        let changed = CheckoutState::read(&repository, &scratch).unwrap();
        assert!(changed.tree != committed.tree && changed.tree != with_new.tree && changed.commit == committed.commit);
        let status = git(&repository, &["status", "--porcelain"], &[]).unwrap();
        assert_eq!(status.trim(), "M a", "the repository's own index is as it was");
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
        assert!(CheckoutState::read(folder.path(), &scratch).is_err(), "no repository");
    }
}
