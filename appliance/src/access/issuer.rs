//! Issues the credentials of callers: tokens for service accounts, certificates for users.

use firesteel_kube::builtin::TOKEN_REQUEST;
use firesteel_kube::instant_subresources::{IssueSubresource, Issued, Issuer, ServiceAccountTokenError};
use firesteel_kube::tokens::{ISSUER, TokenKey};
use firesteel_kube::{Caller, Cause, KindInfo, Status};
use firesteel_resources::access_grant::USER;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::AdminToken;
use super::certificates::{CertificateSubject, ClientCa};

/// The subresource of a grant that issues a certificate for its user.
pub const CERTIFICATE_REQUEST: IssueSubresource = IssueSubresource {
    subresource: "certificate",
    group: "firesteel.dev",
    version: "v1alpha1",
    kind: "CertificateRequest",
};

/// The limit of a certificate request; one with the largest key in use has 2 KiB.
const REQUEST_BYTES_MAX: usize = 16 << 10;
const GROUPS_MAX: usize = 16;
const GROUP_BYTES_MAX: usize = 64;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 365 * 24 * 3600;

/// The keys with which this appliance issues and verifies credentials.
#[derive(Debug)]
pub struct IssuerKeys {
    pub admin: AdminToken,
    pub tokens: TokenKey,
    pub clients: ClientCa,
}

impl Issuer for IssuerKeys {
    fn answer(
        &self,
        kind: &KindInfo,
        request: &IssueSubresource,
        object: &Value,
        asked: &Value,
        now: Timestamp,
    ) -> Result<Issued, Status> {
        if *request == TOKEN_REQUEST {
            return self.tokens.answer(object, asked, now, &Uuid::new_v4().to_string());
        }
        if *request == CERTIFICATE_REQUEST {
            return self.certificate(object, asked, now).map(|answer| (answer, Vec::new()));
        }
        Err(Status::not_found(kind, object["metadata"]["name"].as_str().unwrap_or_default()))
    }

    fn caller_of(&self, token: &str, now: Timestamp) -> Result<(Caller, Vec<String>), ServiceAccountTokenError> {
        if self.admin.is(token) {
            return Ok((Caller::admin(), vec![ISSUER.to_owned()]));
        }
        let claims = self.tokens.read(token, now)?;
        let audiences = claims.audiences.clone();
        Ok((claims.caller(), audiences))
    }
}

impl IssuerKeys {
    fn certificate(&self, grant: &Value, asked: &Value, now: Timestamp) -> Result<Value, Status> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, user) = (text(&grant["metadata"]["name"]), &grant["spec"]["subject"]);
        let refused =
            |cause: Cause| Err(Status::invalid("firesteel.dev", CERTIFICATE_REQUEST.kind, &name, vec![cause]));
        if user["kind"] != USER {
            return refused(Cause::forbidden("spec", "only a User has certificates; a ServiceAccount has tokens"));
        }
        let spec = &asked["spec"];
        let request = spec["request"].as_str().unwrap_or_default();
        if request.is_empty() || request.len() > REQUEST_BYTES_MAX {
            return refused(Cause::required("spec.request", "a certificate request (PKCS #10) in PEM"));
        }
        let seconds = if spec["expirationSeconds"].is_null() {
            SECONDS_MAX
        } else {
            spec["expirationSeconds"].as_i64().unwrap_or_default()
        };
        if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
            let detail = format!("must be between {SECONDS_MIN} and {SECONDS_MAX}");
            return refused(Cause::invalid_json("spec.expirationSeconds", &spec["expirationSeconds"], &detail));
        }
        let groups: Vec<String> = spec["groups"].as_array().into_iter().flatten().map(text).collect();
        let bad = |group: &String| group.is_empty() || group.len() > GROUP_BYTES_MAX || group.starts_with("system:");
        if groups.len() > GROUPS_MAX || groups.iter().any(bad) {
            let detail = format!("at most {GROUPS_MAX} names that do not begin with \"system:\"");
            return refused(Cause::invalid_json("spec.groups", &spec["groups"], &detail));
        }
        let (user, uid) = (text(&user["name"]), text(&grant["metadata"]["uid"]));
        let subject = CertificateSubject { name: &user, groups: &groups, uid: &uid };
        let until = now + SignedDuration::from_secs(seconds);
        let certificate = match self.clients.sign(request, subject, now, until) {
            Ok(certificate) => certificate,
            Err(error) => return refused(Cause::invalid_json("spec.request", &json!("…"), &format!("{error:#}"))),
        };
        let mut answer = asked.clone();
        answer["metadata"] = json!({ "name": name });
        answer["spec"]["expirationSeconds"] = json!(seconds);
        answer["status"] = json!({
            "certificate": certificate, "expirationTimestamp": until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        Ok(answer)
    }
}
