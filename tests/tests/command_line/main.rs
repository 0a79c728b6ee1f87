//! The command line against the real appliance: what a person types, what is printed, and the exit code.

mod answers;
mod api_verbs;
mod apply;
mod confirmations;
mod escapes;
mod folders;
mod hints;
mod sensors;
mod support_bundle;
mod watch;
