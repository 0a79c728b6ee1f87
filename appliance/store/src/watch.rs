//! One watch: pages of history from the database, then the live queue.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::error::{ReadError, WatchError};
use crate::hub::Hub;
use crate::reads::{Reads, WeakReads};
use crate::types::{Event, GroupResource, Revision};

/// Events of history read at once: few enough to hold in memory at the largest object size.
const HISTORY_PAGE: usize = 64;

/// The events of one kind after a revision, in order. Dropping it ends the watch.
#[derive(Debug)]
pub struct EventStream {
    hub: Arc<Hub>,
    // Weak, so that a forgotten watch does not keep the database open.
    reads: WeakReads,
    kind: GroupResource,
    live: mpsc::Receiver<Arc<Event>>,
    page: VecDeque<Event>,
    /// Everything up to here was delivered, or is not an event of this kind.
    position: Revision,
    /// What is at or below it comes from the database.
    history_end: Revision,
    ended: Option<WatchError>,
}

impl EventStream {
    pub(crate) async fn start(
        hub: Arc<Hub>,
        reads: &Reads,
        kind: GroupResource,
        from: Revision,
    ) -> Result<Self, WatchError> {
        let (history_end, live) = hub.subscribe(&kind);
        let weak = reads.downgrade();
        let mut stream =
            Self { hub, reads: weak, kind, live, page: VecDeque::new(), position: from, history_end, ended: None };
        // The first page now, so that a compacted start is refused at once.
        stream.fill().await?;
        Ok(stream)
    }

    /// The next event. After an error the watch is over and every later call gives the same error.
    ///
    /// Cancel safe: an event is lost only with the stream.
    pub async fn next(&mut self) -> Result<Event, WatchError> {
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
        // Events are queued before `published` moves, so an empty queue seen after reading it has
        // given up everything at or below it.
        if self.page.is_empty() && self.position >= self.history_end && self.live.is_empty() && self.ended.is_none() {
            self.position = self.position.max(published);
        }
        self.position
    }

    async fn advance(&mut self) -> Result<Event, WatchError> {
        loop {
            if let Some(event) = self.page.pop_front() {
                return Ok(event);
            }
            if self.position < self.history_end {
                self.fill().await?;
                continue;
            }
            let Some(event) = self.live.recv().await else {
                // The hub drops a sender when its queue is full, or all of them at the end.
                return Err(if self.reads.is_gone() { WatchError::Closed } else { WatchError::Lagged });
            };
            if event.revision > self.position {
                return Ok(Arc::unwrap_or_clone(event));
            }
        }
    }

    /// Reads the next page of history, or moves the position to its end.
    async fn fill(&mut self) -> Result<(), WatchError> {
        let reads = self.reads.upgrade().ok_or(ReadError::Closed)?;
        let events = reads.history(&self.kind, self.position, self.history_end, HISTORY_PAGE).await?;
        if events.len() < HISTORY_PAGE {
            // Nothing of this kind lies between the last of these and the end of the history.
            self.history_end = events.last().map_or(Revision(0), |event| event.revision);
        }
        self.page = events.into();
        Ok(())
    }
}
