//! The planner against a simulated host: flows, properties of random histories, and the graph of
//! states. No time passes: the clock is a number.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one case among many")]

mod access;
mod adopted;
mod answers;
mod bmc_only;
mod boots;
mod catalogue;
mod claim_limits;
mod claimants;
mod cleaning;
mod conditions;
mod counted;
mod cuts;
mod deadlines;
mod deletions;
mod enrolment;
mod erasure_limits;
mod events;
mod faults;
mod flows;
mod gate;
mod graph;
mod guards;
mod hints;
mod images;
mod installs;
mod moved;
mod overrides;
mod paths;
mod policy;
mod previews;
mod properties;
mod reboots;
mod requests;
mod restored;
mod rests;
mod retries;
mod rollout;
mod silences;
mod skew;
mod slots;
mod supplied;
mod tenancy;
mod trials;
mod uninterruptible;
mod watches;
mod wipes;
mod world;
