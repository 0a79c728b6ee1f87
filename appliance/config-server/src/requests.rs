//! The config server (S1-6): which config a host gets that asks by its token, and why it gets none.
//!
//! ```text
//! request ─► Accept ─► token ─► host ─► still to be had? ─► its stub led there? ─► Secret of the namespace, or pool
//!                                                                                         │
//!            refusal: counted, and recorded on the host where one is known ◄──────────────┤
//!                                                on disk before it leaves (*fetched*) ◄───┘
//! ```
//!
//! A name is that of a Secret of the type `firesteel.dev/config` in the host's namespace, or else of a pool. A host
//! gets what the user data fetches that it was handed over, what those configs fetch in turn, and nothing else: a
//! Secret that is changed or gone since neither ends the token of an installed host nor widens what it opens. A request
//! without a token gets a pool's config where the operator has said so, as upstream's server answers everybody; there a
//! token that opens nothing is no worse than none.
//!
//! HEAD is answered as GET would be; it changes nothing, and its refusal is not recorded. Repeats of a host are
//! answered alike until its OS says that it runs: Ignition takes every answer below 500 for final, so a reply that was
//! lost must not end a host.

use std::{net::IpAddr, sync::Arc};

use firesteel_boot::{BootTokenClaims, Purpose};
use firesteel_ignition::render::{self, Additions};
use firesteel_ignition::{self as ignition, SpecVersion, downgrade, version_negotiation};
use firesteel_kube::Status;
use firesteel_plan::instance::{ConfigTokenState, note_rendered, record_of, standing};
use firesteel_plan::journal;
use firesteel_resources::Secret;
use firesteel_resources::host_journal::HostJournalStatus;
use firesteel_resources::secret::{CONFIG_KEY, CONFIG_TYPE};
use firesteel_runtime::{HostKey, event, field};
use firesteel_wire::hand_off::is_argument;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::{ConfigController, ConfigRefusal, pools::unrendered};

/// Who does not name it in `Accept` is no Ignition and gets a Secret's config as it stands.
const MEDIA_TYPE: &str = "vnd.coreos.ignition+json";

/// Configs that are looked through for what they fetch in turn.
const CONFIGS_MAX: usize = 64;

/// A request for a config.
#[derive(Clone, Copy)]
pub struct ConfigRequest<'a> {
    pub name: &'a str,
    pub token: Option<&'a str>,
    /// The header `Accept`.
    pub accept: Option<&'a str>,
    /// HEAD: nothing is changed by it.
    pub head: bool,
    pub remote: IpAddr,
}

/// Leaves the token out.
impl std::fmt::Debug for ConfigRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigRequest").field("name", &self.name).field("remote", &self.remote).finish_non_exhaustive()
    }
}

/// A host that proved itself.
struct ConfigClient {
    key: HostKey,
    claims: BootTokenClaims,
}

/// What there is to serve by a name.
pub(crate) enum ServedConfig {
    Secret(Box<Secret>),
    Pool(Arc<render::Rendered>),
}

impl ServedConfig {
    /// The name of what was rendered; none for a Secret.
    fn rendered(&self) -> &str {
        match self {
            Self::Secret(_) => "",
            Self::Pool(rendered) => &rendered.name,
        }
    }
}

impl ConfigController {
    /// Returns the config that is asked for.
    ///
    /// # Errors
    /// Why the client gets none.
    pub fn host_config<'a>(&'a self, ask: ConfigRequest<'a>) -> BoxFuture<'a, Result<Vec<u8>, ConfigRefusal>> {
        Box::pin(async move {
            let answer = self.config_of(&ask).await;
            let word = match &answer {
                Ok(_) if ask.head => "head",
                Ok(_) => "served",
                Err(refusal) => refusal.word(),
            };
            self.count(word);
            answer
        })
    }

    async fn config_of(&self, ask: &ConfigRequest<'_>) -> Result<Vec<u8>, ConfigRefusal> {
        let version =
            version_negotiation::negotiate(ask.accept.unwrap_or_default()).map_err(|_| ConfigRefusal::Accept)?;
        let Some(token) = ask.token else {
            let answer = self.config_for_anybody(ask, version).await;
            if answer == Err(ConfigRefusal::NoToken) {
                self.refuse_unattributed(ask, &ConfigRefusal::NoToken).await;
            }
            return answer;
        };
        let (asker, refusal) = match self.asker_of(token).await {
            Ok(asker) => match self.config_for_host(ask, version, &asker).await {
                Ok(bytes) => return Ok(bytes),
                Err(refusal) => {
                    self.refused(&asker, ask, &refusal).await;
                    (Some(asker), refusal)
                }
            },
            Err(refusal) => {
                if refusal.is_unattributed() {
                    self.refuse_unattributed(ask, &refusal).await;
                }
                (None, refusal)
            }
        };
        if !refusal.is_of_token() || !self.config().settings.without_token {
            return Err(refusal);
        }
        self.config_despite(ask, version, asker.as_ref(), refusal).await
    }

