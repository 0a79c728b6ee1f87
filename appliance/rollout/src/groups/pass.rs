//! One pass over the groups of a namespace.

use std::{collections::BTreeMap, time::Duration};

use firesteel_ignition::stub::names::managed_name;
use firesteel_kube::Status;
use firesteel_plan::group::{self, Contested, GroupMember, ImageAssignment};
use firesteel_plan::policy::{self, CatalogueImage, PolicySet, StubOutcome};
use firesteel_resources::host_group::CHANGED_BY_ANNOTATION;
use firesteel_resources::machine_configuration::SINGLETON;
use firesteel_resources::{HostGroup, Image, MachineConfiguration};
use firesteel_runtime::{HostKey, regarding};
use jiff::Timestamp;
use serde_json::Value;

use super::images::{self, GroupImages};
use super::{AGAIN, GroupCandidate, SETTLE, group_events, hosts::DesiredHostSpec, write_conflicts::GIVES_MAX};
use crate::{RolloutController, policy::stubs};

/// The boot image policy cannot be read, for this reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("machineconfiguration/{SINGLETON} cannot be read: {0}")]
struct PolicyUnread(String);

/// What one pass looks at, beside a group itself.
struct GroupPassInputs {
    namespace: String,
    hosts: BTreeMap<String, GroupCandidate>,
    entries: Vec<CatalogueImage>,
    given: GroupImages,
    contested: BTreeMap<String, Contested>,
    /// The error: why it cannot be read.
    configuration: Result<Option<MachineConfiguration>, PolicyUnread>,
    upgrade: Option<String>,
}

impl GroupPassInputs {
    /// Why a group is not led to what its stream brings.
    fn holds(&self, set: &PolicySet) -> Option<String> {
        let alone = match &self.configuration {
            Ok(configuration) => policy::leaves_alone(configuration.as_ref(), set),
            Err(why) => Some(why.to_string()),
        };
        alone.or_else(|| self.upgrade.clone())
    }
}

impl RolloutController {
    /// Looks at the groups of a namespace, and returns when to look again, though nothing happens.
    ///
    /// # Errors
    /// When the store fails, for whatever group.
    pub(super) async fn groups_pass(&self, namespace: &str) -> Result<Option<Duration>, Status> {
        let groups = self.groups_of(namespace).await?;
        if groups.is_empty() {
            return Ok(None);
        }
        self.learn_places(Some(namespace)).await;
        let configuration = self.inner.configurations.get("", SINGLETON).await;
        let configuration = configuration.map_err(|status| {
            tracing::warn!(namespace, error = %status.message, "the boot image policy cannot be read");
            PolicyUnread(status.message)
        });
        let sight = self.pass_inputs(namespace, &groups, configuration);
        {
            let mut gives = self.inner.groups.gives();
            sight.hosts.values().filter(|place| !place.may_be_fought()).for_each(|place| gives.forget(&place.uid));
        }
        let mut wake: Option<Duration> = None;
        for group in groups {
            let name = group.metadata.name.clone();
            let next = match self.step_group(group, &sight).await {
                Ok(next) => next,
                // Another write came in between: that is to be seen first.
                Err(status) if status.is_conflict() => Some(SETTLE),
                Err(status) => {
                    tracing::warn!(namespace, group = %name, error = %status.message, "could not look at a group; it is tried again in five seconds");
                    Some(AGAIN)
                }
            };
            wake = wake.into_iter().chain(next).min();
        }
        Ok(wake)
    }

    /// The groups of a namespace that can be read and are not going.
    async fn groups_of(&self, namespace: &str) -> Result<Vec<HostGroup>, Status> {
        let (objects, _) = self.inner.group_values.list(Some(namespace)).await?;
        let groups = objects.into_iter().filter_map(|object| readable("HostGroup", object));
        Ok(groups.filter(|group: &HostGroup| !group.metadata.is_deleting()).collect())
    }

