//! A host in this process: its disks are files, its mounts are folders, its clock can be put
//! forward.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use firesteel_agent::host::{Host, PartitionPlace, SeenDisk};
use firesteel_images::{
    Sha256,
    write::{
        Device, Guid,
        gpt::{self, Partition},
    },
};
use firesteel_wire::{Disk, DiskIdentity, Identity, ImageSource, Inventory};

pub(crate) const DISK_BYTES: u64 = 32 << 20;
pub(crate) const RAW_BYTES: usize = 24 << 20;
pub(crate) const DISK_GUID: &str = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f";

pub(crate) struct SimulatedHost {
    pub(crate) folder: tempfile::TempDir,
    began: Instant,
    ahead_ms: AtomicU64,
    pub(crate) mounts: Mutex<Vec<String>>,
    /// What the clocks were set to.
    pub(crate) clocks_ms: Mutex<Vec<u64>>,
}

impl SimulatedHost {
    /// Two disks: `target`, and `decoy`, which nothing may ever change.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, fill) in [("target", 0x11), ("decoy", 0xdd)] {
            fs::write(folder.path().join(name), vec![fill; usize::try_from(DISK_BYTES).unwrap()]).unwrap();
        }
        fs::create_dir(folder.path().join("boot")).unwrap();
        Self {
            folder,
            began: Instant::now(),
            ahead_ms: AtomicU64::new(0),
            mounts: Mutex::default(),
            clocks_ms: Mutex::default(),
        }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(name)).unwrap()
    }

    pub(crate) fn identity_of(&self, name: &str) -> DiskIdentity {
        DiskIdentity { serial: format!("serial-{name}"), size_bytes: DISK_BYTES, ..DiskIdentity::default() }
    }

    pub(crate) fn assert_decoy_untouched(&self) {
        assert!(self.read("decoy").iter().all(|&byte| byte == 0xdd), "the disk that no plan names was changed");
    }
}

impl Host for SimulatedHost {
    fn uptime(&self) -> Duration {
        self.began.elapsed() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn boot_id(&self) -> String {
        "boot-1".into()
    }

    fn kernel_version(&self) -> String {
        "6.1".into()
    }

    fn identity(&self) -> Identity {
        Identity { boot_mac: "52:54:00:00:00:01".into(), ..Identity::default() }
    }

    fn inventory(&self) -> Inventory {
        Inventory { disks: self.disks().into_iter().map(|seen| seen.disk).collect(), ..Inventory::default() }
    }

    fn disks(&self) -> Vec<SeenDisk> {
        let disk = |name: &str| Disk {
            device: self.folder.path().join(name).to_string_lossy().into_owned(),
            serial: format!("serial-{name}"),
            size_bytes: DISK_BYTES,
            ..Disk::default()
        };
        ["decoy", "target"].map(|name| SeenDisk { disk: disk(name), uses: Vec::new() }).into()
    }

    fn sysfs(&self) -> PathBuf {
        self.folder.path().join("sys")
    }

    fn set_clocks(&self, unix_ms: u64) {
        self.clocks_ms.lock().unwrap().push(unix_ms);
    }

    fn open_disk(&self, device: &Path) -> anyhow::Result<Device> {
        Ok(Device::open_file(device, 512)?)
    }

    fn reread_partitions(&self, _disk: &Device) -> anyhow::Result<()> {
        Ok(())
    }

    fn partition_device(&self, disk: &Path, place: &PartitionPlace) -> anyhow::Result<PathBuf> {
        assert_eq!((place.number, place.offset_bytes), (2, 4 << 20), "the boot partition is the second one");
        Ok(disk.to_owned())
    }

    fn mount(&self, partition: &Path, filesystem: &str, read_only: bool) -> anyhow::Result<PathBuf> {
        let disk = partition.file_name().unwrap().to_string_lossy().into_owned();
        self.mounts.lock().unwrap().push(format!("{disk} {filesystem} {}", if read_only { "ro" } else { "rw" }));
        Ok(self.folder.path().join("boot"))
    }

    fn unmount(&self, _mounted: &Path) -> anyhow::Result<()> {
        self.mounts.lock().unwrap().push("unmounted".into());
        Ok(())
    }

    fn forget_cache(&self, _device: &Path) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A small filesystem over a folder, gone at the end: what is full there is really full.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(crate) fn over(folder: PathBuf, kib: u32) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let size = format!("size={kib}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder).status();
        assert!(mounted.is_ok_and(|status| status.success()), "these tests run as root");
        Self(folder)
    }

    /// Takes all room that is left.
    pub(crate) fn fill(&self) {
        let mut filler = fs::File::create(self.0.join("filler")).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

/// A small disk image with an `ext4` boot partition; the rest is noise that does not compress, so
/// that the stream comes in step with the image.
pub(crate) struct Image {
    pub(crate) raw: Vec<u8>,
    pub(crate) stream: Vec<u8>,
}

impl Image {
    pub(crate) fn new() -> Self {
        let partition = |number, name: &str, first_lba, last_lba| Partition {
            number,
            name: name.into(),
            type_guid: Guid([1; 16]),
            guid: Guid([u8::try_from(number).unwrap(); 16]),
            first_lba,
            last_lba,
        };
        let partitions = [partition(1, "root", 2048, 8191), partition(2, "other", 8192, 40_000)];
        let (head, backup_at, backup) = gpt::create(RAW_BYTES as u64, 512, Guid([9; 16]), &partitions).unwrap();
        let mut raw = noise(RAW_BYTES);
        raw[..head.len()].copy_from_slice(&head);
        let backup_at = usize::try_from(backup_at).unwrap();
        raw[backup_at..backup_at + backup.len()].copy_from_slice(&backup);
        let superblock = (4 << 20) + 1024;
        raw[superblock + 0x38..superblock + 0x3a].copy_from_slice(&[0x53, 0xef]);
        raw[superblock + 0x78..superblock + 0x88].copy_from_slice(b"boot\0\0\0\0\0\0\0\0\0\0\0\0");
        let stream = zstd::encode_all(raw.as_slice(), 1).unwrap();
        Self { raw, stream }
    }

    pub(crate) fn source(&self, url: String) -> ImageSource {
        ImageSource {
            url,
            stream_bytes: self.stream.len() as u64,
            stream_sha256: Sha256::of(&self.stream).to_string(),
            raw_bytes: self.raw.len() as u64,
            raw_sha256: Sha256::of(&self.raw).to_string(),
        }
    }
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next()).take(bytes).collect()
}
