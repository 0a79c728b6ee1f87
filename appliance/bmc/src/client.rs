//! One BMC, logged in by Redfish: finding the system, identity and power. Boot overrides and the inventory
//! are asked for in modules of their own.

use std::sync::Arc;
use std::time::Duration;

use firesteel_facts::Mac;
use http::Method;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::BmcCredentials;
use crate::address::own_path;
use crate::decide::{BmcBootMode, PowerAction, PowerPlan, PowerState, plan_power};
use crate::error::{Error, plain_text};
use crate::http::{BmcConnection, Proof};
use crate::login::{self, LoginState};
use crate::model::{
    ActionInfo, Collection, EthernetInterface, MEMBERS_MAX, Manager, RedfishLink, RedfishSystem, ResetActionInfo,
    ServiceRoot, parse_mac,
};
use crate::power_outcome::{PowerSent, PowerSet};
use crate::quirks::{BmcQuirks, QuirkSubject, quirks_of};
use crate::response::BmcResponse;

/// Interfaces that are asked for their MAC: each costs a request.
const INTERFACES_MAX: usize = 16;
/// Managers of one system that are looked at; real ones have one.
const MANAGERS_MAX: usize = 4;

/// What a BMC says of its system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemReport {
    /// Path of the system's resource.
    pub system: String,
    pub power: PowerState,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub uuid: Option<String>,
    pub boot_target: Option<String>,
    /// `Once`, `Continuous`, `Disabled`.
    pub boot_enabled: Option<String>,
    pub boot_mode: Option<BmcBootMode>,
    pub macs: Vec<Mac>,
    /// The reset types that the service lists as allowed; empty where it lists none.
    pub resets_allowed: Vec<String>,
    pub boot_targets_allowed: Vec<String>,
}

/// How long a BMC is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BmcTimeouts {
    /// One request, to the end of its answer. Slow ones take half a minute for a PATCH.
    pub request: Duration,
    /// Time in which a change must show. A caller that waits longer reads the state again later.
    pub read_back: Duration,
    /// Pause between two reads.
    pub pause: Duration,
}

impl Default for BmcTimeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(60),
            read_back: Duration::from_secs(12),
            pause: Duration::from_millis(1500),
        }
    }
}

/// A logged-in BMC. Requests of all callers go one at a time. Its session is deleted by [`RedfishClient::close`], or in
/// the background when it is dropped without.
pub struct RedfishClient {
    pub(crate) connection: Arc<BmcConnection>,
    pub(crate) credentials: BmcCredentials,
    pub(crate) login: Mutex<LoginState>,
    /// The path at which sessions are made; `None` if the service has no sessions.
    pub(crate) sessions: Option<String>,
    pub(crate) root: ServiceRoot,
    pub(crate) system: String,
    pub(crate) patience: BmcTimeouts,
}

impl std::fmt::Debug for RedfishClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedfishClient").field("system", &self.system).finish_non_exhaustive()
    }
}

impl Drop for RedfishClient {
    fn drop(&mut self) {
        let login = self.login.get_mut();
        let Some(path) = login.session.take() else { return };
        let (connection, proof) = (Arc::clone(&self.connection), login.proof.clone());
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { login::log_out(&connection, &path, &proof).await });
        }
    }
}

/// The path of a link, if it stays on the service.
pub(crate) fn path_of(link: Option<&RedfishLink>) -> Option<String> {
    link.and_then(|link| link.id.as_deref()).and_then(own_path).map(str::to_owned)
}

impl RedfishClient {
    /// Everything that is known of the system. Several requests; for polling use [`RedfishClient::power`].
    ///
    /// # Errors
    /// What keeps the system from being read.
    pub async fn identify(&self) -> Result<SystemReport, Error> {
        let (system, _) = self.read_system().await?;
        let macs = self.read_macs(&system).await?;
        let resets = self.resets(&system).await?;
        let texts = |list: &[String]| list.iter().take(MEMBERS_MAX).map(|item| plain_text(item)).collect();
        let boot = system.boot.clone().unwrap_or_default();
        Ok(SystemReport {
            system: self.system.clone(),
            power: PowerState::of(&system),
            manufacturer: shown(system.manufacturer.as_deref()),
            model: shown(system.model.as_deref()),
            serial: shown(system.serial_number.as_deref()),
            uuid: shown(system.uuid.as_deref()),
            boot_target: shown(boot.target.as_deref()),
            boot_enabled: shown(boot.enabled.as_deref()),
            boot_mode: boot.mode.as_deref().and_then(BmcBootMode::parse),
            macs,
            resets_allowed: texts(&resets),
            boot_targets_allowed: texts(&boot.targets_allowed.unwrap_or_default()),
        })
    }

    /// # Errors
    /// What keeps the system from being read.
    pub async fn power(&self) -> Result<PowerState, Error> {
        let (system, _) = self.read_system().await?;
        Ok(PowerState::of(&system))
    }

