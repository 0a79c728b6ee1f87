//! What a receipt says: one disk that was erased, cleared or written, in the appliance's words. The field's
//! names never change; another meaning is another [`FORM`].

use firesteel_resources::host_journal::AgentBinding;
use firesteel_wire::{self as wire, Evidence, erasure::ErasureEvidence};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::grading::{self, UNVERIFIED};
use crate::map;

/// First member of every receipt; a number that is not ours is a newer program's.
pub const FORM: &str = "firesteel.dev/receipt/v2";
/// Receipts of this form say nothing of the boot; they are read as ever.
pub const FORM_WITHOUT_BOOT: &str = "firesteel.dev/receipt/v1";
/// Most entries of each list that a host sends; a ladder has ten rungs, and a guard finds some dozen things.
const LIST_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptDocument {
    /// [`FORM`].
    pub receipt: String,
    /// sha256 of the public key (32 bytes) that it is signed for, hexadecimal.
    pub key_sha256: String,
    pub host: ReceiptHost,
    /// The boot of the host, counted from 1.
    pub attempt: u64,
    /// Number of the plan in that boot, and of the step in the plan.
    pub plan: u32,
    pub step: u32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// The time by the appliance's clock.
    pub received_at: Timestamp,
    pub agent: Agent,
    /// What the appliance saw of the boot; in every receipt but those of [`FORM_WITHOUT_BOOT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<ObservedBoot>,
    pub disk: ReceiptDisk,
    pub done: ReceiptAction,
    /// What could not be verified or was not reached, in words.
    pub unverified: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptHost {
    pub namespace: String,
    pub name: String,
    /// Names the object: another host of the same name has another one.
    pub uid: String,
    /// Lower-case SMBIOS UUID and serial number as last inspected; empty where unknown.
    pub smbios_uuid: String,
    pub serial: String,
}

/// The program that did it. What it says of itself is not proven: a host can run another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agent {
    pub version: String,
    /// sha256 of its binary, hexadecimal; empty where it did not say.
    pub sha256: String,
    /// Ed25519 key that signed its reports, hexadecimal.
    pub key: String,
    pub kernel: String,
    pub boot_id: String,
}

/// What the appliance saw itself of the boot in which a step was carried out. Empty where there is no record of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObservedBoot {
    /// Address that got the token, and why it counts as the host: `lease` or `first-asker`.
    pub address: String,
    pub by: String,
    /// sha256 of the files that were sent for the token, hexadecimal.
    pub kernel_sha256: String,
    pub initramfs_sha256: String,
    /// sha256 of the agent in that initramfs, as its manifest says.
    pub agent_sha256: String,
    /// What the BMC showed of the host's power, where an erasure has come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<ObservedPower>,
    /// What was not seen, in words.
    pub not_seen: Vec<String>,
}

