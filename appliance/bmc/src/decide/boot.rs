//! Boot overrides: what to send, under which ETag, and what the system says of it afterwards.

use serde_json::{Value, json};

use crate::error::{Error, plain_text};
use crate::model::RedfishSystem;
use crate::power_outcome::OverrideReading;
use crate::quirks::BmcQuirks;

/// The source of the next boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextBootSource {
    Pxe,
    UefiHttp,
    /// A CD; one of virtual media where the BMC has an image in it.
    Cd,
    Hdd,
    /// No override: the firmware's own order.
    None,
}

impl NextBootSource {
    pub const ALL: [Self; 5] = [Self::Pxe, Self::UefiHttp, Self::Cd, Self::Hdd, Self::None];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pxe => "Pxe",
            Self::UefiHttp => "UefiHttp",
            Self::Cd => "Cd",
            Self::Hdd => "Hdd",
            Self::None => "None",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BmcBootMode {
    Uefi,
    Legacy,
}

impl BmcBootMode {
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

/// An override of where the system boots from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedBootOverride<'a> {
    pub target: NextBootSource,
    /// The override holds at each boot, not only at the next one.
    pub is_lasting: bool,
    /// The mode to set; `None` leaves it as it is.
    pub mode: Option<BmcBootMode>,
    /// What [`NextBootSource::UefiHttp`] fetches; without one the URL comes by DHCP.
    pub http_uri: Option<&'a str>,
}

impl WantedBootOverride<'_> {
    /// The next boot, in the mode that is set.
    #[must_use]
    pub fn once(target: NextBootSource) -> Self {
        Self { target, is_lasting: false, mode: None, http_uri: None }
    }

    /// The word for [`Self::is_lasting`].
    #[must_use]
    pub fn enabled(&self) -> &'static str {
        if self.is_lasting { "Continuous" } else { "Once" }
    }
}

/// The service's word for a target: CDs have two.
#[must_use]
pub fn target_word(system: &RedfishSystem, target: NextBootSource, quirks: BmcQuirks) -> &'static str {
    let is_offered = |word: &str| {
        let boot = system.boot.as_ref().and_then(|boot| boot.targets_allowed.as_ref());
        boot.is_none_or(|list| list.is_empty() || list.iter().any(|item| item == word))
    };
    if target == NextBootSource::Cd && (quirks.virtual_cd_is_usb_cd && is_offered("UsbCd") || !is_offered("Cd")) {
        return if is_offered("UsbCd") { "UsbCd" } else { "Cd" };
    }
    target.as_str()
}

/// The PATCH that asks for a boot from a target, or why there is none.
///
/// # Errors
/// [`Error::Unsupported`] where the BMC cannot boot so.
pub fn plan_boot(system: &RedfishSystem, wish: &WantedBootOverride<'_>, quirks: BmcQuirks) -> Result<Value, Error> {
    let boot = system.boot.clone().unwrap_or_default();
    let allowed = boot.targets_allowed.unwrap_or_default();
    let is_offered = |word: &str| allowed.is_empty() || allowed.iter().any(|item| item == word);
    let mut body = if wish.target == NextBootSource::None {
        let target = if quirks.clears_with_pxe { "Pxe" } else { "None" };
        if is_offered(target) {
            json!({"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": target})
        } else {
            // No word for "no override": the disk is what comes without one.
            json!({"BootSourceOverrideEnabled": "Continuous", "BootSourceOverrideTarget": "Hdd"})
        }
    } else {
        let word = target_word(system, wish.target, quirks);
        if !is_offered(word) {
            let offered = plain_text(&allowed.join(", "));
            return Err(Error::Unsupported { what: format!("boot from {word}: it offers only {offered}") });
        }
        if wish.target == NextBootSource::UefiHttp && quirks.http_boot_is_cd {
            let what = "boot by HTTP: it fetches the file itself and attaches it as a CD".to_owned();
            return Err(Error::Unsupported { what });
        }
        json!({"BootSourceOverrideEnabled": wish.enabled(), "BootSourceOverrideTarget": word})
    };
    if let (Some(uri), NextBootSource::UefiHttp) = (wish.http_uri, wish.target)
        && boot.http_boot_uri.is_some()
        && !quirks.ignores_http_boot_uri
    {
        body["HttpBootUri"] = uri.into();
    }
    // The mode is read-only on some services and absent on others: it is sent where it must change.
    if let Some(current) = &boot.mode {
        match wish.mode {
            Some(wanted) if quirks.repeats_mode || wanted.as_str() != current => {
                body["BootSourceOverrideMode"] = wanted.as_str().into();
            }
            None if quirks.repeats_mode && BmcBootMode::parse(current).is_some() => {
                body["BootSourceOverrideMode"] = current.as_str().into();
            }
            Some(_) | None => {}
        }
    }
    Ok(json!({ "Boot": body }))
}

