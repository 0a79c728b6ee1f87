//! Small trees, written by hand after the kernel's formats.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use tempfile::TempDir;

use super::*;

/// One CPU's files below its folder.
type Files<'a> = &'a [(&'a str, &'a str)];

fn tree(cpuinfo: &str, cpus: &[Files<'_>]) -> (TempDir, Roots) {
    let folder = TempDir::new().unwrap();
    let roots = Roots { sys: folder.path().join("sys"), proc: folder.path().join("proc"), dev: "/dev".into() };
    fs::create_dir(&roots.proc).unwrap();
    fs::write(roots.proc.join("cpuinfo"), cpuinfo).unwrap();
    for (number, files) in cpus.iter().enumerate() {
        let cpu = roots.sys.join(format!("devices/system/cpu/cpu{number}"));
        fs::create_dir_all(&cpu).unwrap();
        for (name, text) in *files {
            let file = cpu.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
    }
    // What else is in that folder.
    fs::create_dir_all(roots.sys.join("devices/system/cpu/cpufreq")).unwrap();
    (folder, roots)
}

/// Logical CPUs, sockets, cores and those that are switched off.
fn counts(cpu: &InventoryCpu) -> [u32; 4] {
    [cpu.count, cpu.sockets, cpu.cores, cpu.offline]
}

/// What the kernel prints of one CPU of arm64.
fn arm(number: u32, implementer: &str, part: &str) -> String {
    format!(
        "processor\t: {number}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm aes crc32 atomics asimd\n\
         CPU implementer\t: {implementer}\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part}\n\
         CPU revision\t: 1\n\n"
    )
}

#[test]
fn x86_as_it_says_itself() {
    let x86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: QEMU Virtual CPU\ncpu MHz\t\t: 2000.000\n\
               flags\t\t: sse fpu sse2 fpu\n\nprocessor\t: 1\nmodel name\t: QEMU Virtual CPU\ncpu MHz\t\t: 2100.5\n";
    let cpu = parse(x86, "x86_64");
    assert_eq!((cpu.count, cpu.model.as_str(), cpu.clock_mhz), (2, "QEMU Virtual CPU", 2100.5));
    assert_eq!(cpu.flags, ["fpu", "sse", "sse2"]);
}

/// ACPI: numbers of sockets are offsets in a table, and numbers of cores begin at 0 in each socket.
#[test]
fn an_arm_server_with_two_sockets_and_a_cpu_that_is_off() {
    let cpuinfo: String = (0..3).map(|number| arm(number, "0x41", "0xd0c")).collect();
    let on = |socket: &'static str, core: &'static str| {
        [
            ("online", "1"),
            ("topology/physical_package_id", socket),
            ("topology/core_id", core),
            ("topology/cluster_id", "-1"),
            ("cpufreq/cpuinfo_max_freq", "3000000"),
        ]
    };
    let off = [("online", "0")];
    let (_folder, roots) = tree(&cpuinfo, &[&on("36", "0"), &on("36", "1"), &on("4456", "0"), &off]);
    let cpu = read(&roots);
    assert_eq!(counts(&cpu), [3, 2, 3, 1]);
    assert_eq!((cpu.model.as_str(), cpu.clock_mhz), ("Neoverse-N1", 3000.0));
    assert_eq!(cpu.flags, ["aes", "asimd", "atomics", "crc32", "evtstrm", "fp"]);
}

/// A device tree: the numbers of cores begin at 0 in each cluster, and the first CPU has the slowest clock.
#[test]
fn an_arm_board_with_two_kinds_of_cores() {
    let parts = ["0xd05", "0xd05", "0xd0b", "0xd0b"];
    let cpuinfo: String = (0_u32..).zip(parts).map(|(number, part)| arm(number, "0x41", part)).collect();
    let cpu = |cluster: &'static str, core: &'static str, khz: &'static str| {
        [
            ("topology/physical_package_id", "0"),
            ("topology/cluster_id", cluster),
            ("topology/core_id", core),
            ("cpufreq/cpuinfo_max_freq", khz),
        ]
    };
    let (little, big) = ("1800000", "2400000");
    let all = [cpu("0", "0", little), cpu("0", "1", little), cpu("1", "0", big), cpu("1", "1", big)];
    let (_folder, roots) = tree(&cpuinfo, &[&all[0], &all[1], &all[2], &all[3]]);
    let cpu = read(&roots);
    assert_eq!(counts(&cpu), [4, 1, 4, 0]);
    assert_eq!((cpu.model.as_str(), cpu.clock_mhz), ("Cortex-A55 + Cortex-A76", 2400.0));
}

#[test]
fn an_arm_core_that_has_no_name_here_is_shown_by_its_numbers() {
    let cpu = parse(&arm(0, "0x7f", "0x001"), "aarch64");
    assert_eq!((cpu.count, cpu.model.as_str(), cpu.clock_mhz), (1, "implementer 0x7f part 0x001", 0.0));
    let many: String = (1..9).map(|part| arm(part, "0x7f", &format!("{part:#05x}"))).collect();
    assert_eq!(parse(&many, "aarch64").model.matches("part").count(), KINDS_MAX);
    let broken = "processor\t: 0\nCPU implementer\t: 41\nCPU part\t: 0xd0c\nCPU part\t: 0xfffffffff\n";
    assert_eq!(parse(broken, "aarch64").model, "", "a part without its implementer is no model");
}

/// An LPAR with two threads a core. Numbers of sockets begin at 0 in each book, those of books in each drawer.
#[test]
fn a_mainframe_with_drawers_books_and_threads() {
    let mut cpuinfo =
        "vendor_id       : IBM/S390\n# processors    : 6\nbogomips per cpu: 3241.00\nmax thread id   : 1\n\
                       features\t: esan3 zarch stfle msa vx te vx \nfacilities      : 0 1 2 3 4 6 7\n\
                       cache0          : level=1 type=Data scope=Private size=128K line_size=256 associativity=8\n"
            .to_owned();
    for number in 0..6 {
        cpuinfo.push_str(&format!("processor {number}: version = 00,  identification = 0133E8,  machine = 8561\n"));
    }
    for number in 0..6 {
        cpuinfo.push_str(&format!(
            "\ncpu number      : {number}\nphysical id     : 0\ncore id         : {core}\nversion         : 00\n\
             identification  : 0133E8\nmachine         : 8561\ncpu MHz dynamic : 4100\ncpu MHz static  : 5200\n",
            core = number / 2
        ));
    }
    let cpu = |drawer: &'static str, book: &'static str, core: &'static str, threads: &'static str| {
        [
            ("online", "1"),
            ("topology/thread_siblings_list", threads),
            ("topology/drawer_id", drawer),
            ("topology/book_id", book),
            ("topology/physical_package_id", "0"),
            ("topology/core_id", core),
        ]
    };
    let cores = [cpu("0", "0", "0", "0-1"), cpu("0", "1", "1", "2-3"), cpu("1", "0", "2", "4-5")];
    let cpus: [Files<'_>; 7] =
        [&cores[0], &cores[0], &cores[1], &cores[1], &cores[2], &cores[2], &[("online", "0"), ("configure", "0")]];
    let (_folder, roots) = tree(&cpuinfo, &cpus);
    let cpu = read(&roots);
    assert_eq!(counts(&cpu), [6, 3, 3, 1]);
    assert_eq!((cpu.model.as_str(), cpu.clock_mhz), ("IBM z15 (8561)", 5200.0));
    assert_eq!(cpu.flags, ["esan3", "msa", "stfle", "te", "vx", "zarch"]);
}

/// Older kernels show a summary, and no block for each CPU.
#[test]
fn a_mainframe_that_shows_a_summary_only() {
    let old = "vendor_id       : IBM/S390\n# processors    : 2\nfeatures\t: esan3 zarch\n\
               processor 0: version = FF,  identification = 0133E8,  machine = 2964\n\
               processor 1: version = FF,  identification = 0133E8,  machine = 2964\n";
    let (_folder, roots) = tree(old, &[]);
    let cpu = read(&roots);
    assert_eq!(counts(&cpu), [2, 0, 0, 0], "no topology is shown");
    assert_eq!((cpu.model.as_str(), cpu.flags.len()), ("IBM z13 (2964)", 2));
    let next = old.replace("2964", "9999");
    assert_eq!(parse(&next, "s390x").model, "IBM Z (9999)");
    let other = "processor\t: 0\nvendor_id\t: else\nmachine\t\t: CHRP 8561\n";
    assert_eq!(parse(other, "powerpc64").model, "", "the machine of others is no processor");
}

/// Firmware that says nonsense of caches gives the threads of one core two clusters.
#[test]
fn threads_that_the_kernel_lists_together_are_one_core() {
    let cpu = |cluster: &'static str| {
        [
            ("topology/physical_package_id", "0"),
            ("topology/core_id", "0"),
            ("topology/cluster_id", cluster),
            ("topology/thread_siblings_list", "0-1"),
        ]
    };
    let (_folder, roots) = tree("", &[&cpu("0"), &cpu("1")]);
    assert_eq!(counts(&read(&roots)), [2, 1, 1, 0]);
}

/// The kernel's counts stand above those of cpuinfo, which a sandbox may cut.
#[test]
fn the_topology_counts_where_there_is_one() {
    let one = [("topology/physical_package_id", "0"), ("topology/core_id", "0")];
    let two = [("online", "1"), ("topology/physical_package_id", "0"), ("topology/core_id", "0")];
    let (_folder, roots) = tree("processor\t: 0\nmodel name\t: some\n", &[&one, &two, &[("online", "1")], &[]]);
    assert_eq!(counts(&read(&roots)), [3, 1, 1, 0], "of the last it is not known whether it is on");
}
