//! Tables of four entries, and chains of logical partitions, sound and altered.

use super::gpt::{self, Gpt};
use super::{ForeignDisk, MIB, Piece, USUAL_BYTES, fields, vmfs};

const VMFS: u8 = 0xfb;
const LINUX: u8 = 0x83;
const EXTENDED: u8 = 0x05;
/// 1 MiB in blocks of 512 bytes.
const ONE_MIB: u32 = 2048;
const ENTRIES_AT: usize = 446;

#[derive(Clone, Copy, Debug)]
pub(super) struct TestMbrEntry {
    flag: u8,
    kind: u8,
    first: u32,
    blocks: u32,
}

impl TestMbrEntry {
    pub(super) fn of(kind: u8, first: u32, blocks: u32) -> Self {
        Self { flag: 0, kind, first, blocks }
    }
}

/// A block with these entries and the signature.
pub(super) fn table(entries: &[TestMbrEntry]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    for (index, entry) in entries.iter().enumerate() {
        let text = fields(
            16,
            &[
                (0, &[entry.flag]),
                (4, &[entry.kind]),
                (8, &entry.first.to_le_bytes()),
                (12, &entry.blocks.to_le_bytes()),
            ],
        );
        let at = ENTRIES_AT + 16 * index;
        bytes[at..at + 16].copy_from_slice(&text);
    }
    bytes[510..].copy_from_slice(&[0x55, 0xaa]);
    bytes
}

/// One link of a chain: its place, its partition, and the place of the next one.
#[derive(Clone, Copy, Debug)]
struct PartitionChainLink {
    at: u32,
    kind: u8,
    first: u32,
    blocks: u32,
    next: Option<u32>,
}

/// The links' blocks. In a link, a partition counts from the link, and the next link from the extended partition.
fn chain(extended: u32, links: &[PartitionChainLink]) -> Vec<Piece> {
    let block = |link: &PartitionChainLink| {
        let own = TestMbrEntry::of(link.kind, link.first.wrapping_sub(link.at), link.blocks);
        let next = link.next.map(|next| TestMbrEntry::of(EXTENDED, next.wrapping_sub(extended), ONE_MIB));
        (u64::from(link.at) * 512, table(&std::iter::once(own).chain(next).collect::<Vec<_>>()))
    };
    links.iter().map(block).collect()
}

/// An extended partition from 1 MiB on, with links a few blocks apart; the last one's partition is the VMFS at 4 MiB.
fn links(count: u32) -> Vec<PartitionChainLink> {
    let at = |index: u32| ONE_MIB + 4 * index;
    let link = |index: u32| {
        let is_last = index + 1 == count;
        let (kind, first, blocks) = if is_last { (VMFS, 4 * ONE_MIB, 3 * ONE_MIB) } else { (LINUX, at(index) + 2, 2) };
        PartitionChainLink { at: at(index), kind, first, blocks, next: (!is_last).then(|| at(index + 1)) }
    };
    (0..count).map(link).collect()
}

fn extended(kind: u8) -> Piece {
    (0, table(&[TestMbrEntry::of(kind, ONE_MIB, 7 * ONE_MIB)]))
}

fn chained(name: &str, says: &'static str, links: &[PartitionChainLink]) -> ForeignDisk {
    ForeignDisk::stays(name, says, vec![extended(EXTENDED)]).and(chain(ONE_MIB, links)).and(vmfs(4 * MIB))
}

pub(super) fn erased_before() -> Vec<ForeignDisk> {
    let mut hybrid = Gpt::of(gpt::VMFS).write();
    hybrid.protective = vec![(0, table(&[TestMbrEntry::of(0xee, 1, 2047), TestMbrEntry::of(LINUX, 7 * ONE_MIB, 64)]))];
    let hybrid = [hybrid.protective, hybrid.backup].concat();
    vec![
        ForeignDisk::stays("mbr-hybrid", "VMFS", hybrid).and(vmfs(2 * MIB)),
        chained("mbr-logical-200", "VMFS", &links(200)),
    ]
}

