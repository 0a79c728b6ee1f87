//! Disks that the guest makes: volumes of lvm2 and arrays of mdadm need a kernel that has them, which this computer's
//! need not.

use firesteel_lab_foreign_disks::{self as foreign, ExpectedFate, ForeignDisk};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
/// This host's name, under its last system.
const OWN: &str = "node-1";
const OTHER: &str = "web-7";
/// lvm2 taken for that of the other host.
const OF_OTHER: &str = "--config global/system_id_source=\"lvmlocal\"local/system_id=\"web-7\"";

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
pub(super) fn disks() -> Vec<ForeignDisk> {
    let mut all: Vec<ForeignDisk> = Vec::new();
    let mut add = |names: &[&str], fate: &ExpectedFate| {
        for name in names {
            let own_names = if name.starts_with("in-md-own") { vec![OWN.to_owned()] } else { Vec::new() };
            all.push(ForeignDisk {
                name: (*name).to_owned(),
                bytes: 16 * MIB,
                fate: fate.clone(),
                own_names,
                ..ForeignDisk::default()
            });
        }
    };
    add(&["in-lvm-linear", "in-lvm-part", "in-lvm-stripe-1", "in-lvm-stripe-2"], &ExpectedFate::Erased);
    add(&["in-lvm-mirror-1", "in-lvm-mirror-2", "in-lvm-thin"], &ExpectedFate::Erased);
    add(&["in-lvm-foreign", "in-md-lvm-1", "in-md-lvm-2"], &ExpectedFate::Stays(OTHER));
    add(&["in-lvm-vmfs", "in-lvm-vmfs-1", "in-lvm-vmfs-2"], &ExpectedFate::Stays("VMFS"));
    // The pool's own metadata says where a thin volume lies; who does not follow it must not guess.
    add(&["in-lvm-thin-vmfs"], &ExpectedFate::Stays(""));
    add(
        &["in-md-own-1", "in-md-own-2", "in-md-090-1", "in-md-090-2", "in-md-nameless-1", "in-md-nameless-2"],
        &ExpectedFate::Erased,
    );
    add(&["in-md-foreign-1", "in-md-foreign-2"], &ExpectedFate::Stays(OTHER));
    add(
        &["in-md-0-vmfs-1", "in-md-0-vmfs-2", "in-md-5-vmfs-1", "in-md-5-vmfs-2", "in-md-5-vmfs-3"],
        &ExpectedFate::Stays("VMFS"),
    );
    for made in all.iter_mut().filter(|made| made.name == "in-lvm-part") {
        made.pieces = foreign::linux_table();
    }
    all
}

fn run(line: &str) -> Value {
    json!({"run": line.split(' ').collect::<Vec<_>>()})
}

fn vmfs(device: &str) -> Vec<Value> {
    let write = |(at, bytes): (u64, Vec<u8>)| json!({"write": {"to": device, "at": at, "hex": hex::encode(bytes)}});
    foreign::vmfs(0).into_iter().map(write).collect()
}

/// A group on these devices: lvm2 looks at no other ones, for there are many.
struct TestVolumeGroup {
    name: &'static str,
    devices: &'static [&'static str],
    more: &'static str,
}

impl TestVolumeGroup {
    fn of(name: &'static str, devices: &'static [&'static str]) -> Self {
        Self { name, devices, more: "" }
    }

    fn lvm(&self, line: &str) -> Value {
        let mut words: Vec<&str> = vec!["/sbin/lvm"];
        words.extend(line.split(' '));
        words.extend(["-q", "-y"]);
        words.extend(self.more.split_whitespace());
        for device in self.devices {
            words.extend(["--devices", device]);
        }
        json!({"run": words})
    }

    fn create(&self) -> Value {
        self.lvm(&format!("vgcreate --physicalextentsize 1m {} {}", self.name, self.devices.join(" ")))
    }

    fn volume(&self, arguments: &str) -> Value {
        self.lvm(&format!("lvcreate -Wn -Zn {arguments} {}", self.name))
    }

    /// A pool, and a volume of it that has more than the pool.
    fn thin(&self) -> Vec<Value> {
        let pool = format!("{}/pool", self.name);
        vec![
            self.create(),
            self.lvm(&format!("lvcreate -l 6 --poolmetadatasize 2m --poolmetadataspare n -T {pool}")),
            self.lvm(&format!("lvcreate -V 48m -n t -T {pool}")),
        ]
    }
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
    let [linear, striped, mirrored, thin, parted, ..] = groups();
    let acts = vec![
        linear.create(),
        // The first has two segments, for the second stands behind it.
        linear.volume("-l 3 -n a"),
        linear.volume("-l 4 -n b"),
        linear.lvm("lvextend -l +2 local/a"),
        striped.create(),
        striped.volume("-i 2 -I 64k -l 10 -n s"),
        mirrored.create(),
        mirrored.volume("--type raid1 -m 1 --nosync -l 5 -n m"),
        parted.create(),
        parted.volume("-l 3 -n p"),
    ];
    [acts, thin.thin()].concat()
}

fn foreign_groups() -> Vec<Value> {
    let [_, _, _, _, _, stranger, on_array, vm, wide, thick] = groups();
    [
        vec![stranger.create(), stranger.volume("-l 3 -n data"), on_array.create()],
        vec![vm.create(), vm.volume("-l 2 -n first"), vm.volume("-l 6 -n second")],
        vmfs("/dev/vm/second"),
        vec![wide.create(), wide.volume("-i 2 -I 64k -l 12 -n w")],
        vmfs("/dev/wide/w"),
        thick.thin(),
        vmfs("/dev/thick/t"),
    ]
    .concat()
}

fn groups() -> [TestVolumeGroup; 10] {
    let of_other = |name, devices| TestVolumeGroup { more: OF_OTHER, ..TestVolumeGroup::of(name, devices) };
    [
        TestVolumeGroup::of("local", &["{in-lvm-linear}"]),
        TestVolumeGroup::of("striped", &["{in-lvm-stripe-1}", "{in-lvm-stripe-2}"]),
        TestVolumeGroup::of("mirrored", &["{in-lvm-mirror-1}", "{in-lvm-mirror-2}"]),
        TestVolumeGroup::of("thin", &["{in-lvm-thin}"]),
        TestVolumeGroup::of("parted", &["{in-lvm-part}1"]),
        of_other("stranger", &["{in-lvm-foreign}"]),
        of_other("on-array", &["/dev/md16"]),
        TestVolumeGroup::of("vm", &["{in-lvm-vmfs}"]),
        TestVolumeGroup::of("wide", &["{in-lvm-vmfs-1}", "{in-lvm-vmfs-2}"]),
        TestVolumeGroup::of("thick", &["{in-lvm-thin-vmfs}"]),
    ]
}

/// Afterwards nothing runs that could still write.
pub(super) fn taking_down() -> Vec<Value> {
    let groups = groups();
    let mut acts: Vec<Value> = groups.iter().map(|group| group.lvm(&format!("vgchange -an {}", group.name))).collect();
    acts.extend((10..=16).map(|number| run(&format!("/sbin/mdadm --stop --quiet /dev/md{number}"))));
    acts
}
