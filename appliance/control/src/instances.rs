//! The new OS: its config, and its word that it runs.
//!
//! *Config fetched* and *running* are two events. The config carries a nonce that only this appliance can
//! make and that only who fetched the config can know; a unit in the real root sends it back. That
//! ends the instance token.

use std::net::IpAddr;

use firesteel_boot::{Claims, Purpose};
use firesteel_ignition as ignition;
use firesteel_resources::{
    Secret,
    host_journal::{HostJournalStatus, InstanceRecord},
};
use ring::hmac;

use crate::{Control, Denied, HostKey, control::unix_seconds, journals::event, map};

/// Type of the Secrets that hold configs for hosts; no other Secret is ever served to one.
pub(crate) const CONFIG_SECRET_TYPE: &str = "firesteel.dev/config";
/// Key of the config in such a Secret.
const CONFIG_KEY: &str = "config.ign";
/// How long a new OS may take from its installation to its config; long, because a host may be
/// shut down in between. What bounds its harm is that *running* ends it.
const INSTANCE_TOKEN_S: u64 = 30 * 24 * 3600;

/// What may still be asked for an installation.
enum Instance {
    Open,
    Ended,
    OtherAttempt,
}

impl Control {
    /// The token that a host's own copy of its stub carries.
    pub(crate) fn instance_token(&self, uid: &str, attempt: u64) -> Result<String, firesteel_boot::SealError> {
        let claims = Claims {
            purpose: Purpose::Instance,
            subject: uid.to_owned(),
            attempt,
            expires_unix_s: unix_seconds(self.now()) + INSTANCE_TOKEN_S,
        };
        self.config().sealer.seal(&claims).map(firesteel_boot::SealedToken::into_string)
    }

