//! How a caller that gives way keeps no session while another one talks with the BMC: it logs out, waits until the other
//! one has left, and logs in again. Any other caller is not concerned.

use crate::client::RedfishClient;
use crate::error::Error;
use crate::http::Proof;
use crate::login;
use crate::response::BmcResponse;

/// How often one request gives way before it is given up.
const GIVEN_WAY_MAX: usize = 8;

impl RedfishClient {
    /// Asks by the login that there is, and says by which.
    pub(crate) async fn get_by_login(&self, path: &str) -> Result<(BmcResponse, Proof), Error> {
        for _ in 0..GIVEN_WAY_MAX {
            self.give_way().await?;
            let proof = self.proof().await;
            match self.connection.get(path, &proof).await {
                // Another caller came in this moment.
                Err(Error::Crowded { .. }) if self.connection.caller_line().is_to_leave() => {}
                answer => return answer.map(|answer| (answer, proof)),
            }
        }
        Err(Error::Crowded { waiting: 1 })
    }

    /// Ends its session if another caller is there that it gives way to, and begins one when that one has left.
    async fn give_way(&self) -> Result<(), Error> {
        let line = self.connection.caller_line();
        if !line.is_to_leave() {
            return Ok(());
        }
        let mut login = self.login.lock().await;
        if let Some(path) = login.session.clone() {
            login::log_out(&self.connection, &path, &login.proof).await;
            login.session = None;
        }
        line.set_session(false);
        *login = login::log_in(&self.connection, &self.credentials, self.sessions.as_deref()).await?;
        line.set_session(login.session.is_some());
        Ok(())
    }
}
