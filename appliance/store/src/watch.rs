//! One watch: pages of history from the database, then the recent events in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{StoreReadError, WatchError};
use crate::hub::{Hub, HubEvent, RingItem};
use crate::reads::{Reads, WeakReads};
use crate::types::{GroupResource, Revision};

/// Events of history read at once: few enough to hold in memory at the largest object size.
const HISTORY_PAGE: usize = 64;

/// The events of one kind after a revision, in order. Dropping it ends the watch.
#[derive(Debug)]
pub struct EventStream {
    hub: Arc<Hub>,
    // Weak, so that a forgotten watch does not keep the database open.
    reads: WeakReads,
    kind: GroupResource,
    page: VecDeque<Arc<HubEvent>>,
    /// Everything up to here was delivered, or is not an event of this kind.
    position: Revision,
    /// The page is all that there is of this kind up to here.
    page_end: Revision,
    /// Has caught up with the recent events: from now on it must keep up with them.
    live: bool,
    ended: Option<WatchError>,
}

impl EventStream {
    pub(crate) async fn start(
        hub: Arc<Hub>,
        reads: &Reads,
        kind: GroupResource,
        from: Revision,
    ) -> Result<Self, WatchError> {
        let oldest = hub.compacted(&kind);
        if from < oldest {
            return Err(WatchError::Compacted { oldest });
        }
        let (page, weak) = (VecDeque::new(), reads.downgrade());
        let live = !matches!(hub.after(&kind, from), RingItem::Overtaken);
        let mut stream = Self { hub, reads: weak, kind, page, position: from, page_end: from, live, ended: None };
        // The first page of history now, so that a failure of the database is an error of the start.
        if !live {
            stream.fill().await?;
        }
        Ok(stream)
    }

    /// The next event. After an error the watch is over and every later call gives the same error.
    ///
    /// Cancel safe: an event is lost only with the stream.
    pub async fn next(&mut self) -> Result<Arc<HubEvent>, WatchError> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        match self.advance().await {
            Ok(event) => {
                self.position = event.revision;
                Ok(event)
            }
            Err(error) => {
                self.ended = Some(error.clone());
                Err(error)
            }
        }
    }

    /// The revision up to which this watch is complete: a client may resume from it.
    pub fn position(&mut self) -> Revision {
        let published = self.hub.published();
        // Events are in the ring before `published` moves, so that nothing after the position, seen
        // after reading it, means that there is nothing up to it.
        let waits = || matches!(self.hub.after(&self.kind, self.position), RingItem::Wait(_));
        if self.page.is_empty() && self.ended.is_none() && waits() {
            self.position = self.position.max(published);
        }
        self.position
    }

    async fn advance(&mut self) -> Result<Arc<HubEvent>, WatchError> {
        loop {
            if let Some(event) = self.page.pop_front() {
                return Ok(event);
            }
            self.position = self.position.max(self.page_end);
            match self.hub.after(&self.kind, self.position) {
                RingItem::Event(event) => {
                    self.live = true;
                    return Ok(event);
                }
                RingItem::Wait(changed) => {
                    self.live = true;
                    changed.await;
                }
                RingItem::Overtaken if self.live => return Err(WatchError::Lagged),
                RingItem::Overtaken => self.fill().await?,
                RingItem::Closed => return Err(WatchError::Closed),
            }
        }
    }

    /// Reads the next page of history.
    async fn fill(&mut self) -> Result<(), WatchError> {
        let reads = self.reads.upgrade().ok_or(StoreReadError::Closed)?;
        let through = self.hub.published();
        let events = reads.history(&self.kind, self.position, through, HISTORY_PAGE).await?;
        self.page_end = match events.last() {
            Some(last) if events.len() == HISTORY_PAGE => last.revision,
            // Nothing more of this kind lies up to there.
            Some(_) | None => through.max(self.position),
        };
        self.page = events.into_iter().map(|event| Arc::new(HubEvent::new(event))).collect();
        Ok(())
    }
}
