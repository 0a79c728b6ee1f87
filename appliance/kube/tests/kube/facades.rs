//! Kinds that are other forms of stored ones, and kinds without objects.

use std::sync::Arc;

use firesteel_kube::logs::{Logs, Pod, PodLogLine, Waiting};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::{line, watch_at};
use crate::toy::{HOSTS, Server, object, run};

const OLD: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Two lines of the agent, and one of the kernel.
#[derive(Debug)]
struct Spoken;

fn spoken(number: u64, text: &str) -> PodLogLine {
    PodLogLine { number, at: Timestamp::from_second(1_789_999_000).unwrap(), text: text.into() }
}

impl Logs for Spoken {
    fn lines(&self, pod: &Pod<'_>, after: u64) -> Vec<PodLogLine> {
        let lines = match (pod.namespace, pod.name, pod.container) {
            ("default", "h1", "agent") => {
                vec![spoken(1, "inspecting"), spoken(2, "writing")]
            }
            ("default", "h1", "kernel") => vec![spoken(3, "Linux version 6")],
            _ => Vec::new(),
        };
        lines.into_iter().filter(|line| line.number > after).collect()
    }

    fn more(&self, _: &Pod<'_>, _: u64) -> Waiting {
        Box::pin(std::future::pending())
    }
}

#[test]
fn events_are_the_same_in_both_groups() {
    run(async {
        let server = Server::new().await;
        let mut seen = watch_at(&server, &format!("{NEW}?watch=1")).await;
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "a" },
            "eventTime": "2026-09-21T14:13:20.000001Z", "reportingController": "x.io/c", "reportingInstance": "i",
            "action": "Inspecting", "reason": "Inspected", "type": "Normal", "note": "all is well",
            "regarding": { "kind": "BareMetalHost", "name": "h1", "namespace": "default" },
            "series": { "count": 2, "lastObservedTime": "2026-09-21T14:13:21.000001Z" },
        });
        let made = server.post(NEW, &event).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let made = made.json();
        assert_eq!((&made["apiVersion"], &made["note"]), (&json!("events.k8s.io/v1"), &json!("all is well")));
        assert_eq!(made["metadata"].get("annotations"), None);
        let old = server.get(&format!("{OLD}/a")).await.json();
        assert_eq!((&old["apiVersion"], &old["message"]), (&json!("v1"), &json!("all is well")));
        assert_eq!((&old["involvedObject"], &old["reportingComponent"]), (&event["regarding"], &json!("x.io/c")));
        assert_eq!((&old["series"], old.get("note")), (&event["series"], None));
        assert_eq!(line(&mut seen).await.unwrap(), json!({ "type": "ADDED", "object": made }));

        let patched = server.merge(&format!("{OLD}/a"), &json!({ "message": "still well", "count": 7 })).await;
        assert_eq!(patched.code, 200, "{}", patched.text);
        let told = line(&mut seen).await.unwrap();
        assert_eq!((&told["object"]["note"], &told["object"]["deprecatedCount"]), (&json!("still well"), &json!(7)));
        for (path, selector) in [
            (NEW, "regarding.kind=BareMetalHost,regarding.name=h1,reason=Inspected"),
            (OLD, "involvedObject.name=h1,type!=Warning,reportingComponent=x.io/c"),
        ] {
            let found = server.get(&format!("{path}?fieldSelector={selector}")).await.json();
            assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{selector}: {found}");
            assert_eq!(
                server.get(&format!("{path}?fieldSelector={selector},reason=No")).await.json()["items"],
                json!([])
            );
        }
        let list = server.get(NEW).await.json();
        assert_eq!((&list["kind"], &list["items"][0]["note"]), (&json!("EventList"), &json!("still well")));

        let elsewhere = json!({ "regarding": { "kind": "Toy", "name": "h1", "namespace": "lab" } });
        let refused = server.post(NEW, &merged(&event, &elsewhere)).await;
        assert!(refused.code == 422 && refused.text.contains("does not match event.namespace"), "{}", refused.text);
        let nameless = server.post(NEW, &merged(&event, &json!({ "action": "", "type": "Odd" }))).await;
        let causes = nameless.json()["details"]["causes"].as_array().unwrap().len();
        assert_eq!((nameless.code, causes), (422, 2), "{}", nameless.text);
        for (path, time) in [
            (NEW, json!({ "eventTime": "2026-09-21T14:13:20Z" })),
            (NEW, json!({ "series": { "count": 2, "lastObservedTime": "2026-09-21T14:13:21.001Z" } })),
        ] {
            let refused = server.post(path, &merged(&event, &time)).await;
            assert!(refused.code == 422 && refused.text.contains("six digits"), "clients in Go cannot read it: {time}");
        }
        assert_eq!(server.send("DELETE", &format!("{NEW}/a"), &[], "").await.code, 200);
        assert_eq!(server.get(&format!("{OLD}/a")).await.code, 404);
        let gone = server.get(&format!("{NEW}/a")).await;
        assert!(gone.text.contains(r#"events.events.k8s.io \"a\" not found"#), "{}", gone.text);
    });
}

fn merged(object: &Value, other: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    object["metadata"]["name"] = json!("b");
    object
}

#[test]
fn a_pod_is_another_form_of_its_host_and_has_its_log() {
    run(async {
        let server = Server::new().await.with(|api| api.logging(Arc::new(Spoken)));
        let host = server.post(HOSTS, &object("h1")).await.json();
        let pod = server.get(&format!("{PODS}/h1")).await.json();
        assert_eq!((&pod["kind"], &pod["apiVersion"]), (&json!("Pod"), &json!("v1")));
        assert_eq!(pod["metadata"]["uid"], host["metadata"]["uid"]);
        assert_eq!(pod["spec"]["containers"], json!([{ "name": "agent" }, { "name": "kernel" }]));
        let meant = &pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-logs-container"];
        assert_eq!((meant, host["metadata"].get("annotations")), (&json!("agent"), None));
        let list = server.get(&format!("{PODS}?fieldSelector=metadata.name=h1")).await.json();
        assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("PodList"), &json!("Pod")));
        let mut seen = watch_at(&server, &format!("{PODS}?watch=1&resourceVersion=1")).await;
        assert_eq!(line(&mut seen).await.unwrap()["object"]["kind"], "Pod");
        assert_eq!(server.send("DELETE", &format!("{PODS}/h1"), &[], "").await.code, 405);

        let log = async |query: &str| server.get(&format!("{PODS}/h1/log{query}")).await;
        let all = log("").await;
        assert_eq!(
            (all.code, all.media_type.as_str(), all.text.as_str()),
            (200, "text/plain", "inspecting\nwriting\n")
        );
        assert_eq!(log("?container=kernel&tailLines=5").await.text, "Linux version 6\n");
        assert_eq!(log("?tailLines=1&timestamps=true").await.text, "2026-09-21T13:56:40.000000000Z writing\n");
        assert_eq!(log("?sinceSeconds=60").await.text, "");
        assert_eq!(log("?container=other").await.code, 400);
        assert_eq!(server.get(&format!("{PODS}/nope/log")).await.code, 404);
        assert_eq!(server.send("POST", &format!("{PODS}/h1/log"), &[], "{}").await.code, 405);
        for empty in ["/api/v1/nodes", "/api/v1/services", "/api/v1/namespaces/default/services"] {
            assert_eq!(server.get(empty).await.json()["items"], json!([]), "{empty}");
        }
    });
}
