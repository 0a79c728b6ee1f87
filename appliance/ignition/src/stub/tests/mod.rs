#![allow(clippy::unwrap_used, reason = "tests")]

mod forms;
mod making;
mod rotating;
mod spec2;
mod spec2_storage;
mod spec2_text;
mod upgrading;

use crate::StubAuthority;
use crate::stub::managed_stub::{CONFIG_PORT, Endpoint};
use crate::stub::spec2::{DuplicatePolicy, Sectors, Spec2Options};

const STRICT: Spec2Options = Spec2Options { sectors: Sectors::Unknown, duplicates: DuplicatePolicy::Refused };

fn endpoint(host: &str) -> Endpoint {
    Endpoint::new(host, CONFIG_PORT).unwrap()
}

fn authority(bundle: &str) -> StubAuthority {
    StubAuthority::new(bundle, &[]).unwrap()
}
