//! Fetches what is wanted of a stream, one artifact after the other, and writes how far it is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_facts::shown_url;
use firesteel_images::import::AcquisitionStage;
use firesteel_resources::boot_image_stream::ArtifactStatus;
use firesteel_runtime::lock;

use super::Follower;
use crate::{Tell, depot::DepotFailure, download_speed, releases, stream_record::RunningDownload, stream_status};

/// How often a download under way is looked at.
const TICK: Duration = Duration::from_secs(1);
/// The time between looks until it is known how much room a fetch takes: a fast one would end before the first tick.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// Room is made for so much more of what has no end that is known. All objects are read each time, and the smallest
/// quotas have some times as much.
const ROOM_AHEAD: u64 = 128 << 20;
/// Progress is written this often at most: each write goes to the disk and to all watches.
const TOLD_EVERY: Duration = Duration::from_secs(3);

/// Why a fetch ended without a result.
enum FetchInterruption {
    /// It is not wanted any more.
    Unwanted,
    NoRoom(String),
}
impl Follower {
    pub(crate) async fn fetch_on(&self) {
        loop {
            let next = self.memory().next(self.uptime());
            let Some((release, artifact)) = next else {
                let until = self.memory().next_at(self.uptime()).unwrap_or(Duration::MAX);
                self.wait(until, &self.fetchable).await;
                continue;
            };
            self.fetch(&release, &artifact).await;
            if let Err(status) = self.write().await {
                tracing::warn!(stream = self.name, error = %status.message, "could not write the progress of a download");
            }
        }
    }

    async fn fetch(&self, release: &str, artifact: &ArtifactStatus) {
        let sha256 = &artifact.sha256;
        let (wanted, terms) = {
            let memory = self.memory();
            (memory.wanted(release, artifact), memory.terms(release, sha256))
        };
        let Some(wanted) = wanted else {
            let message = format!("{sha256} is no sha256: remove the status of this stream");
            let fault = DepotFailure { message, is_permanent: true, ..DepotFailure::default() };
            let now = self.uptime();
            self.memory().failed(release, sha256, &fault, now);
            return;
        };
        // What each attempt brings before it is known how long it is going to be would fill a store that is full.
        if self.streams.inner.config.quota_bytes.is_some() {
            match self.streams.make_room(0).await {
                Ok(None) => {}
                Ok(Some(shortfall)) => return self.has_no_room(release, sha256, shortfall),
                Err(error) => {
                    tracing::warn!(%error, "could not make room in the image store; downloads go on until the disk is full")
                }
            }
        }
        let url = shown_url(&wanted.url);
        tracing::info!(stream = self.name, release, url, "the fetch of an artifact begins");
        let stage: Arc<Mutex<Option<AcquisitionStage>>> = Arc::default();
        let heard = Arc::clone(&stage);
        let tell: Tell = Arc::new(move |stage| *lock(&heard) = Some(stage));
        let depot = Arc::clone(&self.streams.inner.config.depot);
        let ended = tokio::select! {
            biased;
            ended = depot.fetch(&wanted, tell) => Ok(ended),
            broken = self.watch(release, artifact, &stage) => Err(broken),
        };
        match ended {
            Ok(Ok(found)) => {
                let mut memory = self.memory();
                memory.troubles.room = None;
                if memory.terms(release, sha256) == terms {
                    tracing::info!(stream = self.name, release, url, "fetched and verified");
                    memory.found(release, sha256, &found);
                } else {
                    tracing::info!(
                        stream = self.name,
                        release,
                        url,
                        "fetched, and to be judged again: what it is judged by has changed"
                    );
                    memory.put_back(release, sha256);
                }
            }
            Ok(Err(fault)) => self.failed(release, artifact, fault).await,
            Err(FetchInterruption::Unwanted) => self.memory().put_back(release, sha256),
            Err(FetchInterruption::NoRoom(message)) => self.has_no_room(release, sha256, message),
        }
    }

    fn has_no_room(&self, release: &str, sha256: &str, message: String) {
        tracing::warn!(stream = self.name, release, %message, "no room");
        let fault = DepotFailure { message, is_full: true, ..DepotFailure::default() };
        let now = self.uptime();
        self.memory().failed(release, sha256, &fault, now);
    }

