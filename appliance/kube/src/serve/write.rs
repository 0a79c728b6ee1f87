//! The verbs that write: what the request's options and body say, then [`Core`].

use bytes::Bytes;
use firesteel_kube_types::Cause;
use http::StatusCode;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::codec::json::{self, JsonDocument};
use crate::codec::negotiate::{self, ResponseFormat};
use crate::model::query::{MANAGER_BYTES_MAX, Query};
use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::deletion::{self, DeleteOptions, Propagation};
use crate::object::options::{ObjectUpdate, Preconditions, StoredWrite, WriteOptions, WriteOrigin};
use crate::object::patch::Patch;
use crate::object::selection::ListSelection;
use crate::object::terms::{ObjectPart, ObjectTarget};
use crate::object::{apply, heavy_json, rules, scale};
use crate::serve::respond::ApiResponse;
use crate::serve::{continue_token, list};

/// Objects that the answer to a deletion of many shows; of more it says that it was done. A page of
/// kubectl's.
const DELETED_SHOWN_MAX: usize = 500;

/// A request's body, read whole.
#[derive(Debug, Default)]
pub(crate) struct RequestPayload {
    pub(crate) media_type: Option<String>,
    pub(crate) bytes: Bytes,
    /// The client's name of itself.
    pub(crate) agent: Option<String>,
}

impl RequestPayload {
    /// Does something with the body, beside what is small.
    async fn read<T>(&self, read: impl FnOnce() -> T) -> T {
        heavy_json::CLIENTS.run(self.bytes.len(), read).await
    }

    fn object(&self, kind: &str) -> Result<JsonDocument, Status> {
        let document = negotiate::parse_document(self.media_type.as_deref(), &self.bytes, kind)?;
        json::check_width(&document.value)?;
        Ok(document)
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

/// The answers to a DELETE that may not be: of an object unread, and of one that is read.
#[derive(Debug)]
pub(crate) struct DeleteRefusals {
    pub(crate) unread: Option<Status>,
    pub(crate) read: Option<Status>,
}

/// A request that writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) core: &'a Core,
    pub(crate) target: ObjectTarget<'a>,
    pub(crate) part: ObjectPart,
    pub(crate) query: &'a Query,
    pub(crate) payload: &'a RequestPayload,
    pub(crate) selection: &'a ListSelection,
    pub(crate) origin: WriteOrigin<'a>,
    /// The caller's name.
    pub(crate) author: &'a str,
}

impl<'a> Write<'a> {
    pub(crate) async fn create(self) -> Result<ApiResponse, Status> {
        let Self { core, target, payload, .. } = self;
        if target.kind.namespaced && target.namespace.is_empty() {
            return Err(Status::bad_request("an empty namespace may not be set during creation"));
        }
        let options = self.options("CreateOptions")?;
        let object = payload.read(|| payload.object(target.kind.kind)).await?;
        let warnings = object.judge(target.kind, options.validation)?;
        let kept = (target.kind.holds_unstored && !options.dry_run).then(|| object.value.clone());
        match (core.create(target, object.value, options).await, kept) {
            (Err(status), Some(object)) if status.is_unstorable() => {
                let written = core.hold(target, object, options, &status.message)?;
                Ok(ApiResponse { code: StatusCode::ACCEPTED, ..self.answer(written, warnings)? })
            }
            (written, _) => Ok(ApiResponse { code: StatusCode::CREATED, ..self.answer(written?, warnings)? }),
        }
    }

    pub(crate) async fn update(self) -> Result<ApiResponse, Status> {
        let Self { core, target, part, payload, .. } = self;
        let options = self.options("UpdateOptions")?;
        let kind = if part == ObjectPart::Scale { scale::KIND } else { target.kind.kind };
        let object = payload.read(|| payload.object(kind)).await?;
        let warnings = object.judge(target.kind, options.validation)?;
        let written = core.change(target, part, ObjectUpdate::Replace(&object.value), options).await?;
        self.answer(written, warnings)
    }

