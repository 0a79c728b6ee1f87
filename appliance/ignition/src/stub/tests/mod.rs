#![allow(clippy::unwrap_used, reason = "tests")]

mod forms;
mod making;
mod rotating;
mod spec2;
mod upgrading;

use crate::{
    Authority,
    stub::{
        make::{CONFIG_PORT, Endpoint},
        spec2::{Duplicates, Options, Sectors},
    },
};

const STRICT: Options = Options { sectors: Sectors::Unknown, duplicates: Duplicates::Refused };

fn endpoint(host: &str) -> Endpoint {
    Endpoint::new(host, CONFIG_PORT).unwrap()
}

fn authority(bundle: &str) -> Authority {
    Authority::new(bundle, &[]).unwrap()
}
