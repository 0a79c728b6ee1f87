//! `HardwareData`: what an inspection found, and what an owner says.

use firesteel_kube::{ObjectPart, Objects, Status};
use firesteel_resources::hardware::HardwareRecord;
use firesteel_resources::host_journal::HostJournalStatus;
use firesteel_resources::{HardwareData, HardwareDetails, hardware_data};
use firesteel_runtime::HostKey;

/// Shows the hardware of hosts.
#[derive(Clone, Debug)]
pub(crate) struct HardwareStore {
    pub(crate) hardware: Objects<HardwareData>,
}

impl HardwareStore {
    /// What an owner says yields to what is stored already (upstream).
    pub(crate) async fn supply_hardware(&self, key: &HostKey, details: &HardwareDetails) -> Result<(), Status> {
        let stored = self.hardware.get(&key.namespace, &key.name).await?;
        if stored.is_some_and(|stored| stored.spec.hardware.is_some()) {
            return Ok(());
        }
        self.store_hardware(key, details, &[]).await
    }

    pub(crate) async fn save_hardware(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<(), Status> {
        let Some(record) = &journal.hardware else { return Ok(()) };
        let mut notes = vec![(hardware_data::INSPECTION, mark_of(record))];
        notes.extend(record.shown_contents().map(|contents| (hardware_data::DISK_CONTENTS, contents)));
        self.store_hardware(key, &record.details(), &notes).await
    }

    /// Shows what the BMC said of its machine, marked as such. What an agent found is better, and stays.
    pub(crate) async fn save_bmc_hardware(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<(), Status> {
        let Some(record) = journal.bmc.as_ref().filter(|_| journal.hardware.is_none()) else { return Ok(()) };
        self.store_hardware(key, &record.details(), &[(hardware_data::BMC_INVENTORY, record.at.to_string())]).await
    }

    /// Whether the host's `HardwareData` shows what the BMC said last, or what an agent found.
    pub(crate) async fn shows_bmc_record(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<bool, Status> {
        if journal.hardware.is_some() {
            return Ok(true);
        }
        let Some(record) = &journal.bmc else { return Ok(false) };
        let shown = self.hardware.get(&key.namespace, &key.name).await?;
        let mark = shown.as_ref().and_then(|shown| shown.metadata.annotation(hardware_data::BMC_INVENTORY));
        Ok(mark == Some(record.at.to_string().as_str()))
    }

    /// Whether the host's `HardwareData` is of the newest inspection. It says so by itself: what is stored may be
    /// less than what was found.
    pub(crate) async fn shows_hardware(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<bool, Status> {
        let Some(record) = &journal.hardware else { return Ok(false) };
        let shown = self.hardware.get(&key.namespace, &key.name).await?;
        let mark = shown.as_ref().and_then(|shown| shown.metadata.annotation(hardware_data::INSPECTION));
        Ok(mark == Some(mark_of(record).as_str()))
    }

    /// Puts what switches said into the `HardwareData` that shows the rest of the record already. One of
    /// another inspection, or of the owner, stays as it is.
    pub(crate) async fn show_neighbours(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<(), Status> {
        let Some(record) = &journal.hardware else { return Ok(()) };
        let details = record.details();
        let shows_rest =
            |shown: &HardwareDetails| *shown != details && shown.without_neighbours() == details.without_neighbours();
        let shown = self.hardware.get(&key.namespace, &key.name).await?.and_then(|data| data.spec.hardware);
        if !shown.is_some_and(|shown| shows_rest(&shown)) {
            return Ok(());
        }
        let change = |data: &mut HardwareData| {
            if data.spec.hardware.as_ref().is_some_and(shows_rest) {
                data.spec.hardware = Some(details.clone());
            }
        };
        self.hardware.modify(&key.namespace, &key.name, ObjectPart::Main, change).await.map(|_| ())
    }

    /// Stores a host's hardware. `notes`: what the inspection says beside upstream's fields; a description by the owner
    /// has none.
    pub(crate) async fn store_hardware(
        &self,
        key: &HostKey,
        details: &HardwareDetails,
        notes: &[(&str, String)],
    ) -> Result<(), Status> {
        let fill = |data: &mut HardwareData| {
            data.spec.hardware = Some(details.clone());
            data.metadata.annotations.remove(hardware_data::INSPECTION);
            data.metadata.annotations.remove(hardware_data::DISK_CONTENTS);
            data.metadata.annotations.remove(hardware_data::BMC_INVENTORY);
            data.metadata.annotations.extend(notes.iter().map(|(key, text)| ((*key).to_owned(), text.clone())));
        };
        let changed = self.hardware.modify(&key.namespace, &key.name, ObjectPart::Main, &fill).await?;
        if changed.is_none() {
            let mut data = HardwareData::default();
            data.metadata.namespace.clone_from(&key.namespace);
            data.metadata.name.clone_from(&key.name);
            fill(&mut data);
            match self.hardware.create(&data).await {
                // Its namespace is going, and the host with it, which has to be taken down all the same.
                Err(status) if status.code == 403 => {
                    tracing::info!(host = %key, error = %status.message, "hardware data is not kept");
                }
                Err(status) if !status.is_already_exists() => return Err(status),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Names an inspection among all of the hosts that ever had this name.
fn mark_of(record: &HardwareRecord) -> String {
    format!("{}/{} {}", record.attempt, record.plan, record.inspected_at)
}
