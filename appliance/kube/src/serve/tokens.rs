//! Tokens of service accounts: texts signed by this server (JWT) that authenticate their holder as a program's account.
//! Made by a TokenRequest, good for one account (by uid), some audiences and some time. Pure.
//!
//! ```text
//!   TokenRequest ─► header.claims.tag ─► Authorization: Bearer ─► claims ─► caller
//! ```
//!
//! Only this server reads them, so one key signs and verifies (HMAC-SHA256), and there is one header.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use firesteel_kube_types::Cause;
use jiff::{SignedDuration, Timestamp};
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::access::{AUTHENTICATED, Caller, SERVICE_ACCOUNT};
use crate::model::instant_subresources::ServiceAccountTokenError;
use crate::model::status::Status;

/// Who issues tokens, and for whom they are unless the request says otherwise: as Kubernetes names itself.
pub const ISSUER: &str = "https://kubernetes.default.svc";
/// The longest token that is made or read.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// The shortest time, as Kubernetes has it.
const SECONDS_MIN: i64 = 600;
const SECONDS_DEFAULT: i64 = 3600;
/// The longest time of a token: outside programs do not renew theirs, and client certificates have a year too.
const SECONDS_MAX: i64 = 365 * 24 * 3600;
/// The longest time that may be asked for, as in Kubernetes.
const SECONDS_ASKED_MAX: i64 = 1 << 32;
const AUDIENCES_MAX: usize = 16;
/// A clock that was set back a little must not refuse what it has just signed.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);
const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// Signs and verifies tokens.
#[derive(Clone)]
pub struct TokenKey(hmac::Key);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountClaims {
    pub namespace: String,
    pub name: String,
    /// The UID of the service account: another account of this name has another one.
    pub uid: String,
    pub audiences: Vec<String>,
    pub expires: Timestamp,
    /// The id of the token.
    pub id: String,
}

