//! Objects whose stored values are damaged: named, never absent, and in the way only where it matters.

use std::sync::Arc;

use firesteel_kube::access::{AccessDecision, AccessRequest, AccessRule, OnObjects, common, common_rules};
use firesteel_kube::{Authorizer, Caller, ObjectChange, Objects};
use firesteel_store::{GroupResource, MemoryMedium, ObjectKey, Store};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::life::gone_soon;
use crate::toy::{HOSTS, Server, object, run};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const UNREAD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";

fn host(name: &str) -> ObjectKey {
    ObjectKey::new(&GroupResource::new("metal3.io", "baremetalhosts"), "default", name)
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

/// Hosts a, b and c, of which b is damaged.
async fn site() -> (Server, MemoryMedium) {
    let memory = MemoryMedium::new();
    let server = Server::on(Store::in_memory(&memory)).await;
    for name in ["a", "b", "c"] {
        assert_eq!(server.post(HOSTS, &object(name)).await.code, 201);
    }
    memory.damage(&host("b"));
    (server, memory)
}

fn names_the_damage(reply: &crate::toy::Reply) {
    assert_eq!(reply.code, 500, "{}", reply.text);
    let status = reply.json();
    assert_eq!(status["reason"], "StorageReadError");
    assert_eq!(status["details"]["causes"][0]["field"], "baremetalhosts.metal3.io/default/b", "{status}");
    assert!(status["message"].as_str().unwrap().contains("baremetalhosts.metal3.io/default/b"), "{status}");
}

#[test]
fn a_damaged_object_is_an_error_that_names_it_and_others_are_served() {
    run(async {
        let (server, _memory) = site().await;
        names_the_damage(&server.get(&format!("{HOSTS}/b")).await);
        names_the_damage(&server.get(HOSTS).await);
        names_the_damage(&server.get(&format!("{HOSTS}?limit=1")).await);
        names_the_damage(&server.get(&format!("{HOSTS}?labelSelector=x=y")).await);
        names_the_damage(&server.get("/apis/metal3.io/v1alpha1/baremetalhosts").await);
        let streamed = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        names_the_damage(&server.get(&format!("{HOSTS}?{streamed}")).await);
        names_the_damage(&server.merge(&format!("{HOSTS}/b"), &json!({ "spec": { "online": false } })).await);
        names_the_damage(&server.put(&format!("{HOSTS}/b"), &object("b")).await);
        names_the_damage(&server.send("DELETE", &format!("{HOSTS}/b"), &[], "").await);
        names_the_damage(&server.send("DELETE", HOSTS, &[], "").await);
        assert_eq!(server.post(HOSTS, &object("b")).await.code, 409, "it is there");

        assert_eq!(server.get(&format!("{HOSTS}/a")).await.code, 200);
        assert_eq!(server.merge(&format!("{HOSTS}/a"), &json!({ "spec": { "online": false } })).await.code, 200);
        let one = server.get(&format!("{HOSTS}?fieldSelector=metadata.name=c")).await;
        assert_eq!((one.code, one.json()["items"].as_array().unwrap().len()), (200, 1));
        names_the_damage(&server.get(&format!("{HOSTS}?fieldSelector=metadata.name=b")).await);
        assert_eq!(server.get("/apis/metal3.io/v1alpha1/namespaces/other/baremetalhosts").await.code, 200);
        assert_eq!(server.get(MAPS).await.code, 200);
        assert_eq!(server.get(&format!("{HOSTS}/d")).await.code, 404, "what is not there is not there");
    });
}

#[test]
fn an_administrator_deletes_it_unread() {
    run(async {
        let (server, _memory) = site().await;
        let path = format!("{HOSTS}/b");
        assert_eq!(server.send("DELETE", &format!("{HOSTS}?{UNREAD}"), &[], "").await.code, 400, "one by one");
        let both = server.send("DELETE", &format!("{path}?{UNREAD}&dryRun=All"), &[], "").await;
        assert_eq!(both.code, 422, "{}", both.text);
        let from = server.api.core().store().current();
        let reply = server.send("DELETE", &format!("{path}?{UNREAD}"), &[], "").await;
        assert_eq!((reply.code, &reply.json()["status"]), (200, &json!("Success")), "{}", reply.text);
        assert_eq!(server.get(&path).await.code, 404);
        let left = server.get(HOSTS).await.json();
        assert_eq!(left["items"].as_array().unwrap().len(), 2);
        // A watch ends with an order to list again, where the object is gone.
        let watch = server.get(&format!("{HOSTS}?watch=true&resourceVersion={from}&timeoutSeconds=1")).await;
        assert!(watch.text.contains("\"code\":410"), "{}", watch.text);
        assert_eq!(server.send("DELETE", &format!("{path}?{UNREAD}"), &[], "").await.code, 404);
        // One that can be read goes as any other, finalizers included.
        let mut held = object("held");
        held["metadata"]["finalizers"] = json!(["x.io/f"]);
        server.post(HOSTS, &held).await;
        let reply = server.send("DELETE", &format!("{HOSTS}/held?{UNREAD}"), &[], "").await;
        assert_eq!((reply.code, server.get(&format!("{HOSTS}/held")).await.code), (200, 200));
    });
}

/// May do all but delete what cannot be read.
#[derive(Debug)]
struct AllButUnread;

impl Authorizer for AllButUnread {
    fn decide(&self, caller: &Caller, asked: AccessRequest<'_>) -> AccessDecision {
        let is_unread =
            matches!(asked, AccessRequest::Objects(OnObjects { verb: "unsafe-delete-ignore-read-errors", .. }));
        if is_unread {
            return AccessDecision::deny();
        }
        common(caller, asked).unwrap_or(AccessDecision { allowed: true, reason: String::new() })
    }

    fn rules(&self, caller: &Caller, _: &str) -> Vec<AccessRule> {
        common_rules(caller)
    }

    fn generation(&self) -> u64 {
        0
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::Sender::new(0).subscribe()
    }
}

#[test]
fn who_may_delete_may_not_delete_unread() {
    run(async {
        let (server, _memory) = site().await;
        let server = server.with(|api| api.guarded(Arc::new(AllButUnread)));
        let reply = server.send("DELETE", &format!("{HOSTS}/b?{UNREAD}"), &[], "").await;
        assert_eq!(reply.code, 403, "{}", reply.text);
        names_the_damage(&server.get(&format!("{HOSTS}/b")).await);
        assert_eq!(server.send("DELETE", &format!("{HOSTS}/a"), &[], "").await.code, 200);
    });
}

/// A dependent whose owner is gone would go, and so would everything of a namespace that is deleted.
#[test]
fn nothing_is_collected_where_something_is_damaged() {
    run(async {
        let (server, _memory) = site().await;
        names_the_damage(&server.get(&format!("{HOSTS}/b")).await);
        let orphan = |namespace: &str| {
            let mut orphan = map("orphan");
            orphan["metadata"]["namespace"] = json!(namespace);
            orphan["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "gone", "uid": "u",
            }]);
            orphan
        };
        let name = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        server.post("/api/v1/namespaces", &name("sound")).await;
        assert_eq!(server.post(MAPS, &orphan("default")).await.code, 201);
        assert_eq!(server.post("/api/v1/namespaces/sound/configmaps", &orphan("sound")).await.code, 201);
        // The one goes, and whatever would be done to the other was done by then.
        gone_soon(&server, "/api/v1/namespaces/sound/configmaps/orphan").await;
        assert_eq!(server.get(&format!("{MAPS}/orphan")).await.code, 200);
        assert_eq!(server.send("DELETE", &format!("{HOSTS}/b?{UNREAD}"), &[], "").await.code, 200);
        gone_soon(&server, &format!("{MAPS}/orphan")).await;
    });
}

