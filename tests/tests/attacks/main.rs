//! A hostile neighbour, tenant and agent against the real appliance: each a process of its own, on the appliance's wire.
//! A test prints a line of the table for each attempt: attack, what it wants, what it gets.
//!
//! | module | attacks |
//! |---|---|
//! | `claimants` | a second key early and late, an old key after a new hello, all receipts of an installation beside the host |
//! | `clocks` | none: an appliance whose clock is before its build, before its store, or ahead, and what that costs tokens and CAs |
//! | `fetched` | a hello with a token whose kernel or initramfs was not sent, whole or in part, or of another program |
//! | `floods` | as many boot scripts, configs and leases as can be asked for, by machines that are not there and in hosts' names; a crowd of unknown machines |
//! | `forged` | receipts of an installation that was not carried out as planned: another disk, zero lengths, missing files, no boot entry, another order, impossible times |
//! | `identity` | a hello with empty, zero, swapped and foreign UUID, with another serial number; an inspection of another machine |
//! | `imports` | images that ask for gigabytes to be expanded, many at a time; a disk that its header makes too large; none: bytes behind a gzip |
//! | `live` | a boot script while the agent is at work |
//! | `os_image` | an image at the appliance's own address, as upstream's installer names its cache |
//! | `outward` | addresses of images, checksums and BMCs that lead into the appliance, by redirects too; logins in addresses; BMCs that answer `100 Continue` without end |
//! | `restarts` | none: a boot that is under way when the appliance is killed, or upgraded |
//! | `secrets` | none: who reads the appliance's disk, log, events and backups, while it runs and afterwards |
//! | `shares` | what one machine can take from all others: forged DECLINEs and RELEASEs, TFTP reads, idle and slow connections, leases in the names of hosts |
//! | `stored` | none: whatever the API took, against the next start |
//! | `timeline` | a flood of requests against the evidence in the timeline |
//! | `tokens` | a boot token without the host's address: no lease, a lease that was declined, another's lease, not the first asker, HEAD |
//! | `wipes` | a wipe that was not carried out: by a tenant before the reset, by a neighbour with the MAC, after a boot-once that was ignored, without a BMC |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "each test says what an attacker wanted and got")]

mod bmc;
mod claimants;
mod clocks;
mod fetched;
mod floods;
mod forged;
mod host_agent;
mod identity;
mod imports;
mod live;
mod os_image;
mod outward;
mod restarts;
mod said;
mod secrets;
mod shares;
mod stored;
mod timeline;
mod tokens;
mod wipes;

use firesteel_tests::field::{self, Field};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::Dhcp;

/// Of firmware that boots by UEFI.
const CLASS: &str = "PXEClient:Arch:00007:UNDI:003016";

/// Runs a test with an appliance and a hostile machine on its wire.
fn with_hostile(dhcp: Dhcp, test: fn(&mut Field, &mut Hostile)) {
    field::with_field(env!("CARGO_BIN_EXE_firesteel-tested"), dhcp, move |field| {
        let mut hostile = Hostile::start(field, env!("CARGO_BIN_EXE_firesteel-hostile"));
        test(field, &mut hostile);
    });
}

/// Prints a line of the table, and fails where the attacker gets something else.
fn judge(attack: &str, wants: &str, gets: &str, got: &str) {
    println!("{attack} | {wants} | {got}");
    assert_eq!(got, gets, "{attack}");
}