    /// Takes what a client says of a namespace's own finalizers, and nothing else: the way to let one go
    /// whose content cannot be deleted.
    pub(crate) async fn finalize(self) -> Result<ApiResponse, Status> {
        let Self { core, target, payload, selection, .. } = self;
        let options = self.options("UpdateOptions")?;
        let sent = payload.read(|| payload.object(target.kind.kind)).await?.value;
        let meta = rules::identified(target, &sent)?;
        let mut wanted = core.get(target).await?;
        for (asked, field) in [(&meta.uid, "uid"), (&meta.resource_version, "resourceVersion")] {
            if !asked.is_empty() && wanted["metadata"][field] != **asked {
                return Err(Status::modified(target.kind, target.name));
            }
        }
        let finalizers = Option::<Vec<String>>::deserialize(&sent["spec"]["finalizers"])
            .map_err(|_| Status::bad_request("spec.finalizers is no list of strings"))?
            .unwrap_or_default();
        wanted["spec"]["finalizers"] = json!(finalizers);
        if !options.dry_run {
            let uid = wanted["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            core.edit(target, &uid, |object| object["spec"]["finalizers"] = json!(finalizers)).await?;
            match core.get(target).await {
                Ok(stored) => wanted = stored,
                // That was the last of them.
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(ApiResponse::ok(list::show_one(core, selection, wanted)))
    }

    /// `refusal` is the answer where there is no object and an apply would have to make it.
    pub(crate) async fn patch(self, refusal: Option<Status>) -> Result<ApiResponse, Status> {
        let Self { core, target, part, query, payload, .. } = self;
        let is_apply = payload.media_type.as_deref() == Some(apply::APPLY) && part != ObjectPart::Scale;
        let unfit = match (is_apply, &query.field_manager, query.force) {
            (true, None, _) => Some(Cause::required("fieldManager", "is required for apply patch")),
            (false, _, Some(_)) => Some(Cause::forbidden("force", "may not be specified for non-apply patch")),
            (true, Some(_), _) | (false, _, None) => None,
        };
        let options = self.options_beside("PatchOptions", unfit)?;
        if is_apply {
            return self.server_side_apply(options, refusal).await;
        }
        let read = || Patch::read(target.kind, payload.media_type.as_deref(), &payload.bytes);
        let (patch, document) = payload.read(read).await?;
        let warnings = document.judge(target.kind, options.validation).map_err(|status| {
            let sent = json!(String::from_utf8_lossy(&payload.bytes));
            rules::as_patch_error(target.kind, status, &sent)
        })?;
        let written = core.change(target, part, ObjectUpdate::Patch(&patch), options).await?;
        self.answer(written, warnings)
    }

    async fn server_side_apply(
        self,
        options: WriteOptions<'_>,
        refusal: Option<Status>,
    ) -> Result<ApiResponse, Status> {
        let Self { core, target, part, query, payload, .. } = self;
        let parse = || apply::Configuration::parse(target.kind, part, &payload.bytes);
        let configuration = payload.read(parse).await?;
        let warnings = configuration.judge_duplicates(target.kind, options.validation)?;
        let force = query.force.unwrap_or(false);
        let (written, created) = core.apply(target, part, &configuration, force, options, refusal).await?;
        let code = if created { StatusCode::CREATED } else { StatusCode::OK };
        Ok(ApiResponse { code, ..self.answer(written, warnings)? })
    }

    pub(crate) async fn delete(self, refusals: DeleteRefusals) -> Result<ApiResponse, Status> {
        let Self { core, target, query, payload, .. } = self;
        let asked = Deletion::read(query, payload)?;
        let mut unread = None;
        if asked.is_unread {
            if let Some(refusal) = refusals.unread {
                return Err(refusal);
            }
            unread = core.delete_unread(target).await?;
        }
        let written = match unread {
            Some(written) => written,
            // It can be read, and goes as any other.
            None => match refusals.read {
                Some(refusal) => return Err(refusal),
                None => self.delete_read(&asked).await?,
            },
        };
        if !written.removed {
            let code = if asked.is_answered_early { StatusCode::ACCEPTED } else { StatusCode::OK };
            return Ok(ApiResponse { code, ..self.answer(written, Vec::new())? });
        }
        let mut details = json!({ "name": target.name, "kind": target.kind.plural });
        if let Some(uid) = written.value["metadata"]["uid"].as_str() {
            details["uid"] = json!(uid);
        }
        if !target.kind.group.is_empty() {
            details["group"] = json!(target.kind.group);
        }
        Ok(ApiResponse::ok(success(&details)))
    }

    /// Deletes an object that is stored, or held in memory alone.
    async fn delete_read(self, asked: &Deletion) -> Result<StoredWrite, Status> {
        let Self { core, target, .. } = self;
        match core.delete(target, &asked.preconditions, asked.propagation, asked.options).await {
            Err(status) if status.is_not_found() && target.kind.holds_unstored => {
                let held = if asked.options.dry_run {
                    core.get_or_held(target).await.map(|(value, _)| Some(value))?
                } else {
                    core.let_go(target, &asked.preconditions)?
                };
                let value = held.ok_or(status)?;
                Ok(StoredWrite { value, warnings: Vec::new(), removed: true, text: None })
            }
            written => written,
        }
    }

    /// Deletes what matches, as a list of it is: page by page, at most so many as the limit says, and from its token
    /// on. Shows the objects, unless they are many.
    pub(crate) async fn delete_collection(self) -> Result<ApiResponse, Status> {
        let Self { core, query, payload, selection, .. } = self;
        let asked = Deletion::read(query, payload)?;
        if asked.is_unread {
            return Err(Status::bad_request("what cannot be read is deleted one by one, by its name"));
        }
        let (mut deleted, mut count, mut rest) = (Vec::new(), 0, query.limit.unwrap_or(usize::MAX));
        let mut walk = list::walk_to_delete(core, query)?;
        while !walk.is_over() && rest > 0 {
            for object in list::values(&selection.kind, walk.page(core, selection, rest).await?)? {
                rest -= 1;
                let text = |key: &str| object["metadata"][key].as_str().unwrap_or("");
                let target = ObjectTarget { kind: &selection.kind, namespace: text("namespace"), name: text("name") };
                let written = match &asked.preconditions {
                    // Of that page, and not one of its name that came since.
                    none if *none == Preconditions::default() => {
                        core.delete_exactly(target, text("uid"), asked.propagation, asked.options).await?
                    }
                    own => match core.delete(target, own, asked.propagation, asked.options).await {
                        Err(status) if status.is_not_found() => None,
                        written => Some(written?),
                    },
                };
                // Otherwise another request deleted it first.
                if let Some(written) = written {
                    count += 1;
                    if count <= DELETED_SHOWN_MAX {
                        deleted.push(written.value);
                    }
                }
            }
        }
        // What cannot be counted is left out: the rest is done.
        let is_counted = selection.selector.is_empty() && !walk.is_over();
        let left = if is_counted { walk.count(core, selection).await.ok() } else { None };
        let metadata = continue_token::metadata(selection, &walk, left);
        if count > DELETED_SHOWN_MAX {
            let mut status = success(&json!({ "group": selection.kind.group, "kind": selection.kind.plural }));
            status["metadata"] = metadata;
            return Ok(ApiResponse::ok(status));
        }
        Ok(ApiResponse::ok(list::show(core, selection, metadata, deleted)))
    }

    /// `name` is that of the verb's options in Kubernetes, for messages.
    fn options(&self, name: &str) -> Result<WriteOptions<'a>, Status> {
        self.options_beside(name, None)
    }

    /// The options for a verb that refuses something itself.
    fn options_beside(&self, name: &str, unfit: Option<Cause>) -> Result<WriteOptions<'a>, Status> {
        let (query, payload) = (self.query, self.payload);
        let terms = query.write_terms(name, unfit.into_iter().collect())?;
        Ok(WriteOptions {
            validation: terms.validation,
            dry_run: terms.dry_run,
            manager: terms.manager.unwrap_or_else(|| payload.agent()),
            from_reserve: false,
            origin: self.origin,
            author: self.author,
            bytes: payload.bytes.len(),
        })
    }

    /// The answer, with warnings about the body before those about its fields.
    fn answer(self, written: StoredWrite, mut warnings: Vec<String>) -> Result<ApiResponse, Status> {
        let Self { core, part, selection, .. } = self;
        warnings.extend(written.warnings);
        let is_whole =
            part != ObjectPart::Scale && matches!(selection.format, ResponseFormat::Json | ResponseFormat::Discovery);
        let text = written.text.filter(|_| is_whole);
        Ok(ApiResponse { warnings, text, ..ApiResponse::ok(show(core, selection, part, written.value)?) })
    }
}

fn success(details: &Value) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

/// An object, or the part of it that was asked for, in the form that the client wants.
pub(crate) fn show(core: &Core, selection: &ListSelection, part: ObjectPart, object: Value) -> Result<Value, Status> {
    match part {
        ObjectPart::Main | ObjectPart::Status => Ok(list::show_one(core, selection, object)),
        ObjectPart::Scale => {
            let shown = scale::shown(&selection.kind, &object)?;
            Ok(list::show_one(core, &selection.of_kind(scale::kind()), shown))
        }
    }
}

/// What a DELETE asks for: in its body, or in its query where it has no body.
struct Deletion {
    preconditions: Preconditions,
    propagation: Option<Propagation>,
    options: WriteOptions<'static>,
    /// The client said by `orphanDependents: false` that dependents go too: 202 says that this is not done yet. For
    /// `propagationPolicy`, which replaced it, Kubernetes answers 200.
    is_answered_early: bool,
    /// The object is to go even if it cannot be read.
    is_unread: bool,
}

impl Deletion {
    fn read(query: &Query, payload: &RequestPayload) -> Result<Self, Status> {
        let sent = if payload.bytes.is_empty() {
            None
        } else {
            Some(DeleteOptions::read(&payload.object(DeleteOptions::KIND)?.value)?)
        };
        // Both places count: an option in one of them is enough.
        let mut said = query.clone();
        said.dry_run.extend(sent.iter().filter_map(|sent| sent.dry_run.clone()).flatten());
        let mut causes = Vec::new();
        let propagation = Propagation::asked(query, sent.as_ref(), &mut causes);
        causes.extend(said.dry_run_cause());
        let is_unread = deletion::is_unread(query, sent.as_ref(), &mut causes);
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", DeleteOptions::KIND, "", causes));
        }
        let orphans = sent.as_ref().map_or(query.orphan_dependents, |sent| sent.orphan_dependents);
        let is_answered_early = orphans == Some(false);
        let preconditions = sent.and_then(|sent| sent.preconditions).unwrap_or_default();
        let options = WriteOptions { dry_run: !said.dry_run.is_empty(), ..WriteOptions::default() };
        Ok(Self { preconditions, propagation, options, is_answered_early, is_unread })
    }
}
