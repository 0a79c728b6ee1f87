//! Lists: as of which revision, page by page, and what is refused.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Duration;

use firesteel_kube::Timing;
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::http::{line, watch};
use crate::toy::{HOSTS, Reply, Server, admin, object, run};

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn revision(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn list(server: &Server, query: &str) -> Reply {
    server.get(&format!("{HOSTS}?{query}")).await
}

async fn label(server: &Server, name: &str, label: &str) -> Value {
    server.merge(&format!("{HOSTS}/{name}"), &json!({"metadata": {"labels": {"l": label}}})).await.json()
}

#[test]
fn a_list_is_as_of_what_was_asked() {
    run(async {
        let server = Server::in_memory().await;
        let first = revision(&server.post(HOSTS, &object("a")).await.json());
        server.post(HOSTS, &object("b")).await;
        let last = revision(&label(&server, "a", "new").await);
        for newest in ["", "resourceVersion=", "resourceVersion=0", &format!("resourceVersion={first}")] {
            let newest = list(&server, newest).await.json();
            assert_eq!((names(&newest), revision(&newest)), (vec!["a", "b"], last.clone()));
        }
        let matching = format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan");
        assert_eq!(revision(&list(&server, &matching).await.json()), last);
        let exact = format!("resourceVersion={first}&resourceVersionMatch=Exact");
        let old = list(&server, &exact).await.json();
        assert_eq!((names(&old), revision(&old)), (vec!["a"], first.clone()));
        assert_eq!((&old["items"][0]["metadata"]["labels"], revision(&old["items"][0])), (&Value::Null, first.clone()));

        let store = server.api.core().store();
        store.compact(store.current()).await.unwrap();
        let gone = list(&server, &exact).await;
        assert_eq!((gone.code, gone.json()["reason"].clone()), (410, json!("Expired")));
        assert_eq!(list(&server, &format!("resourceVersion={first}")).await.code, 200, "newer is not older than that");
    });
}

#[test]
fn the_future_is_waited_for_and_then_refused() {
    run(async {
        let short = Timing { future: Duration::from_millis(1), ..Timing::default() };
        let server = Server::in_memory().await.timed(short);
        let next = server.api.core().store().current().0 + 1;
        for query in [
            "",
            "&resourceVersionMatch=Exact",
            "&resourceVersionMatch=NotOlderThan",
            "&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        ] {
            let late = list(&server, &format!("resourceVersion={next}{query}")).await;
            assert_eq!((late.code, late.retry_after.as_deref()), (504, Some("1")), "{query}");
            let late = late.json();
            assert_eq!(late["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
            assert_eq!(late["details"]["retryAfterSeconds"], 1);
            assert_eq!(late["message"], format!("Timeout: Too large resource version: {next}, current: {}", next - 1));
        }
        assert_eq!(Timing::default().future, Duration::from_secs(3));
        let server = server.timed(Timing { future: Duration::from_secs(3600), ..short });
        let path = format!("resourceVersion={next}");
        let made = object("a");
        let (list, _) = tokio::join!(list(&server, &path), server.post(HOSTS, &made));
        assert_eq!(names(&list.json()), ["a"], "it came while it was waited for");
    });
}

#[test]
fn combinations_that_say_nothing_are_refused() {
    run(async {
        let server = Server::in_memory().await;
        for name in ["a", "b"] {
            server.post(HOSTS, &object(name)).await;
        }
        let page = list(&server, "limit=1").await.json();
        let token = page["metadata"]["continue"].as_str().unwrap();
        let forbidden = "FieldValueForbidden";
        for (query, code, reason) in [
            ("resourceVersion=abc".to_owned(), 400, ""),
            ("resourceVersion=-1".to_owned(), 400, ""),
            ("resourceVersionMatch=Exact".to_owned(), 422, forbidden),
            ("resourceVersionMatch=NotOlderThan".to_owned(), 422, forbidden),
            ("resourceVersion=0&resourceVersionMatch=Exact".to_owned(), 422, forbidden),
            ("resourceVersion=1&resourceVersionMatch=Newest".to_owned(), 422, "FieldValueNotSupported"),
            ("sendInitialEvents=true".to_owned(), 422, forbidden),
            ("continue=abc".to_owned(), 400, ""),
            ("continue=e30".to_owned(), 400, ""),
            (format!("continue={token}&resourceVersion=1"), 400, ""),
            (format!("continue={token}&resourceVersion=0&resourceVersionMatch=NotOlderThan"), 422, forbidden),
            (format!("continue={token}&resourceVersion=0"), 200, ""),
            ("watch=1&resourceVersion=abc".to_owned(), 400, ""),
            ("watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan".to_owned(), 422, forbidden),
            ("watch=1&sendInitialEvents=true".to_owned(), 422, forbidden),
            ("watch=1&sendInitialEvents=true&resourceVersion=1&resourceVersionMatch=Exact".to_owned(), 422, forbidden),
        ] {
            let reply = list(&server, &query).await;
            assert_eq!(reply.code, code, "{query}: {}", reply.text);
            let cause = &reply.json()["details"]["causes"][0]["reason"];
            assert_eq!(cause.as_str().unwrap_or(""), reason, "{query}");
        }
        // All that is wrong is said at once.
        let both = list(&server, "watch=1&resourceVersionMatch=Exact").await.json();
        assert_eq!(both["details"]["causes"].as_array().unwrap().len(), 2);
    });
}

#[test]
fn a_token_that_is_too_old_comes_back_as_one_that_goes_on() {
    run(async {
        let server = Server::in_memory().await;
        for name in ["a", "b", "c"] {
            server.post(HOSTS, &object(name)).await;
        }
        let first = list(&server, "limit=1").await.json();
        let token = first["metadata"]["continue"].as_str().unwrap();
        server.post(HOSTS, &object("bb")).await;
        let store = server.api.core().store();
        store.compact(store.current()).await.unwrap();
        let gone = list(&server, &format!("limit=1&continue={token}")).await;
        assert_eq!((gone.code, gone.json()["reason"].clone()), (410, json!("Expired")));
        let mut token = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
        let mut seen = Vec::new();
        while !token.is_empty() {
            let page = list(&server, &format!("limit=1&continue={token}")).await.json();
            seen.extend(names(&page).into_iter().map(str::to_owned));
            token = page["metadata"]["continue"].as_str().unwrap_or("").to_owned();
        }
        assert_eq!(seen, ["b", "bb", "c"], "from where it was, as of now");
    });
}

#[test]
fn every_form_of_a_list_has_the_same_objects() {
    run(async {
        let server = Server::new().await;
        let mut odd = object("a");
        odd["metadata"]["annotations"] = json!({"metadata": "{\"metadata\":{\"x\":\"\\\\\"", "x/y": "}"});
        odd["spec"]["description"] = json!("\"metadata\":{\u{1}");
        server.post(HOSTS, &odd).await;
        server.post(HOSTS, &object("b")).await;
        let list = list(&server, "").await.json();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("BareMetalHostList"), &json!("metal3.io/v1alpha1")));
        for (name, listed) in ["a", "b"].iter().zip(list["items"].as_array().unwrap()) {
            assert_eq!(*listed, server.get(&format!("{HOSTS}/{name}")).await.json());
        }
        let as_yaml = server.send("GET", HOSTS, &[("accept", "application/yaml")], "").await;
        let read = firesteel_kube::negotiate::parse_object(Some("application/yaml"), as_yaml.text.as_bytes(), "List");
        assert_eq!(read.unwrap(), list);
        let empty = server.get("/api/v1/namespaces/default/configmaps").await.json();
        assert_eq!((&empty["items"], empty["metadata"]["remainingItemCount"].clone()), (&json!([]), Value::Null));
    });
}

/// What happens between two pages: an object is made, relabelled or deleted.
fn writes() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0_u8..9, 0_u8..3), 0..6)
}

