//! The bytes of version 1. An agent and an appliance of different ages must understand each other,
//! so what stands here never changes: a new field is optional, anything else is a new version.

#![allow(clippy::unwrap_used, reason = "tests")]

use firesteel_wire::erasure::{ErasureEvidence, ErasurePolicy, Grade, LeftOut, Samples, TriedMethod};
use firesteel_wire::hand_off::{BootPartition, Forms, HandOffForm, HandOffVolume, KernelArgumentEdit, LoaderFile};
use firesteel_wire::parts::{
    AtaSecurity, BmcNetwork, Chassis, DiskCapabilities, FormatErase, HardwareParts, Health, HiddenArea,
    InventoryProcessor, InventoryTpm, Mainboard, ManagementInterface, MemoryArray, MemoryModule, NumaNode,
    NvmeController, NvmeNamespace, PciDevice, SanitizeMethod,
};
use firesteel_wire::receipt::FileReadBack;
use firesteel_wire::{
    AgentInstruction, AgentPlan, AgentReport, DiskIdentity, Evidence, FirmwareMode, HandOffFile, Hello, HelloReply,
    ImageStream, InstalledMemory, Inventory, InventoryCpu, InventoryDisk, InventoryFirmware, InventoryNic,
    InventorySystem, InventoryVlan, LogLine, LogSource, Neighbour, PartitionTableRecord, PlanStep, Program, PublicKey,
    ReceiptPlace, RefusalReason, RefusalReply, ReportReply, Seed, SmbiosIdentity, StepReceipt, StepReport, StepState,
    Transport, signing_input,
};
use serde::{Serialize, de::DeserializeOwned};

/// The value has these bytes, and the bytes have this value.
fn golden<T: Serialize + DeserializeOwned + PartialEq>(value: &T, bytes: &str) {
    assert_eq!(serde_json::to_string(value).unwrap(), bytes);
    assert!(serde_json::from_str::<T>(bytes).unwrap() == *value, "{bytes}");
}

fn key() -> PublicKey {
    PublicKey([0xab; 32])
}

fn disk() -> DiskIdentity {
    DiskIdentity {
        wwn: "0x5000c50012345678".into(),
        serial: "FS-1".into(),
        model: "QEMU NVMe Ctrl".into(),
        size_bytes: 8 << 30,
        by_path: String::new(),
    }
}

const KEY: &str = "abababababababababababababababababababababababababababababababab";
const DISK: &str = r#"{"wwn":"0x5000c50012345678","serial":"FS-1","model":"QEMU NVMe Ctrl","size_bytes":8589934592}"#;

#[test]
fn seed() {
    golden(
        &Seed {
            token: "v1.token".into(),
            appliance: "https://192.0.2.1:8443".into(),
            pin_sha256: "00ff".into(),
            boot_mac: "52:54:00:00:00:01".into(),
            network: None,
        },
        r#"{"token":"v1.token","appliance":"https://192.0.2.1:8443","pin_sha256":"00ff","boot_mac":"52:54:00:00:00:01"}"#,
    );
}

#[test]
fn what_is_signed() {
    assert_eq!(signing_input("/agent/v1/hello", b"{}"), b"firesteel-agent-v1\n/agent/v1/hello\n{}");
}

