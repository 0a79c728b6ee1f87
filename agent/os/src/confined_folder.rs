//! Files below one folder, and nowhere else: the folder belongs to a filesystem out of an image,
//! in which a symbolic link, a device or another mount may lie where a plain file is expected.
//!
//! Two ways to name a file: what the agent makes itself is reached through no link at all; what an image has made
//! (`/boot/loader` is a link with ostree) is reached through its links, which lead nowhere but into this filesystem,
//! as if the folder were the root.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use nix::dir::Dir;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, readlinkat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{UnlinkatFlags, syncfs, unlinkat};

use super::xattr;

/// The name under which a file is written before it replaces another one.
const NEW: &str = ".firesteel-new";
/// A link that leads to a link, and so on: as many as the kernel follows.
const LINKS_MAX: usize = 40;

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

    /// Resolves a path like [`Self::resolve`], but follows links inside this filesystem.
    fn resolve_inside(&self, path: &str, flags: OFlag) -> io::Result<OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_XDEV;
        let path = if path.is_empty() { "." } else { path };
        Ok(openat2(&self.0, path, OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve))?)
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
        // The file must be new: an existing one could be a second name of another file, or a pipe.
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
        content(self.resolve(path, OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty())?, bytes_max)
    }

    /// Reads a file like [`Self::read`], through links of the image.
    pub fn read_inside(&self, path: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        content(self.resolve_inside(path, OFlag::O_RDONLY | OFlag::O_NONBLOCK)?, bytes_max)
    }

    /// What identifies a plain file, through links of the image: a subvolume has numbers of its own.
    pub fn inode_inside(&self, path: &str) -> io::Result<(u64, u64)> {
        let file = File::from(self.resolve_inside(path, OFlag::O_PATH)?).metadata()?;
        if file.is_file() { Ok((file.dev(), file.ino())) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// The path at which a file itself lies, where the last part of the one given is a link.
    fn target(&self, path: &str) -> io::Result<String> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let opened = self.resolve_inside(folder, OFlag::O_PATH | OFlag::O_DIRECTORY)?;
            let link = match readlinkat(&opened, name) {
                Err(nix::Error::EINVAL) => return Ok(path),
                link => link?,
            };
            let link = link.into_string().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            path = if link.starts_with('/') { link } else { format!("{folder}/{link}") };
        }
        Err(io::Error::from_raw_os_error(libc::ELOOP))
    }

    /// Gives a plain file of an image new content, down to the medium. A reader finds the old content or the new one;
    /// owner, mode and label stay.
    pub fn replace(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let path = self.target(path)?;
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let folder = Self(self.resolve_inside(folder, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?);
        let old = File::from(folder.resolve(name, OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty())?);
        if !old.metadata()?.is_file() {
            return Err(not_plain());
        }
        let written = folder.write_new(&old, content).and_then(|()| {
            renameat(&folder.0, NEW, &folder.0, name)?;
            Ok(())
        });
        if written.is_err() {
            // What is left of it takes room; the first error is the one to report.
            let _gone = unlinkat(&folder.0, NEW, UnlinkatFlags::NoRemoveDir);
        }
        written?;
        File::from(folder.0).sync_all()
    }

    fn write_new(&self, old: &File, content: &[u8]) -> io::Result<()> {
        match unlinkat(&self.0, NEW, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(nix::Error::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let mut file = File::from(self.resolve(NEW, flags, Mode::from_bits_truncate(0o600))?);
        file.write_all(content)?;
        let metadata = old.metadata()?;
        // FAT has neither owners nor modes, and one of each for all files.
        for done in [
            fchown(&file, Some(metadata.uid()), Some(metadata.gid())),
            file.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777)),
        ] {
            match done {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                done => done?,
            }
        }
        xattr::copy_label(old, &file)?;
        file.sync_all()
    }

    pub fn exists(&self, path: &str) -> bool {
        self.resolve(path, OFlag::O_PATH, Mode::empty()).is_ok()
    }

    /// Names in a folder below, sorted; none where there is no such folder.
    ///
    /// # Errors
    /// When it cannot be read to its end, or has more than `most`.
    pub fn names(&self, path: &str, most: usize) -> io::Result<Vec<String>> {
        names_of(self.folder(path), most)
    }

    /// Lists names like [`Self::names`], through links of the image.
    pub fn names_inside(&self, path: &str, most: usize) -> io::Result<Vec<String>> {
        names_of(self.resolve_inside(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY).map(Self), most)
    }

    fn list_names(self, most: usize) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::from_fd(self.0)?.iter() {
            // The reader of a damaged folder returns the same error without end.
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            if names.len() == most {
                return Err(io::Error::other(format!("it has more than {most} files")));
            }
            names.push(name.to_owned());
        }
        names.sort();
        Ok(names)
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

/// Whether nothing lies at a path, or nothing that is reached inside the filesystem.
#[must_use]
pub fn is_absent(error: &io::Error) -> bool {
    let absent = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::EXDEV, libc::ENAMETOOLONG];
    error.raw_os_error().is_some_and(|code| absent.contains(&code))
}

