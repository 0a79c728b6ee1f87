//! Leave the ramdisk. The step itself only says so: the worker goes when the last report, which
//! carries this receipt, was answered.

use firesteel_wire::Evidence;

use super::Finished;
use crate::Exit;

pub(super) fn run(exit: Exit) -> Finished {
    Finished { evidence: Evidence::Leaving { how: exit.text().to_owned() }, exit: Some(exit) }
}