    fn pass_inputs(
        &self,
        namespace: &str,
        groups: &[HostGroup],
        configuration: Result<Option<MachineConfiguration>, PolicyUnread>,
    ) -> GroupPassInputs {
        let hosts: BTreeMap<String, GroupCandidate> = {
            let known = self.known();
            let own = known.hosts().filter(|(key, _)| key.namespace == namespace);
            own.filter_map(|(key, host)| Some((key.name.clone(), host.kept.place.clone()?))).collect()
        };
        let entries = self.config().index.entries();
        let given = GroupImages::of_all(groups, &entries);
        let selectors: Vec<_> =
            groups.iter().map(|group| (group.metadata.name.as_str(), &group.spec.selector)).collect();
        let members: Vec<GroupMember<'_>> =
            hosts.iter().map(|(name, place)| GroupMember { name, labels: &place.labels }).collect();
        let contested = group::contested(&selectors, &members);
        let upgrade = configuration.iter().flatten().find_map(|configuration| self.upgrade_under_way(configuration));
        let upgrade = upgrade.map(|upgrade| format!("{upgrade} is under way"));
        GroupPassInputs { namespace: namespace.to_owned(), hosts, entries, given, contested, configuration, upgrade }
    }

    async fn step_group(&self, group: HostGroup, sight: &GroupPassInputs) -> Result<Option<Duration>, Status> {
        let now = self.handles().now();
        let stub = self.stub_of_group(&group).await?;
        let fault = stubs::fault(&stub);
        let fleet = self.architectures();
        let own = GroupImages::of_group(&group);
        let members = sight.hosts.iter().filter(|(_, place)| group.spec.selector.matches(&place.labels));
        let hosts: Vec<_> = {
            let (gives, edition) = (self.inner.groups.gives(), edition(&group));
            let seen = |(name, place): (&String, &GroupCandidate)| {
                images::seen(name, place, gives.is_fought(&place.uid, &edition), &own, &sight.given)
            };
            members.map(seen).collect()
        };
        let set = PolicySet::of_group(&group, StubOutcome::NotReferenced);
        let held = sight.holds(&set);
        let catalogue = self.config().index.catalogue(Vec::new());
        let none = Contested::new();
        let step = group::step(&group::GroupInputs {
            group: &group,
            hosts: &hosts,
            catalogue: &catalogue,
            architecture: policy::architecture_of(&set, &fleet).ok(),
            contested: sight.contested.get(&group.metadata.name).unwrap_or(&none),
            held: held.as_deref(),
            stub_fault: fault.as_deref(),
            by: &changed_by(&group),
            now,
        });
        if step.status != group.status {
            let stored = HostGroup { status: step.status.clone(), ..group.clone() };
            self.inner.host_groups.update_status(&stored).await?;
            for told in group_events::changes(&group.status, &step.status) {
                tracing::info!(namespace = %sight.namespace, group = %group.metadata.name, reason = told.reason, "{}", told.message);
                let regarding = regarding("firesteel.dev/v1alpha1", "HostGroup", &group.metadata);
                self.handles().events.record_about(regarding, told.reason, told.is_warning, told.message);
            }
        }
        let mut wake = step.wake.map(|at| until(at, now));
        if sight.upgrade.is_some() {
            // Nothing tells of its end.
            wake = wake.into_iter().chain([AGAIN]).min();
        }
        for (name, give) in &step.gives {
            if self.give_one(&group, sight, name, give).await.is_err() {
                wake = wake.into_iter().chain([AGAIN]).min();
            }
        }
        Ok(wake)
    }

    /// Whether nothing is to be written to a host: what is wanted stands there, or is set back each time. What has
    /// changed about that shows with the next step.
    fn is_settled(&self, group: &HostGroup, place: &GroupCandidate, wanted: &DesiredHostSpec, is_there: bool) -> bool {
        let edition = edition(group);
        let (was_fought, is_fought) = {
            let mut gives = self.inner.groups.gives();
            let was = gives.is_fought(&place.uid, &edition);
            match (is_there, &wanted.image) {
                (true, Some(_)) => gives.stands(&place.uid),
                // A host that is fought over and waits is fought over still.
                (true, None) => {}
                (false, _) => drop(gives.refuses(&place.uid, &value_of(group, wanted))),
            }
            (was, gives.is_fought(&place.uid, &edition))
        };
        if was_fought != is_fought {
            self.inner.groups.wake(&group.metadata.namespace);
        }
        is_there || is_fought
    }

