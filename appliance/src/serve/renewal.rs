//! Certificates while the process serves: renewed by time, rotated by their owner, and published to clients and
//! metrics.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::api;
use super::build_time::certificate_time;
use super::data_dir::DataDir;
use super::pki::{CaStatus, Pki, UndoRotationError, UndoneRotation};
use crate::{access::Access, metrics::Metrics};

/// The time between two checks. Certificates are renewed more than thirty days before their end: an hour is soon enough,
/// and a clock that was corrected after the start is noticed in time.
const LOOKED_EVERY: Duration = Duration::from_secs(3600);

/// Everything that depends on certificates. Clones share it.
#[derive(Clone, Debug)]
pub struct Certificates(Arc<RenewalContext>);

struct RenewalContext {
    pki: Pki,
    data: DataDir,
    access: Access,
    metrics: Metrics,
    address: SocketAddr,
    /// The admin's token.
    admin: String,
}

impl std::fmt::Debug for RenewalContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenewalContext").field("pki", &self.pki).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Makes it for the API that listens at `address`.
    #[must_use]
    pub fn new(
        pki: &Pki,
        data: &DataDir,
        access: &Access,
        metrics: &Metrics,
        address: SocketAddr,
        admin: &str,
    ) -> Self {
        let (pki, data, access, metrics) = (pki.clone(), data.clone(), access.clone(), metrics.clone());
        Self(Arc::new(RenewalContext { pki, data, access, metrics, address, admin: admin.to_owned() }))
    }

    /// Renews certificates that are near their end.
    ///
    /// # Errors
    /// When a file can be neither read nor written; the earlier certificates are then served on.
    pub fn renew(&self, now: Timestamp) -> anyhow::Result<()> {
        self.0.pki.renew(now)?;
        self.0.access.credentials.clients.renew(&self.0.data, now)?;
        self.publish_certificates()
    }

    /// Begins an overlap with a new CA, unless there is one, and returns the state.
    ///
    /// # Errors
    /// As [`Certificates::renew`].
    pub fn rotate(&self, now: Timestamp) -> anyhow::Result<CaStatus> {
        self.0.pki.rotate(now)?;
        self.publish_certificates()?;
        Ok(self.0.pki.ca_state())
    }

    /// Returns the state of the CA at this time.
    ///
    /// # Errors
    /// As [`Certificates::renew`].
    pub fn state(&self, now: Timestamp) -> anyhow::Result<CaStatus> {
        self.renew(now)?;
        Ok(self.0.pki.ca_state())
    }

    /// Ends the overlap; `None` if there is none.
    ///
    /// # Errors
    /// As [`Certificates::renew`].
    pub fn finish(&self, now: Timestamp) -> anyhow::Result<Option<CaStatus>> {
        let is_done = self.0.pki.finish(now)?;
        self.publish_certificates()?;
        Ok(is_done.then(|| self.0.pki.ca_state()))
    }

    /// Undoes the last step of a rotation, or says why it cannot.
    ///
    /// # Errors
    /// As [`Certificates::renew`].
    pub fn undo(&self, now: Timestamp) -> anyhow::Result<Result<(UndoneRotation, CaStatus), UndoRotationError>> {
        let taken_back = self.0.pki.undo(now)?;
        self.publish_certificates()?;
        Ok(taken_back.map(|what| (what, self.0.pki.ca_state())))
    }

    /// Writes the CA to the admin's kubeconfig, and the ends of certificates to the metrics.
    fn publish_certificates(&self) -> anyhow::Result<()> {
        self.publish_metrics()?;
        let RenewalContext { pki, data, address, admin, .. } = &*self.0;
        api::admin_access(data, *address, pki, admin)
    }

    /// Publishes when each certificate ends, and when a rotation began.
    ///
    /// # Errors
    /// When a certificate cannot be read.
    pub(super) fn publish_metrics(&self) -> anyhow::Result<()> {
        let RenewalContext { pki, metrics, .. } = &*self.0;
        metrics.with_rotation(pki.ca_state().begun);
        for (name, ends) in pki.ends()? {
            metrics.with_certificate(name, ends);
        }
        Ok(())
    }

    /// Renews certificates as long as the process lives.
    pub(super) async fn keep(self) -> anyhow::Result<()> {
        loop {
            tokio::time::sleep(LOOKED_EVERY).await;
            let certificates = self.clone();
            // This makes keys and writes files.
            let renewed = tokio::task::spawn_blocking(move || certificates.renew(certificate_time())).await;
            if let Err(error) = renewed.map_err(anyhow::Error::from).and_then(|renewed| renewed) {
                tracing::error!(
                    error = format!("{error:#}"),
                    "could not renew certificates; it is tried again in an hour"
                );
            }
        }
    }
}
