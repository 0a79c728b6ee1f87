//! A machine's end of the wire, and the table of cases.

use firesteel_tests::field;
pub(crate) use firesteel_tests::field::{Field, RELAY, discover, file_of, judge, mac};
use firesteel_tests::network::Dhcp;

/// Runs a test with an appliance that leases addresses, in namespaces that end with it.
pub(crate) fn with_field(test: fn(&mut Field)) {
    field::with_field(env!("CARGO_BIN_EXE_firesteel-tested"), Dhcp::Managed, test);
}
