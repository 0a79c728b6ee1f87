//! Waits for hosts and objects. They give up only when nothing moves any more: their limit counts from the last sign of
//! life, so that a slow computer is slow and not wrong. Only a host that is busy without end meets another limit.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Lab, LabError};
use crate::host_view::HostView;

/// Nothing at all happened in this time: the host hangs. Booting Debian under emulation beside two
/// others takes about half of it between two signs of life.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// A host that is busy all the time and gets nowhere, such as one that boots in a loop. The longest
/// thing that is waited for, an installation on a loaded computer, takes a fifth of it.
pub const LIMIT: Duration = Duration::from_secs(1800);
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Lab {
    /// Waits until `is_so`; gives up when nothing has moved for [`PATIENCE`].
    pub async fn wait_for(
        &self,
        name: &str,
        what: &str,
        mut is_so: impl FnMut(&HostView) -> bool,
    ) -> Result<HostView, LabError> {
        // A machine that is not in the lab's rack has none here.
        let serial = self.hosts.get(name).map(|host| host.machine.serial());
        let mut pulse = (None, 0);
        let begun = Instant::now();
        let mut moved = begun;
        loop {
            let view = self.view(name).await?;
            if is_so(&view) {
                return Ok(view);
            }
            // A guest that prints is alive though the appliance hears nothing of it.
            let printed = serial.as_ref().and_then(|serial| serial.position().ok()).unwrap_or_default();
            let now = (Some(view.pulse()), printed);
            if now != pulse {
                pulse = now;
                moved = Instant::now();
            }
            if moved.elapsed() > PATIENCE || begun.elapsed() > LIMIT {
                return Err(LabError::GaveUp {
                    name: name.to_owned(),
                    what: what.to_owned(),
                    state: view.state().to_owned(),
                    reason: [view.reason(), view.error()].join("; "),
                    serial: serial.map(|serial| serial.tail(20)).unwrap_or_default(),
                });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until an object is so; gives up when nothing of it has changed for [`PATIENCE`].
    pub async fn wait_object(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        mut is_so: impl FnMut(&serde_json::Value) -> bool,
    ) -> Result<serde_json::Value, LabError> {
        let begun = Instant::now();
        let (mut last, mut moved) = (serde_json::Value::Null, begun);
        loop {
            let object = self.object(kind, name).await?;
            if is_so(&object) {
                return Ok(object);
            }
            if object["status"] != last["status"] {
                (last, moved) = (object, Instant::now());
            }
            if moved.elapsed() > PATIENCE || begun.elapsed() > LIMIT {
                let (name, what) = (format!("{kind} {name}"), what.to_owned());
                return Err(LabError::GaveUpOn { name, what, object: Box::new(last) });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the OS has reported that it runs, `times` in all.
    pub async fn wait_running(&self, name: &str, times: usize) -> Result<HostView, LabError> {
        self.wait_for(name, "the OS to run", |view| view.count("running") >= times).await
    }
}
