//! BMCs: control's driver seam, whose requests go over the simulated network to the stateful fake of
//! each machine. The login, the order of requests and what an answer means are small models of the
//! real client; what the service does is the fake's.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use firesteel_bmc::{
    BmcAddress, BmcBootMode, BmcCredentials, BootSet, Error, NextBootSource, OverrideReading, PowerAction, PowerState,
    SystemReport, Tls,
};
use firesteel_bmc_fakes::redfish::{FakeRequest, FakeResponse};
use firesteel_control::{BmcAnswer, BmcDriver, BmcSession};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::executor::{Executor, lock};
use crate::laws::{Laws, Order, Point};
use crate::world::{Out, Outbox};

pub(crate) type Reply = oneshot::Sender<Result<FakeResponse, Error>>;

/// A request on its way to the BMC of a machine.
#[derive(Debug)]
pub(crate) struct BmcAsk {
    /// What it is for. It may arrive when the host awaits something else, or was made anew.
    pub(crate) order: Option<Order>,
    pub(crate) machine: usize,
    pub(crate) request: FakeRequest,
    pub(crate) reply: Reply,
}

pub(crate) struct Driver {
    pub(crate) life: u64,
    pub(crate) outbox: Outbox,
    pub(crate) laws: Arc<Mutex<Laws>>,
    pub(crate) executor: Executor,
}

impl BmcDriver for Driver {
    fn connect<'a>(
        &'a self,
        address: &'a BmcAddress,
        credentials: &'a BmcCredentials,
        _: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>> {
        let BmcAddress::Redfish(address) = address else { panic!("the simulation's BMCs speak Redfish") };
        let system = address.system().unwrap_or_default();
        let machine: Option<usize> = system.rsplit('/').next().and_then(|number| number.parse().ok());
        let pair = format!("{}:{}", credentials.username, credentials.password);
        let session = Session {
            order: machine.and_then(|number| lock(&self.laws).order(self.life, &format!("host-{number}"))),
            machine: machine.unwrap_or(usize::MAX),
            basic: format!("Basic {}", STANDARD.encode(pair)),
            outbox: Arc::clone(&self.outbox),
            laws: Arc::clone(&self.laws),
            executor: self.executor.clone(),
        };
        Box::pin(async move {
            session.system().await?;
            Ok(Box::new(session) as Box<dyn BmcSession>)
        })
    }
}

struct Session {
    order: Option<Order>,
    machine: usize,
    basic: String,
    outbox: Outbox,
    laws: Arc<Mutex<Laws>>,
    executor: Executor,
}

impl Session {
    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<FakeResponse, Error> {
        if method != "GET" && lock(&self.laws).passes(Point::Effect) {
            self.executor.halt();
            return std::future::pending().await;
        }
        let (reply, answer) = oneshot::channel();
        let request = FakeRequest {
            method: method.to_owned(),
            path: format!("/redfish/v1/Systems/1{path}"),
            authorization: Some(self.basic.clone()),
            body: body.map(|body| Bytes::from(body.to_string())).unwrap_or_default(),
            ..FakeRequest::default()
        };
        lock(&self.outbox).push(Out::Bmc(BmcAsk { order: self.order.clone(), machine: self.machine, request, reply }));
        let response = answer.await.map_err(|_| Error::Unreachable { detail: "no route".to_owned() })??;
        if method != "GET" && lock(&self.laws).passes(Point::Effect) {
            self.executor.halt();
            return std::future::pending().await;
        }
        match response.status {
            200..=299 => Ok(response),
            401 => Err(Error::Unauthorized),
            503 => Err(Error::Busy { status: 503 }),
            status => {
                Err(Error::Refused { what: format!("{method} {path}"), status, message: "as the test wants it".into() })
            }
        }
    }

    async fn system(&self) -> Result<Value, Error> {
        let response = self.ask("GET", "", None).await?;
        serde_json::from_slice(&response.body)
            .map_err(|_| Error::BadAnswer { what: "GET".to_owned(), detail: "no JSON".to_owned() })
    }
}

fn power_of(system: &Value) -> PowerState {
    match system["PowerState"].as_str() {
        Some("On") => PowerState::On,
        Some("Off") => PowerState::Off,
        Some(_) | None => PowerState::Unknown,
    }
}

impl BmcSession for Session {
    fn identify(&self) -> BmcAnswer<'_, SystemReport> {
        Box::pin(async move {
            let system = self.system().await?;
            let interface = self.ask("GET", "/EthernetInterfaces/eth0", None).await?;
            let interface: Value = serde_json::from_slice(&interface.body).unwrap_or_default();
            let text = interface["MACAddress"].as_str().unwrap_or_default();
            Ok(SystemReport {
                system: "/redfish/v1/Systems/1".to_owned(),
                power: power_of(&system),
                manufacturer: None,
                model: None,
                serial: None,
                uuid: None,
                boot_target: None,
                boot_enabled: None,
                boot_mode: None,
                macs: text.parse().into_iter().collect(),
                resets_allowed: Vec::new(),
                boot_targets_allowed: Vec::new(),
            })
        })
    }

    fn power(&self) -> BmcAnswer<'_, PowerState> {
        Box::pin(async move { Ok(power_of(&self.system().await?)) })
    }

    fn set_power(&self, action: PowerAction) -> BmcAnswer<'_, ()> {
        Box::pin(async move {
            let is_on = self.power().await? == PowerState::On;
            let reset = match (action, is_on) {
                (PowerAction::On, true) | (PowerAction::ForceOff | PowerAction::GracefulOff, false) => return Ok(()),
                (PowerAction::On, false) => "On",
                (PowerAction::ForceOff, true) => "ForceOff",
                (PowerAction::GracefulOff, true) => "GracefulShutdown",
                (PowerAction::ForceRestart, _) => "ForceRestart",
            };
            self.ask("POST", "/Actions/ComputerSystem.Reset", Some(json!({ "ResetType": reset }))).await.map(drop)
        })
    }

    fn set_boot_once(&self, target: NextBootSource, _: BmcBootMode) -> BmcAnswer<'_, BootSet> {
        Box::pin(async move {
            let body = json!({"Boot": {
                "BootSourceOverrideEnabled": "Once",
                "BootSourceOverrideTarget": target.as_str(),
            }});
            self.ask("PATCH", "", Some(body)).await?;
            let system = self.system().await?;
            let set = system["Boot"]["BootSourceOverrideEnabled"] == "Once";
            Ok(if set { BootSet::Confirmed } else { BootSet::Unverified { seen: "Disabled".to_owned() } })
        })
    }

    fn read_once(&self) -> BmcAnswer<'_, OverrideReading> {
        Box::pin(async move {
            let system = self.system().await?;
            let seen = system["Boot"]["BootSourceOverrideEnabled"].as_str().unwrap_or_default().to_owned();
            Ok(if seen == "Disabled" { OverrideReading::UsedUp } else { OverrideReading::Left { seen } })
        })
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}
