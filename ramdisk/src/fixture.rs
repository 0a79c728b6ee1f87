//! Makes small packages, archives and modules for the tests of this crate.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::io::{Read as _, Write};

/// A tar archive of regular files.
pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content) in files {
        if name.len() > 100 {
            let mut long = name.as_bytes().to_vec();
            long.push(0);
            tar_entry(&mut archive, "././@LongLink", b'L', &long);
        }
        tar_entry(&mut archive, &name[..name.len().min(100)], b'0', content);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

fn tar_entry(archive: &mut Vec<u8>, name: &str, kind: u8, content: &[u8]) {
    tar_header(archive, name, kind, content.len() as u64);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

fn tar_header(archive: &mut Vec<u8>, name: &str, kind: u8, bytes: u64) {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{bytes:011o}").as_bytes());
    header[148..156].fill(b' ');
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar  \0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    archive.extend_from_slice(&header);
}

/// A Debian package; `compression` is the suffix of its inner archives.
pub(crate) fn deb(package: &str, files: &[(&str, &[u8])], compression: &str) -> Vec<u8> {
    let control = format!("Package: {package}\nVersion: 6.1.1-1\nArchitecture: amd64\nDescription: a\n b\n");
    deb_of(&[("./control", control.as_bytes())], files, compression)
}

/// A package of these control and data files.
pub(crate) fn deb_of(control: &[(&str, &[u8])], data: &[(&str, &[u8])], compression: &str) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    ar_member(&mut out, "debian-binary", b"2.0\n");
    ar_member(&mut out, &format!("control.tar{compression}"), &compress(&tar(control), compression));
    ar_member(&mut out, &format!("data.tar{compression}"), &compress(&tar(data), compression));
    out
}

/// A package whose data archive, packed in `.zst`, holds one file of `bytes` zeros.
pub(crate) fn deb_of_zeros(bytes: u64) -> Vec<u8> {
    let mut data = Vec::new();
    tar_header(&mut data, "./zeros", b'0', bytes);
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(&data).unwrap();
    std::io::copy(&mut std::io::repeat(0).take(bytes.next_multiple_of(512) + 1024), &mut encoder).unwrap();
    let mut out = b"!<arch>\n".to_vec();
    ar_member(&mut out, "data.tar.zst", &encoder.finish().unwrap());
    out
}

fn compress(bytes: &[u8], compression: &str) -> Vec<u8> {
    match compression {
        ".xz" => xz(bytes),
        ".zst" => zstd::encode_all(bytes, 1).unwrap(),
        _ => bytes.to_vec(),
    }
}

pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn ar_member(out: &mut Vec<u8>, name: &str, content: &[u8]) {
    out.extend_from_slice(
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, content.len()).as_bytes(),
    );
    out.extend_from_slice(content);
    if content.len() % 2 == 1 {
        out.push(b'\n');
    }
}

/// A kernel module: an ELF object with nothing but a `.modinfo` section of `fields`.
pub(crate) fn module(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut modinfo = Vec::new();
    for (key, value) in fields {
        modinfo.extend_from_slice(format!("{key}={value}\0").as_bytes());
    }
    let names = b"\0.modinfo\0.shstrtab\0";
    let modinfo_at = 64u64;
    let names_at = modinfo_at + modinfo.len() as u64;
    let sections_at = (names_at + names.len() as u64).next_multiple_of(8);
    let mut elf = vec![0u8; 64];
    elf[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    elf[16..18].copy_from_slice(&1u16.to_le_bytes());
    elf[18..20].copy_from_slice(&62u16.to_le_bytes());
    elf[40..48].copy_from_slice(&sections_at.to_le_bytes());
    elf[58..60].copy_from_slice(&64u16.to_le_bytes());
    elf[60..62].copy_from_slice(&3u16.to_le_bytes());
    elf[62..64].copy_from_slice(&2u16.to_le_bytes());
    elf.extend_from_slice(&modinfo);
    elf.extend_from_slice(names);
    elf.resize(usize::try_from(sections_at).unwrap(), 0);
    for (name, offset, size) in
        [(0u32, 0, 0), (1, modinfo_at, modinfo.len() as u64), (10, names_at, names.len() as u64)]
    {
        let mut section = [0u8; 64];
        section[..4].copy_from_slice(&name.to_le_bytes());
        section[24..32].copy_from_slice(&offset.to_le_bytes());
        section[32..40].copy_from_slice(&size.to_le_bytes());
        elf.extend_from_slice(&section);
    }
    elf
}
