//! A machine as libvirt's XML has it, "defined by hand" for those who drive machines through libvirt. Pure.
//!
//! Source: formatdomain of libvirt 9. QEMU connects to the lab's own control socket as well, which is how the lab sees the
//! machine come and go; NVMe disks libvirt does not know, they go past it.

use std::path::Path;

use crate::machine::{
    Accel, CONSOLE_SOCKET, DiskBus, DiskConfig, MachineFirmware, MachineSettings, QMP_SOCKET, SERIAL_LOG, VARIABLES,
};
use crate::tools::Tools;

/// A place behind every device that libvirt gives a boot order, which begins at 1.
const LAST_IN_ORDER: usize = 90;
/// The first slot on the root bus that libvirt leaves free: it fills the first ones and the last.
const FIRST_SLOT: usize = 0x10;

/// The XML of a machine that boots from the network first.
#[must_use]
pub fn domain(config: &MachineSettings, tools: &Tools) -> String {
    let (kind, processor) = match config.accel {
        Accel::Tcg => ("qemu", "maximum"),
        Accel::Kvm => ("kvm", "host-passthrough"),
    };
    let at = |name: &str| text(&config.folder.join(name).to_string_lossy());
    let path = |path: &Path| text(&path.to_string_lossy());
    let (loader, rom) = match config.firmware {
        MachineFirmware::Bios => (String::new(), ""),
        // The firmware's own PXE and HTTP clients, as on real hardware, not QEMU's iPXE ROM.
        MachineFirmware::Uefi => (
            format!(
                "<loader readonly='yes' type='pflash'>{}</loader><nvram template='{}'>{}</nvram>",
                path(&tools.ovmf_code),
                path(&tools.ovmf_vars),
                at(VARIABLES)
            ),
            "<rom enabled='no'/>",
        ),
    };
    let (disks, arguments) = disks(&config.disks);
    let qmp = format!("socket,id=lab,path={},server=off", at(QMP_SOCKET));
    let mut all = vec!["-chardev".to_owned(), qmp, "-mon".to_owned(), "chardev=lab,mode=control".to_owned()];
    if config.firmware == MachineFirmware::Uefi {
        // IPv6 gets no answer here, and OVMF tries it for 100 s.
        all.extend(["-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n"].map(str::to_owned));
    }
    all.extend(arguments);
    let arguments: String = all.iter().map(|argument| format!("<qemu:arg value='{argument}'/>")).collect();
    format!(
        "<domain type='{kind}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\
         <name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>{memory}</memory><vcpu>1</vcpu>\
         <cpu mode='{processor}'/><features><acpi/></features>\
         <os><type arch='x86_64' machine='q35'>hvm</type>{loader}<smbios mode='sysinfo'/></os>\
         <sysinfo type='smbios'><system><entry name='manufacturer'>Firesteel</entry>\
         <entry name='product'>Lab</entry><entry name='serial'>LAB-{name}</entry></system></sysinfo>\
         <devices><emulator>{emulator}</emulator>{disks}\
         <interface type='ethernet'><mac address='{mac}'/><target dev='{tap}' managed='no'/><model type='virtio'/>\
         {rom}<boot order='1'/></interface>\
         <serial type='unix'><source mode='bind' path='{console}'/><log file='{log}' append='on'/></serial>\
         <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng><memballoon model='none'/></devices>\
         <qemu:commandline>{arguments}</qemu:commandline></domain>\n",
        name = text(&config.name),
        uuid = config.uuid,
        memory = config.memory_mib,
        emulator = path(&tools.qemu),
        mac = config.mac,
        tap = config.tap,
        console = at(CONSOLE_SOCKET),
        log = at(SERIAL_LOG),
    )
}

