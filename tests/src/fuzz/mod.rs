//! Fuzz targets: one function for each group of parsers of foreign bytes.
//!
//! ```text
//! tests/corpus/TARGET.zst ─┐                  ┌─ tests/tests/corpus.rs: every input, in every run of the tests
//! seeds() (made by code)  ─┴─► Target::check ─┴─ tests/fuzz: libFuzzer, grows the corpus (`fuzz` binary)
//! ```
//!
//! A check asserts more than "no panic": what was read is written and read again, nothing grows
//! past its bound, no value leaves its place. A check knows no clock and no file, and the same
//! input always does the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a fuzz target fails by panicking")]

use std::io::{self, Read};

mod agent;
mod archives;
mod arp;
mod backup;
mod boot;
mod bundle;
mod catalogue;
mod compressed;
mod dhcp;
mod disks;
mod drives;
mod ext4;
mod gpt;
mod hand_off;
mod http;
mod ignition;
mod image_files;
mod ipmi;
mod lldp;
mod network_data;
mod objects;
mod observation;
mod patches;
mod pools;
mod protobuf;
mod qcow2;
mod receipts;
mod redaction;
mod redfish;
mod routes;
mod selectors;
mod signature;
mod smbios;
mod stubs;
mod tftp;
mod vfat;
mod wire;

/// Names the target to the instrumented program.
pub const TARGET_VARIABLE: &str = "FIRESTEEL_FUZZ_TARGET";
/// Of one input: a qcow2 image with its tables or a GPT with 128 entries fits, and each input stays quick.
pub const INPUT_BYTES_MAX: usize = 24 << 10;
/// Inputs kept for one target, so that replaying all of them takes seconds.
pub const INPUTS_MAX: usize = 1000;
/// Of one target's corpus when it is unpacked, so that the packed one is no burden to who clones the repository.
pub const CORPUS_BYTES_MAX: u64 = 2 << 20;

/// A group of parsers under one name.
#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub check: fn(&[u8]),
    /// Valid inputs and near misses, made by code.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets, what is most exposed first.
pub const TARGETS: &[Target] = &[
    Target { name: "qcow2", check: qcow2::check, seeds: qcow2::seeds },
    Target { name: "dhcp", check: dhcp::check, seeds: dhcp::seeds },
    Target { name: "wire", check: wire::check, seeds: wire::seeds },
    Target { name: "compressed", check: compressed::check, seeds: compressed::seeds },
    Target { name: "tftp", check: tftp::check, seeds: tftp::seeds },
    Target { name: "http", check: http::check, seeds: http::seeds },
    Target { name: "routes", check: routes::check, seeds: routes::seeds },
    Target { name: "boot", check: boot::check, seeds: boot::seeds },
    Target { name: "observation", check: observation::check, seeds: observation::seeds },
    Target { name: "gpt", check: gpt::check, seeds: gpt::seeds },
    Target { name: "hand_off", check: hand_off::check, seeds: hand_off::seeds },
    Target { name: "ext4", check: ext4::check, seeds: ext4::seeds },
    Target { name: "vfat", check: vfat::check, seeds: vfat::seeds },
    Target { name: "ignition", check: ignition::check, seeds: ignition::seeds },
    Target { name: "stubs", check: stubs::check, seeds: stubs::seeds },
    Target { name: "pools", check: pools::check, seeds: pools::seeds },
    Target { name: "archives", check: archives::check, seeds: archives::seeds },
    Target { name: "redfish", check: redfish::check, seeds: redfish::seeds },
    Target { name: "ipmi", check: ipmi::check, seeds: ipmi::seeds },
    Target { name: "agent", check: agent::check, seeds: agent::seeds },
    Target { name: "disks", check: disks::check, seeds: disks::seeds },
    Target { name: "drives", check: drives::check, seeds: drives::seeds },
    Target { name: "network_data", check: network_data::check, seeds: network_data::seeds },
    Target { name: "objects", check: objects::check, seeds: objects::seeds },
    Target { name: "protobuf", check: protobuf::check, seeds: protobuf::seeds },
    Target { name: "backup", check: backup::check, seeds: backup::seeds },
    Target { name: "receipts", check: receipts::check, seeds: receipts::seeds },
    Target { name: "patches", check: patches::check, seeds: patches::seeds },
    Target { name: "selectors", check: selectors::check, seeds: selectors::seeds },
    Target { name: "smbios", check: smbios::check, seeds: smbios::seeds },
    Target { name: "catalogue", check: catalogue::check, seeds: catalogue::seeds },
    Target { name: "bundle", check: bundle::check, seeds: bundle::seeds },
    Target { name: "signature", check: signature::check, seeds: signature::seeds },
    Target { name: "lldp", check: lldp::check, seeds: lldp::seeds },
    Target { name: "arp", check: arp::check, seeds: arp::seeds },
    Target { name: "redaction", check: redaction::check, seeds: redaction::seeds },
];

#[must_use]
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// A corpus as one file: each input after its length in four bytes (little endian), all in one zstd stream.
///
/// # Errors
/// When compressing fails.
pub fn pack(inputs: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    for input in inputs {
        let length = u32::try_from(input.len()).map_err(io::Error::other)?;
        plain.extend(length.to_le_bytes());
        plain.extend(input);
    }
    zstd::encode_all(&plain[..], 19)
}

/// The inputs of a packed corpus.
///
/// # Errors
/// When the file is cut or damaged, or larger than a corpus may be.
pub fn unpack(packed: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut plain = Vec::new();
    zstd::Decoder::new(packed)?.take(CORPUS_BYTES_MAX + 1).read_to_end(&mut plain)?;
    if plain.len() as u64 > CORPUS_BYTES_MAX {
        return Err(io::Error::other("a corpus is smaller"));
    }
    let (mut rest, mut inputs) = (&plain[..], Vec::new());
    while !rest.is_empty() {
        let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(io::Error::other)?;
        let (input, after) = after.split_at_checked(length).ok_or_else(cut)?;
        inputs.push(input.to_vec());
        rest = after;
    }
    Ok(inputs)
}

/// Messages in one input: each after its length in two bytes (little endian), the last as long as the input is.
fn messages(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = input.split_first_chunk::<2>()?;
        let (message, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
        input = rest;
        Some(message)
    })
}

/// The input of which [`messages`] makes these.
fn joined(messages: &[&[u8]]) -> Vec<u8> {
    let length = |message: &[u8]| u16::try_from(message.len()).unwrap().to_le_bytes();
    messages.iter().flat_map(|message| [&length(message)[..], message].concat()).collect()
}

/// Text for people's eyes has nothing that moves a cursor or begins a line.
fn assert_plain(text: &str) {
    assert!(!text.chars().any(char::is_control), "control characters in {text:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_comes_back_as_it_was_packed() {
        let inputs = vec![vec![], vec![1, 2, 3], vec![0; 5000]];
        let packed = pack(&inputs).unwrap();
        assert_eq!(unpack(&packed).unwrap(), inputs);
        assert!(unpack(&packed[..packed.len() - 4]).is_err());
        assert_eq!(messages(&joined(&[b"a", b"", b"bc"])).collect::<Vec<_>>(), [&b"a"[..], b"", b"bc"]);
    }
}
