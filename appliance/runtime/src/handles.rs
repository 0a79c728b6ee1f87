//! All handles of a process, made once.

use std::{fmt, sync::Arc};

use firesteel_kube::{Core, Objects, Status};
use firesteel_resources::HostJournal;

use crate::{Events, HostEvents, HostKey, HostQueue, Journals, Runtime, StepLocks, StoreClock, Trust};

/// What a process makes once and gives to its controllers. Clones share all of it.
#[derive(Clone)]
pub struct Handles {
    pub core: Core,
    pub runtime: Arc<dyn Runtime>,
    pub clock: StoreClock,
    /// The CA that hosts trust.
    pub trust: Trust,
    pub events: Events,
    pub journals: Journals,
    pub hosts: HostEvents,
    /// The hosts that are to be stepped.
    pub queue: Arc<HostQueue<HostKey>>,
    pub steps: StepLocks,
}

impl fmt::Debug for Handles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handles").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Handles {
    /// `tells_events`: whether the API is told of what happens by events, which something else has to forget.
    ///
    /// # Errors
    /// When the registry lacks the kind of the journals.
    pub fn new(
        core: &Core,
        runtime: Arc<dyn Runtime>,
        clock: StoreClock,
        trust: Trust,
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
            runtime,
        })
    }
}
