//! Requests to objects of a kind: those that are stored, and what is answered and not stored.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited, StreamBody};
use serde_json::Value;

use super::{Api, LOG, RequestBody};
use crate::codec::body::{BODY_BYTES_MAX, Body};
use crate::codec::negotiate::{self, ResponseFormat};
use crate::model::access::Caller;
use crate::model::kind::{self, KindInfo};
use crate::model::kind_parts::{IssueSubresource, ReviewKind, Writers};
use crate::model::query::Query;
use crate::model::route::{ObjectRoute, Verb};
use crate::model::status::{self, Status};
use crate::object::heavy_json;
use crate::object::options::WriteOrigin;
use crate::object::selection::ListSelection;
use crate::object::terms::{ObjectPart, ObjectTarget};
use crate::serve::guard::AccessPass;
use crate::serve::listing::send;
use crate::serve::respond::{ApiResponse, encode, header, not_served, respond, whole};
use crate::serve::write::{self, DeleteRefusals, RequestPayload, Write};
use crate::serve::{list, logs, reviews};

/// The part of a namespace by which it is let go.
const FINALIZE: &str = "finalize";

/// A request to objects of a kind, without its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectsRequest<'a> {
    pub(super) route: &'a ObjectRoute,
    pub(super) query: &'a Query,
    pub(super) headers: &'a HeaderMap,
    pub(super) caller: &'a Caller,
    pub(super) pass: &'a AccessPass,
}

impl Api {
    /// Answers a request to objects of a kind.
    pub(super) async fn objects(
        &self,
        request: ObjectsRequest<'_>,
        body: RequestBody,
    ) -> Result<Response<Body>, Status> {
        let ObjectsRequest { route, query, .. } = request;
        let Some(kind) = self.core.registry().find(&route.group, &route.version, &route.plural).cloned() else {
            return Ok(not_served());
        };
        let place_fits = match (kind.namespaced, route.namespace.is_empty()) {
            (true, true) => route.name.is_empty(),
            (false, given) => given,
            (true, false) => true,
        };
        if !place_fits {
            return Ok(not_served());
        }
        if let Some(review) = kind.review {
            return self.review(review, &kind, request, body).await;
        }
        if let Some(issued) = kind.requests.iter().find(|issued| issued.subresource == route.subresource) {
            return self.issue(issued, &kind, request, body).await;
        }
        if kind.has_log && route.subresource == LOG {
            return self.log(&kind, route, query).await;
        }
        self.stored_objects(kind, request, body).await
    }