/// When the BMC showed that the host was off: before it booted for an erasure, and after its agent had left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObservedPower {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_after: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptDisk {
    pub model: String,
    pub serial: String,
    pub wwn: String,
    pub size_bytes: u64,
    /// The path, where the disk has no identity of its own and its owner named it so.
    pub by_path: String,
    /// The kernel's name in that boot; another disk may have it in the next one.
    pub device: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ReceiptAction {
    Erased(ReceiptErasure),
    MetadataCleared(ReceiptClearing),
    ImageWritten(ReceiptWrite),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptErasure {
    /// `metadata`, `quick` or `full`, as the plan asked.
    pub policy: String,
    pub method: String,
    /// `purge`, `clear` or `none`, by NIST SP 800-88; [`super::grading::UNVERIFIED`] where the one who erased may not
    /// be the host.
    pub grade: String,
    /// The grade that the agent claims, where it is not proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<String>,
    /// What the drive says of it, its log in hexadecimal where it keeps one.
    pub drive_log: Vec<String>,
    pub samples: ReceiptSamples,
    pub tried: Vec<ReceiptTriedMethod>,
    pub left_out: Vec<ReceiptTriedMethod>,
    /// What a guard found and the owner overrode.
    pub overridden: Vec<String>,
}

/// Counts sectors of 512 bytes; see the agent's protocol for what each proves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptSamples {
    pub told_before: u64,
    pub blank_before: u64,
    pub canaries: u64,
    pub read_back: u64,
    pub blank_after: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptTriedMethod {
    pub method: String,
    /// How it ended, or why it was not tried.
    pub why: String,
    /// It reported success, and the medium said otherwise.
    pub lied: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptClearing {
    pub cleared: Vec<String>,
    pub read_back_bytes: u64,
    /// What a guard found and the owner overrode; absent where there was nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptWrite {
    pub raw_sha256: String,
    pub raw_bytes: u64,
    pub stream_sha256: String,
    pub written_bytes: u64,
    /// The digest of the image as it was read back from the medium.
    pub readback_sha256: String,
    pub readback_bytes: u64,
    pub disk_guid: String,
    /// What a guard found and the owner overrode; absent where there was nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
}

/// What is known of a receipt beside what the agent sent.
#[derive(Clone, Debug)]
pub(crate) struct ReceiptContext<'a> {
    pub(crate) host: ReceiptHost,
    pub(crate) attempt: u64,
    pub(crate) agent: Option<&'a AgentBinding>,
    pub(crate) boot: ObservedBoot,
    pub(crate) key_sha256: String,
    pub(crate) received_at: Timestamp,
}

/// The document of a step that changed a disk; `None` for other steps. Texts of the host are cut and cleaned.
pub(crate) fn document(frame: &ReceiptContext<'_>, receipt: &wire::StepReceipt) -> Option<ReceiptDocument> {
    let (disk, done, unverified) = work(&receipt.evidence)?;
    let mut made = ReceiptDocument {
        receipt: FORM.to_owned(),
        key_sha256: frame.key_sha256.clone(),
        host: frame.host.clone(),
        attempt: frame.attempt,
        plan: receipt.plan,
        step: receipt.index,
        started_at: at(receipt.started_ms, frame.received_at),
        ended_at: at(receipt.ended_ms, frame.received_at),
        received_at: frame.received_at,
        agent: agent(frame.agent.cloned().unwrap_or_default()),
        boot: Some(frame.boot.clone()),
        disk,
        done,
        unverified,
    };
    grading::lower(&mut made);
    Some(made)
}

/// Says what was done to which disk, and what it leaves; `None` for a step that changes no disk.
fn work(evidence: &Evidence) -> Option<(ReceiptDisk, ReceiptAction, Vec<String>)> {
    Some(match evidence {
        Evidence::DiskErased(erasure) => {
            (disk(&erasure.disk, &erasure.device), ReceiptAction::Erased(erased(erasure)), fields(&erasure.unverified))
        }
        Evidence::MetadataCleared { disk: named, device, cleared, verified_bytes, overridden } => {
            let (cleared, overridden) = (fields(cleared), fields(overridden));
            let done = ReceiptClearing { cleared, read_back_bytes: *verified_bytes, overridden };
            let rest = "the data of the disk was not erased".to_owned();
            (disk(named, device), ReceiptAction::MetadataCleared(done), vec![rest])
        }
        Evidence::ImageWritten {
            disk: named,
            device,
            stream_sha256,
            raw_sha256,
            raw_bytes,
            written_bytes,
            readback_sha256,
            readback_bytes,
            disk_guid,
            overridden,
            ..
        } => {
            let done = ReceiptWrite {
                raw_sha256: map::field(raw_sha256),
                raw_bytes: *raw_bytes,
                stream_sha256: map::field(stream_sha256),
                written_bytes: *written_bytes,
                readback_sha256: map::field(readback_sha256),
                readback_bytes: *readback_bytes,
                disk_guid: map::field(disk_guid),
                overridden: fields(overridden),
            };
            let rest = "what lies behind the image was not written".to_owned();
            (disk(named, device), ReceiptAction::ImageWritten(done), vec![rest])
        }
        Evidence::Inspected { .. }
        | Evidence::FilesHandedOff { .. }
        | Evidence::BootEntrySet { .. }
        | Evidence::Leaving { .. } => return None,
    })
}

fn agent(binding: AgentBinding) -> Agent {
    Agent {
        version: binding.agent_version,
        sha256: binding.program_sha256,
        key: binding.key,
        kernel: binding.kernel_version,
        boot_id: binding.boot_id,
    }
}

fn at(milliseconds: u64, received_at: Timestamp) -> Timestamp {
    i64::try_from(milliseconds).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or(received_at)
}

fn disk(disk: &wire::DiskIdentity, device: &str) -> ReceiptDisk {
    ReceiptDisk {
        model: map::field(&disk.model),
        serial: map::field(&disk.serial),
        wwn: map::field(&disk.wwn),
        size_bytes: disk.size_bytes,
        by_path: map::field(&disk.by_path),
        device: map::field(device),
    }
}

fn fields(texts: &[String]) -> Vec<String> {
    texts.iter().take(LIST_MAX).map(|text| map::field(text)).collect()
}

fn erased(erasure: &ErasureEvidence) -> ReceiptErasure {
    ReceiptErasure {
        policy: erasure.policy.name().to_owned(),
        method: map::field(&erasure.method),
        grade: grade_name(erasure.grade).to_owned(),
        claimed: None,
        // A sanitize log has 512 bytes, so 1024 digits.
        drive_log: erasure.drive_log.iter().take(LIST_MAX).map(|line| map::line(line)).collect(),
        samples: ReceiptSamples {
            told_before: erasure.samples.told_before,
            blank_before: erasure.samples.blank_before,
            canaries: erasure.samples.canaries,
            read_back: erasure.samples.read_back,
            blank_after: erasure.samples.blank_after,
        },
        tried: (erasure.tried.iter().take(LIST_MAX))
            .map(|tried| ReceiptTriedMethod {
                method: map::field(&tried.method),
                why: map::field(&tried.ended),
                lied: tried.lied,
            })
            .collect(),
        left_out: (erasure.left_out.iter().take(LIST_MAX))
            .map(|left| ReceiptTriedMethod {
                method: map::field(&left.method),
                why: map::field(&left.why),
                lied: false,
            })
            .collect(),
        overridden: fields(&erasure.overridden),
    }
}

fn grade_name(grade: wire::erasure::Grade) -> &'static str {
    match grade {
        wire::erasure::Grade::None => "none",
        wire::erasure::Grade::Clear => "clear",
        wire::erasure::Grade::Purge => "purge",
    }
}

