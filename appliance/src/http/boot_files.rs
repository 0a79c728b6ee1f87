//! The files that boot hosts: loaders, kernel and initramfs, and those from before an upgrade.
//!
//! ```text
//!   --boot-files ─► BootFiles (in memory) ─► copied to DATA/boot/ID, once
//!   DATA/boot/OTHER ─► KeptBootFiles (on disk): those of the last appliance, for boots that began with them
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use anyhow::Context as _;
use bytes::Bytes;
use firesteel_boot::{BootFile, BootFileName, BootFileSet, first_stage};
use firesteel_facts::Sha256;
use jiff::Timestamp;
use ring::digest;

use super::file::ServedContent;

const KERNEL: &str = "vmlinuz";
const INITRAMFS: &str = "initramfs.zst";
const MANIFEST: &str = "manifest.json";
/// The file whose time says when an appliance last started with the folder's files.
const STAMP: &str = "served-at";

/// The limit of kernel, initramfs and loaders together, which are kept in memory. A kernel with its ramdisk and all
/// firmware of a distribution stays below it.
pub const BOOT_FILES_BYTES_MAX: usize = 96 << 20;

/// A file that is served from memory.
#[derive(Clone, Debug)]
pub struct ServedBlob {
    pub bytes: Bytes,
    pub etag: String,
    sha256: Sha256,
}

impl ServedBlob {
    fn new(bytes: Vec<u8>) -> Self {
        let mut sha256 = Sha256([0; 32]);
        sha256.0.copy_from_slice(digest::digest(&digest::SHA256, &bytes).as_ref());
        Self { etag: hex::encode(&sha256.0[..16]), bytes: bytes.into(), sha256 }
    }

    fn boot_file(&self) -> BootFile {
        BootFile { sha256: self.sha256, bytes: self.bytes.len() as u64 }
    }

    /// Returns length, tag and type for an answer.
    #[must_use]
    pub fn content(&self) -> ServedContent {
        let length = self.bytes.len() as u64;
        ServedContent { length, etag: self.etag.clone(), content_type: "application/octet-stream" }
    }
}

/// The kernel, initramfs and loaders.
#[derive(Clone, Debug)]
pub struct BootFiles {
    pub kernel: ServedBlob,
    pub initramfs: ServedBlob,
    /// The digest of the agent in the initramfs, if the manifest names it.
    agent: Option<Sha256>,
    pub loaders: Arc<HashMap<String, ServedBlob>>,
}

impl BootFiles {
    /// Reads the files and checks kernel and initramfs against their manifest.
    ///
    /// # Errors
    /// When a file is missing or differs from the manifest; the text says how to get it.
    pub fn load(boot_files: &Path, loaders: &Path) -> anyhow::Result<Self> {
        let read = |folder: &Path, name: &str, hint: &str| {
            let path = folder.join(name);
            fs::read(&path).map(ServedBlob::new).with_context(|| format!("could not read {} ({hint})", path.display()))
        };
        let hint = "made by `ramdisk build`; name its folder with --boot-files";
        let kernel = read(boot_files, KERNEL, hint)?;
        let initramfs = read(boot_files, INITRAMFS, hint)?;
        let agent = check_manifest(boot_files, &[("vmlinuz", &kernel), ("initramfs", &initramfs)])?;
        let mut found = HashMap::new();
        for name in first_stage::loader_files() {
            let hint = "Debian's package `ipxe` has it; name its folder with --loaders";
            found.insert(name.to_owned(), read(loaders, name, hint)?);
        }
        let bytes = found.values().chain([&kernel, &initramfs]).map(|blob| blob.bytes.len()).sum::<usize>();
        anyhow::ensure!(
            bytes <= BOOT_FILES_BYTES_MAX,
            "{}: kernel, initramfs and loaders have {} MiB, more than the {} MiB that are kept in memory",
            boot_files.display(),
            bytes >> 20,
            BOOT_FILES_BYTES_MAX >> 20
        );
        Ok(Self { kernel, initramfs, agent, loaders: Arc::new(found) })
    }