    /// Is idempotent but for [`PowerAction::ForceRestart`].
    ///
    /// # Errors
    /// What the BMC cannot do or does not take.
    pub async fn set_power(&self, action: PowerAction) -> Result<PowerSent, Error> {
        Ok(self.send_power(action).await?.map_or(PowerSent::Nothing, |_| PowerSent::Sent))
    }

    /// Orders a power action, then reads the state until it is as wanted or [`BmcTimeouts::read_back`] has passed.
    ///
    /// # Errors
    /// What the BMC cannot do or does not take.
    pub async fn change_power(&self, action: PowerAction) -> Result<PowerSet, Error> {
        let Some(sent) = self.send_power(action).await? else { return Ok(PowerSet::Nothing) };
        match action {
            PowerAction::ForceRestart | PowerAction::GracefulOff => return Ok(PowerSet::Unconfirmed),
            PowerAction::On | PowerAction::ForceOff => {}
        }
        let asked_at = Instant::now();
        loop {
            let (system, _) = self.read_system().await?;
            if action.is_reached(PowerState::of(&system)) {
                return Ok(PowerSet::Confirmed);
            }
            let passed = asked_at.elapsed();
            if passed + self.patience.pause > self.patience.read_back {
                let state = plain_text(system.power_state.as_deref().unwrap_or("nothing"));
                let seen = format!("{sent}, and {} later PowerState says {state}", seconds(passed));
                return Ok(PowerSet::Unverified { seen });
            }
            sleep(self.patience.pause).await;
        }
    }

