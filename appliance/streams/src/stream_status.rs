//! What the status of a stream says: conditions, and the line of progress. Pure.

use firesteel_resources::boot_image_stream::{
    ArtifactState, ArtifactStatus, BootImageStreamStatus, DEGRADED, STAMPED, STORED, StreamRelease,
};
use firesteel_resources::{Condition, set_condition};
use jiff::Timestamp;

use crate::{download_speed::DownloadSpeed, releases};

/// Failed artifacts that a message names.
const NAMED_MAX: usize = 4;

/// What is wrong beside the artifacts, each for people, with what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamProblems {
    /// The source cannot be had, or cannot be understood.
    pub(crate) source: Option<String>,
    pub(crate) keyring: Option<String>,
    /// What of that which is wanted the metadata does not have or has wrong.
    pub(crate) offer: Vec<String>,
    /// There is no room.
    pub(crate) room: Option<String>,
    /// Why the source says that nothing is to be used yet.
    pub(crate) held: Option<String>,
    pub(crate) is_paused: bool,
}

/// Such as `44.1 x86_64 disk (4096)`.
pub(crate) fn name_of(release: &str, artifact: &ArtifactStatus) -> String {
    let sectors = if artifact.sector_bytes == 4096 { " (4k)" } else { "" };
    format!("{release} {} {}{sectors}", artifact.architecture, artifact.part)
}

/// Writes what follows from releases and troubles.
pub(crate) fn conclude(status: &mut BootImageStreamStatus, troubles: &StreamProblems, generation: i64, now: Timestamp) {
    let golden = releases::golden(&status.releases).map(|release| release.release.clone());
    let newest = status.releases.iter().find(|release| !release.withdrawn);
    status.stamped = newest.is_some_and(|release| release.stamped_at.is_some());
    status.release = golden.unwrap_or_default();
    status.progress = progress(&status.releases);
    let conditions = [stamped(status, newest, troubles), degraded(status, troubles), stored(troubles)];
    for condition in conditions {
        set_condition(&mut status.conditions, condition.observed(generation), now);
    }
}

fn stamped(status: &BootImageStreamStatus, newest: Option<&StreamRelease>, troubles: &StreamProblems) -> Condition {
    let no = |reason: &str, message: String| Condition::new(STAMPED, false, reason, message);
    let until = match status.release.as_str() {
        "" => "no release may be given to hosts until then".to_owned(),
        release => format!("{release} is given to hosts until then"),
    };
    let Some(newest) = newest else {
        let why = if status.releases.is_empty() { "no release is known yet" } else { "all releases were taken back" };
        let reason = if status.releases.is_empty() { "NothingKnown" } else { "Withdrawn" };
        return no(reason, why.to_owned());
    };
    let name = &newest.release;
    if newest.stamped_at.is_some() {
        let text = format!("{name}: all {} are here", parts(newest.artifacts.len()));
        return Condition::new(STAMPED, true, "Verified", text);
    }
    let missing: Vec<&ArtifactStatus> =
        newest.artifacts.iter().filter(|artifact| !releases::is_verified(artifact)).collect();
    match &troubles.held {
        Some(held) if missing.is_empty() => no("WaitingForStamp", format!("{held}; {until}")),
        _ if troubles.is_paused => {
            no("Paused", format!("{name}: {} not here, and the stream is paused; {until}", parts_are(missing.len())))
        }
        _ if missing.iter().any(|artifact| artifact.state == ArtifactState::Failed) => {
            no("ArtifactFailed", format!("{name}: {} not here, see Degraded; {until}", parts_are(missing.len())))
        }
        Some(_) | None => no("Fetching", format!("{name}: {} not here yet; {until}", parts_are(missing.len()))),
    }
}

fn parts(count: usize) -> String {
    if count == 1 { "1 artifact".to_owned() } else { format!("{count} artifacts") }
}

fn parts_are(count: usize) -> String {
    format!("{} {}", parts(count), if count == 1 { "is" } else { "are" })
}

