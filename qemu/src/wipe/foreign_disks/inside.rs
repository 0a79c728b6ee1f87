//! Disks that the guest makes: volumes of lvm2 and arrays of mdadm need a kernel that has them, which this computer's
//! need not.

use serde_json::{Value, json};

use super::super::foreign::{self, Fate, Made};

const MIB: u64 = 1 << 20;
/// This host's name, under its last system.
const OWN: &str = "node-1";
const OTHER: &str = "web-7";

/// What the guest loads before.
pub(super) const MODULES: [&str; 7] = ["md_mod", "dm_mod", "raid0", "raid1", "raid456", "dm_raid", "dm_thin_pool"];

/// There is neither udev nor a monitor, and nothing that a group was is kept.
pub(super) const LVM_SETTINGS: &str = "\
devices { obtain_device_list_from_udev=0 external_device_info_source=\"none\" use_devicesfile=0 scan_lvs=0 }
activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0 }
backup { backup=0 archive=0 }
global { use_lvmpolld=0 use_lvmlockd=0 event_activation=0 thin_check_executable=\"\" }
";

/// The disks, empty as yet.
pub(super) fn disks() -> Vec<Made> {
    let mut all: Vec<Made> = Vec::new();
    let mut add = |names: &[&str], fate: &Fate| {
        for name in names {
            let own_names = if name.starts_with("in-md-own") { vec![OWN.to_owned()] } else { Vec::new() };
            all.push(Made {
                name: (*name).to_owned(),
                bytes: 16 * MIB,
                fate: fate.clone(),
                own_names,
                ..Made::default()
            });
        }
    };
    add(&["in-lvm-linear", "in-lvm-part", "in-lvm-stripe-1", "in-lvm-stripe-2"], &Fate::Erased);
    add(&["in-lvm-mirror-1", "in-lvm-mirror-2", "in-lvm-thin"], &Fate::Erased);
    add(&["in-lvm-foreign", "in-md-lvm-1", "in-md-lvm-2"], &Fate::Stays(OTHER));
    add(&["in-lvm-vmfs", "in-lvm-vmfs-1", "in-lvm-vmfs-2"], &Fate::Stays("VMFS"));
    // The pool's own metadata says where a thin volume lies; who does not follow it must not guess.
    add(&["in-lvm-thin-vmfs"], &Fate::Stays(""));
    add(
        &["in-md-own-1", "in-md-own-2", "in-md-090-1", "in-md-090-2", "in-md-nameless-1", "in-md-nameless-2"],
        &Fate::Erased,
    );
    add(&["in-md-foreign-1", "in-md-foreign-2"], &Fate::Stays(OTHER));
    add(
        &["in-md-0-vmfs-1", "in-md-0-vmfs-2", "in-md-5-vmfs-1", "in-md-5-vmfs-2", "in-md-5-vmfs-3"],
        &Fate::Stays("VMFS"),
    );
    all
}

fn run(line: &str) -> Value {
    json!({"run": line.split(' ').collect::<Vec<_>>()})
}

fn vmfs(device: &str) -> Vec<Value> {
    let write = |(at, bytes): (u64, Vec<u8>)| json!({"write": {"to": device, "at": at, "hex": hex::encode(bytes)}});
    foreign::vmfs(0).into_iter().map(write).collect()
}

/// A group on these devices.
fn group(name: &str, devices: &[&str], more: &str) -> Vec<Value> {
    let devices = devices.join(" ");
    vec![run(&format!("/sbin/lvm vgcreate -q -y --physicalextentsize 1m{more} {name} {devices}"))]
}

fn volume(arguments: &str) -> Value {
    run(&format!("/sbin/lvm lvcreate -q -y -Wn -Zn {arguments}"))
}

/// A running array of these disks.
fn array(number: u32, level: &str, more: &str, disks: &[&str]) -> Value {
    let devices: Vec<String> = disks.iter().map(|disk| format!("{{{disk}}}")).collect();
    run(&format!(
        "/sbin/mdadm --create /dev/md{number} --run --quiet --assume-clean --level={level} {more} --raid-devices={} {}",
        disks.len(),
        devices.join(" "),
    ))
}

/// What the guest does, in this order.
pub(super) fn making() -> Vec<Value> {
    [arrays(), local(), foreign_groups()].concat()
}

fn arrays() -> Vec<Value> {
    let named = |host: &str| format!("--metadata=1.2 --homehost={host} --name=data");
    let nameless = "--metadata=1.1 --homehost=<none> --name=data";
    let mut acts = vec![
        array(10, "1", &format!("--metadata=1.0 --homehost={OWN} --name=data"), &["in-md-own-1", "in-md-own-2"]),
        array(11, "1", "--metadata=0.90", &["in-md-090-1", "in-md-090-2"]),
        array(12, "1", nameless, &["in-md-nameless-1", "in-md-nameless-2"]),
        array(13, "1", &named(OTHER), &["in-md-foreign-1", "in-md-foreign-2"]),
        array(14, "0", nameless, &["in-md-0-vmfs-1", "in-md-0-vmfs-2"]),
        array(15, "5", nameless, &["in-md-5-vmfs-1", "in-md-5-vmfs-2", "in-md-5-vmfs-3"]),
        array(16, "1", nameless, &["in-md-lvm-1", "in-md-lvm-2"]),
    ];
    acts.extend(vmfs("/dev/md14"));
    acts.extend(vmfs("/dev/md15"));
    acts
}

/// Groups of this host, or of none that they name.
fn local() -> Vec<Value> {
    [
        group("local", &["{in-lvm-linear}"], ""),
        // The first has two segments, for the second stands behind it.
        vec![volume("-l 3 -n a local"), volume("-l 4 -n b local"), run("/sbin/lvm lvextend -q -l +2 local/a")],
        group("striped", &["{in-lvm-stripe-1}", "{in-lvm-stripe-2}"], ""),
        vec![volume("-i 2 -I 64k -l 10 -n s striped")],
        group("mirrored", &["{in-lvm-mirror-1}", "{in-lvm-mirror-2}"], ""),
        vec![volume("--type raid1 -m 1 --nosync -l 5 -n m mirrored")],
        group("thin", &["{in-lvm-thin}"], ""),
        vec![run("/sbin/lvm lvcreate -q -y -l 6 --poolmetadatasize 2m --poolmetadataspare n -T thin/pool")],
        vec![run("/sbin/lvm lvcreate -q -y -V 64m -n t -T thin/pool")],
        group("parted", &["{in-lvm-part}"], ""),
        vec![volume("-l 7 -n p parted")],
    ]
    .concat()
}

fn foreign_groups() -> Vec<Value> {
    let of_other =
        format!(" --config global/system_id_source=\"lvmlocal\"local/system_id=\"{OTHER}\" --systemid {OTHER}");
    [
        group("stranger", &["{in-lvm-foreign}"], &of_other),
        group("on-array", &["/dev/md16"], &of_other),
        group("vm", &["{in-lvm-vmfs}"], ""),
        vec![volume("-l 2 -n first vm"), volume("-l 6 -n second vm")],
        vmfs("/dev/vm/second"),
        group("wide", &["{in-lvm-vmfs-1}", "{in-lvm-vmfs-2}"], ""),
        vec![volume("-i 2 -I 64k -l 12 -n w wide")],
        vmfs("/dev/wide/w"),
        group("thick", &["{in-lvm-thin-vmfs}"], ""),
        vec![run("/sbin/lvm lvcreate -q -y -l 6 --poolmetadatasize 2m --poolmetadataspare n -T thick/pool")],
        vec![run("/sbin/lvm lvcreate -q -y -V 32m -n t -T thick/pool")],
        vmfs("/dev/thick/t"),
    ]
    .concat()
}

/// Afterwards nothing runs that could still write.
pub(super) fn taking_down() -> Vec<Value> {
    let mut acts = vec![run("/sbin/lvm vgchange -q -an")];
    acts.extend((10..=16).map(|number| run(&format!("/sbin/mdadm --stop --quiet /dev/md{number}"))));
    acts
}
