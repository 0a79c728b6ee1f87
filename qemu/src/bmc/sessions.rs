//! Who may speak to a BMC: basic authentication, or a session's token.

use std::sync::{Mutex, PoisonError};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::json;

use super::redfish::{LabRedfishResponse, SESSIONS, refuse};

/// Real BMCs have between 4 and 64 sessions; the oldest makes room here.
const SESSIONS_MAX: usize = 16;
const TOKEN_HEADER: &str = "x-auth-token";

pub(super) struct Sessions {
    user: &'static str,
    password: &'static str,
    open: Mutex<Vec<LabRedfishSession>>,
}

#[derive(Clone)]
struct LabRedfishSession {
    id: String,
    token: String,
}

impl Sessions {
    pub(super) fn new(user: &'static str, password: &'static str) -> Self {
        Self { user, password, open: Mutex::default() }
    }

    /// Whether the request carries valid credentials.
    pub(super) fn allow(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(token) = text(TOKEN_HEADER) {
            return self.lock().iter().any(|session| session.token == token);
        }
        let given = text(AUTHORIZATION.as_str())
            .and_then(|value| value.strip_prefix("Basic "))
            .and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
        given.is_some_and(|given| given == format!("{}:{}", self.user, self.password).into_bytes())
    }

    /// `POST` on the session collection.
    pub(super) fn open(&self, body: &[u8]) -> Option<Response<Full<Bytes>>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct LabCredentials {
            user_name: String,
            password: String,
        }
        let given: LabCredentials = serde_json::from_slice(body).ok()?;
        if given.user_name != self.user || given.password != self.password {
            return None;
        }
        let session = LabRedfishSession {
            id: uuid::Uuid::new_v4().simple().to_string(),
            token: uuid::Uuid::new_v4().simple().to_string(),
        };
        let location = format!("{SESSIONS}/{}", session.id);
        let mut response = Response::new(Full::new(Bytes::from(describe(&session.id, self.user).to_string())));
        *response.status_mut() = StatusCode::CREATED;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(LOCATION, HeaderValue::from_str(&location).ok()?);
        headers.insert(TOKEN_HEADER, HeaderValue::from_str(&session.token).ok()?);
        let mut open = self.lock();
        if open.len() == SESSIONS_MAX {
            open.remove(0);
        }
        open.push(session);
        Some(response)
    }

    /// Everything else at or below the session collection; `None` for other paths.
    pub(super) fn answer(&self, method: &Method, path: &str) -> Option<LabRedfishResponse> {
        let rest = path.trim_end_matches('/').strip_prefix(SESSIONS)?;
        let mut open = self.lock();
        let Some(id) = rest.strip_prefix('/') else {
            let members: Vec<_> =
                open.iter().map(|session| json!({"@odata.id": format!("{SESSIONS}/{}", session.id)})).collect();
            let body = json!({
                "@odata.id": SESSIONS, "@odata.type": "#SessionCollection.SessionCollection", "Name": "Sessions",
                "Members@odata.count": members.len(), "Members": members,
            });
            return Some(LabRedfishResponse { status: StatusCode::OK, body: Some(body), effect: None });
        };
        let Some(position) = open.iter().position(|session| session.id == id) else {
            return Some(refuse(StatusCode::NOT_FOUND, "ResourceMissingAtURI", "there is no such session"));
        };
        if method == Method::DELETE {
            open.remove(position);
            return Some(LabRedfishResponse { status: StatusCode::NO_CONTENT, body: None, effect: None });
        }
        Some(LabRedfishResponse { status: StatusCode::OK, body: Some(describe(id, self.user)), effect: None })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<LabRedfishSession>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn describe(id: &str, user: &str) -> serde_json::Value {
    json!({
        "@odata.id": format!("{SESSIONS}/{id}"), "@odata.type": "#Session.v1_3_0.Session", "Id": id,
        "Name": "Session", "UserName": user,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn basic(credentials: &str) -> HeaderMap {
        let value = format!("Basic {}", BASE64_STANDARD.encode(credentials));
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn a_session_lives_from_login_to_logout() {
        let sessions = Sessions::new("admin", "secret");
        assert!(sessions.open(br#"{"UserName": "admin", "Password": "wrong"}"#).is_none());
        assert!(sessions.open(b"{").is_none());
        let opened = sessions.open(br#"{"UserName": "admin", "Password": "secret"}"#).unwrap();
        let token = HeaderMap::from_iter([(
            http::HeaderName::from_static(TOKEN_HEADER),
            opened.headers()[TOKEN_HEADER].clone(),
        )]);
        assert!(sessions.allow(&token));
        let location = opened.headers()[LOCATION].to_str().unwrap().to_owned();
        assert_eq!(sessions.answer(&Method::GET, &location).unwrap().status, StatusCode::OK);
        assert_eq!(sessions.answer(&Method::DELETE, &location).unwrap().status, StatusCode::NO_CONTENT);
        assert!(!sessions.allow(&token));
        assert_eq!(sessions.answer(&Method::GET, &location).unwrap().status, StatusCode::NOT_FOUND);
        assert!(sessions.answer(&Method::GET, "/redfish/v1/Systems").is_none());
    }

    #[test]
    fn only_the_right_password_is_let_in() {
        let sessions = Sessions::new("admin", "secret");
        assert!(sessions.allow(&basic("admin:secret")));
        assert!(!sessions.allow(&basic("admin:secre")));
        assert!(!sessions.allow(&HeaderMap::new()));
    }
}