fn degraded(status: &BootImageStreamStatus, troubles: &StreamProblems) -> Condition {
    let mut failed = Vec::new();
    for (index, release) in status.releases.iter().enumerate() {
        for artifact in &release.artifacts {
            if artifact.state == ArtifactState::Failed && releases::is_followed(&status.releases, index, artifact) {
                failed.push(format!("{}: {}", name_of(&release.release, artifact), artifact.message));
            }
        }
    }
    let more = failed.len().saturating_sub(NAMED_MAX);
    failed.truncate(NAMED_MAX);
    if more > 0 {
        failed.push(format!("and {more} more"));
    }
    let offer = (!troubles.offer.is_empty()).then(|| troubles.offer.join("; "));
    let failed = (!failed.is_empty()).then(|| failed.join("; "));
    // The reason is that of the first, what stops most stands first.
    let all = [
        ("SourceUnusable", troubles.source.clone()),
        ("KeyringUnusable", troubles.keyring.clone()),
        ("StoreFull", troubles.room.clone()),
        ("ArtifactFailed", failed),
        ("MetadataIncomplete", offer),
    ];
    let told: Vec<(&str, String)> = all.into_iter().filter_map(|(reason, text)| Some((reason, text?))).collect();
    let message = told.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("; ");
    match told.first() {
        Some((reason, _)) => Condition::new(DEGRADED, true, reason, message),
        None => Condition::new(DEGRADED, false, "AsExpected", ""),
    }
}

fn stored(troubles: &StreamProblems) -> Condition {
    match &troubles.room {
        Some(why) => Condition::new(STORED, false, "StoreFull", why.clone()),
        None => Condition::new(STORED, true, "HasRoom", ""),
    }
}

/// Such as `44.1 x86_64 disk: 43%, 21 MB/s, 80 s left`.
fn progress(releases: &[StreamRelease]) -> String {
    let fetching = releases.iter().flat_map(|release| release.artifacts.iter().map(move |one| (release, one)));
    let mut fetching = fetching.filter(|(_, artifact)| artifact.state == ArtifactState::Fetching);
    let Some((release, artifact)) = fetching.next() else { return String::new() };
    let name = name_of(&release.release, artifact);
    if !artifact.message.is_empty() {
        return format!("{name}: {}", artifact.message);
    }
    if artifact.done_bytes == 0 && artifact.total_bytes.is_none() {
        return format!("{name}: the server has not answered yet");
    }
    let speed = DownloadSpeed { bytes_per_second: artifact.bytes_per_second, seconds_left: artifact.seconds_left };
    format!("{name}: {}", describe_download(artifact.done_bytes, artifact.total_bytes, speed))
}

fn describe_download(done: u64, total: Option<u64>, speed: DownloadSpeed) -> String {
    let mut words = vec![match total {
        Some(total) => format!("{}%", percent(done, total)),
        None => format!("{} MB", done / 1_000_000),
    }];
    words.extend(speed.bytes_per_second.map(|rate| match rate {
        ..1_000_000 => format!("{} kB/s", rate / 1000),
        _ => format!("{} MB/s", rate / 1_000_000),
    }));
    words.extend(speed.seconds_left.map(|seconds| match seconds {
        ..120 => format!("{seconds} s left"),
        120..7200 => format!("{} min left", seconds.div_ceil(60)),
        _ => format!("{} h left", seconds.div_ceil(3600)),
    }));
    words.join(", ")
}

