//! Logging in: a session where the service has them, else a password with each request.
//!
//! A session is one login for many requests, and is deleted at the end, also where a call was given up
//! half-way: BMCs have places for few, and keep a forgotten one for half an hour. Its path is in the body of the
//! answer (`@odata.id`), in `Location`, made of its `Id`, or the only one in the collection: services leave out one
//! or the other. Where the service offers none, has no place left, or fails to make one, it is Basic authentication.
//!
//! A password is shown to the BMC once per login: what refuses a session because of the login is not asked again
//! by Basic. So one refused login here is one that the BMC counts, and who counts the refusals (an account is
//! locked after a few) counts right. Where there is no place for a session, a refusal of Basic says nothing of the
//! password: most such BMCs take sessions only. That is tried seldom (see [`crate::bmc_queue`]).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use http::header::{HeaderValue, LOCATION};
use serde_json::json;

use crate::BmcCredentials;
use crate::address::own_path;
use crate::error::{Error, SESSION};
use crate::http::{BmcConnection, Proof};
use crate::model::{Collection, RedfishSession};
use crate::response::BmcResponse;

/// What is known of the login.
pub(crate) struct LoginState {
    pub(crate) proof: Proof,
    /// Path of the session, which is deleted at the end.
    pub(crate) session: Option<String>,
    /// There was no place for a session: it is Basic authentication in its place.
    pub(crate) is_in_place_of_session: bool,
}

/// What the answer to the wish for a session means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginAnswer {
    Session,
    /// Nothing was said about the login.
    TryBasic,
    /// All places are taken.
    NoPlace,
    LoginRefused,
    Failed,
}

/// Message identifiers with which services refuse a login by other statuses than 401.
const LOGIN_REFUSED: &[&str] = &["Unauthorized", "AccessDenied", "InvalidCredential", "LoginFail"];
/// Message identifiers that say that there is no place for one more session.
const NO_PLACE: &[&str] = &["SessionLimitExceeded", "CreateLimitReached", "MaximumSessions", "RAC0218"];
/// Words that say so on services that have no identifier for it.
const NO_PLACE_WORDS: &[&str] = &["limit", "maximum", "exceed", "too many", "no free", "no more", "full"];

/// Pure: `says` looks for a message identifier, and `text` is what the service says in words.
fn judge(status: u16, has_token: bool, says: impl Fn(&str) -> bool, text: &str) -> LoginAnswer {
    let is_said = |list: &[&str]| list.iter().any(|id| says(id));
    let text = text.to_ascii_lowercase();
    let is_full = text.contains("session") && NO_PLACE_WORDS.iter().any(|word| text.contains(word));
    match status {
        200..=299 if has_token => LoginAnswer::Session,
        401 => LoginAnswer::LoginRefused,
        300.. if is_said(NO_PLACE) => LoginAnswer::NoPlace,
        400 | 403 if is_said(LOGIN_REFUSED) => LoginAnswer::LoginRefused,
        300.. if is_full => LoginAnswer::NoPlace,
        // It has just shown its root, so it is not busy altogether.
        503 if text.is_empty() => LoginAnswer::NoPlace,
        // A BMC that is busy stays so for the next request.
        429 | 503 => LoginAnswer::Failed,
        200..=299 | 404 | 405 | 500.. => LoginAnswer::TryBasic,
        // It may have counted the login: showing the password again could be the one that locks the account.
        _ => LoginAnswer::Failed,
    }
}

/// Logs in at a service that was found; `sessions` is its collection.
pub(crate) async fn log_in(
    connection: &BmcConnection,
    credentials: &BmcCredentials,
    sessions: Option<&str>,
) -> Result<LoginState, Error> {
    let Some(path) = sessions else { return basic(credentials, false) };
    let body = json!({"UserName": credentials.username, "Password": credentials.password});
    let answer = connection.change(Method::POST, path, &Proof::None, &body, None).await?;
    let token = answer.headers.get("x-auth-token").cloned();
    let said = answer.message().unwrap_or_default();
    match (judge(answer.status.as_u16(), token.is_some(), |id| answer.has_message_id(id), &said), token) {
        (LoginAnswer::Session, Some(mut token)) => {
            token.set_sensitive(true);
            let proof = Proof::Session(token);
            let session = match session_path(&answer, path) {
                Some(session) => Some(session),
                None => only_session(connection, path, &proof).await,
            };
            Ok(LoginState { session, proof, is_in_place_of_session: false })
        }
        (LoginAnswer::LoginRefused, _) => Err(Error::Unauthorized),
        (LoginAnswer::NoPlace, _) if connection.line().may_try_basic() => basic(credentials, true),
        (LoginAnswer::NoPlace, _) => Err(Error::NoSessionNorBasic),
        (LoginAnswer::TryBasic | LoginAnswer::Session, _) => {
            tracing::debug!(status = answer.status.as_u16(), "the BMC gives no session: Basic authentication");
            basic(credentials, false)
        }
        (LoginAnswer::Failed, _) => match answer.accepted(SESSION, path) {
            Err(error) => Err(error),
            Ok(_) => basic(credentials, false),
        },
    }
}

