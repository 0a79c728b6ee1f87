//! Makes the one request that is sent from what a system reports and what is wanted. Pure.
//!
//! Where vendors differ, the difference is a row in [`crate::quirks`].

mod boot;

use crate::model::RedfishSystem;
use crate::quirks::BmcQuirks;

pub use boot::{
    BmcBootMode, NextBootSource, WantedBootOverride, boot_difference, boot_left, etag_ladder, is_boot_stuck, once_read,
    plan_boot, shows_overrides, target_word,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PowerState {
    On,
    Off,
    PoweringOn,
    PoweringOff,
    /// The property is missing, or a word of the vendor's own.
    Unknown,
}

impl PowerState {
    #[must_use]
    pub fn of(system: &RedfishSystem) -> Self {
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
    /// Switches the system off and on again at once, or on if it is off.
    ForceRestart,
}

impl PowerAction {
    pub const ALL: [Self; 4] = [Self::On, Self::GracefulOff, Self::ForceOff, Self::ForceRestart];

    /// Redfish's reset types that do this, best first.
    fn reset_types(self, quirks: BmcQuirks) -> &'static [&'static str] {
        match self {
            Self::On => &["On", "ForceOn"],
            Self::GracefulOff if quirks.button_shuts_down => &["GracefulShutdown", "PushPowerButton"],
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
pub fn plan_power(system: &RedfishSystem, action: PowerAction, quirks: BmcQuirks) -> PowerPlan {
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
    match action.reset_types(quirks).iter().copied().find(is_allowed) {
        Some(reset_type) => PowerPlan::Reset { target: target.to_owned(), reset_type: reset_type.to_owned() },
        None => {
            let offered = allowed.map(|list| list.join(", ")).unwrap_or_default();
            let what = format!("do {action:?}: of resets it offers only {}", crate::error::plain_text(&offered));
            PowerPlan::Impossible { what }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn system(power: &str, resets: Option<&[&str]>) -> RedfishSystem {
        let mut reset = json!({"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"});
        if let Some(resets) = resets {
            reset["ResetType@Redfish.AllowableValues"] = json!(resets);
        }
        serde_json::from_value(json!({"PowerState": power, "Actions": {"#ComputerSystem.Reset": reset}})).unwrap()
    }

    fn reset_type(power: &str, resets: Option<&[&str]>, action: PowerAction) -> Option<String> {
        match plan_power(&system(power, resets), action, BmcQuirks::default()) {
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
        let plan = plan_power(&system("On", Some(&["On", "Nmi"])), PowerAction::ForceOff, BmcQuirks::default());
        assert_eq!(plan, PowerPlan::Impossible { what: "do ForceOff: of resets it offers only On, Nmi".into() });
    }

    /// A BMC under foreign control must not get the login sent to another server.
    #[test]
    fn a_reset_target_elsewhere_is_none() {
        let mut system = system("Off", None);
        system.actions.as_mut().unwrap().reset.as_mut().unwrap().target = Some("http://evil.example/".into());
        assert!(matches!(plan_power(&system, PowerAction::On, BmcQuirks::default()), PowerPlan::Impossible { .. }));
    }

    #[test]
    fn the_button_shuts_down_where_a_row_says_so() {
        let plan = |resets: &[&str], quirks| plan_power(&system("On", Some(resets)), PowerAction::GracefulOff, quirks);
        let button = BmcQuirks { button_shuts_down: true, ..BmcQuirks::default() };
        assert!(matches!(plan(&["PushPowerButton"], BmcQuirks::default()), PowerPlan::Impossible { .. }));
        let pressed = plan(&["On", "PushPowerButton"], button);
        assert!(matches!(pressed, PowerPlan::Reset { reset_type, .. } if reset_type == "PushPowerButton"));
        let asked = plan(&["GracefulShutdown", "PushPowerButton"], button);
        assert!(matches!(asked, PowerPlan::Reset { reset_type, .. } if reset_type == "GracefulShutdown"));
    }
}