impl ReceiptDocument {
    /// What the appliance did not see of the boot, in words.
    #[must_use]
    pub fn not_seen(&self) -> Vec<String> {
        let nothing = || vec!["anything of the boot: receipts of this form do not say it".to_owned()];
        self.boot.as_ref().map_or_else(nothing, |boot| boot.not_seen.clone())
    }

    /// What it proves, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let what = match &self.done {
            ReceiptAction::Erased(erased) if erased.grade == "none" => {
                format!("not erased ({}): neither clear nor purge by NIST SP 800-88", erased.method)
            }
            ReceiptAction::Erased(erased) if erased.grade == UNVERIFIED => format!(
                "erased by {}, as its agent says: unverified, {} sectors read back",
                erased.method, erased.samples.read_back
            ),
            ReceiptAction::Erased(erased) => format!(
                "erased by {}, grade {} by NIST SP 800-88, {} sectors read back",
                erased.method, erased.grade, erased.samples.read_back
            ),
            ReceiptAction::MetadataCleared(cleared) => {
                format!("tables and signatures cleared, {} bytes read back as zero", cleared.read_back_bytes)
            }
            ReceiptAction::ImageWritten(written) if written.raw_sha256 == written.readback_sha256 => format!(
                "an image of {} bytes written and read back, sha256 {}",
                written.raw_bytes, written.readback_sha256
            ),
            ReceiptAction::ImageWritten(written) => format!(
                "an image written, and something else read back: sha256 {} instead of {}",
                written.readback_sha256, written.raw_sha256
            ),
        };
        format!("{}: {what}", self.disk.describe())
    }

    /// `erased`, `metadata` or `image`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.done {
            ReceiptAction::Erased(_) => "erased",
            ReceiptAction::MetadataCleared(_) => "metadata",
            ReceiptAction::ImageWritten(_) => "image",
        }
    }

    /// What a guard found and the owner overrode.
    #[must_use]
    pub fn overridden(&self) -> &[String] {
        match &self.done {
            ReceiptAction::Erased(erased) => &erased.overridden,
            ReceiptAction::MetadataCleared(cleared) => &cleared.overridden,
            ReceiptAction::ImageWritten(written) => &written.overridden,
        }
    }

    /// The grade of an erasure; empty for anything else.
    #[must_use]
    pub fn grade(&self) -> &str {
        match &self.done {
            ReceiptAction::Erased(erased) => &erased.grade,
            ReceiptAction::MetadataCleared(_) | ReceiptAction::ImageWritten(_) => "",
        }
    }
}

impl ReceiptDisk {
    /// The disk by what it says of itself.
    #[must_use]
    pub fn describe(&self) -> String {
        let named = [("model", &self.model), ("serial", &self.serial), ("wwn", &self.wwn), ("path", &self.by_path)];
        let mut words: Vec<String> = named
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        words.push(format!("{} bytes", self.size_bytes));
        words.join(", ")
    }
}
