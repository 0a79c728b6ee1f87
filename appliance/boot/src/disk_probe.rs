//! A boot program of a few hundred bytes that tells iPXE on a BIOS which disk is ours.
//!
//! iPXE can boot a BIOS disk by its number but cannot look into it, and two disks may carry the
//! same labels and UUIDs (a clone, an older copy). Firesteel gives each installation a fresh disk
//! GUID, so the boot script chains one of these programs per drive: "does drive 0x8N hold these
//! bytes at this sector and offset?". Status 0 means yes, 1 means no, and iPXE goes on either way:
//!
//! ```text
//! chain --autofree …/disk-probe/<lba>-<offset>-<bytes>/80 && sanboot --no-describe --drive 0x80 ||
//! ```
//!
//! The program is a PXE network boot program (PXE 2.1 section 4.4): loaded at 0000:7C00, entered by a far call on
//! iPXE's stack, left by a far return with the status in AX. It uses INT 13h only, reads one
//! sector to 0000:8000 (above itself, below anything of iPXE's) and restores every register and
//! flag but AX. [`LISTING`] is the source; a test assembles it and compares it with [`CODE`].

use std::fmt;
use std::str::FromStr;

use firesteel_facts::Guid;

/// GPT's header is one sector after the first.
pub const GPT_HEADER_LBA: u64 = 1;
/// The offset of the disk GUID in GPT's header (UEFI 2.10 section 5.3.2).
pub const GPT_DISK_GUID_OFFSET: u16 = 56;
/// A GUID is 16; more has no use yet and keeps the URL short.
pub const BYTES_MAX: usize = 32;
/// Sector size of INT 13h here; a BIOS boots no 4Kn disk.
pub const SECTOR_BYTES: u16 = 512;
/// BIOS numbers of hard disks: 0x80 is the first.
pub const DRIVE_FIRST: u8 = 0x80;
/// More disks than this are not searched: each costs an HTTP request and a read.
pub const DRIVES_MAX: u8 = 8;

/// Bytes that identify a disk, and where they stand on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskProbe {
    lba: u64,
    offset: u16,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskProbeError {
    #[error("a disk probe compares 1 to {BYTES_MAX} bytes within one sector of {SECTOR_BYTES} bytes")]
    Range,
    #[error("a disk probe is written as <lba>-<offset>-<bytes in hexadecimal>")]
    Text,
}

impl DiskProbe {
    pub fn new(lba: u64, offset: u16, bytes: &[u8]) -> Result<Self, DiskProbeError> {
        let fits = usize::from(offset).saturating_add(bytes.len()) <= usize::from(SECTOR_BYTES);
        if bytes.is_empty() || bytes.len() > BYTES_MAX || !fits {
            return Err(DiskProbeError::Range);
        }
        Ok(Self { lba, offset, bytes: bytes.to_vec() })
    }

    /// Makes the probe of a GPT disk from its GUID in the disk's order of bytes (the first three fields little endian).
    #[must_use]
    pub fn gpt_disk_guid(guid: &[u8; 16]) -> Self {
        Self { lba: GPT_HEADER_LBA, offset: GPT_DISK_GUID_OFFSET, bytes: guid.to_vec() }
    }

    /// Makes the probe of a GPT disk from its GUID as people write it (`8A4B…-…`).
    pub fn gpt_disk_guid_text(text: &str) -> Result<Self, DiskProbeError> {
        let guid: Guid = text.parse().map_err(|_| DiskProbeError::Text)?;
        Ok(Self::gpt_disk_guid(&guid.0))
    }

    /// The program that answers for `drive` (0x80 is the first disk).
    #[must_use]
    pub fn program(&self, drive: u8) -> Vec<u8> {
        // All lengths are bounded by `new`, so the conversions to 16 bits cannot lose anything.
        let length = u16::try_from(self.bytes.len()).unwrap_or(0);
        let mut program = CODE.to_vec();
        program.extend_from_slice(&[drive, 0]);
        program.extend_from_slice(&length.to_le_bytes());
        program.extend_from_slice(&(BUFFER + self.offset).to_le_bytes());
        // Disk address packet of INT 13h, AH=42h: size, 0, sectors, offset, segment, LBA.
        program.extend_from_slice(&[16, 0, 1, 0]);
        program.extend_from_slice(&BUFFER.to_le_bytes());
        program.extend_from_slice(&[0, 0]);
        program.extend_from_slice(&self.lba.to_le_bytes());
        program.extend_from_slice(&self.bytes);
        program
    }
}

