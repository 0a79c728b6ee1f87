//! Every fuzz target over its whole corpus: what the fuzzer found, and what code makes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use firesteel_tests::fuzz::{INPUT_BYTES_MAX, INPUTS_MAX, TARGETS, named, unpack};

fn replay(name: &str) {
    let target = named(name).unwrap();
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "a fuzzer that starts with nothing finds little");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{name}.zst"));
    let corpus = unpack(&std::fs::read(&path).unwrap()).unwrap();
    assert!(corpus.len() <= INPUTS_MAX, "{} inputs", corpus.len());
    for input in seeds.iter().chain(&corpus) {
        assert!(input.len() <= INPUT_BYTES_MAX, "{} bytes", input.len());
        (target.check)(input);
    }
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test] fn $name() { replay(stringify!($name)); })*

        /// A target that nobody replays would rot.
        #[test]
        fn every_target_is_replayed() {
            let replayed = [$(stringify!($name)),*];
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), replayed);
        }
    };
}

replays! {
    qcow2 dhcp wire compressed tftp http routes boot observation gpt hand_off ext4 vfat ignition stubs pools archives redfish ipmi agent disks drives
    network_data objects protobuf backup receipts patches selectors smbios catalogue bundle signature lldp arp
    redaction
}
