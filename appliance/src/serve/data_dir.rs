//! The data folder: what stands where, and with which permissions.
//!
//! ```text
//! resources.db   objects (store)            leases.db      DHCP leases
//! images/        imported images            admin.kubeconfig  API address, token, CA (0600)
//! pki/           CA, server key and certificate; the clients' CA
//! secrets/       keys (0600): at-rest (secrets in resources.db), boot tokens, receipts, accounts' tokens
//! audit/         who asked the API for what (0600)
//! streams/       metadata of boot image streams
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::Ed25519KeyPair,
};

/// An opened data folder.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// Opens the folder, making it (mode 0700) where it is missing.
    ///
    /// # Errors
    /// When the folder can be neither opened nor made.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        let is_new = !root.exists();
        for folder in ["", "pki", "secrets", "images"] {
            let path = root.join(folder);
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .with_context(|| format!("making the folder {}", path.display()))?;
        }
        let root = root.canonicalize().with_context(|| format!("opening the folder {}", root.display()))?;
        // What is kept in a folder is lost with the folder's own name.
        for folder in [Some(root.as_path()), root.parent().filter(|_| is_new)].into_iter().flatten() {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.with_context(|| format!("writing the folder {} to disk", folder.display()))?;
        }
        Ok(Self { root })
    }

    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// # Errors
    /// When the file cannot be read.
    pub fn read_text(&self, name: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.path(name)).with_context(|| format!("reading {}", self.path(name).display()))
    }

    /// Writes a file that anybody on the machine may read, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_public(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.replace(name, bytes, 0o644)
    }

    /// Writes a file that only the owner may read, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_private(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.replace(name, bytes, 0o600)
    }

    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
        replace(&self.path(name), bytes, mode)
    }

    /// The 32 bytes of `secrets/NAME`, made at the first call.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn secret_key(&self, name: &str) -> anyhow::Result<[u8; 32]> {
        let name = format!("secrets/{name}");
        if !self.path(&name).exists() {
            let mut made = [0; 32];
            SystemRandom::new().fill(&mut made).map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
            self.write_private(&name, hex::encode(made).as_bytes())?;
        }
        let mut key = [0; 32];
        hex::decode_to_slice(self.read_text(&name)?.trim(), &mut key)
            .with_context(|| format!("reading {name}: it must hold 64 hexadecimal digits"))?;
        Ok(key)
    }

    /// The appliance's receipt signing key (Ed25519), made at the first call.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn receipt_key(&self) -> anyhow::Result<Ed25519KeyPair> {
        let seed = self.secret_key("receipt.key")?;
        Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|error| anyhow::anyhow!("reading receipt.key: {error}"))
    }
}

/// Writes a file, whole or not at all.
pub(super) fn replace(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().with_context(|| format!("writing {}", path.display()))
}
