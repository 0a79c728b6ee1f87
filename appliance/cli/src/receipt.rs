//! `firesteel receipt list|export|key|verify`. To verify takes no appliance, but only a receipt file and the public key
//! that the appliance's owner published.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use firesteel_control::receipts::document::{ReceiptAction, ReceiptDocument};
use firesteel_control::receipts::file::{FILE_BYTES_MAX, KEY_BYTES_MAX, fingerprint, read_public_pem, verify};
use firesteel_control::receipts::grading::UNVERIFIED;
use firesteel_resources::{Receipt, receipt::HOST_LABEL};
use jiff::Timestamp;
use serde_json::Value;

use super::table::{self, TableRow, TextTable, clean};
use super::usage::wrong_use;
use super::{ApiClient, ConnectionOptions, OutputFormat, kinds, print_text};

#[derive(Debug, clap::Subcommand)]
pub enum ReceiptCommand {
    /// List receipts, including those of deleted hosts
    List {
        /// Only the receipts of this host
        #[arg(value_parser = kinds::host_name)]
        host: Option<String>,
        /// table, yaml, json or jsonpath=TEMPLATE
        #[arg(long, short, value_name = "FORMAT", value_parser = OutputFormat::of_page, default_value = "table")]
        output: OutputFormat,
    },
    /// Write the signed receipts of a host into files, one for each
    Export {
        #[arg(value_parser = kinds::host_name)]
        host: String,
        /// Folder for the files
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        #[arg(long, short, hide = true)]
        output: Option<String>,
    },
    /// Print the public key with which receipts are verified
    ///
    /// Give it to auditors in a way that they trust: a person who can replace the key can replace the receipts.
    Key,
    /// Verify receipts with a public key, without the appliance
    ///
    /// The exit code is 0 if every file is a receipt that this key signed and no erasure in it is unverified, 3 if all
    /// are signed and one is of an unverified erasure, and 1 otherwise.
    Verify {
        /// File with the public key, as `firesteel receipt key` prints it
        #[arg(long, value_name = "KEY")]
        key: PathBuf,
        /// Receipt files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// # Errors
/// When the appliance does not answer, a file cannot be written, or a file is not a receipt.
pub(crate) async fn run(connection: &ConnectionOptions, command: ReceiptCommand) -> anyhow::Result<()> {
    match command {
        ReceiptCommand::List { host, output } => list(&ApiClient::open(connection)?, host.as_deref(), &output).await,
        ReceiptCommand::Export { host, output: Some(folder), .. } => Err(wrong_use(format!(
            "--output (-o) is the form of a result in all commands: write `firesteel receipt export {host} --dir {folder}`"
        ))),
        ReceiptCommand::Export { host, dir, output: None } => export(&ApiClient::open(connection)?, &host, &dir).await,
        ReceiptCommand::Key => {
            let answer = ApiClient::open(connection)?.get("/firesteel.dev/receipt-key").await?;
            print_text(answer["publicKey"].as_str().context("the appliance names no key")?);
            Ok(())
        }
        ReceiptCommand::Verify { key, files } => verify_all(&key, &files),
    }
}

/// Fetches the receipts of one host or of all in the namespace, the oldest first.
pub(super) async fn of(client: &ApiClient, host: Option<&str>) -> anyhow::Result<Vec<Receipt>> {
    let mut path = kinds::collection(kinds::by_name("receipts")?, &client.namespace);
    if let Some(host) = host.filter(|host| host.len() <= 63) {
        path = format!("{path}?labelSelector={HOST_LABEL}%3D{host}");
    }
    let items = client.get(&path).await?.get("items").cloned().unwrap_or(Value::Array(Vec::new()));
    let mut receipts: Vec<Receipt> = serde_json::from_value(items).context("could not read the list of receipts")?;
    receipts.retain(|receipt| host.is_none_or(|host| receipt.status.host == host));
    receipts.sort_by(|a, b| (a.status.received_at, &a.metadata.name).cmp(&(b.status.received_at, &b.metadata.name)));
    Ok(receipts)
}

async fn list(client: &ApiClient, host: Option<&str>, output: &OutputFormat) -> anyhow::Result<()> {
    let receipts = of(client, host).await?;
    if let Some(text) = output.text_of(&receipts)? {
        print_text(&text);
    } else if receipts.is_empty() {
        let of_host = host.map(|host| format!(" of host {host}")).unwrap_or_default();
        print_text(&format!("no receipts{of_host} in namespace {}\n", client.namespace));
    } else {
        print_text(&table(&receipts, table::output_width()));
    }
    Ok(())
}

/// Makes a table for people.
pub(super) fn table(receipts: &[Receipt], width: usize) -> String {
    let rows = receipts.iter().map(|receipt| {
        let status = &receipt.status;
        let at = table::time(status.received_at);
        // What is not verified may stand at the end.
        TableRow::whole(vec![status.host.clone(), at, status.kind.clone(), status.summary.clone()])
    });
    let header = vec!["HOST", "AT", "KIND", "WHAT"];
    TextTable { header, rows: rows.collect(), expendable: &["KIND"] }.render(width)
}

async fn export(client: &ApiClient, host: &str, folder: &Path) -> anyhow::Result<()> {
    let receipts = of(client, Some(host)).await?;
    if receipts.is_empty() {
        bail!(
            "there are no receipts of host {host} in namespace {}; `firesteel receipt list` shows all",
            client.namespace
        );
    }
    fs::create_dir_all(folder).with_context(|| format!("could not make the folder {}", folder.display()))?;
    for receipt in &receipts {
        let path = folder.join(file_name(receipt)?);
        fs::write(&path, &receipt.status.file).with_context(|| format!("could not write {}", path.display()))?;
    }
    print_text(&format!(
        "{} receipts in {}; check them with `firesteel receipt verify --key KEY FILE…`\n",
        receipts.len(),
        folder.display()
    ));
    Ok(())
}

/// Checks that the object's name is a DNS name: an appliance must not choose a path here.
fn file_name(receipt: &Receipt) -> anyhow::Result<String> {
    let name = &receipt.metadata.name;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_plain) {
        bail!("the appliance names a receipt {:?}", clean(name));
    }
    Ok(format!("{name}.receipt"))
}

fn verify_all(key: &Path, files: &[PathBuf]) -> anyhow::Result<()> {
    let public =
        read_public_pem(&read(key, KEY_BYTES_MAX)?).with_context(|| format!("invalid key {}", key.display()))?;
    print_text(&format!("key {}\n", fingerprint(&public)));
    let (mut flawed, mut unverified) = (0, 0);
    for path in files {
        match read(path, FILE_BYTES_MAX).and_then(|bytes| Ok(verify(&public, &bytes)?)) {
            Ok(document) => {
                unverified += usize::from(is_unverified(&document));
                print_text(&proved(path, &document));
            }
            Err(error) => {
                flawed += 1;
                print_text(&format!("{}: NOT VERIFIED: {}\n", path.display(), clean(&format!("{error:#}"))));
            }
        }
    }
    match (flawed, unverified) {
        (0, 0) => Ok(()),
        (0, unverified) => Err(UnverifiedErasures { unverified, files: files.len() }.into()),
        (count, _) => bail!(
            "could not verify {count} of {} files; see NOT VERIFIED above for what is wrong with each, and check that \
             --key is the key of their appliance",
            files.len()
        ),
    }
}

/// All files are receipts, and some are of erasures that are not proven.
#[derive(Debug, thiserror::Error)]
#[error("{unverified} of {files} receipts are of erasures that are unverified: see `not seen` above")]
pub(super) struct UnverifiedErasures {
    unverified: usize,
    files: usize,
}

/// Reads one byte more than the limit, so that a longer file is noticed.
fn read(path: &Path, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    let reading = || format!("could not read {}", path.display());
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max)? + 1;
    File::open(path).with_context(reading)?.take(limit).read_to_end(&mut bytes).with_context(reading)?;
    Ok(bytes)
}