#[test]
fn a_namespace_with_a_damaged_object_does_not_empty_itself() {
    run(async {
        let memory = MemoryMedium::new();
        let server = Server::on(Store::in_memory(&memory)).await;
        let name = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        for namespace in ["hurt", "sound"] {
            server.post("/api/v1/namespaces", &name(namespace)).await;
            for of in ["a", "b"] {
                assert_eq!(
                    server.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map(of)).await.code,
                    201
                );
            }
        }
        memory.damage(&ObjectKey::new(&GroupResource::new("", "configmaps"), "hurt", "b"));
        assert_eq!(server.get("/api/v1/namespaces/hurt/configmaps/b").await.code, 500);
        for namespace in ["hurt", "sound"] {
            server.send("DELETE", &format!("/api/v1/namespaces/{namespace}"), &[], "").await;
        }
        gone_soon(&server, "/api/v1/namespaces/sound").await;
        assert_eq!(server.get("/api/v1/namespaces/hurt/configmaps/a").await.code, 200);
        let hurt = server.get("/api/v1/namespaces/hurt").await.json();
        let conditions = hurt["status"]["conditions"].as_array().unwrap();
        let told = conditions.iter().find(|one| one["type"] == "NamespaceDeletionContentFailure").unwrap();
        assert_eq!(told["status"], "True");
        assert!(told["message"].as_str().unwrap().contains("configmaps/hurt/b"), "{told}");
        let path = format!("/api/v1/namespaces/hurt/configmaps/b?{UNREAD}");
        assert_eq!(server.send("DELETE", &path, &[], "").await.code, 200);
        gone_soon(&server, "/api/v1/namespaces/hurt").await;
    });
}

