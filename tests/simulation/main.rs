//! The whole appliance on one thread and a clock of its own, against a hostile world.
//!
//! What runs is the product: [`firesteel_control::Control`] with its journals and boot grants, the planner,
//! the boot decision with its sealed tokens, the DHCP engine and client, the API's objects and
//! rules, the agent's mind, board and choice of disk. What is simulated is around it: the medium of
//! the store ([`laws::Medium`]), time and tasks ([`executor`]), machines ([`machine`], [`hosts`]), their
//! disks ([`disk`]) and BMCs ([`bmc`]), owners ([`owner`]) and everything that goes wrong ([`trouble`]).
//!
//! | test | what |
//! |---|---|
//! | `conversation` | one host from its object to its running system, line by line |
//! | `kill_points` | the same, with the appliance killed at every write and effect, one after the other |
//! | `wild` | many hosts, owners, faults; then peace, in which every host reaches its goal |
//! | `restores` | the store is restored from a backup in the middle of all this: nothing newer is destroyed |
//! | `rollout` | groups of hosts: images from streams, canaries, restores, conflicts, refused writes and restarts |
//! | `policy` | which sets have their boot images kept current, and what is told of those that have not |
//! | `sensors` | a thousand BMCs, of which some are slow, in use or dead, and each is read once a minute |
//! | `planted` | bugs put in on purpose: the law that each breaks is found broken |
//!
//! A failure names its seed; `FIRESTEEL_SIM_SEED` and `FIRESTEEL_SIM_STEPS` set those of
//! `wild::a_million_steps`, and `FIRESTEEL_SIM_PART=10` asks for a tenth of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "seeds and counts are part of what these tests show")]
#![allow(clippy::wildcard_enum_match_arm, reason = "of some forty faults each place means a few")]

// As in the product: a quarter of the simulation's time is its memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod agent;
mod appliance;
mod bmc;
mod conversation;
mod counts;
mod disk;
mod executor;
mod halts;
mod hosts;
mod kill_points;
mod laws;
mod logins;
mod machine;
mod network;
mod objects;
mod owner;
mod planted;
mod policy;
mod random;
mod restores;
mod rollout;
mod sensors;
mod settle;
mod trouble;
mod wild;
mod world;