pub(crate) fn percent(done: u64, total: u64) -> u64 {
    if total == 0 { 100 } else { u64::try_from(u128::from(done) * 100 / u128::from(total)).unwrap_or(100).min(100) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_resources::condition::find_condition;

    use super::*;

    fn release(name: &str, states: &[ArtifactState]) -> StreamRelease {
        let artifact = |state: &ArtifactState| ArtifactStatus {
            architecture: "x86_64".into(),
            part: "disk".into(),
            state: *state,
            message: if *state == ArtifactState::Failed { "its sha256 is another".into() } else { String::new() },
            ..ArtifactStatus::default()
        };
        let artifacts: Vec<ArtifactStatus> = states.iter().map(artifact).collect();
        let is_whole = artifacts.iter().all(releases::is_verified);
        let stamped_at = is_whole.then_some(Timestamp::UNIX_EPOCH);
        StreamRelease { release: name.into(), stamped_at, artifacts, ..StreamRelease::default() }
    }

    fn told(releases: Vec<StreamRelease>, troubles: &StreamProblems) -> BootImageStreamStatus {
        let mut status = BootImageStreamStatus { releases, ..BootImageStreamStatus::default() };
        conclude(&mut status, troubles, 3, Timestamp::UNIX_EPOCH);
        status
    }

    fn reason(status: &BootImageStreamStatus, type_: &str) -> String {
        find_condition(&status.conditions, type_).unwrap().reason.clone()
    }

    use ArtifactState::{Failed, Fetching, Verified, Wanted};

    #[test]
    fn stamped_says_how_far_the_newest_release_is() {
        let none = StreamProblems::default();
        assert_eq!(reason(&told(Vec::new(), &none), STAMPED), "NothingKnown");
        let done = told(vec![release("1", &[Verified])], &none);
        assert_eq!((reason(&done, STAMPED).as_str(), done.release.as_str(), done.stamped), ("Verified", "1", true));
        let next = told(vec![release("2", &[Fetching, Wanted]), release("1", &[Verified])], &none);
        assert_eq!((reason(&next, STAMPED).as_str(), next.release.as_str(), next.stamped), ("Fetching", "1", false));
        assert!(find_condition(&next.conditions, STAMPED).unwrap().message.contains("1 is given to hosts until then"));
        assert_eq!(reason(&told(vec![release("1", &[Failed, Wanted])], &none), STAMPED), "ArtifactFailed");
        let back = told(vec![StreamRelease { withdrawn: true, ..release("1", &[Verified]) }], &none);
        assert_eq!((reason(&back, STAMPED).as_str(), back.release.as_str()), ("Withdrawn", ""));
        let held = StreamProblems { held: Some("not yet".into()), ..StreamProblems::default() };
        let waits = StreamRelease { stamped_at: None, ..release("1", &[Verified]) };
        assert_eq!(reason(&told(vec![waits], &held), STAMPED), "WaitingForStamp");
    }

    #[test]
    fn degraded_joins_what_is_wrong_and_a_full_store_says_so_twice() {
        assert_eq!(reason(&told(Vec::new(), &StreamProblems::default()), DEGRADED), "AsExpected");
        let troubles = StreamProblems { room: Some("9 MiB are missing".into()), ..StreamProblems::default() };
        let status = told(vec![release("1", &[Failed])], &troubles);
        let degraded = find_condition(&status.conditions, DEGRADED).unwrap();
        assert_eq!(degraded.reason, "StoreFull");
        assert!(degraded.message.contains("9 MiB") && degraded.message.contains("1 x86_64 disk: its sha256"));
        assert_eq!((reason(&status, STORED).as_str(), degraded.observed_generation), ("StoreFull", 3));
        let source = StreamProblems { source: Some("it is gone".into()), ..troubles };
        assert_eq!(reason(&told(Vec::new(), &source), DEGRADED), "SourceUnusable");
        // What was superseded or taken back harms nobody.
        let old = told(vec![release("2", &[Verified]), release("1", &[Failed])], &StreamProblems::default());
        assert_eq!(reason(&old, DEGRADED), "AsExpected");
    }

    #[test]
    fn progress_is_one_line() {
        let mut releases = vec![release("44.1", &[Verified, Fetching])];
        let artifact = &mut releases[0].artifacts[1];
        (artifact.done_bytes, artifact.total_bytes, artifact.sector_bytes) = (43, Some(100), 4096);
        (artifact.bytes_per_second, artifact.seconds_left) = (Some(21_500_000), Some(80));
        let status = told(releases.clone(), &StreamProblems::default());
        assert_eq!(status.progress, "44.1 x86_64 disk (4k): 43%, 21 MB/s, 80 s left");
        (releases[0].artifacts[1].done_bytes, releases[0].artifacts[1].total_bytes) = (0, None);
        let status = told(releases.clone(), &StreamProblems::default());
        assert_eq!(status.progress, "44.1 x86_64 disk (4k): the server has not answered yet");
        releases[0].artifacts[1].message = "reading again what is here".into();
        assert_eq!(
            told(releases, &StreamProblems::default()).progress,
            "44.1 x86_64 disk (4k): reading again what is here"
        );
        assert_eq!(told(vec![release("1", &[Verified])], &StreamProblems::default()).progress, "");
    }
}
