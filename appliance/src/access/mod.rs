//! Who comes in, and what he may do.
//!
//! ```text
//!   client certificate ─┐                       ┌─► Rights (grants, service accounts) ─► roles
//!   bearer token       ─┴─► Access ─► caller ───┤
//!                                               └─► 401: nobody that is known
//! ```
//!
//! Everything about users is data in the API: `AccessGrant` objects say who has which role, and a user's
//! certificate is made through one of them. [`Rights`] follows these objects, so that a change of them holds
//! from the moment in which it was answered. What a role may do is `firesteel_resources::roles`.

pub mod certificates;
mod issuer;
mod rights;

use std::sync::Arc;

use firesteel_kube::{
    Authorizer as _, Caller, Core,
    instant_subresources::Issuer as _,
    tokens::{ISSUER, TokenKey},
};
use http::HeaderMap;
use jiff::Timestamp;
use ring::{digest, hmac, rand::SystemRandom};

use crate::{http::bearer, serve::data_dir::DataDir};
use certificates::{ClientCa, PeerCertificate};
pub use issuer::{CERTIFICATE_REQUEST, IssuerKeys};
pub use rights::Rights;

/// The owner's token, kept as a tag under a key that nobody else has.
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

    /// Compares in constant time: tags are compared, and so is what they are made of.
    #[must_use]
    pub fn is(&self, token: &str) -> bool {
        let (key, tag) = &*self.0;
        hmac::verify(key, token.as_bytes(), tag.as_ref()).is_ok()
    }
}

/// Finds out who a caller is. Clones share all.
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

    /// Who asks; `None` for nobody that is known. A certificate counts before a token, as in Kubernetes.
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

/// As Kubernetes names a certificate in its logs.
fn fingerprint(der: &[u8]) -> String {
    format!("X509SHA256={}", hex::encode(digest::digest(&digest::SHA256, der)))
}
