//! Logins at BMCs: with which credentials, and when one may be tried without locking an account.

use std::sync::Arc;

use firesteel_bmc::{BmcAddress, BmcCredentials, Tls};
use firesteel_facts::shown_url;
use firesteel_kube::Objects;
use firesteel_plan::host::{BmcFault, BmcFaultKind, HostTimeouts};
use firesteel_resources::{BareMetalHost, Secret};
use firesteel_runtime::HostKey;

use crate::logins::{BmcAccount, LoginPermission, PAUSE};
use crate::{power::BmcDriver, shared::Shared};

/// Where a host's BMC is, and as whom it is asked.
pub(crate) struct BmcLogin {
    pub(crate) address: BmcAddress,
    pub(crate) credentials: BmcCredentials,
    /// The Secret and its version.
    pub(crate) given: String,
    pub(crate) account: BmcAccount,
    pub(crate) tls: Tls,
}

/// The right to try a login, given back when this is dropped.
pub(crate) struct LoginAttempt {
    shared: Arc<Shared>,
    /// The account for which it counts, if it does.
    account: Option<BmcAccount>,
}

impl Drop for LoginAttempt {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            self.shared.views().logins.end(account);
        }
    }
}

/// Knows how to log in at the BMCs of hosts.
#[derive(Clone)]
pub(crate) struct BmcLogins {
    pub(crate) shared: Arc<Shared>,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) bmc: Arc<dyn BmcDriver>,
    pub(crate) bmc_tls: Arc<Tls>,
}

impl BmcLogins {
    /// Waits until a login can be tried without locking the account, however those end that are under way.
    pub(crate) async fn try_login(&self, account: &BmcAccount, credentials: &str) -> Result<LoginAttempt, BmcFault> {
        let limits = HostTimeouts::default();
        loop {
            let now = self.shared.now();
            let leave = {
                let mut views = self.shared.views();
                // Another host may remember that the account is about to be locked.
                if views.slots.are_counted() {
                    views.logins.begin(account, credentials, &limits, now)
                } else {
                    LoginPermission::Wait
                }
            };
            match leave {
                LoginPermission::Free => return Ok(LoginAttempt { shared: Arc::clone(&self.shared), account: None }),
                LoginPermission::Counted => {
                    return Ok(LoginAttempt { shared: Arc::clone(&self.shared), account: Some(account.clone()) });
                }
                LoginPermission::HeldBack(until) => {
                    let message = format!("it is not tried again before {until:.0}");
                    return Err(BmcFault { kind: BmcFaultKind::HeldBack { until }, message });
                }
                LoginPermission::Wait => {
                    let runtime = &self.shared.runtime;
                    runtime.sleep_until(runtime.uptime() + PAUSE).await;
                }
            }
        }
    }

    /// Reads where a host's BMC is, and as whom it is asked.
    pub(crate) async fn login(&self, key: &HostKey, host: &BareMetalHost) -> Result<BmcLogin, BmcFault> {
        let unsupported = |text: &str| fault(BmcFaultKind::Unsupported, text);
        let bmc = host.spec.usable_bmc().ok_or_else(|| unsupported("the host names no BMC"))?;
        let address = BmcAddress::parse(&bmc.address)
            .map_err(|error| unsupported(&format!("spec.bmc.address {}: {error}", shown_url(&bmc.address))))?;
        let secret = self.secrets.get(&key.namespace, &bmc.credentials_name).await;
        let secret = secret.map_err(|status| fault(BmcFaultKind::Refused, &status.message))?;
        let version = secret.as_ref().map(|secret| secret.metadata.resource_version.clone()).unwrap_or_default();
        let given = format!("{}/{}@{version}", key.namespace, bmc.credentials_name);
        let (username, password) = secret.and_then(|secret| secret.credentials()).ok_or_else(|| {
            fault(BmcFaultKind::Refused, &format!("the Secret {} has no username and password", bmc.credentials_name))
        })?;
        let account = BmcAccount::new(&bmc.address, &username);
        let tls = Tls { is_verification_disabled: bmc.disable_certificate_verification, ..Tls::clone(&self.bmc_tls) };
        Ok(BmcLogin { address, credentials: BmcCredentials { username, password }, given, account, tls })
    }

    /// Counts what a BMC said to a login, for the other hosts that use the same account.
    pub(crate) fn note_login(
        &self,
        key: &HostKey,
        account: BmcAccount,
        credentials: &str,
        result: Result<(), &BmcFault>,
    ) {
        let now = self.shared.now();
        let mut views = self.shared.views();
        match result {
            Ok(()) => views.logins.accepted(&account, credentials),
            Err(fault) if fault.kind == BmcFaultKind::Credentials => views.logins.refused(account, key, now),
            Err(_) => {}
        }
    }

    /// Counts a login that a BMC refused although it had taken it before, and that no host's work needed.
    pub(crate) fn note_refused_beside(&self, account: BmcAccount) {
        let now = self.shared.now();
        self.shared.views().logins.refused_beside(account, now);
    }
}

pub(crate) fn fault(kind: BmcFaultKind, message: &str) -> BmcFault {
    BmcFault { kind, message: message.to_owned() }
}
