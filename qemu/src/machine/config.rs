//! What a virtual machine is made of, and the QEMU command line that makes it. Pure: no process, no
//! file is touched here.

use std::{ffi::OsString, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::link::{LAB_SOCKET, MACHINE_SOCKET};
use crate::tools::Tools;

/// QMP: QEMU connects to this socket in the machine's folder, so there is no moment to wait for.
pub const QMP_SOCKET: &str = "qmp.sock";
/// The serial port, for `lab console`.
pub const CONSOLE_SOCKET: &str = "console.sock";
/// Everything the machine ever wrote to its serial port.
pub const SERIAL_LOG: &str = "serial.log";
/// The UEFI variables of this machine.
pub const VARIABLES: &str = "uefi-vars.fd";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MachineFirmware {
    Bios,
    Uefi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DiskBus {
    Virtio,
    Nvme,
    Sata,
    Scsi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    Tcg,
    Kvm,
}

/// The order that a BIOS keeps; UEFI keeps its own in its variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootOrder {
    NetworkFirst,
    DiskFirst,
}

/// How UEFI firmware boots from the network. BIOS knows PXE only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NetBoot {
    #[default]
    Pxe,
    /// UEFI HTTP Boot (UEFI 2.10 section 24.7), with PXE switched off in the firmware.
    Http,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskConfig {
    pub bus: DiskBus,
    pub path: PathBuf,
    /// The serial number of at most 20 characters: virtio and ATA have no room for more.
    pub serial: String,
    pub wwn: u64,
    /// The socket in the machine's folder at which NBD serves it; without one QEMU opens the file itself.
    pub socket: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSettings {
    pub name: String,
    pub uuid: uuid::Uuid,
    pub mac: String,
    pub tap: String,
    /// The wire to the tap is carried by the lab, through sockets in the machine's folder.
    pub linked: bool,
    /// Hardware addresses of the NICs behind the first one; each is on a port of the machine's switch, and so is the
    /// first one where this is there.
    #[serde(default)]
    pub switched: Option<Vec<String>>,
    pub firmware: MachineFirmware,
    pub memory_mib: u32,
    pub accel: Accel,
    pub boot_order: BootOrder,
    pub net_boot: NetBoot,
    /// The disks in the order in which the firmware sees them.
    pub disks: Vec<DiskConfig>,
    /// The image in its virtual drive for CDs; no drive without one.
    pub media: Option<PathBuf>,
    /// Logs, sockets and variables.
    pub folder: PathBuf,
}

/// What the BMC asks of one boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootTarget {
    /// The machine's own order.
    #[default]
    None,
    Pxe,
    Hdd,
    UefiHttp,
    /// The BMC's virtual media.
    Cd,
}

impl fmt::Display for MachineFirmware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bios => "bios",
            Self::Uefi => "uefi",
        })
    }
}

impl fmt::Display for DiskBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtio => "virtio",
            Self::Nvme => "nvme",
            Self::Sata => "sata",
            Self::Scsi => "scsi",
        })
    }
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        })
    }
}

/// Devices in boot order for one boot, by id; empty where the firmware's own order counts.
#[must_use]
pub(super) fn boot_devices(config: &MachineSettings, target: BootTarget) -> Vec<String> {
    let network = || vec![NIC.to_owned()];
    let disks = || (0..config.disks.len()).map(disk_id).collect::<Vec<_>>();
    let media = || config.media.iter().map(|_| CD.to_owned()).collect::<Vec<_>>();
    let network_first = || [network(), disks(), media()].concat();
    let disk_first = || [disks(), network(), media()].concat();
    match (config.firmware, target) {
        // OVMF keeps in its variables only the entries of devices that have an index, so the disks
        // are named as well: their entries survive the one boot by network.
        (_, BootTarget::Pxe | BootTarget::UefiHttp) => network_first(),
        (_, BootTarget::Hdd) => disk_first(),
        (_, BootTarget::Cd) => [media(), network(), disks()].concat(),
        (MachineFirmware::Uefi, BootTarget::None) => Vec::new(),
        (MachineFirmware::Bios, BootTarget::None) => match config.boot_order {
            BootOrder::NetworkFirst => network_first(),
            BootOrder::DiskFirst => disk_first(),
        },
    }
}

