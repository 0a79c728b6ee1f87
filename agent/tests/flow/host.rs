//! A host in this process: its disks are files, its mounts are folders, its clock can be put
//! forward.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use firesteel_drives::port::{Cdb, Data, NvmeCommand, Port, PortError, ScsiAnswer};
use firesteel_facts::{Guid, Sha256};
use firesteel_host::assembled::AssembledDevice;
use firesteel_host::{HeldDisk, Host, PartitionPlace};
use firesteel_images::write::gpt::{self, Partition};
use firesteel_images::write::{DiskReader, ExclusiveDisk, WritableDisk as _};
use firesteel_sysfs::disks::PresentDisk;
use firesteel_wire::{DiskIdentity, ImageStream, Inventory, InventoryDisk, SmbiosIdentity};

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
    /// What stands on the disks.
    pub(crate) assemblies: Mutex<Vec<AssembledDevice>>,
    /// Where takers-apart wait for one another.
    pub(crate) meeting: Mutex<Option<Arc<Meeting>>>,
    /// The moment when the kernel finds its disks again: `target` and `decoy` change their names.
    pub(crate) swap_before: Mutex<Option<&'static str>>,
    /// Numbers of the disks to which commands were sent.
    pub(crate) commanded: Arc<Mutex<Vec<u64>>>,
    names: Vec<String>,
    /// Which disk is which, whatever its name: by its number.
    serials: Vec<(u64, String)>,
}

/// Holds every step until all have come.
pub(crate) struct Meeting {
    missing: Mutex<usize>,
    came: Condvar,
}

impl Meeting {
    pub(crate) fn of(several: usize) -> Arc<Self> {
        Arc::new(Self { missing: Mutex::new(several), came: Condvar::new() })
    }

    fn meet(&self) -> anyhow::Result<()> {
        let mut missing = self.missing.lock().unwrap();
        *missing = missing.saturating_sub(1);
        self.came.notify_all();
        let waited = self.came.wait_timeout_while(missing, Duration::from_secs(60), |missing| *missing > 0).unwrap();
        anyhow::ensure!(!waited.1.timed_out(), "nobody else came: the steps run one after the other");
        Ok(())
    }
}

impl SimulatedHost {
    /// Three disks: `target`, `second`, and `decoy`, which nothing may ever change.
    pub(crate) fn new() -> Self {
        Self::with_target(DISK_BYTES)
    }

    /// The same with a target of this size.
    pub(crate) fn with_target(target_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut serials = Vec::new();
        for (name, fill, bytes) in
            [("target", 0x11, target_bytes), ("second", 0x22, DISK_BYTES), ("decoy", 0xdd, DISK_BYTES)]
        {
            fs::write(folder.path().join(name), vec![fill; usize::try_from(bytes).unwrap()]).unwrap();
            serials.push((fs::metadata(folder.path().join(name)).unwrap().ino(), format!("serial-{name}")));
        }
        fs::create_dir(folder.path().join("boot")).unwrap();
        Self {
            folder,
            began: Instant::now(),
            ahead_ms: AtomicU64::new(0),
            mounts: Mutex::default(),
            clocks_ms: Mutex::default(),
            assemblies: Mutex::default(),
            meeting: Mutex::default(),
            swap_before: Mutex::default(),
            commanded: Arc::default(),
            serials,
            names: ["decoy", "second", "target"].map(str::to_owned).into(),
        }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Makes the kernel find its disks again, if this is the moment.
    fn comes(&self, moment: &str) {
        let is_due = self.swap_before.lock().unwrap().take_if(|due| *due == moment).is_some();
        if is_due {
            self.swap();
        }
    }

    /// `target` and `decoy` change their names.
    pub(crate) fn swap(&self) {
        let at = |name: &str| self.folder.path().join(name);
        for (from, to) in [("target", "third"), ("decoy", "target"), ("third", "decoy")] {
            fs::rename(at(from), at(to)).unwrap();
        }
    }

    /// Makes a disk one that takes SCSI commands.
    pub(crate) fn attach_scsi(&self, name: &str) {
        let at =
            self.sysfs().join("devices/pci0000:00/0000:00:05.0/virtio2/host2/target2:0:0/2:0:0:0/block").join(name);
        fs::create_dir_all(&at).unwrap();
        fs::create_dir_all(self.sysfs().join("block")).unwrap();
        symlink(&at, self.sysfs().join("block").join(name)).unwrap();
    }

    /// The number of the disk with this serial.
    pub(crate) fn number_of(&self, serial: &str) -> u64 {
        self.serials.iter().find(|(_, one)| one == serial).unwrap().0
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(name)).unwrap()
    }

    pub(crate) fn identity_of(&self, name: &str) -> DiskIdentity {
        DiskIdentity { serial: format!("serial-{name}"), size_bytes: self.size_of(name), ..DiskIdentity::default() }
    }

