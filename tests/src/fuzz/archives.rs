//! What the ramdisk is made of and made into: ar, tar, module descriptions, cpio.

use firesteel_ramdisk::{cpio::Archive, deb, modinfo, tar};

/// Of the names that tests make.
const NAME_BYTES_MAX: usize = 64;

pub(super) fn check(input: &[u8]) {
    deb::check(input);
    modinfo::check(input);
    let mut sum = input.to_vec();
    sum_up(&mut sum);
    for bytes in [input, &sum] {
        let (mut files, mut total) = (0, 0);
        let walked = tar::for_each_file(&mut &*bytes, &mut |_| true, &mut |name, content| {
            files += 1;
            total += content.len();
            assert!(!name.contains('\0'), "a name ends at its NUL");
        });
        assert!(total <= bytes.len() && files * 512 <= bytes.len(), "nothing comes out that was not in: {walked:?}");
    }
    // As names and contents of an archive of ours, with a reader that knows nothing of the writer.
    let mut archive = Archive::default();
    let mut expected = std::collections::BTreeMap::new();
    for (index, content) in super::messages(input).take(8).enumerate() {
        let letters = content.iter().filter(|byte| byte.is_ascii_alphanumeric()).take(NAME_BYTES_MAX);
        let name = format!("f{index}{}", letters.map(|byte| char::from(*byte)).collect::<String>());
        archive.add_file(&format!("d/{name}"), 0o644, content.to_vec());
        expected.insert(format!("d/{name}"), content.to_vec());
    }
    let bytes = archive.to_bytes();
    assert_eq!(bytes.len() % 512, 0);
    let read = read_cpio(&bytes).unwrap();
    let files = read.into_iter().filter(|entry| entry.1 & 0o170_000 == 0o100_000).map(|entry| (entry.0, entry.2));
    assert_eq!(files.collect::<std::collections::BTreeMap<_, _>>(), expected);
}

/// Path, mode and content of each entry of a "newc" archive up to its trailer, which only zeros may follow.
pub(super) fn read_cpio(mut archive: &[u8]) -> Option<Vec<(String, u32, Vec<u8>)>> {
    let mut entries = Vec::new();
    loop {
        let header = archive.get(..110).filter(|header| header.starts_with(b"070701"))?;
        let field = |index: usize| {
            let digits = std::str::from_utf8(&header[6 + 8 * index..14 + 8 * index]).ok()?;
            usize::from_str_radix(digits, 16).ok()
        };
        let (mode, length, name_length) = (field(1)?, field(6)?, field(11)?);
        let name = String::from_utf8(archive.get(110..110 + name_length - 1)?.to_vec()).ok()?;
        let start = (110 + name_length).next_multiple_of(4);
        if name == "TRAILER!!!" {
            return archive[start..].iter().all(|byte| *byte == 0).then_some(entries);
        }
        entries.push((name, u32::try_from(mode).ok()?, archive.get(start..start + length)?.to_vec()));
        archive = archive.get((start + length).next_multiple_of(4)..)?;
    }
}

/// Makes the checksum of each tar header right, as far as the sizes lead.
fn sum_up(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = bytes.get_mut(at..at + 512) {
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let digits = std::str::from_utf8(&header[124..135]).unwrap_or_default().trim_matches(['\0', ' ']);
        let length = usize::from_str_radix(digits, 8).unwrap_or(0);
        at = at.saturating_add(512).saturating_add(length.min(bytes.len()).next_multiple_of(512));
    }
}

fn tar_of(files: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, kind, content) in files {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = *kind;
        header[257..263].copy_from_slice(b"ustar\0");
        bytes.extend(header);
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    sum_up(&mut bytes);
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let long = "folder/".repeat(20);
    let tar = tar_of(&[
        ("./", b'5', b""),
        ("./boot/vmlinuz", b'0', b"kernel"),
        ("././@LongLink", b'L', long.as_bytes()),
        ("./short", b'0', &[7; 600]),
        ("./link", b'2', b""),
    ]);
    let member = |name: &str, content: &[u8]| {
        let mut bytes =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len()).into_bytes();
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
        bytes
    };
    let deb = [b"!<arch>\n".to_vec(), member("debian-binary", b"2.0\n"), member("data.tar", &tar)].concat();
    vec![tar, deb, module(), super::joined(&[b"one", b"", b"three", &[0; 700]])]
}

/// An ELF object with nothing but a `.modinfo` section.
fn module() -> Vec<u8> {
    let info = b"depends=virtio,virtio_ring\0softdep=pre: a post: b\0alias=pci:v1d2*\0firmware=x.bin\0";
    let names = b"\0.modinfo\0.shstrtab\0";
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    let info_at = bytes.len() as u64;
    bytes.extend(info);
    let names_at = bytes.len() as u64;
    bytes.extend(names);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let sections_at = bytes.len() as u64;
    let section = |name: u32, kind: u32, at: u64, length: usize| {
        let mut section = [0; 64];
        section[..4].copy_from_slice(&name.to_le_bytes());
        section[4..8].copy_from_slice(&kind.to_le_bytes());
        section[24..32].copy_from_slice(&at.to_le_bytes());
        section[32..40].copy_from_slice(&(length as u64).to_le_bytes());
        section
    };
    bytes.extend(
        [section(0, 0, 0, 0), section(1, 1, info_at, info.len()), section(10, 3, names_at, names.len())].concat(),
    );
    bytes[40..48].copy_from_slice(&sections_at.to_le_bytes());
    bytes[58..64].copy_from_slice(&[64, 0, 3, 0, 2, 0]);
    bytes
}
