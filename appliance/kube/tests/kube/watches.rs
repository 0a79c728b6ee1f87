//! Watches: what is shared, who is cut off, and when something is said without a change.

use std::time::Duration;

use bytes::Bytes;
use firesteel_kube::Timing;
use firesteel_store::WATCH_EVENTS_MAX;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::http::{line, told, watch, watch_at};
use crate::toy::{HOSTS, Server, object, run};

async fn describe(server: &Server, name: &str, text: &str) -> Value {
    server.merge(&format!("{HOSTS}/{name}"), &json!({"spec": {"description": text}})).await.json()
}

async fn bytes(body: &mut firesteel_kube::Body) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

const STREAMING: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

#[test]
fn a_quiet_watch_is_told_now_and_then_how_far_it_is() {
    run(async {
        assert_eq!(Timing::default().bookmarks, Duration::from_secs(60));
        let often = Timing { bookmarks: Duration::from_millis(5), ..Timing::default() };
        let server = Server::in_memory().await.timed(often);
        let mut asked = watch(&server, "allowWatchBookmarks=true").await;
        let mut silent = watch(&server, "timeoutSeconds=1").await;
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        for round in 0..2 {
            // Another kind's change: the client may resume after it all the same.
            namespace["metadata"]["name"] = json!(format!("n{round}"));
            server.post("/api/v1/namespaces", &namespace).await;
            let current = server.api.core().store().current().to_string();
            let metadata = json!({"resourceVersion": current});
            let kind = json!({"kind": "BareMetalHost", "apiVersion": "metal3.io/v1alpha1", "metadata": metadata});
            let wanted = json!({"type": "BOOKMARK", "object": kind});
            // An event from before the change may have been on its way.
            while line(&mut asked).await.unwrap() != wanted {}
        }
        assert_eq!(line(&mut silent).await, None, "who asked for none gets none, and the end in time");
    });
}

#[test]
fn a_watch_lasts_no_longer_than_the_server_says() {
    run(async {
        let short = Timing { watch: Duration::from_millis(10), ..Timing::default() };
        let server = Server::in_memory().await.timed(short);
        for query in ["", "timeoutSeconds=100000"] {
            assert_eq!(line(&mut watch(&server, query).await).await, None, "{query}");
        }
        assert_eq!(Timing::default().watch, Duration::from_secs(3600));
    });
}

/// More objects than a page has, changed while the client takes them.
#[test]
fn a_streaming_list_ends_with_its_bookmark_and_misses_nothing() {
    run(async {
        let server = Server::in_memory().await;
        for number in 0..1100 {
            server.post(HOSTS, &object(&format!("h{number:04}"))).await;
        }
        let at = server.api.core().store().current();
        let mut body = watch(&server, STREAMING).await;
        let mut bare = watch(&server, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan").await;
        let first = line(&mut body).await.unwrap();
        describe(&server, "h0000", "x").await;
        server.send("DELETE", &format!("{HOSTS}/h1099"), &[], "").await;
        assert_eq!(told(&first), ("ADDED", "h0000"));
        for number in 1..1100 {
            assert_eq!(
                told(&line(&mut body).await.unwrap()),
                ("ADDED", format!("h{number:04}").as_str()),
                "as of {at}"
            );
        }
        let end = line(&mut body).await.unwrap();
        assert_eq!(
            end["object"]["metadata"],
            json!({"resourceVersion": at.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}})
        );
        for body in [&mut body, &mut bare] {
            let mut event = line(body).await.unwrap();
            while event["type"] == "ADDED" {
                event = line(body).await.unwrap();
            }
            assert_eq!(told(&event), ("MODIFIED", "h0000"), "no bookmark for who asked for none");
            assert_eq!(told(&line(body).await.unwrap()), ("DELETED", "h1099"));
        }
    });
}

#[test]
fn a_watch_from_the_future_is_silent_until_then() {
    run(async {
        let server = Server::in_memory().await;
        let now = server.api.core().store().current().0;
        let mut body = watch(&server, &format!("resourceVersion={}", now + 2)).await;
        for name in ["a", "b", "c"] {
            server.post(HOSTS, &object(name)).await;
        }
        assert_eq!(told(&line(&mut body).await.unwrap()), ("ADDED", "c"));
    });
}

#[test]
fn all_watchers_are_sent_the_same_bytes() {
    run(async {
        let server = Server::new().await;
        server.post(HOSTS, &object("a")).await;
        let from = server.api.core().store().current();
        let mut watchers = Vec::new();
        for _ in 0..8 {
            watchers.push(watch(&server, &format!("resourceVersion={from}")).await);
        }
        describe(&server, "a", "x").await;
        let mut lines = Vec::new();
        for watcher in &mut watchers {
            lines.push(bytes(watcher).await);
        }
        // One more, which comes when the event is history already: it is in memory still.
        lines.push(bytes(&mut watch(&server, &format!("resourceVersion={from}")).await).await);
        assert!(lines.iter().all(|line| line.as_ptr() == lines[0].as_ptr()), "one event was written more than once");
    });
}

