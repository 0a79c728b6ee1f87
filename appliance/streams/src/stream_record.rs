//! What a follower remembers of its stream while the process lives. Pure; what has to outlive it is in the status.

use std::{collections::HashMap, sync::Arc, time::Duration};

use firesteel_facts::{Architecture, Sha256};
use firesteel_images::import::{ArtifactRequest, SignatureState};
use firesteel_images::openpgp::Keyring;
use firesteel_resources::BootImageStream;
use firesteel_resources::boot_image_stream::{
    ArtifactState, ArtifactStatus, BootImageStreamSpec, BootImageStreamStatus, SignatureStatus,
};
use jiff::Timestamp;

use crate::depot::{DepotArtifact, DepotFailure};
use crate::stream_status::{self, StreamProblems};
use crate::{download_speed::DownloadSpeed, offer::SourceOffer, releases};

/// The pause after a first failure; it doubles each time.
const RETRY_FIRST: Duration = Duration::from_secs(15);
/// The longest pause: what was repaired is seen within so long.
const RETRY_MAX: Duration = Duration::from_secs(600);
/// What fails for good is fetched in full each time: a server may get the right file, but each look costs a download.
/// New metadata and a changed stream are tried at once.
const RETRY_PERMANENT: Duration = Duration::from_secs(3600);

/// Why the keys that a spec names are of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StreamKeysError {
    #[error("{at} with the keys is not there: make it, or correct spec.keyring")]
    Missing { at: String },
    #[error("{at} with the keys cannot be used: {error}")]
    Unusable { at: String, error: String },
}

/// When something is tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StreamRetry {
    failed: u32,
    not_before: Duration,
}

impl StreamRetry {
    fn fail(&mut self, now: Duration, at_least: Duration) {
        let pause = RETRY_FIRST.saturating_mul(2_u32.saturating_pow(self.failed)).min(RETRY_MAX).max(at_least);
        self.failed = self.failed.saturating_add(1);
        self.not_before = now + pause;
    }

    /// Nothing failed: it is looked at again soon.
    fn wait(&mut self, now: Duration) {
        self.not_before = now + RETRY_FIRST;
    }
}

/// What decides, beside its bytes, whether an artifact is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArtifactChecks {
    uncompressed_sha256: String,
    signature_location: String,
    /// The digest of the keys that may have signed it, and whether they cannot be used.
    keyring: Option<(Option<Sha256>, bool)>,
}

/// What a status says of a download under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunningDownload {
    pub(crate) done_bytes: u64,
    pub(crate) total_bytes: Option<u64>,
    pub(crate) speed: DownloadSpeed,
    pub(crate) message: String,
}

#[derive(Debug, Default)]
pub(crate) struct StreamRecord {
    pub(crate) spec: BootImageStreamSpec,
    pub(crate) generation: i64,
    pub(crate) status: BootImageStreamStatus,
    pub(crate) troubles: StreamProblems,
    pub(crate) keyring: Option<Arc<Keyring>>,
    /// The digest of the keyring's bytes.
    keyring_sha256: Option<Sha256>,
    is_loaded: bool,
    /// What was read last, of which spec, and for which architectures.
    read: Option<(Sha256, i64, Vec<Architecture>)>,
    asked_at: Option<Duration>,
    source_tries: StreamRetry,
    looked_at: Option<Duration>,
    tries: HashMap<String, StreamRetry>,
}

/// When a source was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadingTime {
    pub(crate) uptime: Duration,
    pub(crate) time: Timestamp,
}

/// What became of a stream by a reading of its source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceChange {
    pub(crate) withdrawn: Vec<String>,
}

impl StreamRecord {
    /// Takes the object in. What an earlier process was fetching is fetched no more.
    pub(crate) fn load(&mut self, stream: &BootImageStream) {
        if !self.is_loaded {
            self.status = stream.status.clone();
            for artifact in self.status.releases.iter_mut().flat_map(|release| &mut release.artifacts) {
                (artifact.bytes_per_second, artifact.seconds_left) = (None, None);
                if artifact.state == ArtifactState::Fetching {
                    artifact.state = ArtifactState::Wanted;
                    artifact.message.clear();
                }
            }
            self.is_loaded = true;
        }
        if self.generation != stream.metadata.generation {
            // A changed spec is tried at once.
            self.generation = stream.metadata.generation;
            self.spec = stream.spec.clone();
            self.asked_at = None;
            self.source_tries = StreamRetry::default();
            self.tries.clear();
            self.looked_at = None;
        }
        self.troubles.is_paused = self.spec.paused;
        self.status.observed_generation = self.generation;
    }

