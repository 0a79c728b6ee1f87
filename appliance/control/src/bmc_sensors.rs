//! Reads the sensors of one host. It never costs a host its login: credentials are used that the BMC took from control's
//! own calls before, and it gives way to those calls.

use std::sync::Arc;
use std::time::Duration;

use firesteel_bmc::Error;
use firesteel_bmc::sensors::{SensorLayout, SensorReading};
use firesteel_kube::Objects;
use firesteel_plan::host::BmcFault;
use firesteel_resources::BareMetalHost;
use firesteel_runtime::{HostKey, timeout};

use crate::bmc_logins::{BmcLogin, BmcLogins};
use crate::{images, shared::Shared};

/// A BMC is asked for so long; what was not asked for then is left out.
const READING_WITHIN: Duration = Duration::from_secs(40);
/// The longest reading, with its login, the request that is under way at the end, and what it gave way to.
pub const SENSOR_READING_MAX: Duration = Duration::from_secs(75);

/// Why the sensors of a host were not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SensorReadError {
    /// There is nothing to read, until the host is edited.
    #[error("{0}")]
    NotOffered(&'static str),
    /// Control has the BMC to itself, or has not logged in with these credentials yet.
    #[error("its BMC is not free for a reading")]
    NotNow,
    #[error("{0}")]
    Failed(String),
}

impl SensorReadError {
    fn of(fault: BmcFault) -> Self {
        Self::Failed(fault.message)
    }
}

/// Reads sensors of hosts.
#[derive(Clone)]
pub struct SensorReads {
    pub(crate) shared: Arc<Shared>,
    pub(crate) logins: BmcLogins,
    pub(crate) hosts: Objects<BareMetalHost>,
}

impl SensorReads {
    /// Reads the sensors of a host once, in at most [`SENSOR_READING_MAX`].
    ///
    /// # Errors
    /// Why there is no reading.
    pub async fn read(&self, key: &HostKey, layout: &mut SensorLayout) -> Result<SensorReading, SensorReadError> {
        let is_driven = || self.shared.views().hosts.get(key).is_some_and(|view| view.power.seen.in_flight);
        if is_driven() {
            return Err(SensorReadError::NotNow);
        }
        let host = self.hosts.get(&key.namespace, &key.name).await;
        let host = host.map_err(|status| SensorReadError::Failed(status.message))?;
        let host = host.ok_or(SensorReadError::NotNow)?;
        let login = self.logins.login(key, &host).await.map_err(SensorReadError::of)?;
        if !self.logins.bmc.has_sensors(&login.address) {
            return Err(SensorReadError::NotOffered("sensors are read by Redfish alone, and this BMC speaks IPMI"));
        }
        // A wrong password is found, reported and counted by control's own calls.
        if !self.shared.views().logins.is_good(&login.account, &login.given) {
            return Err(SensorReadError::NotNow);
        }
        match timeout(&*self.shared.runtime, SENSOR_READING_MAX, self.ask(key, login, layout)).await {
            Some(result) => result,
            None if is_driven() => Err(SensorReadError::NotNow),
            None => Err(SensorReadError::Failed(format!(
                "the BMC did not give its sensors within {} s",
                SENSOR_READING_MAX.as_secs()
            ))),
        }
    }

    async fn ask(
        &self,
        key: &HostKey,
        login: BmcLogin,
        layout: &mut SensorLayout,
    ) -> Result<SensorReading, SensorReadError> {
        let BmcLogin { address, credentials, account, tls, .. } = login;
        let connected = self.logins.bmc.connect_to_read(&address, &credentials, &tls).await;
        let session = match connected {
            Ok(session) => session,
            Err(error) => {
                if error.may_count_as_login() {
                    // The BMC counts it, and control's next call finds out what is wrong.
                    self.logins.note_refused_beside(account);
                    self.shared.queue.wake(key);
                }
                return Err(failed(&error));
            }
        };
        let read = session.sensors(layout, READING_WITHIN).await;
        session.close().await;
        match read {
            Ok(Some(reading)) if reading.sensors.is_empty() && reading.system.is_none() => {
                Err(SensorReadError::NotOffered("the BMC shows no sensors"))
            }
            Ok(Some(reading)) => Ok(reading),
            Ok(None) => Err(SensorReadError::NotOffered("the BMC's protocol has no sensors that are read")),
            Err(error) => Err(failed(&error)),
        }
    }
}

fn failed(error: &Error) -> SensorReadError {
    SensorReadError::Failed(images::chain(error))
}
