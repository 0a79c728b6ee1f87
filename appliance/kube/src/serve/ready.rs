//! What `/readyz` says: whether what is sent is stored, and what else is not as it should be. In the words of
//! Kubernetes' own checks, so that people know how to read it.

use std::fmt;

use http::{Response, StatusCode};

use crate::codec::body::Body;
use crate::serve::respond::{respond, text_response, whole};

/// Looks for what is not as it should be, and keeps no request from being answered.
pub trait ReadinessRemarks: fmt::Debug + Send + Sync {
    /// A line each: what it is about, a colon, what is wrong and what to do.
    fn remarks(&self) -> Vec<String>;
}

/// What keeps changes from being stored makes the server not ready. The rest has its lines after the word that
/// monitoring looks for.
pub(crate) fn ready(troubles: &[String], remarks: &[String]) -> Response<Body> {
    let lines = |prefix: &str, all: &[String]| all.iter().map(|why| format!("[-]{prefix}{why}\n")).collect::<String>();
    let remarked = lines("", remarks);
    if troubles.is_empty() && remarks.is_empty() {
        return text_response(StatusCode::OK, "ok");
    }
    let (code, text) = if troubles.is_empty() {
        (StatusCode::OK, format!("ok\n{remarked}"))
    } else {
        let failed = lines("storage failed: ", troubles);
        (StatusCode::SERVICE_UNAVAILABLE, format!("[+]ping ok\n{failed}{remarked}readyz check failed\n"))
    };
    respond(code, "text/plain; charset=utf-8", whole(text.into_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use http_body_util::BodyExt as _;

    use super::*;

    async fn said(troubles: &[&str], remarks: &[&str]) -> (u16, String) {
        let owned = |all: &[&str]| all.iter().map(|&why| why.to_owned()).collect::<Vec<_>>();
        let response = ready(&owned(troubles), &owned(remarks));
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.into()).unwrap())
    }

    #[tokio::test]
    async fn who_is_ready_says_what_is_wrong_all_the_same() {
        assert_eq!(said(&[], &[]).await, (200, "ok".to_owned()));
        assert_eq!(said(&[], &["clock: it is wrong"]).await, (200, "ok\n[-]clock: it is wrong\n".to_owned()));
    }

    #[tokio::test]
    async fn who_does_not_store_is_not_ready_and_says_all_that_is_wrong() {
        let (code, text) = said(&["full"], &["clock: it is wrong"]).await;
        let whole = "[+]ping ok\n[-]storage failed: full\n[-]clock: it is wrong\nreadyz check failed\n";
        assert_eq!((code, text.as_str()), (503, whole));
    }
}