    /// Finds the host of a token.
    async fn asker_of(&self, token: &str) -> Result<ConfigClient, ConfigRefusal> {
        let claims = self.config().sealer.read(token, Purpose::Instance).map_err(ConfigRefusal::BadToken)?;
        if !self.handles().knows_hosts().await {
            return Err(ConfigRefusal::Starting);
        }
        let hosts = self.hosts();
        // Ignition would take it for final that there is no such host.
        let unknown = || hosts.undecodable().map_or(ConfigRefusal::NoHost, ConfigRefusal::Store);
        let key = hosts.by_uid(&claims.subject).cloned().ok_or_else(unknown)?;
        Ok(ConfigClient { key, claims })
    }

    /// Returns what every client gets, for one whose token opens nothing. A Secret of this name beside its host comes
    /// before a pool.
    async fn config_despite(
        &self,
        ask: &ConfigRequest<'_>,
        version: SpecVersion,
        asker: Option<&ConfigClient>,
        refusal: ConfigRefusal,
    ) -> Result<Vec<u8>, ConfigRefusal> {
        if let Some(asker) = asker
            && self.config_secret(&asker.key.namespace, ask.name).await.map_err(store)?.is_some()
        {
            return Err(refusal);
        }
        let answer = self.config_for_anybody(ask, version).await;
        if answer == Err(ConfigRefusal::Unknown) {
            return Err(refusal);
        }
        self.count(refusal.word());
        answer
    }

    /// Serves a pool's config as upstream does: every client that reaches the port may read it.
    async fn config_for_anybody(
        &self,
        ask: &ConfigRequest<'_>,
        version: SpecVersion,
    ) -> Result<Vec<u8>, ConfigRefusal> {
        if !self.config().settings.without_token {
            return Err(ConfigRefusal::NoToken);
        }
        let rendered = self.pool_of(ask.name).await?;
        let served = render::serve(&rendered, &Additions::default(), version)?;
        tracing::info!(remote = %ask.remote, config = ask.name, "a config was served without a token");
        Ok(served.bytes)
    }

    async fn config_for_host(
        &self,
        ask: &ConfigRequest<'_>,
        version: SpecVersion,
        asker: &ConfigClient,
    ) -> Result<Vec<u8>, ConfigRefusal> {
        let handed_over = self.handed_over(asker).await?;
        self.check_leads_there(&asker.key, &handed_over, ask.name).await?;
        let found = self.find_config(&asker.key, ask.name).await?;
        let files = self.instance_files(&asker.key, &asker.claims);
        let bytes = match &found {
            ServedConfig::Pool(rendered) => {
                render::serve(rendered, &Additions { files, ..Additions::default() }, version)?.bytes
            }
            ServedConfig::Secret(secret) => {
                // The agent set what the user data's own configs ask of the kernel, and nothing of what those fetch.
                let are_arguments_set = handed_over.iter().any(|own| own == ask.name);
                let whole = ignition::with_files(content(secret)?, &files).map_err(|error| {
                    ConfigRefusal::Unfit(format!("the Secret {} holds no config that can be served: {error}", ask.name))
                })?;
                let asked = ask.accept.filter(|accept| accept.contains(MEDIA_TYPE)).map(|_| version);
                for_client(whole, asked, are_arguments_set)?
            }
        };
        // What it fetches in turn takes the same token.
        let token = ask.token.unwrap_or_default();
        let bytes = ignition::with_config_token(&bytes, &self.config_origins(), token)
            .map_err(|error| ConfigRefusal::Unfit(error.to_string()))?;
        if !ask.head {
            self.fetched(ask, asker, found.rendered()).await?;
        }
        Ok(bytes)
    }

    /// The configs that the user data fetches which the asker's disk has.
    async fn handed_over(&self, asker: &ConfigClient) -> Result<Vec<String>, ConfigRefusal> {
        let journal = self.handles().journals.read(&asker.key).await.map_err(store)?;
        let journal = journal.ok_or(ConfigRefusal::NoHost)?;
        open(standing(&journal, asker.claims.attempt, self.token_age()))?;
        Ok(journal::configs_of(&journal, asker.claims.attempt).unwrap_or_default())
    }

