//! OpenPGP keys and detached signatures, as publishers give them.

use firesteel_images::openpgp;

/// The first byte says where the keys end and the signature begins, in 256ths.
pub(super) fn check(input: &[u8]) {
    openpgp::check(input);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    SEEDS.iter().map(|digits| hex::decode(digits.concat()).unwrap()).collect()
}
