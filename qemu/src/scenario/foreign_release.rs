//! A host with a consumer and data disks that are not its own is released: what would be done is shown before, every
//! foreign disk stays byte by byte, the host says which and why, and the override of one lets that one go and no other.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use firesteel_lab_foreign_disks::{ForeignDisk, erased_before};
use firesteel_lab_image::PackedFormat;
use serde_json::json;

use super::play::{is_blank, is_cleared};
use crate::demo::check;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig, LabDiskPlan};
use crate::machine::{DiskBus, MachineFirmware};
use crate::manifests::{NAMESPACE, RootHint, yaml};
use crate::progress::print_status;

const NAME: &str = "bios-1";
/// What stands on the data disks, by the names of those that make it: one of each kind of table, label and volume.
const FOREIGN: [&str; 6] = ["gpt-early-entry", "gpt-grown", "mbr-logical-200", "lvm-far-area", "lvm-ceph", "vsan"];
/// The texts that people see, with what differs from run to run left out.
const PLAN: &str = include_str!("golden/foreign_release_plan.txt");
const DESCRIBE: &str = include_str!("golden/foreign_release_describe.txt");
/// The variable that has the golden texts written instead of being compared.
const WRITE_GOLDEN: &str = "FIRESTEEL_WRITE_GOLDEN";

/// A data disk, and what it held before the host was released.
struct Foreign {
    made: ForeignDisk,
    serial: String,
    path: PathBuf,
    before: Vec<u8>,
}

pub(super) async fn release(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let foreign = add(lab).await?;
    let root = lab.machine(NAME)?.config().disks[0].clone();
    let wish =
        DesiredHost { image: Some(image), root: Some(RootHint::Serial(root.serial.clone())), ..DesiredHost::default() };
    lab.apply_host(NAME, &DesiredHost::default()).await?;
    let consumer = json!({"kind": "HostClaim", "name": "web", "namespace": NAMESPACE});
    lab.apply(&patch(json!({"consumerRef": consumer}), json!({}))).await?;
    lab.apply_host(NAME, &wish).await?;
    check(NAME, &lab.wait_running(NAME, 1).await?)?;
    print_status("installed and running beside six disks that are not its own");
    untouched(&foreign, "the installation")?;
    shown(lab).await?;
    print_status("plan and describe show what stands on each disk, and the refusal");

    lab.apply(&patch(json!({"consumerRef": null, "image": null}), json!({}))).await?;
    refused(lab, &foreign, &[]).await?;
    untouched(&foreign, "the release")?;
    ensure!(!is_cleared(&root.path)?, "the OS is gone although its host's disks were refused");
    print_status("released: the host names each disk with its reason, and nothing was erased");

    let (chosen, others) = foreign.split_first().context("no data disk")?;
    let name = json!({"firesteel.dev/override-guard": chosen.serial});
    lab.apply(&patch(json!({}), name)).await?;
    refused(lab, others, std::slice::from_ref(chosen)).await?;
    untouched(others, "the override of another disk")?;
    ensure!(is_blank(&chosen.path)?, "{}: the disk whose guard was overridden still holds data", chosen.made.name);
    ensure!(!is_cleared(&root.path)?, "the OS is gone although disks of its host are still refused");
    print_status(&format!("the override of {} let that one go, and no other", chosen.made.name));
    Ok(())
}

/// The machine, with its data disks planted.
async fn add(lab: &mut Lab) -> anyhow::Result<Vec<Foreign>> {
    let made: Vec<ForeignDisk> = FOREIGN
        .iter()
        .map(|name| erased_before().into_iter().find(|made| made.name == *name).context(*name))
        .collect::<anyhow::Result<_>>()?;
    // The kernel names disks on virtio in the order of their slots, in every run.
    let mut plan = HostPlan::new(NAME, MachineFirmware::Bios, DiskBus::Virtio);
    plan.disks.extend(made.iter().map(|made| LabDiskPlan::plain(DiskBus::Virtio, made.bytes)));
    lab.add_machine(plan).await?;
    let disks = lab.machine(NAME)?.config().disks;
    let mut foreign = Vec::new();
    for (made, disk) in made.into_iter().zip(&disks[1..]) {
        let file = File::options().write(true).open(&disk.path).context("opening a data disk")?;
        made.write_over(&file).context("planting a data disk")?;
        let before = fs::read(&disk.path).context("reading a data disk")?;
        foreign.push(Foreign { made, serial: disk.serial.clone(), path: disk.path.clone(), before });
    }
    Ok(foreign)
}

