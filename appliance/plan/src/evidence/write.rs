//! Whether receipts prove that exactly a plan to write was carried out.

use firesteel_resources::host_journal::{PromisedForm, PromisedForms};

use crate::evidence::MissingProof;
use crate::host::{ReceiptFacts, ShownBootEntry, ShownHandOff, ShownReceipt, ShownWrite, WritePlan};

/// The fastest that a CPU sends bytes to one disk, in bytes a millisecond: 64 GiB/s, more than any bus of today.
const BYTES_PER_MS_MAX: u64 = (64 << 30) / 1000;
/// What an agent writes beyond the image: zeros up to a whole block, and the backup table for the disk's size, which is
/// no larger than the first MiB that holds the primary one.
const BEYOND_IMAGE_BYTES_MAX: u64 = (1 << 20) + 4096;

/// A plan to write, with what it promises.
#[derive(Clone, Copy, Debug)]
pub struct PlannedWrite<'a> {
    /// Number of the plan in its attempt.
    pub number: u32,
    pub plan: &'a WritePlan,
    /// What the OS is to be handed, as it was composed: the agent got one of them.
    pub promised: &'a [PromisedForms],
    /// The host's firmware has boot entries, by its last inspection.
    pub is_uefi: bool,
}

impl PlannedWrite<'_> {
    /// Whether the OS is handed anything.
    fn hands_off(&self) -> bool {
        self.plan.user_data_sha256.is_some()
    }

    /// Names the plan's steps in their order.
    #[must_use]
    pub fn steps(&self) -> Vec<&'static str> {
        let hands_off = self.hands_off().then_some("hand-off");
        let steps = [Some("clear-metadata"), Some("write-image"), hands_off, Some("set-boot-entry"), Some("reboot")];
        steps.into_iter().flatten().collect()
    }
}

/// A plan and its receipts, as checks look at them.
#[derive(Clone, Copy, Debug)]
struct WriteCase<'a> {
    planned: &'a PlannedWrite<'a>,
    receipts: &'a [ShownReceipt],
}

impl<'a> WriteCase<'a> {
    /// The receipts of this plan.
    fn own(&self) -> impl Iterator<Item = &'a ShownReceipt> {
        let number = self.planned.number;
        self.receipts.iter().filter(move |receipt| receipt.plan == number)
    }

    fn written(&self) -> Option<&'a ShownWrite> {
        self.own().find_map(|receipt| receipt.shows.written())
    }

    fn handed_off(&self) -> Option<&'a ShownHandOff> {
        self.own()
            .find_map(|receipt| if let ReceiptFacts::HandedOff(shown) = &receipt.shows { Some(shown) } else { None })
    }

    fn boot_entry(&self) -> Option<&'a ShownBootEntry> {
        self.own()
            .find_map(|receipt| if let ReceiptFacts::BootEntry(shown) = &receipt.shows { Some(shown) } else { None })
    }

    /// What was promised in the form that was taken, the newest last.
    fn promised(&self) -> Vec<&'a PromisedForm> {
        let form = self.handed_off().map(|shown| &shown.form);
        form.map(|form| self.planned.promised.iter().filter_map(|forms| forms.get(form)).collect()).unwrap_or_default()
    }
}

