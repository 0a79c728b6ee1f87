//! What PID 1 gives its worker through a pipe: the seed, the key pair of this boot, and, when an
//! earlier worker died, its last words. Secrets go this way alone: no argument, no environment
//! variable and no file shows them to other processes.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use firesteel_wire::Seed;
use ring::{rand::SystemRandom, signature::Ed25519KeyPair};
use serde::{Deserialize, Serialize};

/// A seed is a few hundred bytes; last words are at most a few kilobytes.
const HANDOVER_BYTES_MAX: u64 = 64 * 1024;
/// The appliance makes no larger one; a file of another origin must not fill the memory of PID 1.
const SEED_BYTES_MAX: u64 = 64 * 1024;

#[derive(Clone, Serialize, Deserialize)]
pub struct Handover {
    pub seed: Seed,
    key_pkcs8_base64: String,
    /// How many workers died before this one.
    pub deaths: u32,
    /// How the last one died and what it said.
    #[serde(default)]
    pub last_words: String,
    /// Milliseconds since the kernel's start at which the last one died.
    #[serde(default)]
    pub died_ms: u64,
    /// `firesteel.debug` on the kernel's command line.
    #[serde(default)]
    pub debug: bool,
}

impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handover").field("seed", &self.seed).field("deaths", &self.deaths).finish_non_exhaustive()
    }
}

impl Handover {
    /// Makes this boot's key pair. It outlives a worker that dies, so that the next one is still
    /// the agent to which the appliance bound the token.
    pub fn new(seed: Seed, debug: bool) -> anyhow::Result<Self> {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("making the key pair: the kernel gave no random bytes"))?;
        Ok(Self {
            seed,
            key_pkcs8_base64: STANDARD.encode(key.as_ref()),
            deaths: 0,
            last_words: String::new(),
            died_ms: 0,
            debug,
        })
    }

    pub fn key_pair(&self) -> anyhow::Result<Ed25519KeyPair> {
        let pkcs8 = STANDARD.decode(&self.key_pkcs8_base64).context("reading the key pair")?;
        Ed25519KeyPair::from_pkcs8(&pkcs8).map_err(|_| anyhow::anyhow!("reading the key pair: not one"))
    }

    pub fn read(from: impl Read) -> anyhow::Result<Self> {
        let mut bytes = Vec::new();
        from.take(HANDOVER_BYTES_MAX).read_to_end(&mut bytes).context("reading what init hands over")?;
        serde_json::from_slice(&bytes).context("reading what init hands over")
    }

    pub fn to_bytes(&self) -> anyhow::Result<Vec<u8>> {
        serde_json::to_vec(self).context("writing what init hands over")
    }
}

/// Reads the seed and removes its file, so that no other program on this host sees the token.
pub fn take_seed(path: &Path) -> anyhow::Result<Seed> {
    let bytes = fs::File::open(path).and_then(seed_bytes).with_context(|| {
        format!(
            "reading {}: the boot script must name the initramfs that carries the seed of this host",
            path.display()
        )
    })?;
    fs::remove_file(path).with_context(|| format!("removing {}", path.display()))?;
    let seed: Seed = serde_json::from_slice(&bytes).context("reading the seed: not the expected JSON")?;
    if !seed.appliance.starts_with("https://") {
        bail!("the seed's appliance address is not https");
    }
    if hex::decode(&seed.pin_sha256).is_ok_and(|pin| pin.len() == 32) {
        return Ok(seed);
    }
    bail!("the seed's pin is not 64 hexadecimal digits");
}

fn seed_bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(SEED_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SEED_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {SEED_BYTES_MAX} bytes: that is no seed")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn seed() -> Seed {
        Seed {
            token: "secret-token".into(),
            appliance: "https://192.0.2.1:8443".into(),
            pin_sha256: "00".repeat(32),
            boot_mac: "52:54:00:00:00:01".into(),
            network: None,
        }
    }

    #[test]
    fn the_seed_is_gone_after_it_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seed.json");
        fs::write(&path, serde_json::to_vec(&seed()).unwrap()).unwrap();
        assert_eq!(take_seed(&path).unwrap(), seed());
        assert!(!path.exists());
        assert!(take_seed(&path).unwrap_err().to_string().contains("boot script"));
    }

    #[test]
    fn seeds_without_tls_or_pin_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seed.json");
        for bad in [
            Seed { appliance: "http://192.0.2.1".into(), ..seed() },
            Seed { pin_sha256: "00".into(), ..seed() },
            Seed { pin_sha256: "zz".repeat(32), ..seed() },
        ] {
            fs::write(&path, serde_json::to_vec(&bad).unwrap()).unwrap();
            assert!(take_seed(&path).is_err());
        }
    }

    #[test]
    fn a_file_that_is_no_seed_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seed.json");
        fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let error = format!("{:#}", take_seed(&path).unwrap_err());
        assert!(error.contains("no seed"), "{error}");
        let mut long = io::repeat(b' ').take(1 << 20);
        assert!(seed_bytes(&mut long).is_err());
        assert_eq!(long.limit(), (1 << 20) - (SEED_BYTES_MAX + 1), "one byte more than a seed has tells enough");
        let mut long = serde_json::to_vec(&seed()).unwrap();
        long.resize(usize::try_from(SEED_BYTES_MAX).unwrap() + 1, b' ');
        fs::write(&path, &long).unwrap();
        assert!(take_seed(&path).is_err());
        fs::write(&path, &long[..long.len() - 1]).unwrap();
        assert_eq!(take_seed(&path).unwrap(), seed());
    }

    #[test]
    fn the_key_survives_the_pipe_and_nothing_secret_is_shown() {
        let handover = Handover::new(seed(), false).unwrap();
        let read = Handover::read(handover.to_bytes().unwrap().as_slice()).unwrap();
        use ring::signature::KeyPair;
        let (ours, theirs) = (handover.key_pair().unwrap(), read.key_pair().unwrap());
        assert_eq!(ours.public_key().as_ref(), theirs.public_key().as_ref());
        let shown = format!("{handover:?}");
        assert!(!shown.contains("secret-token") && !shown.contains(&handover.key_pkcs8_base64));
    }
}
