//! Members of md arrays (kernel, include/uapi/linux/raid/md_p.h), with superblocks of version 1.2.

use super::{ForeignDisk, MIB, Piece, USUAL_BYTES, fields, unique, vmfs};

const SUPERBLOCK_AT: u64 = 4096;
const DATA_AT: u64 = MIB;
const ROLES_AT: usize = 256;

/// The one member that there is of a mirror of two.
fn superblock(name: &str, title: &str) -> Vec<Piece> {
    let data_blocks = (USUAL_BYTES - DATA_AT) / 512;
    let mut bytes = fields(
        ROLES_AT + 4,
        &[
            (0, &0xa92b_4efc_u32.to_le_bytes()),
            (4, &1_u32.to_le_bytes()),
            (16, unique(name, 0, 16).as_bytes()),
            (32, title.as_bytes()),
            (72, &1_u32.to_le_bytes()),
            (80, &data_blocks.to_le_bytes()),
            (92, &2_u32.to_le_bytes()),
            (128, &(DATA_AT / 512).to_le_bytes()),
            (136, &data_blocks.to_le_bytes()),
            (144, &(SUPERBLOCK_AT / 512).to_le_bytes()),
            (168, unique(name, 1, 16).as_bytes()),
            (200, &17_u64.to_le_bytes()),
            (208, &u64::MAX.to_le_bytes()),
            (220, &2_u32.to_le_bytes()),
            (ROLES_AT + 2, &0xfffe_u16.to_le_bytes()),
        ],
    );
    let sum: u64 = bytes.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    let folded = (sum & 0xffff_ffff) + (sum >> 32);
    bytes[216..220].copy_from_slice(&folded.to_le_bytes()[..4]);
    vec![(SUPERBLOCK_AT, bytes)]
}

pub(super) fn all() -> Vec<ForeignDisk> {
    let held = |name: &str, title: &str, says: &'static str| ForeignDisk::stays(name, says, superblock(name, title));
    let altered: [(&str, u64); 6] = [
        ("md+checksum", 216),
        ("md+major", 4),
        ("md+level", 72),
        ("md+data-offset", 131),
        ("md+super-offset", 144),
        ("md+max-dev", 222),
    ];
    let altered = altered.map(|(name, at)| held(name, "web-7:data", "").flipped(SUPERBLOCK_AT + at));
    let mut all =
        vec![held("md-foreign", "web-7:data", "web-7"), held("md-vmfs-inside", "data", "VMFS").and(vmfs(DATA_AT))];
    all.extend(altered);
    all.push(ForeignDisk {
        own_names: vec!["node-1.example.org".into()],
        ..ForeignDisk::erased("md-own", superblock("md-own", "node-1:data"))
    });
    all.push(ForeignDisk::erased("md-unnamed", superblock("md-unnamed", "data")));
    all
}

/// One that a planter made: its checksum is wrong.
pub(super) fn unsound(name: &str) -> Vec<Piece> {
    let mut pieces = superblock(name, "elsewhere:data");
    for (_, bytes) in &mut pieces {
        bytes[216] ^= 0x5a;
    }
    pieces
}
