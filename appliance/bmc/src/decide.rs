//! From what a system says of itself and what is wanted to the one request that is sent. Pure.
//!
//! Where vendors differ, the difference is a row of [`QUIRKS`], never an `if` in the client.

use serde_json::{Value, json};

use crate::model::System;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PowerState {
    On,
    Off,
    PoweringOn,
    PoweringOff,
    /// Missing, or a word of the vendor's own.
    Unknown,
}

impl PowerState {
    #[must_use]
    pub fn of(system: &System) -> Self {
        match system.power_state.as_deref() {
            // A paused virtual machine still holds its power.
            Some("On" | "Paused") => Self::On,
            Some("Off") => Self::Off,
            Some("PoweringOn") => Self::PoweringOn,
            Some("PoweringOff") => Self::PoweringOff,
            Some(_) | None => Self::Unknown,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PowerAction {
    On,
    /// Asks the operating system; takes as long as it likes, or does nothing.
    GracefulOff,
    ForceOff,
    /// Off and on again at once; a system that is off is switched on.
    ForceRestart,
}

impl PowerAction {
    pub const ALL: [Self; 4] = [Self::On, Self::GracefulOff, Self::ForceOff, Self::ForceRestart];

    /// Redfish's reset types that do this, best first.
    fn reset_types(self) -> &'static [&'static str] {
        match self {
            Self::On => &["On", "ForceOn"],
            Self::GracefulOff => &["GracefulShutdown"],
            Self::ForceOff => &["ForceOff"],
            Self::ForceRestart => &["ForceRestart", "PowerCycle"],
        }
    }

    /// The state after it, where one state says that it was done.
    #[must_use]
    pub fn is_reached(self, state: PowerState) -> bool {
        match self {
            Self::On => matches!(state, PowerState::On | PowerState::PoweringOn),
            Self::GracefulOff | Self::ForceOff => matches!(state, PowerState::Off),
            Self::ForceRestart => false,
        }
    }
}

/// What to send for a power action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PowerPlan {
    /// It is so already.
    Nothing,
    Reset {
        target: String,
        reset_type: String,
    },
    Impossible {
        what: String,
    },
}

#[must_use]
pub fn plan_power(system: &System, action: PowerAction) -> PowerPlan {
    let state = PowerState::of(system);
    if action.is_reached(state) {
        return PowerPlan::Nothing;
    }
    let action = match (action, state) {
        // A reset of a system that is off is refused by some and ignored by others.
        (PowerAction::ForceRestart, PowerState::Off) => PowerAction::On,
        (action, _) => action,
    };
    let reset = system.actions.as_ref().and_then(|actions| actions.reset.as_ref());
    let Some(target) = reset.and_then(|reset| reset.target.as_deref()).and_then(crate::address::own_path) else {
        return PowerPlan::Impossible { what: "be reset: it offers no action #ComputerSystem.Reset".to_owned() };
    };
    let allowed = reset.and_then(|reset| reset.types_allowed.as_ref());
    let is_allowed = |name: &&str| allowed.is_none_or(|list| list.is_empty() || list.iter().any(|item| item == *name));
    match action.reset_types().iter().copied().find(is_allowed) {
        Some(reset_type) => PowerPlan::Reset { target: target.to_owned(), reset_type: reset_type.to_owned() },
        None => {
            let offered = allowed.map(|list| list.join(", ")).unwrap_or_default();
            let what = format!("do {action:?}: of resets it offers only {}", crate::error::plain_text(&offered));
            PowerPlan::Impossible { what }
        }
    }
}

/// From where the next boot comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    Pxe,
    UefiHttp,
    Hdd,
    /// No override: the firmware's own order.
    None,
}

impl Target {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pxe => "Pxe",
            Self::UefiHttp => "UefiHttp",
            Self::Hdd => "Hdd",
            Self::None => "None",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BootMode {
    Uefi,
    Legacy,
}

impl BootMode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uefi => "UEFI",
            Self::Legacy => "Legacy",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "UEFI" => Some(Self::Uefi),
            "Legacy" => Some(Self::Legacy),
            _ => None,
        }
    }
}

