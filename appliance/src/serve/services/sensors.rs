//! The reading of sensors as a service: its controller reads nothing while the service does not run.

use std::sync::Arc;
use std::time::Duration;

use firesteel_network::SensorPlan;
use firesteel_sensors::SensorSettings;
use tokio::sync::watch;

use super::ServiceTasks;
use crate::serve::service_parts::ServiceParts;

/// Changes the settings of rounds that go on.
#[derive(Clone, Debug)]
pub(super) struct SensorControl(watch::Sender<SensorSettings>);

impl SensorControl {
    pub(super) fn adjust(&self, plan: SensorPlan) {
        self.0.send_replace(settings(plan));
    }
}

/// Starts to read in rounds.
pub(super) fn start(tasks: &mut ServiceTasks, parts: &Arc<ServiceParts>, plan: SensorPlan) -> SensorControl {
    let (control, changes) = watch::channel(settings(plan));
    let sensors = parts.controllers.sensors.clone();
    tasks.spawn(async move { sensors.read_rounds(changes).await.map_err(anyhow::Error::from) });
    SensorControl(control)
}

fn settings(plan: SensorPlan) -> SensorSettings {
    SensorSettings { every: Duration::from_secs(plan.every_s.into()), with_alerts: plan.with_alerts }
}
