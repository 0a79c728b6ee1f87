#![allow(clippy::unwrap_used, reason = "tests")]
use serde_json::json;

use super::*;

fn digest(name: &str) -> String {
    Sha256::of(name.as_bytes()).to_string()
}

/// A stream with two releases: the newer one is wanted, the older one stamped.
fn memory() -> StreamRecord {
    let artifact = |name: &str, state: &str| {
        json!({"architecture": "x86_64", "platform": "metal", "format": "metal", "part": "disk", "sectorBytes": 512,
               "location": "https://a/b", "sha256": digest(name), "signature": "none", "state": state,
               "doneBytes": 7, "bytesPerSecond": 9})
    };
    let stream = json!({
        "metadata": {"name": "s", "generation": 3}, "spec": {"source": {"file": "a"}},
        "status": {"releases": [
            {"release": "2", "seenAt": "2026-01-02T00:00:00Z", "artifacts": [artifact("2", "fetching")]},
            {"release": "1", "seenAt": "2026-01-01T00:00:00Z", "stampedAt": "2026-01-01T00:00:00Z",
             "artifacts": [artifact("1", "verified")]},
        ]},
    });
    let mut memory = StreamRecord::default();
    memory.load(&serde_json::from_value(stream).unwrap());
    memory
}

fn fault(is_permanent: bool) -> DepotFailure {
    DepotFailure { message: "no".into(), is_permanent, ..DepotFailure::default() }
}

#[test]
fn what_an_earlier_process_fetched_is_fetched_by_nobody_and_wanted() {
    let memory = memory();
    let (release, artifact) = memory.next(Duration::ZERO).unwrap();
    assert_eq!((release.as_str(), artifact.state, artifact.bytes_per_second), ("2", ArtifactState::Wanted, None));
    assert_eq!(artifact.done_bytes, 7, "that much is here, as far as is known");
}

#[test]
fn what_fails_is_tried_again_less_and_less_often_and_what_fails_for_good_once_an_hour() {
    let (mut memory, mut now, mut pauses) = (memory(), Duration::ZERO, Vec::new());
    for _ in 0..8 {
        memory.failed("2", &digest("2"), &fault(false), now);
        let at = memory.next_at(now).unwrap();
        assert!(memory.next(at - Duration::from_secs(1)).is_none() && memory.next(at).is_some());
        pauses.push((at - now).as_secs());
        now = at;
    }
    assert_eq!(pauses, [15, 30, 60, 120, 240, 480, 600, 600]);
    assert_eq!(memory.next_at(now), None, "it is due: nothing is waited for");
    memory.failed("2", &digest("2"), &fault(true), now);
    assert_eq!(memory.next_at(now).unwrap() - now, RETRY_PERMANENT);
    let changed = BootImageStream {
        metadata: firesteel_resources::ObjectMeta { generation: 4, ..Default::default() },
        ..BootImageStream::default()
    };
    memory.load(&changed);
    assert!(memory.next(now).is_some(), "whoever changes it wants it tried");
}

fn found() -> DepotArtifact {
    DepotArtifact {
        raw_sha256: None,
        bytes: 9,
        served: "/x".into(),
        signature: SignatureState::None,
        is_seen_here: true,
        is_proven: false,
    }
}

/// Two streams that name one artifact: the second one was degraded as long as the first one's download took.
#[test]
fn what_somebody_else_downloads_is_waited_for_and_nothing_is_wrong() {
    let mut memory = memory();
    let busy = DepotFailure { message: "wait".into(), is_busy: true, ..DepotFailure::default() };
    for tries in 0..4 {
        let now = Duration::from_secs(100 * tries);
        memory.failed("2", &digest("2"), &busy, now);
        let artifact = &memory.status.releases[0].artifacts[0];
        assert_eq!((artifact.state, artifact.message.as_str()), (ArtifactState::Wanted, "wait"));
        assert_eq!(memory.next_at(now), Some(now + RETRY_FIRST), "its end is not far, and costs little to see");
    }
}

/// A host had brought the same image in; the stream's own download ended, and the release lost its stamp.
#[test]
fn what_was_found_meanwhile_stays_whatever_becomes_of_the_download() {
    let mut memory = memory();
    memory.found("2", &digest("2"), &found());
    memory.underway("2", &digest("2"), &RunningDownload { done_bytes: 3, ..RunningDownload::default() });
    memory.put_back("2", &digest("2"));
    for is_permanent in [false, true] {
        memory.failed("2", &digest("2"), &fault(is_permanent), Duration::ZERO);
    }
    assert_eq!(memory.status.releases[0].artifacts[0].state, ArtifactState::Verified);
    assert_eq!(memory.conclude(Timestamp::UNIX_EPOCH), ["2"]);
}

#[test]
fn other_keys_and_digests_are_other_terms() {
    let mut memory = memory();
    let terms = |memory: &StreamRecord| memory.terms("2", &digest("2")).unwrap();
    let unsigned = terms(&memory);
    memory.set_keyring(None, Err(StreamKeysError::Missing { at: "there".into() }));
    assert_eq!(terms(&memory), unsigned, "no key concerns it");
    memory.status.releases[0].artifacts[0].signature_location = "https://a/b.sig".into();
    let without = terms(&memory);
    memory.set_keyring(Some(Sha256::of(b"one")), Ok(None));
    let one = terms(&memory);
    memory.set_keyring(Some(Sha256::of(b"two")), Ok(None));
    let two = terms(&memory);
    memory.status.releases[0].artifacts[0].uncompressed_sha256 = digest("raw");
    let expanded = terms(&memory);
    assert!(unsigned != without && without != one && one != two && two != expanded);
    assert_eq!(terms(&memory), expanded);
    assert_eq!(memory.terms("2", &digest("1")), None);
}

#[test]
fn hosts_of_another_architecture_are_waited_for_by_nobody() {
    let mut memory = memory();
    let (one, two) = ([Architecture::X86_64], [Architecture::X86_64, Architecture::Aarch64]);
    assert!(!memory.is_of_another_fleet(&two), "nothing was read yet");
    let at = ReadingTime { uptime: Duration::ZERO, time: Timestamp::UNIX_EPOCH };
    memory.take(SourceOffer::default(), Sha256::of(b"x"), &one, at);
    assert!(memory.is_of_another_fleet(&two) && !memory.is_of_another_fleet(&one));
    memory.source_failed("gone".into(), Duration::ZERO);
    assert!(!memory.is_of_another_fleet(&two), "then its pauses count");
}

#[test]
fn an_old_release_goes_with_its_file_and_what_is_followed_is_wanted_again() {
    let mut memory = memory();
    memory.missing("1", &digest("1"));
    assert_eq!(memory.status.releases.len(), 1);
    let found = DepotArtifact {
        raw_sha256: None,
        bytes: 9,
        served: "/x".into(),
        signature: SignatureState::None,
        is_seen_here: false,
        is_proven: false,
    };
    memory.found("2", &digest("2"), &found);
    assert_eq!(memory.conclude(Timestamp::UNIX_EPOCH), ["2"]);
    assert!(memory.status.releases[0].artifacts[0].message.contains("a bundle says"));
    memory.missing("2", &digest("2"));
    memory.conclude(Timestamp::UNIX_EPOCH);
    let artifact = &memory.status.releases[0].artifacts[0];
    assert_eq!((artifact.state, artifact.served.as_str(), memory.status.stamped), (ArtifactState::Wanted, "", false));
}