/// Code of this process hears of a damaged object, and of its end; it never seems to be deleted before.
#[test]
fn a_subscription_tells_of_what_it_cannot_read() {
    run(async {
        let (server, _memory) = site().await;
        let objects: Objects<Value> = Objects::new(server.api.core(), "metal3.io", "BareMetalHost").unwrap();
        let mut changes = objects.subscribe().await.unwrap();
        let (mut sound, mut damaged) = (Vec::new(), Vec::new());
        loop {
            match changes.next().await.unwrap() {
                ObjectChange::Applied(host) => sound.push(host["metadata"]["name"].as_str().unwrap().to_owned()),
                ObjectChange::Undecodable { name, error } => {
                    assert!(error.contains("default/b"), "{error}");
                    damaged.push(name.name);
                }
                ObjectChange::Synced => break,
                ObjectChange::Deleted(host) => panic!("{host}"),
            }
        }
        sound.sort();
        assert_eq!((sound, damaged), (vec!["a".to_owned(), "c".to_owned()], vec!["b".to_owned()]));
        server.send("DELETE", &format!("{HOSTS}/b?{UNREAD}"), &[], "").await;
        let ObjectChange::Deleted(gone) = changes.next().await.unwrap() else { panic!("it is gone") };
        assert_eq!((&gone["metadata"]["name"], &gone["metadata"]["namespace"]), (&json!("b"), &json!("default")));
    });
}

/// The UID distinguishes the deletion of what could be read once from that of another object of its name.
#[test]
fn the_deletion_of_what_was_read_before_it_was_damaged_has_its_uid() {
    run(async {
        let (server, memory) = site().await;
        let objects: Objects<Value> = Objects::new(server.api.core(), "metal3.io", "BareMetalHost").unwrap();
        let mut changes = objects.subscribe().await.unwrap();
        while !matches!(changes.next().await.unwrap(), ObjectChange::Synced) {}
        let uid = server.get(&format!("{HOSTS}/a")).await.json()["metadata"]["uid"].clone();
        memory.damage(&host("a"));
        assert_eq!(server.get(&format!("{HOSTS}/a")).await.code, 500);
        // All is listed again, with what is damaged in it.
        server.send("DELETE", &format!("{HOSTS}/b?{UNREAD}"), &[], "").await;
        let mut gone = Vec::new();
        while gone.is_empty() {
            match changes.next().await.unwrap() {
                ObjectChange::Deleted(host) => gone.push(host["metadata"]["name"].clone()),
                ObjectChange::Undecodable { name, .. } => assert_eq!(name.name, "a"),
                ObjectChange::Applied(_) | ObjectChange::Synced => {}
            }
        }
        assert_eq!(gone, [json!("b")]);
        server.send("DELETE", &format!("{HOSTS}/a?{UNREAD}"), &[], "").await;
        let ObjectChange::Deleted(gone) = changes.next().await.unwrap() else { panic!("it is gone") };
        assert_eq!(gone["metadata"]["uid"], uid);
    });
}

/// What a kind is comes from the program, whatever is stored of it.
#[test]
fn a_damaged_definition_is_made_anew_from_the_program() {
    run(async {
        let memory = MemoryMedium::new();
        let server = Server::on(Store::in_memory(&memory)).await;
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let one = format!("{path}/baremetalhosts.metal3.io");
        let before = server.get(&one).await.json();
        let kind = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
        memory.damage(&ObjectKey::new(&kind, "", "baremetalhosts.metal3.io"));
        assert_eq!((server.get(&one).await.code, server.get(path).await.code), (500, 500));
        assert_eq!(server.get(HOSTS).await.code, 200, "the kind is served");
        server.api.core().publish_kinds().await.unwrap();
        assert_eq!(server.get(&one).await.json()["spec"], before["spec"]);
        assert_eq!(server.get(path).await.code, 200);
    });
}
