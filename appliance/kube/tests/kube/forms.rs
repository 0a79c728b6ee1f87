//! Lists as rows, as metadata alone and as YAML: put together while they are sent, as those in JSON are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use firesteel_store::memory::{InjectedOutcome, StoreFaults, Wait};
use firesteel_store::{GroupResource, MemoryMedium, ObjectKey, Op, Store, StoreEvent};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::toy::{HOSTS, Reply, Server, admin, object, run};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Objects that the server reads at once.
const PAGE: usize = 128;

/// Hosts whose texts are not easy to write, each of more than a kilobyte in any form.
async fn fill(server: &Server, count: usize) {
    for number in 0..count {
        let mut made = object(&format!("n{number:04}"));
        made["metadata"]["labels"] = json!({"third": (number % 3 == 0).to_string()});
        let note = format!("- {number}: a\n  b\n\n\ttab {}\n---\nitems: []\n", "words and ".repeat(60));
        made["metadata"]["annotations"] = json!({"example.org/note": note, "example.org/no": "@ 'no' \"é\" #"});
        made["spec"]["description"] = json!(format!("{}\n ", "long ".repeat(40)));
        assert_eq!(server.post(HOSTS, &made).await.code, 201);
    }
}

async fn get(server: &Server, path: &str, accept: &str) -> Reply {
    server.send("GET", path, &[("accept", accept)], "").await
}

fn read(text: &str, accept: &str) -> Option<Value> {
    match accept {
        YAML => firesteel_kube::yaml::read_all(text).ok().and_then(|mut documents| documents.pop()),
        _ => serde_json::from_str(text).ok(),
    }
}

/// A list's objects or rows, and the list without them.
fn parted(mut list: Value, accept: &str) -> (Vec<Value>, Value) {
    let name = if accept == TABLE { "rows" } else { "items" };
    let items = list.as_object_mut().unwrap().remove(name).unwrap();
    (items.as_array().unwrap().clone(), list)
}

#[test]
fn a_list_in_any_form_is_its_objects_one_by_one() {
    run(async {
        let (server, count) = (Server::in_memory().await, 300);
        fill(&server, count).await;
        let revision = server.api.core().store().current().to_string();
        for (accept, include) in [(JSON, ""), (YAML, ""), (PARTIAL, ""), (TABLE, ""), (TABLE, "includeObject=Object&")]
        {
            let (mut ones, mut of_one) = (Vec::new(), Value::Null);
            for number in 0..count {
                let one = get(&server, &format!("{HOSTS}/n{number:04}?{include}"), accept).await;
                let one = read(&one.text, accept).unwrap();
                of_one = one["columnDefinitions"].clone();
                ones.push(if accept == TABLE { one["rows"][0].clone() } else { one });
            }
            let third: Vec<Value> = ones.iter().step_by(3).cloned().collect();
            for (query, wanted, pages) in [
                ("", &ones, 1),
                ("limit=140", &ones, 3),
                ("labelSelector=third%3Dtrue", &third, 1),
                ("labelSelector=third%3Dtrue&limit=60", &third, 2),
            ] {
                let (mut found, mut token, mut seen) = (Vec::new(), String::new(), 0);
                loop {
                    let reply = get(&server, &format!("{HOSTS}?{include}{query}{token}"), accept).await;
                    let media_type = if accept == YAML { YAML } else { JSON };
                    assert_eq!((reply.code, reply.media_type.as_str()), (200, media_type));
                    assert!(!query.is_empty() || reply.text.len() > 2 * (128 << 10), "more than a piece");
                    let (items, list) = parted(read(&reply.text, accept).unwrap(), accept);
                    found.extend(items);
                    seen += 1;
                    let (version, kind) = match accept {
                        TABLE => ("meta.k8s.io/v1", "Table"),
                        PARTIAL => ("meta.k8s.io/v1", "PartialObjectMetadataList"),
                        _ => ("metal3.io/v1alpha1", "BareMetalHostList"),
                    };
                    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!(version), &json!(kind)));
                    assert_eq!(
                        (&list["metadata"]["resourceVersion"], &list["columnDefinitions"]),
                        (&json!(revision), &of_one)
                    );
                    let left = count - found.len().min(count);
                    let left = (query == "limit=140" && left > 0).then(|| json!(left));
                    assert_eq!(list["metadata"].get("remainingItemCount"), left.as_ref());
                    match list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                        Some(next) => token = format!("&continue={next}"),
                        None => break,
                    }
                }
                assert_eq!(seen, pages, "{accept} {query}");
                assert!(found == *wanted, "{accept} {query}: {} of {}", found.len(), wanted.len());
            }
        }
    });
}

