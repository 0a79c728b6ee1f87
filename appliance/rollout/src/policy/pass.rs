//! One pass of the policy over all sets.

use std::{collections::BTreeSet, time::Duration};

use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::policy::{self, PolicyInputs, PolicyStep, SetDecision, SetKey, Trigger};
use firesteel_plan::skew;
use firesteel_resources::{MachineConfiguration, machine_configuration::SINGLETON};
use jiff::Timestamp;

use super::{AGAIN, persisted_policy::PersistedPolicy, sets::PolicySets, status};
use crate::RolloutController;
use crate::groups::{GroupCandidate, name_of_image};

/// The version of this appliance.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is kept between passes in this process.
#[derive(Debug)]
pub(super) struct PolicyReconciler {
    control: RolloutController,
    /// Sets of which an event has said that they cannot be changed.
    told: BTreeSet<SetKey>,
}

impl PolicyReconciler {
    pub(super) fn new(control: RolloutController) -> Self {
        Self { control, told: BTreeSet::new() }
    }

    /// Returns when to look again, though nothing happens.
    ///
    /// # Errors
    /// When the store fails, or the policy was written meanwhile.
    pub(super) async fn pass(&mut self, trigger: Trigger) -> Result<Option<Duration>, Status> {
        let control = self.control.clone();
        control.learn_places(None).await;
        let configuration = control.configuration().await?;
        control.inner.policy.begin();
        let mut sets = control.sets().await?;
        control.inner.policy.end();
        let mut kept = PersistedPolicy::of(&configuration);
        let upgrade = kept.upgrade(VERSION, &control.unseen_hosts());
        let now = control.handles().now();
        let decided =
            decide(&control, &configuration, &mut sets, &mut kept, upgrade.as_deref(), PassStart { trigger, now });
        let skew = skew::decide(
            &skew::SkewInputs {
                wanted: configuration.spec.boot_image_skew_enforcement.as_ref(),
                effective: &decided.effective,
                decisions: &decided.decisions,
                releases: &sets.releases,
                minimum: control.config().boot_image_minimum,
            },
            &kept.skew,
        );
        kept.skew = skew.recorded.clone();
        let generation = configuration.metadata.generation;
        let status = status::status(&configuration.status, generation, &decided, &skew, &kept, now);
        if status != configuration.status {
            let stored = MachineConfiguration { status, ..configuration };
            control.inner.configurations.update_status(&stored).await?;
        }
        control.inner.policy.publish_result(&decided, &skew.upgradeable);
        self.record_set_events(&decided, &sets);
        let has_failed = self.write(&decided, &sets, &mut kept).await?;
        if has_failed {
            // The status says what failed, and when it is tried again.
            control.inner.policy.ring(Trigger::Retried);
        }
        let next = decided.wake.map(|at| at.duration_since(now)).filter(|left| left.is_positive());
        let next = next.map(|left| left.unsigned_abs());
        let again = (upgrade.is_some() || sets.is_partial).then_some(AGAIN);
        Ok(next.into_iter().chain(again).min())
    }

    /// Changes the sets; whether that failed for one. The others go on.
    async fn write(&self, decided: &PolicyStep, sets: &PolicySets, kept: &mut PersistedPolicy) -> Result<bool, Status> {
        let control = &self.control;
        let mut has_failed = false;
        for (key, decision) in &decided.decisions {
            let (SetDecision::Patch { reference, stub }, Some(place)) = (decision, sets.places.get(key)) else {
                continue;
            };
            match control.patch_set(key, place, reference.as_ref(), *stub).await {
                Ok(()) => {
                    let image =
                        reference.as_ref().map(|image| format!("its boot image is {} now", name_of_image(image)));
                    let stub = stub.then(|| "its stub was brought to the current version".to_owned());
                    let message = [image, stub].into_iter().flatten().collect::<Vec<_>>().join("; ");
                    tracing::info!(set = %key, "{message}");
                    control.handles().events.record_about(place.regarding.clone(), "BootImageChanged", false, message);
                }
                Err(status) => {
                    has_failed = true;
                    tracing::warn!(set = %key, error = %status.message, "could not change a boot image; it is tried again");
                    kept.sets.failed(key, &status.message, control.handles().now());
                }
            }
        }
        if has_failed {
            let memory = kept.to_value();
            let write = |stored: &mut MachineConfiguration| stored.status.boot_image_memory = memory.clone();
            control.inner.configurations.modify("", SINGLETON, ObjectPart::Status, write).await?;
        }
        Ok(has_failed)
    }

