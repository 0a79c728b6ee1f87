//! HTTPS for people and their tools: the Kubernetes-style API behind a bearer token.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use firesteel_kube::{Api, Caller};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use ring::{error::Unspecified, hmac, rand::SystemRandom};

use super::{
    bearer,
    body::{ResponseBody, json},
    own::Own,
    server::RequestBody,
};
use crate::audit::Asked;

/// The admin's token, kept as a tag under a key that nobody else has.
#[derive(Clone)]
pub struct AdminToken(Arc<(hmac::Key, hmac::Tag)>);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

impl AdminToken {
    /// # Errors
    /// When the system gives no random bytes.
    pub fn new(token: &str) -> Result<Self, Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?;
        let tag = hmac::sign(&key, token.as_bytes());
        Ok(Self(Arc::new((key, tag))))
    }

    /// Compares in constant time: tags are compared, and so is what they are made of.
    #[must_use]
    pub fn is(&self, token: &str) -> bool {
        let (key, tag) = &*self.0;
        hmac::verify(key, token.as_bytes(), tag.as_ref()).is_ok()
    }
}

/// Answers one request, and keeps a record of it where one is to be kept.
pub async fn handle(
    api: Api,
    own: Own,
    admin: AdminToken,
    request: Request<RequestBody>,
    remote: SocketAddr,
) -> Response<ResponseBody> {
    let asked = Asked::of(&request, remote.ip());
    let (caller, response) = answer(&api, &own, &admin, request).await;
    own.note(&asked, caller.as_ref(), &response);
    response
}

/// The answer, and to whom, after his token was checked.
async fn answer(
    api: &Api,
    own: &Own,
    admin: &AdminToken,
    request: Request<RequestBody>,
) -> (Option<Caller>, Response<ResponseBody>) {
    let token = bearer::token(request.headers());
    let open = matches!(request.uri().path(), "/readyz" | "/livez" | "/healthz");
    if !open && !token.is_some_and(|token| admin.is(token)) {
        return (None, unauthorized());
    }
    let caller = Caller::admin();
    if Own::serves(request.uri().path()) {
        let response = own.handle(request, &caller).await;
        return (Some(caller), response);
    }
    let response = api.handle(request, &caller).await;
    (Some(caller), response.map(|body| body.map_err(|never: Infallible| match never {}).boxed_unsync()))
}

fn unauthorized() -> Response<ResponseBody> {
    json(
        StatusCode::UNAUTHORIZED,
        &serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized: send the token of admin.kubeconfig as a bearer token",
            "reason": "Unauthorized", "code": 401,
        }),
    )
}
