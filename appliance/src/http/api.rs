//! HTTPS for people and their tools: the Kubernetes-style API behind a bearer token.

use std::sync::Arc;

use firesteel_kube::{Api, Caller};
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use ring::{constant_time, digest};

use super::body::{ResponseBody, json};

/// The admin's token, kept as its digest only.
#[derive(Clone)]
pub struct AdminToken(Arc<[u8]>);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

impl AdminToken {
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(digest::digest(&digest::SHA256, token.as_bytes()).as_ref().into())
    }

    /// Compares in constant time.
    #[must_use]
    #[allow(deprecated, reason = "ring 0.17 has no other public constant-time comparison")]
    pub fn is(&self, token: &str) -> bool {
        let digest = digest::digest(&digest::SHA256, token.as_bytes());
        constant_time::verify_slices_are_equal(digest.as_ref(), &self.0).is_ok()
    }
}

/// Answers one request, after its token was checked.
pub async fn handle(api: Api, admin: AdminToken, request: Request<Incoming>) -> Response<ResponseBody> {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let open = matches!(request.uri().path(), "/readyz" | "/livez" | "/healthz");
    if !open && !token.is_some_and(|token| admin.is(token.trim())) {
        return unauthorized();
    }
    let caller = Caller { name: "admin".to_owned(), admin: true };
    api.handle(request, caller).await.map(|body| body.map_err(std::io::Error::other).boxed_unsync())
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
