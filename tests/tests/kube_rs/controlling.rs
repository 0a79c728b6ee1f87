//! A whole controller: a host has a ConfigMap of its own, which comes again when somebody deletes it, and
//! goes before the host goes.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::world::{World, at, host, host_resource, map, next, run, soon};

const FINALIZER: &str = "example.com/inventory";

type Failed = finalizer::Error<kube::Error>;

struct Context {
    hosts: Api<DynamicObject>,
    maps: Api<ConfigMap>,
}

async fn reconcile(host: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Failed> {
    finalizer(&context.hosts, FINALIZER, host, |event| async {
        match event {
            finalizer::Event::Apply(host) => keep(&context, &host).await,
            finalizer::Event::Cleanup(host) => {
                context.maps.delete(&host.name_any(), &DeleteParams::default()).await?;
                Ok(Action::await_change())
            }
        }
    })
    .await
}

/// Applies the ConfigMap, and says so in the host's status.
async fn keep(context: &Context, host: &DynamicObject) -> Result<Action, kube::Error> {
    let name = host.name_any();
    let mut wanted = map(&name, &[]);
    wanted.metadata.owner_references = host.controller_owner_ref(&host_resource()).map(|owner| vec![owner]);
    wanted.data = Some(BTreeMap::from([("generation".to_owned(), host.metadata.generation.unwrap_or(0).to_string())]));
    let manager = PatchParams::apply("inventory").force();
    context.maps.patch(&name, &manager, &Patch::Apply(wanted)).await?;
    let status = Patch::Merge(json!({"status": {"errorMessage": "inventoried"}}));
    context.hosts.patch_status(&name, &PatchParams::default(), &status).await?;
    Ok(Action::await_change())
}

fn on_error(_: Arc<DynamicObject>, error: &Failed, _: Arc<Context>) -> Action {
    println!("again, after: {error}");
    Action::requeue(Duration::from_millis(100))
}

#[test]
fn kube_rs_controls_with_owned_objects_and_finalizers() {
    for config in [Config::default(), Config::default().streaming_lists()] {
        run(|world| control(world, config));
    }
}

async fn control(world: World, config: Config) {
    let (hosts, maps) = (world.hosts(), world.maps());
    let context = Arc::new(Context { hosts: hosts.clone(), maps: maps.clone() });
    let controller = Controller::new_with(hosts.clone(), config.clone(), host_resource()).owns(maps.clone(), config);
    let controlling = tokio::spawn(controller.run(reconcile, on_error, context).for_each(|_| async {}));
    let mut seen = pin!(watcher::watcher(maps.clone(), Config::default()));
    while !matches!(next(&mut seen).await.unwrap(), Event::InitDone) {}

    let made = hosts.create(&PostParams::default(), &host("h1")).await.unwrap();
    let Event::Apply(owned) = next(&mut seen).await.unwrap() else { panic!("the ConfigMap was expected") };
    assert_eq!(owned.owner_references()[0].uid, made.uid().unwrap());
    assert_eq!(owned.data.as_ref().unwrap()["generation"], "1");

    // Who deletes it has it made anew.
    maps.delete("h1", &DeleteParams::default()).await.unwrap();
    assert!(matches!(next(&mut seen).await.unwrap(), Event::Delete(_)));
    let Event::Apply(again) = next(&mut seen).await.unwrap() else { panic!("the ConfigMap was expected again") };
    assert_ne!(again.uid(), owned.uid());

    // A change of the host is a change of the ConfigMap.
    let offline = Patch::Merge(json!({"spec": {"online": false}}));
    hosts.patch("h1", &PatchParams::default(), &offline).await.unwrap();
    let Event::Apply(changed) = next(&mut seen).await.unwrap() else { panic!("a change was expected") };
    assert_eq!(changed.data.as_ref().unwrap()["generation"], "2");
    let said = hosts.get("h1").await.unwrap();
    assert_eq!(
        (at(&said, "/status/errorMessage"), said.finalizers()),
        (&json!("inventoried"), &[FINALIZER.to_owned()][..])
    );

    // The host is held until the ConfigMap is gone.
    let held = hosts.delete("h1", &DeleteParams::default()).await.unwrap();
    assert!(held.left().unwrap().metadata.deletion_timestamp.is_some());
    assert!(matches!(next(&mut seen).await.unwrap(), Event::Delete(_)));
    soon(async { while hosts.get_opt("h1").await.unwrap().is_some() {} }).await;
    controlling.abort();
}
