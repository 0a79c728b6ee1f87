//! What drives answer to commands that erase.

use firesteel_clean::foreign;
use firesteel_drives::scsi;

pub(super) fn check(input: &[u8]) {
    firesteel_drives::check(input);
    foreign::check(input);
    if let Some(sense) = scsi::sense(input) {
        super::assert_plain(&sense.to_string());
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut identify = vec![0; 512];
    identify[256] = 0x29;
    identify[118..120].copy_from_slice(&[0, 0xb0]);
    let mut namespace = vec![0; 4096];
    (namespace[0], namespace[130]) = (8, 12);
    vec![
        identify,
        namespace,
        vec![0x72, 1, 0, 0x1d, 0, 0, 0, 14, 9, 12, 1, 0, 0x80, 0, 0, 1, 0, 2, 0, 3, 0x40, 0x50],
        vec![0x70, 0, 2, 0, 0, 0, 0, 10, 0, 0, 0, 0, 4, 0x1b, 0, 0x80, 0x40, 0],
    ]
}
