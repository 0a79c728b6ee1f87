//! One BMC, logged in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{HeaderValue, LOCATION};
use serde_json::json;
use tokio::sync::Mutex;

use crate::Credentials;
use crate::address::{Address, SYSTEMS, own_path};
use crate::decide::{
    BootMode, PowerAction, PowerPlan, PowerState, Target, is_boot_set, plan_boot, plan_power, quirks_of,
};
use crate::error::{Error, plain_text};
use crate::hidden::Hidden;
use crate::http::{Answer, Connection, Proof};
use crate::model::{Collection, EthernetInterface, MEMBERS_MAX, ServiceRoot, System, parse_mac};
use crate::tls::Tls;

/// Interfaces that are asked for their MAC: each costs a request.
const INTERFACES_MAX: usize = 16;
const ROOT: &str = "/redfish/v1/";
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// The driver's name, and its one way in.
#[derive(Clone, Copy, Debug)]
pub struct Redfish;

/// What a BMC says of its system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BmcSeen {
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
    pub boot_mode: Option<BootMode>,
    pub macs: Vec<[u8; 6]>,
    /// Empty: not said.
    pub resets_allowed: Vec<String>,
    pub boot_targets_allowed: Vec<String>,
}

/// Whether a power action needed a request. That the system follows is seen by [`Client::power`] later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerSent {
    /// It was so already.
    Nothing,
    Sent,
}

/// What reading the override back has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootSet {
    Confirmed,
    /// Accepted, but the system says something else: it may take it at the next start, or have dropped it.
    Unverified {
        seen: String,
    },
}

/// A logged-in BMC. Requests go one at a time, whoever calls; cheap to keep, holds one idle connection.
pub struct Client {
    connection: Connection,
    credentials: Credentials,
    login: Mutex<Login>,
    sessions_path: String,
    system: String,
}

struct Login {
    proof: Proof,
    /// To be deleted at the end: a BMC has few.
    session_path: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("system", &self.system).finish_non_exhaustive()
    }
}

impl Redfish {
    /// Finds the service, logs in and finds the system.
    ///
    /// Basic authentication is tried first: it leaves nothing behind on the BMC. Where it is
    /// switched off, a session is opened; a refused password is tried twice at most.
    pub async fn connect(address: &Address, credentials: &Credentials, tls: &Tls) -> Result<Client, Error> {
        let connection = Connection::new(address, tls, Hidden::of(credentials))?;
        let root: ServiceRoot = connection.get(ROOT, &Proof::None).await?.accepted("be found", ROOT)?.json(ROOT)?;
        let link = |link: Option<crate::model::Link>| {
            link.and_then(|link| link.id).and_then(|id| own_path(&id).map(str::to_owned))
        };
        let sessions_path = link(root.links.and_then(|links| links.sessions)).unwrap_or_else(|| SESSIONS.to_owned());
        let systems_path = link(root.systems).unwrap_or_else(|| SYSTEMS.to_owned());
        let mut client = Client {
            connection,
            credentials: credentials.clone(),
            login: Mutex::new(Login { proof: basic(credentials)?, session_path: None }),
            sessions_path,
            system: address.system().unwrap_or_default().to_owned(),
        };
        if client.system.is_empty() {
            client.system = client.only_system(&systems_path).await?;
        }
        // Also proves the login and the path.
        client.read_system().await?;
        Ok(client)
    }
}

impl Client {
    /// Everything that is known of the system. Several requests; for polling use [`Client::power`].
    pub async fn identify(&self) -> Result<BmcSeen, Error> {
        let (system, _) = self.read_system().await?;
        let macs = self.read_macs(&system).await?;
        let text = |value: Option<String>| value.map(|text| plain_text(text.trim())).filter(|text| !text.is_empty());
        let texts = |list: Option<Vec<String>>| -> Vec<String> {
            list.unwrap_or_default().iter().take(MEMBERS_MAX).map(|item| plain_text(item)).collect()
        };
        let boot = system.boot.clone().unwrap_or_default();
        Ok(BmcSeen {
            system: self.system.clone(),
            power: PowerState::of(&system),
            manufacturer: text(system.manufacturer),
            model: text(system.model),
            serial: text(system.serial_number),
            uuid: text(system.uuid),
            boot_target: text(boot.target),
            boot_enabled: text(boot.enabled),
            boot_mode: boot.mode.as_deref().and_then(BootMode::parse),
            macs,
            resets_allowed: texts(
                system.actions.and_then(|actions| actions.reset).and_then(|reset| reset.types_allowed),
            ),
            boot_targets_allowed: texts(boot.targets_allowed),
        })
    }

    pub async fn power(&self) -> Result<PowerState, Error> {
        let (system, _) = self.read_system().await?;
        Ok(PowerState::of(&system))
    }

