//! Disks, hints, Secrets and configs that do not fit together. Nothing is destroyed for any of them, and each
//! host goes on by itself when it is put right.

use firesteel_kube::ObjectPart;
use firesteel_resources::{BareMetalHost, RootDeviceHints, SecretReference};
use firesteel_wire::InventoryDisk;

use crate::agent::{Agent, End, disk};
use crate::appliance::{Appliance, NAMESPACE};
use crate::images::{noise, published};

const CONFIG: &[u8] = br#"{"ignition": {"version": "3.4.0"}}"#;

type Change = fn(&mut BareMetalHost);

struct Case {
    name: &'static str,
    disks: Vec<InventoryDisk>,
    change: Change,
    told: &'static [&'static str],
}

fn hint(host: &mut BareMetalHost, hints: RootDeviceHints) {
    host.spec.root_device_hints = Some(hints);
}

fn user_data(host: &mut BareMetalHost, secret: &str) {
    host.spec.user_data = Some(SecretReference { name: secret.into(), namespace: NAMESPACE.into() });
}

fn cases() -> Vec<Case> {
    let unnamed = || InventoryDisk { serial: String::new(), ..disk("sda", "", 20) };
    let twins = || vec![disk("sda", "TWIN", 20), disk("sdb", "TWIN", 20)];
    vec![
        Case {
            name: "no-disk-for-hints",
            disks: vec![disk("sda", "A", 20), disk("sdb", "B", 40)],
            change: |host| hint(host, RootDeviceHints { model: "OTHER".into(), ..RootDeviceHints::default() }),
            told: &["no disk matches spec.rootDeviceHints", "/dev/sda", "/dev/sdb", "correct spec.rootDeviceHints"],
        },
        Case {
            name: "several-disks-for-hints",
            disks: vec![disk("sda", "A", 20), disk("sdb", "B", 40)],
            change: |host| hint(host, RootDeviceHints { min_size_gigabytes: 1, ..RootDeviceHints::default() }),
            told: &["2 disks match", "/dev/sda", "/dev/sdb", "correct spec.rootDeviceHints"],
        },
        Case {
            name: "disk-without-identity",
            disks: vec![unnamed()],
            change: |_| {},
            told: &[
                "neither WWN nor serial",
                r#"set spec: {rootDeviceHints: {deviceName: "/dev/disk/by-path/pci-sda"}}"#,
            ],
        },
        Case {
            name: "two disks with one identity",
            disks: twins(),
            change: |_| {},
            told: &["the same serial number as another disk", "set spec: {rootDeviceHints: {deviceName:"],
        },
        Case {
            name: "read-only-disk",
            disks: vec![InventoryDisk { read_only: true, ..disk("sda", "A", 20) }],
            change: |_| {},
            told: &["/dev/sda", "is read-only", "or the host's disks and run `firesteel retry`"],
        },
        Case {
            name: "no disk at all",
            disks: Vec::new(),
            change: |_| {},
            told: &["the inspection found no disk", "run `firesteel retry`"],
        },
        Case {
            name: "image-larger-than-disk",
            disks: vec![InventoryDisk { size_bytes: 1 << 20, ..disk("sda", "A", 20) }],
            change: |host| hint(host, RootDeviceHints { serial_number: "A".into(), ..RootDeviceHints::default() }),
            told: &[
                "is smaller than the image",
                "has 1048576 bytes",
                "which has 2097152",
                "use a smaller image, or name a larger disk",
            ],
        },
        Case {
            name: "missing-secret",
            disks: vec![disk("sda", "A", 20)],
            change: |host| user_data(host, "later"),
            told: &["Secret later with the key userData does not exist: create it"],
        },
        Case {
            name: "secret without the key",
            disks: vec![disk("sda", "A", 20)],
            change: |host| user_data(host, "other-key"),
            told: &["Secret other-key with the key userData does not exist: create it"],
        },
        Case {
            name: "invalid-ignition",
            disks: vec![disk("sda", "A", 20)],
            change: |host| user_data(host, "spoilt"),
            told: &["Secret spoilt, key userData: the Ignition config is not valid", "storage.files"],
        },
        Case {
            name: "ignition that is no JSON",
            disks: vec![disk("sda", "A", 20)],
            change: |host| user_data(host, "no-json"),
            told: &["Secret no-json, key userData", "neither an Ignition config"],
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_told_before_anything_is_destroyed() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let (_origin, image) = published(noise(2 << 20));
    let spoilt = br#"{"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "not/absolute"}]}}"#;
    appliance.add_secret("spoilt", "userData", spoilt).await;
    appliance.add_secret("no-json", "userData", b"users: []\n").await;
    appliance.add_secret("other-key", "user-data", CONFIG).await;
    for (index, case) in cases().into_iter().enumerate() {
        println!("{}", case.name);
        let (name, mac) = (format!("host-{index}"), format!("02:00:00:00:02:{index:02x}"));
        appliance.add_with(&name, &mac, Some(image.clone()), case.change).await;
        let mut agent = Agent::boot_with(&appliance, &mac, 1, "", case.disks).await;
        assert!(matches!(agent.work(&appliance, &name).await, End::Error), "{}: a disk was to be written", case.name);
        appliance.assert_told(&name, case.told).await;
        let cured: Option<Change> = match case.name {
            "no-disk-for-hints" => {
                Some(|host| hint(host, RootDeviceHints { serial_number: "B".into(), ..RootDeviceHints::default() }))
            }
            "disk-without-identity" => Some(|host| {
                let device_name = "/dev/disk/by-path/pci-sda".into();
                hint(host, RootDeviceHints { device_name, ..RootDeviceHints::default() });
            }),
            "missing-secret" => {
                appliance.add_secret("later", "userData", CONFIG).await;
                Some(|_| {})
            }
            _ => None,
        };
        let Some(cure) = cured else { continue };
        appliance.hosts.modify(NAMESPACE, &name, ObjectPart::Main, cure).await.unwrap();
        let plan = loop {
            if let firesteel_wire::AgentInstruction::Plan { plan } = agent.report(&appliance).await.unwrap() {
                break plan;
            }
        };
        assert!(plan.steps.iter().any(firesteel_wire::PlanStep::is_destructive), "{}: {plan:?}", case.name);
    }
}
