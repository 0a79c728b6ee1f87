//! A machine's BMC by IPMI: OpenIPMI's `ipmi_sim` speaks RMCP+, the lab is the chassis behind it.
//!
//! ```text
//!  appliance ── RMCP+, UDP 623 ──► ipmi_sim ── `lab chassis SOCKET get power` ──► chassis ──► Machine
//! ```
//!
//! It has cipher suite 3 alone, and takes boot flags without ever marking them valid.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::task::AbortHandle;

use super::chassis::{self, CHASSIS_SOCKET};
use super::{BmcError, PASSWORD, USER, emulator};
use crate::{machine::Machine, tools::Tools};

/// RMCP's (section 13.1.2).
const PORT: u16 = 623;
/// It reads two small files; a loaded computer may take seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const LOG: &str = "ipmi.log";
const STATE: &str = "ipmi-state";

/// A running `ipmi_sim`; it stops when this is dropped.
#[derive(Debug)]
pub struct Simulator {
    address: SocketAddr,
    _child: Child,
    chassis: AbortHandle,
}

impl Simulator {
    /// Starts the BMC of a machine on `127.0.1.number`.
    pub async fn start(machine: Machine, tools: &Tools, number: u8) -> Result<Self, BmcError> {
        let failed = BmcError::Simulator;
        let program = tools.program("ipmi_sim")?;
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 1, number), PORT));
        let config = machine.config();
        let folder = &config.folder;
        let chassis = chassis::listen(&folder.join(CHASSIS_SOCKET), machine).map_err(failed)?;
        fs::create_dir_all(folder.join(STATE)).map_err(failed)?;
        fs::write(folder.join("ipmi-lan.conf"), lan(address, &config.uuid, std::process::id())).map_err(failed)?;
        fs::write(folder.join("ipmi-commands"), COMMANDS).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["-n", "-c", "ipmi-lan.conf", "-f", "ipmi-commands", "-s", STATE]).current_dir(folder);
        let has_port = || UdpSocket::bind(address).is_err();
        let child = emulator::start("ipmi_sim", command, &folder.join(LOG), START_TIMEOUT, has_port).await;
        // Without it nothing asks the chassis.
        let child = child.inspect_err(|_| chassis.abort())?;
        Ok(Self { address, _child: child, chassis })
    }

    /// The address as a BareMetalHost names it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("ipmi://{}", self.address)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.chassis.abort();
    }
}

/// One management controller, which has chassis, sensors and inventory.
const COMMANDS: &str = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n";

/// `ipmi_lan(5)`. `lab` is the process whose program answers for the chassis.
fn lan(address: SocketAddr, uuid: &uuid::Uuid, lab: u32) -> String {
    // As SMBIOS has it, which is how BMCs tell it.
    let guid = hex::encode(uuid.to_bytes_le());
    format!(
        "name \"lab\"\nset_working_mc 0x20\n  startlan 1\n    addr {} {}\n    priv_limit admin\n    \
         allowed_auths_admin md5\n    guid {guid}\n  endlan\n  \
         chassis_control \"/proc/{lab}/exe chassis {CHASSIS_SOCKET}\"\n  \
         user 2 true \"{USER}\" \"{PASSWORD}\" admin 10 md5\n",
        address.ip(),
        address.port()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_address_identity_and_chassis() {
        let text = lan(([127, 0, 1, 7], 623).into(), &uuid::Uuid::from_u128(0x0102_0304 << 96), 42);
        assert!(text.contains("addr 127.0.1.7 623\n"), "{text}");
        assert!(text.contains("guid 04030201000000000000000000000000\n"), "{text}");
        assert!(text.contains("chassis_control \"/proc/42/exe chassis chassis.sock\"\n"), "{text}");
    }
}
