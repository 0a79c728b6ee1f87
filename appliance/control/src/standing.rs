//! What is kept of a host between its steps, to be surveyed.

use firesteel_plan::host::progress_outlook::{Prospect, is_held_up, is_set_aside, moved_at, prospect};
use firesteel_plan::host::{HostInputs, HostMemory};
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState};
use jiff::Timestamp;

/// Upstream's word, as the status has it.
pub(crate) fn error_label(kind: ErrorType) -> &'static str {
    match kind {
        ErrorType::Registration => "registration error",
        ErrorType::ProvisionedRegistration => "provisioned registration error",
        ErrorType::Inspection => "inspection error",
        ErrorType::Preparation => "preparation error",
        ErrorType::Provisioning => "provisioning error",
        ErrorType::PowerManagement => "power management error",
        ErrorType::Servicing => "servicing error",
    }
}

/// What is kept of a host between its steps, to be surveyed.
#[derive(Clone, Debug)]
pub(crate) struct SurveyedHost {
    pub(crate) state: ProvisioningState,
    pub(crate) failure: Option<(ErrorType, ErrorWait)>,
    /// When it was last seen to come on: in its state, its plan or its boot.
    pub(crate) moved_at: Timestamp,
    pub(crate) prospect: Prospect,
    /// Stands still on purpose.
    pub(crate) is_held: bool,
    /// Waits behind a halt.
    pub(crate) is_halted: bool,
    pub(crate) is_delayed: bool,
    pub(crate) is_frozen: bool,
    pub(crate) is_refused: bool,
    pub(crate) is_claimed: bool,
}

/// What a host in an error waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ErrorWait {
    Edit,
    Retry,
    Cause,
}

impl ErrorWait {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Retry => "retry",
            Self::Cause => "cause",
        }
    }
}

impl SurveyedHost {
    /// Describes a host after a step that saw this and left this memory. Pure.
    pub(crate) fn of(memory: &HostMemory, seen: &HostInputs) -> Self {
        let failure = memory.failure.as_ref().map(|failure| {
            let waits = match failure.retry_at {
                _ if failure.until_edit => ErrorWait::Edit,
                Some(_) => ErrorWait::Retry,
                None => ErrorWait::Cause,
            };
            (failure.kind, waits)
        });
        Self {
            state: memory.state.word(),
            failure,
            moved_at: moved_at(memory),
            prospect: prospect(memory, seen),
            is_held: is_set_aside(memory, seen),
            is_halted: is_held_up(memory, seen),
            is_delayed: memory.delayed.is_some(),
            is_frozen: memory.frozen.is_some(),
            is_refused: memory.bmc.refused_credentials.is_some(),
            is_claimed: memory.claimants.is_some(),
        }
    }

    pub(crate) fn is_at_work(&self) -> bool {
        let works = match self.state {
            ProvisioningState::Registering
            | ProvisioningState::Inspecting
            | ProvisioningState::Preparing
            | ProvisioningState::Provisioning
            | ProvisioningState::Deprovisioning
            | ProvisioningState::PoweringOff
            | ProvisioningState::Deleting => true,
            ProvisioningState::New
            | ProvisioningState::Unmanaged
            | ProvisioningState::Available
            | ProvisioningState::Provisioned
            | ProvisioningState::ExternallyProvisioned
            | ProvisioningState::Foreign => false,
        };
        works && !(self.is_held || self.is_halted || self.is_delayed)
    }
}
