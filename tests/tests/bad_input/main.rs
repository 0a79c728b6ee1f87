//! What bad input gets, as a user sees it: the whole appliance but its sockets, with its real store, importer,
//! planner and tokens, and agents that say what real ones say. Each case ends in a message that says what
//! happened and what to do, in the host's status and on the page of `firesteel describe`, and leaves nothing
//! that boots: no image in the store, no write plan in an agent's hands.
//!
//! | module | what is bad |
//! |---|---|
//! | `images` | what an origin sends, with `firesteel image import` as the second way in |
//! | `configs` | tokens, pools and stubs of the config server, over its listener |
//! | `consoles` | what serial ports say, and BMCs through which they are heard |
//! | `deletions` | how a host with an OS is deleted: it is cleaned whatever is asked |
//! | `hosts` | disks, hints, Secrets, Ignition configs |
//! | `inspection` | what hosts say that they are made of; and that it is shown as it is |
//! | `logins` | passwords of BMCs, and how often they are tried |
//! | `machines` | tokens, keys, MACs and UUIDs |
//! | `receipts` | evidence that nobody asked for: none of it is signed |
//! | `secrets` | what refers to a Secret with something wrong in it: nothing of it is told or written |
//! | `storage` | the appliance's own disk, and its clock |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a failure is of the case that was named last")]
#![allow(clippy::wildcard_enum_match_arm, reason = "of all steps a test means a few")]

mod agent;
mod appliance;
mod boots;
mod configs;
mod consoles;
mod deletions;
mod hosts;
mod images;
mod inspection;
mod logins;
mod machines;
mod origin;
mod qcow2;
mod receipts;
mod secrets;
mod storage;
