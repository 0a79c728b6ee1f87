//! The CA that hosts are to trust, which may change while the process serves: see the appliance's certificates.

use std::sync::{Arc, Mutex};

use firesteel_ignition::{PemError, StubAuthority};
use tokio::sync::watch;

use crate::lock;

/// What is trusted at one moment, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustBundle {
    /// What stubs and hosts get. During a rotation it has the new CA and the old one, in this order.
    pub current: String,
    /// Earlier ones, which stubs may still hold.
    pub past: Vec<String>,
}

/// The CA that hosts are to trust. Clones share it.
#[derive(Clone)]
pub struct HostTrust(Arc<TrustedCaState>);

struct TrustedCaState {
    bundle: Mutex<TrustBundle>,
    changed: watch::Sender<u64>,
}

crate::opaque_debug!(HostTrust);

impl HostTrust {
    #[must_use]
    pub fn new(bundle: TrustBundle) -> Self {
        Self(Arc::new(TrustedCaState { bundle: Mutex::new(bundle), changed: watch::Sender::new(0) }))
    }

    /// Another CA from now on; the same again changes nothing.
    pub fn set(&self, bundle: TrustBundle) {
        let mut held = lock(&self.0.bundle);
        if *held != bundle {
            *held = bundle;
            drop(held);
            self.0.changed.send_modify(|count| *count += 1);
        }
    }

    /// What hosts get, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.bundle().current
    }

    #[must_use]
    pub fn bundle(&self) -> TrustBundle {
        lock(&self.0.bundle).clone()
    }

    /// Returns the CA as stubs hold it.
    ///
    /// # Errors
    /// When it is made of anything but certificates.
    pub fn authority(&self) -> Result<StubAuthority, PemError> {
        let TrustBundle { current, past } = self.bundle();
        StubAuthority::new(&current, &past.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Tells of changes from now on.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }
}

/// Trusts one CA that never changes.
impl From<&str> for HostTrust {
    fn from(pem: &str) -> Self {
        Self::new(TrustBundle { current: pem.to_owned(), past: Vec::new() })
    }
}
