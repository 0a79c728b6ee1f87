//! The archive that goes before the ramdisk: one directory, one file, the trailer.
//!
//! "New ASCII" cpio, as the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`
//! describes. The kernel unpacks archives one after another and skips zeros between them, so the
//! ramdisk's own (compressed) archive follows on a 512-byte boundary. This module does not know
//! what the seed says.

/// The seed is a token, two addresses and a digest; more than this is a mistake.
pub const SEED_JSON_BYTES_MAX: usize = 64 * 1024;
/// The archive's length is a multiple of this, cpio's traditional block.
pub const ARCHIVE_BLOCK_BYTES: usize = 512;

const DIRECTORY: &str = "firesteel";
const FILE: &str = "firesteel/seed.json";
const TRAILER: &str = "TRAILER!!!";
const DIRECTORY_MODE: u32 = 0o040_700;
/// Root's alone: the token is in it.
const FILE_MODE: u32 = 0o100_600;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeedError {
    #[error("a seed has at most {SEED_JSON_BYTES_MAX} bytes")]
    TooLarge,
}

/// The uncompressed archive with `seed_json` as `/firesteel/seed.json`. Same input, same bytes.
pub fn seed_archive(seed_json: &[u8]) -> Result<Vec<u8>, SeedError> {
    if seed_json.len() > SEED_JSON_BYTES_MAX {
        return Err(SeedError::TooLarge);
    }
    let mut archive = Vec::with_capacity(seed_json.len() + 2 * ARCHIVE_BLOCK_BYTES);
    push_entry(&mut archive, 1, DIRECTORY_MODE, 2, DIRECTORY, &[]);
    push_entry(&mut archive, 2, FILE_MODE, 1, FILE, seed_json);
    push_entry(&mut archive, 0, 0, 1, TRAILER, &[]);
    pad(&mut archive, ARCHIVE_BLOCK_BYTES);
    Ok(archive)
}

fn push_entry(archive: &mut Vec<u8>, inode: u32, mode: u32, links: u32, name: &str, data: &[u8]) {
    // Order of the header: inode, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor,
    // rdevmajor, rdevminor, namesize (with its NUL), check (unused in this format).
    let size = u32::try_from(data.len()).expect("bounded by SEED_JSON_BYTES_MAX");
    let name_size = u32::try_from(name.len() + 1).expect("names are constants of this module");
    archive.extend_from_slice(b"070701");
    for field in [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0] {
        archive.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    pad(archive, 4);
    archive.extend_from_slice(data);
    pad(archive, 4);
}

fn pad(archive: &mut Vec<u8>, multiple: usize) {
    archive.resize(archive.len().next_multiple_of(multiple), 0);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn has_the_layout_that_the_kernel_reads() {
        let archive = seed_archive(b"{}").unwrap();
        assert_eq!(archive.len() % ARCHIVE_BLOCK_BYTES, 0);
        let directory = b"070701000000010000\
            41C0000000000000000000000002000000000000000000000000000000000000000000000000\
            0000000A00000000firesteel\0";
        assert_eq!(&archive[..directory.len()], directory);
        // Header and name of the directory take 120 bytes, those of the file 132 with padding.
        assert_eq!(&archive[120..126], b"070701");
        assert_eq!(&archive[120 + 14..120 + 22], b"00008180");
        assert_eq!(&archive[252..256], b"{}\0\0");
        assert_eq!(&archive[256..262], b"070701");
    }

    #[test]
    fn too_large_a_seed_is_refused() {
        assert!(seed_archive(&vec![0; 65_536]).is_ok());
        let error = seed_archive(&vec![0; 65_537]).unwrap_err();
        assert_eq!((error, error.to_string().as_str()), (SeedError::TooLarge, "a seed has at most 65536 bytes"));
    }

    #[test]
    fn a_foreign_cpio_unpacks_it() {
        let Ok(mut child) = Command::new("cpio")
            .args(["--list", "--verbose", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            eprintln!("skipped: no cpio here");
            return;
        };
        child.stdin.take().unwrap().write_all(&seed_archive(b"{\"token\":\"x\"}").unwrap()).unwrap();
        let output = child.wait_with_output().unwrap();
        let list = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert_eq!(list.lines().count(), 2, "{list}");
        assert!(list.contains("drwx------") && list.contains("-rw-------"), "{list}");
        assert!(list.contains("firesteel/seed.json"), "{list}");
    }
}