pub(super) fn all() -> Vec<ForeignDisk> {
    let plain = |name: &str, says: &'static str, entries: &[TestMbrEntry]| {
        ForeignDisk::stays(name, says, vec![(0, table(entries))]).and(vmfs(2 * MIB))
    };
    let held = |kind: u8| TestMbrEntry::of(kind, 2 * ONE_MIB, 5 * ONE_MIB);
    let other = TestMbrEntry::of(LINUX, 64, 64);
    let beyond = TestMbrEntry::of(LINUX, u32::MAX - 7, 8);
    let odd_flag = TestMbrEntry { flag: 0x7f, ..other };
    let mut all = erased_before();
    all.extend([
        plain("mbr-sound", "VMFS", &[held(VMFS)]),
        plain("mbr-linux-type", "VMFS", &[other, held(LINUX)]),
        // Linux goes by the length alone.
        plain("mbr-type-0", "VMFS", &[held(0)]),
        // The kernel takes a table with such a flag for none.
        plain("mbr-odd-flag", "VMFS", &[odd_flag, held(VMFS)]),
        plain("mbr-fourth-entry", "VMFS", &[TestMbrEntry::of(0, 0, 0), other, beyond, held(VMFS)]),
        plain("mbr-longer-than-disk", "VMFS", &[TestMbrEntry::of(VMFS, 2 * ONE_MIB, u32::MAX)]),
        plain("mbr-protective-extra", "VMFS", &[TestMbrEntry::of(0xee, 1, 63), held(VMFS)]),
        plain("mbr-protective-last", "VMFS", &[held(VMFS), TestMbrEntry::of(0xee, 1, u32::MAX)]),
    ]);
    all.extend(chains());
    all
}

/// Chains that are sound, of other types, cut, or without an end.
fn chains() -> Vec<ForeignDisk> {
    let three = links(3);
    let of_type = |name: &str, kind: u8| {
        ForeignDisk::stays(name, "VMFS", vec![extended(kind)]).and(chain(ONE_MIB, &links(3))).and(vmfs(4 * MIB))
    };
    let with_next = |index: usize, next: u32| {
        let mut links = links(3);
        links[index].next = Some(next);
        links
    };
    let cut = u64::from(three[1].at) * 512;
    // The second chain is in the fourth entry.
    let two = table(&[
        TestMbrEntry::of(EXTENDED, 32, 64),
        TestMbrEntry::of(0, 0, 0),
        TestMbrEntry::of(0, 0, 0),
        TestMbrEntry::of(EXTENDED, ONE_MIB, 7 * ONE_MIB),
    ]);
    let first = [PartitionChainLink { at: 32, kind: LINUX, first: 40, blocks: 8, next: None }];
    vec![
        chained("logical-sound", "VMFS", &three),
        of_type("logical-0f", 0x0f),
        of_type("logical-85", 0x85),
        ForeignDisk::stays("logical-two-chains", "VMFS", vec![(0, two)])
            .and(chain(32, &first))
            .and(chain(ONE_MIB, &three))
            .and(vmfs(4 * MIB)),
        // Nothing shows what stands behind these; that there was more is seen.
        chained("logical-cut", "", &three).and([(cut, vec![0xe5; 512])]),
        chained("logical-unsigned", "", &three).flipped(cut + 510),
        chained("logical-outside", "", &with_next(0, ONE_MIB * 40)),
        chained("logical-loop", "", &with_next(1, three[0].at)),
        chained("logical-self-loop", "", &with_next(0, three[0].at)),
        chained("logical-last-loops", "VMFS", &with_next(2, three[0].at)),
    ]
}

/// The table of a dynamic disk of Windows.
pub(super) fn dynamic() -> Vec<Piece> {
    vec![(0, table(&[TestMbrEntry::of(0x42, 63, 7 * ONE_MIB)]))]
}

/// A classic table of this host, with a partition of Linux.
pub(super) fn ordinary() -> Vec<Piece> {
    vec![(0, table(&[TestMbrEntry::of(LINUX, ONE_MIB, u32::try_from(USUAL_BYTES / 512).unwrap_or(0) - ONE_MIB)]))]
}

/// A chain that leads to itself.
pub(super) fn endless() -> Vec<Piece> {
    let mut links = links(2);
    links[0].next = Some(links[0].at);
    links[1].kind = LINUX;
    [vec![extended(EXTENDED)], chain(ONE_MIB, &links)].concat()
}
