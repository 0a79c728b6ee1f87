//! What a host claims to have done: signed where its plan asked for it, and nowhere else.

use firesteel_control::receipts::file::{ReceiptFileError, verify};
use firesteel_tests::honest;
use firesteel_wire::{DiskIdentity, Evidence, PlanStep, erasure::ErasurePolicy};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::agent::{Agent, End};
use crate::appliance::{Appliance, NAMESPACE, RECEIPT_SEED, until};
use crate::images::{noise, published};

const MAC: &str = "02:00:00:00:07:01";

fn cleared(disk: &DiskIdentity) -> Evidence {
    Evidence::MetadataCleared {
        disk: disk.clone(),
        device: "/dev/sda\u{1b}[2J".into(),
        cleared: vec!["gpt".into()],
        verified_bytes: 1 << 20,
        overridden: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_a_plan_asked_for_is_signed_and_it_outlives_its_host() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let (_origin, image) = published(noise(2 << 20));
    appliance.add("host", MAC, Some(image)).await;
    let mut agent = Agent::boot(&appliance, MAC, 1).await;
    let End::WritePlan(plan) = agent.work(&appliance, "host").await else { panic!("no plan for the disk") };
    let Some(PlanStep::ClearMetadata { disk, .. }) = plan.steps.first() else { panic!("{:?}", plan.steps) };
    agent.claim(plan.number, 0, cleared(disk));
    agent.claim(plan.number, 1, cleared(&DiskIdentity { serial: "another".into(), ..disk.clone() }));
    agent.claim(plan.number + 1, 0, cleared(disk));
    agent.claim(plan.number, 4_000_000_000, cleared(disk));
    // Of the planned disk, and nothing that the plan asks for.
    agent.claim(plan.number, 1, Evidence::DiskErased(honest::erased(disk, ErasurePolicy::Full)));
    // What it is told next is no matter here; an idle agent is held.
    let is_kept = async || !appliance.receipts.list(Some(NAMESPACE)).await.unwrap().0.is_empty();
    tokio::select! {
        told = agent.report(&appliance) => drop(told),
        () = until("a receipt is kept", is_kept) => {}
    }
    drop(tokio::time::timeout(std::time::Duration::from_secs(2), agent.report(&appliance)).await);
    let (receipts, _) = appliance.receipts.list(Some(NAMESPACE)).await.unwrap();
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    let file = receipts[0].status.file.as_bytes();
    let public = |seed: [u8; 32]| Ed25519KeyPair::from_seed_unchecked(&seed).unwrap().public_key().as_ref().to_vec();
    let document = verify(&public(RECEIPT_SEED), file).unwrap();
    assert_eq!((document.disk.serial.as_str(), document.plan, document.step), ("A", plan.number, 0));
    assert!(!document.disk.device.contains('\u{1b}'), "{:?}", document.disk.device);
    assert_eq!(verify(&public([8; 32]), file), Err(ReceiptFileError::Forged));

    appliance
        .hosts
        .modify(NAMESPACE, "host", firesteel_kube::ObjectPart::Main, |host| {
            host.metadata.annotations.insert("firesteel.dev/release-force".into(), "true".into());
        })
        .await
        .unwrap();
    appliance.hosts.delete(NAMESPACE, "host").await.unwrap();
    until("the host is gone", async || appliance.hosts.get(NAMESPACE, "host").await.unwrap().is_none()).await;
    let (left, _) = appliance.receipts.list(Some(NAMESPACE)).await.unwrap();
    assert_eq!(left, receipts);
}