fn names_of(folder: io::Result<Folder>, most: usize) -> io::Result<Vec<String>> {
    match folder {
        Ok(folder) => folder.list_names(most),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn content(file: OwnedFd, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(not_plain());
    }
    let mut content = Vec::new();
    file.take(bytes_max).read_to_end(&mut content)?;
    Ok(content)
}

fn not_plain() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not a plain file")
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
        assert_eq!(folder.names(".", 2).unwrap(), ["flag", "ignition"]);
        assert!(folder.names(".", 1).unwrap_err().to_string().contains("more than 1"), "none is passed over");
        for nowhere in ["none", "flag", "flag/below"] {
            assert!(folder.names(nowhere, 9).unwrap().is_empty());
        }
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

    /// The layout of ostree, and an absolute link, which means the filesystem's own root.
    #[test]
    fn links_inside_the_filesystem_are_followed_and_the_file_itself_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("loader.1/entries")).unwrap();
        fs::create_dir_all(at("efi")).unwrap();
        fs::write(at("loader.1/entries/ostree-1.conf"), "old").unwrap();
        fs::write(at("efi/grubenv"), "env").unwrap();
        fs::set_permissions(at("efi/grubenv"), Permissions::from_mode(0o640)).unwrap();
        symlink("loader.1", at("loader")).unwrap();
        symlink(".", at("boot")).unwrap();
        symlink("/boot/efi/grubenv", at("grubenv")).unwrap();
        let folder = Folder::open(root.path()).unwrap();
        assert_eq!(folder.names_inside("boot/loader/entries", 9).unwrap(), ["ostree-1.conf"]);
        let entry = "boot/loader/entries/ostree-1.conf";
        assert_eq!(folder.inode_inside(entry).unwrap(), folder.inode_inside("loader.1/entries/ostree-1.conf").unwrap());
        folder.replace(entry, b"new").unwrap();
        assert_eq!(folder.read_inside(entry, 9).unwrap(), b"new");
        folder.replace("grubenv", b"changed").unwrap();
        assert!(fs::symlink_metadata(at("grubenv")).unwrap().is_symlink(), "the link stays");
        assert_eq!(fs::read(at("efi/grubenv")).unwrap(), b"changed");
        assert_eq!(fs::metadata(at("efi/grubenv")).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(folder.names(".", 9).unwrap().len(), 5, "nothing is left over");
    }

    #[test]
    fn links_that_lead_outside_or_in_circles_lead_nowhere() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "kept").unwrap();
        symlink(outside.path().join("secret"), root.path().join("absolute")).unwrap();
        symlink("../../../../../../..".to_owned() + outside.path().to_str().unwrap(), root.path().join("up")).unwrap();
        symlink("round", root.path().join("round")).unwrap();
        fs::create_dir(root.path().join("folder")).unwrap();
        let folder = Folder::open(root.path()).unwrap();
        for path in ["absolute", "up/secret", "round", "folder", "missing"] {
            assert!(folder.read_inside(path, 10).is_err(), "{path}");
            assert!(folder.replace(path, b"x").is_err(), "{path}");
            assert!(folder.inode_inside(path).is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "kept");
    }

    #[test]
    fn a_replacement_that_does_not_fit_leaves_the_old_file() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("grub.cfg"), "old").unwrap();
        fs::create_dir(root.path().join(NEW)).unwrap();
        let folder = Folder::open(root.path()).unwrap();
        assert!(folder.replace("grub.cfg", b"new").is_err(), "something else has the new file's name");
        assert_eq!(folder.read("grub.cfg", 10).unwrap(), b"old");
    }
}
