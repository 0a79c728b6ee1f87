//! Stores the time of the build in the program: an earlier clock is wrong. `SOURCE_DATE_EPOCH` sets it, so that the
//! same inputs give the same bytes.

#![allow(clippy::print_stdout, reason = "cargo reads what a build script says on its standard output")]

use std::{env, time::SystemTime};

fn main() {
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo:rerun-if-changed=build.rs");
    let given = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.trim().parse::<u64>().ok());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    println!("cargo:rustc-env=FIRESTEEL_BUILT_S={}", given.unwrap_or_else(now));
}
