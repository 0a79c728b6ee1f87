//! When the host was last registered, inspected, provisioned and deprovisioned, as upstream's
//! `status.operationHistory` has it: an operation begins when its state is entered and ends when it is left,
//! however that ended. One that goes on after an interruption keeps its beginning.

use firesteel_resources::bare_metal_host::OperationMetric;
use jiff::Timestamp;

use crate::host::model::{HostMemory, HostState};

/// The state that the memory names was entered.
pub(crate) fn begin(memory: &mut HostMemory, now: Timestamp) {
    if let Some(operation) = of(memory) {
        begin_operation(operation, now);
    }
}

/// The state that the memory names is left.
pub(crate) fn end(memory: &mut HostMemory, now: Timestamp) {
    if let Some(operation) = of(memory) {
        end_operation(operation, now);
    }
}

pub(crate) fn begin_operation(operation: &mut OperationMetric, now: Timestamp) {
    if operation.start.is_none() || operation.end.is_some() {
        *operation = OperationMetric { start: Some(now), end: None };
    }
}

pub(crate) fn end_operation(operation: &mut OperationMetric, now: Timestamp) {
    if operation.start.is_some() && operation.end.is_none() {
        operation.end = Some(now);
    }
}

fn of(memory: &mut HostMemory) -> Option<&mut OperationMetric> {
    let history = &mut memory.history;
    match memory.state {
        HostState::Registering => Some(&mut history.register),
        HostState::Inspecting => Some(&mut history.inspect),
        HostState::Provisioning => Some(&mut history.provision),
        HostState::Deprovisioning => Some(&mut history.deprovision),
        HostState::New
        | HostState::Unmanaged
        | HostState::Preparing
        | HostState::Available
        | HostState::Provisioned
        | HostState::ExternallyProvisioned
        | HostState::PoweringOff
        | HostState::Deleting => None,
    }
}
