//! Bounds of the protocol. Both ends enforce them; each says why it has its value.

use std::time::Duration;

/// How often a working agent reports. Loss of single reports is harmless: reports are cumulative.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// How long the appliance holds the report of an idle agent while there is no new plan. Short
/// enough for every proxy and firewall, long enough that 1000 idle hosts make 50 requests a second.
pub const LONG_POLL: Duration = Duration::from_secs(20);
/// A destructive step pauses when the last good reply is older than this: the appliance may have given the disk to
/// another owner in the meantime.
pub const REPLY_FRESH: Duration = Duration::from_secs(60);
/// A paused destructive step gives up after this long without a reply; the plan then fails.
pub const REPLY_LOST: Duration = Duration::from_secs(30 * 60);
/// Largest body of a hello or report. An inventory of 256 disks and 64 NICs is under 200 kB.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Largest reply: a plan with the files of a hand-off, and 2 MiB for all else.
pub const REPLY_BYTES_MAX: usize = 8 << 20;
/// All files of a hand-off, in base64: the largest config (2 MiB) in two forms is 5.4 MiB.
pub const HAND_OFF_BYTES_MAX: usize = 6 << 20;
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
/// Largest inventory as JSON, so that a report with its other receipts and 500 log lines fits into a
/// body: 256 disks, 64 NICs, 192 memory modules and 512 PCI functions are about 350 kB.
pub const INVENTORY_BYTES_MAX: usize = 384 << 10;
/// Most sockets; there are boards with 8, and partitions of larger machines with 32.
pub const PROCESSORS_MAX: usize = 64;
/// Most memory modules; eight sockets have 24 slots each.
pub const MODULES_MAX: usize = 256;
/// Most NUMA nodes; processors that are split have up to eight a socket.
pub const NUMA_NODES_MAX: usize = 64;
/// Most PCI functions; a server with two sockets has about 200 without its virtual functions.
pub const PCI_DEVICES_MAX: usize = 512;
/// Most NVMe controllers, as many as disks.
pub const NVME_CONTROLLERS_MAX: usize = 256;
/// Most namespaces of one controller; most drives can have 32 at most.
pub const NAMESPACES_MAX: usize = 64;
/// Most ways to a BMC.
pub const MANAGEMENT_MAX: usize = 8;
/// Most networks of a BMC: few have more than a port of their own and a shared one.
pub const BMC_NETWORKS_MAX: usize = 4;
/// Most VLANs of one NIC. The ramdisk makes one; another boot of the kernel may have made more.
pub const VLANS_MAX: usize = 64;
/// Most warnings of one drive: more than any kind of drive has.
pub const WARNINGS_MAX: usize = 8;
/// Most addresses of one neighbour.
pub const NEIGHBOUR_ADDRESSES_MAX: usize = 8;
/// Most bytes of all neighbours, as JSON: 64 of usual ones are about 40 kB. With the largest inventory and the log
/// lines of a report it leaves a quarter of the body for receipts.
pub const NEIGHBOURS_BYTES_MAX: usize = 160 << 10;
/// Most notes of an inspection.
pub const NOTES_MAX: usize = 32;
/// Most abilities that are heard in a hello; there are two today.
pub const ABILITIES_MAX: usize = 32;
/// Most steps in a plan.
pub const STEPS_MAX: usize = 64;
/// Longest string that a host may put into an identity or inventory field, in bytes.
pub const FIELD_BYTES_MAX: usize = 256;
/// Most files of one form of a hand-off: a config drive has three, a boot partition four.
pub const HAND_OFF_FILES_MAX: usize = 64;
/// Longest path of such a file: three folders with the longest names that the forms have are half of it.
pub const HAND_OFF_PATH_BYTES_MAX: usize = 128;
/// Largest such file: a config of 2 MiB, with room for what an attempt puts into it.
pub const HAND_OFF_FILE_BYTES_MAX: usize = 3 << 20;
/// Most kernel arguments of one kind; the longest command lines that installers write have thirty.
pub const ARGUMENTS_MAX: usize = 64;
/// Longest kernel command line: the kernel cuts it here without a word (`COMMAND_LINE_SIZE` of x86_64 and arm64 is
/// 2048 with its end mark), so nothing longer is written.
pub const COMMAND_LINE_BYTES_MAX: usize = 2047;
/// Longest network arguments of a boot partition, all with the blanks between. GRUB puts them into the command line of
/// the image's own entry, where CoreOS has words of about 450 bytes, and `BOOT_IMAGE=` of about 130: with more, the end
/// of the line is cut, and the root filesystem's argument may stand there.
pub const NETWORK_ARGUMENTS_BYTES_MAX: usize = 1400;
/// Most lines of words in a hand-off's evidence of one kind; more than there are partitions with boot files.
pub const HAND_OFF_WORDS_MAX: usize = 64;
/// Most boot loader files in a hand-off's evidence: an image has one entry for each of its few kernels.
pub const LOADER_FILES_MAX: usize = 128;