    /// A token opens the configs that the host's own user data fetches, those that these fetch, and no other.
    async fn check_leads_there(&self, key: &HostKey, handed_over: &[String], name: &str) -> Result<(), ConfigRefusal> {
        let mut names = handed_over.to_vec();
        let (mut at, mut passing) = (0, None);
        while !names.iter().any(|own| own == name) {
            let Some(next) = names.get(at).filter(|_| at < CONFIGS_MAX) else {
                // What cannot be read now may lead there: Ignition must not take it for final.
                if let Some(refusal) = passing {
                    return Err(refusal);
                }
                let origin = self.config_origins().first().cloned().unwrap_or_default();
                return Err(ConfigRefusal::Other(format!(
                    "the user data that host {key} was installed with does not fetch the config {}: let it merge \
                     {origin}{}, which counts from the next installation on",
                    field(name),
                    field(name),
                )));
            };
            let found = self.find_config(key, next).await;
            let further = match found.and_then(|found| self.leads_to(&found)) {
                Ok(further) => further,
                Err(error @ (ConfigRefusal::Store(_) | ConfigRefusal::Starting)) => return Err(error),
                Err(error) => {
                    if error.status() >= 500 {
                        passing.get_or_insert(error);
                    }
                    Vec::new()
                }
            };
            for more in further {
                if !names.contains(&more) {
                    names.push(more);
                }
            }
            at += 1;
        }
        Ok(())
    }

    fn leads_to(&self, found: &ServedConfig) -> Result<Vec<String>, ConfigRefusal> {
        let origins = &self.config_origins();
        Ok(match found {
            ServedConfig::Pool(rendered) => ignition::fetched_from(rendered.config.to_string().as_bytes(), origins),
            ServedConfig::Secret(secret) => ignition::fetched_from(content(secret)?, origins),
        })
    }

    async fn pool_of(&self, name: &str) -> Result<Arc<render::Rendered>, ConfigRefusal> {
        if !self.inner.pools.are_read(&*self.handles().runtime).await {
            return Err(ConfigRefusal::Starting);
        }
        match self.inner.pools.rendered(name) {
            // Ignition takes it for final that there is none: it must not be one that no pass has seen.
            Err(ConfigRefusal::Unknown) => match self.inner.pool_objects.get("", name).await {
                Ok(None) => Err(ConfigRefusal::Unknown),
                Ok(Some(_)) => Err(unrendered(name, None)),
                Err(status) => Err(store(status)),
            },
            answer => answer,
        }
    }

    /// The Secret with a config of this name; others are not for hosts.
    pub(crate) async fn config_secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, Status> {
        let secret = self.inner.secrets.get(namespace, name).await?;
        Ok(secret.filter(|secret: &Secret| secret.type_ == CONFIG_TYPE))
    }

    pub(crate) async fn find_config(&self, key: &HostKey, name: &str) -> Result<ServedConfig, ConfigRefusal> {
        match self.config_secret(&key.namespace, name).await.map_err(store)? {
            Some(secret) => Ok(ServedConfig::Secret(Box::new(secret))),
            None => self.pool_of(name).await.map(ServedConfig::Pool),
        }
    }

    /// Stores that the host has fetched its config, before the config leaves.
    async fn fetched(
        &self,
        ask: &ConfigRequest<'_>,
        asker: &ConfigClient,
        rendered: &str,
    ) -> Result<(), ConfigRefusal> {
        let (now, age, attempt) = (self.handles().now(), self.token_age(), asker.claims.attempt);
        let name = field(ask.name);
        let note = |status: &mut HostJournalStatus| {
            let standing = standing(status, attempt, age);
            if standing == ConfigTokenState::Open {
                let record = record_of(status, attempt);
                let is_first = record.config_fetched_at.is_none();
                record.config_fetched_at.get_or_insert(now);
                record.config.clone_from(&name);
                if !rendered.is_empty() {
                    note_rendered(record, rendered);
                }
                if is_first {
                    let what = if rendered.is_empty() { name.clone() } else { format!("{name} ({rendered})") };
                    status.note(event(now, attempt, "config_fetched", format!("{what} by {}", ask.remote)));
                }
            }
            standing
        };
        let standing = self.handles().journals.change(&asker.key, note).await.map_err(store)?;
        self.handles().queue.wake(&asker.key);
        open(standing.ok_or(ConfigRefusal::NoHost)?)
    }