/// A check by its name; what it finds missing, in words.
#[derive(Clone, Copy, Debug)]
struct WriteCheck {
    name: &'static str,
    finds: fn(&WriteCase<'_>) -> Option<String>,
}

/// Everything that a write has to show. Each check looks at one thing; what is not there at all is found by the checks
/// of receipts.
const WRITE_CHECKS: [WriteCheck; 25] = [
    WriteCheck { name: "written", finds: written },
    WriteCheck { name: "signed", finds: signed },
    WriteCheck { name: "disk", finds: disk },
    WriteCheck { name: "device", finds: device },
    WriteCheck { name: "stream-digest", finds: stream_digest },
    WriteCheck { name: "stream-length", finds: stream_length },
    WriteCheck { name: "raw-digest", finds: raw_digest },
    WriteCheck { name: "raw-length", finds: raw_length },
    WriteCheck { name: "read-back-digest", finds: read_back_digest },
    WriteCheck { name: "read-back-length", finds: read_back_length },
    WriteCheck { name: "written-length", finds: written_length },
    WriteCheck { name: "mark", finds: mark },
    WriteCheck { name: "write-time", finds: write_time },
    WriteCheck { name: "read-back-time", finds: read_back_time },
    WriteCheck { name: "work-time", finds: work_time },
    WriteCheck { name: "cleared", finds: cleared },
    WriteCheck { name: "hand-off", finds: hand_off },
    WriteCheck { name: "hand-off-disk", finds: hand_off_disk },
    WriteCheck { name: "promised", finds: promised },
    WriteCheck { name: "form", finds: form },
    WriteCheck { name: "files", finds: files },
    WriteCheck { name: "arguments", finds: arguments },
    WriteCheck { name: "boot-entry", finds: boot_entry },
    WriteCheck { name: "order", finds: order },
    WriteCheck { name: "times", finds: times },
];

/// Judges what receipts show of a plan to write. Nothing missing means proven.
#[must_use]
pub fn judge_write(planned: &PlannedWrite<'_>, receipts: &[ShownReceipt]) -> Vec<MissingProof> {
    judge_with(planned, receipts, |_| true)
}

fn judge_with(
    planned: &PlannedWrite<'_>,
    receipts: &[ShownReceipt],
    is_asked: impl Fn(&WriteCheck) -> bool,
) -> Vec<MissingProof> {
    let case = WriteCase { planned, receipts };
    let asked = WRITE_CHECKS.iter().filter(|check| is_asked(check));
    asked.filter_map(|check| (check.finds)(&case).map(|text| MissingProof { check: check.name, text })).collect()
}

fn written(case: &WriteCase<'_>) -> Option<String> {
    case.written().is_none().then(|| "there is no receipt of the written image".to_owned())
}

fn signed(case: &WriteCase<'_>) -> Option<String> {
    let unsigned = case.own().find(|receipt| !receipt.is_signed)?;
    Some(format!("the stored receipt of {} does not bear the appliance's signature", unsigned.step))
}

fn disk(case: &WriteCase<'_>) -> Option<String> {
    let shown = &case.written()?.disk;
    (*shown != case.planned.plan.disk).then(|| format!("the image was written to another disk ({shown})"))
}

fn device(case: &WriteCase<'_>) -> Option<String> {
    case.written()?.device.is_empty().then(|| "the receipt names no device that was written".to_owned())
}

fn stream_digest(case: &WriteCase<'_>) -> Option<String> {
    differs("the stream's sha256", &case.written()?.stream_sha256, &case.planned.plan.image.stream_sha256)
}

fn stream_length(case: &WriteCase<'_>) -> Option<String> {
    differs("the stream's length", &case.written()?.stream_bytes, &case.planned.plan.image.stream_bytes)
}

fn raw_digest(case: &WriteCase<'_>) -> Option<String> {
    differs("the image's sha256", &case.written()?.raw_sha256, &case.planned.plan.image.raw_sha256)
}

fn raw_length(case: &WriteCase<'_>) -> Option<String> {
    differs("the image's length", &case.written()?.raw_bytes, &case.planned.plan.image.raw_bytes)
}

fn read_back_digest(case: &WriteCase<'_>) -> Option<String> {
    differs("the sha256 that was read back", &case.written()?.readback_sha256, &case.planned.plan.image.raw_sha256)
}

fn read_back_length(case: &WriteCase<'_>) -> Option<String> {
    differs("the length that was read back", &case.written()?.readback_bytes, &case.planned.plan.image.raw_bytes)
}

/// Blocks of zeros are left out on a disk that was cleared, so less than the image may be written, and never nothing.
fn written_length(case: &WriteCase<'_>) -> Option<String> {
    let (written, most) =
        (case.written()?.written_bytes, case.planned.plan.image.raw_bytes.saturating_add(BEYOND_IMAGE_BYTES_MAX));
    (written == 0 || written > most).then(|| format!("{written} bytes went to the medium, of 1 to {most}"))
}

fn mark(case: &WriteCase<'_>) -> Option<String> {
    differs("the mark of the installation", &case.written()?.disk_guid, &case.planned.plan.disk_guid)
}

fn write_time(case: &WriteCase<'_>) -> Option<String> {
    let shown = case.written()?;
    impossible("writing", shown.written_bytes, shown.write_ms)
}

fn read_back_time(case: &WriteCase<'_>) -> Option<String> {
    let shown = case.written()?;
    impossible("reading back", shown.readback_bytes, shown.readback_ms)
}

/// Writing and reading back are both done inside the step, by the clock that the step is measured with.
fn work_time(case: &WriteCase<'_>) -> Option<String> {
    let shown = case.written()?;
    let receipt = case.own().find(|receipt| matches!(receipt.shows, ReceiptFacts::Written(_)))?;
    let (began, ended) = receipt.span?;
    let (work, step) = (shown.write_ms.saturating_add(shown.readback_ms), ended.saturating_sub(began));
    // Each of the three is cut to a whole millisecond.
    (work > step.saturating_add(1)).then(|| format!("the work of {work} ms does not fit into its step of {step} ms"))
}

fn cleared(case: &WriteCase<'_>) -> Option<String> {
    let asked = &case.planned.plan.disk;
    let is_it =
        |shows: &ReceiptFacts| matches!(shows, ReceiptFacts::Cleared { disk, verified_bytes: 1.. } if disk == asked);
    let found = case.own().any(|receipt| is_it(&receipt.shows));
    (!found).then(|| "there is no receipt that the disk's old tables were cleared and read back".to_owned())
}

fn hand_off(case: &WriteCase<'_>) -> Option<String> {
    match (case.planned.hands_off(), case.handed_off()) {
        (true, None) => Some("there is no receipt of the files that the OS was to be handed".to_owned()),
        (false, Some(_)) => Some("files were handed over that the plan does not have".to_owned()),
        (true, Some(_)) | (false, None) => None,
    }
}

fn hand_off_disk(case: &WriteCase<'_>) -> Option<String> {
    let shown = &case.handed_off()?.disk;
    (*shown != case.planned.plan.disk).then(|| format!("files were handed over on another disk ({shown})"))
}

/// Checks that what the plan promises is on record: it is stored before the agent gets the plan.
fn promised(case: &WriteCase<'_>) -> Option<String> {
    let is_unknown = case.planned.hands_off() && case.planned.promised.is_empty();
    is_unknown.then(|| "it is not on record what the OS was to be handed by this plan".to_owned())
}

fn form(case: &WriteCase<'_>) -> Option<String> {
    let shown = case.handed_off()?;
    let is_known = case.planned.promised.is_empty() || !case.promised().is_empty();
    (!is_known).then(|| format!("the OS was handed its files in a form that the plan does not have ({:?})", shown.form))
}

/// Each promised file as it was promised, under its path. An agent may hand over more: what it says of itself.
fn files(case: &WriteCase<'_>) -> Option<String> {
    let (promised, shown) = (case.promised(), case.handed_off()?);
    let missing = |form: &PromisedForm| form.files.iter().find(|file| !shown.files.contains(file)).cloned();
    if promised.iter().any(|form| missing(form).is_none()) {
        return None;
    }
    let missing = missing(promised.last()?)?;
    let is_there = shown.files.iter().any(|file| file.path == missing.path);
    let why = if is_there { "has another content than was promised" } else { "was not handed over" };
    Some(format!("{} {why}", missing.path))
}

fn arguments(case: &WriteCase<'_>) -> Option<String> {
    let is_promised = case.promised().last()?.arguments;
    let has_none = case.handed_off()?.loader_files == 0;
    (is_promised && has_none).then(|| "no file of the boot loader has the kernel arguments of the plan".to_owned())
}

fn boot_entry(case: &WriteCase<'_>) -> Option<String> {
    let Some(ShownBootEntry { method, entry, order }) = case.boot_entry() else {
        return Some("there is no receipt of the boot entry".to_owned());
    };
    // Firmware that was inspected as a BIOS may boot by UEFI now; the other way round nothing finds the disk.
    if !case.planned.is_uefi && method == "none" {
        return None;
    }
    if method != "uefi" {
        return Some(format!("no boot entry was set: {entry}"));
    }
    let number = entry.split(' ').next().and_then(|name| name.strip_prefix("Boot"));
    let is_in_order = number.is_some_and(|number| order.split(',').any(|other| other.eq_ignore_ascii_case(number)));
    (!is_in_order).then(|| format!("the boot entry {entry} does not stand in the boot order {order}"))
}

/// One receipt for each step up to the boot entry, under its place; the agent may be gone before it reports the reboot.
fn order(case: &WriteCase<'_>) -> Option<String> {
    let steps = case.planned.steps();
    let mut at: Vec<(u32, &str)> = case.own().map(|receipt| (receipt.index, receipt.step.as_str())).collect();
    at.sort_unstable();
    let wanted: Vec<(u32, &str)> = (0_u32..).zip(steps.iter().copied()).collect();
    let told = at.len().clamp(wanted.len() - 1, wanted.len());
    (at != wanted[..told]).then(|| format!("the receipts are of the steps {at:?}, and the plan has {wanted:?}"))
}

/// A step begins when the one before it has ended.
fn times(case: &WriteCase<'_>) -> Option<String> {
    let mut spans: Vec<(u32, (u64, u64))> =
        case.own().filter_map(|receipt| Some((receipt.index, receipt.span?))).collect();
    spans.sort_unstable();
    let backwards = spans.iter().find(|(_, (began, ended))| began > ended);
    let overlaps = spans.windows(2).find(|pair| pair[0].1.1 > pair[1].1.0);
    let index = backwards.map(|(index, _)| *index).or_else(|| overlaps.map(|pair| pair[1].0))?;
    Some(format!("step {index} began before it could, by the agent's own clock"))
}

fn differs<T: PartialEq + std::fmt::Display>(what: &str, shown: &T, planned: &T) -> Option<String> {
    (shown != planned).then(|| format!("{what} is {shown}, and the plan has {planned}"))
}

fn impossible(what: &str, bytes: u64, milliseconds: u64) -> Option<String> {
    // What takes less than a millisecond is reported as 0.
    let most = milliseconds.saturating_add(1).saturating_mul(BYTES_PER_MS_MAX);
    (bytes > most).then(|| format!("{what} {bytes} bytes in {milliseconds} ms is faster than any bus"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use firesteel_resources::host_journal::HandedFile;

    use super::*;
    use crate::{DiskIdentity, host::ReadyImage};

    const NUMBER: u32 = 3;

    fn disk_of(serial: &str) -> DiskIdentity {
        DiskIdentity { serial: serial.into(), size_bytes: 8 << 30, ..DiskIdentity::default() }
    }

    fn file(path: &str, digit: &str) -> HandedFile {
        HandedFile { path: path.into(), bytes: 12, sha256: digit.repeat(64) }
    }

    fn plan() -> WritePlan {
        WritePlan {
            disk: disk_of("A"),
            disk_guid: "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".into(),
            image: ReadyImage {
                raw_sha256: "1".repeat(64),
                raw_bytes: 100 << 30,
                stream_sha256: "2".repeat(64),
                stream_bytes: 30 << 30,
            },
            user_data_sha256: Some("3".repeat(64)),
            configs: Vec::new(),
            override_guards: false,
        }
    }

    fn promised() -> PromisedForms {
        let on_boot = vec![file("ignition/config.ign", "4"), file("firesteel/ca.crt", "5")];
        PromisedForms::from([
            ("boot_partition".to_owned(), PromisedForm { files: on_boot, arguments: true }),
            (
                "config_drive".to_owned(),
                PromisedForm { files: vec![file("openstack/latest/user_data", "4")], arguments: false },
            ),
        ])
    }

    /// What an honest agent shows.
    fn good() -> Vec<ShownReceipt> {
        let receipt = |index: u32, step: &str, shows: ReceiptFacts| ShownReceipt {
            plan: NUMBER,
            index,
            step: step.into(),
            span: Some((u64::from(index) * 100_000, u64::from(index) * 100_000 + 90_000)),
            is_signed: true,
            shows,
        };
        let image = plan().image;
        let written = ShownWrite {
            disk: disk_of("A"),
            device: "/dev/nvme0n1".into(),
            stream_sha256: image.stream_sha256,
            stream_bytes: image.stream_bytes,
            raw_sha256: image.raw_sha256.clone(),
            raw_bytes: image.raw_bytes,
            written_bytes: 40 << 30,
            readback_sha256: image.raw_sha256,
            readback_bytes: image.raw_bytes,
            disk_guid: plan().disk_guid,
            write_ms: 20_000,
            readback_ms: 20_000,
        };
        let files = vec![file("ignition/config.ign", "4"), file("firesteel/ca.crt", "5"), file("extra", "6")];
        let handed_off = ShownHandOff { disk: disk_of("A"), form: "boot_partition".into(), files, loader_files: 1 };
        let entry = ShownBootEntry { method: "uefi".into(), entry: "Boot0007 HD(1)".into(), order: "0003,0007".into() };
        vec![
            receipt(0, "clear-metadata", ReceiptFacts::Cleared { disk: disk_of("A"), verified_bytes: 1 << 20 }),
            receipt(1, "write-image", ReceiptFacts::Written(written)),
            receipt(2, "hand-off", ReceiptFacts::HandedOff(handed_off)),
            receipt(3, "set-boot-entry", ReceiptFacts::BootEntry(entry)),
            receipt(4, "reboot", ReceiptFacts::Leaving),
        ]
    }

    fn judged(receipts: &[ShownReceipt], without: &str, is_uefi: bool) -> Vec<&'static str> {
        let (plan, promised) = (plan(), [promised()]);
        let planned = PlannedWrite { number: NUMBER, plan: &plan, promised: &promised, is_uefi };
        let missing = judge_with(&planned, receipts, |check| check.name != without);
        assert!(missing.iter().all(|missing| !missing.text.is_empty()));
        missing.into_iter().map(|missing| missing.check).collect()
    }

    fn write(receipts: &mut [ShownReceipt]) -> &mut ShownWrite {
        match &mut receipts[1].shows {
            ReceiptFacts::Written(shown) => shown,
            _ => unreachable!("the second receipt is of the write"),
        }
    }

    fn hand(receipts: &mut [ShownReceipt]) -> &mut ShownHandOff {
        match &mut receipts[2].shows {
            ReceiptFacts::HandedOff(shown) => shown,
            _ => unreachable!("the third receipt is of the hand-off"),
        }
    }

    fn entry(receipts: &mut [ShownReceipt]) -> &mut ShownBootEntry {
        match &mut receipts[3].shows {
            ReceiptFacts::BootEntry(shown) => shown,
            _ => unreachable!("the fourth receipt is of the boot entry"),
        }
    }

    type Alteration = fn(&mut Vec<ShownReceipt>);

    /// Each alteration of a good run, and the one check that finds it: without that check it would pass.
    const ALTERED: [(&str, &str, Alteration); 36] = [
        ("a receipt that is not signed", "signed", |shown| shown[0].is_signed = false),
        ("another disk", "disk", |shown| write(shown).disk = disk_of("B")),
        ("another size of the disk", "disk", |shown| write(shown).disk.size_bytes += 512),
        ("no device", "device", |shown| write(shown).device.clear()),
        ("another stream", "stream-digest", |shown| write(shown).stream_sha256 = "9".repeat(64)),
        ("no digest of the stream", "stream-digest", |shown| write(shown).stream_sha256.clear()),
        ("half a stream", "stream-length", |shown| write(shown).stream_bytes /= 2),
        ("no stream", "stream-length", |shown| write(shown).stream_bytes = 0),
        ("another image", "raw-digest", |shown| write(shown).raw_sha256 = "9".repeat(64)),
        ("half an image", "raw-length", |shown| write(shown).raw_bytes /= 2),
        ("another image read back", "read-back-digest", |shown| write(shown).readback_sha256 = "9".repeat(64)),
        ("nothing read back", "read-back-length", |shown| write(shown).readback_bytes = 0),
        ("a byte less read back", "read-back-length", |shown| write(shown).readback_bytes -= 1),
        ("nothing written", "written-length", |shown| write(shown).written_bytes = 0),
        ("more written than there is", "written-length", |shown| write(shown).written_bytes = 200 << 30),
        ("another mark", "mark", |shown| write(shown).disk_guid = "9".repeat(36)),
        ("written in no time", "write-time", |shown| write(shown).write_ms = 0),
        ("read back in no time", "read-back-time", |shown| write(shown).readback_ms = 0),
        ("more work than its step has time for", "work-time", |shown| shown[1].span = Some((100_000, 139_998))),
        ("cleared on another disk", "cleared", |shown| {
            shown[0].shows = ReceiptFacts::Cleared { disk: disk_of("B"), verified_bytes: 1 };
        }),
        ("nothing cleared", "cleared", |shown| {
            shown[0].shows = ReceiptFacts::Cleared { disk: disk_of("A"), verified_bytes: 0 };
        }),
        ("files on another disk", "hand-off-disk", |shown| hand(shown).disk = disk_of("B")),
        ("another form", "form", |shown| hand(shown).form = "no_cloud".into()),
        ("no file", "files", |shown| hand(shown).files.clear()),
        ("a file that is missing", "files", |shown| drop(hand(shown).files.remove(1))),
        ("a file with another content", "files", |shown| hand(shown).files[0].sha256 = "9".repeat(64)),
        ("a file that is cut", "files", |shown| hand(shown).files[0].bytes -= 1),
        ("a file at another path", "files", |shown| hand(shown).files[0].path.push('x')),
        ("no kernel arguments", "arguments", |shown| hand(shown).loader_files = 0),
        ("no boot entry set", "boot-entry", |shown| entry(shown).method = "none".into()),
        ("a boot entry without a name", "boot-entry", |shown| entry(shown).entry.clear()),
        ("a boot entry that is in no order", "boot-entry", |shown| entry(shown).order = "0003".into()),
        ("a step under another name", "order", |shown| shown[3].step = "reboot".into()),
        ("a receipt twice", "order", |shown| shown.push(ShownReceipt { span: None, ..shown[1].clone() })),
        ("a step that begins before the one before it ended", "times", |shown| {
            shown[2].span = Some((150_000, 290_000))
        }),
        ("a step that ends before it begins", "times", |shown| shown[4].span = Some((490_000, 480_000))),
    ];

    #[test]
    fn a_good_run_is_proven() {
        assert_eq!(judged(&good(), "", true), [""; 0]);
        let mut without_the_last = good();
        without_the_last.pop();
        assert_eq!(judged(&without_the_last, "", true), [""; 0], "the reboot may end before it is told");
    }

    /// Each check, removed, turns a named case red.
    #[test]
    fn each_alteration_is_found_by_one_check_and_by_no_other() {
        let mut used = Vec::new();
        for (what, check, alter) in ALTERED {
            let mut altered = good();
            alter(&mut altered);
            assert_eq!(judged(&altered, "", true), [check], "{what}");
            assert_eq!(judged(&altered, check, true), [""; 0], "{what}, without its check");
            used.push(check);
        }
        for check in WRITE_CHECKS.iter().filter(|check| !matches!(check.name, "written" | "hand-off" | "promised")) {
            assert!(used.contains(&check.name), "no alteration is found by {}", check.name);
        }
    }

    #[test]
    fn each_limit_may_be_reached_and_not_passed() {
        let limits: [(&str, Alteration, &[&str]); 10] = [
            ("the backup table beyond", |shown| write(shown).written_bytes = (100 << 30) + 1_052_672, &[]),
            ("more than that", |shown| write(shown).written_bytes = (100 << 30) + 1_052_673, &["written-length"]),
            ("64 GiB/s", |shown| (write(shown).written_bytes, write(shown).write_ms) = (68_719_476, 0), &[]),
            (
                "faster than that",
                |shown| (write(shown).written_bytes, write(shown).write_ms) = (68_719_477, 0),
                &["write-time"],
            ),
            ("times that were cut", |shown| shown[1].span = Some((100_000, 139_999)), &[]),
            ("a step that is shorter", |shown| shown[1].span = Some((100_000, 139_998)), &["work-time"]),
            ("a step right after another", |shown| shown[2].span = Some((190_000, 290_000)), &[]),
            ("a step before the end of another", |shown| shown[2].span = Some((189_999, 290_000)), &["times"]),
            ("a step of no time", |shown| shown[4].span = Some((490_000, 490_000)), &[]),
            ("a step of less than no time", |shown| shown[4].span = Some((490_000, 489_999)), &["times"]),
        ];
        for (what, alter, found) in limits {
            let mut altered = good();
            alter(&mut altered);
            assert_eq!(judged(&altered, "", true), *found, "{what}");
        }
    }

    #[test]
    fn a_file_that_is_not_as_promised_is_named_with_what_is_wrong() {
        let (plan, promised) = (plan(), [promised()]);
        let planned = PlannedWrite { number: NUMBER, plan: &plan, promised: &promised, is_uefi: true };
        let cases: [(Alteration, &str); 2] = [
            (|shown| drop(hand(shown).files.remove(1)), "firesteel/ca.crt was not handed over"),
            (
                |shown| hand(shown).files[0].sha256 = "9".repeat(64),
                "ignition/config.ign has another content than was promised",
            ),
        ];
        for (alter, text) in cases {
            let mut altered = good();
            alter(&mut altered);
            assert_eq!(judge_write(&planned, &altered), [MissingProof { check: "files", text: text.to_owned() }]);
        }
    }

    #[test]
    fn a_receipt_that_is_not_there_is_named() {
        for (index, check) in [(0, "cleared"), (1, "written"), (2, "hand-off"), (3, "boot-entry")] {
            let mut less = good();
            less.remove(index);
            let found = judged(&less, "", true);
            assert!(found.contains(&check) && found.contains(&"order"), "{index}: {found:?}");
        }
        let of_another: Vec<_> = good().into_iter().map(|shown| ShownReceipt { plan: NUMBER - 1, ..shown }).collect();
        assert!(judged(&of_another, "", true).contains(&"written"), "receipts of another plan");
        assert!(judged(&[], "", true).contains(&"written"));
    }

    #[test]
    fn firmware_without_entries_has_none() {
        let mut bios = good();
        *entry(&mut bios) = ShownBootEntry { method: "none".into(), entry: "BIOS".into(), order: String::new() };
        assert_eq!(judged(&bios, "", false), [""; 0]);
        assert_eq!(judged(&good(), "", false), [""; 0], "it boots by UEFI since");
        assert_eq!(judged(&bios, "", true), ["boot-entry"]);
    }

    #[test]
    fn an_os_that_is_handed_nothing_shows_nothing_of_it() {
        let plan = WritePlan { user_data_sha256: None, ..plan() };
        let planned = PlannedWrite { number: NUMBER, plan: &plan, promised: &[], is_uefi: true };
        let mut less = good();
        less.remove(2);
        (less[2].index, less[3].index) = (2, 3);
        assert_eq!(judge_write(&planned, &less), []);
        let found = judge_write(&planned, &good());
        assert!(found.iter().any(|missing| missing.check == "hand-off"), "{found:?}");
    }

    /// A restart composes a plan again, with other tokens.
    #[test]
    fn files_are_those_of_one_composition_whole() {
        let (plan, mut later) = (plan(), promised());
        for form in later.values_mut() {
            form.files.iter_mut().for_each(|file| file.sha256 = "7".repeat(64));
        }
        let found = |promised: &[PromisedForms], receipts: &[ShownReceipt]| {
            let planned = PlannedWrite { number: NUMBER, plan: &plan, promised, is_uefi: true };
            judge_write(&planned, receipts).into_iter().map(|missing| missing.check).collect::<Vec<_>>()
        };
        assert_eq!(found(&[later.clone(), promised()], &good()), [""; 0]);
        assert_eq!(found(&[promised(), later.clone()], &good()), [""; 0]);
        let mut mixed = good();
        hand(&mut mixed).files[0].sha256 = "7".repeat(64);
        assert_eq!(found(&[promised(), later], &mixed), ["files"], "half of one and half of the other");
        assert_eq!(found(&[], &good()), ["promised"], "nothing is on record");
    }
}