/// How a vendor's service differs where it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// Drops an override that does not repeat the mode, even where it is unchanged.
    pub repeats_mode: bool,
}

struct QuirkRow {
    /// Beginning of `Manufacturer`, in lower case.
    manufacturer: &'static str,
    quirks: Quirks,
}

const QUIRKS: &[QuirkRow] = &[
    // X11 and X12 boards answer 200 to a PATCH without the mode, and boot the disk.
    QuirkRow { manufacturer: "supermicro", quirks: Quirks { repeats_mode: true } },
];

#[must_use]
pub fn quirks_of(system: &System) -> Quirks {
    let manufacturer = system.manufacturer.as_deref().unwrap_or_default().to_ascii_lowercase();
    QUIRKS.iter().find(|row| manufacturer.starts_with(row.manufacturer)).map(|row| row.quirks).unwrap_or_default()
}

/// The PATCH that asks for one boot from `target`, or why there is none.
pub fn plan_boot(system: &System, target: Target, mode: Option<BootMode>, quirks: Quirks) -> Result<Value, String> {
    if target == Target::None {
        return Ok(json!({"Boot": {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}}));
    }
    let boot = system.boot.clone().unwrap_or_default();
    if let Some(allowed) = boot.targets_allowed.filter(|list| !list.is_empty())
        && !allowed.iter().any(|item| item == target.as_str())
    {
        let offered = crate::error::plain_text(&allowed.join(", "));
        return Err(format!("boot from {}: it offers only {offered}", target.as_str()));
    }
    let mut body = json!({
        "BootSourceOverrideEnabled": "Once",
        "BootSourceOverrideTarget": target.as_str(),
    });
    // The mode is read-only on some services and absent on others: it is sent where it must change.
    if let (Some(wanted), Some(current)) = (mode, &boot.mode)
        && (quirks.repeats_mode || wanted.as_str() != current)
    {
        body["BootSourceOverrideMode"] = wanted.as_str().into();
    }
    Ok(json!({ "Boot": body }))
}

