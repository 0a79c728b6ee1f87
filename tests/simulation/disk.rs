//! Disks that remember what was done to them, and by which plan.

use firesteel_contents::{ContentKind, ContentOwner, DiskContents, OrdinaryContent, ProtectedContent};
use firesteel_sysfs::disks::PresentDisk;
use firesteel_wire as wire;

/// An installed system, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) raw_sha256: String,
    pub(crate) disk_guid: String,
    /// What was written is what was sent.
    pub(crate) intact: bool,
    /// The stub on the boot partition.
    pub(crate) stub: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// The truth, whatever the labels say.
    pub(crate) id: u64,
    pub(crate) serial: String,
    pub(crate) wwn: String,
    pub(crate) size_bytes: u64,
    /// Everything but the first MiB, and what it would be.
    pub(crate) body: Option<Installed>,
    /// The first MiB is there: this boots.
    pub(crate) head: bool,
    /// The next write goes wrong without a word.
    pub(crate) corrupts: bool,
    /// The next write fails.
    pub(crate) fails: bool,
    pub(crate) read_only: bool,
    /// It holds a filesystem of a cluster, which no host owns.
    pub(crate) foreign: bool,
}

/// One destructive thing that happened to a disk.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    /// What the disk says that it is.
    pub(crate) serial: String,
    pub(crate) what: &'static str,
    pub(crate) attempt: u64,
    pub(crate) plan: u32,
    pub(crate) token: String,
    /// GUID of the system that the disk could boot before.
    pub(crate) over: Option<String>,
    /// The first touch of its step.
    pub(crate) first: bool,
    pub(crate) step: usize,
    /// It held what is a cluster's, and the step does not override that.
    pub(crate) is_guarded: bool,
}

impl Disk {
    pub(crate) fn new(id: u64, size_bytes: u64) -> Self {
        Self {
            id,
            serial: format!("SN{id:06}"),
            wwn: format!("0x5000c500{id:08x}"),
            size_bytes,
            body: None,
            head: false,
            corrupts: false,
            fails: false,
            read_only: false,
            foreign: false,
        }
    }

    /// What a reader of the disk finds.
    pub(crate) fn contents(&self) -> DiskContents {
        let place = || "the disk".to_owned();
        let finding = || ProtectedContent {
            place: place(),
            kind: ContentKind::Vmfs,
            name: String::new(),
            owner: ContentOwner::Unnamed,
        };
        let system = self.bootable();
        DiskContents {
            guid: system.map(|installed| installed.disk_guid.clone()).unwrap_or_default(),
            findings: self.foreign.then(finding).into_iter().collect(),
            plain: system.map(|_| OrdinaryContent { place: place(), name: "gpt".into() }).into_iter().collect(),
            ..DiskContents::default()
        }
    }

    pub(crate) fn bootable(&self) -> Option<&Installed> {
        self.body.as_ref().filter(|_| self.head)
    }

    pub(crate) fn clear(&mut self) {
        self.head = false;
        self.body = None;
        self.foreign = false;
    }

    fn wire(&self, place: usize) -> wire::InventoryDisk {
        wire::InventoryDisk {
            device: format!("/dev/sd{}", char::from(b'a' + u8::try_from(place % 26).unwrap_or(0))),
            by_path: format!("/dev/disk/by-path/pci-0000:00:1f.2-ata-{}", place + 1),
            size_bytes: self.size_bytes,
            logical_block_bytes: 512,
            physical_block_bytes: 4096,
            model: "SIM".into(),
            serial: self.serial.clone(),
            wwn: self.wwn.clone(),
            read_only: self.read_only,
            table: Some(match self.bootable() {
                Some(installed) => wire::PartitionTableRecord::Gpt { guid: installed.disk_guid.clone() },
                None => wire::PartitionTableRecord::None,
            }),
            contents: Some(Box::new(self.contents())),
            ..wire::InventoryDisk::default()
        }
    }
}

/// The disks as an agent sees them now.
pub(crate) fn seen(disks: &[Disk]) -> Vec<PresentDisk> {
    disks
        .iter()
        .enumerate()
        .map(|(place, disk)| PresentDisk { disk: disk.wire(place), uses: Vec::new(), holders: Vec::new() })
        .collect()
}
