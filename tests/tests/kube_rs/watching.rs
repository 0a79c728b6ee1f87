//! Watches in both ways, the reflector, and what becomes of them when history is gone.

use std::pin::pin;

use futures_util::Stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, ResourceExt as _};

use crate::world::{NAMESPACE, World, map, next, run};

/// A list, page by page, and a watch from there on; or one watch that begins with what there is.
fn both_ways() -> [Config; 2] {
    [Config::default().page_size(1), Config::default().streaming_lists()]
}

/// Reads an event as text.
async fn told(stream: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin)) -> String {
    next(stream).await.unwrap().to_string()
}

#[test]
fn kube_rs_watches_in_both_ways() {
    run(|world| async move {
        let (maps, post) = (world.maps(), PostParams::default());
        for config in both_ways() {
            for name in ["a", "b"] {
                maps.create(&post, &map(name, &[])).await.unwrap();
            }
            let mut stream = pin!(watcher::watcher(maps.clone(), config));
            let mut first = Vec::new();
            while first.last().is_none_or(|event| event != "InitDone") {
                first.push(told(&mut stream).await);
            }
            assert_eq!(first, ["Init", "InitApply(a)", "InitApply(b)", "InitDone"]);
            maps.create(&post, &map("c", &[])).await.unwrap();
            maps.delete("a", &DeleteParams::default()).await.unwrap();
            assert_eq!(told(&mut stream).await, "Apply(c)");
            assert_eq!(told(&mut stream).await, "Delete(a)");
            for name in ["b", "c"] {
                maps.delete(name, &DeleteParams::default()).await.unwrap();
                assert_eq!(told(&mut stream).await, format!("Delete({name})"));
            }
        }
    });
}

/// What Cluster API's controllers do: the metadata of all objects of a kind, and no more.
#[test]
fn kube_rs_watches_metadata() {
    run(|world| async move {
        let maps = world.maps();
        maps.create(&PostParams::default(), &map("a", &[("k", "v")])).await.unwrap();
        let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(world.client.clone(), NAMESPACE);
        for config in both_ways() {
            let mut stream = pin!(watcher::watcher(metadata.clone(), config));
            assert!(matches!(next(&mut stream).await.unwrap(), Event::Init));
            let Event::InitApply(found) = next(&mut stream).await.unwrap() else { panic!("the object was expected") };
            assert_eq!(found.name_any(), "a");
            assert!(matches!(next(&mut stream).await.unwrap(), Event::InitDone));
        }
    });
}

#[test]
fn kube_rs_reflects() {
    run(|world| async move {
        let (maps, post) = (world.maps(), PostParams::default());
        maps.create(&post, &map("a", &[("k", "1")])).await.unwrap();
        let (store, writer) = reflector::store();
        let mut stream = pin!(watcher::watcher(maps.clone(), Config::default()).reflect(writer).applied_objects());
        assert_eq!(next(&mut stream).await.unwrap().name_any(), "a");
        maps.create(&post, &map("b", &[("k", "2")])).await.unwrap();
        assert_eq!(next(&mut stream).await.unwrap().name_any(), "b");
        let found = store.get(&ObjectRef::new("b").within(NAMESPACE)).unwrap();
        assert_eq!(found.data.as_ref().unwrap()["k"], "2");
        assert_eq!(store.state().len(), 2);
    });
}

/// The appliance comes again and knows nothing of what was before: whoever followed begins anew by itself.
#[test]
fn kube_rs_recovers_from_a_history_that_is_gone() {
    for config in both_ways() {
        run(|world| recover(world, config));
    }
}

async fn recover(world: World, config: Config) {
    let (maps, post) = (world.maps(), PostParams::default());
    maps.create(&post, &map("a", &[])).await.unwrap();
    let (store, writer) = reflector::store();
    let mut stream = pin!(watcher::watcher(maps.clone(), config).default_backoff().reflect(writer));
    while !matches!(next(&mut stream).await.unwrap(), Event::InitDone) {}
    world.forget_history();
    // Pooled connections to the process that is gone fail once.
    while maps.create(&post, &map("b", &[])).await.is_err() {}
    let mut expired = false;
    loop {
        match next(&mut stream).await {
            Ok(Event::InitDone) => break,
            Ok(_) => {}
            Err(watcher::Error::WatchError(status)) => expired |= status.code == 410 && status.reason == "Expired",
            Err(_) => {}
        }
    }
    assert!(expired, "it was told that its revision is too old");
    let mut names: Vec<String> = store.state().iter().map(|map| map.name_any()).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
    maps.create(&post, &map("c", &[])).await.unwrap();
    loop {
        if let Event::Apply(found) = next(&mut stream).await.unwrap() {
            assert_eq!(found.name_any(), "c");
            break;
        }
    }
}
