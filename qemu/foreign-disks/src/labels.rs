//! Types of partitions, and labels, of systems that share disks, and of those that own them.

use super::gpt::{self, Gpt};
use super::{ForeignDisk, MIB, Piece, USUAL_BYTES, bluestore, fields, vmfs};

const VSAN: &str = "381cfccc-7288-11e0-92ee-000c2911d0b2";
const STORAGE_SPACES: &str = "e75caf8f-f680-4cee-afa3-b001e56efc2d";
const LDM: &str = "5808c8aa-7e8f-42e0-85d2-e1e90434cfb3";
const GPFS: &str = "37affc90-ef7d-4e96-91c3-2d7ae055b174";

fn typed(kind: &'static str) -> Vec<Piece> {
    Gpt::of(kind).write().all()
}

/// Oracle's label of a disk of ASM: `ORCLDISK` and the disk's name.
fn asm(at: u64) -> Vec<Piece> {
    vec![(at, fields(4096, &[(0, &[1, 0x82, 1, 1]), (32, b"ORCLDISKDATA1")]))]
}

/// DRBD's metadata at the end (drbd, `struct meta_data_on_disk`), of version 8.4.
fn drbd() -> Vec<Piece> {
    let block = fields(
        4096,
        &[
            (0, &(USUAL_BYTES / 512 - 72).to_be_bytes()),
            (8, &[7; 32]),
            (40, &[9; 8]),
            (60, &0x8374_026b_u32.to_be_bytes()),
            // Blocks of metadata, place of the log, its extents, place of the bitmap, bytes for each of its bits.
            (64, &72_u32.to_be_bytes()),
            (68, &(-8_i32).to_be_bytes()),
            (72, &1237_u32.to_be_bytes()),
            (76, &(-72_i32).to_be_bytes()),
            (80, &4096_u32.to_be_bytes()),
        ],
    );
    vec![(USUAL_BYTES - 4096, block)]
}

/// The head of a dynamic disk of Windows (kernel, block/partitions/ldm.c), whose group bears its computer's name.
fn ldm(at: u64) -> Vec<Piece> {
    let head = fields(
        512,
        &[
            (0, b"PRIVHEAD"),
            (8, &2_u16.to_be_bytes()),
            (10, &12_u16.to_be_bytes()),
            (0x30, b"1b77da20-c717-11d0-a5be-00a0c91db73c"),
            (0xf0, b"WEB7-Dg0"),
            (0x11b, &63_u64.to_be_bytes()),
            (0x123, &(USUAL_BYTES / 512 - 63 - 2048).to_be_bytes()),
            (0x12b, &(USUAL_BYTES / 512 - 2048).to_be_bytes()),
            (0x133, &2048_u64.to_be_bytes()),
        ],
    );
    vec![(at, head)]
}

/// Intel's metadata, in the block before the last one.
fn imsm() -> Vec<Piece> {
    let mut block = fields(
        512,
        &[
            (0, b"Intel Raid ISM Cfg Sig. 1.3.00"),
            (36, &216_u32.to_le_bytes()),
            (40, &0x1234_5678_u32.to_le_bytes()),
            (44, &1_u32.to_le_bytes()),
            (56, &[1, 0]),
            (216 - 48, b"SERIAL-OF-DISK-1"),
        ],
    );
    let sum =
        block[..216].as_chunks::<4>().0.iter().fold(0_u32, |sum, word| sum.wrapping_add(u32::from_le_bytes(*word)));
    block[32..36].copy_from_slice(&sum.to_le_bytes());
    vec![(USUAL_BYTES - 1024, block)]
}

/// SNIA's header, in the last block.
fn ddf() -> Vec<Piece> {
    let mut block = fields(
        512,
        &[
            (0, &0xde11_de11_u32.to_be_bytes()),
            (4, &[0xff; 4]),
            (8, b"Linux-MD\x01\x02\x03\x04\x05\x06\x07\x08        "),
            (32, b"01.02.00"),
        ],
    );
    let crc = super::crc32(u32::MAX, &block) ^ u32::MAX;
    block[4..8].copy_from_slice(&crc.to_be_bytes());
    vec![(USUAL_BYTES - 512, block)]
}

fn gfs2() -> Vec<Piece> {
    let block = fields(512, &[(0, &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]), (96, b"lock_dlm"), (160, b"alpha:data")]);
    vec![(64 << 10, block)]
}

fn ocfs2() -> Vec<Piece> {
    vec![(4096, fields(512, &[(0, b"OCFSV2"), (0xc0 + 80, b"shared"), (0xc0 + 168, b"webfarm")]))]
}

pub(super) fn erased_before() -> Vec<ForeignDisk> {
    vec![
        ForeignDisk::stays("vsan", "vSAN", typed(VSAN)),
        ForeignDisk::stays("storage-spaces", "Storage Spaces", typed(STORAGE_SPACES)),
        ForeignDisk::stays("asm-disk", "Oracle ASM", asm(0)),
    ]
}

pub(super) fn all() -> Vec<ForeignDisk> {
    let zfs = vec![((128 << 10) + (7 << 10), 0x00ba_b10c_u64.to_le_bytes().to_vec())];
    let mut all = erased_before();
    all.extend([
        ForeignDisk::stays("asm-partition", "Oracle ASM", typed(gpt::LINUX)).and(asm(2 * MIB)),
        ForeignDisk::stays("drbd", "DRBD", drbd()),
        ForeignDisk::stays("gpfs-type", "GPFS", typed(GPFS)),
        ForeignDisk::stays("ceph-raw", "Ceph", bluestore(0)),
        ForeignDisk::stays("zfs-raw", "ZFS", zfs),
        ForeignDisk::stays("vmfs-raw", "VMFS", vmfs(0)),
        ForeignDisk::stays("gfs2-raw", "GFS2", gfs2()),
        ForeignDisk::stays("ocfs2-raw", "OCFS2", ocfs2()),
        ForeignDisk::stays("ldm-gpt", "LDM", typed(LDM)).and(ldm(7 * MIB - 512)),
        ForeignDisk::stays("ldm-classic", "LDM", super::classic::dynamic()).and(ldm(6 * 512)),
        // What such an array holds is not looked into.
        ForeignDisk::stays("imsm", "IMSM", imsm()),
        ForeignDisk::stays("ddf", "DDF", ddf()),
    ]);
    all
}
