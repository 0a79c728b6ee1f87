//! The ways to a logged-in BMC: finding the service, the login, finding the system.

use std::sync::Arc;

use firesteel_dial::Dialer;
use firesteel_facts::bmc_address::{BmcUrl, SYSTEMS};
use tokio::sync::Mutex;

use crate::BmcCredentials;
use crate::bmc_queue::{BmcLine, BmcQueue};
use crate::client::{BmcTimeouts, RedfishClient, path_of};
use crate::error::Error;
use crate::http::{BmcConnection, Proof};
use crate::login;
use crate::model::ServiceRoot;
use crate::secret_mask::SecretMask;
use crate::tls::Tls;

const ROOT: &str = "/redfish/v1/";
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// The driver's name, and its ways in.
#[derive(Clone, Copy, Debug)]
pub struct Redfish;

impl Redfish {
    /// Calls [`Redfish::connect_on`] with a queue of its own and the usual timeouts.
    ///
    /// # Errors
    /// Who is not there, does not let us in, or has no such system.
    pub async fn connect(
        dialer: &Dialer,
        address: &BmcUrl,
        credentials: &BmcCredentials,
        tls: &Tls,
    ) -> Result<RedfishClient, Error> {
        Self::connect_on(Arc::default(), dialer, address, credentials, tls, BmcTimeouts::default()).await
    }

    /// Finds the service, logs in (see `login`) and finds the system.
    ///
    /// # Errors
    /// Who is not there, does not let us in, or has no such system. No session is left behind.
    pub async fn connect_on(
        line: Arc<BmcQueue>,
        dialer: &Dialer,
        address: &BmcUrl,
        credentials: &BmcCredentials,
        tls: &Tls,
        patience: BmcTimeouts,
    ) -> Result<RedfishClient, Error> {
        Self::connect_by(BmcLine::first(line), dialer, address, credentials, tls, patience).await
    }

    /// Does so for a caller that gives way: it has no request while another caller is connected with the BMC.
    ///
    /// # Errors
    /// Who is not there, does not let us in, or has no such system. No session is left behind.
    pub async fn connect_giving_way(
        line: Arc<BmcQueue>,
        dialer: &Dialer,
        address: &BmcUrl,
        credentials: &BmcCredentials,
        tls: &Tls,
        patience: BmcTimeouts,
    ) -> Result<RedfishClient, Error> {
        Self::connect_by(BmcLine::giving_way(line), dialer, address, credentials, tls, patience).await
    }

    async fn connect_by(
        line: BmcLine,
        dialer: &Dialer,
        address: &BmcUrl,
        credentials: &BmcCredentials,
        tls: &Tls,
        patience: BmcTimeouts,
    ) -> Result<RedfishClient, Error> {
        let connection = BmcConnection::new(address, dialer, tls, SecretMask::of(credentials), line, patience.request)?;
        let answer = connection.get(ROOT, &Proof::None).await?;
        let root: ServiceRoot = answer.accepted_unquoted("be found", ROOT)?.json(ROOT)?;
        // Until this holds, nothing of its answers is quoted, and the login is not sent.
        if !root.is_one() {
            let detail = "it is JSON, and no root of a Redfish service: check bmc.address".to_owned();
            return Err(Error::BadAnswer { what: format!("GET {ROOT}"), detail });
        }
        let has_sessions = root.session_service.is_some();
        let sessions = path_of(root.links.as_ref().and_then(|links| links.sessions.as_ref()))
            .or_else(|| has_sessions.then(|| SESSIONS.to_owned()));
        let systems = path_of(root.systems.as_ref()).unwrap_or_else(|| SYSTEMS.to_owned());
        let login = login::log_in(&connection, credentials, sessions.as_deref()).await?;
        connection.caller_line().set_session(login.session.is_some());
        let mut client = RedfishClient {
            connection: Arc::new(connection),
            credentials: credentials.clone(),
            login: Mutex::new(login),
            sessions,
            root,
            system: address.system().unwrap_or_default().to_owned(),
            patience,
        };
        match client.find(&systems).await {
            Ok(()) => Ok(client),
            Err(error) => {
                client.close().await;
                Err(error)
            }
        }
    }
}