/// Every device that can have a boot index.
#[must_use]
pub(super) fn bootable_devices(config: &MachineSettings) -> Vec<String> {
    let media = config.media.iter().map(|_| CD.to_owned());
    std::iter::once(NIC.to_owned()).chain((0..config.disks.len()).map(disk_id)).chain(media).collect()
}

/// The NIC with a speed and a duplex, as real cards have them: LACP leaves out a port without.
pub const NIC_MODEL: &str = "virtio-net-pci,speed=10000,duplex=full";
const NIC: &str = "nic0";
const CD: &str = "cd0";

fn disk_id(index: usize) -> String {
    format!("disk{index}")
}

/// The arguments of `qemu-system-x86_64`, to be run in the machine's folder. The machine starts
/// stopped, with the boot order of `target` already in its firmware configuration.
#[must_use]
pub fn arguments(config: &MachineSettings, tools: &Tools, target: BootTarget) -> Vec<OsString> {
    let order = boot_devices(config, target);
    let index = |device: &str| match order.iter().position(|name| name == device) {
        Some(position) => format!(",bootindex={position}"),
        None => String::new(),
    };
    let mut line = CommandLine::default();
    line.pair("-name", &config.name);
    // Without graphics SeaBIOS and the boot loaders speak on the serial port.
    line.pair("-machine", "q35,graphics=off");
    match config.accel {
        Accel::Tcg => line.pair("-accel", "tcg,thread=multi").pair("-cpu", "max"),
        Accel::Kvm => line.pair("-accel", "kvm").pair("-cpu", "host"),
    };
    line.pair("-smp", "1").pair("-m", config.memory_mib.to_string());
    line.pair("-uuid", config.uuid.to_string());
    line.pair("-smbios", format!("type=1,manufacturer=Firesteel,product=Lab,serial=LAB-{}", config.name));
    line.flag("-nodefaults").flag("-S").pair("-display", "none").pair("-rtc", "base=utc");
    line.pair("-chardev", format!("socket,id=qmp,path={QMP_SOCKET},server=off"));
    line.pair("-mon", "chardev=qmp,mode=control");
    line.pair(
        "-chardev",
        format!("socket,id=console,path={CONSOLE_SOCKET},server=on,wait=off,logfile={SERIAL_LOG},logappend=on"),
    );
    line.pair("-serial", "chardev:console");
    // OVMF does no network without a source of random numbers; the agent is glad of it too.
    line.pair("-device", "virtio-rng-pci");
    firmware(&mut line, config, tools, target);
    let rom = match config.firmware {
        MachineFirmware::Bios => "",
        // The firmware's own PXE and HTTP clients, as on real hardware, not QEMU's iPXE ROM.
        MachineFirmware::Uefi => ",romfile=",
    };
    let netdev = if config.switched.is_some() {
        switch_port(0, "machine", "switch")
    } else if config.linked {
        format!("dgram,id=net0,local.type=unix,local.path={MACHINE_SOCKET},remote.type=unix,remote.path={LAB_SOCKET}")
    } else {
        format!("tap,id=net0,ifname={},script=no,downscript=no", config.tap)
    };
    line.pair("-netdev", netdev);
    line.pair("-device", format!("{NIC_MODEL},id={NIC},netdev=net0,mac={}{rom}{}", config.mac, index(NIC)));
    for (number, mac) in (1..).zip(config.switched.iter().flatten()) {
        line.pair("-netdev", switch_port(number, "machine", "switch"));
        // The firmware boots from the first one only.
        line.pair("-device", format!("{NIC_MODEL},id=nic{number},netdev=net{number},mac={mac},romfile="));
    }
    disks(&mut line, config, &index);
    if let Some(media) = &config.media {
        let mut drive = OsString::from("if=none,id=media,format=raw,media=cdrom,readonly=on,file=");
        drive.push(media);
        line.pair("-drive", drive);
        // The last of six ports: disks begin at the first.
        line.pair("-device", format!("ide-cd,bus=ide.5,id={CD},drive=media{}", index(CD)));
    }
    line.0
}

/// The cable of one port, seen from one of its ends. Both processes run in the machine's folder.
#[must_use]
pub fn switch_port(number: usize, own: &str, other: &str) -> String {
    format!(
        "dgram,id=net{number},local.type=unix,local.path=port{number}-{own}.sock,remote.type=unix,\
         remote.path=port{number}-{other}.sock"
    )
}