/// What the system, read again, says of an override: `None` where it has it, else its own words.
#[must_use]
pub fn boot_difference(system: &RedfishSystem, wish: &WantedBootOverride<'_>, quirks: BmcQuirks) -> Option<String> {
    let boot = system.boot.clone().unwrap_or_default();
    let (enabled, target) = (boot.enabled.as_deref(), boot.target.as_deref());
    let is_enabled = matches!(enabled, Some("Once" | "Continuous"));
    let is_set = match wish.target {
        NextBootSource::None => !is_enabled || matches!(target, Some("None" | "Hdd") | None),
        NextBootSource::Pxe | NextBootSource::UefiHttp | NextBootSource::Cd | NextBootSource::Hdd => {
            enabled == Some(wish.enabled())
                && target.is_some_and(|target| {
                    target == target_word(system, wish.target, quirks) || target == wish.target.as_str()
                })
        }
    };
    let is_mode = match (wish.mode, boot.mode.as_deref().and_then(BmcBootMode::parse)) {
        (Some(wanted), Some(mode)) => wish.target == NextBootSource::None || wanted == mode,
        _ => true,
    };
    if is_set && is_mode {
        return None;
    }
    let word = |value: Option<&str>| value.unwrap_or("nothing").to_owned();
    let mode = if is_mode { String::new() } else { format!(", mode {}", word(boot.mode.as_deref())) };
    Some(plain_text(&format!("{} {}{mode}", word(enabled), word(target))))
}

/// Whether the override that is set outlives the boot that it was set for, and has to be taken back.
#[must_use]
pub fn is_boot_stuck(system: &RedfishSystem, quirks: BmcQuirks) -> bool {
    let boot = system.boot.as_ref();
    let enabled = boot.and_then(|boot| boot.enabled.as_deref());
    let target = boot.and_then(|boot| boot.target.as_deref());
    quirks.once_stays && enabled == Some("Continuous") && matches!(target, Some("Pxe" | "UefiHttp" | "Cd" | "UsbCd"))
}

/// Whether the system shows that there are boot overrides at all.
#[must_use]
pub fn shows_overrides(system: &RedfishSystem) -> bool {
    let boot = system.boot.clone().unwrap_or_default();
    boot.enabled.is_some() || boot.target.is_some() || boot.targets_allowed.is_some_and(|list| !list.is_empty())
}

/// The override for a boot into our ramdisk that is still there, in the system's own words.
#[must_use]
pub fn boot_left(system: &RedfishSystem) -> Option<String> {
    let boot = system.boot.as_ref()?;
    let (enabled, target) = (boot.enabled.as_deref()?, boot.target.as_deref()?);
    let is_left = matches!(enabled, "Once" | "Continuous") && matches!(target, "Pxe" | "UefiHttp" | "Cd" | "UsbCd");
    is_left.then(|| format!("{enabled} {target}"))
}

/// Whether the boot that an override was set for has used it up, as far as the system tells.
#[must_use]
pub fn once_read(system: &RedfishSystem, quirks: BmcQuirks) -> OverrideReading {
    let unconfirmed = |why: &str| OverrideReading::Unconfirmed { why: why.to_owned() };
    if quirks.once_stays {
        return unconfirmed("this BMC keeps an override for one boot as one for all boots");
    }
    let enabled = system.boot.as_ref().and_then(|boot| boot.enabled.as_deref());
    match (boot_left(system), enabled) {
        (Some(seen), _) => OverrideReading::Left { seen },
        (None, Some(_)) => OverrideReading::UsedUp,
        (None, None) => unconfirmed("the system does not say whether an override is set"),
    }
}

