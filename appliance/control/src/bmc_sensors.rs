//! Reads the sensors of one host. It never costs a host its login: credentials are used that the BMC took from control's
//! own calls before, and it gives way to those calls.

use std::sync::Arc;
use std::time::Duration;

use firesteel_bmc::Error;
use firesteel_bmc::sensors::{SensorLayout, SensorReading};
use firesteel_kube::Objects;
use firesteel_resources::BareMetalHost;
use firesteel_runtime::{HostKey, timeout};

use crate::bmc_logins::{BmcLogin, BmcLogins};
use crate::logins::BmcAccount;
use crate::{images, shared::Shared};

/// A BMC is asked for so long; what was not asked for then is left out.
const READING_WITHIN: Duration = Duration::from_secs(40);
/// The log-out is waited for so long; then it goes on beside, and what was read counts.
const LOG_OUT_MAX: Duration = Duration::from_secs(20);
/// The longest end of a reading: the request of 20 s that is under way then, and the log-out.
const END_MAX: Duration = Duration::from_secs(20).saturating_add(LOG_OUT_MAX);
/// The longest reading: a login of three requests of 20 s, what is asked for, and the end. A reading that gave way has
/// less time for what it asks for.
pub const SENSOR_READING_MAX: Duration = Duration::from_secs(130);

/// Returns how long a BMC is asked after its login took so long.
fn asking_time(login: Duration) -> Duration {
    SENSOR_READING_MAX.saturating_sub(END_MAX + login).min(READING_WITHIN)
}

/// Why the sensors of a host were not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SensorReadError {
    /// There is nothing to read, until the host is edited.
    #[error("{0}")]
    NotOffered(&'static str),
    /// Control has the BMC to itself, or has not logged in with these credentials yet. What is wrong with them is for
    /// control to find out and to say.
    #[error("its BMC is not free for a reading")]
    NotNow,
    #[error("{0}")]
    Failed(String),
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
        let login = self.logins.login(key, &host).await.map_err(|_| SensorReadError::NotNow)?;
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
        let began = self.shared.runtime.uptime();
        let connected = self.logins.bmc.connect_to_read(&address, &credentials, &tls).await;
        let session = connected.map_err(|error| self.broken_off(key, &account, &error))?;
        let within = asking_time(self.shared.runtime.uptime().saturating_sub(began));
        let read = match within.is_zero() {
            true => Err(Error::Crowded { waiting: 1 }),
            false => session.sensors(layout, within).await,
        };
        timeout(&*self.shared.runtime, LOG_OUT_MAX, session.close()).await;
        match read {
            Ok(Some(reading)) if reading.sensors.is_empty() && reading.system.is_none() => Err(nothing(&reading)),
            Ok(Some(reading)) => Ok(reading),
            Ok(None) => Err(SensorReadError::NotOffered("the BMC's protocol has no sensors that are read")),
            Err(error) => Err(self.broken_off(key, &account, &error)),
        }
    }

    /// Says what a reading without an end came to, and counts a login that was refused.
    fn broken_off(&self, key: &HostKey, account: &BmcAccount, error: &Error) -> SensorReadError {
        if error.may_count_as_login() {
            // The BMC counts it, and control's next call finds out what is wrong.
            self.logins.note_refused_beside(account.clone());
            self.shared.queue.wake(key);
        }
        let is_in_use = matches!(error, Error::Crowded { .. });
        if is_in_use { SensorReadError::NotNow } else { SensorReadError::Failed(images::chain(error)) }
    }
}

/// Says why a reading has nothing in it.
fn nothing(reading: &SensorReading) -> SensorReadError {
    match reading.left_out {
        0 => SensorReadError::NotOffered("the BMC shows no sensors"),
        left_out => SensorReadError::Failed(format!("the BMC gave none of its sensors; {left_out} were left out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_longest_reading_add_up() {
        for login in [0, 3, 50, 60, 90, 200].map(Duration::from_secs) {
            let within = asking_time(login);
            assert!(within <= READING_WITHIN, "{login:?}");
            assert!(within.is_zero() || login + within + END_MAX <= SENSOR_READING_MAX, "{login:?} {within:?}");
        }
        assert_eq!(asking_time(Duration::from_secs(50)), READING_WITHIN, "a slow BMC is asked as long as any");
        assert_eq!(asking_time(Duration::from_secs(60)), Duration::from_secs(30));
    }

    #[test]
    fn a_reading_with_nothing_in_it_says_whether_there_is_nothing() {
        let of = |left_out| nothing(&SensorReading { left_out, ..SensorReading::default() });
        assert!(matches!(of(0), SensorReadError::NotOffered(_)));
        assert!(matches!(of(2), SensorReadError::Failed(_)), "it is not taken for a BMC without sensors");
    }
}
