//! Looks at disks of the host through the [`Host`]: what stands on them, before anything is done to them. A volume that
//! lies on several disks is looked at with all of them.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use firesteel_contents::{DiskContents, Unread};
use firesteel_host::{HeldDisk, Host};
use firesteel_images::write::DiskReader;
use firesteel_sysfs::attach::kernel_name;
use firesteel_sysfs::disks::{self, KernelPartition, PresentDisk};
use firesteel_wire::{InventoryDisk, text::field};

use super::foreign::{DiskSource, Scan, scan, scan_all, scan_beside};
use super::{disk_access, guard};

/// Disks that are looked at at once.
const READERS_MAX: usize = 16;

/// The lock of the one look for which all other disks are open.
static BESIDE: Mutex<()> = Mutex::new(());

/// What stands on each disk of the host. A disk that cannot be opened is one of which nothing is known.
#[must_use]
pub fn all(host: &dyn Host) -> Vec<(PresentDisk, Scan)> {
    let disks = host.disks();
    let opened: Vec<anyhow::Result<HeldDisk<dyn DiskReader>>> =
        disks.iter().map(|seen| host.inspect_disk(Path::new(&seen.disk.device))).collect();
    let sources: Vec<Option<DiskSource<'_>>> = disks
        .iter()
        .zip(&opened)
        .map(|(seen, opened)| opened.as_ref().ok().map(|held| source(host, &seen.disk, &*held.opened)))
        .collect();
    let mut scans = each(&sources);
    together(&sources, &mut scans);
    let errors = opened.iter().map(|opened| opened.as_ref().err().map(|error| format!("{error:#}")));
    let mut scans: Vec<Scan> =
        scans.into_iter().zip(errors).map(|(scan, error)| scan.unwrap_or_else(|| unknown(error))).collect();
    let devices = disks.iter().map(|seen| seen.disk.device.as_str());
    let unreadable = unreadable(devices.zip(&scans));
    for (seen, scan) in disks.iter().zip(&mut scans) {
        let others: Vec<(String, String)> =
            unreadable.iter().filter(|(device, _)| *device != seen.disk.device).cloned().collect();
        scan.remark_missing(&others);
    }
    disks.iter().cloned().zip(scans).collect()
}

/// Scans each disk for an inspection, by device, with all that speaks against erasing it.
#[must_use]
pub fn contents(host: &dyn Host) -> Vec<(String, DiskContents)> {
    let looked = all(host);
    let disks: Vec<InventoryDisk> = looked.iter().map(|(seen, _)| seen.disk.clone()).collect();
    let sys = host.sysfs();
    let loaded_from = disk_access::loaded_from(&sys);
    let each = looked.iter().map(|(PresentDisk { disk, .. }, scan)| {
        let reached = disk_access::read(&sys, kernel_name(disk));
        let contents = guard::contents(scan, disk, &reached, &disks, loaded_from.as_deref());
        (disk.device.clone(), contents.bounded())
    });
    each.collect()
}

/// The scan of a disk that could not be read.
fn unknown(error: Option<String>) -> Scan {
    let why = field(&error.unwrap_or_else(|| "the look at it came to no end".to_owned()));
    let mut scan = Scan::default();
    scan.contents.unread.push(Unread { place: "the disk".to_owned(), why, failed: true });
    scan
}

/// What stands on one disk that is held already. Other disks are opened only where a volume on it goes on there.
#[must_use]
pub fn one(host: &dyn Host, disk: &InventoryDisk, reader: &dyn DiskReader) -> Scan {
    let alone = scan(&source(host, disk, reader));
    if !alone.is_partial {
        return alone;
    }
    // Every other disk is opened for it, and a process has only so many descriptors.
    let _alone = BESIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut others, mut unreadable_disks) = (Vec::new(), Vec::new());
    for PresentDisk { disk: other, .. } in host.disks().into_iter().filter(|seen| seen.disk.device != disk.device) {
        match host.inspect_disk(Path::new(&other.device)) {
            Ok(held) => others.push((other, held)),
            Err(error) => unreadable_disks.push((other.device, field(&format!("{error:#}")))),
        }
    }
    let mut sources = vec![source(host, disk, reader)];
    sources.extend(others.iter().map(|(disk, held)| source(host, disk, &*held.opened)));
    let mut scans = scan_beside(&sources.iter().collect::<Vec<_>>()).into_iter();
    let mut scan = scans.next().unwrap_or_default();
    let beside: Vec<Scan> = scans.collect();
    unreadable_disks.extend(unreadable(others.iter().map(|(disk, _)| disk.device.as_str()).zip(&beside)));
    scan.remark_missing(&unreadable_disks);
    scan
}

/// The disks of which a part could not be read, with the reason.
fn unreadable<'a>(scans: impl Iterator<Item = (&'a str, &'a Scan)>) -> Vec<(String, String)> {
    scans.filter_map(|(device, scan)| Some((device.to_owned(), scan.failure()?.to_owned()))).collect()
}

fn source<'a>(host: &dyn Host, disk: &InventoryDisk, reader: &'a dyn DiskReader) -> DiskSource<'a> {
    let partitions: Vec<KernelPartition> =
        disks::kernel_partitions(&host.sysfs().join("block").join(kernel_name(disk)));
    DiskSource { reader, size_bytes: disk.size_bytes, block_bytes: disk.logical_block_bytes.max(512), partitions }
}

/// Each by itself, many at once: a disk that sleeps must not make all others wait.
fn each(sources: &[Option<DiskSource<'_>>]) -> Vec<Option<Scan>> {
    let share = sources.len().div_ceil(READERS_MAX).max(1);
    std::thread::scope(|scope| {
        let looks: Vec<_> = sources
            .chunks(share)
            .map(|some| scope.spawn(move || some.iter().map(|one| one.as_ref().map(scan)).collect::<Vec<_>>()))
            .collect();
        let joined = looks.into_iter().zip(sources.chunks(share));
        joined.flat_map(|(look, some)| look.join().unwrap_or_else(|_| vec![None; some.len()])).collect()
    })
}

/// Looks again at the disks that have parts of the same volumes, with one another.
fn together(sources: &[Option<DiskSource<'_>>], scans: &mut [Option<Scan>]) {
    let is_partial = |scan: &Option<Scan>| scan.as_ref().is_some_and(|scan| scan.is_partial);
    let numbers: Vec<usize> = (0..scans.len()).filter(|number| is_partial(&scans[*number])).collect();
    let some: Vec<&DiskSource<'_>> = numbers.iter().filter_map(|number| sources[*number].as_ref()).collect();
    if some.len() < 2 {
        return;
    }
    for (number, scan) in numbers.into_iter().zip(scan_all(&some)) {
        scans[number] = Some(scan);
    }
}