    /// Returns what an appliance serves that boots no host: nothing. No token is made for it, so nothing of it is sent.
    #[must_use]
    pub fn none() -> Self {
        let nothing = || ServedBlob::new(Vec::new());
        Self { kernel: nothing(), initramfs: nothing(), agent: None, loaders: Arc::default() }
    }

    /// Finds one of the files that boot the agent.
    #[must_use]
    pub fn file(&self, name: BootFileName) -> &ServedBlob {
        match name {
            BootFileName::Kernel => &self.kernel,
            BootFileName::Initramfs => &self.initramfs,
        }
    }

    /// The digests of the files that boot the agent.
    #[must_use]
    pub fn set(&self) -> BootFileSet {
        BootFileSet { kernel: self.kernel.boot_file(), initramfs: self.initramfs.boot_file(), agent: self.agent }
    }
}

/// Checks the files against the ramdisk's manifest, which has `{bytes, sha256}` under `vmlinuz`, `initramfs` and
/// `agent`. Returns the agent's digest.
fn check_manifest(folder: &Path, files: &[(&str, &ServedBlob)]) -> anyhow::Result<Option<Sha256>> {
    let path = folder.join(MANIFEST);
    let bytes = std::fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
    let manifest: serde_json::Value =
        serde_json::from_slice(&bytes).with_context(|| format!("could not read {}", path.display()))?;
    for (name, blob) in files {
        let stated = manifest[*name]["sha256"]
            .as_str()
            .with_context(|| format!("{} states no sha256 for {name}: build the ramdisk again", path.display()))?;
        let actual = blob.sha256.to_string();
        anyhow::ensure!(
            stated == actual,
            "{}: {name} has sha256 {actual}, its manifest says {stated}: build the ramdisk again",
            folder.display()
        );
    }
    let Some(stated) = manifest["agent"]["sha256"].as_str() else { return Ok(None) };
    let mut agent = Sha256([0; 32]);
    hex::decode_to_slice(stated, &mut agent.0)
        .with_context(|| format!("{}: agent.sha256 is no digest: build the ramdisk again", path.display()))?;
    Ok(Some(agent))
}

/// The boot files from before an upgrade.
#[derive(Clone, Debug)]
pub struct KeptBootFiles {
    pub set: BootFileSet,
    folder: PathBuf,
}

impl KeptBootFiles {
    /// Returns the path of one of the files.
    #[must_use]
    pub fn path(&self, name: BootFileName) -> PathBuf {
        self.folder.join(match name {
            BootFileName::Kernel => KERNEL,
            BootFileName::Initramfs => INITRAMFS,
        })
    }
}

/// Copies the current files to `store`, and finds those that were served before them; older ones are removed.
///
/// # Errors
/// When something cannot be read or written there.
pub fn keep(store: &Path, boot_files: &Path, files: &BootFiles) -> io::Result<Option<KeptBootFiles>> {
    fs::create_dir_all(store)?;
    let name = id(&files.set());
    let own = store.join(&name);
    if !own.join(STAMP).is_file() {
        let unfinished = store.join("unfinished");
        remove_folder(&unfinished)?;
        remove_folder(&own)?;
        fs::create_dir(&unfinished)?;
        fs::write(unfinished.join(KERNEL), &files.kernel.bytes)?;
        fs::write(unfinished.join(INITRAMFS), &files.initramfs.bytes)?;
        // A plain copy would have the permissions of the file that is served.
        fs::write(unfinished.join(MANIFEST), fs::read(boot_files.join(MANIFEST))?)?;
        fs::rename(&unfinished, &own)?;
    }
    if let Err(error) = stamp(&own) {
        // If there is no room for a new stamp, the time of an earlier start will do.
        if !own.join(STAMP).is_file() {
            return Err(error);
        }
        tracing::warn!(%error, folder = %own.display(), "could not record that these boot files are served");
    }
    let mut others = Vec::new();
    for entry in fs::read_dir(store)? {
        let folder = entry?.path();
        if folder != own {
            let stamp = fs::read_to_string(folder.join(STAMP)).ok().and_then(|text| text.parse::<Timestamp>().ok());
            others.push((stamp, folder));
        }
    }
    others.sort();
    let newest = others.pop().filter(|(stamp, _)| stamp.is_some());
    for (_, folder) in others {
        remove_folder(&folder)?;
    }
    let Some((_, folder)) = newest else { return Ok(None) };
    match read_set(&folder) {
        Ok(set) => Ok(Some(KeptBootFiles { set, folder })),
        // A power cut may have left an incomplete folder.
        Err(error) => {
            tracing::warn!(folder = %folder.display(), "could not keep the earlier boot files: {error:#}");
            remove_folder(&folder).map(|()| None)
        }
    }
}

