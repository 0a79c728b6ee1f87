//! What drives answer to commands that erase, and superblocks of systems that disks come from.

use firesteel_agent::clean::{self, foreign, scsi};

/// Where superblocks stand: the first bytes of each message are put there, on a disk of zeros.
const PLACES: [usize; 10] = [0, 512, 1024, 4096, 8192, 16 << 10, 64 << 10, 128 << 10, 1 << 20, 2 << 20];
const DISK_BYTES: usize = foreign::HEAD_BYTES + foreign::TAIL_BYTES;

pub(super) fn check(input: &[u8]) {
    clean::check(input);
    if let Some(sense) = scsi::sense(input) {
        super::assert_plain(&sense.to_string());
    }
    disk(input);
}

/// Each message is the number of a place and what stands there; every other one counts from the end.
fn disk(input: &[u8]) {
    let mut disk = vec![0; DISK_BYTES];
    for message in super::messages(input).take(8) {
        let Some((place, content)) = message.split_first() else { continue };
        let place = usize::from(*place);
        let at = PLACES[place / 2 % PLACES.len()];
        let at = if place % 2 == 0 { at } else { DISK_BYTES - at.clamp(4096, foreign::TAIL_BYTES) };
        let end = (at + content.len()).min(DISK_BYTES);
        disk[at..end].copy_from_slice(&content[..end - at]);
    }
    let tail = &disk[DISK_BYTES - foreign::TAIL_BYTES..];
    let view = foreign::View { head: &disk[..foreign::HEAD_BYTES], tail, size_bytes: DISK_BYTES as u64 };
    for holding in foreign::holdings(&view) {
        super::assert_plain(&holding.to_string());
        assert!(holding.offset < DISK_BYTES as u64);
        let _objection = foreign::objection(&holding, &["node-1".to_owned()]);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut identify = vec![0; 512];
    identify[256] = 0x29;
    identify[118..120].copy_from_slice(&[0, 0xb0]);
    let mut namespace = vec![0; 4096];
    (namespace[0], namespace[130]) = (8, 12);
    let mut label = vec![0; 512];
    label[..8].copy_from_slice(b"LABELONE");
    label[20] = 32;
    label[24..32].copy_from_slice(b"LVM2 001");
    label[104..106].copy_from_slice(&4096_u16.to_le_bytes());
    label[113] = 0x20;
    let mut area = vec![0; 600];
    area[4..20].copy_from_slice(b" LVM2 x[5A%r0N*>");
    (area[41], area[48]) = (2, 60);
    area[512..541].copy_from_slice(b"vg {\nsystem_id = \"web-7\"\nx {\n");
    let mut array = vec![0; 256];
    array[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    array[32..38].copy_from_slice(b"nas:00");
    array[144] = 8;
    let mut lock = vec![0; 256];
    lock[..8].copy_from_slice(&[1, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
    lock[96..104].copy_from_slice(b"lock_dlm");
    let mut pool = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 36, 0, 0, 0, 36];
    pool.extend(b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01\0\0\0\x04tank\0\0\0\0\0\0\0\0\0\0\0\0");
    let at = |place: u8, content: &[u8]| [&[place * 2][..], content].concat();
    vec![
        identify,
        namespace,
        vec![0x72, 1, 0, 0x1d, 0, 0, 0, 14, 9, 12, 1, 0, 0x80, 0, 0, 1, 0, 2, 0, 3, 0x40, 0x50],
        vec![0x70, 0, 2, 0, 0, 0, 0, 10, 0, 0, 0, 0, 4, 0x1b, 0, 0x80, 0x40, 0],
        super::joined(&[&at(1, &label), &at(3, &area)]),
        super::joined(&[&at(3, &array)]),
        super::joined(&[&at(6, &lock), &at(8, &[0x0d, 0xd0, 0x01, 0xc0])]),
        super::joined(&[&at(5, &pool)]),
        super::joined(&[&at(3, b"OCFSV2"), &at(0, b"bluestore block device\n")]),
    ]
}
