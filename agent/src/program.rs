//! What this program is, for receipts: the digest of the binary that runs, and what it can do beyond the first
//! steps of the protocol.

use std::{fs::File, io::Read as _, path::Path, sync::OnceLock};

use firesteel_wire::Program;
use ring::digest;

/// The running binary by whatever name; it stays readable when it was replaced or removed.
const SELF: &str = "/proc/self/exe";
/// A binary of the ramdisk has some 4 MB.
const BINARY_BYTES_MAX: u64 = 256 << 20;

/// What each hello says of this program. Read once: a worker says hello again after each loss of its appliance.
pub(crate) fn running_program() -> Program {
    static SHA256: OnceLock<String> = OnceLock::new();
    let sha256 = SHA256.get_or_init(|| {
        sha256_of(Path::new(SELF)).unwrap_or_else(|error| {
            tracing::warn!("could not read {SELF} for its digest: {error}; the hello goes without it");
            String::new()
        })
    });
    Program {
        sha256: sha256.clone(),
        abilities: [Program::ERASE_DISK, Program::HAND_OFF_FORMS].map(str::to_owned).into(),
    }
}

fn sha256_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?.take(BINARY_BYTES_MAX);
    let mut hasher = digest::Context::new(&digest::SHA256);
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex::encode(hasher.finish())),
            read => hasher.update(&piece[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_running_binary() {
        let program = running_program();
        let running = std::fs::read(SELF).expect("Linux shows it");
        assert_eq!(program.sha256, hex::encode(digest::digest(&digest::SHA256, &running)));
        assert!(program.can(Program::ERASE_DISK) && program.can(Program::HAND_OFF_FORMS) && !program.can("fly"));
    }
}
