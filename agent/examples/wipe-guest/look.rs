//! What stands on the disks, as Linux shows it, and as the guard sees it.

use std::{collections::VecDeque, fs, path::Path, process::Command, sync::Mutex, thread};

use anyhow::Context as _;
use firesteel_agent::{
    clean::foreign::{self, Scan},
    host::{Host as _, SeenDisk},
    machine::Machine,
};
use firesteel_contents::{DiskContents, Finding, Kind, Unread};
use firesteel_images::write::{AlignedBuffer, Disk as _};
use serde_json::{Map, Value, json};

use crate::{PIECE_BYTES, find, make, say};

const AT_ONCE: usize = 2;
const BLKID: &str = "/sbin/blkid";
const PARTX: &str = "/bin/partx";
const LVM: &str = "/sbin/lvm";
/// What is smaller holds no filesystem; a chain of a table may have hundreds of them.
const PROBED_SECTORS_MIN: u64 = 64;
/// What a digest leaves out where it is zeros.
const DIGEST_BYTES: usize = 4096;

/// The kernel's partitions, blkid's and partx's words on each disk; volumes and arrays of all of them.
pub(crate) fn linux(machine: &Machine) -> anyhow::Result<()> {
    let disks = machine.disks();
    for seen in &disks {
        // A disk that an array holds cannot be opened alone, and its table was read when it appeared.
        if let Ok(device) = machine.open_disk(Path::new(&seen.disk.device)) {
            machine.reread_partitions(&device)?;
        }
    }
    let queue = Mutex::new(disks.iter().collect::<VecDeque<_>>());
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop_front());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(seen) = next() {
                    say(&shown(seen));
                }
            });
        }
    });
    let report = |words: &str| -> anyhow::Result<Value> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        serde_json::from_str(&make::said(LVM, &words)?).context("reading lvm2's report")
    };
    let segments = "lvs -a --foreign --reportformat json --units b --nosuffix --segments -o \
                    vg_name,lv_name,lv_size,segtype,seg_start,seg_size,devices,vg_extent_size";
    let physical = "pvs --foreign --reportformat json --units b --nosuffix -o pv_name,vg_name,pe_start,vg_systemid";
    say(&json!({"volumes": report(segments)?, "physical": report(physical)?, "arrays": arrays()}));
    Ok(())
}

fn shown(seen: &SeenDisk) -> Value {
    let device = &seen.disk.device;
    let name = device.trim_start_matches("/dev/");
    let mut probes = Map::new();
    probes.insert(String::new(), probe(device));
    let partitions = partitions(name);
    for (number, partition, _, sectors) in &partitions {
        if *sectors >= PROBED_SECTORS_MIN {
            probes.insert(number.to_string(), probe(&format!("/dev/{partition}")));
        }
    }
    let partitions: Vec<_> = partitions.iter().map(|(number, _, start, sectors)| [*number, *start, *sectors]).collect();
    let table = words(PARTX, &["-g", "-o", "NR,START,SECTORS", "--show", device]);
    let table: Vec<Vec<u64>> =
        table.lines().map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect()).collect();
    json!({
        "shown": seen.disk.serial, "device": device, "bytes": seen.disk.size_bytes, "partitions": partitions,
        "partx": table, "blkid": probes,
    })
}

/// Number, kernel name, start and sectors of each, as sysfs has them.
fn partitions(disk: &str) -> Vec<(u64, String, u64, u64)> {
    let folder = Path::new("/sys/block").join(disk);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: Vec<_> = names
        .filter_map(|name| {
            let number = |file: &str| fs::read_to_string(folder.join(&name).join(file)).ok()?.trim().parse().ok();
            Some((number("partition")?, name.clone(), number("start")?, number("size")?))
        })
        .collect();
    found.sort();
    found
}

/// Names and values that blkid finds; nothing where it finds nothing, or too much.
fn probe(device: &str) -> Value {
    let text = words(BLKID, &["-p", "-o", "export", device]);
    Value::Object(
        text.lines().filter_map(|line| line.split_once('=')).map(|(key, value)| (key.into(), value.into())).collect(),
    )
}

