//! Lets the controller of sensors read hosts by control, which knows their BMCs and logins.

use firesteel_bmc::sensors::SensorLayout;
use firesteel_control::{SensorReadError, SensorReads};
use firesteel_runtime::HostKey;
use firesteel_sensors::{SensorFault, SensorReader, SensorReadingResult};
use futures_util::future::BoxFuture;

/// Reads the sensors of hosts by control.
pub(super) struct HostSensorReader(SensorReads);

impl HostSensorReader {
    pub(super) fn new(reads: SensorReads) -> Self {
        Self(reads)
    }
}

impl SensorReader for HostSensorReader {
    fn read(&self, key: HostKey, mut layout: SensorLayout) -> BoxFuture<'static, SensorReadingResult> {
        let reads = self.0.clone();
        Box::pin(async move {
            let result = reads.read(&key, &mut layout).await.map_err(|error| match error {
                SensorReadError::NotNow => SensorFault::NotNow,
                SensorReadError::NotOffered(why) => SensorFault::NotOffered(why.to_owned()),
                SensorReadError::Failed(why) => SensorFault::Failed(why),
            });
            SensorReadingResult { layout, result }
        })
    }
}