    /// What was sent and how it was answered, in words; `None` where nothing had to be.
    async fn send_power(&self, action: PowerAction) -> Result<Option<String>, Error> {
        let (mut system, _) = self.read_system().await?;
        let quirks = self.quirks(&system, "");
        let resets = self.resets(&system).await?;
        if let Some(reset) = system.actions.as_mut().and_then(|actions| actions.reset.as_mut()) {
            reset.types_allowed = Some(resets);
        }
        let (target, reset_type) = match plan_power(&system, action, quirks) {
            PowerPlan::Nothing => return Ok(None),
            PowerPlan::Impossible { what } => return Err(Error::Unsupported { what }),
            PowerPlan::Reset { target, reset_type } => (target, reset_type),
        };
        let what = format!("the reset {reset_type}");
        let body = json!({ "ResetType": reset_type });
        let answer = self.change(Method::POST, &target, &body, None).await?;
        let status = answer.status.as_u16();
        match answer.accepted(&what, &target) {
            Ok(_) => Ok(Some(format!("POST {target} with {reset_type} was answered {status}"))),
            // Somebody was faster: "already on" is refused by many services.
            Err(error @ Error::Refused { .. }) if action.is_reached(self.power().await?) => {
                tracing::debug!(%error, "the system is in the wanted power state");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it is driven by Basic authentication because the BMC had no place for a session.
    pub async fn is_in_place_of_session(&self) -> bool {
        self.login.lock().await.is_in_place_of_session
    }

    /// Ends the session, where there is one.
    pub async fn close(mut self) {
        let login = self.login.get_mut();
        let Some(path) = login.session.clone() else { return };
        login::log_out(&self.connection, &path, &login.proof).await;
        // Only now: who is cancelled before this leaves the rest to the drop.
        login.session = None;
    }

    /// The system, which also proves the login and the path.
    pub(crate) async fn find(&mut self, systems_path: &str) -> Result<(), Error> {
        if self.system.is_empty() {
            self.system = self.only_system(systems_path).await?;
        }
        self.read_system().await.map(drop)
    }

    async fn only_system(&self, systems_path: &str) -> Result<String, Error> {
        let systems: Collection =
            self.get(systems_path).await?.accepted("list its systems", systems_path)?.json(systems_path)?;
        let mut paths = systems.members.unwrap_or_default().into_iter().filter_map(|link| link.id);
        let first = paths.next().ok_or_else(|| Error::NotFound { path: format!("system below {systems_path}") })?;
        let others = paths.count();
        if others > 0 {
            return Err(Error::SeveralSystems { count: others + 1, example: plain_text(&first) });
        }
        own_path(&first).map(str::to_owned).ok_or_else(|| Error::BadAnswer {
            what: format!("GET {systems_path}"),
            detail: "its system's path leads elsewhere".to_owned(),
        })
    }

    /// Reads the system with its ETags: that of the answer, and that of the resource.
    pub(crate) async fn read_system(&self) -> Result<(RedfishSystem, Vec<String>), Error> {
        let answer = self.get(&self.system).await?.accepted("show its system", &self.system)?;
        let system: RedfishSystem = answer.json(&self.system)?;
        let etags = answer.etag().into_iter().chain(system.etag.clone()).collect();
        Ok((system, etags))
    }

    pub(crate) fn quirks(&self, system: &RedfishSystem, firmware: &str) -> BmcQuirks {
        quirks_of(&QuirkSubject { firmware, ..QuirkSubject::of(&self.root, system) })
    }

    /// The reset types that are offered: of the action itself, or where it says that they are.
    async fn resets(&self, system: &RedfishSystem) -> Result<Vec<String>, Error> {
        let told = system.resets_allowed();
        let reset: Option<&ResetActionInfo> = system.actions.as_ref().and_then(|actions| actions.reset.as_ref());
        let Some(path) = reset.and_then(|reset| reset.info.as_deref()).and_then(own_path).filter(|_| told.is_empty())
        else {
            return Ok(told.to_vec());
        };
        let info: ActionInfo = self.get(path).await?.json_if_there().unwrap_or_default();
        let is_type = |parameter: &crate::model::Parameter| parameter.name.as_deref() == Some("ResetType");
        let found = info.parameters.unwrap_or_default().into_iter().find(is_type);
        Ok(found.and_then(|parameter| parameter.allowable_values).unwrap_or_default())
    }

    /// The managers of the system, with their paths; those that do not show themselves are left out.
    pub(crate) async fn managers(&self, system: &RedfishSystem) -> Result<Vec<Manager>, Error> {
        let links = system.links.as_ref().and_then(|links| links.managed_by.as_deref()).unwrap_or_default();
        let mut managers = Vec::new();
        for path in links.iter().take(MANAGERS_MAX).filter_map(|link| path_of(Some(link))) {
            managers.extend(self.get(&path).await?.json_if_there::<Manager>());
        }
        Ok(managers)
    }

    /// Many services leave the interfaces out, or show them only while the system is on: an empty list is no error.
    async fn read_macs(&self, system: &RedfishSystem) -> Result<Vec<Mac>, Error> {
        let Some(path) = path_of(system.ethernet_interfaces.as_ref()) else { return Ok(Vec::new()) };
        let answer = self.get(&path).await?;
        if !answer.status.is_success() {
            return Ok(Vec::new());
        }
        let interfaces: Collection = answer.json(&path)?;
        let mut macs = Vec::new();
        for link in interfaces.members.unwrap_or_default().into_iter().take(INTERFACES_MAX) {
            let Some(path) = path_of(Some(&link)) else { continue };
            let Some(interface) = self.get(&path).await?.json_if_there::<EthernetInterface>() else { continue };
            for text in [interface.permanent_mac, interface.mac].into_iter().flatten() {
                if let Some(mac) = parse_mac(&text)
                    && !macs.contains(&mac)
                {
                    macs.push(mac);
                }
            }
        }
        Ok(macs)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<BmcResponse, Error> {
        let (answer, proof) = self.get_by_login(path).await?;
        let answer = match self.renewed(&answer, &proof).await? {
            Some(proof) => self.connection.get(path, &proof).await?,
            None => answer,
        };
        self.let_in(answer).await
    }

    pub(crate) async fn change(
        &self,
        method: Method,
        path: &str,
        body: &serde_json::Value,
        if_match: Option<&str>,
    ) -> Result<BmcResponse, Error> {
        let proof = self.proof().await;
        let answer = self.connection.change(method.clone(), path, &proof, body, if_match).await?;
        let answer = match self.renewed(&answer, &proof).await? {
            Some(proof) => self.connection.change(method, path, &proof, body, if_match).await?,
            None => answer,
        };
        self.let_in(answer).await
    }

    /// Passes an answer on. A refusal of Basic authentication says nothing of the login if no session was free.
    pub(crate) async fn let_in(&self, answer: BmcResponse) -> Result<BmcResponse, Error> {
        if answer.status.as_u16() == 401 && self.is_in_place_of_session().await {
            self.connection.line().basic_refused();
            return Err(Error::NoSessionNorBasic);
        }
        Ok(answer)
    }

    pub(crate) async fn proof(&self) -> Proof {
        self.login.lock().await.proof.clone()
    }

    /// A new login where a session has ended under way. A password that is refused is not shown again.
    async fn renewed(&self, answer: &BmcResponse, refused: &Proof) -> Result<Option<Proof>, Error> {
        if answer.status.as_u16() != 401 || !matches!(refused, Proof::Session(_)) {
            return Ok(None);
        }
        let mut login = self.login.lock().await;
        // Else another call has logged in meanwhile.
        if login::same(&login.proof, refused) {
            *login = login::log_in(&self.connection, &self.credentials, self.sessions.as_deref()).await?;
        }
        Ok(Some(login.proof.clone()))
    }
}

/// Foreign text for people; `None` where nothing is left of it.
pub(crate) fn shown(text: Option<&str>) -> Option<String> {
    text.map(|text| plain_text(text.trim())).filter(|text| !text.is_empty())
}

/// A time for people.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f32())
}
