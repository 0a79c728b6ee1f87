//! Unmanaged: no BMC details. The host becomes managed when they are added, or when its own agent
//! says hello: the key that its token is bound to then stands for the BMC.

use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::{
    model::{
        effect::{Effect, Reason},
        memory::State,
    },
    rules::{agent, booting, checks},
    turn::{
        Turn,
        attempt::{self, Presence},
    },
};

pub(crate) fn step(turn: &mut Turn<'_>) -> Reason {
    agent::keep_fresh(turn);
    if turn.has_bmc() || attempt::presence(turn) == Presence::Alive {
        let why = if turn.has_bmc() { "BMC details were added" } else { "the host's agent said hello" };
        return turn.go(State::Registering, why);
    }
    if let Some(reason) = booting::mac_taken(turn, ErrorType::Registration) {
        return reason;
    }
    // Told again as long as it is so.
    turn.memory.failure = None;
    let poll = turn.limits().slow_poll;
    if turn.memory.macs.is_empty() {
        let text = "there is neither a BMC nor a boot MAC: set spec.bmc, or spec.bootMACAddress to be recognised by";
        return turn.stay(poll, text);
    }
    if turn.seen.discovery_agent {
        let reason = "the host was adopted and boots again with a token of its own".to_owned();
        turn.effect(Effect::RebootDiscoveryAgent { reason });
        return turn.stay(poll, "the agent that discovered the host reboots into the host's own");
    }
    checks::prefetch(turn);
    turn.stay(poll, "there is no BMC: waiting for the host to boot from the network; switch it on or reboot it by hand")
}
