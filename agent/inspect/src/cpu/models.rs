//! Names of processors whose kernel shows numbers only: cores of arm64 by implementer and part (as `lscpu` names them),
//! mainframes by the type of the machine. A number that is not here is shown as it is.

/// Implementer, part and name of cores of servers and of common boards.
const ARM_CORES: [(u32, u32, &str); 54] = [
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd04, "Cortex-A35"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd0d, "Cortex-A77"),
    (0x41, 0xd0e, "Cortex-A76AE"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd44, "Cortex-X1"),
    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd48, "Cortex-X2"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4a, "Neoverse-E1"),
    (0x41, 0xd4b, "Cortex-A78C"),
    (0x41, 0xd4d, "Cortex-A715"),
    (0x41, 0xd4e, "Cortex-X3"),
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd80, "Cortex-A520"),
    (0x41, 0xd81, "Cortex-A720"),
    (0x41, 0xd82, "Cortex-X4"),
    (0x41, 0xd83, "Neoverse-V3AE"),
    (0x41, 0xd84, "Neoverse-V3"),
    (0x41, 0xd85, "Cortex-X925"),
    (0x41, 0xd87, "Cortex-A725"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x42, 0x516, "ThunderX2"),
    (0x43, 0x0a0, "ThunderX"),
    (0x43, 0x0a1, "ThunderX-88XX"),
    (0x43, 0x0a2, "ThunderX-81XX"),
    (0x43, 0x0a3, "ThunderX-83XX"),
    (0x43, 0x0af, "ThunderX2-99xx"),
    (0x46, 0x001, "A64FX"),
    (0x46, 0x003, "MONAKA"),
    (0x48, 0xd01, "TaiShan-v110"),
    (0x48, 0xd02, "TaiShan-v120"),
    (0x4e, 0x003, "Denver 2"),
    (0x4e, 0x004, "Carmel"),
    (0x4e, 0x010, "Olympus"),
    (0x50, 0x000, "X-Gene"),
    (0x51, 0xc00, "Falkor"),
    (0x51, 0xc01, "Saphira"),
    (0x6d, 0xd49, "Azure-Cobalt-100"),
    (0x70, 0x660, "FTC660"),
    (0x70, 0x662, "FTC662"),
    (0x70, 0x663, "FTC663"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
];

/// Types of machines and their families.
const Z_MACHINES: [(&str, &str); 22] = [
    ("2064", "z900"),
    ("2066", "z800"),
    ("2084", "z990"),
    ("2086", "z890"),
    ("2094", "z9 EC"),
    ("2096", "z9 BC"),
    ("2097", "z10 EC"),
    ("2098", "z10 BC"),
    ("2817", "z196"),
    ("2818", "z114"),
    ("2827", "zEC12"),
    ("2828", "zBC12"),
    ("2964", "z13"),
    ("2965", "z13s"),
    ("3906", "z14"),
    ("3907", "z14 ZR1"),
    ("8561", "z15"),
    ("8562", "z15 T02"),
    ("3931", "z16"),
    ("3932", "z16 A02"),
    ("9175", "z17"),
    ("9176", "z17"),
];

pub(super) fn arm_core(implementer: u32, part: u32) -> String {
    let known = ARM_CORES.iter().find(|(by, number, _)| (*by, *number) == (implementer, part));
    match known {
        Some((_, _, name)) => (*name).to_owned(),
        None => format!("implementer {implementer:#04x} part {part:#05x}"),
    }
}

pub(super) fn z_machine(machine: &str) -> String {
    match Z_MACHINES.iter().find(|(number, _)| *number == machine) {
        Some((_, name)) => format!("IBM {name} ({machine})"),
        None => format!("IBM Z ({machine})"),
    }
}
