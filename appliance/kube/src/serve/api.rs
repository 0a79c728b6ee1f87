//! HTTP requests to answers. Thin: [`crate::model::route`] says what is asked, [`crate::object::core`] does it.

mod objects;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CACHE_CONTROL, LOCATION};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Body as HttpBody;

use self::objects::ObjectsRequest;
use crate::codec::body::Body;
use crate::codec::gzip;
use crate::codec::negotiate::{self, DISCOVERY_TYPE, OPENAPI_V2_TYPE, ResponseFormat};
use crate::model::access::{Authorizer, Caller, MastersAuthorizer};
use crate::model::instant_subresources::Issuer;
use crate::model::query::Query;
use crate::model::route::{ApiRoute, ObjectRoute, Verb, route};
use crate::model::status::Status;
use crate::object::core::Core;
use crate::serve::guard::{AccessGuard, AccessPass, ApiRequestSubject};
use crate::serve::logs::Logs;
use crate::serve::openapi::Documents;
use crate::serve::ready::{ReadinessRemarks, ready};
use crate::serve::respond::{document, header, not_served, refuse, text_response, turn_away, unchanged_or_sent, warn};
use crate::serve::timing::Timing;
use crate::serve::{discovery, impersonate};

/// The part of a pod that is text.
const LOG: &str = "log";

/// The body of a request, of whatever type the server has.
type RequestBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// The API over one [`Core`]. Clones share it.
#[derive(Clone, Debug)]
pub struct Api {
    core: Core,
    /// The documents are made when they are first asked for.
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

    /// Lets in whom this authorizer allows. Without one, the API is for `system:masters` alone.
    #[must_use]
    pub fn guarded(self, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { guard: AccessGuard::new(authorizer), ..self }
    }

    /// Adds an issuer of tokens, and of what else is made on request.
    #[must_use]
    pub fn issuing(self, issuer: Arc<dyn Issuer>) -> Self {
        Self { issuer: Some(issuer), ..self }
    }

    /// Adds logs of pods.
    #[must_use]
    pub fn logging(self, logs: Arc<dyn Logs>) -> Self {
        Self { logs: Some(logs), ..self }
    }

    /// Adds remarks to `/readyz`.
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
        let pass = self.guard.pass(place, caller, other.as_ref(), wanted);
        pass.check()?;
        Ok(pass)
    }

    /// Answers one request. Never fails: what goes wrong is an answer too.
    pub fn handle<'a, B>(&'a self, request: Request<B>, caller: &'a Caller) -> BoxFuture<'a, Response<Body>>
    where
        B: HttpBody<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        self.handle_body(request.map(|body| body.map_err(std::io::Error::other).boxed_unsync()), caller)
    }

    fn handle_body<'a>(&'a self, request: Request<RequestBody>, caller: &'a Caller) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            let unpacks = gzip::is_wanted(request.headers());
            let response = self.answer(request, caller).await.unwrap_or_else(|status| turn_away(&status));
            if unpacks { gzip::pack(response) } else { response }
        })
    }

    async fn answer(&self, request: Request<RequestBody>, proven: &Caller) -> Result<Response<Body>, Status> {
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
            let pass = self.guard.pass(place, proven, other.as_ref(), wanted);
            pass.check()?;
            let kind = registry.find(&route.group, &route.version, &route.plural);
            let deprecation = kind.and_then(|kind| kind.deprecation());
            let request = ObjectsRequest { route: &route, query: &query, headers, caller, pass: &pass };
            let answer = self.objects(request, body).await;
            let mut answer = answer.unwrap_or_else(|status| refuse(&status));
            warn(&mut answer, deprecation.as_slice());
            return Ok(answer.map(|body| pass.keep(body)));
        }
        let (verb, path) = (parts.method.as_str().to_ascii_lowercase(), parts.uri.path().to_owned());
        self.guard.pass(place, proven, other.as_ref(), ApiRequestSubject::Path { verb, path }).check()?;
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

    /// Answers with one document. Clients that name it by its hash may keep it forever.
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
}

fn wants_aggregate(headers: &HeaderMap) -> Result<bool, Status> {
    Ok(negotiate::accept(header(headers, &ACCEPT), true)? == ResponseFormat::Discovery)
}