impl fmt::Display for DiskProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-", self.lba, self.offset)?;
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for DiskProbe {
    type Err = DiskProbeError;

    fn from_str(text: &str) -> Result<Self, DiskProbeError> {
        let mut parts = text.splitn(3, '-');
        let mut part = || parts.next().ok_or(DiskProbeError::Text);
        let lba = parse_decimal(part()?)?;
        let offset = u16::try_from(parse_decimal(part()?)?).map_err(|_| DiskProbeError::Range)?;
        let bytes = parse_hex(part()?).ok_or(DiskProbeError::Text)?;
        Self::new(lba, offset, &bytes)
    }
}

fn parse_decimal(text: &str) -> Result<u64, DiskProbeError> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(DiskProbeError::Text);
    }
    text.parse().map_err(|_| DiskProbeError::Range)
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || digits.len() > 2 * BYTES_MAX {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    digits.chunks(2).map(|pair| Some((nibble(pair[0])? << 4) | nibble(pair[1])?)).collect()
}

/// Where the sector is read to; `LISTING` knows it only through the packet and the address in its data.
const BUFFER: u16 = 0x8000;

/// `LISTING`, assembled: the data (drive, length, address, packet, bytes) follows it.
const CODE: [u8; 101] = [
    0x9c, 0x60, 0x1e, 0x06, 0xb3, 0x03, // start: save everything; three tries
    0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, 0xfc, // again: segments 0, count upwards
    0x8a, 0x16, 0x65, 0x7c, // drive
    0x88, 0xd0, 0x2c, 0x80, 0x3a, 0x06, 0x75, 0x04, 0x73, 0x3d, // beyond the BIOS's number of disks?
    0xc7, 0x06, 0x6d, 0x7c, 0x01, 0x00, // one sector
    0xbe, 0x6b, 0x7c, 0xb4, 0x42, 0x53, 0xcd, 0x13, 0x5b, 0x73, 0x12, // extended read
    0x31, 0xc0, 0x8e, 0xd8, 0x8a, 0x16, 0x65, 0x7c, 0x53, 0xcd, 0x13, 0x5b, // reset the drive
    0xfe, 0xcb, 0x75, 0xca, 0xeb, 0x1a, // try again, or no
    0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, 0xfc, // compare: segments may have changed
    0x8b, 0x0e, 0x67, 0x7c, 0x8b, 0x3e, 0x69, 0x7c, 0xbe, 0x7b, 0x7c, // length, read bytes, wanted bytes
    0xf3, 0xa6, 0x75, 0x04, 0x31, 0xc0, 0xeb, 0x03, // equal: 0
    0xb8, 0x01, 0x00, // differs: 1
    0x89, 0xe5, 0x89, 0x46, 0x12, // done: into the AX that is saved on the stack
    0x07, 0x1f, 0x61, 0x9d, 0xcb, // restore everything, far return
];

/// Source of [`CODE`] for GNU `as`.
pub const LISTING: &str = r"
        .code16
        .set    base, 0x7c00                    # where PXE loads a boot program
        .set    data, base + code_end
        .set    drive, data                     # byte, and one to align
        .set    length, data + 2                # word: bytes to compare
        .set    address, data + 4               # word: where the sector has them
        .set    packet, data + 6                # 16 bytes: disk address packet
        .set    wanted, data + 22               # the bytes themselves
        .set    disks, 0x475                    # BIOS data area: number of hard disks
start:
        pushfw
        pushaw
        pushw   %ds
        pushw   %es
        movb    $3, %bl                         # a disk that spins up may fail its first read
again:
        xorw    %ax, %ax
        movw    %ax, %ds
        movw    %ax, %es
        cld
        movb    drive, %dl
        movb    %dl, %al
        subb    $0x80, %al
        cmpb    disks, %al                      # some BIOSes hang on a disk that is not there
        jae     differs
        movw    $1, packet + 2                  # a failed read leaves another count there
        movw    $packet, %si
        movb    $0x42, %ah                      # extended read
        pushw   %bx
        int     $0x13
        popw    %bx
        jnc     compare
        xorw    %ax, %ax                        # AH=0: reset the drive
        movw    %ax, %ds
        movb    drive, %dl
        pushw   %bx
        int     $0x13
        popw    %bx
        decb    %bl
        jnz     again
        jmp     differs
