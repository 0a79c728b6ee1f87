//! What stands on the disks, as Linux shows it, and as the guard sees it.

use std::{collections::VecDeque, fs, path::Path, process::Command, sync::Mutex, thread};

use firesteel_clean::{foreign::Scan, scan_disks};
use firesteel_host::Host;
use firesteel_images::write::{AlignedBuffer, WritableDisk as _};
use firesteel_linux_host::LinuxHost;
use firesteel_sysfs::disks::PresentDisk;
use serde_json::{Value, json};

use crate::{PIECE_BYTES, find, print_answer};

const AT_ONCE: usize = 2;
const BLKID: &str = "/sbin/blkid";
const PARTX: &str = "/bin/partx";
const LVM: &str = "/sbin/lvm";
/// What a digest leaves out where it is zeros.
const DIGEST_BYTES: usize = 4096;

/// The kernel's partitions of each disk, blkid's and partx's words on these; volumes and arrays of all of them.
pub(crate) fn linux(machine: &LinuxHost, probed: &[String]) -> anyhow::Result<()> {
    let disks = machine.disks();
    // The table of a disk that an array holds was read when it appeared, and it cannot be opened alone.
    for seen in disks.iter().filter(|seen| seen.holders.is_empty()) {
        machine.reread_partitions(&machine.open_disk(Path::new(&seen.disk.device))?)?;
    }
    let queue = Mutex::new(disks.iter().collect::<VecDeque<_>>());
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop_front());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(seen) = next() {
                    print_answer(&shown(seen, probed.contains(&seen.disk.serial)));
                }
            });
        }
    });
    let segments = lines(
        "lvs --foreign --segments",
        &["vg_name", "lv_name", "lv_size", "segtype", "seg_size", "devices", "vg_extent_size"],
    );
    let physical = lines("pvs --foreign", &["pv_name", "vg_name", "pe_start"]);
    print_answer(&json!({"segments": segments, "physical": physical, "arrays": arrays()}));
    Ok(())
}

/// A report of lvm2: a list for each line that has all fields. Others are remarks on what it did not understand.
fn lines(report: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let columns = fields.join(",");
    let mut words: Vec<&str> = report.split(' ').collect();
    words.extend(["--noheadings", "--separator", ";", "--units", "b", "--nosuffix", "-o", &columns]);
    let text = self::program_words(LVM, &words);
    let rows = text.lines().map(|line| line.trim().split(';').map(str::to_owned).collect::<Vec<_>>());
    rows.filter(|row| row.len() == fields.len()).collect()
}

fn shown(seen: &PresentDisk, is_probed: bool) -> Value {
    let device = &seen.disk.device;
    let partitions = partitions(device.trim_start_matches("/dev/"));
    let places: Vec<_> = partitions.iter().map(|(number, _, start, sectors)| [*number, *start, *sectors]).collect();
    let mut answer = json!({
        "shown": seen.disk.serial, "device": device, "bytes": seen.disk.size_bytes, "partitions": places,
    });
    if is_probed {
        let probed = partitions.iter().map(|(number, name, _, _)| (number.to_string(), probe(&format!("/dev/{name}"))));
        answer["blkid"] = Value::Object(probed.chain([("0".to_owned(), probe(device))]).collect());
        answer["partx"] = json!(program_words(PARTX, &["-g", "-o", "NR,START,SECTORS", "--show", device]));
    }
    answer
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
    json!(program_words(BLKID, &["-p", "-o", "export", device]))
}

/// What a program prints, whether it is content or not: these fail where there is nothing to show.
fn program_words(program: &str, arguments: &[&str]) -> String {
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
fn scans(host: &dyn Host) -> Vec<(PresentDisk, Scan)> {
    scan_disks::all(host)
}

/// What the guard sees on each disk, and which bytes these disks have.
pub(crate) fn guard(host: &dyn Host, digests: &[String]) -> anyhow::Result<()> {
    for (seen, scan) in scans(host) {
        let looked: Vec<Value> =
            scan.looked.iter().map(|looked| json!([looked.place, looked.offset, looked.size_bytes])).collect();
        print_answer(&json!({"guard": seen.disk.serial, "contents": scan.contents, "looked": looked}));
    }
    for serial in digests {
        print_answer(&json!({"digest": serial, "is": digest(host, serial)?}));
    }
    Ok(())
}

/// SHA-256 of each piece that is not zeros, and its number.
fn digest(host: &dyn Host, serial: &str) -> anyhow::Result<String> {
    let disk = find(host, serial)?;
    let device = host.open_disk(Path::new(&disk.device))?;
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
