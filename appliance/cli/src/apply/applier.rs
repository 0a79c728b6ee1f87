//! One object of a file to the appliance: taken over if that is needed, and applied, or tried only.

use firesteel_kube::apply::Takeover;
use serde_json::{Value, json};

use super::object_view::view;
use super::takeover::{MANAGER, preview, takeover};
use super::target::ApplyTarget;
use super::{refusal, sent_object};
use crate::client::{ApiClient, ApiError, PatchedObject, is_conflict};
use crate::print_warning;

const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
/// The most tries of an apply while others change the object. The last one does not insist that nothing changes between
/// its two requests: a host reports every two seconds.
const TRIES: usize = 5;
/// The most fields of a creator that a warning lists.
const LEFT_SHOWN_MAX: usize = 8;

/// Applies objects to one appliance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applier<'a> {
    pub(crate) client: &'a ApiClient,
    /// Takes fields over that other managers own.
    pub(crate) force: bool,
    /// All is checked by the appliance, and nothing stored.
    pub(crate) dry_run: bool,
}

/// What an apply did to an object, or would do.
#[derive(Debug)]
pub(crate) struct AppliedObject {
    /// The object as it was; `None` if there was none.
    pub(crate) before: Option<Value>,
    pub(crate) after: Value,
}

/// How an apply changed an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyVerdict {
    Created,
    Configured,
    Unchanged,
}

impl AppliedObject {
    /// Compares both states. Owners of fields, and what the appliance counts, do not count.
    pub(crate) fn change(&self, target: &ApplyTarget) -> ApplyVerdict {
        match &self.before {
            None => ApplyVerdict::Created,
            Some(before) if view(&target.kind, before) == view(&target.kind, &self.after) => ApplyVerdict::Unchanged,
            Some(_) => ApplyVerdict::Configured,
        }
    }
}

