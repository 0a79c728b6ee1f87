//! Logging in: a session where the service has them, else a password with each request.
//!
//! A session is one login for many requests, and is deleted at the end, also where a call was given up
//! half-way: BMCs have places for few, and keep a forgotten one for half an hour. Where the service offers none,
//! has no place left, or fails to make one, it is Basic authentication.
//!
//! A password is shown to the BMC once per login: what refuses a session because of the login is not asked again
//! by Basic. So one refused login here is one that the BMC counts, and who counts the refusals (an account is
//! locked after a few) counts right.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{HeaderValue, LOCATION};
use serde_json::json;

use crate::Credentials;
use crate::address::own_path;
use crate::error::{Error, SESSION};
use crate::http::{Answer, Connection, Proof};

/// What is known of the login.
pub(crate) struct Login {
    pub(crate) proof: Proof,
    /// To be deleted at the end.
    pub(crate) session: Option<String>,
}

/// What the answer to the wish for a session means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    Session,
    /// Nothing was said about the login.
    TryBasic,
    LoginRefused,
    Failed,
}

/// Message identifiers with which services refuse a login by other statuses than 401.
const LOGIN_REFUSED: &[&str] = &["Unauthorized", "AccessDenied", "InvalidCredential", "LoginFail"];
/// And those that say that there is no place for one more session.
const NO_PLACE: &[&str] = &["SessionLimitExceeded", "CreateLimitReached", "RAC0218"];

/// Pure: `says` looks for a message identifier.
fn judge(status: u16, has_token: bool, says: impl Fn(&str) -> bool) -> Opened {
    let is_said = |list: &[&str]| list.iter().any(|id| says(id));
    match status {
        200..=299 if has_token => Opened::Session,
        401 => Opened::LoginRefused,
        _ if is_said(NO_PLACE) => Opened::TryBasic,
        400 | 403 if is_said(LOGIN_REFUSED) => Opened::LoginRefused,
        // 503 and 429 without a reason are a BMC that is busy, and stays so for the next request.
        429 | 503 => Opened::Failed,
        200..=299 | 404 | 405 | 500.. => Opened::TryBasic,
        // It may have counted the login: showing the password again could be the one that locks the account.
        _ => Opened::Failed,
    }
}

/// Logs in at a service that was found; `sessions` is its collection.
pub(crate) async fn log_in(
    connection: &Connection,
    credentials: &Credentials,
    sessions: Option<&str>,
) -> Result<Login, Error> {
    let Some(path) = sessions else { return basic(credentials) };
    let body = json!({"UserName": credentials.username, "Password": credentials.password});
    let answer = connection.change(Method::POST, path, &Proof::None, &body, None).await?;
    let token = answer.headers.get("x-auth-token").cloned();
    match (judge(answer.status.as_u16(), token.is_some(), |id| answer.says(id)), token) {
        (Opened::Session, Some(mut token)) => {
            token.set_sensitive(true);
            Ok(Login { session: location(&answer), proof: Proof::Session(token) })
        }
        (Opened::LoginRefused, _) => Err(Error::Unauthorized),
        (Opened::TryBasic | Opened::Session, _) => {
            tracing::debug!(status = answer.status.as_u16(), "the BMC gives no session: Basic authentication");
            basic(credentials)
        }
        (Opened::Failed, _) => match answer.accepted(SESSION, path) {
            Err(error) => Err(error),
            Ok(_) => basic(credentials),
        },
    }
}

/// Where the session is: a path by the specification, and a whole URL on some services.
fn location(answer: &Answer) -> Option<String> {
    let text = answer.headers.get(LOCATION)?.to_str().ok()?;
    let path = reqwest::Url::parse(text).map_or_else(|_| text.to_owned(), |url| url.path().to_owned());
    own_path(&path).map(str::to_owned)
}

fn basic(credentials: &Credentials) -> Result<Login, Error> {
    let pair = format!("{}:{}", credentials.username, credentials.password);
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).map_err(|_| Error::Unauthorized)?;
    value.set_sensitive(true);
    Ok(Login { proof: Proof::Basic(value), session: None })
}

/// Ends a session. Without it the BMC ends it by itself after a while.
pub(crate) async fn log_out(connection: &Connection, path: &str, proof: &Proof) {
    match connection.delete(path, proof).await {
        Ok(answer) if answer.status.is_success() || answer.status.as_u16() == 404 => {}
        Ok(answer) => tracing::debug!(status = answer.status.as_u16(), "the BMC's session was left open"),
        Err(error) => tracing::debug!(%error, "the BMC's session was left open"),
    }
}

pub(crate) fn same(one: &Proof, other: &Proof) -> bool {
    match (one, other) {
        (Proof::None, Proof::None) => true,
        (Proof::Basic(one), Proof::Basic(other)) | (Proof::Session(one), Proof::Session(other)) => one == other,
        (Proof::None | Proof::Basic(_) | Proof::Session(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_login_is_never_shown_again_and_a_missing_service_is_none() {
        let says = |given: &'static str| move |id: &str| given.contains(id);
        for (status, said, opened) in [
            (201, "", Opened::TryBasic),
            (401, "", Opened::LoginRefused),
            // iLO
            (400, "iLO.2.14.UnauthorizedLoginAttempt", Opened::LoginRefused),
            (400, "Base.1.4.PropertyMissing", Opened::Failed),
            (403, "Base.1.0.AccessDenied", Opened::LoginRefused),
            (403, "", Opened::Failed),
            (403, "Base.1.8.SessionLimitExceeded", Opened::TryBasic),
            // iDRAC
            (503, "IDRAC.2.4.RAC0218", Opened::TryBasic),
            (503, "", Opened::Failed),
            (429, "", Opened::Failed),
            (404, "", Opened::TryBasic),
            (405, "", Opened::TryBasic),
            (500, "", Opened::TryBasic),
            (501, "", Opened::TryBasic),
        ] {
            assert_eq!(judge(status, false, says(said)), opened, "{status} {said}");
        }
        assert_eq!(judge(201, true, says("")), Opened::Session);
    }
}
