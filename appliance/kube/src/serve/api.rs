//! HTTP requests to answers. Thin: [`crate::model::route`] says what is asked, [`crate::object::core`] does it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, USER_AGENT},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited, StreamBody};
use hyper::body::Body as HttpBody;
use serde_json::Value;

use crate::{
    codec::{
        body::{BODY_BYTES_MAX, Body},
        gzip,
        negotiate::{self, DISCOVERY_TYPE, OPENAPI_V2_TYPE, ResponseFormat},
    },
    model::{
        access::{Authorizer, Caller, MastersAuthorizer},
        instant_subresources::Issuer,
        kind::{self, KindInfo},
        kind_parts::{self, ReviewKind, Writers},
        query::Query,
        route::{ApiRoute, ObjectRoute, Verb, route},
        status::{self, Status},
    },
    object::{
        core::Core,
        heavy_json,
        options::WriteOrigin,
        selection::ListSelection,
        terms::{ObjectPart, ObjectTarget},
    },
    serve::{
        discovery,
        guard::{AccessGuard, AccessPass, ApiRequestSubject},
        impersonate, list,
        listing::send,
        logs::{self, Logs},
        openapi::Documents,
        ready::{ReadinessRemarks, ready},
        respond::{
            ApiResponse, document, encode, header, not_served, refuse, respond, text_response, turn_away,
            unchanged_or_sent, warn, whole,
        },
        reviews,
        timing::Timing,
        write::{self, DeleteRefusals, RequestPayload, Write},
    },
};

/// The part of a namespace by which it is let go.
const FINALIZE: &str = "finalize";
/// The part of a pod that is text.
const LOG: &str = "log";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The API over one [`Core`]. Clones share it.
#[derive(Clone, Debug)]
pub struct Api {
    core: Core,
    /// Made when they are first asked for.
    openapi: Arc<OnceLock<Documents>>,
    timing: Timing,
    guard: AccessGuard,
    issuer: Option<Arc<dyn Issuer>>,
    logs: Option<Arc<dyn Logs>>,
    remarks: Option<Arc<dyn ReadinessRemarks>>,
}

impl Api {
    pub fn new(core: Core) -> Self {
        Self::with_timing(core, Timing::default())
    }

    pub fn with_timing(core: Core, timing: Timing) -> Self {
        let guard = AccessGuard::new(Arc::new(MastersAuthorizer::default()));
        Self { core, openapi: Arc::default(), timing, guard, issuer: None, logs: None, remarks: None }
    }

    /// The same API for whom this one lets in. Without, it is for `system:masters` alone.
    #[must_use]
    pub fn guarded(self, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { guard: AccessGuard::new(authorizer), ..self }
    }

    /// The same API with tokens, and whatever else is made on request.
    #[must_use]
    pub fn issuing(self, issuer: Arc<dyn Issuer>) -> Self {
        Self { issuer: Some(issuer), ..self }
    }

    /// The same API with logs of pods.
    #[must_use]
    pub fn logging(self, logs: Arc<dyn Logs>) -> Self {
        Self { logs: Some(logs), ..self }
    }

    /// The same API, whose `/readyz` says this too.
    #[must_use]
    pub fn remarking(self, remarks: Arc<dyn ReadinessRemarks>) -> Self {
        Self { remarks: Some(remarks), ..self }
    }

    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Requests and watches that are being answered, of all callers.
    pub fn under_way(&self) -> (u64, u64) {
        self.guard.under_way()
    }

    /// Lets a caller through to a path that is beside the API, as to anything that is no object.
    pub fn at_path(
        &self,
        caller: &Caller,
        method: &str,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<AccessPass, Status> {
        let place = self.guard.enter(caller, false)?;
        let other = impersonate::wanted(headers, caller, self.guard.authorizer.as_ref())?;
        let wanted = ApiRequestSubject::Path { verb: method.to_ascii_lowercase(), path: path.to_owned() };
        let pass = self.guard.pass(place, (caller, other.as_ref()), wanted);
        pass.check()?;
        Ok(pass)
    }

    /// Answers one request. Never fails: what goes wrong is an answer too.
    pub async fn handle<B>(&self, request: Request<B>, caller: &Caller) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let unpacks = gzip::is_wanted(request.headers());
        let response = self.answer(request, caller).await.unwrap_or_else(|status| turn_away(&status));
        if unpacks { gzip::pack(response) } else { response }
    }