fn firmware(line: &mut CommandLine, config: &MachineSettings, tools: &Tools, target: BootTarget) {
    if config.firmware == MachineFirmware::Bios {
        return;
    }
    let mut code = OsString::from("if=pflash,unit=0,format=raw,readonly=on,file=");
    code.push(&tools.ovmf_code);
    line.pair("-drive", code);
    line.pair("-drive", format!("if=pflash,unit=1,format=raw,file={VARIABLES}"));
    // IPv6 gets no answer here, and OVMF tries it for 100 s.
    line.pair("-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n");
    if target == BootTarget::UefiHttp || config.net_boot == NetBoot::Http {
        line.pair("-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n");
    }
}

fn disks(line: &mut CommandLine, config: &MachineSettings, index: &dyn Fn(&str) -> String) {
    if config.disks.iter().any(|disk| disk.bus == DiskBus::Scsi) {
        line.pair("-device", "virtio-scsi-pci,id=scsi0");
    }
    let mut ports = 0..;
    for (number, disk) in config.disks.iter().enumerate() {
        let (id, serial, wwn) = (disk_id(number), &disk.serial, disk.wwn);
        match &disk.socket {
            None => {
                let mut drive =
                    OsString::from(format!("if=none,id=drive{number},format=raw,discard=unmap,cache=unsafe,file="));
                drive.push(&disk.path);
                line.pair("-drive", drive);
            }
            // QEMU keeps nothing of such a disk: the cache is the server's, and a flush reaches it.
            Some(socket) => {
                let mut device = OsString::from(format!(
                    "driver=nbd,node-name=drive{number},discard=unmap,cache.direct=on,cache.no-flush=off,\
                     server.type=unix,server.path="
                ));
                device.push(socket);
                line.pair("-blockdev", device);
            }
        }
        let bus = match disk.bus {
            DiskBus::Virtio => format!("virtio-blk-pci,serial={serial}"),
            DiskBus::Nvme => format!("nvme,serial={serial}"),
            DiskBus::Sata => {
                format!("ide-hd,bus=ide.{},serial={serial},wwn={wwn:#x}", ports.next().unwrap_or(0))
            }
            DiskBus::Scsi => format!(
                "scsi-hd,bus=scsi0.0,scsi-id={},serial={serial},device_id={serial},wwn={wwn:#x}",
                ports.next().unwrap_or(0)
            ),
        };
        line.pair("-device", format!("{bus},id={id},drive=drive{number}{}", index(&id)));
    }
}

#[derive(Default)]
struct CommandLine(Vec<OsString>);