async fn write(server: &Server, (name, what): (u8, u8)) {
    let name = format!("n{name}");
    match what {
        0 => drop(server.send("DELETE", &format!("{HOSTS}/{name}"), &[], "").await),
        number => {
            server.post(HOSTS, &object(&name)).await;
            label(server, &name, &format!("{number}")).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever is written between the pages, together they are the list as it was at the first one.
    #[test]
    fn pages_together_are_one_list(
        before in writes(), between in prop::collection::vec(writes(), 1..6), limit in 1_usize..5, selected in any::<bool>()
    ) {
        run(async move {
            let server = Server::in_memory().await;
            for step in before {
                write(&server, step).await;
            }
            let selector = if selected { "&labelSelector=l%3D1" } else { "" };
            let whole = list(&server, &selector.replacen('&', "", 1)).await.json();
            let mut page = list(&server, &format!("limit={limit}{selector}")).await.json();
            let (mut items, mut pages) = (Vec::new(), between.into_iter());
            loop {
                assert_eq!(revision(&page), revision(&whole));
                let found = page["items"].as_array().unwrap();
                assert!(found.len() <= limit);
                items.extend(found.iter().cloned());
                let left = whole["items"].as_array().unwrap().len() - items.len();
                let token = page["metadata"]["continue"].as_str().unwrap_or_default();
                if token.is_empty() {
                    break;
                }
                let remaining = &page["metadata"]["remainingItemCount"];
                assert_eq!(*remaining, if selected { Value::Null } else { json!(left) });
                for step in pages.next().unwrap_or_default() {
                    write(&server, step).await;
                }
                page = list(&server, &format!("limit={limit}&continue={token}{selector}")).await.json();
            }
            assert_eq!(json!(items), whole["items"]);
        });
    }

    /// A list at any revision, with what a watch from there sends, is the list of now.
    #[test]
    fn a_watch_is_the_difference_of_two_lists(steps in prop::collection::vec((0_u8..5, 0_u8..3), 1..14), selected in any::<bool>()) {
        run(async move {
            let server = Server::in_memory().await;
            let start = server.api.core().store().current().0;
            for step in steps {
                write(&server, step).await;
            }
            // What the watches end with: a name that no step has, made in one change.
            let mut end = object("end");
            end["metadata"]["labels"] = json!({"l": "1"});
            server.post(HOSTS, &end).await;
            let selector = if selected { "&labelSelector=l%3D1" } else { "" };
            let by_name = |list: &Value| -> BTreeMap<String, Value> {
                let items = list["items"].as_array().unwrap();
                items.iter().map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone())).collect()
            };
            let now = by_name(&list(&server, &selector.replacen('&', "", 1)).await.json());
            for from in start..server.api.core().store().current().0 {
                let at = format!("resourceVersion={from}{selector}");
                let mut known = by_name(&list(&server, &format!("{at}&resourceVersionMatch=Exact")).await.json());
                let (mut last, mut lines) = (from, watch(&server, &at).await);
                while !known.contains_key("end") {
                    let event = line(&mut lines).await.unwrap();
                    let object = event["object"].clone();
                    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                    let revision: u64 = revision(&object).parse().unwrap();
                    assert!(revision > last, "{revision} after {last}");
                    last = revision;
                    match event["type"].as_str().unwrap() {
                        "ADDED" => assert_eq!(known.insert(name, object), None, "from {from}"),
                        "MODIFIED" => assert!(known.insert(name, object).is_some(), "from {from}"),
                        "DELETED" => assert!(known.remove(&name).is_some(), "from {from}"),
                        other => panic!("{other}: {event}"),
                    }
                }
                assert_eq!(known, now, "from {from}");
            }
        });
    }
}

