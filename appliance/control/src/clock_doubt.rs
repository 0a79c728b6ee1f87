//! What the fleet hears of a clock that may be wrong ([`StoreClock`](firesteel_runtime::StoreClock) follows it).

use std::sync::Arc;

use firesteel_runtime::{ControllerError, log_doubt};

use crate::shared::Shared;

/// Follows the clock, for as long as control runs.
pub(crate) async fn run(shared: Arc<Shared>) -> Result<(), ControllerError> {
    let clock = shared.clock.clone();
    let mut doubt = None;
    loop {
        doubt = clock.changed(doubt).await;
        log_doubt(doubt);
        // Each host says so, and its agent hears of it.
        shared.wake_hosts(|_| true);
        let (reason, text) = match doubt {
            Some(doubt) => ("ClockDoubtful", doubt.to_string()),
            None => ("ClockRight", "nothing speaks against the appliance's clock any more".to_owned()),
        };
        shared.events.record_network_event(reason, doubt.is_some(), text).await;
    }
}
