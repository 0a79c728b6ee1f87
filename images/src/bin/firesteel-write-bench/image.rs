//! An image like an installed system: GPT, one ext4 filesystem, files from this machine's `/usr`,
//! the rest empty. Built once for each size, without mounts, then packed as an import packs it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use firesteel_facts::Guid;
use firesteel_images::import::{ImageMeta, ImageStore, ImportSource, Importer};
use firesteel_images::write::gpt;

const MIB: u64 = 1 << 20;
/// Files above this are left out, so that no single one dominates.
const FILE_BYTES_MAX: u64 = 60 * MIB;

pub(crate) struct BenchImage {
    pub(crate) raw_path: PathBuf,
    pub(crate) stream_path: PathBuf,
    pub(crate) meta: ImageMeta,
    /// Ranges of the raw file that hold data.
    pub(crate) used: Vec<std::ops::Range<u64>>,
}

impl BenchImage {
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.iter().map(|range| range.end - range.start).sum()
    }
}

pub(crate) fn prepare(dir: &Path, size_mib: u64, used_mib: u64) -> Result<BenchImage> {
    let raw_path = dir.join(format!("disk-{size_mib}-{used_mib}.raw"));
    if !raw_path.exists() {
        eprintln!("building an image of {size_mib} MiB with {used_mib} MiB of files from /usr");
        let building = raw_path.with_extension("building");
        build(dir, &building, size_mib * MIB, used_mib * MIB)?;
        fs::rename(&building, &raw_path).context("putting the image in its place")?;
    }
    let store = ImageStore::open(&dir.join("store"))?;
    let raw = File::open(&raw_path).context("opening the image")?;
    let stored = Importer::new(store).import(raw, &ImportSource::default(), &|_| {}).context("packing the image")?;
    let used = used_ranges(&raw_path)?;
    Ok(BenchImage { raw_path, stream_path: stored.path, meta: stored.meta, used })
}

fn build(dir: &Path, path: &Path, size_bytes: u64, used_bytes: u64) -> Result<()> {
    let tree = dir.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).context("removing an old tree")?;
    }
    fs::create_dir(&tree)?;
    let mut left = used_bytes;
    copy_tree(Path::new("/usr"), &tree, &mut left)?;
    let partition = gpt::Partition {
        number: 1,
        name: "root".to_owned(),
        type_guid: "0fc63daf-8483-4772-8e79-3d69d8477de4".parse()?,
        guid: Guid([2; 16]),
        first_lba: 2048,
        last_lba: size_bytes / 512 - 2048,
    };
    let (head, backup_offset, backup) = gpt::create(size_bytes, 512, Guid([1; 16]), std::slice::from_ref(&partition))?;
    let file = File::create(path)?;
    file.set_len(size_bytes)?;
    let filesystem_kib = partition.size_bytes(512) / 1024;
    let status = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-L", "root", "-E", "offset=1048576,nodiscard,lazy_itable_init=0", "-d"])
        .arg(&tree)
        .arg(path)
        .arg(format!("{filesystem_kib}k"))
        .status()
        .context("running mkfs.ext4")?;
    fs::remove_dir_all(&tree).context("removing the tree")?;
    if !status.success() {
        bail!("mkfs.ext4 failed ({status})");
    }
    file.write_all_at(&head, 0)?;
    file.write_all_at(&backup, backup_offset)?;
    file.sync_all().context("writing the image")
}

/// Copies regular files, in the order of their names, until enough bytes are there.
fn copy_tree(from: &Path, to: &Path, left: &mut u64) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(from)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&target)?;
            copy_tree(&entry.path(), &target, left)?;
        } else if kind.is_file() {
            let bytes = entry.metadata()?.len();
            if bytes > FILE_BYTES_MAX {
                continue;
            }
            if bytes > *left {
                *left = 0;
            } else {
                fs::copy(entry.path(), &target).with_context(|| format!("copying {}", entry.path().display()))?;
                *left -= bytes;
            }
        }
        if *left == 0 {
            break;
        }
    }
    Ok(())
}

/// Runs of 64 KiB that are not all zeros, neighbours merged.
fn used_ranges(path: &Path) -> Result<Vec<std::ops::Range<u64>>> {
    const STEP: usize = 64 << 10;
    let mut file = File::open(path)?;
    let mut used: Vec<std::ops::Range<u64>> = Vec::new();
    let mut buffer = vec![0; 4 << 20];
    let mut offset = 0;
    loop {
        let bytes = file.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(used);
        }
        for block in buffer[..bytes].chunks(STEP) {
            let end = offset + block.len() as u64;
            if block.iter().any(|&byte| byte != 0) {
                match used.last_mut() {
                    Some(last) if last.end == offset => last.end = end,
                    Some(_) | None => used.push(offset..end),
                }
            }
            offset = end;
        }
    }
}
