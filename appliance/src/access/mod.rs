//! Authentication and authorisation: who a caller is, and what the caller may do.
//!
//! ```text
//!   client certificate ─┐                       ┌─► Rights (grants, service accounts) ─► roles
//!   bearer token       ─┴─► Access ─► caller ───┤
//!                                               └─► 401: unknown credentials
//! ```
//!
//! Everything about users is data in the API: `AccessGrant` objects say who has which role, and a user's certificate is
//! made through one of them. [`Rights`] follows these objects: a change of them takes effect before it is answered.
//! `firesteel_resources::roles` says what each role may do.

pub mod certificates;
mod issuer;
mod rights;

use std::sync::Arc;

use firesteel_kube::instant_subresources::Issuer as _;
use firesteel_kube::tokens::{ISSUER, TokenKey};
use firesteel_kube::{Authorizer as _, Caller, Core};
use http::HeaderMap;
use jiff::Timestamp;
use ring::{digest, hmac, rand::SystemRandom};

use crate::{http::bearer, serve::data_dir::DataDir};
use certificates::{ClientCa, PeerCertificate};
pub use issuer::{CERTIFICATE_REQUEST, IssuerKeys};
pub use rights::Rights;

/// The owner's token, stored as a tag under a key that only this process has.
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
    pub fn new(token: &str) -> anyhow::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
        let tag = hmac::sign(&key, token.as_bytes());
        Ok(Self(Arc::new((key, tag))))
    }

    /// Compares in constant time: the tags are compared, not the tokens.
    #[must_use]
    pub fn is(&self, token: &str) -> bool {
        let (key, tag) = &*self.0;
        hmac::verify(key, token.as_bytes(), tag.as_ref()).is_ok()
    }
}

/// Identifies callers. Clones share all state.
#[derive(Clone, Debug)]
pub struct Access {
    pub rights: Arc<Rights>,
    pub credentials: Arc<IssuerKeys>,
}

impl Access {
    /// Opens keys and certificates, and reads who has which role.
    ///
    /// # Errors
    /// When a file can be neither read nor written, or the store cannot be read.
    pub async fn open(data: &DataDir, core: &Core, admin: AdminToken, now: Timestamp) -> anyhow::Result<Self> {
        let rights = Arc::new(Rights::open(core).await?);
        let credentials = IssuerKeys {
            admin,
            tokens: TokenKey::new(&data.secret_key("accounts.key")?),
            clients: ClientCa::open(data, now)?,
        };
        Ok(Self { rights, credentials: Arc::new(credentials) })
    }

    /// Identifies the caller; `None` if the credentials are unknown. A certificate counts before a token, as in
    /// Kubernetes.
    #[must_use]
    pub fn caller(&self, headers: &HeaderMap, peer: Option<&PeerCertificate>, now: Timestamp) -> Option<Caller> {
        let by_certificate = || peer.and_then(|peer| self.credentials.clients.caller(peer, now));
        let by_token = || {
            let (caller, audiences) = self.credentials.caller_of(bearer::token(headers)?, now).ok()?;
            audiences.iter().any(|audience| audience == ISSUER).then_some(caller)
        };
        [&by_certificate as &dyn Fn() -> Option<Caller>, &by_token]
            .into_iter()
            .find_map(|prove| prove().filter(|caller| self.rights.is_valid(caller)))
    }
}

/// The fingerprint by which Kubernetes names a certificate in its logs.
fn fingerprint(der: &[u8]) -> String {
    format!("X509SHA256={}", hex::encode(digest::digest(&digest::SHA256, der)))
}