compare:
        xorw    %ax, %ax                        # not every BIOS keeps the segment registers
        movw    %ax, %ds
        movw    %ax, %es
        cld
        movw    length, %cx
        movw    address, %di
        movw    $wanted, %si
        repe cmpsb
        jne     differs
        xorw    %ax, %ax
        jmp     done
differs:
        movw    $1, %ax
done:
        movw    %sp, %bp
        movw    %ax, 18(%bp)                    # es, ds, di, si, bp, sp, bx, dx, cx, then ax
        popw    %es
        popw    %ds
        popaw
        popfw
        lretw
        .set    code_end, . - start
";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn code_is_the_assembled_listing() {
        let folder = std::env::temp_dir().join(format!("firesteel-disk-probe-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (source, object, binary) = (folder.join("probe.S"), folder.join("probe.o"), folder.join("probe.bin"));
        fs::write(&source, LISTING).unwrap();
        let run = |command: &mut Command| command.status().map(|status| assert!(status.success())).is_ok();
        let assembled = run(Command::new("as").arg("--32").arg(&source).arg("-o").arg(&object))
            && run(Command::new("objcopy").args(["-O", "binary", "-j", ".text"]).arg(&object).arg(&binary));
        let bytes = fs::read(&binary);
        fs::remove_dir_all(&folder).unwrap();
        if !assembled {
            eprintln!("skipped: no GNU as and objcopy here");
            return;
        }
        assert_eq!(bytes.unwrap(), CODE);
    }

    #[test]
    fn data_follows_the_code_where_the_listing_expects_it() {
        let program = DiskProbe::gpt_disk_guid(&[0xab; 16]).program(0x81);
        let data = &program[CODE.len()..];
        assert_eq!(data[0], 0x81);
        assert_eq!(data[2..6], [16, 0, 56, 0x80]);
        assert_eq!(data[6..22], [16, 0, 1, 0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(data[22..], [0xab; 16]);
    }

    #[test]
    fn guid_text_has_three_swapped_fields() {
        let probe = DiskProbe::gpt_disk_guid_text("00112233-4455-6677-8899-AABBCCDDEEFF").unwrap();
        assert_eq!(probe.to_string(), "1-56-33221100554477668899aabbccddeeff");
        for text in [
            "",
            "00112233-4455-6677-8899",
            "0011223g-4455-6677-8899-aabbccddeeff",
            "é0112233-4455-6677-8899-aabbccddeef",
        ] {
            assert_eq!(DiskProbe::gpt_disk_guid_text(text), Err(DiskProbeError::Text), "{text}");
        }
    }

    #[test]
    fn nothing_outside_one_sector() {
        assert!(DiskProbe::new(0, 496, &[1; 16]).is_ok());
        assert_eq!(DiskProbe::new(0, 497, &[1; 16]), Err(DiskProbeError::Range));
        assert_eq!(DiskProbe::new(0, u16::MAX, &[1]), Err(DiskProbeError::Range));
        assert_eq!(DiskProbe::new(0, 0, &[]), Err(DiskProbeError::Range));
        assert_eq!(DiskProbe::new(0, 0, &[1; BYTES_MAX + 1]), Err(DiskProbeError::Range));
        assert_eq!("1-70000-00".parse::<DiskProbe>(), Err(DiskProbeError::Range));
        assert_eq!("1-+5-00".parse::<DiskProbe>(), Err(DiskProbeError::Text));
    }

    #[test]
    fn bytes_are_pairs_of_hexadecimal_digits_and_few() {
        for (digits, bytes) in [
            ("0f", Some(vec![0x0f])),
            ("F0a5", Some(vec![0xf0, 0xa5])),
            ("0f1", None),
            ("0g", None),
            (&"ab".repeat(BYTES_MAX), Some(vec![0xab; BYTES_MAX])),
            (&"ab".repeat(BYTES_MAX + 1), None),
        ] {
            let wanted = bytes.map(|bytes| DiskProbe { lba: 1, offset: 5, bytes }).ok_or(DiskProbeError::Text);
            assert_eq!(format!("1-5-{digits}").parse(), wanted, "{digits}");
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(lba: u64, offset in 0u16..480, bytes in prop::collection::vec(any::<u8>(), 1..=BYTES_MAX)) {
            let probe = DiskProbe::new(lba, offset, &bytes).unwrap();
            prop_assert_eq!(probe.to_string().parse(), Ok(probe));
        }

        #[test]
        fn no_text_panics(text in ".{0,80}") {
            prop_assert!(text.parse::<DiskProbe>().is_err() || text.contains('-'));
        }
    }
}
