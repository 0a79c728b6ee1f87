//! Faults that people met in the field, against the real process: each in its own network namespace, with peers that
//! are as odd as theirs. What is odd is data. A test prints one line: the case, what was wanted, what it got.
//!
//! | module | peers | cases |
//! |---|---|---|
//! | `bmcs` | a Redfish service with quirks | redfish-session-without-location, redfish-trailing-slash-redirect, redfish-gzip-unasked, redfish-html-answer, redfish-no-boot-override, redfish-once-stored-as-continuous, bmc-address-without-path |
//! | `disks` | disks as servers and libvirt have them | usb-lun-is-smallest-disk, raid-luns-same-short-wwn, disk-without-serial-and-wwn, network-data-balance-xor |
//! | `certificates` | the same behind odd TLS | bmc-certificate-x509v1, bmc-tls-rsa-key-exchange |
//! | `packets` | clients and relays of DHCP, and of the boot script | odd-client-architectures, ipxe-without-http, relay-server-id-override, ipoib-client, smbios-odd-serial |
//! | `unknown_hosts` | machines that have no host | S0.26 |
//! | `bmc_only` | Redfish and IPMI, and no network to boot from | power, fencing, inspection by the BMC |
//! | `warnings` | an owner with an odd config, and a restart | what is told once |
//! | `modes` | a machine on a network of each mode | S0.5 |
//!
//! `network` is an appliance with a client on its wire; `bench` is the appliance with a host's Secret and BMC, `agent` an agent that installs its plan.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::wildcard_enum_match_arm, reason = "of all steps a test means a few")]
#![allow(clippy::print_stdout, reason = "each test says what it wanted and got")]

mod agent;
mod bench;
mod bmc_only;
mod bmcs;
mod certificates;
mod disks;
mod live_network;
mod modes;
mod network;
mod packets;
mod unknown_hosts;
mod warnings;
