//! Unmanaged: no BMC details. The host becomes managed when they are added, or when its own agent
//! says hello: the key that its token is bound to then stands for the BMC.

use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::model::{HostEffect, HostState};
use crate::host::rules::{agent, bmc_only, booting, preconditions};
use crate::host::turn::{AgentPresence, StateStep, StepDraft};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    agent::keep_fresh(turn);
    if turn.has_bmc() || turn.presence() == AgentPresence::Alive {
        let why = if turn.has_bmc() { "BMC details were added" } else { "the host's agent said hello" };
        return Ok(turn.go(HostState::Registering, why));
    }
    booting::check_mac(turn, ErrorType::Registration)?;
    booting::refused_by_hand(turn, ErrorType::Registration)?;
    // It is shown again as long as it is so.
    turn.memory.failure = None;
    let poll = turn.limits().slow_poll;
    if let Some(text) = bmc_only::unmet(&turn.memory, turn.seen, turn.now) {
        return Ok(turn.wait_in_state(poll, text));
    }
    if turn.memory.macs.is_empty() {
        let text = "there is neither a BMC nor a boot MAC: set spec.bmc, or spec.bootMACAddress to be recognised by";
        return Ok(turn.wait_in_state(poll, text));
    }
    if turn.seen.discovery_agent {
        let reason = "the host was adopted and boots again with a token of its own".to_owned();
        turn.effect(HostEffect::RebootDiscoveryAgent { reason });
        return Ok(turn.wait_in_state(poll, "the agent that discovered the host reboots into the host's own"));
    }
    preconditions::prefetch(turn);
    let text = booting::by_hand(turn, turn.limits().hello);
    Ok(turn.wait_in_state(poll, text))
}
