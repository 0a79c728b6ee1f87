//! Create, replace, patch, delete; server-side apply.

use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::discovery::pinned_kind;
use serde_json::json;

use crate::world::{World, at, code, host, host_resource, map, run};

#[test]
fn kube_rs_writes_and_reads() {
    run(|world| async move {
        let (hosts, post) = (world.hosts(), PostParams::default());
        let made = hosts.create(&post, &host("h1")).await.unwrap();
        assert_eq!((made.metadata.generation, made.uid().is_some()), (Some(1), true));
        assert_eq!(code(hosts.create(&post, &host("h1")).await), 409);
        let mut changed = hosts.get("h1").await.unwrap();
        changed.data["spec"]["description"] = json!("a");
        // The appliance says something of each host in its status: the writer who was late tries again.
        let replaced = loop {
            match hosts.replace("h1", &post, &changed).await {
                Ok(replaced) => break replaced,
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    changed.metadata.resource_version = hosts.get("h1").await.unwrap().resource_version();
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(replaced.metadata.generation, Some(2));
        assert_eq!(code(hosts.replace("h1", &post, &made).await), 409, "of a revision that is not the newest");
        let merge = Patch::Merge(json!({"spec": {"description": "b"}, "status": {"errorMessage": "x"}}));
        let patched = hosts.patch("h1", &PatchParams::default(), &merge).await.unwrap();
        assert_eq!((at(&patched, "/spec/description"), patched.metadata.generation), (&json!("b"), Some(3)));
        // A whole one: it may be the first.
        let provisioning = json!({"ID": "", "state": ""});
        let status =
            json!({"errorMessage": "x", "operationalStatus": "", "poweredOn": false, "provisioning": provisioning});
        let merge = Patch::Merge(json!({"spec": {"description": "c"}, "status": status}));
        let of_status = hosts.patch_status("h1", &PatchParams::default(), &merge).await.unwrap();
        assert_eq!(at(&of_status, "/status/errorMessage"), &json!("x"));
        let strategic = Patch::Strategic(json!({"spec": {"online": false}}));
        assert_eq!(code(hosts.patch("h1", &PatchParams::default(), &strategic).await), 415);
        let strict = PatchParams::apply("suite").validation_strict();
        let typo = Patch::Merge(json!({"spec": {"onlin": true}}));
        assert_eq!(code(hosts.patch("h1", &strict, &typo).await), 422);
        let others = Preconditions { uid: Some("another".to_owned()), resource_version: None };
        let delete = DeleteParams::default().preconditions(others);
        assert_eq!(code(hosts.delete("h1", &delete).await.map(drop)), 409);
        let deleted = hosts.delete("h1", &DeleteParams::default()).await.unwrap();
        assert!(deleted.right().unwrap().is_success());
        assert!(hosts.get_opt("h1").await.unwrap().is_none());
    });
}

#[test]
fn kube_rs_lists_pages_and_metadata() {
    run(|world| async move {
        let (maps, post) = (world.maps(), PostParams::default());
        for name in ["a", "b", "c"] {
            maps.create(&post, &map(name, &[("k", "v")])).await.unwrap();
        }
        let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
        assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(1)));
        let token = first.metadata.continue_.clone().unwrap();
        maps.create(&post, &map("d", &[])).await.unwrap();
        let second = maps.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
        assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
        let names: Vec<String> = first.items.iter().chain(&second.items).map(|map| map.name_any()).collect();
        assert_eq!(names, ["a", "b", "c"], "what came later is not part of it");
        let metadata = maps.list_metadata(&ListParams::default().fields("metadata.name=d")).await.unwrap();
        assert_eq!(metadata.items[0].name_any(), "d");
        maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
    });
}

#[test]
fn kube_rs_applies_on_the_server() {
    run(|world| async move {
        let hosts = world.hosts();
        let described = |text: &str| {
            let mut host = host("h1");
            host.data["spec"]["description"] = json!(text);
            host
        };
        let (gitops, person) = (PatchParams::apply("gitops"), PatchParams::apply("person"));
        let made = hosts.patch("h1", &gitops, &Patch::Apply(described("a"))).await.unwrap();
        assert_eq!(made.metadata.generation, Some(1));
        let refused = hosts.patch("h1", &person, &Patch::Apply(described("b"))).await.unwrap_err();
        let kube::Error::Api(status) = refused else { panic!("{refused}") };
        assert_eq!(status.code, 409);
        assert!(status.message.contains("conflict with \"gitops\": .spec.description"), "{}", status.message);
        let forced = hosts.patch("h1", &person.clone().force(), &Patch::Apply(described("b"))).await.unwrap();
        assert_eq!(at(&forced, "/spec/description"), &json!("b"));
        let owners: Vec<_> = forced.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
        assert!(owners.contains(&"gitops") && owners.contains(&"person"), "{owners:?}");
        // The one who owns it alone leaves it out.
        let left = hosts.patch("h1", &person, &Patch::Apply(host("h1"))).await.unwrap();
        assert_eq!(at(&left, "/spec/description"), &json!(null));
        let same = hosts.patch("h1", &person, &Patch::Apply(host("h1"))).await.unwrap();
        assert_eq!(same.resource_version(), left.resource_version(), "nothing changed");
    });
}

#[test]
fn kube_rs_finds_kinds() {
    run(|world: World| async move {
        let kind = kube::api::GroupVersionKind::gvk("metal3.io", "v1alpha1", "BareMetalHost");
        let (resource, capabilities) = pinned_kind(&world.client, &kind).await.unwrap();
        assert_eq!(resource, host_resource());
        assert!(capabilities.subresources.iter().any(|(resource, _)| resource.plural == "status"));
        assert_eq!(world.client.apiserver_version().await.unwrap().major, "1");
    });
}
