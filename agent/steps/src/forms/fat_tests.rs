//! Volumes are read by others: `fsck.vfat` and mtools, where they are installed.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use std::{fs, path::Path, process::Command};

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

/// Writes the volume at its full length.
fn store(folder: &Path, volume: &FatVolume, volume_bytes: u64) -> std::path::PathBuf {
    let path = folder.join("volume");
    fs::write(&path, &volume.bytes).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(volume_bytes).unwrap();
    path
}

/// What a program prints; `None` where it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let found = ["/usr/bin", "/usr/sbin", "/sbin"].iter().map(|folder| Path::new(folder).join(program));
    let Some(program) = found.into_iter().find(|path| path.exists()) else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let output = Command::new(program).args(arguments).env("MTOOLS_SKIP_CHECK", "1").output().unwrap();
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    Some(output.stdout)
}

#[test]
fn other_programs_read_what_was_built() {
    let large = vec![0x5a; 300_000];
    let files: [(&str, &[u8]); 6] = [
        ("openstack/latest/user_data", b"#cloud-config\n"),
        ("openstack/latest/meta_data.json", br#"{"uuid":"x"}"#),
        ("openstack/latest/network_data.json", &large),
        ("openstack/content/0000", b""),
        ("user-data", b"one"),
        ("A name with blanks and more letters than one entry holds.text", b"two"),
    ];
    for (volume_bytes, sector_bytes) in
        [(64 * MIB, 512), (64 * MIB, 4096), (3 * MIB, 512), (18 * MIB, 4096), (5000 * MIB, 512)]
    {
        let volume = build("config-2", 0x1234_abcd, volume_bytes, sector_bytes, &files).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = store(folder.path(), &volume, volume_bytes);
        let image = path.to_str().unwrap();
        drop(run("fsck.vfat", &["-n", "-v", image]));
        for (name, content) in &files {
            if let Some(read) = run("mtype", &["-i", image, &format!("::{name}")]) {
                assert!(read == *content, "{name} in {volume_bytes} bytes");
            }
        }
        if let Some(said) = run("mdir", &["-i", image, "::"]) {
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains("Volume in drive : is config-2") && said.contains("1234-ABCD"), "{said}");
        }
    }
}

#[test]
fn the_boot_sector_tells_the_label_and_the_same_files_give_the_same_bytes() {
    let files: [(&str, &[u8]); 1] = [("user-data", b"x")];
    let volume = build("CIDATA", 1, 64 * MIB, 512, &files).unwrap();
    let found = crate::disk::label::read(&volume.bytes[..4096]).unwrap();
    assert_eq!((found.kind, found.label.as_str()), ("vfat", "CIDATA"));
    assert!(volume == build("CIDATA", 1, 64 * MIB, 512, &files).unwrap());
    assert!(volume.bytes.len() < 400_000, "what is not used is not written");
    let placed = &volume.files[0];
    assert_eq!(&volume.bytes[placed.offset..placed.offset + placed.bytes], b"x");
}

#[test]
fn what_does_not_fit_is_refused() {
    let large = vec![1; 5 << 20];
    let one: &[(&str, &[u8])] = &[("a", &large)];
    let build = |bytes, sector, files: &[(&str, &[u8])]| build("L", 1, bytes, sector, files).map(drop);
    assert!(matches!(build(4 * MIB, 512, one), Err(FatError::Full { .. })));
    assert!(matches!(build(2 * MIB, 512, &[]), Err(FatError::TooSmall { .. })));
    assert!(matches!(build(0, 512, &[]), Err(FatError::TooSmall { .. })));
    assert!(matches!(build(8 * MIB, 4096, &[]), Err(FatError::TooSmall { .. })));
    assert_eq!(build(64 * MIB, 520, &[]), Err(FatError::Sector(520)));
    for bad in ["", "a//b", "a:b", "a.", " a", "é", "a\nb", "a/./b."] {
        assert!(matches!(build(64 * MIB, 512, &[(bad, b"")]), Err(FatError::Name(_))), "{bad:?}");
    }
    assert!(matches!(build(64 * MIB, 512, &[("a", b""), ("a/b", b"")]), Err(FatError::Twofold(_))));
    assert!(matches!(build(64 * MIB, 512, &[("a/b", b""), ("a", b"")]), Err(FatError::Twofold(_))));
    let names: Vec<String> = (0..300).map(|number| format!("a-name-{number}")).collect();
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert!(matches!(build(64 * MIB, 512, &many), Err(FatError::TooMany(_))), "the root folder has 512 entries");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_files_are_survived(bytes in prop::collection::vec(prop::sample::select(b"ab./:\n\xff".to_vec()), 0..200)) {
        check(&bytes);
    }
}
