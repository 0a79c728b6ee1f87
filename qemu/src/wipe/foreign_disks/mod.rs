//! The scenario `foreign-disks`: the guard of foreign disks beside Linux, on disks that real tools made, and on disks
//! that no tool makes.
//!
//! ```text
//! foreign (bytes by hand), tools (programs here) ─► raw files ─► guest: inside (volumes, arrays) ─► what Linux shows
//!                                                                       the guard's scan ─► erasures ─► lines
//! judge: lines and files ─► everything that the guard did not look at, erased, or refused
//! ```
//!
//! Nothing here knows how the guard reads: what Linux shows is the measure.

mod guest_report;
mod inside;
mod judge;
mod probe;
mod tools;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use firesteel_lab_foreign_disks::{self as foreign, ExpectedFate, ForeignDisk};
use serde_json::{Value, json};

use super::guest::{Bus, GuestDisk, WipeGuest};
use crate::lab::LabConfig;
use crate::progress::{ProgressStep, print_status};

/// Programs of this computer that the guest runs, and where it has them.
const PROGRAMS: [(&str, &str); 4] =
    [("blkid", "sbin/blkid"), ("partx", "bin/partx"), ("lvm", "sbin/lvm"), ("mdadm", "sbin/mdadm")];
/// What a digest leaves out where it is zeros; the guest's digests are the same.
const DIGEST_BYTES: usize = 4096;
const PIECE_BYTES: usize = 4 << 20;

/// A disk of the scenario.
#[derive(Debug)]
struct ForeignDiskCase {
    made: ForeignDisk,
    path: PathBuf,
    /// The digest before the guest began, as what libblkid shows; `None` where the guest itself writes to it.
    digest: Option<String>,
    probed: Option<probe::Probed>,
}

impl ForeignDiskCase {
    /// A disk that is as it will be shown.
    fn of(made: ForeignDisk, path: PathBuf) -> anyhow::Result<Self> {
        let (digest, probed) = (Some(digest(&path)?), Some(probe::probe(&path, made.bytes)?));
        Ok(Self { made, path, digest, probed })
    }
}

/// Runs the scenario.
pub fn foreign_disks(config: &LabConfig) -> anyhow::Result<()> {
    let begun = Instant::now();
    let folder = config.folder.join("disks");
    fs::create_dir_all(&folder).context("making the folder of the disks")?;
    let step = ProgressStep::begin("making disks of others, and ordinary ones");
    let cases = make(&folder)?;
    step.end_with(&format!("{} disks", cases.iter().map(Vec::len).sum::<usize>()));
    let step = ProgressStep::begin("showing them to Linux and to the guard, and erasing them all");
    let answers = run(config, &cases)?;
    let (mut found, mut shown) = (Vec::new(), [0; 4]);
    for (cases, answers) in cases.iter().zip(answers) {
        let mut seen = guest_report::read(&answers)?;
        for case in cases {
            if let (Some(probed), Some(disk)) = (&case.probed, seen.disks.get_mut(&case.made.name)) {
                (disk.table, disk.types) = (probed.table.clone(), probed.types.clone());
            }
        }
        let after = cases.iter().map(after).collect::<anyhow::Result<Vec<_>>>()?;
        found.extend(judge::judge(cases, &after, &seen));
        let partitions = seen.disks.values().map(|disk| disk.partitions.len()).sum();
        let more = [cases.len(), partitions, seen.volumes.len(), seen.arrays.len()];
        shown = std::array::from_fn(|index| shown[index] + more[index]);
    }
    let [disks, partitions, volumes, arrays] = shown;
    step.end_with(&format!(
        "{disks} disks; Linux showed {partitions} partitions, {volumes} volumes and {arrays} arrays; {:.0} s in all",
        begun.elapsed().as_secs_f64(),
    ));
    for violation in &found {
        print_status(&violation.to_string());
    }
    let names: BTreeSet<&str> = found.iter().map(|violation| violation.disk.as_str()).collect();
    let named = names.into_iter().collect::<Vec<_>>().join(", ");
    ensure!(found.is_empty(), "the guard saw less than Linux, or judged otherwise than it should, on: {named}");
    Ok(())
}

/// The disks of two machines: what is of one disk alone, and members of volumes and arrays. The guard looks for the
/// others of a member among all disks, which takes its time where these are many.
fn make(folder: &Path) -> anyhow::Result<[Vec<ForeignDiskCase>; 2]> {
    let path = |made: &ForeignDisk| folder.join(format!("{}.raw", made.name));
    let written = |made: ForeignDisk| {
        let path = path(&made);
        made.write(&path).with_context(|| format!("making the disk {}", made.name))?;
        anyhow::Ok((made, path))
    };
    let by_hand = |made: ForeignDisk| written(made).and_then(|(made, path)| ForeignDiskCase::of(made, path));
    let by_tool = |tool: tools::ToolMade| {
        let path = path(&tool.made);
        tool.make(&path).with_context(|| format!("making the disk {}", tool.made.name))?;
        ForeignDiskCase::of(tool.made, path)
    };
    let inside = |made: ForeignDisk| {
        let (made, path) = written(made)?;
        anyhow::Ok(ForeignDiskCase { made, path, digest: None, probed: None })
    };
    let single = foreign::single().into_iter().map(by_hand).chain(tools::all().into_iter().map(by_tool));
    let members = foreign::members().into_iter().map(by_hand).chain(inside::disks().into_iter().map(inside));
    Ok([single.collect::<anyhow::Result<_>>()?, members.collect::<anyhow::Result<_>>()?])
}

