//! The key that seals secrets in the database, in a file of its own.
//!
//! ```text
//! secrets/at-rest.key      or where --secrets-key says
//!   one key a line, 64 hexadecimal digits; the first one seals, others only open
//! ```
//!
//! There is a second line only while the key is changed: it is written before the first value is sealed with the new
//! key, and removed after the last one is. So the file opens the database whenever the process dies, and the next one
//! finishes the change.
//!
//! [`data_at_rest`] says which kinds are sealed. Secrets that an earlier program left in the clear are sealed in the
//! background ([`KeyFile::seal_remaining`]).

pub mod data_at_rest;

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use firesteel_store::{Durability, KEY_BYTES, Resealed, SealingKeys, Store, StoreRoom};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::data_dir::{replace, tighten};
use crate::text_file::{self, TEXT_FILE_BYTES_MAX};

/// The key file in the data folder. It is not in the folder of the database: a copy of that must not include the key.
pub const DEFAULT_FILE: &str = "secrets/at-rest.key";

/// The key file, and the keys in it.
#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    /// The folder of the database.
    folder: PathBuf,
    keyring: Arc<SealingKeys>,
    /// Serialises changes of the key.
    changing: Arc<Mutex<()>>,
}

/// The result of a change of the key.
#[derive(Debug)]
pub struct Rekeyed {
    /// Tells the new key from others.
    pub key: String,
    pub resealed: Resealed,
}

