//! HTTPS for people and their tools: the Kubernetes-style API. Who asks is found out here ([`Access`]); what he
//! may do is decided with the request itself.

use std::{convert::Infallible, sync::Arc};

use firesteel_kube::{Api, Caller, Status};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;

use super::{
    body::{ResponseBody, json},
    server::RequestBody,
};
use crate::access::{Access, certificates::PeerCertificate};

/// Paths that monitoring asks without a credential.
const OPEN: [&str; 3] = ["/readyz", "/livez", "/healthz"];

/// The API, and who may come to it. Clones share both.
#[derive(Clone, Debug)]
pub struct ApiServer {
    api: Api,
    access: Access,
}

impl ApiServer {
    /// Guards the API by what `access` knows.
    #[must_use]
    pub fn new(api: Api, access: Access) -> Self {
        let (rights, credentials) = (Arc::clone(&access.rights), Arc::clone(&access.credentials));
        Self { api: api.guarded(rights).issuing(credentials), access }
    }

    /// Answers one request.
    pub async fn handle(self, request: Request<RequestBody>) -> Response<ResponseBody> {
        let peer = request.extensions().get::<Arc<PeerCertificate>>().map(AsRef::as_ref);
        let known = self.access.caller(request.headers(), peer, Timestamp::now());
        let is_open = OPEN.contains(&request.uri().path());
        let Some(caller) = known.or_else(|| is_open.then(Caller::anonymous)) else { return unauthorized() };
        // The one place where a caller, his request and what became of it are known together.
        let answer = self.api.handle(request, &caller).await;
        answer.map(|body| body.map_err(|never: Infallible| match never {}).boxed_unsync())
    }
}

fn unauthorized() -> Response<ResponseBody> {
    json(StatusCode::UNAUTHORIZED, &Status::unauthorized().to_value())
}
