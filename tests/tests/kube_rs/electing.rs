//! Leader election: compare-and-swap on a Lease.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::task::JoinSet;

use crate::world::{NAMESPACE, run};

const CANDIDATES: usize = 8;
const TERMS: i32 = 10;

/// Takes the Lease that it has read, for the next term. None: another one was faster.
async fn stand(leases: Api<Lease>, mut seen: Lease, name: String, term: i32) -> Option<String> {
    let spec = seen.spec.get_or_insert_default();
    spec.holder_identity = Some(name.clone());
    spec.lease_transitions = Some(term);
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    match leases.replace("suite", &PostParams::default(), &seen).await {
        Ok(_) => Some(name),
        Err(kube::Error::Api(status)) if status.code == 409 => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn kube_rs_elects_one_leader_a_term() {
    run(|world| async move {
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), NAMESPACE);
        let spec = LeaseSpec { lease_duration_seconds: Some(15), ..LeaseSpec::default() };
        let metadata = ObjectMeta { name: Some("suite".to_owned()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(spec) };
        // Of all who make it, one has made it.
        let mut makers = JoinSet::new();
        for _ in 0..CANDIDATES {
            let (leases, lease) = (leases.clone(), lease.clone());
            makers.spawn(async move { leases.create(&PostParams::default(), &lease).await.is_ok() });
        }
        assert_eq!(makers.join_all().await.into_iter().filter(|made| *made).count(), 1);
        for term in 1..=TERMS {
            let seen = leases.get("suite").await.unwrap();
            let mut candidates = JoinSet::new();
            for number in 0..CANDIDATES {
                candidates.spawn(stand(leases.clone(), seen.clone(), format!("candidate-{number}"), term));
            }
            let leaders: Vec<String> = candidates.join_all().await.into_iter().flatten().collect();
            assert_eq!(leaders.len(), 1, "of term {term}");
            let stored = leases.get("suite").await.unwrap().spec.unwrap();
            assert_eq!((stored.holder_identity.as_ref(), stored.lease_transitions), (leaders.first(), Some(term)));
            assert!(stored.renew_time.is_some());
        }
    });
}