#[test]
fn a_slow_watcher_is_closed_and_the_others_do_not_notice() {
    run(async {
        let server = Server::in_memory().await;
        server.post(HOSTS, &object("a")).await;
        let from = server.api.core().store().current();
        let mut slow = watch(&server, &format!("resourceVersion={from}")).await;
        let mut quick = watch(&server, &format!("resourceVersion={from}")).await;
        let revision =
            |event: &Value| event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        describe(&server, "a", "first").await;
        let seen = revision(&line(&mut slow).await.unwrap());
        assert_eq!(seen, from.0 + 1);
        for number in 0..=WATCH_EVENTS_MAX {
            assert_eq!(revision(&line(&mut quick).await.unwrap()), from.0 + 1 + number as u64);
            describe(&server, "a", &number.to_string()).await;
        }
        assert_eq!(line(&mut slow).await, None, "closed without a word: the client resumes");
        let mut resumed = watch(&server, &format!("resourceVersion={seen}")).await;
        for number in 1..=WATCH_EVENTS_MAX as u64 + 1 {
            assert_eq!(revision(&line(&mut resumed).await.unwrap()), seen + number, "neither gap nor repeat");
        }
    });
}

#[test]
fn tables_and_metadata_can_be_watched() {
    run(async {
        let server = Server::in_memory().await;
        server.post(HOSTS, &object("a")).await;
        let accept = |as_what: &str| format!("application/json;as={as_what};v=v1;g=meta.k8s.io");
        let path = format!("{HOSTS}?watch=1&timeoutSeconds=1&{STREAMING}");
        for (form, bookmark) in
            [("Table", json!("/object/rows/0/object/metadata")), ("PartialObjectMetadata", json!("/object/metadata"))]
        {
            let text = server.send("GET", &path, &[("accept", &accept(form))], "").await.text;
            let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!((lines.len(), &lines[0]["type"], &lines[1]["type"]), (2, &json!("ADDED"), &json!("BOOKMARK")));
            assert!(lines.iter().all(|line| line["object"]["kind"] == form), "{text}");
            let metadata = lines[1].pointer(bookmark.as_str().unwrap()).unwrap();
            assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
        }
    });
}

/// As every client library does it: 410, a new list, a watch from there.
#[test]
fn a_client_recovers_from_forgotten_history() {
    run(async {
        let server = Server::new().await;
        let from = server.api.core().store().current();
        for name in ["a", "b"] {
            server.post(HOSTS, &object(name)).await;
        }
        server.send("DELETE", &format!("{HOSTS}/a"), &[], "").await;
        let store = server.api.core().store();
        let oldest = store.compact(store.current()).await.unwrap();
        let mut gone = watch(&server, &format!("resourceVersion={from}")).await;
        let error = line(&mut gone).await.unwrap();
        let status = &error["object"];
        assert_eq!(
            (&error["type"], &status["code"], &status["reason"]),
            (&json!("ERROR"), &json!(410), &json!("Expired"))
        );
        assert_eq!(status["message"], format!("too old resource version: {from} ({oldest})"));
        assert_eq!(line(&mut gone).await, None);
        let list = server.get(HOSTS).await.json();
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        let again = list["metadata"]["resourceVersion"].as_str().unwrap();
        let mut goes_on = watch(&server, &format!("resourceVersion={again}")).await;
        describe(&server, "b", "x").await;
        assert_eq!(told(&line(&mut goes_on).await.unwrap()), ("MODIFIED", "b"));
    });
}

/// What a Lease said before goes sooner than what a host did; its clients find on as they do elsewhere.
#[test]
fn the_past_of_a_lease_is_forgotten_and_that_of_hosts_is_not() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    run(async {
        let server = Server::new().await;
        let store = server.api.core().store();
        let from = store.current();
        let held = |number: usize| json!({ "spec": { "leaseTransitions": number } });
        let lease = json!({ "metadata": { "name": "leader" } });
        assert_eq!(server.post(LEASES, &lease).await.code, 201);
        server.post(HOSTS, &object("a")).await;
        for number in 1..=3 {
            server.merge(&format!("{LEASES}/leader"), &held(number)).await;
        }
        describe(&server, "a", "x").await;
        for kind in server.api.core().registry().short_histories() {
            store.compact_kind(&kind, store.current()).await.unwrap();
        }
        let mut hosts = watch(&server, &format!("resourceVersion={from}")).await;
        assert_eq!(told(&line(&mut hosts).await.unwrap()), ("ADDED", "a"));
        assert_eq!(told(&line(&mut hosts).await.unwrap()), ("MODIFIED", "a"));

        let mut gone = watch_at(&server, &format!("{LEASES}?watch=1&resourceVersion={from}")).await;
        let error = line(&mut gone).await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
        let exact = format!("{LEASES}?resourceVersionMatch=Exact&resourceVersion={}", from.0 + 1);
        let past = server.get(&exact).await;
        assert_eq!((past.code, &past.json()["reason"]), (410, &json!("Expired")));
        let list = server.get(LEASES).await.json();
        assert_eq!(list["items"][0]["spec"]["leaseTransitions"], 3);
        let again = list["metadata"]["resourceVersion"].as_str().unwrap();
        let mut goes_on = watch_at(&server, &format!("{LEASES}?watch=1&resourceVersion={again}")).await;
        server.merge(&format!("{LEASES}/leader"), &held(4)).await;
        let renewed = line(&mut goes_on).await.unwrap();
        assert_eq!((told(&renewed), &renewed["object"]["spec"]), (("MODIFIED", "leader"), &held(4)["spec"]));
    });
}