    fn size_of(&self, name: &str) -> u64 {
        fs::metadata(self.folder.path().join(name)).unwrap().len()
    }

    /// What is mounted for a partition of the target; the second one is the boot partition.
    pub(crate) fn filesystem(&self, number: u32) -> PathBuf {
        let name = if number == 2 { "boot".to_owned() } else { format!("p{number}") };
        let at = self.folder.path().join(name);
        fs::create_dir_all(&at).unwrap();
        at
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

    fn identity(&self) -> SmbiosIdentity {
        SmbiosIdentity { boot_mac: "52:54:00:00:00:01".into(), ..SmbiosIdentity::default() }
    }

    fn inventory(&self) -> Inventory {
        Inventory { disks: self.disks().into_iter().map(|seen| seen.disk).collect(), ..Inventory::default() }
    }

    fn disks(&self) -> Vec<PresentDisk> {
        let serial = |name: &str| {
            let number = fs::metadata(self.folder.path().join(name)).unwrap().ino();
            let known = self.serials.iter().find(|(one, _)| *one == number);
            known.map_or_else(|| format!("serial-{name}"), |(_, serial)| serial.clone())
        };
        let disk = |name: &str| InventoryDisk {
            device: self.folder.path().join(name).to_string_lossy().into_owned(),
            serial: serial(name),
            size_bytes: self.size_of(name),
            logical_block_bytes: 512,
            ..InventoryDisk::default()
        };
        let holders =
            |name: &str| self.assemblies(name).iter().map(|held| format!("{name} is held by {held}")).collect();
        self.names
            .iter()
            .map(|name| PresentDisk { disk: disk(name), holders: holders(name), uses: Vec::new() })
            .collect()
    }

    fn numbered(&self, number: u64) -> Option<PresentDisk> {
        let is_it = |seen: &PresentDisk| fs::metadata(&seen.disk.device).unwrap().ino() == number;
        self.disks().into_iter().find(is_it)
    }

    fn sysfs(&self) -> PathBuf {
        self.folder.path().join("sys")
    }

    fn set_clocks(&self, unix_ms: u64) {
        self.clocks_ms.lock().unwrap().push(unix_ms);
    }

    fn open_disk(&self, device: &Path) -> anyhow::Result<ExclusiveDisk> {
        self.comes("open");
        Ok(ExclusiveDisk::open_file(device, 512)?)
    }

    fn inspect_disk(&self, device: &Path) -> anyhow::Result<HeldDisk<dyn DiskReader>> {
        self.comes("look");
        let opened = ExclusiveDisk::open_file(device, 512)?;
        Ok(HeldDisk { number: opened.number(), opened: opened.reader()? })
    }

    fn assemblies(&self, disk: &str) -> Vec<AssembledDevice> {
        let assemblies = self.assemblies.lock().unwrap();
        assemblies.iter().filter(|assembly| assembly.disks.contains(disk)).cloned().collect()
    }

    fn take_apart(&self, assembly: &AssembledDevice) -> anyhow::Result<()> {
        self.assemblies.lock().unwrap().retain(|one| one != assembly);
        let meeting = self.meeting.lock().unwrap().clone();
        match meeting {
            Some(meeting) => meeting.meet(),
            None => Ok(()),
        }
    }

    fn commands(&self, device: &Path) -> anyhow::Result<HeldDisk<dyn Port>> {
        self.comes("commands");
        let number = fs::metadata(device)?.ino();
        Ok(HeldDisk { number, opened: Box::new(DeafPort { number, commanded: Arc::clone(&self.commanded) }) })
    }

    fn reread_partitions(&self, _disk: &ExclusiveDisk) -> anyhow::Result<()> {
        Ok(())
    }

    fn partition_device(&self, disk: &Path, place: &PartitionPlace) -> anyhow::Result<PathBuf> {
        assert_eq!(place.number == 2, place.offset_bytes == 4 << 20, "the boot partition is the second one");
        if place.number == 2 {
            return Ok(disk.to_owned());
        }
        Ok(PathBuf::from(format!("{}-p{}", disk.display(), place.number)))
    }

    fn mount(&self, partition: &Path, filesystem: &str, read_only: bool) -> anyhow::Result<PathBuf> {
        let disk = partition.file_name().unwrap().to_string_lossy().into_owned();
        self.mounts.lock().unwrap().push(format!("{disk} {filesystem} {}", if read_only { "ro" } else { "rw" }));
        let at = disk.rsplit_once('-').map_or("boot", |(_, partition)| partition);
        let at = self.folder.path().join(at);
        anyhow::ensure!(at.is_dir(), "there is no filesystem on {disk}");
        Ok(at)
    }

    fn unmount(&self, _mounted: &Path) -> anyhow::Result<()> {
        self.mounts.lock().unwrap().push("unmounted".into());
        Ok(())
    }

    fn forget_cache(&self, _device: &Path) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Notes which drive was sent a command, and answers none.
struct DeafPort {
    number: u64,
    commanded: Arc<Mutex<Vec<u64>>>,
}

impl DeafPort {
    fn lost<T>(&self) -> Result<T, PortError> {
        self.commanded.lock().unwrap().push(self.number);
        Err(PortError::Lost(std::io::ErrorKind::Unsupported.into()))
    }
}

impl Port for DeafPort {
    fn nvme(&self, _: &NvmeCommand, _: Data<'_>) -> Result<u32, PortError> {
        self.lost()
    }

    fn scsi(&self, _: &Cdb, _: Data<'_>) -> Result<ScsiAnswer, PortError> {
        self.lost()
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
        Self::with(&[])
    }

    /// The same with more partitions: name, first and last block, from number 3 on.
    pub(crate) fn with(more: &[(&str, u64, u64)]) -> Self {
        let partition = |number, name: &str, first_lba, last_lba| Partition {
            number,
            name: name.into(),
            type_guid: Guid([1; 16]),
            guid: Guid([u8::try_from(number).unwrap(); 16]),
            first_lba,
            last_lba,
        };
        let mut partitions = vec![partition(1, "root", 2048, 8191), partition(2, "other", 8192, 40_000)];
        partitions
            .extend(more.iter().zip(3..).map(|((name, first, last), number)| partition(number, name, *first, *last)));
        let (head, backup_at, backup) = gpt::create(RAW_BYTES as u64, 512, Guid([9; 16]), &partitions).unwrap();
        let mut raw = noise(RAW_BYTES);
        raw[..head.len()].copy_from_slice(&head);
        let backup_at = usize::try_from(backup_at).unwrap();
        raw[backup_at..backup_at + backup.len()].copy_from_slice(&backup);
        put_ext4(&mut raw, 4 << 20, "boot");
        Self::of(raw)
    }

    /// The same with ext4 on its first partition, labelled `root`.
    pub(crate) fn with_root() -> Self {
        let mut raw = Self::new().raw;
        put_ext4(&mut raw, 1 << 20, "root");
        Self::of(raw)
    }

    /// The same with filesystems that mkfs.ext4 makes in place of bare superblocks, each with the files of the folder
    /// that is mounted for it.
    pub(crate) fn filled_by(&self, host: &SimulatedHost) -> Self {
        let mut raw = self.raw.clone();
        for (number, label, offset, bytes) in [(1, "root", 1 << 20, 3 << 20), (2, "boot", 4 << 20, 15 << 20)] {
            if raw[offset + 1024 + 0x38..offset + 1024 + 0x3a] == [0x53, 0xef] {
                let made = make_ext4(&host.filesystem(number), label, bytes);
                raw[offset..offset + made.len()].copy_from_slice(&made);
            }
        }
        Self::of(raw)
    }

    pub(crate) fn of(raw: Vec<u8>) -> Self {
        let stream = zstd::encode_all(raw.as_slice(), 1).unwrap();
        Self { raw, stream }
    }

    pub(crate) fn source(&self, url: String) -> ImageStream {
        ImageStream {
            url,
            stream_bytes: self.stream.len() as u64,
            stream_sha256: Sha256::of(&self.stream).to_string(),
            raw_bytes: self.raw.len() as u64,
            raw_sha256: Sha256::of(&self.raw).to_string(),
        }
    }
}

/// A superblock of XFS with a label, as far as it is looked at before anything is mounted.
pub(crate) fn put_xfs(raw: &mut [u8], partition: usize, label: &str) {
    raw[partition..partition + 4].copy_from_slice(b"XFSB");
    raw[partition + 108..partition + 120].fill(0);
    raw[partition + 108..partition + 108 + label.len()].copy_from_slice(label.as_bytes());
    // Noise is no superblock of ext4.
    raw[partition + 1024 + 0x38..partition + 1024 + 0x3a].fill(0);
}

/// A superblock with a label (Documentation/filesystems/ext4/super.rst).
pub(crate) fn put_ext4(raw: &mut [u8], partition: usize, label: &str) {
    let superblock = &mut raw[partition + 1024..partition + 2048];
    superblock[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
    superblock[0x78..0x88].fill(0);
    superblock[0x78..0x78 + label.len()].copy_from_slice(label.as_bytes());
}

/// A filesystem with what is in a folder.
fn make_ext4(folder: &Path, label: &str, bytes: usize) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(bytes as u64).unwrap();
    // Many a PATH does not lead there.
    let places = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"];
    let program = places.into_iter().find(|place| Path::new(place).exists()).unwrap_or("mkfs.ext4");
    let made = Command::new(program).args(["-q", "-F", "-L", label, "-d"]).arg(folder).arg(file.path()).output();
    let made = made.expect("these tests need mkfs.ext4 (e2fsprogs), which the lab installs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::read(file.path()).unwrap()
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