    fn nonce(&self, uid: &str, attempt: u64) -> String {
        let tag = hmac::sign(&self.config().nonce_key, format!("running\n{uid}\n{attempt}").as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The config `name` for the host of this token.
    ///
    /// # Errors
    /// When the token opens nothing (any more), or there is no such config in the host's namespace.
    pub async fn config_for(&self, name: &str, token: &str, remote: IpAddr) -> Result<Vec<u8>, Denied> {
        let claims = self
            .config()
            .sealer
            .open(token, unix_seconds(self.now()), Purpose::Instance)
            .map_err(|error| Denied::Token(error.to_string()))?;
        if !self.knows_hosts().await {
            return Err(Denied::Internal("the appliance is starting: try again".to_owned()));
        }
        let key = self
            .views()
            .by_uid
            .get(&claims.subject)
            .cloned()
            .ok_or_else(|| Denied::Token("the host of this token is gone".to_owned()))?;
        self.check_named(&key, name).await?;
        let secret = self.config_secret(&key, name).await?;
        let config = secret.get(CONFIG_KEY).ok_or_else(|| {
            Denied::Invalid(format!("the Secret {name} has no key {CONFIG_KEY}: put the Ignition config there"))
        })?;
        let served = ignition::with_files(config, &self.instance_files(&key, &claims)).map_err(|error| {
            Denied::Invalid(format!("the Secret {name} holds no Ignition config that can be served: {error}"))
        })?;
        self.config_fetched(&key, claims.attempt, name, remote).await?;
        Ok(served)
    }

    /// A token opens the configs that the host's own user data fetches, and no other of its namespace.
    async fn check_named(&self, key: &HostKey, name: &str) -> Result<(), Denied> {
        let internal = |status: firesteel_kube::Status| Denied::Internal(status.message);
        let host = self.inner.hosts.get(&key.namespace, &key.name).await.map_err(internal)?;
        let reference = host.and_then(|host| host.spec.user_data).unwrap_or_default();
        let secret = self.inner.secrets.get(&key.namespace, &reference.name).await.map_err(internal)?;
        let url = format!("{}{name}", self.config_origin());
        if secret.as_ref().and_then(Secret::user_data).is_some_and(|config| ignition::fetches(config, &url)) {
            return Ok(());
        }
        Err(Denied::NotFound(format!(
            "the user data of host {key} does not fetch the config {name}: let it merge {url} to have it served to this host"
        )))
    }

    async fn config_secret(&self, key: &HostKey, name: &str) -> Result<Secret, Denied> {
        let nothing = || {
            Denied::NotFound(format!(
                "there is no config {name} in namespace {}: it must be a Secret of type {CONFIG_SECRET_TYPE}",
                key.namespace
            ))
        };
        let secret = self
            .inner
            .secrets
            .get(&key.namespace, name)
            .await
            .map_err(|status| Denied::Internal(status.message))?
            .ok_or_else(nothing)?;
        if secret.type_ == CONFIG_SECRET_TYPE { Ok(secret) } else { Err(nothing()) }
    }

    /// What the unit in the new OS needs to report back.
    fn instance_files(&self, key: &HostKey, claims: &Claims) -> Vec<ignition::NewFile> {
        let instance = serde_json::json!({
            "nonce": self.nonce(&claims.subject, claims.attempt),
            "reportUrl": format!("{}/running", self.config().endpoints.agent_base()),
            "host": claims.subject,
            "name": key.name,
        });
        vec![
            ignition::NewFile {
                path: "/etc/firesteel/instance.json".to_owned(),
                mode: 0o600,
                contents: instance.to_string().into_bytes(),
            },
            ignition::NewFile {
                path: "/etc/firesteel/ca.crt".to_owned(),
                mode: 0o644,
                contents: self.config().ca_pem.clone().into_bytes(),
            },
        ]
    }

    /// On disk before the config leaves.
    async fn config_fetched(&self, key: &HostKey, attempt: u64, name: &str, remote: IpAddr) -> Result<(), Denied> {
        let now = self.now();
        let name = map::field(name);
        let state = self
            .inner
            .journals
            .change(key, |status| {
                let state = instance(status, attempt);
                if matches!(state, Instance::Open) {
                    let record = status.instance.get_or_insert_with(InstanceRecord::default);
                    if record.attempt != attempt {
                        *record = InstanceRecord { attempt, ..InstanceRecord::default() };
                    }
                    if record.config_fetched_at.is_none() {
                        record.config_fetched_at = Some(now);
                        status.note(event(now, attempt, "config_fetched", format!("{name} by {remote}")));
                    }
                }
                state
            })
            .await
            .map_err(|status| Denied::Internal(status.message))?;
        self.inner.queue.wake(key);
        match state {
            Some(Instance::Open) => Ok(()),
            Some(Instance::Ended) => {
                Err(Denied::Token("the OS of this token has reported that it runs, which ended the token".to_owned()))
            }
            Some(Instance::OtherAttempt) => Err(Denied::Token("the token's installation was replaced".to_owned())),
            None => Err(Denied::Token("the host of this token has no journal".to_owned())),
        }
    }

    /// The new OS says that it runs.
    ///
    /// # Errors
    /// When the nonce is not the one of the config that the host's newest installation fetched.
    pub async fn running(&self, uid: &str, nonce: &str, remote: IpAddr) -> Result<(), Denied> {
        let denied = || Denied::Token("no installation waits for this nonce".to_owned());
        if !self.knows_hosts().await {
            return Err(Denied::Internal("the appliance is starting: try again".to_owned()));
        }
        let key = self.views().by_uid.get(uid).cloned().ok_or_else(denied)?;
        let journal = self.inner.journals.read(&key).await.map_err(|status| Denied::Internal(status.message))?;
        let fetched = journal.and_then(|journal| journal.instance).filter(|record| record.config_fetched_at.is_some());
        let attempt = fetched.ok_or_else(denied)?.attempt;
        let tag = format!("running\n{uid}\n{attempt}");
        let given: Vec<u8> = (0..nonce.len() / 2)
            .filter_map(|at| nonce.get(at * 2..at * 2 + 2))
            .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
            .collect();
        hmac::verify(&self.config().nonce_key, tag.as_bytes(), &given).map_err(|_| denied())?;
        let now = self.now();
        self.inner
            .journals
            .change(&key, |status| {
                if let Some(record) = status.instance.as_mut().filter(|record| record.attempt == attempt)
                    && record.running_at.is_none()
                {
                    record.running_at = Some(now);
                    status.note(event(now, attempt, "running", format!("the nonce came back from {remote}")));
                }
            })
            .await
            .map_err(|status| Denied::Internal(status.message))?;
        tracing::info!(host = %key, attempt, "running");
        self.inner.queue.wake(&key);
        Ok(())
    }
}

/// Whether an installation of this attempt may still fetch its config.
fn instance(status: &HostJournalStatus, attempt: u64) -> Instance {
    // The attempt that installed what is on the disk: later attempts (a reboot into the agent, a cleaning) end it.
    if crate::journals::attempt(status) != attempt {
        return Instance::OtherAttempt;
    }
    match &status.instance {
        Some(record) if record.attempt == attempt && record.running_at.is_some() => Instance::Ended,
        Some(_) | None => Instance::Open,
    }
}
