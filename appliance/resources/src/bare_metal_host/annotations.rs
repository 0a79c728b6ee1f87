//! Requests that travel as annotations. One-shot requests are consumed by the planner, which
//! removes the annotation; the others hold until their owner removes them.

use serde::Deserialize;

use crate::{cause::Cause, meta::ObjectMeta};

/// No action at all while present; the value says who paused.
pub const PAUSED: &str = "baremetalhost.metal3.io/paused";
/// Let go of the host, leave its OS alone.
pub const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// Empty: inspect again. `disabled`: never inspect.
pub const INSPECT: &str = "inspect.metal3.io";
/// One-shot reboot; `reboot.metal3.io/<key>` holds the host off until it is removed.
pub const REBOOT: &str = "reboot.metal3.io";
/// One-shot: forget the error's delay and the count of failed attempts, and try now.
pub const RETRY: &str = "firesteel.dev/retry";
/// The address that DHCP gives to the boot MAC, always.
pub const RESERVED_ADDRESS: &str = "firesteel.dev/reserved-address";
/// Let the object go without cleaning; a tombstone keeps the hardware's identity.
pub const RELEASE_FORCE: &str = "firesteel.dev/release-force";

/// One-shot: the installation with this mark (the GUID of its disk) may be overwritten, although it is
/// newer than the store, or another appliance's.
pub const GIVE_UP_DISK: &str = "firesteel.dev/give-up-disk";

/// All requests of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Who paused.
    pub paused: Option<String>,
    pub detached: Option<Detached>,
    pub inspect: bool,
    pub inspection_disabled: bool,
    /// One-shot reboot.
    pub reboot: Option<RebootMode>,
    /// Keys of those who hold the host off, with the strongest mode among them.
    pub held_off: Option<(Vec<String>, RebootMode)>,
    pub retry: bool,
    pub release_force: bool,
    /// The mark of an installation that may be overwritten.
    pub give_up_disk: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RebootMode {
    #[default]
    Soft,
    Hard,
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RebootArguments {
    mode: RebootMode,
    /// Accepted as upstream; a reboot that was asked for is always carried out here.
    #[serde(rename = "force")]
    _force: bool,
}

/// Reads the requests; values that cannot be read count as the annotation's empty value, except
/// where that would do more than was asked: [`causes`] refuses them at the door.
#[must_use]
pub fn requests(meta: &ObjectMeta) -> Requests {
    let mut found = Requests {
        paused: meta.annotation(PAUSED).map(str::to_owned),
        detached: meta.annotation(DETACHED).map(|value| parse(value).unwrap_or_default()),
        inspect: meta.annotation(INSPECT).is_some_and(|value| value != "disabled"),
        inspection_disabled: meta.annotation(INSPECT) == Some("disabled"),
        retry: meta.annotations.contains_key(RETRY),
        release_force: meta.annotations.contains_key(RELEASE_FORCE),
        give_up_disk: meta.annotation(GIVE_UP_DISK).map(str::to_owned),
        ..Requests::default()
    };
    for (key, value) in &meta.annotations {
        let Some(rest) = key.strip_prefix(REBOOT) else { continue };
        let mode = parse::<RebootArguments>(value).unwrap_or_default().mode;
        if rest.is_empty() {
            found.reboot = Some(mode);
        } else if let Some(holder) = rest.strip_prefix('/') {
            let (holders, strongest) = found.held_off.get_or_insert_default();
            holders.push(holder.to_owned());
            *strongest = (*strongest).max(mode);
        }
    }
    found
}

/// What is wrong with the values. They are strict JSON: unknown fields are refused (upstream).
#[must_use]
pub fn causes(meta: &ObjectMeta) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in &meta.annotations {
        let bad = match key.as_str() {
            DETACHED => parse::<Detached>(value).err(),
            REBOOT => parse::<RebootArguments>(value).err(),
            other if other.starts_with(REBOOT) && other[REBOOT.len()..].starts_with('/') => {
                parse::<RebootArguments>(value).err()
            }
            _ => None,
        };
        if let Some(why) = bad {
            causes.push(Cause::invalid(&format!("metadata.annotations[{key}]"), value, &why));
        }
    }
    causes
}

/// An empty value and the plain `true` that people write mean the default.
fn parse<T: Default + serde::de::DeserializeOwned>(value: &str) -> Result<T, String> {
    match value.trim() {
        "" | "true" => Ok(T::default()),
        json => serde_json::from_str(json).map_err(|error| format!("must be JSON of the known fields: {error}")),
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
        assert_eq!(found.reboot, Some(RebootMode::Hard));
        assert_eq!(found.held_off, Some((vec!["a".to_owned(), "b".to_owned()], RebootMode::Hard)));
    }

    #[test]
    fn unknown_fields_are_refused() {
        let bad = meta(&[(REBOOT, r#"{"mode":"hard","when":"now"}"#), (DETACHED, "yes"), ("reboot.metal3.io/x", "{")]);
        assert_eq!(causes(&bad).len(), 3);
        let good = meta(&[(REBOOT, ""), (DETACHED, "true"), ("reboot.metal3.ioother", "{"), (INSPECT, "whatever")]);
        assert_eq!(causes(&good), []);
        assert_eq!(requests(&good).held_off, None);
    }
}
