//! A small sound qcow2 image and what can be wrong with one, byte by byte.

const CLUSTER: usize = 1 << 16;

fn put32(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put64(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

/// Header, L1 at cluster 1, L2 at 2, data at 3 and 4.
pub(crate) fn sound() -> Vec<u8> {
    let mut image = vec![0; CLUSTER * 5];
    image[..4].copy_from_slice(b"QFI\xfb");
    put32(&mut image, 4, 3);
    put32(&mut image, 20, 16);
    put64(&mut image, 24, 3 << 16);
    put32(&mut image, 36, 1);
    put64(&mut image, 40, 1 << 16);
    put32(&mut image, 96, 4);
    put32(&mut image, 100, 104);
    put64(&mut image, CLUSTER, 2 << 16 | 1 << 63);
    put64(&mut image, 2 * CLUSTER, 3 << 16 | 1 << 63);
    put64(&mut image, 2 * CLUSTER + 16, 4 << 16 | 1 << 63);
    image[3 * CLUSTER..4 * CLUSTER].fill(0x33);
    image[4 * CLUSTER..].fill(0x44);
    // The disk begins with a boot sector.
    image[3 * CLUSTER + 510..3 * CLUSTER + 512].copy_from_slice(&[0x55, 0xaa]);
    image
}

fn spoilt(spoil: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut image = sound();
    spoil(&mut image);
    image
}

/// A disk of 2 TiB without a byte of data, in a file that is right in every other way.
fn huge() -> Vec<u8> {
    const CLUSTER_BITS: u32 = 21;
    let mut image = vec![0; 2 << CLUSTER_BITS];
    image[..104].copy_from_slice(&sound()[..104]);
    put32(&mut image, 20, CLUSTER_BITS);
    put64(&mut image, 24, 2 << 40);
    put32(&mut image, 36, 4);
    put64(&mut image, 40, 1 << CLUSTER_BITS);
    image
}

/// Names, images, and what is said of them.
pub(crate) fn hostile() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("qcow2-backing-file", spoilt(|image| put64(image, 8, 200)), "needs a backing file: flatten it"),
        ("qcow2-external-data", spoilt(|image| put64(image, 72, 1 << 2)), "its data lies in another file: convert it"),
        ("qcow2-encryption", spoilt(|image| put32(image, 32, 1)), "it is encrypted"),
        ("qcow2-unknown-feature", spoilt(|image| put64(image, 72, 1 << 40)), "needs features that are not known here"),
        ("qcow2-loop-of-tables", spoilt(|image| put64(image, CLUSTER, 1 << 16)), "two of its tables overlap"),
        ("qcow2-loop-of-data", spoilt(|image| put64(image, 2 * CLUSTER, 2 << 16 | 1 << 63)), "overlap"),
        ("qcow2-absurd-size", spoilt(|image| put64(image, 24, u64::MAX)), "is too large"),
        ("qcow2-absurd-hole", huge(), "its disk of 2199023255552 bytes is too large"),
        ("qcow2-absurd-table", spoilt(|image| put32(image, 36, u32::MAX)), "does not fit the file"),
        ("qcow2-absurd-clusters", spoilt(|image| put32(image, 20, 200)), "9 to 21 are allowed"),
    ]
}