    async fn answer<B>(&self, request: Request<B>, proven: &Caller) -> Result<Response<Body>, Status>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or(""))?;
        let registry = self.core.registry();
        let headers = &parts.headers;
        let route = route(parts.method.as_str(), parts.uri.path(), &query);
        let lasts = |route: &ObjectRoute| route.verb == Verb::Watch || route.subresource == LOG && query.log.follow;
        let place = self.guard.enter(proven, matches!(&route, ApiRoute::Objects(route) if lasts(route)))?;
        let other = impersonate::wanted(headers, proven, self.guard.authorizer.as_ref())?;
        let caller = other.as_ref().unwrap_or(proven);
        if let ApiRoute::Objects(route) = route {
            let wanted = ApiRequestSubject::Objects(Box::new((route.clone(), query.clone())));
            let pass = self.guard.pass(place, (proven, other.as_ref()), wanted);
            pass.check()?;
            let kind = registry.find(&route.group, &route.version, &route.plural);
            let deprecation = kind.and_then(|kind| kind.deprecation());
            let answer = self.objects(&route, &query, headers, body, (caller, &pass)).await;
            let mut answer = answer.unwrap_or_else(|status| refuse(&status));
            warn(&mut answer, deprecation.as_slice());
            return Ok(answer.map(|body| pass.keep(body)));
        }
        let (verb, path) = (parts.method.as_str().to_ascii_lowercase(), parts.uri.path().to_owned());
        self.guard.pass(place, (proven, other.as_ref()), ApiRequestSubject::Path { verb, path }).check()?;
        let found = match route {
            // Answered above.
            ApiRoute::Objects(_) => None,
            ApiRoute::Health => return Ok(text_response(StatusCode::OK, "ok")),
            ApiRoute::Ready => {
                let remarks = self.remarks.as_ref().map(|remarks| remarks.remarks()).unwrap_or_default();
                return Ok(ready(&self.core.problems(), &remarks));
            }
            ApiRoute::NotFound => return Ok(not_served()),
            ApiRoute::MethodNotAllowed => return Err(Status::method_not_allowed()),
            ApiRoute::Version => Some(discovery::version()),
            ApiRoute::Core | ApiRoute::Groups if wants_aggregate(headers)? => {
                let core = parts.uri.path().trim_end_matches('/') == "/api";
                return document(headers, DISCOVERY_TYPE, &discovery::aggregated(registry, core));
            }
            ApiRoute::OpenApiV2 => {
                let protobuf = negotiate::accept_openapi_v2(header(headers, &ACCEPT))?;
                let media_type = if protobuf { OPENAPI_V2_TYPE } else { "application/json" };
                return unchanged_or_sent(headers, media_type, self.openapi().v2(protobuf));
            }
            ApiRoute::OpenApiIndex => return unchanged_or_sent(headers, "application/json", self.openapi().index()),
            ApiRoute::OpenApi(path) => return self.openapi_v3(headers, &path, parts.uri.query().unwrap_or("")),
            ApiRoute::Core => Some(discovery::core_versions()),
            ApiRoute::Groups => Some(discovery::groups(registry)),
            ApiRoute::Group(name) => discovery::group(registry, &name),
            ApiRoute::Resources { group, version } => discovery::resources(registry, &group, &version),
        };
        found.map_or_else(|| Ok(not_served()), |value| document(headers, "application/json", &value))
    }

    fn openapi(&self) -> &Documents {
        self.openapi.get_or_init(|| Documents::of(self.core.registry()))
    }

    /// Clients that name the document by its hash may keep it for ever.
    fn openapi_v3(&self, headers: &HeaderMap, path: &str, query: &str) -> Result<Response<Body>, Status> {
        let Some(found) = self.openapi().v3(path) else { return Ok(not_served()) };
        match query.split('&').find_map(|pair| pair.strip_prefix("hash=")).filter(|hash| !hash.is_empty()) {
            Some(hash) if hash != found.hash => {
                let mut response = text_response(StatusCode::MOVED_PERMANENTLY, "");
                let url = format!("/openapi/v3/{path}?hash={}", found.hash);
                let url = HeaderValue::from_str(&url).map_err(|error| Status::internal(error.to_string()))?;
                response.headers_mut().insert(LOCATION, url);
                Ok(response)
            }
            asked => {
                let mut response = unchanged_or_sent(headers, "application/json", found)?;
                let keep = if asked.is_some() { "public, immutable" } else { "no-cache" };
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(keep));
                Ok(response)
            }
        }
    }

    async fn objects<B>(
        &self,
        route: &ObjectRoute,
        query: &Query,
        headers: &HeaderMap,
        body: B,
        (caller, pass): (&Caller, &AccessPass),
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
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
            return self.review(review, &kind, route, headers, body, caller).await;
        }
        if let Some(request) = kind.requests.iter().find(|request| request.subresource == route.subresource) {
            return self.request(request, &kind, (route, query), headers, body, pass).await;
        }
        if kind.has_log && route.subresource == LOG {
            return self.log(&kind, route, query).await;
        }
        let part = part(&kind, route)?;
        let not_written = match check_writer(&kind, route.verb) {
            // Which deletion it is, is said in the body.
            Err(status) if route.verb == Verb::Delete => Some(status),
            written => written.map(|()| None)?,
        };
        let format = negotiate::accept(header(headers, &ACCEPT), false)?;
        let selection = ListSelection::new(kind.clone(), &route.namespace, query, format)?;
        let target = ObjectTarget { kind: &kind, namespace: &route.namespace, name: &route.name };
        let payload = match route.verb {
            Verb::Get | Verb::List | Verb::Watch => RequestPayload::default(),
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => RequestPayload {
                media_type: negotiate::media_type(header(headers, &CONTENT_TYPE)),
                bytes: read_body(body).await?,
                agent: header(headers, &USER_AGENT).map(str::to_owned),
            },
        };
        // A body may have been long on its way, and its sender put out meanwhile.
        pass.check()?;
        let core = &self.core;
        let is_write = !matches!(route.verb, Verb::Get | Verb::List | Verb::Watch);
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
}

