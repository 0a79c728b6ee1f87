//! The verbs that write: what the request's options and body say, then [`Core`].

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::api::Answer;
use crate::apply;
use crate::core::{Change, Core, Preconditions, WriteOptions, Written};
use crate::list::{self, Selection};
use crate::negotiate;
use crate::patch::Patch;
use crate::query::{MANAGER_BYTES_MAX, Query};
use crate::rules::{Part, Target};
use crate::status::{Cause, Status};

/// A request's body, read whole.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    pub(crate) media_type: Option<String>,
    pub(crate) bytes: Bytes,
    /// The client's name of itself.
    pub(crate) agent: Option<String>,
}

impl Payload {
    fn object(&self, kind: &str) -> Result<Value, Status> {
        negotiate::parse_object(self.media_type.as_deref(), &self.bytes, kind)
    }

    /// Who writes without a name of its own: the program, without its version.
    fn agent(&self) -> &str {
        let name = self.agent.as_deref().unwrap_or_default().split('/').next().unwrap_or_default();
        let printable = name.find(|letter: char| letter.is_control()).map_or(name, |end| &name[..end]);
        let end = printable.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let end = end.take_while(|end| *end <= MANAGER_BYTES_MAX).last().unwrap_or(0);
        if end == 0 { "unknown" } else { &printable[..end] }
    }
}

pub(crate) async fn create(
    core: &Core,
    target: Target<'_>,
    query: &Query,
    payload: &Payload,
    selection: &Selection,
) -> Result<Answer, Status> {
    if target.kind.namespaced && target.namespace.is_empty() {
        return Err(Status::bad_request("an empty namespace may not be set during creation"));
    }
    let options = options(query, payload, "CreateOptions")?;
    let object = payload.object(target.kind.kind)?;
    let written = core.create(target, object, options).await?;
    Ok(Answer { code: StatusCode::CREATED, ..answer(core, selection, written) })
}

pub(crate) async fn update(
    core: &Core,
    target: Target<'_>,
    part: Part,
    query: &Query,
    payload: &Payload,
    selection: &Selection,
) -> Result<Answer, Status> {
    let options = options(query, payload, "UpdateOptions")?;
    let object = payload.object(target.kind.kind)?;
    let written = core.change(target, part, Change::Replace(&object), options).await?;
    Ok(answer(core, selection, written))
}

/// `refusal` is the answer where there is no object and an apply would have to make it.
pub(crate) async fn patch(
    core: &Core,
    target: Target<'_>,
    part: Part,
    query: &Query,
    payload: &Payload,
    selection: &Selection,
    refusal: Option<Status>,
) -> Result<Answer, Status> {
    let options = options(query, payload, "PatchOptions")?;
    if payload.media_type.as_deref() == Some(apply::APPLY) {
        return server_side_apply(core, target, part, query, payload, selection, refusal).await;
    }
    if query.force.is_some() {
        let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
    }
    let patch = Patch::parse(target.kind, payload.media_type.as_deref(), &payload.bytes)?;
    let written = core.change(target, part, Change::Patch(&patch), options).await?;
    Ok(answer(core, selection, written))
}

async fn server_side_apply(
    core: &Core,
    target: Target<'_>,
    part: Part,
    query: &Query,
    payload: &Payload,
    selection: &Selection,
    refusal: Option<Status>,
) -> Result<Answer, Status> {
    let options = options(query, payload, "PatchOptions")?;
    if query.field_manager.is_none() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
    }
    let configuration = apply::Configuration::parse(target.kind, part, &payload.bytes)?;
    let force = query.force.unwrap_or(false);
    let (written, created) = core.apply(target, part, &configuration, force, options, refusal).await?;
    let code = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Answer { code, ..answer(core, selection, written) })
}

pub(crate) async fn delete(
    core: &Core,
    target: Target<'_>,
    query: &Query,
    payload: &Payload,
    selection: &Selection,
) -> Result<Answer, Status> {
    let (preconditions, options, warnings) = delete_options(query, payload)?;
    let written = core.delete(target, &preconditions, options).await?;
    if !written.removed {
        return Ok(Answer { warnings, ..answer(core, selection, written) });
    }
    let mut details =
        json!({ "name": target.name, "kind": target.kind.plural, "uid": written.value["metadata"]["uid"] });
    if !target.kind.group.is_empty() {
        details["group"] = json!(target.kind.group);
    }
    let value =
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
    Ok(Answer { warnings, ..Answer::ok(value) })
}

pub(crate) async fn delete_collection(
    core: &Core,
    query: &Query,
    payload: &Payload,
    selection: &Selection,
) -> Result<Answer, Status> {
    let (preconditions, options, warnings) = delete_options(query, payload)?;
    let mut deleted = Vec::new();
    for object in list::matching(core, selection).await? {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or("");
        let target = Target { kind: &selection.kind, namespace: text("namespace"), name: text("name") };
        match core.delete(target, &preconditions, options).await {
            Ok(written) => deleted.push(written.value),
            // Somebody else deleted it first.
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
    }
    let metadata = json!({ "resourceVersion": core.store().current().to_string() });
    Ok(Answer { warnings, ..Answer::ok(list::show(core, selection, metadata, deleted)) })
}

fn answer(core: &Core, selection: &Selection, written: Written) -> Answer {
    Answer { warnings: written.warnings, ..Answer::ok(list::show_one(core, selection, written.value)) }
}

/// `name` is that of the verb's options in Kubernetes, for messages.
fn options<'a>(query: &'a Query, payload: &'a Payload, name: &str) -> Result<WriteOptions<'a>, Status> {
    Ok(WriteOptions {
        validation: query.validation(name)?,
        dry_run: query.is_dry_run(name)?,
        manager: query.manager(name)?.unwrap_or_else(|| payload.agent()),
    })
}

fn delete_options(
    query: &Query,
    payload: &Payload,
) -> Result<(Preconditions, WriteOptions<'static>, Vec<String>), Status> {
    let sent = if payload.bytes.is_empty() { json!({}) } else { payload.object("DeleteOptions")? };
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let mut query = query.clone();
    query.dry_run.extend(sent["dryRun"].as_array().into_iter().flatten().filter_map(string));
    let policy = query.propagation_policy.clone().or_else(|| string(&sent["propagationPolicy"]));
    let mut warnings = Vec::new();
    match policy.as_deref() {
        None | Some("" | "Background" | "Orphan") => {}
        Some("Foreground") => warnings.push(
            "propagationPolicy Foreground acts as Background here: the object does not wait for its dependents".into(),
        ),
        Some(other) => {
            let supported = ["Background", "Foreground", "Orphan"];
            let cause = Cause::not_supported("propagationPolicy", &json!(other), &supported);
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", vec![cause]));
        }
    }
    let preconditions = Preconditions {
        uid: string(&sent["preconditions"]["uid"]),
        resource_version: string(&sent["preconditions"]["resourceVersion"]),
    };
    let options = WriteOptions { dry_run: query.is_dry_run("DeleteOptions")?, ..WriteOptions::default() };
    Ok((preconditions, options, warnings))
}
