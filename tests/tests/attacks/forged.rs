//! An agent whose host would be called installed by what it says, and which shows something else.

use firesteel_tests::agent_line::token_of;
use firesteel_tests::disk_image;
use firesteel_tests::field::{Field, discover, mac};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::Dhcp;
use firesteel_wire::{Evidence, StepReceipt};
use serde_json::{Value, json};

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

const WANTS: &str = "a host that is called provisioned";
const SECRET: &str = "user-data";

type Forge = fn(&mut Vec<StepReceipt>);

/// Each forgery, and what the host says of it.
const FORGED: [(&str, &str, Forge); 9] = [
    ("receipt for another disk", "the image was written to another disk", |receipts| {
        if let Evidence::ImageWritten { disk, .. } = &mut receipts[1].evidence {
            disk.serial = "S2".into();
        }
    }),
    ("zero lengths", "the length that was read back is 0", |receipts| {
        if let Evidence::ImageWritten { readback_bytes, written_bytes, .. } = &mut receipts[1].evidence {
            (*readback_bytes, *written_bytes) = (0, 0);
        }
    }),
    ("another image read back", "the sha256 that was read back", |receipts| {
        if let Evidence::ImageWritten { readback_sha256, .. } = &mut receipts[1].evidence {
            *readback_sha256 = "0".repeat(64);
        }
    }),
    ("missing files", "openstack/latest/meta_data.json was not handed over", |receipts| {
        if let Evidence::FilesHandedOff { files, .. } = &mut receipts[2].evidence {
            files.clear();
        }
    }),
    ("a file with another content", "openstack/latest/user_data has another content", |receipts| {
        if let Evidence::FilesHandedOff { files, .. } = &mut receipts[2].evidence {
            let file = files.iter_mut().find(|file| file.path.ends_with("user_data")).unwrap();
            file.sha256 = "0".repeat(64);
        }
    }),
    ("no hand-off", "there is no receipt of the files", |receipts| drop(receipts.remove(2))),
    ("missing boot entry", "there is no receipt of the boot entry", |receipts| receipts.truncate(3)),
    ("steps out of order", "the receipts are of the steps", |receipts| {
        (receipts[1].index, receipts[2].index) = (2, 1);
    }),
    ("impossible times", "began before it could", |receipts| {
        receipts[2].span.as_mut().unwrap().began_ms = 500;
    }),
];

/// Adds a host that is to be installed, and boots its machine.
fn boot(field: &Field, hostile: &mut Hostile, machine: u8, image: &Value) -> HostAgent {
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name(machine)},
        "spec": {
            "online": true, "bootMACAddress": mac(machine).to_string(), "image": image,
            "userData": {"name": SECRET, "namespace": "default"},
        },
    }));
    field.until(&["describe", "host", &name(machine)], |page| page.contains("waiting for the host to boot"));
    let leased = field.lease(&discover(machine, CLASS, &[7]));
    let script = hostile.script(leased, &mac(machine).to_string()).body;
    assert!(token_of(&script).is_some(), "{script}");
    let mut agent = HostAgent::of(field, machine);
    agent.boot(field, &script);
    agent
}

fn name(machine: u8) -> String {
    format!("host-{machine}")
}

#[test]
fn what_an_agent_shows_is_held_against_its_whole_plan() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let image = disk_image::served();
        field.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
            "stringData": {"userData": "#cloud-config\nhostname: a\n"},
        }));
        let page = |machine: u8| ["describe".to_owned(), "host".to_owned(), name(machine)];
        boot(field, hostile, 1, &image).install(field, |_| {});
        let [a, b, c] = page(1);
        field.until(&[&a, &b, &c], |page| page.contains("ProvisioningComplete"));
        judge("none: an honest agent", "-", "provisioned", "provisioned");
        for (machine, (attack, says, forge)) in (2..).zip(FORGED) {
            boot(field, hostile, machine, &image).install(field, forge);
            let [a, b, c] = page(machine);
            let page = field.until(&[&a, &b, &c], |page| page.contains("ProvisioningComplete") || page.contains(says));
            let got = if page.contains("ProvisioningComplete") { "provisioned" } else { "not provisioned" };
            judge(attack, WANTS, "not provisioned", got);
        }
    });
}