/// Both machines at once.
fn run(config: &LabConfig, cases: &[Vec<ForeignDiskCase>; 2]) -> anyhow::Result<[Vec<Value>; 2]> {
    let settings = config.folder.join("lvm.conf");
    fs::write(&settings, inside::LVM_SETTINGS).context("writing the settings of lvm2")?;
    let mut others = vec![(settings, "etc/lvm/lvm.conf")];
    for (program, place) in PROGRAMS {
        others.push((tools::on_path(program)?, place));
    }
    let guest = WipeGuest { config, boot_files: &config.artefacts.volume_files, others: &others };
    let [single, members] = cases;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run_one(&guest, "foreign-members", members));
        let answers = run_one(&guest, "foreign-disks", single)?;
        let other = other.join().map_err(|_| anyhow::anyhow!("the thread of the second machine panicked"))?;
        Ok([answers, other?])
    })
}

fn run_one(guest: &WipeGuest<'_>, name: &str, cases: &[ForeignDiskCase]) -> anyhow::Result<Vec<Value>> {
    let disk = |case: &ForeignDiskCase| GuestDisk {
        path: case.path.clone(),
        bus: Bus::VirtioScsi,
        serial: case.made.name.clone(),
        write_bytes_per_second: None,
    };
    let disks: Vec<GuestDisk> = cases.iter().map(disk).collect();
    let answers = guest.run(name, &disks, &wanted(cases), &|_| false)?;
    for answer in &answers {
        let error = answer.get("error").filter(|error| !error.to_string().contains("switching off"));
        ensure!(error.is_none(), "the guest failed: {answer}; its console is in {name}.log");
    }
    ensure!(answers.iter().any(|answer| answer["end"] == true), "the guest came to no end; see {name}.log");
    Ok(answers)
}

fn wanted(cases: &[ForeignDiskCase]) -> Value {
    let made_inside = cases.iter().filter(|case| case.digest.is_none());
    let inside: Vec<&str> = made_inside.map(|case| case.made.name.as_str()).collect();
    let erase = |case: &ForeignDiskCase| {
        let made = &case.made;
        json!({"serial": made.name, "own_names": made.own_names, "was_vacant": made.was_vacant})
    };
    let (making, taking_down) =
        if inside.is_empty() { (Vec::new(), Vec::new()) } else { (inside::making(), inside::taking_down()) };
    json!([
        {"load": inside::MODULES},
        {"make": making},
        {"show_linux": {"probed": inside}},
        {"make": taking_down},
        {"show_guard": {"digests": inside}},
        {"erase": cases.iter().map(erase).collect::<Vec<_>>()},
    ])
}

/// SHA-256 of each piece that is not zeros, and its number.
fn digest(path: &Path) -> anyhow::Result<String> {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let zeros = [0; DIGEST_BYTES];
    pieces(path, &mut |number, piece| {
        if piece != &zeros[..piece.len()] {
            context.update(&number.to_le_bytes());
            context.update(piece);
        }
    })
    .with_context(|| format!("reading {}", path.display()))?;
    Ok(hex::encode(context.finish()))
}

fn is_zeros(path: &Path) -> anyhow::Result<bool> {
    let (mut is_zeros, zeros) = (true, [0; DIGEST_BYTES]);
    pieces(path, &mut |_, piece| is_zeros &= piece == &zeros[..piece.len()])
        .with_context(|| format!("reading {}", path.display()))?;
    Ok(is_zeros)
}

fn pieces(path: &Path, each: &mut dyn FnMut(u64, &[u8])) -> io::Result<()> {
    let (mut file, mut bytes) = (File::open(path)?, vec![0; PIECE_BYTES]);
    let mut number = 0;
    loop {
        let mut length = 0;
        while length < bytes.len() {
            match file.read(&mut bytes[length..])? {
                0 => break,
                read => length += read,
            }
        }
        if length == 0 {
            return Ok(());
        }
        for piece in bytes[..length].chunks(DIGEST_BYTES) {
            each(number, piece);
            number += 1;
        }
    }
}

/// What the file says when all is over.
fn after(case: &ForeignDiskCase) -> anyhow::Result<judge::FinalDiskState> {
    Ok(match case.made.fate {
        ExpectedFate::Stays(_) => judge::FinalDiskState { digest: digest(&case.path)?, is_zeros: false },
        ExpectedFate::Erased => judge::FinalDiskState { digest: String::new(), is_zeros: is_zeros(&case.path)? },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn there_are_many_disks_with_a_name_each() {
        let tools = tools::all().into_iter().map(|tool| tool.made);
        let by_hand = foreign::single().into_iter().chain(foreign::members());
        let all: Vec<ForeignDisk> = by_hand.chain(tools).chain(inside::disks()).collect();
        let names: BTreeSet<&str> = all.iter().map(|made| made.name.as_str()).collect();
        assert!(names.len() == all.len() && all.len() >= 60);
        assert!(names.iter().all(|name| name.len() <= 20), "{names:?}");
        // The targets of one controller.
        assert!(all.len() < 256);
    }

    #[test]
    fn a_digest_sees_each_byte_and_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let with = |at: u64| {
            let path = folder.path().join("disk");
            ForeignDisk { bytes: 5 << 20, pieces: vec![(at, vec![1])], ..ForeignDisk::default() }.write(&path).unwrap();
            (digest(&path).unwrap(), is_zeros(&path).unwrap())
        };
        let digests: BTreeSet<_> = [0, 1, 4096, (4 << 20) + 4096, (5 << 20) - 1].into_iter().map(with).collect();
        assert!(digests.len() == 5 && digests.iter().all(|(_, is_zeros)| !is_zeros));
        let path = folder.path().join("empty");
        ForeignDisk { bytes: 5 << 20, ..ForeignDisk::default() }.write(&path).unwrap();
        assert!(is_zeros(&path).unwrap());
    }
}
