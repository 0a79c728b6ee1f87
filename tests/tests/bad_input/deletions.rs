//! Hosts with an OS that are deleted in each way that Kubernetes knows: they are there until they are cleaned, or
//! until a person lets them go.

use firesteel_kube::{ObjectPart, ObjectTarget, Objects, Preconditions, Propagation, WriteOptions};
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_resources::host_journal::TimelineEvent;
use firesteel_resources::{BareMetalHost, HostJournal, Image};

use crate::appliance::{Appliance, NAMESPACE, until};

const STATUS: &str = r#"{"provisioning":{"state":"provisioned","ID":"0a0b","image":{"url":"http://192.0.2.9/a.raw"}}}"#;

/// A host that was moved here with its OS, and that a consumer has.
async fn add(appliance: &Appliance, namespace: &str, name: &str, mac: &str) {
    let mut host = BareMetalHost::default();
    host.metadata.name = name.into();
    host.metadata.namespace = namespace.into();
    host.metadata.annotations.insert(annotations::STATUS_OF.into(), STATUS.into());
    host.spec.online = true;
    host.spec.boot_mac_address = mac.into();
    let consumer = serde_json::json!({"kind": "Metal3Machine", "name": "tenant", "namespace": namespace});
    host.spec.consumer_ref = Some(serde_json::from_value(consumer).unwrap());
    let image = Image { url: "http://192.0.2.9/a.raw".into(), checksum: "0".repeat(64), ..Image::default() };
    host.spec.image = Some(image);
    appliance.hosts.create(&host).await.unwrap();
    until("the host goes on with its OS", async || {
        let host = appliance.hosts.get(namespace, name).await.unwrap().unwrap();
        let state = host.status.map(|status| status.provisioning.state);
        // Without the finalizer nobody would wait for its cleaning.
        state == Some(S::Provisioned) && !host.metadata.finalizers.is_empty()
    })
    .await;
}

/// `None`: it is gone.
async fn state(appliance: &Appliance, namespace: &str, name: &str) -> Option<S> {
    let host = appliance.hosts.get(namespace, name).await.unwrap()?;
    Some(host.status.map(|status| status.provisioning.state).unwrap_or_default())
}

async fn delete(appliance: &Appliance, kind: &str, namespace: &str, name: &str, propagation: Option<Propagation>) {
    let kind = appliance.core.registry().kinds().iter().find(|known| known.kind == kind).unwrap().clone();
    let target = ObjectTarget { kind: &kind, namespace, name };
    let options = WriteOptions::default();
    appliance.core.delete(target, &Preconditions::default(), propagation, options).await.unwrap();
}

/// The host waits for an agent to clean it, and what is known of it stays.
async fn is_held(appliance: &Appliance, namespace: &str, name: &str) {
    until("the host is being cleaned", async || {
        let state = state(appliance, namespace, name).await.expect("the host was let go with its tenant's data");
        state == S::Deprovisioning
    })
    .await;
    let host = appliance.hosts.get(namespace, name).await.unwrap().unwrap();
    let journals: Objects<HostJournal> = Objects::new(&appliance.core, "firesteel.dev", "HostJournal").unwrap();
    let journal = journals.get(namespace, name).await.unwrap().expect("the journal was collected");
    assert_eq!(journal.metadata.owner_references[0].uid, host.metadata.uid);
    let begun_anew = |event: &&TimelineEvent| event.detail.contains("registering") || event.detail.contains("deleting");
    let wrong: Vec<_> = journal.status.timeline.iter().filter(begun_anew).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

async fn release(appliance: &Appliance, namespace: &str, name: &str) {
    let force = |host: &mut BareMetalHost| {
        host.metadata.annotations.insert(annotations::RELEASE_FORCE.into(), String::new());
    };
    appliance.hosts.modify(namespace, name, ObjectPart::Main, force).await.unwrap();
    until("the host is let go", async || state(appliance, namespace, name).await.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_cleaned_whatever_becomes_of_its_dependents() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let all = [None, Some(Propagation::Background), Some(Propagation::Foreground), Some(Propagation::Orphan)];
    for (number, propagation) in all.into_iter().enumerate() {
        println!("{propagation:?}");
        let name = format!("host-{number}");
        add(&appliance, NAMESPACE, &name, &format!("52:54:00:00:00:0{number}")).await;
        delete(&appliance, "BareMetalHost", NAMESPACE, &name, propagation).await;
        is_held(&appliance, NAMESPACE, &name).await;
        release(&appliance, NAMESPACE, &name).await;
        until("nothing is left of it", async || appliance.journal(&name).await.metadata.uid.is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_goes_has_its_hosts_cleaned_and_they_can_be_released() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.core.ensure_namespace("rack1").await.unwrap();
    add(&appliance, "rack1", "a", "52:54:00:00:00:01").await;
    delete(&appliance, "Namespace", "", "rack1", None).await;
    is_held(&appliance, "rack1", "a").await;
    release(&appliance, "rack1", "a").await;
    let kind = appliance.core.registry().kinds().iter().find(|known| known.kind == "Namespace").unwrap().clone();
    let target = ObjectTarget { kind: &kind, namespace: "", name: "rack1" };
    until("the namespace is gone", async || appliance.core.get(target).await.is_err()).await;
}