impl Api {
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
            // Nobody hears any pod.
            None => whole(Vec::new()),
        };
        Ok(respond(StatusCode::OK, "text/plain", body))
    }

    async fn review<B>(
        &self,
        review: ReviewKind,
        kind: &KindInfo,
        route: &ObjectRoute,
        headers: &HeaderMap,
        body: B,
        caller: &Caller,
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
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

    /// A request to one object, of which nothing is stored.
    async fn request<B>(
        &self,
        request: &kind_parts::IssueSubresource,
        kind: &KindInfo,
        (route, query): (&ObjectRoute, &Query),
        headers: &HeaderMap,
        body: B,
        pass: &AccessPass,
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let Some(issuer) = self.issuer.as_deref().filter(|_| route.verb == Verb::Create) else {
            return Err(Status::method_not_allowed());
        };
        let format = answer_format(headers)?;
        let asked = read_question(request.kind, &request.api_version(), headers, body).await?;
        pass.check()?;
        let target = ObjectTarget { kind, namespace: &route.namespace, name: &route.name };
        let object = self.core.get(target).await?;
        if query.is_dry_run("CreateOptions")? {
            return encode(ApiResponse { code: StatusCode::CREATED, ..ApiResponse::ok(asked) }, format);
        }
        let (value, warnings) = issuer.answer(kind, request, &object, &asked, self.core.now())?;
        encode(ApiResponse { code: StatusCode::CREATED, warnings, ..ApiResponse::ok(value) }, format)
    }
}

/// Questions and requests are shown whole, whatever form the client likes best.
fn answer_format(headers: &HeaderMap) -> Result<ResponseFormat, Status> {
    Ok(match negotiate::accept(header(headers, &ACCEPT), false)? {
        ResponseFormat::Yaml => ResponseFormat::Yaml,
        ResponseFormat::Json | ResponseFormat::Table | ResponseFormat::Partial | ResponseFormat::Discovery => {
            ResponseFormat::Json
        }
    })
}

/// The body of a question or a request, which says of itself what it is.
async fn read_question<B>(kind: &str, api_version: &str, headers: &HeaderMap, body: B) -> Result<Value, Status>
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
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

fn wants_aggregate(headers: &HeaderMap) -> Result<bool, Status> {
    Ok(negotiate::accept(header(headers, &ACCEPT), true)? == ResponseFormat::Discovery)
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

async fn read_body<B>(body: B) -> Result<Bytes, Status>
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(BODY_BYTES_MAX)),
        Err(error) => Err(Status::bad_request(format!("cannot read the request body: {error}"))),
    }
}