/// Finds the path of the session: in the body, in `Location` (a path by the specification, a whole URL on some
/// services), or by its identifier in the collection.
fn session_path(answer: &BmcResponse, sessions: &str) -> Option<String> {
    let session: RedfishSession = serde_json::from_slice(&answer.body).unwrap_or_default();
    let sessions = sessions.trim_end_matches('/');
    let is_session = |path: &&str| {
        let below = path.split_once(sessions).map(|(_, rest)| rest.trim_matches('/'));
        below.is_some_and(|rest| !rest.is_empty())
    };
    let by_body = session.link.as_deref().and_then(own_path).filter(is_session).map(str::to_owned);
    let by_header = || {
        let text = answer.header(&LOCATION)?;
        let path = url::Url::parse(text).map_or_else(|_| text.to_owned(), |url| url.path().to_owned());
        own_path(&path).map(str::to_owned)
    };
    let by_id = || {
        let id = session.id.filter(|id| !id.is_empty() && !id.contains('/'))?;
        own_path(&format!("{sessions}/{id}")).map(str::to_owned)
    };
    by_body.or_else(by_header).or_else(by_id)
}

/// The one session that there is, where ours is not named: of several, another's could be ended.
async fn only_session(connection: &BmcConnection, sessions: &str, proof: &Proof) -> Option<String> {
    let answer = connection.get(sessions, proof).await.ok()?;
    let all = answer.json_if_there::<Collection>()?.members.unwrap_or_default();
    let path = match all.as_slice() {
        [one] => one.id.as_deref().and_then(own_path).map(str::to_owned),
        [] | [_, _, ..] => None,
    };
    if path.is_none() {
        tracing::warn!("the BMC does not say where its session is, which stays open until the BMC ends it");
    }
    path
}

fn basic(credentials: &BmcCredentials, is_in_place_of_session: bool) -> Result<LoginState, Error> {
    let pair = format!("{}:{}", credentials.username, credentials.password);
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).map_err(|_| Error::Unauthorized)?;
    value.set_sensitive(true);
    Ok(LoginState { proof: Proof::Basic(value), session: None, is_in_place_of_session })
}

/// Ends a session. Without it the BMC ends it by itself after a while.
pub(crate) async fn log_out(connection: &BmcConnection, path: &str, proof: &Proof) {
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
            (201, "", LoginAnswer::TryBasic),
            (401, "", LoginAnswer::LoginRefused),
            // iLO
            (400, "iLO.2.14.UnauthorizedLoginAttempt", LoginAnswer::LoginRefused),
            (400, "Base.1.4.PropertyMissing", LoginAnswer::Failed),
            (403, "Base.1.0.AccessDenied", LoginAnswer::LoginRefused),
            (403, "", LoginAnswer::Failed),
            (403, "Base.1.8.SessionLimitExceeded", LoginAnswer::NoPlace),
            (400, "Base.1.8.CreateLimitReachedForResource", LoginAnswer::NoPlace),
            // iDRAC
            (503, "IDRAC.2.4.RAC0218", LoginAnswer::NoPlace),
            (503, "", LoginAnswer::NoPlace),
            (429, "", LoginAnswer::Failed),
            (404, "", LoginAnswer::TryBasic),
            (405, "", LoginAnswer::TryBasic),
            (500, "", LoginAnswer::TryBasic),
            (501, "", LoginAnswer::TryBasic),
        ] {
            assert_eq!(judge(status, false, says(said), ""), opened, "{status} {said}");
        }
        assert_eq!(judge(201, true, says(""), ""), LoginAnswer::Session);
        for (status, text, opened) in [
            (503, "The maximum number of sessions is reached", LoginAnswer::NoPlace),
            (400, "Too many user sessions", LoginAnswer::NoPlace),
            (503, "The service is busy", LoginAnswer::Failed),
            (403, "The session may not be made", LoginAnswer::Failed),
        ] {
            assert_eq!(judge(status, false, says(""), text), opened, "{status} {text}");
        }
        assert_eq!(judge(401, false, says(""), "session limit"), LoginAnswer::LoginRefused);
    }
}
