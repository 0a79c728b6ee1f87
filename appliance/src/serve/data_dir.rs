//! The data folder and its files. Only the owner has access: files have mode 0600, folders 0700.
//!
//! ```text
//! resources.db   objects (store)            leases.db      DHCP leases
//! images/        imported images            admin.kubeconfig  API address, token, CA
//! pki/           CA, server key and certificate; the clients' CA
//! secrets/       keys: at-rest (secrets in resources.db), boot tokens, receipts, accounts' tokens
//! audit/         the audit log
//! streams/       metadata of boot image streams
//! put-address.json  the address that was put on the interface of the provisioning network
//! first-start    marks a folder whose first start has not ended
//! reserve        room for what must be written on a full disk
//! ```
//!
//! [`super::sealing::data_at_rest`] says which of it is secret.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use firesteel_store::StoreRoom;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::Ed25519KeyPair;

/// An open data folder.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
    room: Option<Arc<StoreRoom>>,
}

impl DataDir {
    /// Opens the folder, and makes it if it is missing. Removes the permissions of other users from it and from all its
    /// contents.
    ///
    /// # Errors
    /// When the folder can be neither opened nor made, or permissions of other users cannot be removed.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        let is_new = !root.exists();
        for folder in ["", "pki", "secrets", "images"] {
            let path = root.join(folder);
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .with_context(|| format!("could not make the folder {}", path.display()))?;
        }
        let root = root.canonicalize().with_context(|| format!("could not open the folder {}", root.display()))?;
        // A file in a folder is lost if the folder's own name is.
        for folder in [Some(root.as_path()), root.parent().filter(|_| is_new)].into_iter().flatten() {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.with_context(|| format!("could not write the folder {} to disk", folder.display()))?;
        }
        let opened = tighten_tree(&root)?;
        if opened > 0 {
            let folder = root.display();
            tracing::warn!(%folder, files = opened, "others had permissions in the data folder; they are removed now");
        }
        Ok(Self { root, room: None })
    }

    /// Adds the reserve for what must be written on a full disk.
    #[must_use]
    pub fn with_room(self, room: Arc<StoreRoom>) -> Self {
        Self { room: Some(room), ..self }
    }

    /// The reserve of this folder, if there is one.
    #[must_use]
    pub fn room(&self) -> Option<Arc<StoreRoom>> {
        self.room.clone()
    }

    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// # Errors
    /// When the file cannot be read.
    pub fn read_text(&self, name: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.path(name)).with_context(|| format!("could not read {}", self.path(name).display()))
    }

    /// Writes a file whole or not at all. An unchanged file is not written, so that a start on a full disk has little
    /// to write; the rest may use the reserve.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path(name);
        if is_as_wanted(&path, bytes) {
            return Ok(());
        }
        loop {
            match replace(&path, bytes) {
                Err(error) if is_full(&error) && self.room.as_ref().is_some_and(|room| room.release_for_start()) => {}
                written => return written,
            }
        }
    }

    /// Returns the 32 bytes of `secrets/NAME`, made at the first call.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn secret_key(&self, name: &str) -> anyhow::Result<[u8; 32]> {
        let name = format!("secrets/{name}");
        if !self.path(&name).exists() {
            let mut made = [0; 32];
            SystemRandom::new().fill(&mut made).map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
            self.write(&name, hex::encode(made).as_bytes())?;
        }
        let mut key = [0; 32];
        hex::decode_to_slice(self.read_text(&name)?.trim(), &mut key)
            .with_context(|| format!("could not read {name}: it must hold 64 hexadecimal digits"))?;
        Ok(key)
    }

    /// Returns the appliance's key for signing receipts (Ed25519), made at the first call.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn receipt_key(&self) -> anyhow::Result<Ed25519KeyPair> {
        let seed = self.secret_key("receipt.key")?;
        Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|error| anyhow::anyhow!("invalid receipt.key: {error}"))
    }
}

fn is_as_wanted(path: &Path, bytes: &[u8]) -> bool {
    let is_private = || fs::metadata(path).is_ok_and(|found| found.permissions().mode() & OF_OTHERS == 0);
    fs::read(path).is_ok_and(|found| found == bytes) && is_private()
}

/// Tells whether a file could not be written because the disk is full.
pub(super) fn is_full(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

/// Writes a file that only its owner may read, whole or not at all.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().with_context(|| format!("could not write {}", path.display()))
}

