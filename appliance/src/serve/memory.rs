//! The most memory that the appliance uses, whatever the machines on its networks do: the sum of the limits of its
//! parts. The start logs it, and the parts at the level `debug`.
//!
//! This includes imports of images: two at a time, each with the dictionary or window of a decoder and the data being
//! packed. What users ask for comes on top: hosts (for each at most the agent's last report, 1 MiB, and an answer of its
//! BMC that is under way, which may be as long) and answers of the API.

use firesteel_boot::boot_sightings::{HOSTS_MAX, STRANGERS_MAX};
use firesteel_control::{CONSOLES_BYTES_MAX, DISCOVERED_MAX, LOG_BYTES_MAX};
use firesteel_dhcp::{LEASES_MAX, OFFERS_MAX};
use firesteel_ignition::CONFIG_BYTES_MAX;
use firesteel_images::import;
use firesteel_wire::limits::BODY_BYTES_MAX;

use crate::http::agent::{BODIES, IMAGE_ANSWERS, SMALL_BODY_BYTES};
use crate::http::boot_files::BOOT_FILES_BYTES_MAX;
use crate::http::config;
use crate::http::file::READ_BYTES;
use crate::http::server::{API_CONNECTIONS, BUFFER_BYTES, CONNECTIONS, STREAMS_MAX, WINDOW_BYTES};
use crate::serve::recent_log::RECENT_LOG_BYTES_MAX;
use firesteel_net::{leases, tftp};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Code, stacks of threads, TLS, log, and memory that the allocator keeps.
const PROCESS_BYTES: usize = 64 * MIB;
/// A connection or transfer itself: its task, socket and timers.
const TASK_BYTES: usize = 16 * KIB;
/// A TLS session: one record in each direction, keys, and what a handshake needs.
const TLS_BYTES: usize = 48 * KIB;
/// The head of a request, and the part of the answer that waits for the client.
const HTTP_BYTES: usize = 2 * BUFFER_BYTES;
/// A body as it was received, put together, and decoded.
const BODY_COPIES: usize = 3;
/// A config as it is stored, decoded, merged with additions, and written in the client's version.
const CONFIG_COPIES: usize = 8;
/// A lease with its name in four tables: by MAC and by address, in DHCP and in the check of boot scripts.
const LEASE_BYTES: usize = 384;
/// An agent that is no host's, as it is remembered.
const UNKNOWN_AGENT_BYTES: usize = 4 * KIB;
/// A download of an image: the data received, and a TLS session.
const DOWNLOAD_BYTES: usize = 512 * KIB;
/// The last stages of a machine's boot, with their texts, and what was sent for its tokens.
const BOOTING_BYTES: usize = 2 * KIB;

/// A part of the sum.
#[derive(Clone, Copy, Debug)]
pub struct MemoryShare {
    pub what: &'static str,
    pub bytes: usize,
}

const fn part(what: &'static str, bytes: usize) -> MemoryShare {
    MemoryShare { what, bytes }
}

/// The parts of the sum.
pub const PARTS: [MemoryShare; 23] = [
    part("process", PROCESS_BYTES),
    part("boot files", BOOT_FILES_BYTES_MAX),
    // While one piece of a file waits for the client, the next is read.
    part("boot connections", CONNECTIONS.total * (TASK_BYTES + HTTP_BYTES + 2 * READ_BYTES)),
    part(
        "agent connections",
        CONNECTIONS.total * (TASK_BYTES + TLS_BYTES + HTTP_BYTES + BODY_COPIES * SMALL_BODY_BYTES),
    ),
    part("images by TLS", IMAGE_ANSWERS.total * 2 * READ_BYTES),
    // There are listeners with and without TLS.
    part("config connections", 2 * config::CONNECTIONS.total * (TASK_BYTES + TLS_BYTES + HTTP_BYTES)),
    part("configs on their way", config::ANSWERS_BYTES_MAX),
    part("configs being made", config::MAKING_MAX * CONFIG_COPIES * CONFIG_BYTES_MAX),
    part("large bodies of agents", BODIES.total * BODY_COPIES * BODY_BYTES_MAX),
    part(
        "API connections",
        API_CONNECTIONS.total
            * (TASK_BYTES + TLS_BYTES + WINDOW_BYTES as usize + STREAMS_MAX as usize * (TASK_BYTES + BUFFER_BYTES)),
    ),
    part("DHCP", (LEASES_MAX + OFFERS_MAX) * LEASE_BYTES),
    part("TFTP", tftp::TRANSFERS_MAX * (TASK_BYTES + tftp::TRANSFER_BYTES)),
    part("store", firesteel_store::CACHES_BYTES),
    // All watches share one copy of each event.
    part("recent events", firesteel_store::RECENT_BYTES_MAX),
    part("lease database", leases::CACHE_BYTES),
    part("logs of hosts", LOG_BYTES_MAX),
    part("consoles of hosts", CONSOLES_BYTES_MAX),
    part("recent log", RECENT_LOG_BYTES_MAX),
    part("sensors of hosts", firesteel_sensors::SENSORS_BYTES_MAX),
    part("unknown machines", DISCOVERED_MAX * UNKNOWN_AGENT_BYTES),
    part("imports of images", import::MEMORY_BYTES_MAX),
    part("images on their way", import::DOWNLOADS_AT_ONCE * DOWNLOAD_BYTES + import::PLACES_MAX * TASK_BYTES),
    part("machines that boot", (STRANGERS_MAX + HOSTS_MAX) * BOOTING_BYTES),
];

/// The most memory that the appliance uses.
pub const BOUND_BYTES: usize = {
    let (mut sum, mut index) = (0, 0);
    while index < PARTS.len() {
        sum += PARTS[index].bytes;
        index += 1;
    }
    sum
};

// The check of boot scripts knows all of DHCP's leases.
const _: () = assert!(firesteel_control::LIVE_LEASES_MAX >= LEASES_MAX);
// A part that outgrows a small machine fails the build here.
const _: () = assert!(BOUND_BYTES <= 1536 * MIB);
