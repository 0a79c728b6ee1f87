//! HTTPS for people and their tools: the Kubernetes-style API behind a bearer token.

use std::{convert::Infallible, sync::Arc};

use firesteel_kube::{Api, Caller};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use ring::{error::Unspecified, hmac, rand::SystemRandom};

use super::{
    bearer,
    body::{ResponseBody, json, text},
    server::RequestBody,
};
use crate::backup::{
    Backups,
    serve::{BACKUP_PATH, STORE_PATH},
};

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

/// Answers one request, after its token was checked.
pub async fn handle(
    api: Api,
    backups: Backups,
    admin: AdminToken,
    request: Request<RequestBody>,
) -> Response<ResponseBody> {
    let token = bearer::token(request.headers());
    let open = matches!(request.uri().path(), "/readyz" | "/livez" | "/healthz");
    if !open && !token.is_some_and(|token| admin.is(token)) {
        return unauthorized();
    }
    // No objects, so not the API's: for the admin alone, who may read all of them.
    match (request.uri().path(), request.method()) {
        (BACKUP_PATH, &Method::GET) => return backups.answer().await,
        (STORE_PATH, &Method::GET) => return backups.lineage(),
        (BACKUP_PATH | STORE_PATH, _) => return text(StatusCode::METHOD_NOT_ALLOWED, "use GET"),
        _ => {}
    }
    let caller = Caller { name: "admin".to_owned(), admin: true };
    api.handle(request, &caller).await.map(|body| body.map_err(|never: Infallible| match never {}).boxed_unsync())
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
