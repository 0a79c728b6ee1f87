#![allow(clippy::unwrap_used, reason = "tests")]

use futures_util::{StreamExt as _, pin_mut};

use super::{file::FILES_MAX, *};

fn numbered(number: u32) -> Vec<u8> {
    format!("{{\"number\":{number}}}\n").into_bytes()
}

async fn all(audit: &Audit, tail: Option<usize>) -> String {
    let stream = audit.read(tail, false).await.unwrap();
    pin_mut!(stream);
    let mut text = Vec::new();
    while let Some(chunk) = stream.next().await {
        text.extend(chunk.unwrap());
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn the_files_are_bounded_and_the_newest_lines_are_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = LogFiles::open(folder.path(), 100).unwrap();
    for number in 0..1000 {
        files.append(&numbered(number)).unwrap();
    }
    let parts = files.parts().unwrap();
    assert_eq!(parts.len(), FILES_MAX);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), FILES_MAX);
    assert!(parts.iter().all(|(_, length)| *length <= 100));
    let newest = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    assert!(newest.ends_with("{\"number\":999}\n"), "{newest}");
}

#[test]
fn a_file_that_cannot_be_made_pushes_out_no_other_however_often_it_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut files = LogFiles::open(folder.path(), 20).unwrap();
    files.append(&numbered(1)).unwrap();
    // The state after an attempt that failed for want of a descriptor or of room.
    std::fs::rename(path("audit.jsonl"), path("audit.1.jsonl")).unwrap();
    assert_eq!(files.parts().unwrap().len(), 1, "and what is there can be read");
    files.append(&numbered(2)).unwrap();
    let text = |name: &str| std::fs::read(path(name)).unwrap();
    assert_eq!((text("audit.1.jsonl"), text("audit.jsonl")), (numbered(1), numbered(2)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_line_that_was_cut_off_is_taken_away_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    std::fs::write(&path, "{\"number\":1}\n{\"numb").unwrap();
    let mut files = LogFiles::open(folder.path(), FILE_BYTES_MAX).unwrap();
    files.append(&numbered(2)).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"number\":1}\n{\"number\":2}\n");
}

#[tokio::test]
async fn who_follows_sees_what_is_there_and_what_comes_once_each() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(folder.path()).unwrap();
    for number in 0..20_000 {
        while audit.0.queue.try_send(AuditWriterCommand::Line(numbered(number).into())).is_err() {
            tokio::task::yield_now().await;
        }
    }
    let followed = audit.read(Some(3), true).await.unwrap();
    pin_mut!(followed);
    audit.send(numbered(20_000).into());
    let mut seen = Vec::new();
    while !seen.ends_with(b"20000}\n") {
        seen.extend(followed.next().await.unwrap().unwrap());
    }
    let wanted: Vec<u8> = (19_997..=20_000).flat_map(numbered).collect();
    assert_eq!(String::from_utf8(seen).unwrap(), String::from_utf8(wanted).unwrap());
    let whole: Vec<u8> = (0..=20_000).flat_map(numbered).collect();
    assert_eq!(all(&audit, None).await.into_bytes(), whole);
    assert_eq!(all(&audit, Some(1)).await, "{\"number\":20000}\n");
}

#[test]
fn what_cannot_be_written_is_counted_and_the_count_is_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let files = LogFiles::open(folder.path(), FILE_BYTES_MAX).unwrap();
    let (live, mut follower) = broadcast::channel(8);
    let mut writer = AuditWriter { files, live, lost: Arc::default(), lost_ever: Arc::default(), is_failing: false };
    writer.write(numbered(1).into());
    // It is open for reading only: nothing can be written, as on a full disk.
    let only_read = std::fs::File::open(folder.path().join("audit.jsonl")).unwrap();
    let whole = std::mem::replace(writer.files.newest(), only_read);
    for number in 2..5 {
        writer.write(numbered(number).into());
    }
    *writer.files.newest() = whole;
    writer.write(numbered(5).into());
    let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["number"], &lines[2]["number"]), (3, &1.into(), &5.into()), "{text}");
    assert_eq!(lines[1]["lost"], 3);
    assert_eq!(writer.lost_ever.load(Ordering::Relaxed), 3, "and it stays counted");
    assert_eq!(std::iter::from_fn(|| follower.try_recv().ok()).count(), 3, "who follows is told too");
}

#[tokio::test]
async fn one_caller_who_is_refused_on_and_on_pushes_nothing_out() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(folder.path()).unwrap();
    let path = format!("/api/v1/namespaces/{}/configmaps/b", "a".repeat(400));
    let get = AuditedRequest::of(&http::Request::get(path).body(()).unwrap(), "192.0.2.7".parse().unwrap());
    let delete = http::Request::delete("/api/v1/namespaces/a/configmaps/b").body(()).unwrap();
    let delete = AuditedRequest::of(&delete, "192.0.2.7".parse().unwrap());
    let (eve, now) = (AuditCaller { name: "eve", groups: &[] }, Timestamp::UNIX_EPOCH);
    for _ in 0..3000 {
        audit.note(&get, &eve, &AuditOutcome { code: 403, reason: "Forbidden", ..AuditOutcome::default() }, now);
    }
    audit.note(&delete, &eve, &AuditOutcome { code: 200, ..AuditOutcome::default() }, now);
    let text = all(&audit, None).await;
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let refused = lines.iter().filter(|line| line["code"] == 403).count();
    assert!(refused > 3 && text.len() < 16 << 10, "{refused} in {} bytes", text.len());
    assert_eq!(lines[lines.len() - 2]["suppressed"], 3000 - refused);
    assert_eq!(lines[lines.len() - 1]["code"], 200);
}

#[tokio::test]
async fn a_request_is_on_record_once_also_when_its_asker_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(folder.path()).unwrap();
    let request = |method: &str| {
        let request = http::Request::builder().method(method).uri("/api/v1/namespaces/a/configmaps/b").body(());
        AuditedRequest::of(&request.unwrap(), "192.0.2.7".parse().unwrap())
    };
    let (delete, get) = (request("DELETE"), request("GET"));
    let who = AuditCaller { name: "ann", groups: &[] };
    audit.begin(&delete, who).answered(&AuditOutcome { code: 200, ..AuditOutcome::default() });
    drop(audit.begin(&delete, who));
    drop(audit.begin(&get, who));
    let text = all(&audit, None).await;
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<_> = lines.iter().map(|line| line["code"].as_u64().unwrap()).collect();
    assert_eq!(codes, [200, 0], "{text}");
    assert_eq!((&lines[1]["verb"], &lines[1]["reason"]), (&"delete".into(), &"Unanswered".into()));
}