impl KeyFile {
    /// Reads the file, or makes it with a new key if nothing is sealed yet.
    ///
    /// # Errors
    /// When it is missing although the database needs it, is malformed, or lies beside the database.
    pub fn open(path: &Path, database: &Path) -> anyhow::Result<Self> {
        is_apart(path, database)?;
        let shown = path.display();
        let keys = if path.exists() {
            read(path)?
        } else {
            if let Some(needed) = Store::needs_key(database).context("could not look for sealed values")? {
                bail!(
                    "the key file {shown} is missing, and {} has secrets sealed by the key {needed}: \
                     put the file back, or name the right one with --secrets-key",
                    database.display()
                );
            }
            let folder = folder_of(path);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("could not make the folder {}", folder.display()))?;
            let keys = vec![SealingKeys::generate()?];
            write(path, &keys)?;
            keys
        };
        // It may be elsewhere, and be a link.
        tighten(path)?;
        let kinds = data_at_rest::SEALED_KINDS.iter().map(data_at_rest::SealedKind::resource).collect();
        let keyring = Arc::new(SealingKeys::new(kinds, &keys)?);
        let folder = folder_of(database).to_owned();
        Ok(Self { path: path.to_owned(), folder, keyring, changing: Arc::default() })
    }

    /// Opens the database. Values in the clear or under an older key stay as they are until [`Self::seal_remaining`].
    ///
    /// # Errors
    /// When it cannot be opened, or another key is needed.
    pub fn open_store(&self, database: &Path, durability: Durability) -> anyhow::Result<Store> {
        self.open_store_in(database, durability, None)
    }

    /// Opens the database in a folder whose room is watched.
    ///
    /// # Errors
    /// As [`KeyFile::open_store`].
    pub fn open_store_in(
        &self,
        database: &Path,
        durability: Durability,
        room: Option<Arc<StoreRoom>>,
    ) -> anyhow::Result<Store> {
        Store::open_in(database, durability, Some(Arc::clone(&self.keyring)), room)
            .with_context(|| format!("could not open the store with the key file {}", self.path.display()))
    }

    /// Seals values in the clear or under an older key, which is then forgotten, in small steps in the background. It
    /// continues where an earlier process stopped, and takes next to no time if all is done.
    ///
    /// # Errors
    /// When the file or the database cannot be written, or there is no room to scrub it. It can be tried again.
    pub async fn seal_remaining(&self, store: &Store) -> anyhow::Result<Resealed> {
        let _changing = self.changing.lock().await;
        self.seal_all(store).await
    }

    /// Keeps the key from changing while the guard is held. Blocks until a change under way has ended.
    #[must_use]
    pub fn unchanging(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.changing).blocking_lock_owned()
    }

    /// Makes a new key, seals everything with it, and forgets the old one.
    ///
    /// # Errors
    /// When the file or the database cannot be written. The file still opens the database.
    pub async fn change(&self, store: &Store) -> anyhow::Result<Rekeyed> {
        let _changing = self.changing.lock().await;
        if self.keyring.ids().len() > 1 {
            // An interrupted change comes first: the database can name at most two keys.
            self.seal_all(store).await.context("could not finish an interrupted change of the key")?;
        }
        let mut keys = read(&self.path)?;
        let new = SealingKeys::generate()?;
        keys.insert(0, new);
        supersede(&self.path, &keys)?;
        let key = self.keyring.seal_with(&new)?.to_string();
        let resealed = self.seal_all(store).await?;
        tracing::info!(%key, values = resealed.values, "secrets are sealed by a new key");
        Ok(Rekeyed { key, resealed })
    }

    async fn seal_all(&self, store: &Store) -> anyhow::Result<Resealed> {
        let sealed = store.reseal().await;
        let resealed =
            sealed.context("not all that is stored is sealed by the newest key; it is tried again by itself")?;
        // No value needs an older key now.
        self.forget_others()?;
        store.scrub(|| free_bytes(&self.folder)).await.context("scrubbing is tried again by itself")?;
        Ok(resealed)
    }

    /// Keeps only the first key, in the file and in memory.
    fn forget_others(&self) -> anyhow::Result<()> {
        if self.keyring.ids().len() < 2 {
            return Ok(());
        }
        let keys = read(&self.path)?;
        self.keyring.forget_others();
        supersede(&self.path, &keys[..1])
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the free bytes on the disk of a folder; 0 if the system does not say.
fn free_bytes(folder: &Path) -> u64 {
    let disk = nix::sys::statvfs::statvfs(folder);
    disk.map_or(0, |disk| disk.blocks_available().saturating_mul(disk.fragment_size()))
}

/// Checks that the key is in another folder than the database: a copy of that must not include the key.
fn is_apart(path: &Path, database: &Path) -> anyhow::Result<()> {
    let folder = |path: &Path| path.parent().and_then(|folder| folder.canonicalize().ok());
    if folder(path).is_some_and(|own| Some(own) == folder(database)) {
        bail!("--secrets-key {}: give another folder than the database's", path.display());
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<[u8; KEY_BYTES]>> {
    let text = text_file::read(path, TEXT_FILE_BYTES_MAX)?;
    let keys = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let mut key = [0; KEY_BYTES];
        hex::decode_to_slice(line, &mut key).map(|()| key)
    });
    // The error shows nothing of the line: it may be a key with an extra letter.
    let keys: Vec<_> = keys
        .collect::<Result<_, _>>()
        .map_err(|_| anyhow::anyhow!("{}: each line must have {} hexadecimal digits", path.display(), KEY_BYTES * 2))?;
    anyhow::ensure!(!keys.is_empty(), "{}: there is no key in it", path.display());
    Ok(keys)
}

fn write(path: &Path, keys: &[[u8; KEY_BYTES]]) -> anyhow::Result<()> {
    let text: String = keys.iter().map(|key| hex::encode(key) + "\n").collect();
    replace(path, text.as_bytes())
}

/// Writes the key file in place of another one, whose bytes are overwritten on the disk.
fn supersede(path: &Path, keys: &[[u8; KEY_BYTES]]) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).open(path).and_then(|old| Ok((old.metadata()?.len(), old)));
    let (bytes, mut old) = opened.with_context(|| format!("could not write {}", path.display()))?;
    write(path, keys)?;
    // Another file has the name by now.
    let wiped = io::copy(&mut io::repeat(b'0').take(bytes), &mut old).and_then(|_| old.sync_all());
    wiped.context("could not overwrite the old keys")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::PermissionsExt as _;

    use firesteel_store::{GroupResource, ObjectKey, Op};

    use super::*;

    fn open(path: &Path, database: &Path) -> anyhow::Result<(KeyFile, Store)> {
        let file = KeyFile::open(path, database)?;
        let store = file.open_store(database, Durability::Nothing)?;
        Ok((file, store))
    }

    fn secret() -> ObjectKey {
        ObjectKey::new(&GroupResource::new("", "secrets"), "default", "a")
    }

    #[tokio::test]
    async fn the_key_is_made_once_and_a_database_without_it_is_not_served() {
        let folder = tempfile::tempdir().unwrap();
        let (path, database) = (folder.path().join("keys/k"), folder.path().join("resources.db"));
        let (file, store) = open(&path, &database).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        store.commit(Op::Create { key: secret(), value: "hunter2".into() }, vec![]).await.unwrap();
        drop((file, store));
        let text = fs::read_to_string(&path).unwrap();

        fs::remove_file(&path).unwrap();
        let missing = format!("{:#}", open(&path, &database).unwrap_err());
        assert!(missing.contains("is missing") && missing.contains("--secrets-key"), "{missing}");
        assert!(!path.exists(), "no new key where an old one is needed");
        fs::write(&path, format!("{}\n", "ab".repeat(32))).unwrap();
        let other = format!("{:#}", open(&path, &database).unwrap_err());
        assert!(other.contains("the key that was given is"), "{other}");
        fs::write(&path, text.replace('\n', "0\n")).unwrap();
        let wrong = format!("{:#}", open(&path, &database).unwrap_err());
        assert!(wrong.contains("64 hexadecimal digits") && !wrong.contains(text.trim()), "{wrong}");
        fs::write(&path, text).unwrap();
        let (_file, store) = open(&path, &database).unwrap();
        assert_eq!(store.get(&secret()).await.unwrap().unwrap().value, "hunter2");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(KeyFile::open(&path, &database).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "it was readable by others");

        let beside = format!("{:#}", open(&folder.path().join("k"), &database).unwrap_err());
        assert!(beside.contains("another folder"), "{beside}");
    }

    #[tokio::test]
    async fn a_changed_key_is_the_only_one_also_after_an_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let (path, database) = (folder.path().join("keys/k"), folder.path().join("resources.db"));
        let (file, store) = open(&path, &database).unwrap();
        store.commit(Op::Create { key: secret(), value: "hunter2".into() }, vec![]).await.unwrap();
        let first = read(&path).unwrap();
        let mut replaced = fs::File::open(&path).unwrap();
        let rekeyed = file.change(&store).await.unwrap();
        assert_eq!((rekeyed.resealed.values, rekeyed.resealed.damaged.len()), (1, 0));
        let second = read(&path).unwrap();
        assert_eq!(second.len(), 1);
        assert_ne!(first, second);
        let mut left = String::new();
        replaced.read_to_string(&mut left).unwrap();
        assert_eq!(left.trim_matches('0'), "", "the old key is on the disk still, without a name");
        drop((file, store));

        // It died after the third key was written down.
        write(&path, &[[3; KEY_BYTES], second[0]]).unwrap();
        let (file, store) = open(&path, &database).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2, "both are needed until all is sealed by the new one");
        assert_eq!(store.get(&secret()).await.unwrap().unwrap().value, "hunter2");
        assert_eq!(file.seal_remaining(&store).await.unwrap().values, 1);
        assert_eq!(read(&path).unwrap(), [[3; KEY_BYTES]]);
        assert_eq!(store.get(&secret()).await.unwrap().unwrap().value, "hunter2");
    }
}