impl CommandLine {
    fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.into());
        self
    }

    fn pair(&mut self, flag: &str, value: impl Into<OsString>) -> &mut Self {
        self.0.extend([flag.into(), value.into()]);
        self
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn tools() -> Tools {
        Tools {
            cache: "/c".into(),
            qemu: "/q".into(),
            ovmf_code: "/code.fd".into(),
            ovmf_vars: "/vars.fd".into(),
            loaders: "/l".into(),
        }
    }

    fn machine(firmware: MachineFirmware, buses: &[DiskBus]) -> MachineSettings {
        let disks = buses.iter().enumerate().map(|(index, bus)| DiskConfig {
            bus: *bus,
            path: format!("/d{index}.raw").into(),
            serial: format!("S{index}"),
            wwn: 0x5000_c500_0000_0001,
            socket: None,
        });
        MachineSettings {
            name: "host-1".to_owned(),
            uuid: uuid::Uuid::nil(),
            mac: "52:54:00:77:01:01".to_owned(),
            tap: "tap1".to_owned(),
            linked: false,
            switched: None,
            firmware,
            memory_mib: 512,
            accel: Accel::Tcg,
            boot_order: BootOrder::NetworkFirst,
            net_boot: NetBoot::Pxe,
            disks: disks.collect(),
            media: None,
            folder: "/m".into(),
        }
    }

    fn line(config: &MachineSettings, target: BootTarget) -> String {
        let words: Vec<_> = arguments(config, &tools(), target).into_iter().map(|w| w.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn a_switched_machine_has_all_its_nics_on_ports_and_boots_from_the_first() {
        let mut config = machine(MachineFirmware::Bios, &[DiskBus::Virtio]);
        config.switched = Some(vec!["52:54:00:77:02:01".to_owned()]);
        let line = line(&config, BootTarget::Pxe);
        for port in ["id=net0,local.type=unix,local.path=port0-machine.sock,", "remote.path=port1-switch.sock "] {
            assert!(line.contains(port), "{line}");
        }
        assert!(line.contains("id=nic1,netdev=net1,mac=52:54:00:77:02:01,romfile="));
        assert!(!line.contains("tap,") && line.contains("netdev=net0,mac=52:54:00:77:01:01,bootindex=0"), "{line}");
    }

    #[test]
    fn uefi_keeps_its_own_order_unless_one_boot_is_asked_for() {
        let config = machine(MachineFirmware::Uefi, &[DiskBus::Nvme]);
        assert!(!line(&config, BootTarget::None).contains("bootindex"));
        let once = line(&config, BootTarget::Pxe);
        assert!(once.contains("id=nic0,netdev=net0,mac=52:54:00:77:01:01,romfile=,bootindex=0"));
        assert!(once.contains("nvme,serial=S0,id=disk0,drive=drive0,bootindex=1"));
        assert!(!once.contains("IPv4PXESupport"));
        assert!(line(&config, BootTarget::UefiHttp).contains("IPv4PXESupport,string=n"));
        let http_only = MachineSettings { net_boot: NetBoot::Http, ..config };
        assert!(line(&http_only, BootTarget::Pxe).contains("IPv4PXESupport,string=n"));
    }

    #[test]
    fn bios_follows_the_configured_order_and_overrides() {
        let mut config = machine(MachineFirmware::Bios, &[DiskBus::Virtio, DiskBus::Sata]);
        assert_eq!(boot_devices(&config, BootTarget::None), ["nic0", "disk0", "disk1"]);
        config.boot_order = BootOrder::DiskFirst;
        assert_eq!(boot_devices(&config, BootTarget::None), ["disk0", "disk1", "nic0"]);
        assert_eq!(boot_devices(&config, BootTarget::Pxe), ["nic0", "disk0", "disk1"]);
        assert_eq!(boot_devices(&config, BootTarget::Hdd), ["disk0", "disk1", "nic0"]);
        assert!(!line(&config, BootTarget::None).contains("pflash"));
    }

    #[test]
    fn virtual_media_is_a_drive_while_there_is_an_image_and_boots_when_asked() {
        let mut config = machine(MachineFirmware::Bios, &[DiskBus::Sata]);
        assert!(!line(&config, BootTarget::Cd).contains("ide-cd"));
        config.media = Some("/m/media.iso".into());
        assert_eq!(boot_devices(&config, BootTarget::Cd), ["cd0", "nic0", "disk0"]);
        assert_eq!(boot_devices(&config, BootTarget::None), ["nic0", "disk0", "cd0"]);
        let line = line(&config, BootTarget::Cd);
        assert!(line.contains("readonly=on,file=/m/media.iso"), "{line}");
        assert!(line.contains("ide-cd,bus=ide.5,id=cd0,drive=media,bootindex=0"), "{line}");
    }

    #[test]
    fn every_bus_carries_the_serial_number_and_scsi_gets_its_controller() {
        let config = machine(MachineFirmware::Bios, &[DiskBus::Virtio, DiskBus::Nvme, DiskBus::Sata, DiskBus::Scsi]);
        let line = line(&config, BootTarget::None);
        for (device, serial) in [("virtio-blk-pci", "S0"), ("nvme", "S1"), ("ide-hd", "S2"), ("scsi-hd", "S3")] {
            let arguments = line.split(' ').find(|word| word.starts_with(&format!("{device},"))).unwrap();
            assert!(arguments.contains(&format!("serial={serial}")), "{arguments}");
        }
        assert!(line.contains("virtio-scsi-pci,id=scsi0"));
        assert_eq!(line.matches("wwn=0x5000c50000000001").count(), 2);
    }

    #[test]
    fn a_served_disk_is_no_file_to_qemu_and_its_flushes_count() {
        let mut config = machine(MachineFirmware::Bios, &[DiskBus::Virtio, DiskBus::Sata]);
        config.disks[0].socket = Some("disk0.sock".into());
        let line = line(&config, BootTarget::None);
        assert!(
            line.contains("-blockdev driver=nbd,node-name=drive0,discard=unmap,cache.direct=on,cache.no-flush=off")
        );
        assert!(line.contains("server.path=disk0.sock") && !line.contains("/d0.raw"), "{line}");
        assert!(line.contains("virtio-blk-pci,serial=S0,id=disk0,drive=drive0"));
        assert!(line.contains("cache=unsafe,file=/d1.raw"));
    }
}