    async fn stored_objects(
        &self,
        kind: Arc<KindInfo>,
        ObjectsRequest { route, query, headers, caller, pass }: ObjectsRequest<'_>,
        body: RequestBody,
    ) -> Result<Response<Body>, Status> {
        let part = part(&kind, route)?;
        let not_written = match check_writer(&kind, route.verb) {
            // Which deletion it is, is said in the body.
            Err(status) if route.verb == Verb::Delete => Some(status),
            written => written.map(|()| None)?,
        };
        let format = negotiate::accept(header(headers, &ACCEPT), false)?;
        let selection = ListSelection::new(kind.clone(), &route.namespace, query, format)?;
        let target = ObjectTarget { kind: &kind, namespace: &route.namespace, name: &route.name };
        let is_write = !matches!(route.verb, Verb::Get | Verb::List | Verb::Watch);
        let payload = match is_write {
            false => RequestPayload::default(),
            true => RequestPayload {
                media_type: negotiate::media_type(header(headers, &CONTENT_TYPE)),
                bytes: read_body(body).await?,
                agent: header(headers, &USER_AGENT).map(str::to_owned),
            },
        };
        // A body may have been long on its way, and its sender put out meanwhile.
        pass.check()?;
        let core = &self.core;
        let authorizer = Some(&self.guard.authorizer).filter(|_| is_write);
        let quota = authorizer.and_then(|authorizer| authorizer.default_quota(caller, &route.namespace));
        let origin = WriteOrigin::Client(quota.as_deref());
        let author = caller.name.as_str();
        let writing = Write { core, target, part, query, payload: &payload, selection: &selection, origin, author };
        let mut bytes = payload.bytes.len();
        let answer = match route.verb {
            Verb::Watch => {
                let lines = list::watch(core, selection, query, self.timing).await?;
                return Ok(respond(StatusCode::OK, "application/json", StreamBody::new(lines).boxed_unsync()));
            }
            Verb::List => return send(list::list(core, selection, query, self.timing.future).await?).await,
            Verb::Get => {
                let (object, stored_bytes) = core.get_or_held(target).await?;
                bytes = stored_bytes;
                ApiResponse::ok(heavy_json::CLIENTS.run(bytes, || write::show(core, &selection, part, object)).await?)
            }
            Verb::Create => writing.create().await?,
            Verb::Update if route.subresource == FINALIZE => writing.finalize().await?,
            Verb::Update => writing.update().await?,
            Verb::Patch => writing.patch(self.guard.refusal_to_create(caller, route, query)).await?,
            Verb::Delete => {
                let unread = self.guard.refusal_of_unread(caller, route, query);
                writing.delete(DeleteRefusals { unread, read: not_written }).await?
            }
            Verb::DeleteCollection => writing.delete_collection().await?,
        };
        heavy_json::CLIENTS.run(bytes, || encode(answer, format)).await
    }

    async fn log(&self, kind: &KindInfo, route: &ObjectRoute, query: &Query) -> Result<Response<Body>, Status> {
        if route.verb != Verb::Get {
            return Err(Status::method_not_allowed());
        }
        let (namespace, name) = (&route.namespace, &route.name);
        let pod = self.core.get(ObjectTarget { kind, namespace, name }).await?;
        let container = query.log.container(&pod)?;
        let body = match &self.logs {
            Some(logs) => {
                let pod = logs::Pod { namespace, name, container };
                logs::body(Arc::clone(logs), pod, query.log.clone(), self.core.now(), self.timing.watch)
            }
            // This server has no logs.
            None => whole(Vec::new()),
        };
        Ok(respond(StatusCode::OK, "text/plain", body))
    }

    async fn review(
        &self,
        review: ReviewKind,
        kind: &KindInfo,
        ObjectsRequest { route, headers, caller, .. }: ObjectsRequest<'_>,
        body: RequestBody,
    ) -> Result<Response<Body>, Status> {
        if (route.verb, route.name.as_str()) != (Verb::Create, "") {
            return Err(Status::method_not_allowed());
        }
        let format = answer_format(headers)?;
        let asked = read_question(kind.kind, &kind.api_version(), headers, body).await?;
        let asking = reviews::ReviewContext {
            registry: self.core.registry(),
            authorizer: self.guard.authorizer.as_ref(),
            issuer: self.issuer.as_deref(),
            caller,
            namespace: &route.namespace,
            now: self.core.now(),
        };
        let value = reviews::answer(review, kind, &asking, &asked)?;
        encode(ApiResponse { code: StatusCode::CREATED, ..ApiResponse::ok(value) }, format)
    }

    /// Answers a request to one object, of which nothing is stored.
    async fn issue(
        &self,
        issued: &IssueSubresource,
        kind: &KindInfo,
        ObjectsRequest { route, query, headers, pass, .. }: ObjectsRequest<'_>,
        body: RequestBody,
    ) -> Result<Response<Body>, Status> {
        let Some(issuer) = self.issuer.as_deref().filter(|_| route.verb == Verb::Create) else {
            return Err(Status::method_not_allowed());
        };
        let format = answer_format(headers)?;
        let asked = read_question(issued.kind, &issued.api_version(), headers, body).await?;
        pass.check()?;
        let target = ObjectTarget { kind, namespace: &route.namespace, name: &route.name };
        let object = self.core.get(target).await?;
        if query.is_dry_run("CreateOptions")? {
            return encode(ApiResponse { code: StatusCode::CREATED, ..ApiResponse::ok(asked) }, format);
        }
        let (value, warnings) = issuer.answer(kind, issued, &object, &asked, self.core.now())?;
        encode(ApiResponse { code: StatusCode::CREATED, warnings, ..ApiResponse::ok(value) }, format)
    }
}