    async fn failed(&self, release: &str, artifact: &ArtifactStatus, fault: DepotFailure) {
        if fault.is_busy {
            tracing::debug!(stream = self.name, release, error = %fault.message, "an artifact waits for a free place");
        } else {
            tracing::warn!(stream = self.name, release, error = %fault.message, "could not fetch an artifact; it is tried again");
        }
        let mut fault = fault;
        if fault.is_full {
            // The next attempt has what this makes.
            let coming = artifact.total_bytes.unwrap_or(0).saturating_mul(2);
            match self.streams.make_room(coming).await {
                Ok(Some(shortfall)) => fault.message = shortfall,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "could not make room in the image store; downloads go on until the disk is full")
                }
            }
        }
        if fault.is_permanent {
            self.record_stream_event(
                true,
                "ArtifactRefused",
                format!("{}: {}", stream_status::name_of(release, artifact), fault.message),
            );
        }
        let now = self.uptime();
        self.memory().failed(release, &artifact.sha256, &fault, now);
    }

    /// Writes how far a download is, until it is not to go on.
    async fn watch(
        &self,
        release: &str,
        artifact: &ArtifactStatus,
        stage: &Mutex<Option<AcquisitionStage>>,
    ) -> FetchInterruption {
        let mut rate = download_speed::Rate::default();
        // So far there is room.
        let mut room_until: Option<u64> = None;
        let (mut told_at, mut total) = (None, artifact.total_bytes);
        let tells_from = self.uptime() + TICK;
        loop {
            let is_quick = matches!(*lock(stage), None | Some(AcquisitionStage::Downloading { .. }));
            let is_early = is_quick && room_until.is_none();
            self.runtime().sleep_until(self.uptime() + if is_early { FIRST_LOOK } else { TICK }).await;
            if !self.memory().is_wanted(release, artifact) {
                return FetchInterruption::Unwanted;
            }
            let Some(now_at) = *lock(stage) else { continue };
            let underway = underway(now_at, &mut rate, self.uptime(), &mut total);
            if let Some((coming, until)) = coming(now_at, &artifact.part, room_until) {
                match self.streams.make_room(coming).await {
                    Ok(None) => {
                        self.memory().troubles.room = None;
                    }
                    Ok(Some(shortfall)) => return FetchInterruption::NoRoom(shortfall),
                    // Nothing is known of the room: the disk says when it is full.
                    Err(error) => {
                        tracing::warn!(%error, "could not make room in the image store; downloads go on until the disk is full")
                    }
                }
                room_until = Some(until);
            }
            let is_due = self.uptime() >= told_at.map_or(tells_from, |at: Duration| at + TOLD_EVERY);
            self.memory().underway(release, &artifact.sha256, &underway);
            if is_due {
                told_at = Some(self.uptime());
                if let Err(status) = self.write().await {
                    tracing::debug!(stream = self.name, error = %status.message, "could not write the progress of a download");
                }
            }
        }
    }
}

/// What is about to come in of a download, and up to which of its bytes that is said; `None` where nothing is known, or
/// there is room.
fn coming(stage: AcquisitionStage, part: &str, room_until: Option<u64>) -> Option<(u64, u64)> {
    let AcquisitionStage::Downloading { done_bytes, total_bytes } = stage else { return None };
    if room_until.is_some_and(|until| done_bytes < until) {
        return None;
    }
    match total_bytes {
        Some(total) => {
            // What is downloaded stays until it is packed beside it; a file is moved.
            let packed = if releases::role(part).is_some() { 0 } else { total };
            Some((total.saturating_sub(done_bytes).saturating_add(packed), u64::MAX))
        }
        // The server has not answered yet.
        None if done_bytes == 0 => None,
        None => Some((ROOM_AHEAD, done_bytes.saturating_add(ROOM_AHEAD))),
    }
}

/// Describes a stage of a download. The total stays known while the bytes are packed.
fn underway(
    stage: AcquisitionStage,
    rate: &mut download_speed::Rate,
    now: Duration,
    total: &mut Option<u64>,
) -> RunningDownload {
    let plain = |done_bytes, total_bytes, message| RunningDownload {
        done_bytes,
        total_bytes,
        message,
        ..RunningDownload::default()
    };
    match stage {
        AcquisitionStage::Waiting { ahead, done_bytes } => {
            plain(done_bytes, *total, format!("waiting: {ahead} other images come before it"))
        }
        AcquisitionStage::Rereading { done_bytes, total_bytes: kept } => plain(
            kept,
            *total,
            format!("reading again what was downloaded before: {}%", stream_status::percent(done_bytes, kept)),
        ),
        AcquisitionStage::Downloading { done_bytes, total_bytes } => {
            *total = total_bytes.or(*total);
            rate.observe(now, done_bytes);
            let speed = rate.speed(done_bytes, total_bytes);
            RunningDownload { done_bytes, total_bytes, speed, message: String::new() }
        }
        AcquisitionStage::Importing { source_bytes, .. } => {
            let done = total.unwrap_or(source_bytes);
            let percent = stream_status::percent(source_bytes, done);
            plain(done, *total, format!("downloaded; checked and packed for disks: {percent}%"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a length nothing was asked for, and a download went on beyond the quota.
    #[test]
    fn room_is_made_for_what_is_known_and_piece_by_piece_for_what_is_not() {
        let stage = |done_bytes, total_bytes| AcquisitionStage::Downloading { done_bytes, total_bytes };
        assert_eq!(coming(stage(0, None), "disk", None), None);
        assert_eq!(coming(stage(10, Some(100)), "disk", None), Some((190, u64::MAX)), "it is packed beside itself");
        assert_eq!(coming(stage(10, Some(100)), "iso", None), Some((90, u64::MAX)));
        assert_eq!(coming(stage(20, Some(100)), "disk", Some(u64::MAX)), None, "it is made once");
        let first = coming(stage(10, None), "disk", None);
        assert_eq!(first, Some((ROOM_AHEAD, 10 + ROOM_AHEAD)));
        let until = first.map(|(_, until)| until);
        assert_eq!(coming(stage(ROOM_AHEAD, None), "disk", until), None);
        assert_eq!(coming(stage(10 + ROOM_AHEAD, None), "disk", until), Some((ROOM_AHEAD, 10 + 2 * ROOM_AHEAD)));
        assert_eq!(coming(AcquisitionStage::Rereading { done_bytes: 1, total_bytes: 2 }, "disk", None), None);
    }
}