impl ServiceAccountClaims {
    /// The caller whom the token authenticates, as Kubernetes describes service accounts.
    pub fn caller(&self) -> Caller {
        let group = format!("system:serviceaccounts:{}", self.namespace);
        let id = ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("JTI={}", self.id)]);
        Caller {
            name: format!("{SERVICE_ACCOUNT}{}:{}", self.namespace, self.name),
            uid: self.uid.clone(),
            groups: vec!["system:serviceaccounts".into(), group, AUTHENTICATED.into()],
            extra: [id].into(),
            until: Some(self.expires),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct TokenPayload {
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    iss: String,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: KubernetesClaims,
    nbf: i64,
    sub: String,
}

#[derive(Serialize, Deserialize)]
struct KubernetesClaims {
    namespace: String,
    serviceaccount: TokenObjectClaim,
}

#[derive(Serialize, Deserialize)]
struct TokenObjectClaim {
    name: String,
    uid: String,
}

impl TokenKey {
    pub fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Answers a TokenRequest for a service account, with the warnings for the client. `id` is the token's.
    pub fn answer(
        &self,
        account: &Value,
        asked: &Value,
        now: Timestamp,
        id: &str,
    ) -> Result<(Value, Vec<String>), Status> {
        let (spec, warnings) = check(&asked["spec"])?;
        let text = |key: &str| account["metadata"][key].as_str().unwrap_or_default().to_owned();
        let expires = now + SignedDuration::from_secs(spec.seconds);
        let claims = ServiceAccountClaims {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            audiences: spec.audiences.clone(),
            expires,
            id: id.to_owned(),
        };
        let token = self.sign(&claims, now);
        if token.len() > TOKEN_BYTES_MAX {
            let cause =
                Cause::invalid_json("spec.audiences", &json!(spec.audiences.len()), "the token would be too long");
            return Err(refused(vec![cause]));
        }
        let mut answer = asked.clone();
        answer["metadata"] =
            json!({ "name": claims.name, "namespace": claims.namespace, "creationTimestamp": seconds(now) });
        answer["spec"] =
            json!({ "audiences": spec.audiences, "expirationSeconds": spec.seconds, "boundObjectRef": null });
        answer["status"] = json!({ "token": token, "expirationTimestamp": seconds(expires) });
        Ok((answer, warnings))
    }

    fn sign(&self, claims: &ServiceAccountClaims, now: Timestamp) -> String {
        let payload = TokenPayload {
            aud: claims.audiences.clone(),
            exp: claims.expires.as_second(),
            iat: now.as_second(),
            iss: ISSUER.into(),
            jti: claims.id.clone(),
            kubernetes: KubernetesClaims {
                namespace: claims.namespace.clone(),
                serviceaccount: TokenObjectClaim { name: claims.name.clone(), uid: claims.uid.clone() },
            },
            nbf: now.as_second(),
            sub: format!("{SERVICE_ACCOUNT}{}:{}", claims.namespace, claims.name),
        };
        let payload = serde_json::to_vec(&payload).unwrap_or_default();
        let signed = format!("{}.{}", BASE64.encode(HEADER), BASE64.encode(payload));
        let tag = hmac::sign(&self.0, signed.as_bytes());
        format!("{signed}.{}", BASE64.encode(tag))
    }

    /// What a token says, if this server made it and it is good now. Whether its account still exists is
    /// for the caller to find out.
    pub fn read(&self, token: &str, now: Timestamp) -> Result<ServiceAccountClaims, ServiceAccountTokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(ServiceAccountTokenError::Foreign);
        }
        let (signed, tag) = token.rsplit_once('.').ok_or(ServiceAccountTokenError::Foreign)?;
        let tag = BASE64.decode(tag).map_err(|_| ServiceAccountTokenError::Foreign)?;
        hmac::verify(&self.0, signed.as_bytes(), &tag).map_err(|_| ServiceAccountTokenError::Foreign)?;
        let (header, payload) = signed.split_once('.').ok_or(ServiceAccountTokenError::Foreign)?;
        let payload = BASE64.decode(payload).map_err(|_| ServiceAccountTokenError::Foreign)?;
        let payload: TokenPayload = serde_json::from_slice(&payload).map_err(|_| ServiceAccountTokenError::Foreign)?;
        let at = |second| Timestamp::from_second(second).map_err(|_| ServiceAccountTokenError::Foreign);
        let (begins, expires) = (at(payload.nbf)?, at(payload.exp)?);
        if header != BASE64.encode(HEADER) || payload.iss != ISSUER {
            return Err(ServiceAccountTokenError::Foreign);
        }
        if expires <= now {
            return Err(ServiceAccountTokenError::Expired);
        }
        if begins > now + LEEWAY {
            return Err(ServiceAccountTokenError::Early);
        }
        let KubernetesClaims { namespace, serviceaccount: TokenObjectClaim { name, uid } } = payload.kubernetes;
        Ok(ServiceAccountClaims { namespace, name, uid, audiences: payload.aud, expires, id: payload.jti })
    }
}

struct TokenRequestSpec {
    audiences: Vec<String>,
    seconds: i64,
}

fn check(spec: &Value) -> Result<(TokenRequestSpec, Vec<String>), Status> {
    let mut causes = Vec::new();
    let mut warnings = Vec::new();
    let audiences: Vec<String> = match &spec["audiences"] {
        Value::Null => Vec::new(),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        // Without those that cannot be read it might be for more than was asked.
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            causes.push(Cause::invalid_json("spec.audiences", other, "must be a list of strings"));
            Vec::new()
        }
    };
    if audiences.len() > AUDIENCES_MAX {
        let detail = format!("must have at most {AUDIENCES_MAX} items");
        causes.push(Cause::invalid_json("spec.audiences", &json!(audiences.len()), &detail));
    }
    let asked = &spec["expirationSeconds"];
    let mut seconds = if asked.is_null() { SECONDS_DEFAULT } else { asked.as_i64().unwrap_or_default() };
    if seconds < SECONDS_MIN {
        let detail = "may not specify a duration less than 10 minutes";
        causes.push(Cause::invalid_json("spec.expirationSeconds", asked, detail));
    } else if seconds > SECONDS_ASKED_MAX {
        let detail = "may not specify a duration larger than 2^32 seconds";
        causes.push(Cause::invalid_json("spec.expirationSeconds", asked, detail));
    } else if seconds > SECONDS_MAX {
        warnings.push(format!("requested expiration of {seconds} seconds shortened to {SECONDS_MAX} seconds"));
        seconds = SECONDS_MAX;
    }
    if !spec["boundObjectRef"].is_null() {
        let detail = "tokens are bound to their service account alone here";
        causes.push(Cause::forbidden("spec.boundObjectRef", detail));
    }
    if !causes.is_empty() {
        return Err(refused(causes));
    }
    let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
    Ok((TokenRequestSpec { audiences, seconds }, warnings))
}

