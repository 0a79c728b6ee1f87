//! The event recorder: what a controller tells of an object. The same again is no new event, but a count more.

use std::pin::pin;

use k8s_openapi::api::core::v1::{Event as CoreEvent, ObjectReference};
use k8s_openapi::api::events::v1::Event as NewEvent;
use kube::api::{ListParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher::{self, Config};
use kube::{Api, Resource as _};

use crate::world::{NAMESPACE, code, host, host_resource, next, run};

fn happened(type_: EventType, reason: &str, secondary: Option<ObjectReference>) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some("rack 7".to_owned()),
        action: "Inventory".to_owned(),
        secondary,
    }
}

#[test]
fn kube_rs_records_events() {
    run(|world| async move {
        let made = world.hosts().create(&PostParams::default(), &host("h1")).await.unwrap();
        let of_host = made.object_ref(&host_resource());
        let reporter = Reporter { controller: "example.com/inventory".into(), instance: Some("inventory-0".into()) };
        let recorder = Recorder::new(world.client.clone(), reporter);
        let old: Api<CoreEvent> = Api::namespaced(world.client.clone(), NAMESPACE);
        let new: Api<NewEvent> = Api::namespaced(world.client.clone(), NAMESPACE);
        let selected = Config::default().fields("involvedObject.name=h1,reason=Counted");
        let mut seen = pin!(watcher::watcher(old.clone(), selected).applied_objects());

        let map = ObjectReference { kind: Some("ConfigMap".into()), name: Some("rack-7".into()), ..Default::default() };
        let counted = happened(EventType::Normal, "Counted", Some(map.clone()));
        let lost = happened(EventType::Warning, "Lost", None);
        // Written in the new group; who reads core's gets the same event.
        for count in [None, Some(2), Some(3)] {
            recorder.publish(&counted, &of_host).await.unwrap();
            let told = next(&mut seen).await.unwrap();
            assert_eq!(told.series.as_ref().and_then(|series| series.count), count);
            assert_eq!((&told.involved_object, told.related.as_ref()), (&of_host, Some(&map)));
            let words = [&told.message, &told.action, &told.type_, &told.reporting_component, &told.reporting_instance];
            let words = words.map(|word| word.as_deref().unwrap());
            assert_eq!(words, ["rack 7", "Inventory", "Normal", "example.com/inventory", "inventory-0"]);
            assert!(told.event_time.is_some());
        }
        recorder.publish(&lost, &of_host).await.unwrap();
        let all = new.list(&ListParams::default()).await.unwrap();
        assert_eq!(all.items.len(), 2);
        let warnings = new.list(&ListParams::default().fields("type=Warning")).await.unwrap();
        let [warning] = &warnings.items[..] else { panic!("one event was expected") };
        assert_eq!((warning.reason.as_deref(), warning.series.as_ref()), (Some("Lost"), None));
        assert_eq!(warning.regarding.as_ref(), Some(&of_host));

        // In a namespace that is not there nobody can tell anything.
        let elsewhere = ObjectReference { namespace: Some("nowhere".into()), ..of_host };
        assert_eq!(code(recorder.publish(&lost, &elsewhere).await), 404);
    });
}
