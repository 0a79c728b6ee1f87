//! The services of the provisioning network, as the network's controller starts and stops them
//! ([`firesteel_network::NetworkServices`]).
//!
//! ```text
//! NetworkController ─► ApplianceServices ─► start ─► address │ http │ sensors │ tftp │ dhcp ─► tasks of the service
//!                            ▲   └─► stop: the tasks are cancelled, and waited for until their sockets are closed
//!                            └── a task that ends by itself is reported; the controller starts the service again
//! ```
//!
//! A service that fails ends nothing else: hosts that write their disks keep their server.

mod address;
mod dhcp;
mod http;
mod image_cache;
mod named_time_servers;
mod put_address;
mod sensors;
mod surroundings;
mod tftp;

pub(super) use surroundings::ServeSurroundings;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firesteel_boot::{AskerRule, Endpoints, HostNetwork};
use firesteel_facts::WorkHold;
use firesteel_network::{AddressState, NetworkServices, OsImageReport, ServiceFailure, ServiceName, ServicePlan};
use firesteel_runtime::lock;
use futures_util::future::BoxFuture;
use std::sync::Mutex;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::service_parts::ServiceParts;
use address::AddressControl;
use dhcp::DhcpControl;
use image_cache::ImageCacheControl;
use put_address::PutAddressRecord;
use sensors::SensorControl;

/// The end of a service, with the number of its start.
type ServiceEnd = (ServiceName, u64, String);

/// A service that runs.
struct RunningService {
    number: u64,
    tasks: JoinSet<()>,
    control: ServiceControl,
}

/// What can be said to a service that runs.
enum ServiceControl {
    None,
    Dhcp(DhcpControl),
    Address(AddressControl),
    ImageCache(ImageCacheControl),
    Sensors(SensorControl),
}

/// Starts and stops the services of this process.
pub(super) struct ApplianceServices {
    parts: Arc<ServiceParts>,
    running: Mutex<BTreeMap<ServiceName, RunningService>>,
    /// The number of the last start.
    starts: Mutex<u64>,
    /// A keeper of the address that starts is paused.
    is_paused: AtomicBool,
    ends: mpsc::UnboundedSender<ServiceEnd>,
    ended: tokio::sync::Mutex<mpsc::UnboundedReceiver<ServiceEnd>>,
}

firesteel_runtime::opaque_debug!(ApplianceServices);

/// The tasks of a service that is being started.
pub(super) struct ServiceTasks {
    name: ServiceName,
    number: u64,
    tasks: JoinSet<()>,
    ends: mpsc::UnboundedSender<ServiceEnd>,
}

impl ServiceTasks {
    /// Runs a part of the service. Its end is the end of the service.
    pub(super) fn spawn(&mut self, part: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> AbortHandle {
        let (name, number, ends) = (self.name, self.number, self.ends.clone());
        let report = ReportedEnd { name, number, ends, why: None };
        self.tasks.spawn(async move {
            let mut report = report;
            report.why = Some(match part.await {
                Ok(()) => "it ended by itself".to_owned(),
                Err(error) => format!("{error:#}"),
            });
        })
    }
}

/// Reports the end of a part when it is dropped, which a panic does too.
struct ReportedEnd {
    name: ServiceName,
    number: u64,
    ends: mpsc::UnboundedSender<ServiceEnd>,
    why: Option<String>,
}

impl Drop for ReportedEnd {
    fn drop(&mut self) {
        let why = self.why.take().unwrap_or_else(|| "it panicked, or was cancelled".to_owned());
        // Without a receiver the process ends anyway.
        if self.ends.send((self.name, self.number, why)).is_err() {
            tracing::debug!(service = self.name.word(), "a service ended after its controller");
        }
    }
}

impl ApplianceServices {
    pub(super) fn new(parts: Arc<ServiceParts>) -> Self {
        let (ends, ended) = mpsc::unbounded_channel();
        let ended = tokio::sync::Mutex::new(ended);
        let (running, starts) = (Mutex::default(), Mutex::default());
        Self { parts, running, starts, is_paused: AtomicBool::new(false), ends, ended }
    }

    fn is_running(&self, name: ServiceName) -> bool {
        lock(&self.running).contains_key(&name)
    }

    fn begin(&self, name: ServiceName) -> ServiceTasks {
        let mut starts = lock(&self.starts);
        *starts += 1;
        ServiceTasks { name, number: *starts, tasks: JoinSet::new(), ends: self.ends.clone() }
    }