fn refused(causes: Vec<Cause>) -> Status {
    Status::invalid("authentication.k8s.io", "TokenRequest", "", causes)
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_790_000_000).unwrap()
    }

    fn account() -> Value {
        json!({ "metadata": { "namespace": "rack1", "name": "robot", "uid": "u-1" } })
    }

    fn token(key: &TokenKey, spec: &Value) -> String {
        let (answer, _) = key.answer(&account(), &json!({ "spec": spec }), now(), "id-1").unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_token_speaks_for_its_account_until_it_ends() {
        let key = TokenKey::new(&[7; 32]);
        let (answer, warnings) = key.answer(&account(), &json!({ "spec": {} }), now(), "id-1").unwrap();
        assert!(warnings.is_empty());
        assert_eq!(answer["status"]["expirationTimestamp"], "2026-09-21T15:13:20Z");
        assert_eq!(answer["spec"], json!({ "audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null }));
        let token = answer["status"]["token"].as_str().unwrap();
        let claims = key.read(token, now()).unwrap();
        let caller = claims.caller();
        assert_eq!((caller.name.as_str(), caller.uid.as_str()), ("system:serviceaccount:rack1:robot", "u-1"));
        assert_eq!(caller.groups, ["system:serviceaccounts", "system:serviceaccounts:rack1", "system:authenticated"]);
        assert_eq!(claims.audiences, [ISSUER]);
        let last = now() + SignedDuration::from_secs(3599);
        assert!(key.read(token, last).is_ok());
        assert_eq!(key.read(token, last + SignedDuration::from_secs(1)), Err(ServiceAccountTokenError::Expired));
        assert_eq!(key.read(token, now() - SignedDuration::from_secs(61)), Err(ServiceAccountTokenError::Early));
        assert_eq!(TokenKey::new(&[8; 32]).read(token, now()), Err(ServiceAccountTokenError::Foreign), "another key");
    }

    #[test]
    fn a_request_is_bounded() {
        let key = TokenKey::new(&[7; 32]);
        let fails = |spec: Value| key.answer(&account(), &json!({ "spec": spec }), now(), "i").unwrap_err().message;
        assert!(fails(json!({ "expirationSeconds": 599 })).contains("less than 10 minutes"));
        assert!(fails(json!({ "expirationSeconds": 1_i64 << 33 })).contains("2^32"));
        assert!(fails(json!({ "expirationSeconds": "x" })).contains("less than 10 minutes"));
        assert!(fails(json!({ "boundObjectRef": { "kind": "Pod" } })).contains("boundObjectRef"));
        assert!(fails(json!({ "audiences": vec!["a"; 17] })).contains("at most 16"));
        assert!(fails(json!({ "audiences": [1] })).contains("list of strings"), "not one for this server then");
        assert!(fails(json!({ "audiences": ["a".repeat(5000)] })).contains("too long"));
        let (answer, warnings) =
            key.answer(&account(), &json!({ "spec": { "expirationSeconds": 1 << 30 } }), now(), "i").unwrap();
        assert_eq!(answer["spec"]["expirationSeconds"], SECONDS_MAX);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }

    proptest! {
        /// No letter of a token can become another one.
        #[test]
        fn a_changed_token_is_foreign(at in 0_usize..200, letter in "[A-Za-z0-9._-]") {
            let key = TokenKey::new(&[7; 32]);
            let token = token(&key, &json!({}));
            let at = at % token.len();
            let changed = format!("{}{letter}{}", &token[..at], &token[at + 1..]);
            prop_assert!(changed == token || key.read(&changed, now()).is_err());
        }

        #[test]
        fn no_text_panics(text in ".{0,200}") {
            prop_assert_eq!(TokenKey::new(&[7; 32]).read(&text, now()), Err(ServiceAccountTokenError::Foreign));
        }
    }
}
