//! The lab: real firmware, real boot loaders and real disks for the appliance to work on, without
//! hardware. It owns a private network, the virtual machines with their serial consoles, one
//! virtual BMC per machine, and the commands `demo`, `test`, `up` and `console` built from them.
//!
//! ```text
//!  cli -> artefacts (agent, appliance, ramdisk, OS image; built outside, with the network there)
//!      -> sandbox   (a network namespace of its own, for this process and all it starts)
//!      -> lab       net + appliance + machine[] + bmc[]   -> demo | scenario | up
//! ```
//!
//! `test --all` is a row of pieces with a record (`all`), under the digest of the files that are tested (`checkout`);
//! `mutants` changes the deciding crates and runs their tests.
//!
//! The operating systems on its disks are built by the crate `firesteel-lab-image`.
//!
//! What can misbehave: disks (the crate `firesteel-lab-disk`), BMCs (`bmc`), image origins (`files`),
//! wires (`link`) and another machine (`attack`). Scenario files say when they do.
//!
//! The script `qemu/lab` builds and starts it. It knows the appliance only as a user does: its command line, its YAML
//! and its network. It must not know how hosts are planned or what an agent's plan says.
//!
//! Nothing outlives a run: the network belongs to a namespace that ends with its last process, each
//! child dies with the lab (`os`), and files are in one folder per run. The next start removes the folder
//! if a killed run left it.

pub mod all;
pub mod appliance;
pub mod artefacts;
pub mod attack;
pub mod bench;
pub mod bench_serve;
pub mod bmc;
pub mod building;
pub mod checkout;
pub mod cli;
pub mod console;
pub mod demo;
mod erasure_label;
pub mod files;
pub mod host_view;
pub mod lab;
pub mod lab_ending;
pub mod libvirt;
pub mod link;
pub mod machine;
pub mod manifests;
pub mod mutants;
pub mod net;
pub mod os;
mod os_images;
pub mod probe;
pub mod progress;
pub mod qmp;
pub mod report;
pub mod run_folder;
pub mod sandbox;
pub mod scenario;
pub mod serial;
pub mod standing_lab;
pub mod suites;
pub mod switch;
pub mod testing;
pub mod tools;
pub mod wipe;