impl Applier<'_> {
    /// Applies one object.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(crate) async fn apply(&self, target: &ApplyTarget, object: &Value) -> anyhow::Result<AppliedObject> {
        let object = sent_object::sent(object.clone());
        // The file itself may say of which revision the object has to be.
        let has_revision = object["metadata"]["resourceVersion"].is_string();
        let mut tries_left = TRIES;
        loop {
            tries_left -= 1;
            match self.try_once(target, &object, tries_left > 0).await {
                Err(error) if tries_left > 0 && !has_revision && refusal::is_modified(&error) => {}
                applied => return applied.map_err(refusal::explain),
            }
        }
    }

    /// With `is_guarded`, the apply fails if the object changed since it was read.
    async fn try_once(&self, target: &ApplyTarget, object: &Value, is_guarded: bool) -> anyhow::Result<AppliedObject> {
        let path = target.path();
        let Some(before) = self.client.get_if_there(&path).await? else {
            let sent = self.send(&path, object).await?;
            // Another client may have created it meanwhile: then nothing is known of the state before.
            return Ok(AppliedObject { before: (!sent.is_new).then_some(Value::Null), after: sent.value });
        };
        let mut object = object.clone();
        let mut revision = before["metadata"]["resourceVersion"].clone();
        let takeover = takeover(&target.kind);
        if let Some(owners) = takeover.before(&before["metadata"]["managedFields"]) {
            let mut claimed = before.clone();
            claimed["metadata"]["managedFields"] = json!(owners);
            let expected = preview(&target.kind, &claimed, &object, self.force).map_err(ApiError::from)?;
            // So an object that is refused keeps its owners.
            let after = self.client.replace(&with_query(&path, "&dryRun=All"), &expected).await?;
            if self.dry_run {
                return Ok(AppliedObject { before: Some(before), after });
            }
            let claimed = self.set_owners(&path, &owners, &revision).await?;
            revision = claimed["metadata"]["resourceVersion"].clone();
            // The revision that the file names was compared by the dry run.
            if object["metadata"]["resourceVersion"].is_string() {
                object["metadata"]["resourceVersion"] = revision.clone();
            }
        }
        if is_guarded && !object["metadata"]["resourceVersion"].is_string() {
            object["metadata"]["resourceVersion"] = revision;
        }
        let after = self.send(&path, &object).await?.value;
        self.finish_takeover(target, takeover, &before, &after).await;
        Ok(AppliedObject { before: Some(before), after })
    }

    async fn send(&self, path: &str, object: &Value) -> anyhow::Result<PatchedObject> {
        let dry_run = if self.dry_run { "&dryRun=All" } else { "" };
        let path = with_query(path, &format!("&force={}{dry_run}", self.force));
        self.client.patch(&path, APPLY, object).await
    }

    /// Rewrites the owners of an object's fields, if it is of this revision still.
    async fn set_owners(&self, path: &str, owners: &[Value], revision: &Value) -> anyhow::Result<Value> {
        // An operation `test` of the revision would fail as a faulty patch, and not as a conflict.
        let patch = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": owners},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": revision},
        ]);
        Ok(self.client.patch(&with_query(path, ""), JSON_PATCH, &patch).await?.value)
    }

    /// Takes the fields that the file names from the command that made the object, and says which other fields stay.
    async fn finish_takeover(&self, target: &ApplyTarget, takeover: Takeover<'_>, before: &Value, after: &Value) {
        let entries = &after["metadata"]["managedFields"];
        if takeover.is_first(&before["metadata"]["managedFields"]) {
            for left in takeover.left_to_creators(entries, LEFT_SHOWN_MAX) {
                let is_news = |path: &&String| !has_default(&target.kind.schema, after, path);
                let paths: Vec<&str> = left.paths.iter().filter(is_news).map(String::as_str).collect();
                if paths.is_empty() {
                    continue;
                }
                print_warning(&format!(
                    "{}: the file does not have {}, which {} set: these stay until they are in the file once and then \
                     taken out of it",
                    target.title(),
                    paths.join(", "),
                    left.creator
                ));
            }
        }
        if after["metadata"]["deletionTimestamp"].is_string() {
            print_warning(&format!("{} is being deleted, and what is applied goes with it", target.title()));
        }
        if self.dry_run {
            return;
        }
        if let Err(error) = self.take_over(&target.path(), &takeover, after).await {
            print_warning(&format!(
                "{}: could not take over the fields that an earlier command set: {error}; the next apply tries it again",
                target.title()
            ));
        }
    }

    /// Makes the fields that the file names this command's own. The appliance changes objects all the time: a conflict
    /// is tried again with the newest state.
    async fn take_over(&self, path: &str, takeover: &Takeover<'_>, after: &Value) -> anyhow::Result<()> {
        let mut newest = after.clone();
        for attempt in 1.. {
            let Some(owners) = takeover.after(&newest["metadata"]["managedFields"]) else { break };
            match self.set_owners(path, &owners, &newest["metadata"]["resourceVersion"]).await {
                Ok(_) => break,
                Err(error) if is_conflict(&error) && attempt < TRIES => {
                    newest = self.client.get(path).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn with_query(path: &str, more: &str) -> String {
    format!("{path}?fieldManager={MANAGER}&fieldValidation=Strict{more}")
}

/// Returns whether the field at a path has the value that the appliance gives it by itself: no user set it.
fn has_default(schema: &Value, object: &Value, path: &str) -> bool {
    let (mut schema, mut value) = (schema, object);
    for name in path.split('.').skip(1) {
        (schema, value) = (&schema["properties"][name], &value[name]);
    }
    !schema["default"].is_null() && schema["default"] == *value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_no_ones_wish() {
        let schema = json!({"properties": {"spec": {"properties": {"mode": {"default": "metadata"}, "online": {}}}}});
        let object = json!({"spec": {"mode": "metadata", "online": true}});
        assert!(has_default(&schema, &object, ".spec.mode"));
        let others = [".spec.online", ".spec.absent", ".spec", ".spec.list[name=\"a\"].x"];
        assert!(!others.iter().any(|path| has_default(&schema, &object, path)));
        assert!(!has_default(&schema, &json!({"spec": {"mode": "disabled"}}), ".spec.mode"));
    }
}
