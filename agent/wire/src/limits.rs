//! Bounds of the protocol. Both ends enforce them; each says why it has its value.

use std::time::Duration;

/// How often a working agent reports. Loss of single reports is harmless: reports are cumulative.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// How long the appliance holds the report of an idle agent while there is no new plan. Short
/// enough for every proxy and firewall, long enough that 1000 idle hosts make 50 requests a second.
pub const LONG_POLL: Duration = Duration::from_secs(20);
/// A destructive step pauses when the last good reply is older than this: the appliance may have
/// given the disk to somebody else in the meantime.
pub const REPLY_FRESH: Duration = Duration::from_secs(60);
/// A paused destructive step gives up after this long without a reply; the plan then fails.
pub const REPLY_LOST: Duration = Duration::from_secs(30 * 60);
/// Largest body of a hello or report. An inventory of 256 disks and 64 NICs is under 200 kB.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Largest reply: a plan with an Ignition stub in base64.
pub const REPLY_BYTES_MAX: usize = 4 << 20;
/// Most log lines in one report; what does not fit follows with the next.
pub const LOG_LINES_MAX: usize = 500;
/// Longest log line in bytes; longer ones are cut and marked with `…`.
pub const LOG_LINE_BYTES_MAX: usize = 1024;
/// Most log lines that the agent keeps until they are acknowledged; the oldest go first and the
/// gap shows in the sequence numbers.
pub const LOG_BACKLOG_MAX: usize = 10_000;
/// Most disks in an inventory.
pub const DISKS_MAX: usize = 256;
/// Most NICs in an inventory.
pub const NICS_MAX: usize = 64;
/// Most steps in a plan.
pub const STEPS_MAX: usize = 64;
/// Longest string that a host may put into an identity or inventory field, in bytes.
pub const FIELD_BYTES_MAX: usize = 256;