#[test]
fn hello_and_its_reply() {
    golden(
        &Hello {
            token: "v1.token".into(),
            key: key(),
            identity: SmbiosIdentity {
                uuid: "4c4c4544-0046-3310-8051-b4c04f564432".into(),
                serial: "S1".into(),
                manufacturer: "QEMU".into(),
                product: "Standard PC".into(),
                boot_mac: "52:54:00:00:00:01".into(),
                macs: vec!["52:54:00:00:00:01".into()],
            },
            agent_version: "0.1.0".into(),
            kernel_version: "6.1.0-40-amd64".into(),
            uptime_ms: 7,
            boot_id: "b".into(),
            network: None,
            program: Program::default(),
        },
        &format!(
            concat!(
                r#"{{"token":"v1.token","key":"{}","identity":{{"uuid":"4c4c4544-0046-3310-8051-b4c04f564432","#,
                r#""serial":"S1","manufacturer":"QEMU","product":"Standard PC","boot_mac":"52:54:00:00:00:01","#,
                r#""macs":["52:54:00:00:00:01"]}},"agent_version":"0.1.0","kernel_version":"6.1.0-40-amd64","#,
                r#""uptime_ms":7,"boot_id":"b"}}"#
            ),
            KEY
        ),
    );
    golden(
        &Program { sha256: "aa".into(), abilities: vec![Program::ERASE_DISK.into()] },
        r#"{"sha256":"aa","abilities":["erase-disk"]}"#,
    );
    let told = format!(
        concat!(
            r#"{{"token":"t","key":"{}","identity":{{}},"agent_version":"1","kernel_version":"6","uptime_ms":7,"#,
            r#""boot_id":"b","program":{{"abilities":["erase-disk","fly"]}}}}"#
        ),
        KEY
    );
    let hello: Hello = serde_json::from_str(&told).unwrap();
    assert!(hello.program.can(Program::ERASE_DISK) && hello.program.sha256.is_empty());
    golden(
        &HelloReply {
            host: "lab-1".into(),
            attempt: 2,
            time_ms: 1_795_224_093_000,
            verdict: AgentInstruction::Continue,
            hold: None,
        },
        r#"{"host":"lab-1","attempt":2,"time_ms":1795224093000,"verdict":{"verdict":"continue"}}"#,
    );
}

#[test]
fn report_and_its_reply() {
    let step = StepReport {
        index: 0,
        step: "write-image".into(),
        state: StepState::Running,
        activity: "writing".into(),
        done_bytes: 1,
        total_bytes: 2,
        bytes_per_second: 0,
        started_ms: 3,
        ended_ms: 0,
        error: String::new(),
        disk_changed: true,
    };
    let line = LogLine { sequence: 1, uptime_ms: 2, source: LogSource::Kernel, severity: 6, text: "x".into() };
    golden(
        &AgentReport {
            token: "t".into(),
            key: key(),
            boot_id: "b".into(),
            sequence: 1,
            uptime_ms: 2,
            plan: 3,
            steps: vec![step.clone(), StepReport { state: StepState::Failed, error: "why".into(), ..step }],
            receipts: vec![StepReceipt {
                plan: 3,
                index: 0,
                step: "reboot".into(),
                started_ms: 1,
                ended_ms: 2,
                span: None,
                evidence: Evidence::Leaving { how: "reboot".into() },
            }],
            neighbours: Vec::new(),
            idle: false,
            leaving: true,
            log: vec![line],
        },
        &format!(
            concat!(
                r#"{{"token":"t","key":"{}","boot_id":"b","sequence":1,"uptime_ms":2,"plan":3,"steps":["#,
                r#"{{"index":0,"step":"write-image","state":"running","activity":"writing","done_bytes":1,"#,
                r#""total_bytes":2,"started_ms":3,"ended_ms":0,"disk_changed":true}},"#,
                r#"{{"index":0,"step":"write-image","state":"failed","activity":"writing","done_bytes":1,"#,
                r#""total_bytes":2,"started_ms":3,"ended_ms":0,"error":"why","disk_changed":true}}],"#,
                r#""receipts":[{{"plan":3,"index":0,"step":"reboot","started_ms":1,"ended_ms":2,"#,
                r#""evidence":{{"kind":"leaving","how":"reboot"}}}}],"idle":false,"leaving":true,"#,
                r#""log":[{{"sequence":1,"uptime_ms":2,"source":"kernel","severity":6,"text":"x"}}]}}"#
            ),
            KEY
        ),
    );
    golden(
        &ReportReply {
            time_ms: 1,
            log_acknowledged: 2,
            stored: Vec::new(),
            verdict: AgentInstruction::Abort { reason: "released".into() },
            hold: None,
        },
        r#"{"time_ms":1,"log_acknowledged":2,"verdict":{"verdict":"abort","reason":"released"}}"#,
    );
    golden(
        &ReportReply {
            time_ms: 1,
            log_acknowledged: 2,
            stored: vec![ReceiptPlace { plan: 1, index: 0 }],
            verdict: AgentInstruction::Continue,
            hold: None,
        },
        r#"{"time_ms":1,"log_acknowledged":2,"stored":[{"plan":1,"index":0}],"verdict":{"verdict":"continue"}}"#,
    );
}