    /// Records a refusal on the host: in its timeline and as an event, not more often than each
    /// [`crate::refusal::RECORDED_EVERY`].
    async fn refused(&self, asker: &ConfigClient, ask: &ConfigRequest<'_>, refusal: &ConfigRefusal) {
        if ask.head || !refusal.is_recorded() {
            return;
        }
        let now = self.handles().now();
        let ConfigClient { key, claims } = asker;
        let told = self.hosts().get_mut(key).and_then(|host| host.refusals.next(now));
        // So many came since the last one that was recorded.
        let Some(before) = told else { return };
        let also = if before == 0 { String::new() } else { format!("; {before} more since the last report") };
        let text = format!("{} was refused its config {}: {refusal}{also}", ask.remote, field(ask.name));
        tracing::warn!(host = %key, remote = %ask.remote, why = refusal.word(), "a config was refused");
        let noted = event(now, claims.attempt, "config_refused", text.clone());
        self.handles().journals.note_again(key, &noted).await;
        self.handles().events.record_event(key, &claims.subject, "ConfigRefused", true, text);
    }

    /// Records a refusal that belongs to no host on the Provisioning object and in the log, as seldom.
    async fn refuse_unattributed(&self, ask: &ConfigRequest<'_>, refusal: &ConfigRefusal) {
        if ask.head {
            return;
        }
        let told = self.strangers().next(self.handles().now());
        let Some(before) = told else { return };
        tracing::warn!(remote = %ask.remote, why = refusal.word(), before, "a config was refused");
        let also = if before == 0 { String::new() } else { format!("; {before} more since the last report") };
        let text = format!("{} was refused the config {}: {refusal}{also}", ask.remote, field(ask.name));
        self.handles().events.record_network_event("ConfigRefused", true, text).await;
    }

    /// What every URL of a config of ours begins with; that of managed stubs comes first.
    fn config_origins(&self) -> Vec<String> {
        self.inner.origins.now().urls.clone()
    }
}

fn content(secret: &Secret) -> Result<&[u8], ConfigRefusal> {
    let name = &secret.metadata.name;
    let missing = || ConfigRefusal::Unfit(format!("the Secret {name} has no key {CONFIG_KEY}: put the config there"));
    secret.get(CONFIG_KEY).ok_or_else(missing)
}

/// A Secret's config as it stands, unless the client said that it reads an older version alone.
fn for_client(config: Vec<u8>, asked: Option<SpecVersion>, are_arguments_set: bool) -> Result<Vec<u8>, ConfigRefusal> {
    let Some(version) = asked else { return Ok(config) };
    let mut value: Value =
        serde_json::from_slice(&config).map_err(|_| ConfigRefusal::Unfit("it is no JSON".to_owned()))?;
    let own = value.pointer("/ignition/version").and_then(Value::as_str).and_then(SpecVersion::named);
    if own.is_none_or(|own| own <= version) {
        return Ok(config);
    }
    if are_arguments_set && version < SpecVersion::V3_3 {
        take_set_arguments(&mut value);
    }
    let fault = |fault| ConfigRefusal::Serve(render::ServeError::Unsaid { version, fault });
    Ok(downgrade::convert(value, version).map_err(fault)?.to_string().into_bytes())
}

/// Takes out the kernel arguments that the agent has set in the boot loader, for a client that knows none. Those that
/// it could not set stay, and are refused by their name.
fn take_set_arguments(config: &mut Value) {
    for list in ["/kernelArguments/shouldExist", "/kernelArguments/shouldNotExist"] {
        if let Some(Value::Array(arguments)) = config.pointer_mut(list) {
            arguments.retain(|argument| !argument.as_str().is_some_and(is_argument));
        }
    }
}

fn open(standing: ConfigTokenState) -> Result<(), ConfigRefusal> {
    match standing {
        ConfigTokenState::Open => Ok(()),
        ConfigTokenState::Ended => Err(ConfigRefusal::Ended),
        ConfigTokenState::Replaced => Err(ConfigRefusal::Replaced),
        ConfigTokenState::Expired => Err(ConfigRefusal::Expired),
    }
}

fn store(status: Status) -> ConfigRefusal {
    ConfigRefusal::Store(status.message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn kernel_arguments_that_the_agent_set_hold_no_old_client_up() {
        let config = |words: Value| {
            let arguments = json!({"shouldExist": words, "shouldNotExist": ["splash"]});
            json!({"ignition": {"version": "3.3.0"}, "kernelArguments": arguments}).to_string().into_bytes()
        };
        let old = Some(SpecVersion::V3_2);
        let served = for_client(config(json!(["quiet"])), old, true).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&served).unwrap(), json!({"ignition": {"version": "3.2.0"}}));
        for (words, is_set) in [(json!(["quiet", "two words"]), true), (json!(["quiet"]), false)] {
            let refusal = for_client(config(words), old, is_set).unwrap_err();
            assert!(refusal.to_string().contains("kernelArguments"), "{refusal}");
        }
        let new = for_client(config(json!(["quiet"])), Some(SpecVersion::V3_3), true).unwrap();
        assert_eq!(new, config(json!(["quiet"])), "who reads them is told");
    }
}