/// What a program prints, whether it is content or not: these fail where there is nothing to show.
fn words(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Running md arrays: name, bytes, and the kernel names of their members.
fn arrays() -> Vec<Value> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let array = |name: String| {
        let folder = Path::new("/sys/block").join(&name);
        let sectors: u64 = fs::read_to_string(folder.join("size")).ok()?.trim().parse().ok()?;
        let members = fs::read_dir(folder.join("slaves")).ok()?.flatten();
        let members: Vec<_> = members.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        (!members.is_empty()).then(|| json!({"name": name, "bytes": sectors * 512, "members": members}))
    };
    names.filter(|name| name.starts_with("md")).filter_map(array).collect()
}

/// The guard's scan of every disk: the one call to it.
fn scans(machine: &Machine) -> anyhow::Result<Vec<(SeenDisk, Scan)>> {
    let scan = |seen: SeenDisk| {
        let held = machine.look_at(Path::new(&seen.disk.device))?;
        let block_bytes = seen.disk.logical_block_bytes.max(512);
        let scan = foreign::scan(&*held.opened, seen.disk.size_bytes, block_bytes);
        Ok((seen, scan))
    };
    machine.disks().into_iter().map(scan).collect()
}

/// As the newer scanner says it.
fn contents(scan: &Scan) -> DiskContents {
    let findings = scan.found.iter().map(|found| {
        let kind = match found.holding.kind {
            foreign::Kind::Vmfs => Kind::Vmfs,
            foreign::Kind::Gfs2 => Kind::Gfs2,
            foreign::Kind::Ocfs2 => Kind::Ocfs2,
            foreign::Kind::Gpfs => Kind::Gpfs,
            foreign::Kind::Ceph => Kind::Ceph,
            foreign::Kind::Zfs => Kind::Zfs,
            foreign::Kind::Lvm => Kind::Lvm,
            foreign::Kind::Md => Kind::Md,
            foreign::Kind::Bcache => Kind::Bcache,
        };
        let place = found.place.clone();
        Finding { place, kind, name: found.holding.name.clone(), owner: firesteel_contents::Owner::Unnamed }
    });
    let unread = scan.unread.iter().map(|why| Unread { place: "the disk".into(), why: why.clone(), failed: true });
    DiskContents {
        guid: scan.disk_guid.clone(),
        findings: findings.collect(),
        unread: unread.collect(),
        ..DiskContents::default()
    }
}

/// What the guard sees on each disk, and which bytes these disks have.
pub(crate) fn guard(machine: &Machine, digests: &[String]) -> anyhow::Result<()> {
    for (seen, scan) in scans(machine)? {
        let looked: Vec<Value> =
            scan.looked.iter().map(|looked| json!([looked.place, looked.offset, looked.size_bytes])).collect();
        say(&json!({"guard": seen.disk.serial, "contents": contents(&scan), "looked": looked}));
    }
    for serial in digests {
        say(&json!({"digest": serial, "is": digest(machine, serial)?}));
    }
    Ok(())
}

/// SHA-256 of each piece that is not zeros, and its number.
fn digest(machine: &Machine, serial: &str) -> anyhow::Result<String> {
    let disk = find(machine, serial)?;
    let device = machine.open_disk(Path::new(&disk.device))?;
    let reader = device.reader()?;
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let (mut bytes, zeros) = (AlignedBuffer::new(PIECE_BYTES), [0; DIGEST_BYTES]);
    let mut offset = 0;
    while offset < disk.size_bytes {
        let length = usize::try_from((disk.size_bytes - offset).min(PIECE_BYTES as u64))?;
        reader.read_at(offset, &mut bytes[..length])?;
        for (number, piece) in (offset / DIGEST_BYTES as u64..).zip(bytes[..length].chunks(DIGEST_BYTES)) {
            if piece != &zeros[..piece.len()] {
                context.update(&number.to_le_bytes());
                context.update(piece);
            }
        }
        offset += length as u64;
    }
    Ok(hex::encode(context.finish()))
}