#[test]
fn an_empty_list_is_the_last_page() {
    run(async {
        let page = list(&Server::in_memory().await, "limit=1").await.json();
        assert_eq!((&page["items"], &page["metadata"]["continue"]), (&json!([]), &json!("")));
    });
}

/// A list of many objects comes in pieces, each read when the one before was taken: together they are the
/// list as it was at the first, whatever is written meanwhile. Packed for clients that unpack it.
#[test]
fn a_long_list_comes_in_pieces_and_is_one_list() {
    run(async {
        let server = Server::new().await;
        let count = 1000;
        for number in 0..count {
            let mut made = object(&format!("n{number:04}"));
            made["spec"]["description"] = json!("x".repeat(400));
            server.post(HOSTS, &made).await;
        }
        let path = |query: &str| format!("{HOSTS}?{query}");
        for (query, wanted) in [("", count), ("limit=900", 900), ("labelSelector=!l", count)] {
            let before = server.api.core().store().current().0;
            let request =
                http::Request::get(path(query)).body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
            let mut body = server.api.handle(request, &admin()).await.into_body();
            let mut bytes = body.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
            assert!(bytes.len() < 300_000, "{query}: a piece, not the whole");
            // What was not read yet changes, goes, and comes.
            label(&server, "n0999", "new").await;
            server.send("DELETE", &format!("{HOSTS}/n0998"), &[], "").await;
            server.post(HOSTS, &object("n0998a")).await;
            while let Some(frame) = body.frame().await {
                bytes.extend_from_slice(frame.unwrap().data_ref().unwrap());
            }
            let list: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(revision(&list), before.to_string(), "{query}");
            let (found, all) = (names(&list), list["metadata"].get("remainingItemCount"));
            assert_eq!(
                (found.len(), all),
                (wanted, (wanted < count).then(|| json!(count - wanted)).as_ref()),
                "{query}"
            );
            assert_eq!(found.last().copied(), Some(format!("n{:04}", wanted - 1).as_str()), "{query}");
            // As it was for the next round.
            server.merge(&format!("{HOSTS}/n0999"), &json!({"metadata": {"labels": {"l": null}}})).await;
            server.send("DELETE", &format!("{HOSTS}/n0998a"), &[], "").await;
            server.post(HOSTS, &object("n0998")).await;
        }
        let plain = server.get(&path("limit=700")).await;
        let request = http::Request::get(path("limit=700")).header("accept-encoding", "gzip, deflate");
        let packed =
            server.api.handle(request.body(http_body_util::Full::<bytes::Bytes>::default()).unwrap(), &admin()).await;
        assert_eq!(packed.headers()["content-encoding"], "gzip");
        let packed = packed.into_body().collect().await.unwrap().to_bytes();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        assert!(text == plain.text && packed.len() < text.len() / 4, "{} of {} bytes", packed.len(), text.len());
    });
}