    /// Gives one host its image. An error is logged already; the other hosts go on.
    async fn give_one(
        &self,
        group: &HostGroup,
        sight: &GroupPassInputs,
        name: &str,
        give: &ImageAssignment,
    ) -> Result<(), ()> {
        let Some(place) = sight.hosts.get(name) else { return Ok(()) };
        let Some(image) = place.open() else { return Ok(()) };
        let wanted = wanted(group, place, give, &sight.entries);
        if self.is_settled(group, place, &wanted, wanted.is_there(image, &place.user_data)) {
            return Ok(());
        }
        let key = HostKey { namespace: sight.namespace.clone(), name: name.to_owned() };
        let may = |now: &GroupCandidate| {
            let is_given = |image: &Image| sight.given.find(image).is_some();
            // Its labels, and what is known of its hardware, may be others by now.
            group.spec.selector.matches(&now.labels)
                && (now.is_measured, now.sector_bytes) == (place.is_measured, place.sector_bytes)
                && now.open().is_some_and(|image| image.is_none_or(is_given))
        };
        match self.give(&key, &place.uid, &wanted, &may).await {
            Ok(false) => {}
            Ok(true) => {
                let is_last = self.inner.groups.gives().count(&place.uid, &value_of(group, &wanted));
                let group = &group.metadata.name;
                let (reason, message) = match give {
                    ImageAssignment::Image(image) if wanted.image.is_some() => {
                        ("ImageGiven", format!("the group {group} gives it {}", group_events::name(image)))
                    }
                    ImageAssignment::Image(_) => {
                        ("ImageTakenBack", format!("the group {group} lets it wait until its hardware is known"))
                    }
                    ImageAssignment::Wait(why) => {
                        ("ImageTakenBack", format!("the group {group} lets it wait: {}", why.message))
                    }
                };
                tracing::info!(host = %key, reason, "{message}");
                self.handles().events.record_event(&key, &place.uid, reason, false, message);
                if is_last {
                    let message = format!(
                        "the group {group} has written its image {GIVES_MAX} times; if something else sets it back again, \
                         it stays so: find and stop the other writer, then change the group's spec"
                    );
                    tracing::warn!(host = %key, "{message}");
                    self.handles().events.record_event(&key, &place.uid, "ImageFought", true, message);
                }
            }
            Err(status) => {
                tracing::warn!(host = %key, group = %group.metadata.name, error = %status.message, "could not give an image to a host; it is tried again in five seconds");
                return Err(());
            }
        }
        Ok(())
    }
}

/// What a host's spec is to say. A host whose hardware is not known yet may keep what it has, and is given nothing
/// else: which form of an image suits it is known when it was inspected, and then it is too late to take another one
/// back.
fn wanted(
    group: &HostGroup,
    place: &GroupCandidate,
    give: &ImageAssignment,
    entries: &[CatalogueImage],
) -> DesiredHostSpec {
    let nothing = DesiredHostSpec { image: None, user_data: None };
    let ImageAssignment::Image(reference) = give else { return nothing };
    let pool = &group.spec.pool;
    let whole = DesiredHostSpec {
        image: Some(images::image_for(reference, place, entries)),
        user_data: (!pool.is_empty()).then(|| managed_name(pool)),
    };
    let has_it = || place.open().is_some_and(|image| whole.is_there(image, &place.user_data));
    if place.is_measured || has_it() { whole } else { nothing }
}

/// Names the group as it is since its last edit, which begins the counting of writes again.
fn edition(group: &HostGroup) -> String {
    format!("{} {} ", group.metadata.uid, group.metadata.generation)
}

/// What is written, for telling the same from another.
fn value_of(group: &HostGroup, wanted: &DesiredHostSpec) -> String {
    let image = wanted.image.as_ref().map_or("", |image| image.checksum.as_str());
    let user_data = wanted.user_data.as_deref().unwrap_or_default();
    format!("{}{user_data} {image}", edition(group))
}

/// An object as its type, if it is one.
pub(crate) fn readable<T: serde::de::DeserializeOwned>(kind: &str, object: Value) -> Option<T> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match serde_json::from_value(object) {
        Ok(object) => Some(object),
        Err(error) => {
            // Each pass comes by it: the log has had an error when it was first seen.
            tracing::debug!(kind, %name, %error, "a stored object cannot be read; it is left alone");
            None
        }
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    let left = at.duration_since(now);
    if left.is_positive() { left.unsigned_abs() } else { Duration::ZERO }
}

