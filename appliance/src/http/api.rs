//! HTTPS for people and their tools: the Kubernetes-style API. [`Access`] identifies the caller; what the caller may do
//! is decided with the request itself.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use firesteel_kube::{Api, Caller, Status};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt as _;
use jiff::Timestamp;

use super::admin_paths::{self, FiresteelPaths};
use super::body::{ResponseBody, refuse};
use super::operators::Operators;
use super::server::RequestBody;
use crate::access::Access;
use crate::access::certificates::PeerCertificate;
use crate::audit::AuditedRequest;
use crate::metrics::{self, Metrics};

/// Paths that monitoring asks without a credential.
const OPEN: [&str; 3] = ["/readyz", "/livez", "/healthz"];

/// The API, the appliance's own paths beside it, and access control. Clones share all.
#[derive(Clone, Debug)]
pub struct ApiServer {
    api: Api,
    access: Access,
    operators: Operators,
    own: FiresteelPaths,
    metrics: Metrics,
}

impl ApiServer {
    /// Guards the API with `access`, and records in `operators` from where they come.
    #[must_use]
    pub fn new(api: Api, access: Access, operators: Operators, own: FiresteelPaths, metrics: Metrics) -> Self {
        let (rights, credentials) = (Arc::clone(&access.rights), Arc::clone(&access.credentials));
        let api = api.guarded(rights).issuing(credentials).remarking(Arc::new(own.clone()));
        metrics.with_api(&api);
        Self { api, access, operators, own, metrics }
    }

    /// Answers one request, and records it if it is to be recorded.
    pub async fn handle(self, request: Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
        let asked = AuditedRequest::of(&request, remote.ip());
        let peer = request.extensions().get::<Arc<PeerCertificate>>().map(AsRef::as_ref);
        let caller = self.access.caller(request.headers(), peer, Timestamp::now());
        if let Some(caller) = &caller {
            self.operators.proved(remote.ip(), &caller.name, || self.access.rights.runs_hosts(caller));
        }
        // If the client goes away, this is dropped with the future; the change may be made all the same.
        let noting = self.own.noting(&asked, caller.as_ref());
        let response = self.answer(request, caller.as_ref()).await;
        noting.answered(&admin_paths::outcome(&response));
        response
    }

    async fn answer(&self, request: Request<RequestBody>, caller: Option<&Caller>) -> Response<ResponseBody> {
        let path = request.uri().path();
        if path == metrics::PATH {
            return self.metrics(request.method(), request.headers(), caller).await;
        }
        let anonymous = Caller::anonymous();
        let Some(caller) = caller.or_else(|| OPEN.contains(&path).then_some(&anonymous)) else {
            return refuse(&Status::unauthorized());
        };
        if FiresteelPaths::serves(path) {
            return self.own.handle(&self.api, request, caller).await;
        }
        let answer = self.api.handle(request, caller).await;
        answer.map(|body| body.map_err(|never: Infallible| match never {}).boxed_unsync())
    }

    /// Answers the holder of the scrape token, and callers who may read the metrics.
    async fn metrics(&self, method: &Method, headers: &HeaderMap, caller: Option<&Caller>) -> Response<ResponseBody> {
        let pass = match caller {
            None if self.metrics.knows(headers) => None,
            None => return refuse(&Status::unauthorized()),
            Some(caller) => match self.api.at_path(caller, method.as_str(), metrics::PATH, headers) {
                Ok(pass) => Some(pass),
                Err(status) => return refuse(&status),
            },
        };
        if method != Method::GET {
            return refuse(&Status::method_not_allowed());
        }
        let answer = self.metrics.answer(headers).await;
        drop(pass);
        answer
    }
}
