//! Which firmware and which processor a machine boots with, as DHCP and iPXE name it.
//!
//! The codes are IANA's "Processor Architecture Types" (RFC 5970 section 3.3). Code 7 is x64 UEFI and code 9 is EFI
//! byte code: the table of RFC 4578 has them the other way round, and erratum 4624 corrects it. Firmware of x64
//! machines sends both, so both are [`FirmwareInterface::X64Uefi`] here.

use std::fmt;

/// Option 93 lists the codes that a client can boot; firmware sends one or two.
pub const ARCHS_MAX: usize = 16;
/// The vendor class has the code in five decimal digits behind this: `PXEClient:Arch:00007:UNDI:003016`.
const CLASS_MARK: &str = ":Arch:";
const CLASS_DIGITS: usize = 5;

/// A client architecture by its registered code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch(pub u16);

/// What a loader has to be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirmwareInterface {
    /// A PC with BIOS.
    X86Bios,
    /// An x86 processor with 64-bit UEFI.
    X64Uefi,
}

impl Arch {
    pub const X86_BIOS: Self = Self(0);
    pub const X86_UEFI: Self = Self(6);
    pub const X64_UEFI: Self = Self(7);
    pub const EBC: Self = Self(9);
    pub const ARM64_UEFI: Self = Self(11);
    pub const X64_UEFI_HTTP: Self = Self(16);

    /// Reads the value of option 93. A byte that is left over is ignored.
    #[must_use]
    pub fn list(value: &[u8]) -> Vec<Self> {
        let (codes, _) = value.as_chunks::<2>();
        codes.iter().take(ARCHS_MAX).map(|code| Self(u16::from_be_bytes(*code))).collect()
    }

    /// Reads the code in a vendor class such as `PXEClient:Arch:00007:UNDI:003016`.
    #[must_use]
    pub fn of_class(class: &str) -> Option<Self> {
        let (_, rest) = class.split_once(CLASS_MARK)?;
        let digits = rest.split(':').next().filter(|digits| (1..=CLASS_DIGITS).contains(&digits.len()))?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten().map(Self)
    }

    /// Says which loader would run, where there is any for such a machine.
    #[must_use]
    pub fn firmware(self) -> Option<FirmwareInterface> {
        match self.0 {
            0 | 20 => Some(FirmwareInterface::X86Bios),
            7 | 9 | 16 | 17 => Some(FirmwareInterface::X64Uefi),
            _ => None,
        }
    }

    /// Names it as IANA does.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(code, _)| *code == self.0).map_or("not registered", |(_, name)| name)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.name())
    }
}

/// Whether the `${buildarch}` of an iPXE is one that starts our kernel, which is for x86-64.
#[must_use]
pub fn ipxe_starts_x86(buildarch: &str) -> bool {
    // A loader for BIOS is built for i386 on any PC.
    matches!(buildarch, "i386" | "x86_64")
}

const NAMES: &[(u16, &str)] = &[
    (0, "x86 BIOS"),
    (1, "NEC PC98"),
    (2, "Itanium"),
    (3, "DEC Alpha"),
    (4, "ARC x86"),
    (5, "Intel Lean Client"),
    (6, "x86 UEFI, 32 bit"),
    (7, "x64 UEFI"),
    (8, "EFI Xscale"),
    (9, "EFI byte code"),
    (10, "ARM UEFI, 32 bit"),
    (11, "ARM UEFI, 64 bit"),
    (12, "PowerPC Open Firmware"),
    (13, "PowerPC ePAPR"),
    (14, "POWER OPAL"),
    (15, "x86 UEFI by HTTP, 32 bit"),
    (16, "x64 UEFI by HTTP"),
    (17, "EFI byte code by HTTP"),
    (18, "ARM UEFI by HTTP, 32 bit"),
    (19, "ARM UEFI by HTTP, 64 bit"),
    (20, "x86 BIOS by HTTP"),
    (21, "ARM U-Boot, 32 bit"),
    (22, "ARM U-Boot, 64 bit"),
    (23, "ARM U-Boot by HTTP, 32 bit"),
    (24, "ARM U-Boot by HTTP, 64 bit"),
    (25, "RISC-V UEFI, 32 bit"),
    (26, "RISC-V UEFI by HTTP, 32 bit"),
    (27, "RISC-V UEFI, 64 bit"),
    (28, "RISC-V UEFI by HTTP, 64 bit"),
    (31, "s390 basic"),
    (32, "s390 extended"),
    (37, "LoongArch UEFI, 32 bit"),
    (38, "LoongArch UEFI by HTTP, 32 bit"),
    (39, "LoongArch UEFI, 64 bit"),
    (40, "LoongArch UEFI by HTTP, 64 bit"),
    (41, "ARM rpiboot"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_7_is_x64_uefi_and_both_codes_that_x64_firmware_sends_boot_alike() {
        assert_eq!((Arch::X64_UEFI, Arch::EBC), (Arch(7), Arch(9)));
        assert_eq!((Arch(7).name(), Arch(9).name()), ("x64 UEFI", "EFI byte code"));
        for code in [7, 9, 16, 17] {
            assert_eq!(Arch(code).firmware(), Some(FirmwareInterface::X64Uefi), "{code}");
        }
        assert_eq!(Arch::X86_BIOS.firmware(), Some(FirmwareInterface::X86Bios));
        for code in [2, 6, 8, 10, 11, 15, 19, 27, 999] {
            assert_eq!(Arch(code).firmware(), None, "{code}");
        }
    }

    #[test]
    fn option_93_is_a_list_of_whole_codes() {
        assert_eq!(Arch::list(&[0, 6, 0, 7]), [Arch(6), Arch(7)]);
        assert_eq!(Arch::list(&[0, 7, 0]), [Arch(7)]);
        assert_eq!(Arch::list(&[0]), []);
        assert_eq!(Arch::list(&[0; 255]).len(), ARCHS_MAX);
    }

    #[test]
    fn a_vendor_class_names_the_code() {
        for (class, code) in [
            ("PXEClient:Arch:00007:UNDI:003016", Some(7)),
            ("HTTPClient:Arch:00016:UNDI:003001", Some(16)),
            ("PXEClient:Arch:00011", Some(11)),
            ("PXEClient:Arch:99999:UNDI:003016", None),
            ("PXEClient:Arch:000007:UNDI:003016", None),
            ("PXEClient:Arch:+0007", None),
            ("PXEClient:Arch::UNDI", None),
            ("PXEClient", None),
        ] {
            assert_eq!(Arch::of_class(class).map(|arch| arch.0), code, "{class}");
        }
    }

    #[test]
    fn it_is_shown_by_code_and_name() {
        assert_eq!(Arch::ARM64_UEFI.to_string(), "11 (ARM UEFI, 64 bit)");
        assert_eq!(Arch(999).to_string(), "999 (not registered)");
        assert!(NAMES.iter().is_sorted_by_key(|(code, _)| *code));
    }

    #[test]
    fn our_kernel_starts_by_ipxe_of_a_pc_alone() {
        assert!(ipxe_starts_x86("i386") && ipxe_starts_x86("x86_64"));
        for other in ["arm64", "arm32", "riscv64", "loong64", "X86_64", ""] {
            assert!(!ipxe_starts_x86(other), "{other}");
        }
    }
}