    /// Idempotent but for [`PowerAction::ForceRestart`].
    pub async fn set_power(&self, action: PowerAction) -> Result<PowerSent, Error> {
        let (system, _) = self.read_system().await?;
        let (target, reset_type) = match plan_power(&system, action) {
            PowerPlan::Nothing => return Ok(PowerSent::Nothing),
            PowerPlan::Impossible { what } => return Err(Error::Unsupported { what }),
            PowerPlan::Reset { target, reset_type } => (target, reset_type),
        };
        let what = format!("the reset {reset_type}");
        let body = json!({ "ResetType": reset_type });
        let answer = self.change(Method::POST, &target, &body, None).await?;
        match answer.accepted(&what, &target) {
            Ok(_) => Ok(PowerSent::Sent),
            // Somebody was faster: "already on" is refused by many services.
            Err(error @ Error::Refused { .. }) if action.is_reached(self.power().await?) => {
                tracing::debug!(%error, "the system is in the wanted power state");
                Ok(PowerSent::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// The next boot from `target`, and from then on as before; read back afterwards.
    pub async fn set_boot_once(&self, target: Target, mode: Option<BootMode>) -> Result<BootSet, Error> {
        let (system, etag) = self.read_system().await?;
        let body = plan_boot(&system, target, mode, quirks_of(&system)).map_err(|what| Error::Unsupported { what })?;
        let what = format!("the boot override {}", target.as_str());
        let mut answer = self.change(Method::PATCH, &self.system, &body, etag.as_ref()).await?;
        if answer.status.as_u16() == 412 {
            // The resource changed since it was read, or its ETag is not for changes.
            answer = self.change(Method::PATCH, &self.system, &body, None).await?;
        }
        answer.accepted(&what, &self.system)?;
        let (system, _) = self.read_system().await?;
        if is_boot_set(&system, target) {
            return Ok(BootSet::Confirmed);
        }
        let boot = system.boot.unwrap_or_default();
        let word = |value: Option<String>| value.unwrap_or_else(|| "nothing".to_owned());
        Ok(BootSet::Unverified { seen: plain_text(&format!("{} {}", word(boot.enabled), word(boot.target))) })
    }

    /// Ends the session, where there is one. Without it the BMC ends it by itself after a while.
    pub async fn close(self) {
        let login = self.login.into_inner();
        if let Some(path) = login.session_path
            && let Err(error) = self.connection.delete(&path, &login.proof).await
        {
            tracing::debug!(%error, "the BMC's session was left open");
        }
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

    async fn read_system(&self) -> Result<(System, Option<HeaderValue>), Error> {
        let answer = self.get(&self.system).await?.accepted("show its system", &self.system)?;
        Ok((answer.json(&self.system)?, answer.etag().cloned()))
    }

    /// Many services leave the interfaces out, or show them only while the system is on: an empty list is no error.
    async fn read_macs(&self, system: &System) -> Result<Vec<[u8; 6]>, Error> {
        let link = system.ethernet_interfaces.as_ref().and_then(|link| link.id.as_deref()).and_then(own_path);
        let Some(path) = link else { return Ok(Vec::new()) };
        let answer = self.get(path).await?;
        if !answer.status.is_success() {
            return Ok(Vec::new());
        }
        let interfaces: Collection = answer.json(path)?;
        let mut macs = Vec::new();
        for link in interfaces.members.unwrap_or_default().into_iter().take(INTERFACES_MAX) {
            let Some(path) = link.id.as_deref().and_then(own_path) else { continue };
            let answer = self.get(path).await?;
            let Ok(interface) = answer.json::<EthernetInterface>(path) else { continue };
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

    async fn get(&self, path: &str) -> Result<Answer, Error> {
        let proof = self.proof().await;
        let answer = self.connection.get(path, &proof).await?;
        if answer.status.as_u16() != 401 {
            return Ok(answer);
        }
        let proof = self.log_in(&proof).await?;
        self.connection.get(path, &proof).await
    }

    async fn change(
        &self,
        method: Method,
        path: &str,
        body: &serde_json::Value,
        etag: Option<&HeaderValue>,
    ) -> Result<Answer, Error> {
        let proof = self.proof().await;
        let answer = self.connection.change(method.clone(), path, &proof, body, etag).await?;
        if answer.status.as_u16() != 401 {
            return Ok(answer);
        }
        let proof = self.log_in(&proof).await?;
        self.connection.change(method, path, &proof, body, etag).await
    }

    async fn proof(&self) -> Proof {
        self.login.lock().await.proof.clone()
    }

    /// Opens a session after `refused` was not taken: Basic is switched off, or the session has ended.
    async fn log_in(&self, refused: &Proof) -> Result<Proof, Error> {
        let mut login = self.login.lock().await;
        if !same(&login.proof, refused) {
            // Another call has logged in meanwhile.
            return Ok(login.proof.clone());
        }
        let body = json!({"UserName": self.credentials.username, "Password": self.credentials.password});
        let path = &self.sessions_path;
        let answer = self.connection.change(Method::POST, path, &Proof::None, &body, None).await?;
        let token = answer.headers.get("x-auth-token").filter(|_| answer.status.is_success());
        let Some(token) = token else {
            return Err(match answer.status.as_u16() {
                429 | 503 => Error::Busy { status: answer.status.as_u16() },
                _ => Error::Unauthorized,
            });
        };
        let mut token = token.clone();
        token.set_sensitive(true);
        let location = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        login.session_path = location.and_then(path_of).and_then(|path| own_path(&path).map(str::to_owned));
        login.proof = Proof::Session(token);
        Ok(login.proof.clone())
    }
}

fn basic(credentials: &Credentials) -> Result<Proof, Error> {
    let pair = format!("{}:{}", credentials.username, credentials.password);
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).map_err(|_| Error::Unauthorized)?;
    value.set_sensitive(true);
    Ok(Proof::Basic(value))
}

fn same(one: &Proof, other: &Proof) -> bool {
    match (one, other) {
        (Proof::None, Proof::None) => true,
        (Proof::Basic(one), Proof::Basic(other)) | (Proof::Session(one), Proof::Session(other)) => one == other,
        (Proof::None | Proof::Basic(_) | Proof::Session(_), _) => false,
    }
}

/// A session's `Location` is a path by the specification, and a whole URL on some services.
fn path_of(location: &str) -> Option<String> {
    match reqwest::Url::parse(location) {
        Ok(url) => Some(url.path().to_owned()),
        Err(_) => Some(location.to_owned()),
    }
}
