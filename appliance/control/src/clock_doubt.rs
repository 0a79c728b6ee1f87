//! What the fleet hears of a clock that may be wrong ([`StoreClock`](firesteel_runtime::StoreClock) follows it).

use firesteel_runtime::{ControllerError, log_doubt};

use crate::Control;

/// Follows the clock, for as long as control runs.
pub(crate) async fn run(control: Control) -> Result<(), ControllerError> {
    let clock = control.handles().clock.clone();
    let mut doubt = None;
    loop {
        doubt = clock.changed(doubt).await;
        log_doubt(doubt);
        // Each host says so, and its agent hears of it.
        control.wake_hosts(|_| true);
        let (reason, text) = match doubt {
            Some(doubt) => ("ClockDoubtful", doubt.to_string()),
            None => ("ClockRight", "nothing speaks against the appliance's clock any more".to_owned()),
        };
        control.events().tell_of_network(reason, doubt.is_some(), text).await;
    }
}