/// Those that libvirt knows, as XML, and QEMU's arguments for the others.
fn disks(disks: &[DiskConfig]) -> (String, Vec<String>) {
    let (mut known, mut others) = (String::new(), Vec::new());
    for (index, disk) in disks.iter().enumerate() {
        let (file, serial) = (text(&disk.path.to_string_lossy()), &disk.serial);
        let letter = char::from(b'a' + u8::try_from(index % 26).unwrap_or(0));
        let (prefix, bus) = match disk.bus {
            DiskBus::Virtio => ("vd", "virtio"),
            DiskBus::Sata => ("sd", "sata"),
            DiskBus::Scsi => ("sd", "scsi"),
            DiskBus::Nvme => {
                let drive = format!("if=none,id=nvme{index},format=raw,discard=unmap,cache=unsafe,file={file}");
                let order = LAST_IN_ORDER + index;
                // A slot that libvirt does not give away.
                let slot = FIRST_SLOT + index;
                let device =
                    format!("nvme,bus=pcie.0,addr={slot:#x},serial={serial},drive=nvme{index},bootindex={order}");
                others.extend(["-drive".to_owned(), drive, "-device".to_owned(), device]);
                continue;
            }
        };
        // Of libvirt's buses SCSI alone carries a WWN.
        let wwn = if disk.bus == DiskBus::Scsi { format!("<wwn>{:016x}</wwn>", disk.wwn) } else { String::new() };
        known.push_str(&format!(
            "<disk type='file' device='disk'><driver name='qemu' type='raw' cache='unsafe' discard='unmap'/>\
             <source file='{file}'/><target dev='{prefix}{letter}' bus='{bus}'/><serial>{serial}</serial>{wwn}\
             <boot order='{}'/></disk>",
            index + 2
        ));
    }
    if disks.iter().any(|disk| disk.bus == DiskBus::Scsi) {
        known.push_str("<controller type='scsi' model='virtio-scsi'/>");
    }
    (known, others)
}

/// Text in an element or an attribute.
fn text(plain: &str) -> String {
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{BootOrder, NetBoot};

    fn machine(firmware: MachineFirmware, bus: DiskBus) -> MachineSettings {
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
            disks: vec![DiskConfig {
                bus,
                path: "/r/it's/d0.raw".into(),
                serial: "S0".to_owned(),
                wwn: 0x5000_c500_0000_0001,
                socket: None,
            }],
            media: None,
            folder: "/r/it's".into(),
        }
    }

    fn tools() -> Tools {
        Tools {
            cache: "/c".into(),
            qemu: "/q".into(),
            ovmf_code: "/code.fd".into(),
            ovmf_vars: "/vars.fd".into(),
            loaders: "/l".into(),
        }
    }

    #[test]
    fn the_network_comes_first_and_disks_are_known_by_serial() {
        let xml = domain(&machine(MachineFirmware::Uefi, DiskBus::Sata), &tools());
        for wanted in [
            "<source file='/r/it&apos;s/d0.raw'/><target dev='sda' bus='sata'/><serial>S0</serial><boot order='2'/>",
            "<target dev='tap1' managed='no'/><model type='virtio'/><rom enabled='no'/><boot order='1'/>",
            "<nvram template='/vars.fd'>/r/it&apos;s/uefi-vars.fd</nvram>",
            "path=/r/it&apos;s/qmp.sock,server=off",
        ] {
            assert!(xml.contains(wanted), "{wanted} in {xml}");
        }
        let scsi = domain(&machine(MachineFirmware::Bios, DiskBus::Scsi), &tools());
        assert!(scsi.contains("<wwn>5000c50000000001</wwn>") && scsi.contains("virtio-scsi"), "{scsi}");
        assert!(!scsi.contains("nvram") && !scsi.contains("<rom"), "{scsi}");
    }

    #[test]
    fn a_disk_that_libvirt_does_not_know_goes_past_it() {
        let xml = domain(&machine(MachineFirmware::Uefi, DiskBus::Nvme), &tools());
        assert!(
            xml.contains("<qemu:arg value='nvme,bus=pcie.0,addr=0x10,serial=S0,drive=nvme0,bootindex=90'/>"),
            "{xml}"
        );
        assert!(!xml.contains("<disk"), "{xml}");
    }
}
