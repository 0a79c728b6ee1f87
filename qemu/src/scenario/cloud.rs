//! cloud-init reads what was handed over: a NoCloud volume on one machine, a config drive on another. What it made of
//! the system, the system itself says on its console.

use std::time::Duration;

use anyhow::ensure;
use firesteel_lab_image::OsImageSystem;

use super::{console, first_boot::fixed_address};
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig};
use crate::machine::{DiskBus, MachineFirmware};
use crate::manifests::UserData;
use crate::progress::print_status;

const USER: &str = "anna";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7w0s8nDlhGJ9DqzF1mYcVt0o1yTgC9x0nU5xkq3Kfe anna@lab";
/// The last line of what the system says of itself.
const ENDED: &str = "firesteel: cloud-init ended";
/// The console is read once more after it.
const SETTLE: Duration = Duration::from_secs(1);

struct CloudInitCase {
    name: &'static str,
    system: OsImageSystem,
    firmware: MachineFirmware,
    bus: DiskBus,
    address: &'static str,
    /// The name that cloud-init gives its source.
    source: &'static str,
    form: &'static str,
}

const CASES: [CloudInitCase; 2] = [
    CloudInitCase {
        name: "nocloud-1",
        system: OsImageSystem::CloudInit,
        firmware: MachineFirmware::Bios,
        bus: DiskBus::Virtio,
        address: "10.77.0.211",
        source: "DataSourceNoCloud",
        form: "no_cloud",
    },
    CloudInitCase {
        name: "drive-1",
        system: OsImageSystem::ConfigDrive,
        firmware: MachineFirmware::Uefi,
        bus: DiskBus::Sata,
        address: "10.77.0.212",
        source: "DataSourceConfigDrive",
        form: "config_drive",
    },
];

/// The systems whose images are needed.
pub(super) fn systems() -> impl Iterator<Item = OsImageSystem> {
    CASES.iter().map(|case| case.system)
}

pub(super) async fn cloud_init(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    for case in &CASES {
        let image = lab.publish(config.artefacts.image_of_system(case.system)?)?;
        lab.add_machine(HostPlan::new(case.name, case.firmware, case.bus)).await?;
        let mac = lab.machine(case.name)?.config().mac;
        let wish = DesiredHost {
            image: Some(image),
            user_data: UserData::Text(user_data()),
            os_network_data: Some(fixed_address(&mac, case.address)),
            os_meta_data: Some(format!("local-hostname: {}\n", hostname(case))),
            ..DesiredHost::default()
        };
        lab.apply_host(case.name, &wish).await?;
    }
    for case in &CASES {
        read(lab, case).await?;
        print_status(&format!(
            "{}: {} set the hostname, the user with its key, and the address",
            case.name, case.source
        ));
    }
    Ok(())
}

/// Another than the host's, so that it can only come from the metadata.
fn hostname(case: &CloudInitCase) -> String {
    format!("{}-os", case.name)
}

fn user_data() -> String {
    format!("#cloud-config\nusers:\n- name: {USER}\n  ssh_authorized_keys:\n  - {KEY}\n")
}

async fn read(lab: &Lab, case: &CloudInitCase) -> anyhow::Result<()> {
    let name = case.name;
    let view = lab.wait_for(name, "its installation", |view| view.state() == "provisioned").await?;
    let handed = view.receipts().iter().find(|receipt| receipt["evidence"]["kind"] == "files_handed_off");
    let form = handed.map(|receipt| receipt["evidence"]["form"].clone()).unwrap_or_default();
    ensure!(form == case.form, "{name}: the hand-off was {form}, not {}", case.form);
    let serial = lab.serial(name)?;
    console(lab, name, ENDED, 0).await?;
    tokio::time::sleep(SETTLE).await;
    let missing = missing(&serial.text()?, case);
    ensure!(missing.is_empty(), "{name}: the system does not say {}; it says\n{}", missing.join(", "), serial.tail(25));
    Ok(())
}

/// What the system should have said, and has not.
fn missing(console: &str, case: &CloudInitCase) -> Vec<String> {
    let wanted = [
        format!("cloud-init read {}", case.source),
        format!("cloud-init hostname {}", hostname(case)),
        format!("cloud-init user {USER} has key {KEY}"),
        format!("cloud-init address {}/24", case.address),
    ];
    wanted.into_iter().filter(|line| !console.contains(line.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_things_are_looked_for() {
        let case = &CASES[0];
        let said = format!(
            "[   30.1] firesteel: cloud-init read DataSourceNoCloud [seed=/dev/vda5][dsmode=net]\r\n\
             [   30.1] firesteel: cloud-init hostname nocloud-1-os\r\nfiresteel: cloud-init user anna has key {KEY}\r\n\
             firesteel: cloud-init address 10.77.0.211/24 on ens3\r\nfiresteel: cloud-init ended\r\n"
        );
        assert_eq!(missing(&said, case), [""; 0]);
        assert_eq!(missing(&said.replace("211", "50"), case), ["cloud-init address 10.77.0.211/24"]);
        assert_eq!(missing("", case).len(), 4);
    }
}
