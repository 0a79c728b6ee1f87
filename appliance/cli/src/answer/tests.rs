#![allow(clippy::unwrap_used, reason = "tests")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

#[test]
fn a_refusal_is_an_error_with_the_words_of_the_appliance() {
    let answer =
        RequestAnswer { outcome: RequestOutcome::Refused, message: "it has no BMC".into(), ..RequestAnswer::default() };
    let error = print_answer("h1", "reboot", &answer).map_err(|error| error.to_string());
    assert_eq!(error, Err("could not reboot h1: the appliance refused: it has no BMC".to_owned()));
}

#[test]
fn a_patch_whose_answer_is_lost_is_sent_once() {
    let value = "2026-11-28T10:00:00Z".to_owned();
    let request = HostRequest { host: "h1", verb: "retry", key: "a", value: value.clone() };
    let set = |newest_answer: u64| Some(AskingStep::Set { newest_answer, revision: "7".to_owned() });
    let mut seen = ObservedHost::default();
    seen.host.metadata.resource_version = "7".into();
    assert_eq!(next_step(&seen, &request, None), set(0));
    assert_eq!(next_step(&seen, &request, Some(0)), set(0), "the patch did not arrive");
    seen.host.metadata.annotations.insert("a".into(), value.clone());
    assert_eq!(next_step(&seen, &request, None), None, "an earlier request of another command");
    assert_eq!(next_step(&seen, &request, Some(0)), Some(AskingStep::AlreadySet { newest_answer: 0 }));
    seen.host.metadata.annotations.insert("a".into(), "2026-11-28T09:00:00Z".into());
    assert_eq!(next_step(&seen, &request, Some(0)), None, "another request came between");
    seen.host.metadata.annotations.clear();
    let answer = RequestAnswer::new("a", &value, RequestOutcome::Done, "x", jiff::Timestamp::UNIX_EPOCH);
    seen.journal.status.answers.record(answer);
    assert_eq!(next_step(&seen, &request, Some(0)), Some(AskingStep::AlreadySet { newest_answer: 0 }));
    assert_eq!(next_step(&seen, &request, Some(1)), set(1), "that answer is of the same request before");
}

#[test]
fn a_request_that_may_be_there_is_not_called_unasked() {
    let request = HostRequest { host: "h1", verb: "retry", key: "a", value: "now".to_owned() };
    let late = || WaitError::TimedOut { limit: "5m".to_owned(), why: String::new() };
    assert_eq!(
        unsent(&request, None, late()).to_string(),
        "could not retry h1: an earlier request of this sort was not taken within 5m; nothing was asked, and the \
         annotation a is the earlier one: remove it to take that back"
    );
    assert_eq!(
        unsent(&request, Some(3), late()).to_string(),
        "could not retry h1: the connection was cut while the request was sent, and the appliance did not say within \
         5m whether it took it; the request may be there: `firesteel describe host h1` shows it and its answer"
    );
}

/// Serves one host whose first patch is taken and not answered.
async fn serve_a_lost_answer(listener: TcpListener, patches: Arc<AtomicU32>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        let answer = match head.split(' ').next() {
            Some("PATCH") => {
                patches.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            _ if head.contains("hostjournals") => http_answer("404 Not Found", &json!({"code": 404})),
            _ if patches.load(Ordering::SeqCst) == 0 => http_answer("200 OK", &host(&json!({}))),
            _ => http_answer("200 OK", &host(&json!({"a": "now"}))),
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut bytes = [0; 4096];
        let length = stream.read(&mut bytes).await.unwrap();
        assert!(length > 0, "the request ends in its head");
        head.extend_from_slice(bytes.get(..length).unwrap());
    }
    String::from_utf8(head).unwrap()
}

fn http_answer(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn host(annotations: &Value) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "spec": {},
        "metadata": {"name": "h1", "uid": "u", "resourceVersion": "7", "annotations": annotations},
    })
}

#[tokio::test]
async fn the_sender_says_that_an_answer_was_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = ApiClient::without_tls(&format!("http://{}", listener.local_addr().unwrap()));
    let patches = Arc::new(AtomicU32::new(0));
    let server = tokio::spawn(serve_a_lost_answer(listener, patches.clone()));
    let request = HostRequest { host: "h1", verb: "retry", key: "a", value: "now".to_owned() };
    let (mut wait, _) = HostWait::open(&client, "h1", None).await.unwrap();
    let mut unanswered_patch = None;
    let sent = send(&client, &mut wait, &request, &mut unanswered_patch).await.unwrap();
    assert_eq!((sent, unanswered_patch, patches.load(Ordering::SeqCst)), (0, Some(0), 1));
    server.abort();
}