    async fn try_start(&self, name: ServiceName, plan: &ServicePlan) -> anyhow::Result<()> {
        let mut tasks = self.begin(name);
        let parts = &self.parts;
        let control = match name {
            ServiceName::Address => match &plan.address {
                Some(kept) => {
                    let is_paused = self.is_paused.load(Ordering::SeqCst);
                    ServiceControl::Address(address::start(&mut tasks, parts, kept, is_paused)?)
                }
                None => ServiceControl::None,
            },
            ServiceName::Http => {
                if let Some(address) = plan.http {
                    if let Some(dhcp) = plan.dhcp.as_ref().filter(|_| !self.is_running(ServiceName::Dhcp)) {
                        dhcp::note_stored_leases(parts, dhcp);
                    }
                    http::start(&mut tasks, parts, address).await?;
                }
                ServiceControl::None
            }
            ServiceName::Tftp => {
                if let Some(tftp) = &plan.tftp {
                    tftp::start(&mut tasks, parts, tftp)?;
                }
                ServiceControl::None
            }
            ServiceName::Dhcp => match &plan.dhcp {
                Some(dhcp) => ServiceControl::Dhcp(dhcp::start(&mut tasks, parts, dhcp).await?),
                None => ServiceControl::None,
            },
            ServiceName::ImageCache => match &plan.image_cache {
                Some(url) => ServiceControl::ImageCache(image_cache::start(&mut tasks, parts, url)?),
                None => ServiceControl::None,
            },
            ServiceName::Sensors => match plan.sensors {
                Some(sensors) => ServiceControl::Sensors(sensors::start(&mut tasks, parts, sensors)),
                None => ServiceControl::None,
            },
        };
        let ServiceTasks { number, tasks, .. } = tasks;
        lock(&self.running).insert(name, RunningService { number, tasks, control });
        Ok(())
    }

    /// Says to all parts how hosts reach the appliance now.
    fn publish(&self, plan: &ServicePlan) {
        let Some(address) = plan.http else { return };
        let settings = &self.parts.settings;
        let endpoints = Endpoints { address, http_port: settings.http_port, agent_port: settings.agent_port };
        self.parts.network_changed(HostNetwork {
            endpoints,
            asker_rule: if plan.leases_addresses() { AskerRule::Lease } else { AskerRule::FirstAsker },
            hosts_have_dns: plan.hosts_have_dns(),
            work_hold: None,
        });
    }
}

/// Says why, with the causes behind it.
fn failure(error: &anyhow::Error) -> ServiceFailure {
    ServiceFailure(format!("{error:#}"))
}

impl NetworkServices for ApplianceServices {
    fn start<'a>(&'a self, name: ServiceName, plan: &'a ServicePlan) -> BoxFuture<'a, Result<(), ServiceFailure>> {
        Box::pin(async move {
            if name == ServiceName::Http {
                self.publish(plan);
            }
            self.try_start(name, plan).await.map_err(|error| failure(&error))
        })
    }

    fn adjust<'a>(&'a self, name: ServiceName, plan: &'a ServicePlan) -> BoxFuture<'a, Result<(), ServiceFailure>> {
        Box::pin(async move {
            let dhcp = match lock(&self.running).get(&name).map(|running| &running.control) {
                Some(ServiceControl::Dhcp(control)) => Some(control.clone()),
                Some(ServiceControl::ImageCache(control)) => {
                    let url = plan.image_cache.as_deref().unwrap_or_default();
                    return control.adjust(url).map_err(|error| failure(&error));
                }
                Some(ServiceControl::Sensors(control)) => {
                    plan.sensors.into_iter().for_each(|sensors| control.adjust(sensors));
                    None
                }
                _ => None,
            };
            match (dhcp, &plan.dhcp) {
                (Some(control), Some(dhcp)) => control.adjust(dhcp).await.map_err(|error| failure(&error)),
                _ => Ok(()),
            }
        })
    }

    fn stop(&self, name: ServiceName) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(RunningService { mut tasks, control, .. }) = lock(&self.running).remove(&name) else { return };
            // Without its control, DHCP closes its files and ends, and the keeper takes the address back and ends.
            let is_graceful = matches!(control, ServiceControl::Dhcp(_) | ServiceControl::Address(_));
            drop(control);
            if !is_graceful {
                tasks.abort_all();
            }
            while tasks.join_next().await.is_some() {}
            match name {
                ServiceName::ImageCache => image_cache::remove(&self.parts).await,
                ServiceName::Http => self.parts.network_stopped(),
                ServiceName::Address | ServiceName::Sensors | ServiceName::Tftp | ServiceName::Dhcp => {}
            }
        })
    }

    fn planned<'a>(&'a self, plan: &'a ServicePlan) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.publish(plan);
            // What an earlier run, or a service that ended by itself, could not take along.
            if plan.address.is_none() {
                PutAddressRecord::open(&self.parts.data, None);
            }
            if plan.image_cache.is_none() && self.parts.os_images.cached().report().is_some() {
                image_cache::remove(&self.parts).await;
            }
        })
    }

    fn ended(&self) -> BoxFuture<'_, (ServiceName, String)> {
        Box::pin(async move {
            let mut ended = self.ended.lock().await;
            loop {
                let Some((name, number, why)) = ended.recv().await else { return std::future::pending().await };
                // The end of a service that was stopped, or was started again since, is none.
                let is_running = lock(&self.running).get(&name).is_some_and(|running| running.number == number);
                if is_running {
                    drop(lock(&self.running).remove(&name));
                    return (name, why);
                }
            }
        })
    }

    fn pause_address(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::SeqCst);
        if let Some(ServiceControl::Address(control)) =
            lock(&self.running).get(&ServiceName::Address).map(|running| &running.control)
        {
            control.pause(is_paused);
        }
    }

    fn hold_work(&self, hold: Option<WorkHold>) {
        self.parts.hold_work(hold);
    }

    fn os_image(&self) -> Option<OsImageReport> {
        self.parts.os_images.cached().report()
    }

    fn address(&self) -> Option<AddressState> {
        match lock(&self.running).get(&ServiceName::Address).map(|running| &running.control) {
            Some(ServiceControl::Address(control)) => Some(control.state()),
            _ => None,
        }
    }
}