/// The permissions of everyone but the owner.
const OF_OTHERS: u32 = 0o077;
/// The folder that an empty file system has; it is root's.
pub(super) const LOST_AND_FOUND: &str = "lost+found";

/// Removes the permissions of other users from a file or folder. Returns whether there were any.
pub(super) fn tighten(path: &Path) -> anyhow::Result<bool> {
    let mode = || fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777);
    let before = match mode() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        before => before.with_context(|| format!("could not read the permissions of {}", path.display()))?,
    };
    if before & OF_OTHERS == 0 {
        return Ok(false);
    }
    let done = fs::set_permissions(path, fs::Permissions::from_mode(before & !OF_OTHERS)).and_then(|()| mode());
    let why = match done {
        Ok(after) if after & OF_OTHERS == 0 => return Ok(true),
        Ok(_) => "its file system does not store permissions".to_owned(),
        Err(error) => error.to_string(),
    };
    anyhow::bail!(
        "could not remove the permissions of other users from {} (mode {before:o}): {why}; give it to the user that \
         the appliance runs as (chown), or run chmod go-rwx on it",
        path.display()
    )
}

/// Removes the permissions of other users from all that is in a folder of ours; targets of links are not ours. Returns
/// how many had any.
fn tighten_tree(folder: &Path) -> anyhow::Result<usize> {
    let mut opened = usize::from(tighten(folder)?);
    let looking = || format!("could not read the folder {}", folder.display());
    for entry in fs::read_dir(folder).with_context(looking)? {
        let entry = entry.with_context(looking)?;
        if entry.file_name() == LOST_AND_FOUND {
            continue;
        }
        let kind = entry.file_type().with_context(looking)?;
        if kind.is_dir() {
            opened += tighten_tree(&entry.path())?;
        } else if kind.is_file() {
            opened += usize::from(tighten(&entry.path())?);
        }
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn others_have_nothing_in_the_folder_and_keep_what_a_link_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (folder.path().join("data"), folder.path().join("elsewhere"));
        fs::create_dir_all(root.join("images/a")).unwrap();
        for (name, bits) in [("", 0o755), ("images", 0o777), ("images/a", 0o750)] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(bits)).unwrap();
        }
        for (path, bits) in [(root.join("resources.db"), 0o644), (root.join("images/a/b"), 0o440), (elsewhere, 0o644)] {
            fs::write(&path, "x").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
        }
        std::os::unix::fs::symlink("../elsewhere", root.join("link")).unwrap();
        let data = DataDir::open(&root).unwrap();
        for (name, wanted) in
            [("", 0o700), ("images", 0o700), ("images/a", 0o700), ("resources.db", 0o600), ("images/a/b", 0o400)]
        {
            assert_eq!(mode(&root.join(name)), wanted, "{name}");
        }
        assert_eq!(mode(&folder.path().join("elsewhere")), 0o644);
        data.write("pki/x", b"x").unwrap();
        assert_eq!(mode(&data.path("pki/x")), 0o600);
        assert_eq!(tighten_tree(&root).unwrap(), 0, "nothing is left to do at the next start");
        assert!(!tighten(&root.join("gone")).unwrap(), "what went meanwhile is no failure");
    }

    #[test]
    fn a_file_that_is_as_wanted_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let inode = || fs::metadata(data.path("a")).unwrap().ino();
        data.write("a", b"one").unwrap();
        let first = inode();
        data.write("a", b"one").unwrap();
        assert_eq!(inode(), first);
        fs::set_permissions(data.path("a"), fs::Permissions::from_mode(0o644)).unwrap();
        data.write("a", b"one").unwrap();
        assert!(inode() != first && mode(&data.path("a")) == 0o600, "others may read it no longer");
        let second = inode();
        data.write("a", b"two").unwrap();
        assert_ne!(inode(), second);
        assert_eq!(data.read_text("a").unwrap(), "two");
    }

    /// The kernel's own files keep their permissions.
    #[test]
    fn where_others_keep_permissions_the_text_says_what_to_do() {
        let error = tighten(Path::new("/proc/self/status")).unwrap_err().to_string();
        let parts = ["could not remove the permissions of other users", "(mode 444)", "chown", "chmod go-rwx"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}
