//! Certificates while the process serves: renewed by time, rotated by their owner, told to whoever shows them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    api,
    build_time::certificate_time,
    data_dir::DataDir,
    pki::{CaStatus, Pki, UndoRotationError, UndoneRotation},
};
use crate::{access::Access, metrics::Metrics};

/// Certificates are renewed thirty days before their end: an hour is soon enough, and a clock that was set right
/// after the start is noticed in time.
const LOOKED_EVERY: Duration = Duration::from_secs(3600);

/// What depends on certificates. Clones share it.
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
    /// Of the API that listens at this address.
    #[must_use]
    pub fn new(
        pki: &Pki,
        data: &DataDir,
        access: &Access,
        metrics: &Metrics,
        (address, admin): (SocketAddr, &str),
    ) -> Self {
        let (pki, data, access, metrics) = (pki.clone(), data.clone(), access.clone(), metrics.clone());
        Self(Arc::new(RenewalContext { pki, data, access, metrics, address, admin: admin.to_owned() }))
    }

    /// Makes anew what is near its end.
    ///
    /// # Errors
    /// When a file can be neither read nor written; what was served before is served on.
    pub fn renew(&self, now: Timestamp) -> anyhow::Result<()> {
        self.0.pki.renew(now)?;
        self.0.access.credentials.clients.renew(&self.0.data, now)?;
        self.publish_certificates()
    }

    /// Begins an overlap with a new CA, or says which there is.
    ///
    /// # Errors
    /// As [`Certificates::renew`].
    pub fn rotate(&self, now: Timestamp) -> anyhow::Result<CaStatus> {
        self.0.pki.rotate(now)?;
        self.publish_certificates()?;
        Ok(self.0.pki.ca_state())
    }

    /// How the CA is, by this clock.
    ///
    /// # Errors
    /// As [`Certificates::renew`].
    pub fn state(&self, now: Timestamp) -> anyhow::Result<CaStatus> {
        self.renew(now)?;
        Ok(self.0.pki.ca_state())
    }

    /// Ends the overlap; `None`: there is none.
    ///
    /// # Errors
    /// As [`Certificates::renew`].
    pub fn finish(&self, now: Timestamp) -> anyhow::Result<Option<CaStatus>> {
        let is_done = self.0.pki.finish(now)?;
        self.publish_certificates()?;
        Ok(is_done.then(|| self.0.pki.ca_state()))
    }

    /// Takes back the last step of a rotation, or says why not.
    ///
    /// # Errors
    /// As [`Certificates::renew`].
    pub fn undo(&self, now: Timestamp) -> anyhow::Result<Result<(UndoneRotation, CaStatus), UndoRotationError>> {
        let taken_back = self.0.pki.undo(now)?;
        self.publish_certificates()?;
        Ok(taken_back.map(|what| (what, self.0.pki.ca_state())))
    }

    /// The admin's kubeconfig has the CA, and monitoring the ends.
    fn publish_certificates(&self) -> anyhow::Result<()> {
        let RenewalContext { pki, data, metrics, address, admin, .. } = &*self.0;
        metrics.with_rotation(pki.ca_state().begun);
        for (name, ends) in pki.ends()? {
            metrics.with_certificate(name, ends);
        }
        api::admin_access(data, *address, pki, admin)
    }

    /// For as long as the process lives.
    pub(super) async fn keep(self) -> anyhow::Result<()> {
        loop {
            tokio::time::sleep(LOOKED_EVERY).await;
            let certificates = self.clone();
            // It makes keys and writes files.
            let renewed = tokio::task::spawn_blocking(move || certificates.renew(certificate_time())).await;
            if let Err(error) = renewed.map_err(anyhow::Error::from).and_then(|renewed| renewed) {
                tracing::error!(error = format!("{error:#}"), "renewing certificates");
            }
        }
    }
}
