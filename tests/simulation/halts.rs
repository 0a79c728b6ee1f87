//! Somebody stops the whole fleet, and sets it going again after a while.

use std::sync::Arc;
use std::time::Duration;

use firesteel_resources::Halt;
use firesteel_resources::halt::{HaltSpec, USUAL_NAME};
use firesteel_store::{GroupResource, ObjectKey};

use crate::counts::Fault;
use crate::executor::lock;
use crate::world::{Event, World};

/// Who lifts a halt looks whether it is lifted.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// As long as a test needs it.
const FOR_BUGS: Duration = Duration::from_secs(4000);

impl World {
    pub(crate) fn is_halted(&self) -> bool {
        self.memory.peek(&ObjectKey::new(&GroupResource::new("firesteel.dev", "halts"), "", USUAL_NAME)).is_some()
    }

    /// For some seconds.
    pub(crate) fn halt_for_a_while(&mut self) {
        let Some(appliance) = &self.appliance else { return };
        let halts = appliance.halts.clone();
        let mut halt = Halt::default();
        USUAL_NAME.clone_into(&mut halt.metadata.name);
        halt.spec = HaltSpec { by: "ann".into(), reason: "a drill".into() };
        let laws = Arc::clone(&self.laws);
        self.executor.spawn(
            appliance.life,
            Box::pin(async move {
                if halts.create(&halt).await.is_ok() {
                    lock(&laws).halt_acknowledged();
                }
            }),
        );
        let until = if self.setup.bug.is_some() { FOR_BUGS } else { self.random.millis(2_000, 40_000) };
        self.after(until, Event::Mend { machine: 0, fault: Fault::Halted });
    }

    /// Until it is true: the appliance may be down, and its store may refuse.
    pub(crate) fn resume(&mut self) {
        if !self.is_halted() {
            return;
        }
        self.after(LOOK_AGAIN, Event::Mend { machine: 0, fault: Fault::Halted });
        let Some(appliance) = &self.appliance else { return };
        let halts = appliance.halts.clone();
        self.executor.spawn(appliance.life, Box::pin(async move { drop(halts.delete("", USUAL_NAME).await) }));
    }
}
