//! One fuzz target, named by the environment, under libFuzzer: its `main` is the program's.
//!
//! Not to be built by hand: `./qemu/lab fuzz` knows the flags (see `firesteel_tests::fuzz`).

#![no_main]

use std::sync::LazyLock;

use firesteel_tests::fuzz::{TARGET_VARIABLE, Target, named};

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var(TARGET_VARIABLE).unwrap_or_default();
    named(&name).unwrap_or_else(|| panic!("set {TARGET_VARIABLE} to a target's name, not {name:?}"))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.check)(input));