/// The format of an answer to a question or a request, which is shown whole whatever format the client prefers.
fn answer_format(headers: &HeaderMap) -> Result<ResponseFormat, Status> {
    Ok(match negotiate::accept(header(headers, &ACCEPT), false)? {
        ResponseFormat::Yaml => ResponseFormat::Yaml,
        ResponseFormat::Json | ResponseFormat::Table | ResponseFormat::Partial | ResponseFormat::Discovery => {
            ResponseFormat::Json
        }
    })
}

/// Reads the body of a question or a request, which names its own kind.
async fn read_question(kind: &str, api_version: &str, headers: &HeaderMap, body: RequestBody) -> Result<Value, Status> {
    let media_type = negotiate::media_type(header(headers, &CONTENT_TYPE));
    let mut asked = negotiate::parse_object(media_type.as_deref(), &read_body(body).await?, kind)?;
    if !asked.is_object() {
        return Err(Status::bad_request(format!("the body is no {kind}")));
    }
    for (field, expected) in [("kind", kind), ("apiVersion", api_version)] {
        // Some clients leave to the path what it is.
        if asked[field].as_str().is_none_or(str::is_empty) {
            asked[field] = expected.into();
        }
        if asked[field] != expected {
            let message = format!("the {field} of the body is {}; expected {expected:?}", asked[field]);
            return Err(Status::bad_request(status::one_line(&message)));
        }
    }
    Ok(asked)
}

/// Which part of the object the path is about.
fn part(kind: &KindInfo, route: &ObjectRoute) -> Result<ObjectPart, Status> {
    match (route.subresource.as_str(), route.verb) {
        // Those of all namespaces are not deleted by one word, and neither are all namespaces.
        ("", Verb::DeleteCollection) if kind::is_namespace(kind) || kind.namespaced && route.namespace.is_empty() => {
            Err(Status::method_not_allowed())
        }
        ("", _) => Ok(ObjectPart::Main),
        ("status", Verb::Get | Verb::Update | Verb::Patch) if kind.has_status => Ok(ObjectPart::Status),
        ("scale", Verb::Get | Verb::Update | Verb::Patch) if kind.scale.is_some() => Ok(ObjectPart::Scale),
        (FINALIZE, Verb::Update) if kind::is_namespace(kind) => Ok(ObjectPart::Main),
        ("status", _) if kind.has_status => Err(Status::method_not_allowed()),
        ("scale", _) if kind.scale.is_some() => Err(Status::method_not_allowed()),
        _ => Err(Status::not_found(kind, &route.name)),
    }
}

fn check_writer(kind: &KindInfo, verb: Verb) -> Result<(), Status> {
    match (kind.writers, verb) {
        (Writers::Everyone, _)
        | (_, Verb::Get | Verb::List | Verb::Watch)
        | (Writers::ControllersButLabels, Verb::Update | Verb::Patch) => Ok(()),
        (
            Writers::Controllers | Writers::ControllersButLabels,
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection,
        ) => Err(Status::with_reason(
            405,
            "MethodNotAllowed",
            format!("{} are written by this server alone; they can be read and watched", kind.group_resource()),
        )),
    }
}

async fn read_body(body: RequestBody) -> Result<Bytes, Status> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(BODY_BYTES_MAX)),
        Err(error) => Err(Status::bad_request(format!("cannot read the request body: {error}"))),
    }
}
