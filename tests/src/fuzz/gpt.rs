//! The start of a disk or an image: partition tables, signatures, filesystem labels, GUIDs.

use firesteel_facts::Guid;
use firesteel_images::import::content;
use firesteel_images::write::{gpt, mbr, signature};
use firesteel_steps::disk::label;

/// Where a GPT has its checksums, so that a fuzzer need not find CRC-32 by chance.
const HEADER: usize = 512;

pub(super) fn check(input: &[u8]) {
    let mut head = input.to_vec();
    look(&head);
    sum_up(&mut head);
    look(&head);
    signature::check(input);
    content::check(input);
    content::check(&head);
    if let Some(entries) = mbr::parse(input) {
        assert!(entries.len() <= 4 && entries.iter().all(|entry| entry.blocks > 0));
    }
    for found in signature::in_start(input) {
        assert!(found.offset < input.len() as u64, "{found}");
    }
    if let Some(filesystem) = label::read(input) {
        assert!(filesystem.label.len() <= 16 * 3, "a label is as long as its field");
    }
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(guid) = text.parse::<Guid>()
    {
        assert_eq!(guid.to_string().parse::<Guid>().ok(), Some(guid));
    }
}

fn look(head: &[u8]) {
    gpt::check(head);
    for block_bytes in [512_u32, 4096] {
        let Ok(Some(table)) = gpt::parse(head, block_bytes) else { continue };
        assert!(table.partitions.len() <= gpt::ENTRIES_MAX as usize);
        for partition in &table.partitions {
            super::assert_plain(&partition.name);
            assert!(partition.first_lba >= table.first_usable_lba && partition.last_lba <= table.last_usable_lba);
        }
        for disk_bytes in [1_u64 << 20, 1 << 30, (1 << 44) + 4096] {
            let mut completed = head.to_vec();
            let Ok(completion) = gpt::complete(&mut completed, &table, disk_bytes, Guid([7; 16])) else { continue };
            let end = completion.backup_offset + completion.backup.len() as u64;
            assert_eq!(end, disk_bytes / u64::from(block_bytes) * u64::from(block_bytes), "it ends with the disk");
            let again = gpt::parse(&completed, block_bytes).unwrap().unwrap();
            assert_eq!(again.partitions, table.partitions, "completing moves no partition");
            assert_eq!((again.disk_guid, again.last_usable_lba), (Guid([7; 16]), completion.last_usable_lba));
            for partition in &again.partitions {
                let stop = partition.offset_bytes(block_bytes) + partition.size_bytes(block_bytes);
                assert!(stop <= completion.backup_offset, "the backup table overlaps no partition");
                assert!(completion.stale.is_empty() || completion.stale.start >= stop, "nothing in use is cleared");
            }
            let last = &completion.backup[completion.backup.len() - block_bytes as usize..];
            let lba = disk_bytes / u64::from(block_bytes) - 1;
            let backup = gpt::parse_backup_header(last, lba, block_bytes).unwrap().unwrap();
            let entries = &completion.backup[..backup.entries_len()];
            assert_eq!(backup.with_entries(entries).unwrap().partitions, table.partitions);
        }
    }
}

/// Makes the checksums right of what looks like a GPT with blocks of 512 bytes.
pub(super) fn sum_up(head: &mut [u8]) {
    let number = |head: &[u8], at: usize| {
        head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(|bytes| u32::from_le_bytes(bytes) as usize)
    };
    let lengths = (number(head, HEADER + 72), number(head, HEADER + 80), number(head, HEADER + 84));
    let (Some(lba), Some(count), Some(bytes)) = lengths else { return };
    let start = lba.saturating_mul(512);
    if let Some(entries) = head.get(start..start.saturating_add(count.saturating_mul(bytes))) {
        let sum = crc32fast::hash(entries);
        if let Some(place) = head.get_mut(HEADER + 88..HEADER + 92) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }
    let length = number(head, HEADER + 12).unwrap_or(0);
    if (92..=512).contains(&length) && head.len() >= HEADER + length {
        head[HEADER + 16..HEADER + 20].fill(0);
        let sum = crc32fast::hash(&head[HEADER..HEADER + length]);
        head[HEADER + 16..HEADER + 20].copy_from_slice(&sum.to_le_bytes());
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let partition = |number: u32, first: u64, last: u64| gpt::Partition {
        number,
        name: format!("part-{number}"),
        type_guid: Guid([9; 16]),
        guid: Guid([u8::try_from(number).unwrap(); 16]),
        first_lba: first,
        last_lba: last,
    };
    let parts = [partition(1, 2048, 4095), partition(2, 4096, 30_000)];
    let mut head = gpt::create(16 << 20, 512, Guid([1; 16]), &parts).unwrap().0;
    head.truncate(1024 + 128 * 128);
    // The same with four entries: small inputs are changed in more interesting places.
    let mut small = head[..2048].to_vec();
    small[HEADER + 80..HEADER + 84].copy_from_slice(&4_u32.to_le_bytes());
    sum_up(&mut small);
    let mut classic = vec![0; 512];
    classic[450] = 0x83;
    classic[454..462].copy_from_slice(&[0, 8, 0, 0, 0, 8, 0, 0]);
    classic[510..].copy_from_slice(&[0x55, 0xaa]);
    let mut ext = vec![0; 2048];
    ext[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
    ext[1024 + 0x78..1024 + 0x7c].copy_from_slice(b"boot");
    let mut fat = classic.clone();
    fat[82..90].copy_from_slice(b"FAT32   ");
    vec![head, small, classic, ext, fat, Guid([0xab; 16]).to_string().into_bytes()]
}
