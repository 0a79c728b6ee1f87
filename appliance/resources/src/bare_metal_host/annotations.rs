//! Requests that travel as annotations. One-shot requests are consumed by the planner, which
//! removes the annotation; the others hold until their owner removes them.

use firesteel_kube_types::{Cause, CauseReason, ObjectMeta};
use serde::Deserialize;
use serde_json::Value;

use crate::admit::{decode, drop_nulls};
use crate::bare_metal_host::cleaning::{self, CleaningPolicies};
use crate::bare_metal_host::shape::STATUS;
use crate::bare_metal_host::status::{BareMetalHostStatus, ProvisioningState};
use crate::hardware_data::{DETAILS_SHAPE, HardwareDetails};
use crate::shape::{self, Shape};

/// No action at all while present; the value says who paused.
pub const PAUSED: &str = "baremetalhost.metal3.io/paused";
/// Let go of the host, leave its OS alone.
pub const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// Empty: inspect again. `disabled`: never inspect.
pub const INSPECT: &str = "inspect.metal3.io";
/// The status of a host that was moved here, as JSON.
pub const STATUS_OF: &str = "baremetalhost.metal3.io/status";
/// The hardware of a host that is not inspected, as JSON.
pub const HARDWARE_DETAILS: &str = "inspect.metal3.io/hardwaredetails";
/// One-shot reboot; `reboot.metal3.io/<key>` holds the host off until it is removed.
pub const REBOOT: &str = "reboot.metal3.io";
/// One-shot: clears the error's delay and the count of failed attempts, and tries now.
pub const RETRY: &str = "firesteel.dev/retry";
/// One-shot: the machine that was refused with this UUID and serial number (`UUID/SERIAL`) is the host from now on.
pub const ACCEPT_IDENTITY: &str = "firesteel.dev/accept-identity";
/// One-shot: the erasure of this mark (`ATTEMPT/PLAN`), which is unverified and held, is enough to go on.
pub const ACCEPT_ERASURE: &str = "firesteel.dev/accept-erasure";
/// One-shot: which of several machines that claim to be the host is the host, by the key of its agent (hexadecimal), or
/// [`NO_CLAIMANT`].
pub const CHOOSE_AGENT: &str = "firesteel.dev/choose-agent";
/// Says in [`CHOOSE_AGENT`] that none of them is known to be the host: the attempt is over.
pub const NO_CLAIMANT: &str = "none";
/// Asks for a later deadline of the token with which the installed OS fetches its config. Any word; another one is
/// another wish.
pub const EXTEND_TOKEN: &str = "firesteel.dev/extend-token";
/// The address that DHCP gives to the boot MAC, always.
pub const RESERVED_ADDRESS: &str = "firesteel.dev/reserved-address";
/// `any`: the host may boot from an address that no DHCP server here leased to it, such as behind NAT; who asks first
/// for its boot script is the host.
pub const BOOT_ADDRESS: &str = "firesteel.dev/boot-address";
/// The only word that [`BOOT_ADDRESS`] takes.
pub const ANY_ADDRESS: &str = "any";
/// Lets the object go without cleaning; a tombstone keeps the hardware's identity.
pub const RELEASE_FORCE: &str = "firesteel.dev/release-force";

/// One-shot: the installation with this mark (the GUID of its disk) may be overwritten, although it is
/// newer than the store, or another appliance's; or the disk of this name, although it could not be read.
pub const UNFREEZE_DISK: &str = "firesteel.dev/unfreeze-disk";

/// Lock of the host: while it is present, no disk is cleaned or written. The value says who or why.
pub const LOCK: &str = "firesteel.dev/lock";

/// How far disks are cleaned, as JSON ([`cleaning::policies`]).
pub const CLEANING: &str = "firesteel.dev/cleaning";
/// One-shot: the next erasure of these disks goes on although they hold what belongs to a cluster or to another
/// host ([`cleaning::overridden`]).
pub const OVERRIDE_GUARD: &str = "firesteel.dev/override-guard";

/// The form in which the image takes its configuration, where it is not recognised on it: one of [`HAND_OFF_WORDS`].
pub const HAND_OFF: &str = "firesteel.dev/hand-off";
pub const HAND_OFF_WORDS: [&str; 5] = ["auto", "boot-partition", "kernel-arguments", "config-drive", "no-cloud"];

/// The Secret in the host's namespace with `username` and `password`, by which the host's image and its checksum file
/// are fetched (Basic authentication).
pub const IMAGE_LOGIN: &str = "firesteel.dev/image-login";

