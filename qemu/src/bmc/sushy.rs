//! A machine's BMC by sushy-tools: OpenStack's Redfish emulator, which drives the machine through libvirt. One emulator per
//! machine, as every machine has a BMC of its own; its quirks are wanted (it never ends an override for one boot, has
//! no sessions, and rewrites the machine's definition).

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::{BmcError, USER, emulator, redfish};
use crate::{libvirt::Libvirt, tools::Tools};

const PORT: u16 = 443;
/// A Python program that loads a web server.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const LOG: &str = "sushy.log";
/// [`super::PASSWORD`], as bcrypt has it (cost 4).
const PASSWORD_BCRYPT: &str = "$2b$04$3YtlHsNlDR6FZTnyWhB96uIKsdY.ZPWzQBwr8aaTXPNBquCIK7YSm";

/// A running emulator; it stops when this is dropped.
#[derive(Debug)]
pub struct Sushy {
    address: SocketAddr,
    uuid: uuid::Uuid,
    _child: Child,
}

impl Sushy {
    /// Starts the BMC of a machine that libvirt knows by this UUID, on `127.0.1.number`. Its files lie in the folder.
    pub async fn start(
        uuid: uuid::Uuid,
        in_folder: &Path,
        tools: &Tools,
        libvirt: &Libvirt,
        number: u8,
    ) -> Result<Self, BmcError> {
        let failed = BmcError::Simulator;
        let program = tools.program("python-bmc-peers")?;
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 1, number), PORT));
        let folder = in_folder.join("sushy");
        fs::create_dir_all(&folder).map_err(failed)?;
        let made = super::self_signed(address)?;
        for (name, content) in [
            ("htpasswd", format!("{USER}:{PASSWORD_BCRYPT}\n")),
            ("cert.pem", made.cert.pem()),
            ("key.pem", made.signing_key.serialize_pem()),
            ("config.py", configuration(address, &libvirt.uri(), tools, &folder)),
        ] {
            fs::write(folder.join(name), content).map_err(failed)?;
        }
        let mut command = Command::new(program);
        command
            .args(["-m", "sushy_tools.emulator.main", "--config"])
            .arg(folder.join("config.py"))
            .current_dir(&folder)
            // What it cannot keep elsewhere it keeps where temporary files go.
            .env("TMPDIR", &folder);
        let listens = || TcpStream::connect(address).is_ok();
        let log = in_folder.join(LOG);
        let child = emulator::start("sushy-emulator", command, &log, START_TIMEOUT, listens).await?;
        Ok(Self { address, uuid, _child: child })
    }

    /// The address as a BareMetalHost names it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redfish+https://{}{}", self.address, redfish::system_path(&self.uuid))
    }
}

/// A Python file, as Flask reads it. The firmware is the lab's: its own default has variables of another size.
fn configuration(address: SocketAddr, libvirt: &str, tools: &Tools, folder: &Path) -> String {
    let (code, variables) = (tools.ovmf_code.display(), tools.ovmf_vars.display());
    let (ip, port, folder) = (address.ip(), address.port(), folder.display());
    format!(
        "SUSHY_EMULATOR_LISTEN_IP = '{ip}'\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n\
         SUSHY_EMULATOR_SSL_CERT = '{folder}/cert.pem'\nSUSHY_EMULATOR_SSL_KEY = '{folder}/key.pem'\n\
         SUSHY_EMULATOR_AUTH_FILE = '{folder}/htpasswd'\nSUSHY_EMULATOR_STATE_DIR = '{folder}'\n\
         SUSHY_EMULATOR_LIBVIRT_URI = '{libvirt}'\n\
         SUSHY_EMULATOR_BOOT_LOADER_MAP = {{'UEFI': {{'x86_64': '{code}'}}, 'Legacy': {{'x86_64': None}}}}\n\
         SUSHY_EMULATOR_SECURE_BOOT_DISABLED_NVRAM = '{variables}'\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_address_libvirt_and_firmware() {
        let tools = Tools {
            cache: "/c".into(),
            qemu: "/q".into(),
            ovmf_code: "/code.fd".into(),
            ovmf_vars: "/vars.fd".into(),
            loaders: "/l".into(),
        };
        let text = configuration(([127, 0, 1, 2], 443).into(), "qemu+unix:///x", &tools, Path::new("/r"));
        for wanted in [
            "LISTEN_IP = '127.0.1.2'\n",
            "LISTEN_PORT = 443\n",
            "LIBVIRT_URI = 'qemu+unix:///x'\n",
            "{'UEFI': {'x86_64': '/code.fd'}, 'Legacy': {'x86_64': None}}\n",
            "DISABLED_NVRAM = '/vars.fd'\n",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }
}