/// Longest ETag that is sent back; real ones are below 100 bytes.
const ETAG_BYTES_MAX: usize = 256;

/// The If-Match values to try, in order, while the answer is 412 or 428: services differ in which form of their own
/// ETag they take, whether they want one, and whether theirs is for changes at all.
#[must_use]
pub fn etag_ladder(etags: &[String], quirks: BmcQuirks) -> Vec<Option<String>> {
    let is_plain =
        |etag: &&String| etag.len() <= ETAG_BYTES_MAX && etag.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let etags: Vec<&String> = etags.iter().filter(is_plain).collect();
    let any = Some("*".to_owned());
    if etags.is_empty() {
        return if quirks.wants_etag { vec![any, None] } else { vec![None, any] };
    }
    let mut ladder: Vec<Option<String>> = Vec::new();
    let strong = etags.iter().filter_map(|etag| etag.strip_prefix("W/").map(str::to_owned));
    for candidate in etags.iter().copied().cloned().chain(strong).map(Some).chain([None, any]) {
        if !ladder.contains(&candidate) {
            ladder.push(candidate);
        }
    }
    ladder
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn with_boot(boot: Value) -> RedfishSystem {
        serde_json::from_value(json!({ "Boot": boot })).unwrap()
    }

    #[test]
    fn the_mode_is_sent_where_it_must_change() {
        let system = with_boot(json!({"BootSourceOverrideMode": "UEFI"}));
        let plan = |mode, quirks| {
            plan_boot(&system, &WantedBootOverride { mode, ..WantedBootOverride::once(NextBootSource::Pxe) }, quirks)
                .unwrap()
        };
        let plain = json!({"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}});
        assert_eq!(plan(None, BmcQuirks::default()), plain);
        assert_eq!(plan(Some(BmcBootMode::Uefi), BmcQuirks::default()), plain);
        let legacy = plan(Some(BmcBootMode::Legacy), BmcQuirks::default());
        assert_eq!(legacy["Boot"]["BootSourceOverrideMode"], "Legacy");
        let repeats = BmcQuirks { repeats_mode: true, ..BmcQuirks::default() };
        assert_eq!(plan(Some(BmcBootMode::Uefi), repeats)["Boot"]["BootSourceOverrideMode"], "UEFI");
        assert_eq!(plan(None, repeats)["Boot"]["BootSourceOverrideMode"], "UEFI", "as it is");
        let wish =
            WantedBootOverride { mode: Some(BmcBootMode::Uefi), ..WantedBootOverride::once(NextBootSource::Pxe) };
        let silent = plan_boot(&RedfishSystem::default(), &wish, BmcQuirks::default());
        assert_eq!(silent, Ok(plain), "a service that says no mode gets none");
    }

    #[test]
    fn once_and_lasting_have_their_words() {
        let body =
            plan_boot(&RedfishSystem::default(), &WantedBootOverride::once(NextBootSource::Cd), BmcQuirks::default())
                .unwrap();
        assert_eq!(body["Boot"]["BootSourceOverrideEnabled"], "Once");
        let lasting = WantedBootOverride { is_lasting: true, ..WantedBootOverride::once(NextBootSource::Pxe) };
        let body = plan_boot(&RedfishSystem::default(), &lasting, BmcQuirks::default()).unwrap();
        assert_eq!(body["Boot"]["BootSourceOverrideEnabled"], "Continuous");
    }

    #[test]
    fn a_target_that_is_not_offered_is_an_error_with_the_list() {
        let system = with_boot(json!({"BootSourceOverrideTarget@Redfish.AllowableValues": ["Pxe", "Cd"]}));
        let plan = |target| plan_boot(&system, &WantedBootOverride::once(target), BmcQuirks::default());
        assert!(plan(NextBootSource::Pxe).is_ok());
        assert_eq!(
            plan(NextBootSource::UefiHttp),
            Err(Error::Unsupported { what: "boot from UefiHttp: it offers only Pxe, Cd".into() })
        );
        assert!(plan(NextBootSource::None).is_ok(), "taking it back is always possible");
    }

    #[test]
    fn an_override_is_taken_back_in_the_words_that_the_service_has() {
        let back = |allowed: Value, quirks| {
            let system = with_boot(json!({"BootSourceOverrideTarget@Redfish.AllowableValues": allowed}));
            let body = plan_boot(&system, &WantedBootOverride::once(NextBootSource::None), quirks).unwrap();
            let word = |name: &str| body["Boot"][name].as_str().unwrap().to_owned();
            format!("{} {}", word("BootSourceOverrideEnabled"), word("BootSourceOverrideTarget"))
        };
        assert_eq!(back(json!([]), BmcQuirks::default()), "Disabled None");
        assert_eq!(back(json!(["None", "Pxe"]), BmcQuirks::default()), "Disabled None");
        assert_eq!(back(json!(["Pxe", "Cd", "Hdd"]), BmcQuirks::default()), "Continuous Hdd");
        let hpe = BmcQuirks { clears_with_pxe: true, ..BmcQuirks::default() };
        assert_eq!(back(json!(["None", "Pxe"]), hpe), "Disabled Pxe");
    }

    #[test]
    fn a_cd_has_the_word_that_the_service_boots_a_virtual_one_by() {
        let word = |allowed: Value, quirks| {
            let system = with_boot(json!({"BootSourceOverrideTarget@Redfish.AllowableValues": allowed}));
            target_word(&system, NextBootSource::Cd, quirks)
        };
        let usb = BmcQuirks { virtual_cd_is_usb_cd: true, ..BmcQuirks::default() };
        assert_eq!(word(json!(["Cd", "UsbCd"]), BmcQuirks::default()), "Cd");
        assert_eq!(word(json!(["Cd", "UsbCd"]), usb), "UsbCd");
        assert_eq!(word(json!(["Cd"]), usb), "Cd");
        assert_eq!(word(json!(["UsbCd"]), BmcQuirks::default()), "UsbCd");
    }

    #[test]
    fn the_uri_of_an_http_boot_goes_where_it_is_taken() {
        let uri = |boot: Value, quirks| {
            let wish = WantedBootOverride {
                http_uri: Some("http://10.0.0.1/x.efi"),
                ..WantedBootOverride::once(NextBootSource::UefiHttp)
            };
            plan_boot(&with_boot(boot), &wish, quirks).map(|body| body["Boot"].get("HttpBootUri").cloned())
        };
        assert_eq!(uri(json!({"HttpBootUri": null}), BmcQuirks::default()), Ok(Some(json!("http://10.0.0.1/x.efi"))));
        assert_eq!(uri(json!({}), BmcQuirks::default()), Ok(None), "the URL comes by DHCP");
        let ignores = BmcQuirks { ignores_http_boot_uri: true, ..BmcQuirks::default() };
        assert_eq!(uri(json!({"HttpBootUri": "x"}), ignores), Ok(None));
        let cd = BmcQuirks { http_boot_is_cd: true, ..BmcQuirks::default() };
        assert!(uri(json!({"HttpBootUri": null}), cd).unwrap_err().to_string().contains("as a CD"));
    }

    fn set(enabled: &str, target: &str) -> RedfishSystem {
        with_boot(json!({"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}))
    }

    #[test]
    fn read_back_tells_set_from_forgotten() {
        let tells =
            |system: &RedfishSystem, wish: WantedBootOverride<'_>| boot_difference(system, &wish, BmcQuirks::default());
        let pxe = WantedBootOverride::once(NextBootSource::Pxe);
        assert_eq!(tells(&set("Once", "Pxe"), pxe), None);
        assert_eq!(tells(&set("Continuous", "Pxe"), pxe).as_deref(), Some("Continuous Pxe"), "once was wanted");
        assert_eq!(tells(&set("Continuous", "Pxe"), WantedBootOverride { is_lasting: true, ..pxe }), None);
        assert_eq!(
            tells(&set("Once", "Pxe"), WantedBootOverride { is_lasting: true, ..pxe }).as_deref(),
            Some("Once Pxe")
        );
        assert_eq!(tells(&set("Disabled", "Pxe"), pxe).as_deref(), Some("Disabled Pxe"));
        assert_eq!(tells(&set("Once", "Hdd"), pxe).as_deref(), Some("Once Hdd"));
        let none = WantedBootOverride::once(NextBootSource::None);
        assert_eq!(tells(&set("Disabled", "Pxe"), none), None);
        assert_eq!(tells(&set("Once", "Pxe"), none).as_deref(), Some("Once Pxe"));
        assert_eq!(tells(&RedfishSystem::default(), none), None);
        assert_eq!(tells(&RedfishSystem::default(), pxe).as_deref(), Some("nothing nothing"));
        let usb = BmcQuirks { virtual_cd_is_usb_cd: true, ..BmcQuirks::default() };
        assert_eq!(boot_difference(&set("Once", "UsbCd"), &WantedBootOverride::once(NextBootSource::Cd), usb), None);
        let other_mode = with_boot(json!({
            "BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideMode": "Legacy",
        }));
        let uefi = WantedBootOverride { mode: Some(BmcBootMode::Uefi), ..pxe };
        assert_eq!(tells(&other_mode, uefi).as_deref(), Some("Once Pxe, mode Legacy"));
    }

    #[test]
    fn an_override_that_outlives_its_boot_is_known_by_its_row() {
        let stays = BmcQuirks { once_stays: true, ..BmcQuirks::default() };
        assert!(is_boot_stuck(&set("Continuous", "Pxe"), stays));
        assert!(!is_boot_stuck(&set("Continuous", "Hdd"), stays));
        assert!(!is_boot_stuck(&set("Continuous", "Pxe"), BmcQuirks::default()), "somebody may want it so");
    }

    #[test]
    fn an_override_that_is_left_is_told_from_the_owners_own() {
        for (enabled, target, left) in [
            ("Continuous", "Pxe", Some("Continuous Pxe")),
            ("Once", "UefiHttp", Some("Once UefiHttp")),
            ("Disabled", "Pxe", None),
            ("Continuous", "Hdd", None),
            ("Once", "BiosSetup", None),
        ] {
            assert_eq!(boot_left(&set(enabled, target)).as_deref(), left, "{enabled} {target}");
            assert!(shows_overrides(&set(enabled, target)));
        }
        assert_eq!(boot_left(&RedfishSystem::default()), None);
        let none = with_boot(json!({
            "BootSourceOverrideTarget@Redfish.AllowableValues": [], "AutomaticRetryConfig": "Disabled",
        }));
        assert!(!shows_overrides(&none) && !shows_overrides(&RedfishSystem::default()));
    }

    #[test]
    fn an_override_is_used_up_only_where_the_system_says_that_none_is_set() {
        let plain = BmcQuirks::default();
        let stays = BmcQuirks { once_stays: true, ..plain };
        let unconfirmed = |read: OverrideReading| matches!(read, OverrideReading::Unconfirmed { .. });
        assert_eq!(once_read(&set("Disabled", "Pxe"), plain), OverrideReading::UsedUp);
        assert_eq!(once_read(&set("Disabled", "None"), plain), OverrideReading::UsedUp);
        for left in ["Once", "Continuous"] {
            let seen = format!("{left} Pxe");
            assert_eq!(once_read(&set(left, "Pxe"), plain), OverrideReading::Left { seen });
        }
        assert!(
            unconfirmed(once_read(&set("Disabled", "Pxe"), stays))
                && unconfirmed(once_read(&RedfishSystem::default(), plain))
        );
        let lists = with_boot(json!({"BootSourceOverrideTarget@Redfish.AllowableValues": ["Pxe"]}));
        assert!(unconfirmed(once_read(&lists, plain)));
    }

    #[test]
    fn etags_are_tried_in_each_form_and_then_none() {
        let texts = |etags: &[&str], quirks| -> Vec<String> {
            let etags: Vec<String> = etags.iter().map(|etag| (*etag).to_owned()).collect();
            etag_ladder(&etags, quirks).into_iter().map(|step| step.unwrap_or_else(|| "none".to_owned())).collect()
        };
        let wants = BmcQuirks { wants_etag: true, ..BmcQuirks::default() };
        assert_eq!(texts(&["W/\"1\"", "W/\"1\""], wants), ["W/\"1\"", "\"1\"", "none", "*"]);
        assert_eq!(texts(&["\"1\"", "x"], BmcQuirks::default()), ["\"1\"", "x", "none", "*"]);
        assert_eq!(texts(&[], BmcQuirks::default()), ["none", "*"]);
        assert_eq!(texts(&[], wants), ["*", "none"]);
        assert_eq!(texts(&["a\r\nX: y"], wants), ["*", "none"], "what fits no header is none");
    }
}