    /// Events of sets that cannot be changed, once each until they can.
    fn record_set_events(&mut self, decided: &PolicyStep, sets: &PolicySets) {
        for (key, decision) in &decided.decisions {
            let why = match decision {
                SetDecision::Degraded(why) => why,
                // It may be tried again, and fail again.
                SetDecision::Patch { .. } | SetDecision::Wait(_) => continue,
                SetDecision::NotSelected | SetDecision::Done | SetDecision::Skip(_) => {
                    self.told.remove(key);
                    continue;
                }
            };
            if self.told.insert(key.clone())
                && let Some(place) = sets.places.get(key)
            {
                tracing::warn!(set = %key, "{why}");
                self.control.handles().events.record_about(
                    place.regarding.clone(),
                    "BootImageDegraded",
                    true,
                    why.clone(),
                );
            }
        }
        self.told.retain(|key| decided.decisions.contains_key(key));
    }
}

/// Why a pass began, and when.
#[derive(Clone, Copy)]
struct PassStart {
    trigger: Trigger,
    now: Timestamp,
}

fn decide(
    control: &RolloutController,
    configuration: &MachineConfiguration,
    sets: &mut PolicySets,
    kept: &mut PersistedPolicy,
    upgrade: Option<&str>,
    start: PassStart,
) -> PolicyStep {
    kept.images.retain(|key, _| sets.places.contains_key(key));
    // What a set named itself tells its form, too.
    let former = kept.images.values().chain(&sets.former).cloned().collect();
    let catalogue = control.config().index.catalogue(former);
    sets.recognise(&catalogue, &mut kept.images);
    let fleet = control.architectures();
    let seen = PolicyInputs {
        policy: Some(configuration),
        catalogue: &catalogue,
        sets: &sets.sets,
        fleet: &fleet,
        upgrade,
        trigger: start.trigger,
        now: start.now,
    };
    let decided = policy::decide(&seen, &kept.sets);
    kept.sets = decided.memory.clone();
    decided
}

impl RolloutController {
    /// The upgrade of the appliance that is under way, in words: what is new is held until it has ended.
    pub(crate) fn upgrade_under_way(&self, configuration: &MachineConfiguration) -> Option<String> {
        PersistedPolicy::of(configuration).upgrade(VERSION, &self.unseen_hosts())
    }

    /// The one policy, made where there is none.
    async fn configuration(&self) -> Result<MachineConfiguration, Status> {
        if let Some(found) = self.inner.configurations.get("", SINGLETON).await? {
            return Ok(found);
        }
        let mut new = MachineConfiguration::default();
        SINGLETON.clone_into(&mut new.metadata.name);
        self.inner.configurations.create(&new).await
    }

    /// Hosts that were not stepped since the start, without those that cannot be: they would hold up all others
    /// forever.
    fn unseen_hosts(&self) -> Vec<String> {
        let known = self.known();
        let cannot_be = |place: &GroupCandidate| place.is_unreadable;
        let unseen =
            known.hosts().filter(|(_, host)| !host.kept.is_stepped && !host.kept.place.as_ref().is_some_and(cannot_be));
        let mut names: Vec<String> = unseen.map(|(key, _)| key.to_string()).collect();
        names.sort();
        names
    }
}