/// Tells whether an erasure is not proven. Earlier versions signed the agent's grade without a check of the power.
fn is_unverified(document: &ReceiptDocument) -> bool {
    let power = document.boot.as_ref().and_then(|boot| boot.power.as_ref());
    let was_off = power.is_some_and(|power| power.off_before.is_some() && power.off_after.is_some());
    match document.grade() {
        "" | "none" => false,
        grade => grade == UNVERIFIED || !was_off,
    }
}

/// Says what a receipt proves, and what it does not.
fn proved(path: &Path, document: &ReceiptDocument) -> String {
    let called = if is_unverified(document) { "signed, and the erasure is UNVERIFIED" } else { "verified" };
    let mut lines = vec![
        format!("{}: {called}", path.display()),
        format!("  {}", document.summary()),
        format!("  host {}/{} ({})", document.host.namespace, document.host.name, document.host.uid),
        format!(
            "  attempt {}, plan {}, step {}, {:.0} to {:.0}",
            document.attempt, document.plan, document.step, document.started_at, document.ended_at
        ),
        format!("  agent {} sha256 {}", document.agent.version, or_unknown(&document.agent.sha256)),
    ];
    if let Some(boot) = document.boot.as_ref().filter(|boot| !boot.by.is_empty()) {
        lines
            .push(format!("  booted at {} (by {}), initramfs sha256 {}", boot.address, boot.by, boot.initramfs_sha256));
    }
    if let Some(power) = document.boot.as_ref().and_then(|boot| boot.power.as_ref()) {
        let at = |at: Option<Timestamp>| at.map_or_else(|| "not".to_owned(), |at| format!("at {at:.0}"));
        lines.push(format!(
            "  the BMC showed the host off: before the boot {}, after the erasure {}",
            at(power.off_before),
            at(power.off_after)
        ));
    }
    lines.extend(document.not_seen().iter().map(|what| format!("  not seen: {what}")));
    if let ReceiptAction::Erased(erased) = &document.done {
        lines.push(format!("  policy {}", erased.policy));
        lines.extend(erased.claimed.iter().map(|grade| format!("  the agent claims grade {grade}")));
        lines.extend(erased.drive_log.iter().map(|log| format!("  the drive's log: {log}")));
        lines.extend(erased.tried.iter().map(|tried| {
            let lied = if tried.lied { ", and it lied" } else { "" };
            format!("  tried {}: {}{lied}", tried.method, tried.why)
        }));
    }
    lines.extend(document.overridden().iter().map(|what| format!("  by the owner's word over {what}")));
    lines.extend(
        document.unverified.iter().map(|what| format!("  unverified, and not covered by this receipt: {what}")),
    );
    lines.iter().map(|line| clean(line) + "\n").collect()
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_control::receipts::document::{
        Agent, FORM, ObservedBoot, ObservedPower, ReceiptDisk, ReceiptErasure, ReceiptHost, ReceiptSamples,
        ReceiptWrite,
    };
    use firesteel_control::receipts::file::{public_pem, sign};
    use ring::signature::Ed25519KeyPair;

    use super::*;

    fn written() -> ReceiptDocument {
        let text = String::new;
        ReceiptDocument {
            receipt: FORM.to_owned(),
            key_sha256: text(),
            host: ReceiptHost {
                namespace: "default".into(),
                name: "a".into(),
                uid: "u".into(),
                smbios_uuid: text(),
                serial: text(),
            },
            attempt: 1,
            plan: 2,
            step: 1,
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: Timestamp::UNIX_EPOCH,
            received_at: Timestamp::UNIX_EPOCH,
            agent: Agent { version: "1".into(), sha256: text(), key: text(), kernel: text(), boot_id: text() },
            boot: Some(ObservedBoot {
                address: "10.77.0.100".into(),
                by: "first-asker".into(),
                not_seen: vec!["that the address was leased".into()],
                ..ObservedBoot::default()
            }),
            disk: ReceiptDisk {
                model: text(),
                serial: "S1".into(),
                wwn: text(),
                size_bytes: 8,
                by_path: text(),
                device: text(),
            },
            done: ReceiptAction::ImageWritten(ReceiptWrite {
                raw_sha256: "aa".into(),
                raw_bytes: 5,
                stream_sha256: text(),
                written_bytes: 5,
                readback_sha256: "aa".into(),
                readback_bytes: 5,
                disk_guid: text(),
                overridden: vec!["the disk: GFS2".into()],
            }),
            unverified: vec!["what lies behind the image".into()],
        }
    }

    fn erased() -> ReceiptErasure {
        ReceiptErasure {
            policy: "full".into(),
            method: "sanitize-crypto".into(),
            grade: UNVERIFIED.into(),
            claimed: Some("purge".into()),
            drive_log: Vec::new(),
            samples: ReceiptSamples { told_before: 0, blank_before: 0, canaries: 0, read_back: 1, blank_after: 0 },
            tried: Vec::new(),
            left_out: Vec::new(),
            overridden: Vec::new(),
        }
    }

    /// To verify takes only a file and a key; the exit code follows from the result.
    #[test]
    fn a_receipt_is_checked_without_an_appliance() {
        let folder = tempfile::tempdir().unwrap();
        let [ours, other] = [7_u8, 8].map(|seed| Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap());
        let path = |name: &str| folder.path().join(name);
        fs::write(path("ours.pem"), public_pem(&ours)).unwrap();
        fs::write(path("other.pem"), public_pem(&other)).unwrap();
        fs::write(path("true"), sign(&ours, &written()).unwrap()).unwrap();
        fs::write(path("resigned"), sign(&other, &written()).unwrap()).unwrap();
        fs::write(path("altered"), sign(&ours, &written()).unwrap().replace("S1", "S2")).unwrap();
        fs::write(path("long"), vec![b'x'; FILE_BYTES_MAX + 10]).unwrap();
        assert!(verify_all(&path("ours.pem"), &[path("true")]).is_ok());
        for (key, file) in [
            ("other.pem", "true"),
            ("ours.pem", "resigned"),
            ("ours.pem", "altered"),
            ("ours.pem", "long"),
            ("ours.pem", "nothing"),
            ("true", "true"),
            ("nothing", "true"),
        ] {
            assert!(verify_all(&path(key), &[path("true"), path(file)]).is_err(), "{key} {file}");
        }
        let unverified = ReceiptDocument {
            done: ReceiptAction::Erased(erased()),
            boot: Some(ObservedBoot { power: Some(ObservedPower::default()), ..ObservedBoot::default() }),
            ..written()
        };
        fs::write(path("unverified"), sign(&ours, &unverified).unwrap()).unwrap();
        let error = verify_all(&path("ours.pem"), &[path("true"), path("unverified")]).unwrap_err();
        assert!(error.is::<UnverifiedErasures>() && error.to_string().contains("1 of 2"), "{error}");
        let older = ReceiptDocument {
            done: ReceiptAction::Erased(ReceiptErasure { grade: "purge".into(), claimed: None, ..erased() }),
            ..written()
        };
        assert!(proved(&path("older"), &older).contains("UNVERIFIED"), "a grade without a look at the power");
        let power = ObservedPower { off_before: Some(Timestamp::UNIX_EPOCH), off_after: Some(Timestamp::UNIX_EPOCH) };
        let boot = Some(ObservedBoot { power: Some(power), ..ObservedBoot::default() });
        assert!(proved(&path("proven"), &ReceiptDocument { boot, ..older }).contains("proven: verified"));
        let error = verify_all(&path("ours.pem"), &[path("altered"), path("unverified")]).unwrap_err();
        assert!(!error.is::<UnverifiedErasures>(), "what is not signed says more: {error}");
        let page = proved(&path("unverified"), &unverified);
        assert!(page.contains("UNVERIFIED") && page.contains("claims grade purge"), "{page}");
        assert!(page.contains("before the boot not, after the erasure not"), "{page}");
        let told = proved(&path("true"), &written());
        assert!(
            told.contains("sha256 aa")
                && told.contains("serial S1")
                && told.contains("unverified, and not covered by this receipt: what"),
            "{told}"
        );
        assert!(told.contains("by the owner's word over the disk: GFS2"), "{told}");
        assert!(told.contains("at 10.77.0.100 (by first-asker)") && told.contains("not seen: that the"), "{told}");
    }

    #[test]
    fn a_name_becomes_no_path() {
        let named = |name: &str| {
            let mut receipt = Receipt::default();
            receipt.metadata.name = name.to_owned();
            file_name(&receipt)
        };
        assert_eq!(named("0a-1-2-0").unwrap(), "0a-1-2-0.receipt");
        for bad in ["", "../x", "/x", "a.b", "A"] {
            assert!(named(bad).is_err(), "{bad}");
        }
    }
}
