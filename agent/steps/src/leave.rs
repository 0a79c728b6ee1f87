//! Leaves the ramdisk. The step itself only says so: the worker goes when the last report, which carries this receipt,
//! was answered.

use firesteel_wire::Evidence;

use super::StepResult;
use crate::Exit;

pub(super) fn run(exit: Exit) -> StepResult {
    StepResult { evidence: Evidence::Leaving { how: exit.text().to_owned() }, exit: Some(exit) }
}