/// A merge patch of the host.
fn patch(spec: serde_json::Value, annotations: serde_json::Value) -> String {
    yaml(&[json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "annotations": annotations}, "spec": spec,
    })])
}

/// The host's error names these disks with what they hold, and none of those that went.
async fn refused(lab: &Lab, foreign: &[Foreign], gone: &[Foreign]) -> anyhow::Result<()> {
    let is_so = |error: &str| {
        error.contains("override-guard")
            && foreign.iter().all(|disk| error.contains(&disk.serial))
            && gone.iter().all(|disk| !error.contains(&disk.serial))
    };
    let view = lab.wait_for(NAME, "the refusal of its disks", |view| is_so(view.error())).await?;
    for disk in foreign {
        let says = disk.made.expected_text();
        ensure!(view.error().contains(says), "{}: the error does not say {says:?}: {}", disk.serial, view.error());
    }
    print_status(view.error());
    Ok(())
}

fn untouched(foreign: &[Foreign], after: &str) -> anyhow::Result<()> {
    for disk in foreign {
        let now = fs::read(&disk.path).with_context(|| format!("reading {}", disk.path.display()))?;
        ensure!(now == disk.before, "{}: the disk was changed by {after}", disk.made.name);
    }
    Ok(())
}

/// What `plan` and `describe` say of the disks.
async fn shown(lab: &Lab) -> anyhow::Result<()> {
    let plan = lab.appliance.cli(&["plan", NAME]).await?;
    golden("plan", PLAN, &without_changing(&plan))?;
    let described = lab.appliance.cli(&["describe", "host", NAME]).await?;
    let disks: Vec<&str> = described
        .lines()
        .skip_while(|line| !line.starts_with("  disk "))
        .take_while(|line| line.starts_with("  disk ") || line.starts_with("    "))
        .collect();
    golden("describe", DESCRIBE, &without_changing(&(disks.join("\n") + "\n")))
}

fn golden(what: &str, expected: &str, found: &str) -> anyhow::Result<()> {
    if std::env::var_os(WRITE_GOLDEN).is_some() {
        let file = crate::artefacts::repository().join(format!("qemu/src/scenario/golden/foreign_release_{what}.txt"));
        return fs::write(&file, found).with_context(|| format!("writing {}", file.display()));
    }
    let first = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    ensure!(
        expected == found,
        "{what} is not as it was agreed (FIRESTEEL_WRITE_GOLDEN=1 writes it); the first line that differs is \
         {first:?}\n{found}"
    );
    Ok(())
}

/// Leaves out times, GUIDs and addresses of images, which are other ones in every run.
fn without_changing(text: &str) -> String {
    let is_number = |part: &str, of: &[usize]| {
        part.split('-').map(str::len).eq(of.iter().copied()) && part.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
    };
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ';', ')', '.']);
        let rest = &word[bare.len()..];
        if bare.starts_with("http://") {
            "URL".to_owned()
        } else if is_number(bare, &[8, 4, 4, 4, 12]) {
            format!("GUID{rest}")
        } else if bare.len() >= 20 && bare.ends_with('Z') && bare.as_bytes().get(10) == Some(&b'T') {
            format!("TIME{rest}")
        } else {
            word.to_owned()
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_guids_are_left_out() {
        let text = "as inspected at 2026-11-25T18:00:46Z; GPT 6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f, x-y\nimage http://10.77.0.1:1/x.raw\n";
        assert_eq!(without_changing(text), "as inspected at TIME; GPT GUID, x-y\nimage URL\n");
    }
}