#[test]
fn a_neighbour() {
    let least = Neighbour {
        nic: "eth0".into(),
        mac: "52:54:00:00:00:01".into(),
        switch_id: "00:1c:73:aa:bb:cc".into(),
        port_id: "Ethernet1".into(),
        ..Neighbour::default()
    };
    golden(&least, r#"{"nic":"eth0","mac":"52:54:00:00:00:01","switch_id":"00:1c:73:aa:bb:cc","port_id":"Ethernet1"}"#);
    golden(
        &Neighbour {
            port_description: "a".into(),
            switch_name: "b".into(),
            switch_description: "c".into(),
            addresses: vec!["10.0.0.4".into()],
            port_vlan: 5,
            vlans: vec![InventoryVlan { id: 6, name: "six".into() }],
            aggregated: true,
            frame_bytes_max: 9216,
            ..least
        },
        concat!(
            r#"{"nic":"eth0","mac":"52:54:00:00:00:01","switch_id":"00:1c:73:aa:bb:cc","port_id":"Ethernet1","#,
            r#""port_description":"a","switch_name":"b","switch_description":"c","addresses":["10.0.0.4"],"#,
            r#""port_vlan":5,"vlans":[{"id":6,"name":"six"}],"aggregated":true,"frame_bytes_max":9216}"#
        ),
    );
}

#[test]
fn plan_with_every_step() {
    let image = ImageStream {
        url: "http://192.0.2.1:8080/images/aa.raw.zst".into(),
        stream_bytes: 1,
        stream_sha256: "aa".into(),
        raw_bytes: 512,
        raw_sha256: "bb".into(),
    };
    let plan = AgentPlan {
        number: 2,
        attempt: 3,
        steps: vec![
            PlanStep::Inspect,
            PlanStep::clear_metadata(disk()),
            PlanStep::WriteImage {
                disk: disk(),
                image,
                disk_guid: "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".into(),
                own_names: Vec::new(),
                override_guards: false,
                was_vacant: false,
                is_named: false,
            },
            PlanStep::HandOff {
                disk: disk(),
                files: vec![HandOffFile {
                    path: "ignition/config.ign".into(),
                    mode: 0o600,
                    content_base64: "e30=".into(),
                }],
                forms: None,
            },
            PlanStep::EraseDisk {
                disk: disk(),
                policy: ErasurePolicy::Full,
                own_names: vec!["node-1".into()],
                override_guards: true,
                was_vacant: false,
                is_named: false,
            },
            PlanStep::EraseDisk {
                disk: disk(),
                policy: ErasurePolicy::Quick,
                own_names: Vec::new(),
                override_guards: false,
                was_vacant: true,
                is_named: false,
            },
            PlanStep::SetBootEntry { disk: disk(), label: "lab-1".into() },
            PlanStep::Reboot,
            PlanStep::PowerOff,
        ],
    };
    golden(
        &AgentInstruction::Plan { plan },
        &format!(
            concat!(
                r#"{{"verdict":"plan","plan":{{"number":2,"attempt":3,"steps":[{{"step":"inspect"}},"#,
                r#"{{"step":"clear_metadata","disk":{0}}},{{"step":"write_image","disk":{0},"#,
                r#""image":{{"url":"http://192.0.2.1:8080/images/aa.raw.zst","stream_bytes":1,"#,
                r#""stream_sha256":"aa","raw_bytes":512,"raw_sha256":"bb"}},"#,
                r#""disk_guid":"6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f"}},"#,
                r#"{{"step":"hand_off","disk":{0},"files":[{{"path":"ignition/config.ign","mode":384,"#,
                r#""content_base64":"e30="}}]}},{{"step":"erase_disk","disk":{0},"policy":"full","#,
                r#""own_names":["node-1"],"override_guards":true}},{{"step":"erase_disk","disk":{0},"#,
                r#""policy":"quick","was_vacant":true}},{{"step":"set_boot_entry","disk":{0},"label":"lab-1"}},"#,
                r#"{{"step":"reboot"}},{{"step":"power_off"}}]}}}}"#
            ),
            DISK
        ),
    );
}

#[test]
fn a_hand_off_in_other_forms() {
    let file = |path: &str| HandOffFile { path: path.into(), mode: 0o644, content_base64: "e30=".into() };
    let arguments =
        |append: &str, delete: &str| KernelArgumentEdit { append: vec![append.into()], delete: vec![delete.into()] };
    let forms = Forms {
        form: HandOffForm::Auto,
        boot_partition: Some(BootPartition {
            files: vec![file("ignition/config.ign")],
            network: vec!["ip=dhcp".into()],
        }),
        kernel_arguments: Some(arguments("ignition.config.url=u", "x")),
        config_drive: Some(HandOffVolume { volume_id: 7, files: vec![file("openstack/latest/user_data")] }),
        no_cloud: Some(HandOffVolume { volume_id: 8, files: vec![file("user-data")] }),
        arguments: Some(arguments("console=ttyS0", "quiet")),
    };
    let said = concat!(
        r#"{"form":"auto","boot_partition":{"files":[{"path":"ignition/config.ign","mode":420,"#,
        r#""content_base64":"e30="}],"network":["ip=dhcp"]},"#,
        r#""kernel_arguments":{"append":["ignition.config.url=u"],"delete":["x"]},"#,
        r#""config_drive":{"volume_id":7,"files":[{"path":"openstack/latest/user_data","mode":420,"#,
        r#""content_base64":"e30="}]},"#,
        r#""no_cloud":{"volume_id":8,"files":[{"path":"user-data","mode":420,"content_base64":"e30="}]},"#,
        r#""arguments":{"append":["console=ttyS0"],"delete":["quiet"]}}"#
    );
    golden(
        &PlanStep::HandOff { disk: disk(), files: Vec::new(), forms: Some(Box::new(forms)) },
        &format!(r#"{{"step":"hand_off","disk":{DISK},"forms":{said}}}"#),
    );
    for (form, said) in [
        (HandOffForm::Auto, "auto"),
        (HandOffForm::BootPartition, "boot_partition"),
        (HandOffForm::KernelArguments, "kernel_arguments"),
        (HandOffForm::ConfigDrive, "config_drive"),
        (HandOffForm::NoCloud, "no_cloud"),
    ] {
        golden(&Forms { form, ..Forms::default() }, &format!(r#"{{"form":"{said}"}}"#));
    }
}

#[test]
fn clearing_and_writing_with_names_and_an_override() {
    let image = ImageStream {
        url: "u".into(),
        stream_bytes: 1,
        stream_sha256: "aa".into(),
        raw_bytes: 512,
        raw_sha256: "bb".into(),
    };
    let names = || vec!["node-1".into(), "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".into()];
    let said =
        r#""own_names":["node-1","6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f"],"override_guards":true,"was_vacant":true"#;
    golden(
        &PlanStep::ClearMetadata {
            disk: disk(),
            own_names: names(),
            override_guards: true,
            was_vacant: true,
            is_named: false,
        },
        &format!(r#"{{"step":"clear_metadata","disk":{DISK},{said}}}"#),
    );
    golden(
        &PlanStep::WriteImage {
            disk: disk(),
            image,
            disk_guid: "g".into(),
            own_names: names(),
            override_guards: true,
            was_vacant: true,
            is_named: false,
        },
        &format!(
            concat!(
                r#"{{"step":"write_image","disk":{0},"image":{{"url":"u","stream_bytes":1,"stream_sha256":"aa","#,
                r#""raw_bytes":512,"raw_sha256":"bb"}},"disk_guid":"g",{1}}}"#
            ),
            DISK, said
        ),
    );
}

#[test]
fn a_step_that_says_how_fast_it_is() {
    let step = StepReport {
        index: 1,
        step: "erase-disk".into(),
        state: StepState::Running,
        activity: "overwrite".into(),
        done_bytes: 5,
        total_bytes: 9,
        bytes_per_second: 4,
        started_ms: 3,
        ended_ms: 0,
        error: String::new(),
        disk_changed: true,
    };
    golden(
        &step,
        concat!(
            r#"{"index":1,"step":"erase-disk","state":"running","activity":"overwrite","done_bytes":5,"#,
            r#""total_bytes":9,"bytes_per_second":4,"started_ms":3,"ended_ms":0,"disk_changed":true}"#
        ),
    );
}

#[test]
fn every_evidence() {
    golden(
        &Evidence::MetadataCleared {
            disk: disk(),
            device: "/dev/sda".into(),
            cleared: vec!["gpt at 512".into()],
            verified_bytes: 1,
            overridden: Vec::new(),
        },
        &format!(
            r#"{{"kind":"metadata_cleared","disk":{DISK},"device":"/dev/sda","cleared":["gpt at 512"],"verified_bytes":1}}"#
        ),
    );
    golden(
        &Evidence::MetadataCleared {
            disk: disk(),
            device: "/dev/sda".into(),
            cleared: Vec::new(),
            verified_bytes: 1,
            overridden: vec!["partition 3: VMFS".into()],
        },
        &format!(
            concat!(
                r#"{{"kind":"metadata_cleared","disk":{},"device":"/dev/sda","cleared":[],"verified_bytes":1,"#,
                r#""overridden":["partition 3: VMFS"]}}"#
            ),
            DISK
        ),
    );
    for (overridden, tail) in [(vec![], ""), (vec!["the disk: GFS2".to_owned()], r#","overridden":["the disk: GFS2"]"#)]
    {
        golden(
            &Evidence::ImageWritten {
                disk: disk(),
                device: "/dev/sda".into(),
                stream_sha256: "a".into(),
                stream_bytes: 1,
                raw_sha256: "b".into(),
                raw_bytes: 2,
                written_bytes: 3,
                readback_sha256: "b".into(),
                readback_bytes: 2,
                disk_guid: "g".into(),
                last_usable_lba: 4,
                write_ms: 5,
                readback_ms: 6,
                overridden,
            },
            &format!(
                concat!(
                    r#"{{"kind":"image_written","disk":{},"device":"/dev/sda","stream_sha256":"a","stream_bytes":1,"#,
                    r#""raw_sha256":"b","raw_bytes":2,"written_bytes":3,"readback_sha256":"b","readback_bytes":2,"#,
                    r#""disk_guid":"g","last_usable_lba":4,"write_ms":5,"readback_ms":6{}}}"#
                ),
                DISK, tail
            ),
        );
    }
    golden(
        &Evidence::FilesHandedOff {
            disk: disk(),
            device: "/dev/sda2".into(),
            filesystem: "ext4".into(),
            files: vec![FileReadBack { path: "p".into(), bytes: 1, sha256: "c".into() }],
            form: None,
            recognised: Vec::new(),
            warnings: Vec::new(),
            loader: Vec::new(),
        },
        &format!(
            concat!(
                r#"{{"kind":"files_handed_off","disk":{},"device":"/dev/sda2","filesystem":"ext4","#,
                r#""files":[{{"path":"p","bytes":1,"sha256":"c"}}]}}"#
            ),
            DISK
        ),
    );
    golden(
        &Evidence::FilesHandedOff {
            disk: disk(),
            device: "/dev/sda5".into(),
            filesystem: "vfat".into(),
            files: Vec::new(),
            form: Some(HandOffForm::ConfigDrive),
            recognised: vec!["r".into()],
            warnings: vec!["w".into()],
            loader: vec![LoaderFile {
                device: "/dev/sda2".into(),
                filesystem: "ext4".into(),
                file: FileReadBack { path: "loader/entries/a.conf".into(), bytes: 1, sha256: "c".into() },
                changed: true,
            }],
        },
        &format!(
            concat!(
                r#"{{"kind":"files_handed_off","disk":{},"device":"/dev/sda5","filesystem":"vfat","files":[],"#,
                r#""form":"config_drive","recognised":["r"],"warnings":["w"],"loader":[{{"device":"/dev/sda2","#,
                r#""filesystem":"ext4","path":"loader/entries/a.conf","bytes":1,"sha256":"c","changed":true}}]}}"#
            ),
            DISK
        ),
    );
    golden(
        &Evidence::BootEntrySet { method: "uefi".into(), entry: "Boot0000".into(), order: "0001,0000".into() },
        r#"{"kind":"boot_entry_set","method":"uefi","entry":"Boot0000","order":"0001,0000"}"#,
    );
}

#[test]
fn inventory() {
    let inventory = Inventory {
        system: InventorySystem {
            manufacturer: "M".into(),
            product: "P".into(),
            serial: "S".into(),
            uuid: "u".into(),
            ..InventorySystem::default()
        },
        firmware: InventoryFirmware {
            mode: FirmwareMode::Uefi,
            vendor: "V".into(),
            version: "1".into(),
            date: "d".into(),
            secure_boot: Some(false),
            ..InventoryFirmware::default()
        },
        cpu: InventoryCpu {
            arch: "x86_64".into(),
            model: "c".into(),
            clock_mhz: 2000.5,
            flags: vec!["fpu".into()],
            count: 2,
            ..InventoryCpu::default()
        },
        memory: InstalledMemory { total_mib: 1, installed_mib: 2 },
        nics: vec![InventoryNic {
            name: "eth0".into(),
            mac: "52:54:00:00:00:01".into(),
            ip: vec!["192.0.2.9".into()],
            driver: "virtio_net".into(),
            model: "0x1af4 0x1000".into(),
            pci_address: "0000:00:02.0".into(),
            speed_mbps: 0,
            link: true,
            boot: true,
            ..InventoryNic::default()
        }],
        disks: vec![InventoryDisk {
            device: "/dev/vda".into(),
            transport: Transport::Virtio,
            size_bytes: 1,
            ..InventoryDisk::default()
        }],
        hostname: "h".into(),
        parts: None,
    };
    golden(
        &inventory,
        concat!(
            r#"{"system":{"manufacturer":"M","product":"P","serial":"S","uuid":"u"},"#,
            r#""firmware":{"mode":"uefi","vendor":"V","version":"1","date":"d","secure_boot":false},"#,
            r#""cpu":{"arch":"x86_64","model":"c","clock_mhz":2000.5,"flags":["fpu"],"count":2},"#,
            r#""memory":{"total_mib":1,"installed_mib":2},"#,
            r#""nics":[{"name":"eth0","mac":"52:54:00:00:00:01","ip":["192.0.2.9"],"driver":"virtio_net","#,
            r#""model":"0x1af4 0x1000","pci_address":"0000:00:02.0","speed_mbps":0,"link":true,"boot":true}],"#,
            r#""disks":[{"device":"/dev/vda","by_path":"","by_id":[],"size_bytes":1,"logical_block_bytes":0,"#,
            r#""physical_block_bytes":0,"model":"","vendor":"","serial":"","wwn":"","wwn_with_extension":"","#,
            r#""wwn_vendor_extension":"","hctl":"","rotational":false,"read_only":false,"removable":false,"#,
            r#""transport":"virtio","signatures":[]}],"hostname":"h"}"#
        ),
    );
}

/// Told since inspections go into depth; an older agent leaves all of it out.
#[test]
fn parts() {
    let silent: Inventory =
        serde_json::from_str(r#"{"system":{},"firmware":{"mode":"uefi"},"cpu":{},"memory":{}}"#).unwrap();
    assert!(silent.parts.is_none() && silent.cpu.sockets == 0);
    golden(&HardwareParts::default(), r#"{"board":{},"chassis":{},"memory":{}}"#);
    let parts = HardwareParts {
        board: Mainboard { product: "B".into(), serial: "BS".into(), ..Mainboard::default() },
        chassis: Chassis { kind: "Blade".into(), asset_tag: "7".into(), ..Chassis::default() },
        processors: vec![InventoryProcessor {
            socket: "CPU1".into(),
            cores: 2,
            threads: 4,
            max_mhz: 9,
            ..InventoryProcessor::default()
        }],
        memory: MemoryArray { slots: 2, capacity_mib: 3, mapped_mib: 4, error_correction: "none".into() },
        modules: vec![MemoryModule { locator: "A1".into(), size_mib: 5, ranks: 1, ecc: true, ..Default::default() }],
        numa: vec![NumaNode { id: 0, cpus: "0-1".into(), memory_mib: 6, distances: vec![10] }],
        pci: vec![PciDevice {
            address: "0000:00:02.0".into(),
            class: "020000".into(),
            class_name: "Ethernet controller".into(),
            vendor: "8086".into(),
            device: "10d3".into(),
            numa_node: Some(0),
            ..PciDevice::default()
        }],
        nvme: vec![NvmeController {
            name: "nvme0".into(),
            identified: true,
            namespaces: vec![NvmeNamespace { id: 1, attached: false, size_bytes: 512 }],
            ..NvmeController::default()
        }],
        management: vec![
            ManagementInterface::Ipmi { interface: "KCS".into(), version: "2.0".into() },
            ManagementInterface::Redfish { address: "a".into(), port: 443, vlan: 0, hostname: "h".into() },
        ],
        bmc: vec![BmcNetwork {
            channel: 1,
            mac: "00:25:90:01:02:03".into(),
            ipv4: "10.0.0.7".into(),
            prefix_bits: 24,
            vlan: 5,
            ipv6: vec!["fd00::7/64".into()],
        }],
        tpm: Some(InventoryTpm { version: "2.0".into() }),
        notes: vec!["n".into()],
    };
    golden(
        &parts,
        concat!(
            r#"{"board":{"product":"B","serial":"BS"},"chassis":{"kind":"Blade","asset_tag":"7"},"#,
            r#""processors":[{"socket":"CPU1","cores":2,"threads":4,"max_mhz":9}],"#,
            r#""memory":{"slots":2,"capacity_mib":3,"mapped_mib":4,"error_correction":"none"},"#,
            r#""modules":[{"locator":"A1","size_mib":5,"ranks":1,"ecc":true}],"#,
            r#""numa":[{"id":0,"cpus":"0-1","memory_mib":6,"distances":[10]}],"#,
            r#""pci":[{"address":"0000:00:02.0","class":"020000","class_name":"Ethernet controller","#,
            r#""vendor":"8086","device":"10d3","numa_node":0}],"#,
            r#""nvme":[{"name":"nvme0","identified":true,"#,
            r#""namespaces":[{"id":1,"attached":false,"size_bytes":512}]}],"#,
            r#""management":[{"kind":"ipmi","interface":"KCS","version":"2.0"},"#,
            r#"{"kind":"redfish","address":"a","port":443,"vlan":0,"hostname":"h"}],"#,
            r#""bmc":[{"channel":1,"mac":"00:25:90:01:02:03","ipv4":"10.0.0.7","prefix_bits":24,"vlan":5,"#,
            r#""ipv6":["fd00::7/64"]}],"tpm":{"version":"2.0"},"notes":["n"]}"#
        ),
    );
    golden(
        &DiskCapabilities {
            discard: true,
            identified: true,
            sanitize: vec![SanitizeMethod::Crypto, SanitizeMethod::Block, SanitizeMethod::Overwrite],
            format: vec![FormatErase::UserData, FormatErase::Crypto],
            ata_security: Some(AtaSecurity { frozen: true, erase_minutes: 2, ..AtaSecurity::default() }),
            hidden_areas: vec![HiddenArea::Hpa, HiddenArea::Dco],
            hidden_bytes: Some(512),
            ..DiskCapabilities::default()
        },
        concat!(
            r#"{"discard":true,"write_zeroes":false,"discard_zeroes":false,"identified":true,"#,
            r#""sanitize":["crypto","block","overwrite"],"format":["user_data","crypto"],"#,
            r#""ata_security":{"enabled":false,"locked":false,"frozen":true,"enhanced_erase":false,"#,
            r#""erase_minutes":2},"hidden_areas":["hpa","dco"],"hidden_bytes":512}"#
        ),
    );
    golden(&Health::default(), "{}");
    golden(
        &Health {
            failing: Some(true),
            warnings: vec!["w".into()],
            celsius: Some(-4),
            power_on_hours: 1,
            used_percent: Some(2),
            spare_percent: Some(3),
            unsafe_shutdowns: 4,
            media_errors: 5,
            reallocated: 6,
            pending: 7,
        },
        concat!(
            r#"{"failing":true,"warnings":["w"],"celsius":-4,"power_on_hours":1,"used_percent":2,"spare_percent":3,"#,
            r#""unsafe_shutdowns":4,"media_errors":5,"reallocated":6,"pending":7}"#
        ),
    );
}

#[test]
fn refusals() {
    for (reason, name) in [
        (RefusalReason::BadToken, "bad_token"),
        (RefusalReason::SecondKey, "second_key"),
        (RefusalReason::OldAttempt, "old_attempt"),
        (RefusalReason::BadSignature, "bad_signature"),
        (RefusalReason::BadRequest, "bad_request"),
        (RefusalReason::Busy, "busy"),
        (RefusalReason::Held, "held"),
    ] {
        let refusal = RefusalReply { reason, message: "m".into() };
        golden(&refusal, &format!(r#"{{"reason":"{name}","message":"m"}}"#));
    }
}

/// What a later version may add must not stop this one, and what an earlier one leaves out has a
/// meaning.
#[test]
fn unknown_fields_are_passed_over_and_optional_ones_may_be_missing() {
    let plan: AgentPlan =
        serde_json::from_str(r#"{"number":1,"attempt":1,"steps":[{"step":"inspect"}],"later":1}"#).unwrap();
    assert_eq!(plan.steps, [PlanStep::Inspect]);
    let disk: InventoryDisk = serde_json::from_str(r#"{"device":"/dev/sda"}"#).unwrap();
    assert_eq!(disk, InventoryDisk { device: "/dev/sda".into(), ..InventoryDisk::default() });
    let report = format!(r#"{{"token":"t","key":"{KEY}","boot_id":"","sequence":1,"uptime_ms":0,"plan":0}}"#);
    let report: AgentReport = serde_json::from_str(&report).unwrap();
    assert!(!report.idle && !report.leaving && report.steps.is_empty());
    assert!(serde_json::from_str::<AgentPlan>(r#"{"number":1,"attempt":1,"steps":[{"step":"format_all"}]}"#).is_err());
}

/// Told since the store can be restored; what an older agent leaves out is unknown, not "none".
#[test]
fn what_stands_where_a_table_would() {
    golden(&PartitionTableRecord::None, r#"{"kind":"none"}"#);
    golden(
        &PartitionTableRecord::Gpt { guid: "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".into() },
        r#"{"kind":"gpt","guid":"6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f"}"#,
    );
    let unread = PartitionTableRecord::Unreadable { why: "I/O error".into(), damaged: false };
    golden(&unread, r#"{"kind":"unreadable","why":"I/O error"}"#);
    golden(
        &PartitionTableRecord::Unreadable { why: "checksum".into(), damaged: true },
        r#"{"kind":"unreadable","why":"checksum","damaged":true}"#,
    );
    let told: InventoryDisk = serde_json::from_str(r#"{"device":"/dev/sda","table":{"kind":"none"}}"#).unwrap();
    assert_eq!(
        told,
        InventoryDisk {
            device: "/dev/sda".into(),
            table: Some(PartitionTableRecord::None),
            ..InventoryDisk::default()
        }
    );
    let silent: InventoryDisk = serde_json::from_str(r#"{"device":"/dev/sda"}"#).unwrap();
    assert_eq!(silent.table, None);
}

#[test]
fn erasure() {
    let text = |text: &str| text.to_owned();
    golden(
        &Evidence::DiskErased(ErasureEvidence {
            disk: disk(),
            device: "/dev/nvme0n1".into(),
            policy: ErasurePolicy::Full,
            method: "sanitize-block".into(),
            grade: Grade::Purge,
            drive_log: vec![text("NVMe sanitize log: block erase, completed, ffff0101")],
            samples: Samples { told_before: 1, blank_before: 2, canaries: 3, read_back: 6, blank_after: 5 },
            tried: vec![
                TriedMethod { method: text("sanitize-crypto"), ended: text("reported success, but"), lied: true },
                TriedMethod { method: text("sanitize-block"), ended: text("done"), lied: false },
            ],
            left_out: vec![LeftOut { method: text("secure-erase"), why: text("the drive does not offer it") }],
            overridden: Vec::new(),
            unverified: vec![text("spare blocks")],
        }),
        &format!(
            concat!(
                r#"{{"kind":"disk_erased","disk":{},"device":"/dev/nvme0n1","policy":"full","#,
                r#""method":"sanitize-block","grade":"purge","#,
                r#""drive_log":["NVMe sanitize log: block erase, completed, ffff0101"],"#,
                r#""samples":{{"told_before":1,"blank_before":2,"canaries":3,"read_back":6,"blank_after":5}},"#,
                r#""tried":[{{"method":"sanitize-crypto","ended":"reported success, but","lied":true}},"#,
                r#"{{"method":"sanitize-block","ended":"done","lied":false}}],"#,
                r#""left_out":[{{"method":"secure-erase","why":"the drive does not offer it"}}],"#,
                r#""unverified":["spare blocks"]}}"#
            ),
            DISK
        ),
    );
}
