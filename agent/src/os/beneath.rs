//! Files below one folder, and nowhere else: the folder belongs to a filesystem out of an image,
//! in which a symbolic link, a device or another mount may lie where a plain file is expected.

use std::{
    fs::{File, Permissions},
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::Path,
};

use nix::{
    dir::Dir,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::{
        stat::{Mode, mkdirat},
        statvfs::fstatvfs,
    },
    unistd::{UnlinkatFlags, syncfs, unlinkat},
};

/// An open folder that every path is resolved below.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let folder = File::options().read(true).custom_flags(flags).open(path)?;
        Ok(Self(folder.into()))
    }

    fn resolve(&self, path: &str, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS
            | ResolveFlag::RESOLVE_NO_XDEV;
        Ok(openat2(&self.0, path, OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(resolve))?)
    }

    fn folder(&self, path: &str) -> io::Result<Self> {
        self.resolve(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).map(Self)
    }

    /// The folder at `path`, made where it is missing, with everything above it.
    fn make_folder(&self, path: &str) -> io::Result<Self> {
        let mut folder = self.folder(".")?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match mkdirat(&folder.0, name, Mode::from_bits_truncate(0o755)) {
                Ok(()) => File::from(folder.0.try_clone()?).sync_all()?,
                Err(nix::Error::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = folder.folder(name)?;
        }
        Ok(folder)
    }

    /// Writes a new file in place of whatever has its name, down to the medium.
    pub fn write(&self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.make_folder(folder)?;
        match unlinkat(&folder.0, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(nix::Error::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // Made anew: an existing file could be a second name of another one, or a pipe.
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let mut file = File::from(folder.resolve(name, flags, Mode::from_bits_truncate(0o600))?);
        file.write_all(content)?;
        match file.set_permissions(Permissions::from_mode(mode & 0o7777)) {
            // FAT has no permissions to set.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            done => done?,
        }
        file.sync_all()?;
        File::from(folder.0).sync_all()
    }

    /// The content of a plain file of at most `bytes_max`.
    pub fn read(&self, path: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = File::from(self.resolve(path, OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a plain file"));
        }
        let mut content = Vec::new();
        file.take(bytes_max).read_to_end(&mut content)?;
        Ok(content)
    }

    pub fn exists(&self, path: &str) -> bool {
        self.resolve(path, OFlag::O_PATH, Mode::empty()).is_ok()
    }

    /// Names in a folder below, sorted, at most `most`; empty where there is no such folder.
    #[must_use]
    pub fn names(&self, path: &str, most: usize) -> Vec<String> {
        let Ok(mut folder) = self.folder(path).and_then(|folder| Ok(Dir::from_fd(folder.0)?)) else {
            return Vec::new();
        };
        let entries = folder.iter().filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()));
        let mut names: Vec<_> = entries.filter(|name| name != "." && name != "..").take(most).collect();
        names.sort();
        names
    }

    /// Bytes that can still be written to this filesystem.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let state = fstatvfs(&self.0)?;
        Ok(state.blocks_available().saturating_mul(state.fragment_size()))
    }

    /// Writes the whole filesystem out.
    pub fn sync(&self) -> io::Result<()> {
        Ok(syncfs(&self.0)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn writes_reads_and_replaces() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        folder.write("ignition/config.ign", 0o600, b"one").unwrap();
        folder.write("ignition/config.ign", 0o640, b"two").unwrap();
        folder.write("flag", 0o644, b"").unwrap();
        assert_eq!(folder.read("ignition/config.ign", 100).unwrap(), b"two");
        assert_eq!(folder.read("ignition/config.ign", 2).unwrap(), b"tw");
        let mode = fs::metadata(root.path().join("ignition/config.ign")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(folder.names(".", 10), ["flag", "ignition"]);
        assert!(folder.exists("flag") && !folder.exists("other"));
        folder.sync().unwrap();
    }

    #[test]
    fn links_out_of_an_image_lead_nowhere() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "kept").unwrap();
        symlink(outside.path(), root.path().join("ignition")).unwrap();
        symlink(outside.path().join("secret"), root.path().join("flag")).unwrap();
        fs::hard_link(outside.path().join("secret"), root.path().join("twin")).unwrap();
        let folder = Folder::open(root.path()).unwrap();
        assert!(folder.write("ignition/config.ign", 0o600, b"x").is_err());
        assert!(folder.read("flag", 10).is_err());
        folder.write("flag", 0o600, b"x").unwrap();
        folder.write("twin", 0o600, b"x").unwrap();
        assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "kept");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert!(folder.write("../out", 0o600, b"x").is_err());
    }
}