/// Who wrote the group's spec last, as the object itself tells: the person, the program and the generation. A group of
/// an older version does not name the person until its spec is changed.
fn changed_by(group: &HostGroup) -> String {
    let generation = group.metadata.generation;
    let person = group.metadata.annotation(CHANGED_BY_ANNOTATION).filter(|person| !person.is_empty());
    let entries = group.metadata.rest.get("managedFields").and_then(Value::as_array);
    let of_spec = |entry: &&Value| {
        entry["subresource"].as_str().unwrap_or_default().is_empty() && entry["fieldsV1"].get("f:spec").is_some()
    };
    let time = |entry: &Value| entry["time"].as_str().unwrap_or_default().to_owned();
    let newest = entries.into_iter().flatten().filter(of_spec).max_by_key(|entry| time(entry));
    let program = newest.and_then(|entry| entry["manager"].as_str());
    match (person, program) {
        (Some(person), Some(program)) => format!("{person} ({program}), generation {generation}"),
        (Some(one), None) | (None, Some(one)) => format!("{one}, generation {generation}"),
        (None, None) => format!("generation {generation}"),
    }
}

#[cfg(test)]
mod tests {
    use firesteel_plan::group::{GroupWait, GroupWaitReason};
    use firesteel_resources::host_group::ImageReference;
    use serde_json::json;

    use super::super::eligibility::RolloutEligibility;
    use super::*;

    #[test]
    fn a_host_gets_nothing_new_before_its_hardware_is_known() {
        let reference = ImageReference { url: "http://a/own".into(), digest: "dd".into(), ..ImageReference::default() };
        let image = Image { url: "http://a/own".into(), checksum: "dd".into(), ..Image::default() };
        let group = HostGroup::default();
        let of = |has: Option<&Image>, is_measured: bool, give: &ImageAssignment| {
            let stand = RolloutEligibility::Open { wanted: has.cloned(), failed: None };
            let place = GroupCandidate { stand, is_measured, ..GroupCandidate::unreadable("u", String::new()) };
            wanted(&group, &place, give, &[]).image
        };
        let give = ImageAssignment::Image(reference);
        let old = Image { url: "http://a/old".into(), ..image.clone() };
        assert_eq!(of(None, true, &give), Some(image.clone()));
        assert_eq!(of(None, false, &give), None);
        assert_eq!(of(Some(&old), false, &give), None, "it would be installed at once when it was inspected");
        assert_eq!(of(Some(&image), false, &give), Some(image.clone()), "nobody writes twice what stands there");
        assert_eq!(of(Some(&image), true, &ImageAssignment::Wait(GroupWait::new(GroupWaitReason::Held, "w"))), None);
    }

    #[test]
    fn who_wrote_the_spec_last_is_told_by_the_object() {
        let mut group = HostGroup::default();
        group.metadata.generation = 4;
        assert_eq!(changed_by(&group), "generation 4");
        let entry = |manager: &str, time: &str, subresource: &str, part: &str| json!({"manager": manager, "time": time, "subresource": subresource, "fieldsV1": {part: {}}});
        group.metadata.rest.insert(
            "managedFields".to_owned(),
            json!([
                entry("kubectl-create", "2026-01-01T00:00:00Z", "", "f:spec"),
                entry("kubectl-edit", "2026-01-02T00:00:00Z", "", "f:spec"),
                entry("firesteel", "2026-01-03T00:00:00Z", "status", "f:status"),
                entry("kubectl-label", "2026-01-03T00:00:00Z", "", "f:metadata"),
            ]),
        );
        assert_eq!(changed_by(&group), "kubectl-edit, generation 4");
        group.metadata.annotations.insert(CHANGED_BY_ANNOTATION.to_owned(), "ann".to_owned());
        assert_eq!(changed_by(&group), "ann (kubectl-edit), generation 4");
        group.metadata.rest.clear();
        assert_eq!(changed_by(&group), "ann, generation 4");
    }

    #[test]
    fn what_is_due_already_is_due_now() {
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        assert_eq!(until(at(9), at(2)), Duration::from_secs(7));
        assert_eq!(until(at(2), at(9)), Duration::ZERO);
    }
}