/// All requests of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRequests {
    /// Who paused.
    pub paused: Option<String>,
    pub detached: Option<Detached>,
    pub inspect: bool,
    pub inspection_disabled: bool,
    /// One-shot reboot.
    pub reboot: Option<RebootRequest>,
    pub held_off: Option<PowerOffHolders>,
    pub retry: bool,
    pub release_force: bool,
    /// The owner's policies; Firesteel's own where they cannot be read, which are not less.
    pub cleaning: CleaningPolicies,
    /// Disks whose guards are overridden, by name.
    pub override_guards: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RebootMode {
    #[default]
    #[serde(alias = "")]
    Soft,
    Hard,
}

/// What a reboot annotation asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RebootRequest {
    pub mode: RebootMode,
    /// The request holds in states in which no OS of the owner's runs, too.
    pub force: bool,
}

/// Those who keep the host off, each by a key of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerOffHolders {
    pub holders: Vec<String>,
    /// The strongest mode among them.
    pub mode: RebootMode,
    /// One of them means it also for a host that runs no OS of its owner's.
    pub force: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Detached {
    pub delete_action: DeleteAction,
    /// Detach in states that otherwise refuse it.
    pub force: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeleteAction {
    /// The object waits until it is attached again.
    Delay,
    /// The object goes without touching the host.
    #[default]
    Delete,
}

/// Reads the requests; values that cannot be read count as the annotation's empty value, except
/// where that would do more than was asked: [`causes`] refuses them at the door.
#[must_use]
pub fn requests(meta: &ObjectMeta) -> HostRequests {
    let mut found = HostRequests {
        paused: meta.annotation(PAUSED).map(str::to_owned),
        detached: meta.annotation(DETACHED).map(|value| parse(value).unwrap_or_default()),
        inspect: meta.annotation(INSPECT).is_some_and(|value| value != "disabled"),
        inspection_disabled: meta.annotation(INSPECT) == Some("disabled"),
        retry: meta.annotations.contains_key(RETRY),
        release_force: meta.annotations.contains_key(RELEASE_FORCE),
        cleaning: meta.annotation(CLEANING).and_then(|text| cleaning::policies(text).ok()).unwrap_or_default(),
        override_guards: (meta.annotation(OVERRIDE_GUARD))
            .and_then(|text| cleaning::overridden(text).ok())
            .unwrap_or_default(),
        ..HostRequests::default()
    };
    for (key, value) in &meta.annotations {
        let Some(rest) = key.strip_prefix(REBOOT) else { continue };
        let request = parse::<RebootRequest>(value).unwrap_or_default();
        if rest.is_empty() {
            found.reboot = Some(request);
        } else if let Some(holder) = rest.strip_prefix('/') {
            let held = found.held_off.get_or_insert_default();
            held.holders.push(holder.to_owned());
            held.mode = held.mode.max(request.mode);
            held.force |= request.force;
        }
    }
    found
}

/// What is wrong with the values. They are JSON of the known fields alone; upstream ignores others in a reboot.
#[must_use]
pub fn causes(meta: &ObjectMeta, inspection_disabled: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in &meta.annotations {
        let bad = match key.as_str() {
            DETACHED => parse::<Detached>(value).err().map(|why| why.to_string()),
            INSPECT if !matches!(value.as_str(), "" | "disabled") => {
                Some("allowed are \"disabled\" or \"\"".to_owned())
            }
            HAND_OFF if !HAND_OFF_WORDS.contains(&value.as_str()) => {
                Some(format!("must be one of {}", HAND_OFF_WORDS.join(", ")))
            }
            IMAGE_LOGIN if !is_secret_name(value) => Some("must be the name of a Secret in this namespace".to_owned()),
            BOOT_ADDRESS if value != ANY_ADDRESS => Some(format!("must be {ANY_ADDRESS}")),
            CHOOSE_AGENT if !names_claimant(value) => {
                Some(format!("must be {NO_CLAIMANT}, or the key of an agent: 64 hexadecimal digits"))
            }
            CLEANING => cleaning::policies(value).err().map(|why| why.to_string()),
            OVERRIDE_GUARD => cleaning::overridden(value).err().map(|why| why.to_string()),
            STATUS_OF => check_document("status", &STATUS, value).err().map(|why| why.to_string()),
            HARDWARE_DETAILS if !value.is_empty() && !inspection_disabled => {
                Some("when hardware details are provided, inspection must be disabled".to_owned())
            }
            HARDWARE_DETAILS => check_document("hardware", &DETAILS_SHAPE, value).err().map(|why| why.to_string()),
            _ => None,
        };
        causes.extend(bad.map(|why| Cause::invalid(&format!("metadata.annotations[{key}]"), value, &why)));
        causes.extend(reboot_cause(key, value));
    }
    causes
}

/// Whether Kubernetes takes the name for an object: DNS labels with dots between them.
fn is_secret_name(value: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
            && [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
    };
    value.len() <= 253 && value.split('.').all(is_label)
}

fn names_claimant(value: &str) -> bool {
    let is_key = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    value == NO_CLAIMANT || is_key
}

/// What is wrong with a request to reboot, if the annotation is one.
pub(crate) fn reboot_cause(key: &str, value: &str) -> Option<Cause> {
    let rest = key.strip_prefix(REBOOT)?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    let why = parse::<RebootRequest>(value).err()?;
    Some(Cause::invalid(&format!("metadata.annotations[{key}]"), value, &why.to_string()))
}

/// Why the text of an annotation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationError {
    #[error("must be JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("must be JSON of the known fields: {0}")]
    Fields(serde_json::Error),
    #[error("is no {document} of a host: {faults}")]
    Document { document: &'static str, faults: String },
    #[error("has a provisioning.state that is none of a host")]
    State,
}

/// The status that a host was moved here with; `Err` says what is wrong with it.
#[must_use]
pub fn moved_status(meta: &ObjectMeta) -> Option<Result<BareMetalHostStatus, AnnotationError>> {
    let read = read_document(meta, STATUS_OF, "status", &STATUS)?;
    // Where the host was is not known then, and whether an OS is on it.
    let is_known = |status: &BareMetalHostStatus| status.provisioning.state != ProvisioningState::Foreign;
    Some(read.and_then(|status| if is_known(&status) { Ok(status) } else { Err(AnnotationError::State) }))
}

/// The hardware that a host's owner describes; `Err` says what is wrong with it.
#[must_use]
pub fn hardware_details(meta: &ObjectMeta) -> Option<Result<HardwareDetails, AnnotationError>> {
    read_document(meta, HARDWARE_DETAILS, "hardware", &DETAILS_SHAPE)
}

fn read_document<T: serde::de::DeserializeOwned>(
    meta: &ObjectMeta,
    key: &str,
    name: &'static str,
    shape: &Shape,
) -> Option<Result<T, AnnotationError>> {
    let text = meta.annotation(key).filter(|text| !text.is_empty())?;
    let fault = |error: serde_json::Error| AnnotationError::Document { document: name, faults: error.to_string() };
    Some(check_document(name, shape, text).and_then(|()| decode(&serde_json::from_str(text)?).map_err(fault)))
}

/// Checks a JSON document of a shape, whose required fields may be missing. Upstream writes `null` for what is not
/// there.
fn check_document(document: &'static str, shape: &Shape, text: &str) -> Result<(), AnnotationError> {
    if text.is_empty() {
        return Ok(());
    }
    let mut value: Value = serde_json::from_str(text)?;
    drop_nulls(&mut value);
    let mut faults: Vec<String> =
        shape::conform(shape, &mut value).iter().map(|path| format!("unknown field \"{path}\"")).collect();
    let causes = shape::check(shape, &value, None);
    let wrong = causes.iter().filter(|cause| cause.reason != CauseReason::FieldValueRequired);
    faults.extend(wrong.map(ToString::to_string));
    if faults.is_empty() { Ok(()) } else { Err(AnnotationError::Document { document, faults: faults.join(", ") }) }
}

/// An empty value and the plain `true` that people write mean the default.
fn parse<T: Default + serde::de::DeserializeOwned>(value: &str) -> Result<T, AnnotationError> {
    match value.trim() {
        "" | "true" => Ok(T::default()),
        json => serde_json::from_str(json).map_err(AnnotationError::Fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(pairs: &[(&str, &str)]) -> ObjectMeta {
        let annotations = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ObjectMeta { annotations, ..ObjectMeta::default() }
    }

    #[test]
    fn every_request_is_read() {
        let found = requests(&meta(&[
            (PAUSED, "metal3.io/capm3"),
            (DETACHED, r#"{"deleteAction":"delay"}"#),
            (INSPECT, ""),
            (REBOOT, r#"{"mode":"hard"}"#),
            ("reboot.metal3.io/a", ""),
            ("reboot.metal3.io/b", r#"{"mode":"hard","force":true}"#),
            (RETRY, "true"),
            (RELEASE_FORCE, ""),
        ]));
        assert_eq!(found.paused.as_deref(), Some("metal3.io/capm3"));
        assert_eq!(found.detached.map(|detached| detached.delete_action), Some(DeleteAction::Delay));
        assert!(found.inspect && !found.inspection_disabled && found.retry && found.release_force);
        assert_eq!(found.reboot, Some(RebootRequest { mode: RebootMode::Hard, force: false }));
        let held =
            PowerOffHolders { holders: vec!["a".to_owned(), "b".to_owned()], mode: RebootMode::Hard, force: true };
        assert_eq!(found.held_off, Some(held));
    }

    #[test]
    fn unknown_fields_are_refused() {
        let bad = meta(&[(REBOOT, r#"{"mode":"hard","when":"now"}"#), (DETACHED, "yes"), ("reboot.metal3.io/x", "{")]);
        assert_eq!(causes(&bad, false).len(), 3);
        let good = meta(&[
            (REBOOT, ""),
            ("reboot.metal3.io/y", r#"{"mode":""}"#),
            (DETACHED, "true"),
            ("reboot.metal3.ioother", "{"),
            (INSPECT, "disabled"),
        ]);
        assert_eq!(causes(&good, false), []);
        let held = PowerOffHolders { holders: vec!["y".to_owned()], ..PowerOffHolders::default() };
        assert_eq!(requests(&good).held_off, Some(held));
        assert_eq!(causes(&meta(&[(INSPECT, "whatever")]), false).len(), 1);
        assert_eq!(causes(&meta(&[(BOOT_ADDRESS, "any")]), false), []);
        assert_eq!(causes(&meta(&[(BOOT_ADDRESS, "10.0.0.1")]), false).len(), 1);
        for (value, wrong) in [("mirror-login", 0), ("a.b", 0), ("", 1), ("other/login", 1), ("me:secret", 1)] {
            assert_eq!(causes(&meta(&[(IMAGE_LOGIN, value)]), false).len(), wrong, "{value}");
        }
        for (value, wrong) in [(NO_CLAIMANT, 0), (&*"ab".repeat(32), 0), ("both", 1), ("abcd", 1)] {
            assert_eq!(causes(&meta(&[(CHOOSE_AGENT, value)]), false).len(), wrong, "{value}");
        }
        let cleaning = [(CLEANING, r#"{"betweenOwners":{"method":"none"}}"#), (OVERRIDE_GUARD, "all")];
        assert_eq!(causes(&meta(&cleaning), false).len(), 2);
        let found = requests(&meta(&cleaning));
        assert_eq!((found.cleaning, found.override_guards), (CleaningPolicies::default(), Vec::new()));
    }

    #[test]
    fn documents_in_annotations_have_their_shape() {
        let details = |text: &str, disabled| causes(&meta(&[(HARDWARE_DETAILS, text)]), disabled).len();
        assert_eq!(details(r#"{"cpu":{"arch":"x86_64"},"ramMebibytes":1024}"#, true), 0);
        assert_eq!(details(r#"{"cpu":{"arch":"x86_64"}}"#, false), 1, "inspection would overwrite it");
        assert_eq!((details("", false), details("{", true), details(r#"{"cpus":{}}"#, true)), (0, 1, 1));
        let status = |text: &str| causes(&meta(&[(STATUS_OF, text)]), false);
        assert_eq!(status(r#"{"operationalStatus":"OK","provisioning":{"state":"provisioned","ID":"x"}}"#), []);
        let bad = status(r#"{"operationalStatus":"fine","errorType":"none","state":"x"}"#);
        assert!(matches!(bad.as_slice(), [one] if one.message.contains("unknown field \"state\"")), "{bad:?}");
        let moved = |text: &str| moved_status(&meta(&[(STATUS_OF, text)]));
        assert!(moved("").is_none() && matches!(moved(r#"{"state":"x"}"#), Some(Err(_))));
        let found = moved(r#"{"provisioning":{"state":"externally provisioned"}}"#);
        let state = found.and_then(Result::ok).map(|status| status.provisioning.state);
        assert_eq!(state, Some(ProvisioningState::ExternallyProvisioned));
        let foreign = moved(r#"{"provisioning":{"state":"match profile"}}"#);
        assert!(matches!(foreign, Some(Err(AnnotationError::State))));
        let found = hardware_details(&meta(&[(HARDWARE_DETAILS, r#"{"ramMebibytes":1024,"nics":null}"#)]));
        assert_eq!(found.and_then(Result::ok).map(|details| details.ram_mebibytes), Some(1024));
    }
}