#[test]
fn a_small_list_is_written_as_ever() {
    run(async {
        let server = Server::in_memory().await;
        let revision = server.api.core().store().current();
        let none = format!(
            "apiVersion: metal3.io/v1alpha1\nitems: []\nkind: BareMetalHostList\nmetadata:\n  continue: \"\"\n  resourceVersion: \"{revision}\"\n"
        );
        assert_eq!(get(&server, HOSTS, YAML).await.text, none);
        let none = json!({
            "apiVersion": "meta.k8s.io/v1", "items": [], "kind": "PartialObjectMetadataList",
            "metadata": {"resourceVersion": revision.to_string()},
        });
        assert_eq!(get(&server, HOSTS, PARTIAL).await.text, none.to_string());
        assert_eq!(get(&server, HOSTS, TABLE).await.json()["rows"], json!([]));
    });
}

/// Counts what is read of a store.
#[derive(Debug, Default)]
struct Reads(AtomicUsize);

impl Reads {
    /// How many there were, when all that can be done without the client is done.
    async fn settled(&self) -> usize {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        self.0.load(Ordering::Relaxed)
    }
}

impl StoreFaults for Reads {
    fn before_read(&self) -> Wait<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {})
    }

    fn before_commit(&self, _: &Op) -> Wait<InjectedOutcome> {
        Box::pin(async { InjectedOutcome::Stored })
    }

    fn after_commit(&self, _: &StoreEvent) -> Wait<()> {
        Box::pin(async {})
    }
}

#[test]
fn a_client_that_takes_a_list_slowly_holds_a_few_pages_in_any_form() {
    run(async {
        let reads = Arc::new(Reads::default());
        let server = Server::on(Store::in_memory(&MemoryMedium::new().with_faults(reads.clone()))).await;
        let count = 10 * PAGE;
        fill(&server, count).await;
        for accept in [JSON, YAML, PARTIAL, TABLE] {
            let before = reads.settled().await;
            let request = http::Request::get(HOSTS).header("accept", accept).body(Full::<Bytes>::default()).unwrap();
            let mut body = server.api.handle(request, &admin()).await.into_body();
            let (mut told, mut frames) = (0, 0);
            while let Some(frame) = body.frame().await {
                let frame = frame.unwrap().into_data().unwrap();
                assert!(frame.len() < 200_000, "{accept}: a piece of {} bytes", frame.len());
                told += std::str::from_utf8(&frame).unwrap().matches("creationTimestamp").count();
                frames += 1;
                let read = (reads.settled().await - before) * PAGE;
                assert!(read <= told + 3 * PAGE, "{accept}: {read} objects read, {told} taken");
            }
            assert_eq!(told, count, "{accept}");
            assert!(frames >= 10, "{accept}: {frames} pieces");
        }
    });
}

/// Puts something into the store that is no object.
async fn spoil(server: &Server, name: &str) {
    let key = ObjectKey::new(&GroupResource::new("metal3.io", "baremetalhosts"), "default", name);
    server.api.core().store().commit(Op::Create { key, value: "nonsense".into() }, Vec::new()).await.unwrap();
}

#[test]
fn what_cannot_be_read_is_an_answer_at_first_and_later_no_list() {
    run(async {
        let server = Server::in_memory().await;
        fill(&server, 300).await;
        spoil(&server, "z").await;
        for accept in [JSON, YAML, PARTIAL, TABLE] {
            let cut = get(&server, HOSTS, accept).await;
            assert_eq!(cut.code, 200, "{accept}");
            assert!(
                cut.text.len() > 128 << 10 && read(&cut.text, accept).is_none(),
                "{accept}: a list without its end"
            );
        }
        spoil(&server, "a").await;
        for accept in [JSON, YAML, PARTIAL, TABLE] {
            let refused = get(&server, HOSTS, accept).await;
            assert_eq!(refused.code, 500, "{accept}");
            assert!(refused.json()["message"].as_str().unwrap().contains("is not JSON"), "{}", refused.text);
        }
    });
}