/// Does the system, read again, have the override? Some services say "Continuous" for once.
#[must_use]
pub fn is_boot_set(system: &System, target: Target) -> bool {
    let boot = system.boot.clone().unwrap_or_default();
    let is_enabled = matches!(boot.enabled.as_deref(), Some("Once" | "Continuous"));
    match target {
        Target::None => !is_enabled || matches!(boot.target.as_deref(), Some("None") | None),
        Target::Pxe | Target::UefiHttp | Target::Hdd => is_enabled && boot.target.as_deref() == Some(target.as_str()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn system(power: &str, resets: Option<&[&str]>) -> System {
        let mut reset = json!({"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"});
        if let Some(resets) = resets {
            reset["ResetType@Redfish.AllowableValues"] = json!(resets);
        }
        serde_json::from_value(json!({"PowerState": power, "Actions": {"#ComputerSystem.Reset": reset}})).unwrap()
    }

    fn reset_type(power: &str, resets: Option<&[&str]>, action: PowerAction) -> Option<String> {
        match plan_power(&system(power, resets), action) {
            PowerPlan::Reset { reset_type, .. } => Some(reset_type),
            PowerPlan::Nothing => None,
            PowerPlan::Impossible { what } => panic!("{what}"),
        }
    }

    #[test]
    fn power_actions_are_sent_only_where_they_change_something() {
        use PowerAction::{ForceOff, ForceRestart, GracefulOff, On};
        assert_eq!(reset_type("Off", None, On).as_deref(), Some("On"));
        assert_eq!(reset_type("On", None, On), None);
        assert_eq!(reset_type("PoweringOn", None, On), None);
        assert_eq!(reset_type("PoweringOff", None, On).as_deref(), Some("On"));
        assert_eq!(reset_type("Off", None, ForceOff), None);
        assert_eq!(reset_type("Off", None, GracefulOff), None);
        assert_eq!(reset_type("On", None, GracefulOff).as_deref(), Some("GracefulShutdown"));
        assert_eq!(reset_type("On", None, ForceRestart).as_deref(), Some("ForceRestart"));
        assert_eq!(reset_type("Off", None, ForceRestart).as_deref(), Some("On"));
        assert_eq!(reset_type("whatever", None, ForceOff).as_deref(), Some("ForceOff"));
    }

    #[test]
    fn what_is_not_offered_is_replaced_or_named() {
        assert_eq!(reset_type("Off", Some(&["ForceOn", "ForceOff"]), PowerAction::On).as_deref(), Some("ForceOn"));
        assert_eq!(
            reset_type("On", Some(&["On", "PowerCycle"]), PowerAction::ForceRestart).as_deref(),
            Some("PowerCycle")
        );
        let plan = plan_power(&system("On", Some(&["On", "Nmi"])), PowerAction::ForceOff);
        assert_eq!(plan, PowerPlan::Impossible { what: "do ForceOff: of resets it offers only On, Nmi".into() });
    }

    /// A BMC under foreign control must not get the login sent to another server.
    #[test]
    fn a_reset_target_elsewhere_is_none() {
        let mut system = system("Off", None);
        system.actions.as_mut().unwrap().reset.as_mut().unwrap().target = Some("http://evil.example/".into());
        assert!(matches!(plan_power(&system, PowerAction::On), PowerPlan::Impossible { .. }));
    }

    fn with_boot(boot: Value) -> System {
        serde_json::from_value(json!({ "Boot": boot })).unwrap()
    }

    #[test]
    fn the_mode_is_sent_where_it_must_change() {
        let system = with_boot(json!({"BootSourceOverrideMode": "UEFI"}));
        let plan = |mode, quirks| plan_boot(&system, Target::Pxe, mode, quirks).unwrap();
        let plain = json!({"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}});
        assert_eq!(plan(None, Quirks::default()), plain);
        assert_eq!(plan(Some(BootMode::Uefi), Quirks::default()), plain);
        let legacy = plan(Some(BootMode::Legacy), Quirks::default());
        assert_eq!(legacy["Boot"]["BootSourceOverrideMode"], "Legacy");
        let repeated = plan(Some(BootMode::Uefi), Quirks { repeats_mode: true });
        assert_eq!(repeated["Boot"]["BootSourceOverrideMode"], "UEFI");
        let silent = plan_boot(&System::default(), Target::Pxe, Some(BootMode::Uefi), Quirks::default());
        assert_eq!(silent, Ok(plain), "a service that says no mode gets none");
    }

    #[test]
    fn quirks_go_by_manufacturer() {
        let of = |name: &str| quirks_of(&System { manufacturer: Some(name.into()), ..System::default() });
        assert!(of("Supermicro").repeats_mode);
        assert!(of("SUPERMICRO Inc.").repeats_mode);
        assert!(!of("Dell Inc.").repeats_mode);
    }

    #[test]
    fn a_target_that_is_not_offered_is_an_error_with_the_list() {
        let system = with_boot(json!({"BootSourceOverrideTarget@Redfish.AllowableValues": ["Pxe", "Cd"]}));
        assert!(plan_boot(&system, Target::Pxe, None, Quirks::default()).is_ok());
        let error = plan_boot(&system, Target::UefiHttp, None, Quirks::default());
        assert_eq!(error, Err("boot from UefiHttp: it offers only Pxe, Cd".into()));
        assert!(plan_boot(&system, Target::None, None, Quirks::default()).is_ok(), "taking it back is always possible");
    }

    #[test]
    fn read_back_tells_set_from_forgotten() {
        let set = |enabled: &str, target: &str| {
            with_boot(json!({"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}))
        };
        assert!(is_boot_set(&set("Once", "Pxe"), Target::Pxe));
        assert!(is_boot_set(&set("Continuous", "Pxe"), Target::Pxe));
        assert!(!is_boot_set(&set("Disabled", "Pxe"), Target::Pxe));
        assert!(!is_boot_set(&set("Once", "Hdd"), Target::Pxe));
        assert!(is_boot_set(&set("Disabled", "Pxe"), Target::None));
        assert!(!is_boot_set(&set("Once", "Pxe"), Target::None));
        assert!(is_boot_set(&System::default(), Target::None));
    }
}
