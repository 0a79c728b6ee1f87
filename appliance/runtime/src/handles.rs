//! All handles of a process, made once.

use std::{sync::Arc, time::Duration};

use firesteel_kube::{Core, Objects, Status};
use firesteel_resources::HostJournal;
use jiff::Timestamp;

use crate::{Events, HostEvents, HostKey, HostQueue, HostTrust, Journals, Runtime, SensorBoard, StepLocks, StoreClock};

/// What a process makes once and gives to its controllers. Clones share all of it.
#[derive(Clone)]
pub struct Handles {
    pub core: Core,
    pub runtime: Arc<dyn Runtime>,
    pub clock: StoreClock,
    /// The CA that hosts trust.
    pub trust: HostTrust,
    pub events: Events,
    pub journals: Journals,
    pub hosts: HostEvents,
    /// The hosts that are to be stepped.
    pub queue: Arc<HostQueue<HostKey>>,
    pub steps: StepLocks,
    pub sensors: SensorBoard,
}

crate::opaque_debug!(Handles);

impl Handles {
    /// Makes them. `tells_events`: events are written to the API; something else has to delete old ones.
    ///
    /// # Errors
    /// When the registry lacks the kind of the journals.
    pub fn new(
        core: &Core,
        runtime: Arc<dyn Runtime>,
        clock: StoreClock,
        trust: HostTrust,
        tells_events: bool,
    ) -> Result<Self, Status> {
        // What the planner says of hosts goes on when room is short.
        let journals = Objects::<HostJournal>::new(core, "firesteel.dev", "HostJournal")?.with_reserve();
        Ok(Self {
            core: core.clone(),
            clock,
            trust,
            events: Events::new(core, Arc::clone(&runtime), tells_events),
            journals: Journals::new(journals),
            hosts: HostEvents::default(),
            queue: Arc::new(HostQueue::new(Arc::clone(&runtime))),
            steps: StepLocks::default(),
            sensors: SensorBoard::default(),
            runtime,
        })
    }

    /// Reads the wall clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.runtime.now()
    }

    /// Waits so long.
    pub async fn sleep(&self, duration: Duration) {
        self.runtime.sleep_until(self.runtime.uptime() + duration).await;
    }

    /// Waits until all hosts have been read after a start. Before that a known host looks like a stranger,
    /// and its agent like one of a host that is gone. `false`: they were not in time.
    pub async fn knows_hosts(&self) -> bool {
        self.hosts.knows_hosts(&*self.runtime).await
    }
}