/// Records that a folder's files are served now.
fn stamp(folder: &Path) -> io::Result<()> {
    let new = folder.join("stamp.new");
    fs::write(&new, Timestamp::now().to_string())?;
    fs::rename(new, folder.join(STAMP))
}

/// Names a set of files.
fn id(set: &BootFileSet) -> String {
    let both = [set.kernel.sha256.0, set.initramfs.sha256.0].concat();
    hex::encode(&digest::digest(&digest::SHA256, &both).as_ref()[..16])
}

fn read_set(folder: &Path) -> anyhow::Result<BootFileSet> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map(ServedBlob::new).with_context(|| format!("could not read {}", path.display()))
    };
    let (kernel, initramfs) = (read(KERNEL)?, read(INITRAMFS)?);
    let agent = check_manifest(folder, &[(KERNEL, &kernel), ("initramfs", &initramfs)])?;
    Ok(BootFileSet { kernel: kernel.boot_file(), initramfs: initramfs.boot_file(), agent })
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn boot_files(folder: &Path, text: &str) -> BootFiles {
        fs::create_dir_all(folder).unwrap();
        let sha256 =
            |text: &str| serde_json::json!({"sha256": hex::encode(digest::digest(&digest::SHA256, text.as_bytes()))});
        let initramfs = format!("initramfs {text}");
        fs::write(folder.join(KERNEL), text).unwrap();
        fs::write(folder.join(INITRAMFS), &initramfs).unwrap();
        first_stage::loader_files().into_iter().for_each(|name| fs::write(folder.join(name), name).unwrap());
        let manifest =
            serde_json::json!({"vmlinuz": sha256(text), "initramfs": sha256(&initramfs), "agent": sha256("a")});
        fs::write(folder.join(MANIFEST), manifest.to_string()).unwrap();
        BootFiles::load(folder, folder).unwrap()
    }

    #[test]
    fn what_was_served_last_is_kept_and_nothing_older() {
        let data = tempfile::tempdir().unwrap();
        let (store, folder) = (data.path().join("boot"), data.path().join("given"));
        let keep = |files: &BootFiles| keep(&store, &folder, files).unwrap().map(|kept| (kept.set, kept));
        let first = boot_files(&folder, "one");
        assert!(keep(&first).is_none() && keep(&first).is_none(), "there is no other one");
        let second = boot_files(&folder, "two");
        let (set, kept) = keep(&second).unwrap();
        assert_eq!(set, first.set());
        assert_eq!(fs::read(kept.path(BootFileName::Initramfs)).unwrap(), b"initramfs one");
        let third = boot_files(&folder, "three");
        assert_eq!(keep(&third).unwrap().0, second.set());
        assert_eq!(fs::read_dir(&store).unwrap().count(), 2);
        let back = boot_files(&folder, "two");
        assert_eq!(keep(&back).unwrap().0, third.set());
    }

    #[test]
    fn what_is_not_whole_is_not_kept() {
        let data = tempfile::tempdir().unwrap();
        let (store, folder) = (data.path().join("boot"), data.path().join("given"));
        keep(&store, &folder, &boot_files(&folder, "one")).unwrap();
        let second = boot_files(&folder, "two");
        let old = fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();
        fs::write(old.join(INITRAMFS), "initramf").unwrap();
        fs::create_dir(store.join("unfinished")).unwrap();
        assert!(keep(&store, &folder, &second).unwrap().is_none());
        assert_eq!(fs::read_dir(&store).unwrap().count(), 1);
    }
}