    /// Takes the keys in. With other keys all that was fetched is judged again.
    pub(crate) fn set_keyring(
        &mut self,
        sha256: Option<Sha256>,
        keyring: Result<Option<Arc<Keyring>>, StreamKeysError>,
    ) {
        if self.keyring_sha256 != sha256 {
            self.keyring_sha256 = sha256;
            self.tries.clear();
            self.looked_at = None;
        }
        match keyring {
            Ok(keyring) => (self.keyring, self.troubles.keyring) = (keyring, None),
            Err(error) => (self.keyring, self.troubles.keyring) = (None, Some(error.to_string())),
        }
    }

    pub(crate) fn refresh_every(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.spec.refresh_seconds()).unwrap_or(0))
    }

    /// Returns the uptime at which the source is asked next.
    pub(crate) fn ask_at(&self) -> Duration {
        match self.asked_at {
            None => self.source_tries.not_before,
            Some(at) if self.troubles.source.is_some() => self.source_tries.not_before.min(at + self.refresh_every()),
            Some(at) => at + self.refresh_every(),
        }
    }

    pub(crate) fn source_failed(&mut self, error: String, now: Duration) {
        self.troubles.source = Some(error);
        self.asked_at = Some(now);
        self.source_tries.fail(now, Duration::ZERO);
    }

    /// Whether a document brings nothing that is not known.
    pub(crate) fn is_known(&self, document: Sha256, fleet: &[Architecture]) -> bool {
        self.read
            .as_ref()
            .is_some_and(|(known, generation, of)| *known == document && *generation == self.generation && of == fleet)
    }

    /// Takes in what the source offers.
    pub(crate) fn take(
        &mut self,
        offer: SourceOffer,
        document: Sha256,
        fleet: &[Architecture],
        at: ReadingTime,
    ) -> SourceChange {
        let before = std::mem::take(&mut self.status.releases);
        self.status.releases = releases::merge(&before, &offer, &self.spec, at.time);
        let was_good = |name: &str| before.iter().any(|one| one.release == name && !one.withdrawn);
        let withdrawn = self.status.releases.iter().filter(|release| release.withdrawn && was_good(&release.release));
        let news = SourceChange { withdrawn: withdrawn.map(|release| release.release.clone()).collect() };
        self.status.stream = offer.stream;
        self.status.last_modified = offer.last_modified;
        self.troubles.offer = offer.faults;
        self.troubles.held = offer.held;
        self.read = Some((document, self.generation, fleet.to_vec()));
        self.checked(at);
        // What is new may be here already.
        self.looked_at = None;
        news
    }

    pub(crate) fn checked(&mut self, at: ReadingTime) {
        self.status.checked_at = Some(at.time);
        self.troubles.source = None;
        self.asked_at = Some(at.uptime);
        self.source_tries = StreamRetry::default();
    }

    /// Whether the source was read for machines of other architectures than there are now: it is asked again before its
    /// time, for a new host waits for its image.
    pub(crate) fn is_of_another_fleet(&self, fleet: &[Architecture]) -> bool {
        self.spec.architectures.is_empty()
            && self.troubles.source.is_none()
            && self.read.as_ref().is_some_and(|(_, _, of)| of != fleet)
    }

    /// Whether it is time to see what the store holds.
    pub(crate) fn is_store_check_due(&self, now: Duration, every: Duration) -> bool {
        self.looked_at.is_none_or(|at| now >= at + every)
    }

    pub(crate) fn store_checked(&mut self, now: Duration) {
        self.looked_at = Some(now);
    }

    /// All artifacts with their releases.
    pub(crate) fn artifacts(&self) -> Vec<(String, ArtifactStatus)> {
        let releases = self.status.releases.iter();
        releases.flat_map(|one| one.artifacts.iter().map(|artifact| (one.release.clone(), artifact.clone()))).collect()
    }

    /// What is fetched next, if its time has come.
    pub(crate) fn next(&self, now: Duration) -> Option<(String, ArtifactStatus)> {
        if self.spec.paused || !self.is_loaded {
            return None;
        }
        let is_due =
            |artifact: &ArtifactStatus| self.tries.get(&artifact.sha256).is_none_or(|tries| tries.not_before <= now);
        releases::wanted(&self.status.releases).into_iter().find(|(_, artifact)| {
            let is_signed = !artifact.signature_location.is_empty();
            is_due(artifact) && !(is_signed && self.troubles.keyring.is_some())
        })
    }

    pub(crate) fn is_wanted(&self, release: &str, artifact: &ArtifactStatus) -> bool {
        let is_it = |(name, one): &(String, ArtifactStatus)| name == release && one.sha256 == artifact.sha256;
        !self.spec.paused && releases::wanted(&self.status.releases).iter().any(is_it)
    }

    /// Returns when something that failed is tried again. What is due already waits for something else.
    pub(crate) fn next_at(&self, now: Duration) -> Option<Duration> {
        let wanted = releases::wanted(&self.status.releases);
        let times = wanted.iter().filter_map(|(_, artifact)| Some(self.tries.get(&artifact.sha256)?.not_before));
        times.filter(|at| *at > now).min()
    }

    fn find(&self, release: &str, sha256: &str) -> Option<&ArtifactStatus> {
        let releases = self.status.releases.iter().filter(|one| one.release == release);
        releases.flat_map(|one| &one.artifacts).find(|artifact| artifact.sha256 == sha256)
    }

    /// Says whether it came in the meantime by other means, and was found in the store.
    fn is_here(&self, release: &str, sha256: &str) -> bool {
        self.find(release, sha256).is_some_and(releases::is_verified)
    }

    /// Returns what an artifact is judged by now: other keys or digests may come while it is downloaded.
    pub(crate) fn terms(&self, release: &str, sha256: &str) -> Option<ArtifactChecks> {
        let artifact = self.find(release, sha256)?;
        let is_signed = !artifact.signature_location.is_empty();
        Some(ArtifactChecks {
            uncompressed_sha256: artifact.uncompressed_sha256.clone(),
            signature_location: artifact.signature_location.clone(),
            keyring: is_signed.then_some((self.keyring_sha256, self.troubles.keyring.is_some())),
        })
    }

    fn update(&mut self, release: &str, sha256: &str, change: impl Fn(&mut ArtifactStatus)) {
        let releases = self.status.releases.iter_mut().filter(|one| one.release == release);
        let artifacts = releases.flat_map(|one| &mut one.artifacts);
        artifacts.filter(|artifact| artifact.sha256 == sha256).for_each(change);
    }

    pub(crate) fn underway(&mut self, release: &str, sha256: &str, told: &RunningDownload) {
        if self.is_here(release, sha256) {
            return;
        }
        self.update(release, sha256, |artifact| {
            artifact.state = ArtifactState::Fetching;
            artifact.done_bytes = told.done_bytes;
            artifact.total_bytes = told.total_bytes.or(artifact.total_bytes);
            (artifact.bytes_per_second, artifact.seconds_left) = (told.speed.bytes_per_second, told.speed.seconds_left);
            artifact.message.clone_from(&told.message);
        });
    }

    /// It is not fetched any more, and nothing is wrong with it.
    pub(crate) fn put_back(&mut self, release: &str, sha256: &str) {
        if self.is_here(release, sha256) {
            return;
        }
        self.update(release, sha256, |artifact| {
            artifact.state = ArtifactState::Wanted;
            (artifact.bytes_per_second, artifact.seconds_left) = (None, None);
            artifact.message.clear();
        });
    }

    pub(crate) fn found(&mut self, release: &str, sha256: &str, found: &DepotArtifact) {
        self.tries.remove(sha256);
        self.update(release, sha256, |artifact| {
            artifact.signature = match &found.signature {
                SignatureState::None => SignatureStatus::None,
                SignatureState::Unverified => SignatureStatus::Unverified,
                SignatureState::Good { .. } => SignatureStatus::Good,
            };
            (artifact.bytes_per_second, artifact.seconds_left) = (None, None);
            artifact.state = ArtifactState::Verified;
            artifact.raw_sha256 = found.raw_sha256.map(|digest| digest.to_string()).unwrap_or_default();
            (artifact.done_bytes, artifact.total_bytes) = (found.bytes, Some(found.bytes));
            artifact.served.clone_from(&found.served);
            artifact.message = match (found.is_seen_here, found.is_proven) {
                (false, false) => "a bundle says that this image is the artifact".to_owned(),
                (false, true) => "it came by a bundle, and has the stream's digest of the expanded bytes".to_owned(),
                (true, _) => String::new(),
            };
        });
    }

    /// What is not in the store: an old release goes with it, what is followed is wanted again.
    pub(crate) fn missing(&mut self, release: &str, sha256: &str) {
        let all = &self.status.releases;
        let Some(index) = all.iter().position(|one| one.release == release) else { return };
        let is_old = |artifact: &ArtifactStatus| releases::is_superseded(all, index, artifact);
        let is_gone = all[index].artifacts.iter().any(|one| one.sha256 == sha256 && is_old(one));
        if is_gone {
            self.status.releases[index].artifacts.retain(|one| one.sha256 != sha256);
            // What is left of an old release is no release.
            self.status.releases.retain(|one| !one.artifacts.is_empty());
            return;
        }
        self.update(release, sha256, |artifact| {
            if releases::is_verified(artifact) {
                artifact.state = ArtifactState::Wanted;
                (artifact.done_bytes, artifact.served) = (0, String::new());
            }
        });
    }

    pub(crate) fn failed(&mut self, release: &str, sha256: &str, fault: &DepotFailure, now: Duration) {
        if self.is_here(release, sha256) {
            return;
        }
        if fault.is_busy {
            self.tries.entry(sha256.to_owned()).or_default().wait(now);
            self.put_back(release, sha256);
            self.update(release, sha256, |artifact| artifact.message.clone_from(&fault.message));
            return;
        }
        let at_least = if fault.is_permanent { RETRY_PERMANENT } else { Duration::ZERO };
        self.tries.entry(sha256.to_owned()).or_default().fail(now, at_least);
        if fault.is_full {
            self.troubles.room = Some(fault.message.clone());
            self.put_back(release, sha256);
            return;
        }
        self.update(release, sha256, |artifact| {
            artifact.state = ArtifactState::Failed;
            (artifact.bytes_per_second, artifact.seconds_left) = (None, None);
            artifact.message.clone_from(&fault.message);
            if fault.is_signature {
                artifact.signature = SignatureStatus::Bad;
            }
        });
    }

    /// Draws the conclusions; returns what was stamped now. A list may hold its images back, so it is read first.
    pub(crate) fn conclude(&mut self, at: Timestamp) -> Vec<String> {
        if self.spec.source.config_map.is_some() && self.read.is_none() {
            self.troubles.held = Some("the list was not read since the appliance started".to_owned());
        }
        let stamped = releases::stamp(&mut self.status.releases, self.troubles.held.is_some(), at);
        if releases::wanted(&self.status.releases).is_empty() {
            self.troubles.room = None;
        }
        stream_status::conclude(&mut self.status, &self.troubles, self.generation, at);
        stamped
    }

    /// Returns what is asked of the depot for an artifact; `None` where its digest is none, which only a status that
    /// was edited by hand has.
    pub(crate) fn wanted(&self, release: &str, artifact: &ArtifactStatus) -> Option<ArtifactRequest> {
        Some(ArtifactRequest {
            url: artifact.location.clone(),
            sha256: artifact.sha256.parse().ok()?,
            uncompressed_sha256: artifact.uncompressed_sha256.parse().ok(),
            signature_url: Some(artifact.signature_location.clone()).filter(|location| !location.is_empty()),
            keyring: self.keyring.clone(),
            role: releases::role(&artifact.part),
            release: release.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
