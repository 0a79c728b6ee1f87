//! The Redfish model of one machine: a request and the machine's state in, an answer and at most
//! one effect out. Pure; knows no socket, no TLS and no QEMU.
//!
//! Shapes follow the DMTF schemas ServiceRoot, ComputerSystem, EthernetInterface, Manager and
//! Chassis (`media`: VirtualMedia and SecureBoot), each with the few properties that a provisioning system reads.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::media;
use crate::machine::{BootOverride, BootTarget, MachineFirmware};

/// What the model says about the machine.
#[derive(Clone, Debug)]
pub struct SystemView {
    pub name: String,
    pub uuid: uuid::Uuid,
    pub is_on: bool,
    pub boot: BootOverride,
    pub firmware: MachineFirmware,
    pub macs: Vec<String>,
    pub memory_mib: u32,
    /// Where the image in the virtual drive came from.
    pub media: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ResetType {
    On,
    ForceOn,
    ForceOff,
    GracefulShutdown,
    PushPowerButton,
    ForceRestart,
    GracefulRestart,
    PowerCycle,
}

const RESET_TYPES: [&str; 8] = [
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "PushPowerButton",
    "ForceRestart",
    "GracefulRestart",
    "PowerCycle",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabBmcEffect {
    Reset(ResetType),
    SetBoot(BootOverride),
    /// Fetches the image; the drive is there from the next power-on or reset.
    InsertMedia(String),
    EjectMedia,
}

#[derive(Debug, PartialEq)]
pub struct LabRedfishResponse {
    pub status: StatusCode,
    pub body: Option<Value>,
    pub effect: Option<LabBmcEffect>,
}

pub const ROOT: &str = "/redfish/v1";
pub const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// Whether the path may be read without credentials, as the standard asks.
#[must_use]
pub fn is_public(method: &Method, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    method == Method::GET && (path == "/redfish" || path == ROOT)
}

/// The path of the machine's ComputerSystem.
#[must_use]
pub fn system_path(uuid: &uuid::Uuid) -> String {
    format!("{ROOT}/Systems/{uuid}")
}

/// Answers one authorised request.
#[must_use]
pub fn answer(system: &SystemView, method: &Method, path: &str, body: &[u8]) -> LabRedfishResponse {
    let path = path.trim_end_matches('/');
    let at_system = system_path(&system.uuid);
    let interfaces = format!("{at_system}/EthernetInterfaces");
    let reset = format!("{at_system}/Actions/ComputerSystem.Reset");
    if path == at_system && method == Method::PATCH {
        return patch_system(system, body);
    }
    if path == reset {
        return if method == Method::POST { reset_system(body) } else { not_allowed(method, path) };
    }
    // The manager's in older schemas, the system's in newer ones: one drive.
    for owner in [format!("{ROOT}/Managers/BMC"), at_system.clone()] {
        let base = format!("{owner}/VirtualMedia");
        if let Some(found) = path.strip_prefix(&base).and_then(|rest| media::answer(system, method, &base, rest, body))
        {
            return found;
        }
    }
    if path == format!("{at_system}/SecureBoot") && system.firmware == MachineFirmware::Uefi {
        return media::secure_boot(method, path, body);
    }
    let found = match path {
        "/redfish" => Some(json!({"v1": "/redfish/v1/"})),
        ROOT => Some(service_root(system)),
        "/redfish/v1/Systems" => Some(collection("ComputerSystemCollection", path, std::slice::from_ref(&at_system))),
        "/redfish/v1/Managers" => Some(collection("ManagerCollection", path, &[format!("{ROOT}/Managers/BMC")])),
        "/redfish/v1/Chassis" => Some(collection("ChassisCollection", path, &[format!("{ROOT}/Chassis/1")])),
        "/redfish/v1/Managers/BMC" => Some(manager(&at_system)),
        "/redfish/v1/Chassis/1" => Some(chassis(system, &at_system)),
        "/redfish/v1/SessionService" => Some(json!({
            "@odata.id": path, "@odata.type": "#SessionService.v1_1_8.SessionService", "Id": "SessionService",
            "Name": "Session Service", "ServiceEnabled": true, "Sessions": {"@odata.id": SESSIONS},
        })),
        _ if path == at_system => Some(computer_system(system, &at_system)),
        _ if path == interfaces => {
            let members: Vec<_> = (1..=system.macs.len()).map(|number| format!("{interfaces}/NIC{number}")).collect();
            Some(collection("EthernetInterfaceCollection", path, &members))
        }
        _ => path.strip_prefix(&format!("{interfaces}/NIC")).and_then(|number| {
            let mac = system.macs.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
            Some(ethernet_interface(path, number, mac))
        }),
    };
    match found {
        Some(body) if method == Method::GET => {
            LabRedfishResponse { status: StatusCode::OK, body: Some(body), effect: None }
        }
        Some(_) => not_allowed(method, path),
        None => refuse(StatusCode::NOT_FOUND, "ResourceMissingAtURI", &format!("there is nothing at {path}")),
    }
}

/// An error in Redfish's form.
#[must_use]
pub fn refuse(status: StatusCode, kind: &str, message: &str) -> LabRedfishResponse {
    let id = format!("Base.1.8.{kind}");
    let info = json!([{"@odata.type": "#Message.v1_1_1.Message", "MessageId": id, "Message": message}]);
    let body = json!({"error": {"code": id, "message": message, "@Message.ExtendedInfo": info}});
    LabRedfishResponse { status, body: Some(body), effect: None }
}

pub(super) fn not_allowed(method: &Method, path: &str) -> LabRedfishResponse {
    refuse(StatusCode::METHOD_NOT_ALLOWED, "OperationNotAllowed", &format!("{method} is not possible at {path}"))
}

pub(super) fn done(effect: LabBmcEffect) -> LabRedfishResponse {
    LabRedfishResponse { status: StatusCode::NO_CONTENT, body: None, effect: Some(effect) }
}

fn reset_system(body: &[u8]) -> LabRedfishResponse {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct ResetRequest {
        reset_type: ResetType,
    }
    match serde_json::from_slice::<ResetRequest>(body) {
        Ok(reset) => done(LabBmcEffect::Reset(reset.reset_type)),
        Err(error) => refuse(StatusCode::BAD_REQUEST, "ActionParameterValueError", &format!("ResetType: {error}")),
    }
}

#[derive(Deserialize)]
enum OverrideEnabled {
    Disabled,
    Once,
    Continuous,
}

#[derive(Deserialize)]
enum OverrideTarget {
    None,
    Pxe,
    Hdd,
    Cd,
    UefiHttp,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BootPatch {
    #[serde(rename = "BootSourceOverrideEnabled")]
    enabled: Option<OverrideEnabled>,
    #[serde(rename = "BootSourceOverrideTarget")]
    target: Option<OverrideTarget>,
    #[serde(rename = "BootSourceOverrideMode")]
    mode: Option<String>,
}

fn patch_system(system: &SystemView, body: &[u8]) -> LabRedfishResponse {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SystemPatch {
        #[serde(rename = "Boot")]
        boot: BootPatch,
    }
    let boot = match serde_json::from_slice::<SystemPatch>(body) {
        Ok(patch) => patch.boot,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, "PropertyValueNotInList", &format!("Boot: {error}")),
    };
    if let Some(mode) = &boot.mode
        && mode != mode_of(system.firmware)
    {
        let message = format!("BootSourceOverrideMode {mode}: this machine has {} only", mode_of(system.firmware));
        return refuse(StatusCode::BAD_REQUEST, "PropertyValueConflict", &message);
    }
    let target = match boot.target {
        Some(OverrideTarget::None) => BootTarget::None,
        Some(OverrideTarget::Pxe) => BootTarget::Pxe,
        Some(OverrideTarget::Hdd) => BootTarget::Hdd,
        Some(OverrideTarget::Cd) => BootTarget::Cd,
        Some(OverrideTarget::UefiHttp) if system.firmware == MachineFirmware::Bios => {
            return refuse(StatusCode::BAD_REQUEST, "PropertyValueNotInList", "UefiHttp needs UEFI");
        }
        Some(OverrideTarget::UefiHttp) => BootTarget::UefiHttp,
        None => system.boot.target,
    };
    let once = match boot.enabled {
        Some(OverrideEnabled::Disabled) => return done(LabBmcEffect::SetBoot(BootOverride::default())),
        Some(OverrideEnabled::Once) => true,
        Some(OverrideEnabled::Continuous) => false,
        None => system.boot.once,
    };
    if target == BootTarget::None {
        return done(LabBmcEffect::SetBoot(BootOverride::default()));
    }
    done(LabBmcEffect::SetBoot(BootOverride { target, once }))
}

fn mode_of(firmware: MachineFirmware) -> &'static str {
    match firmware {
        MachineFirmware::Bios => "Legacy",
        MachineFirmware::Uefi => "UEFI",
    }
}

pub(super) fn collection(kind: &str, path: &str, members: &[String]) -> Value {
    let links: Vec<_> = members.iter().map(|member| json!({"@odata.id": member})).collect();
    json!({
        "@odata.id": path, "@odata.type": format!("#{kind}.{kind}"), "Name": kind,
        "Members@odata.count": members.len(), "Members": links,
    })
}

fn service_root(system: &SystemView) -> Value {
    json!({
        "@odata.id": "/redfish/v1/", "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot", "Id": "RootService",
        "Name": "Lab BMC", "RedfishVersion": "1.8.0", "UUID": system.uuid, "Vendor": "Firesteel",
        "Product": "Lab BMC",
        "Systems": {"@odata.id": "/redfish/v1/Systems"},
        "Managers": {"@odata.id": "/redfish/v1/Managers"},
        "Chassis": {"@odata.id": "/redfish/v1/Chassis"},
        "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
        "Links": {"Sessions": {"@odata.id": SESSIONS}},
    })
}

fn computer_system(system: &SystemView, path: &str) -> Value {
    let (enabled, target) = match system.boot {
        BootOverride { target: BootTarget::None, .. } => ("Disabled", "None"),
        BootOverride { target, once } => (if once { "Once" } else { "Continuous" }, target_name(target)),
    };
    let targets: &[&str] = match system.firmware {
        MachineFirmware::Bios => &["None", "Pxe", "Hdd", "Cd"],
        MachineFirmware::Uefi => &["None", "Pxe", "Hdd", "Cd", "UefiHttp"],
    };
    let mut shown = json!({
        "@odata.id": path, "@odata.type": "#ComputerSystem.v1_10_0.ComputerSystem", "Id": system.uuid,
        "Name": system.name, "SystemType": "Virtual", "UUID": system.uuid, "Manufacturer": "Firesteel",
        "Model": "Lab", "SerialNumber": format!("LAB-{}", system.name),
        "PowerState": if system.is_on { "On" } else { "Off" },
        "Status": {"State": "Enabled", "Health": "OK"},
        "MemorySummary": {"TotalSystemMemoryGiB": f64::from(system.memory_mib) / 1024.0},
        "ProcessorSummary": {"Count": 1},
        "Boot": {
            "BootSourceOverrideEnabled": enabled,
            "BootSourceOverrideTarget": target,
            "BootSourceOverrideMode": mode_of(system.firmware),
            "BootSourceOverrideTarget@Redfish.AllowableValues": targets,
        },
        "EthernetInterfaces": {"@odata.id": format!("{path}/EthernetInterfaces")},
        "VirtualMedia": {"@odata.id": format!("{path}/VirtualMedia")},
        "Links": {
            "ManagedBy": [{"@odata.id": "/redfish/v1/Managers/BMC"}],
            "Chassis": [{"@odata.id": "/redfish/v1/Chassis/1"}],
        },
        "Actions": {"#ComputerSystem.Reset": {
            "target": format!("{path}/Actions/ComputerSystem.Reset"),
            "ResetType@Redfish.AllowableValues": RESET_TYPES,
        }},
    });
    if system.firmware == MachineFirmware::Uefi {
        shown["SecureBoot"] = json!({"@odata.id": format!("{path}/SecureBoot")});
    }
    shown
}

fn target_name(target: BootTarget) -> &'static str {
    match target {
        BootTarget::None => "None",
        BootTarget::Pxe => "Pxe",
        BootTarget::Hdd => "Hdd",
        BootTarget::Cd => "Cd",
        BootTarget::UefiHttp => "UefiHttp",
    }
}

fn ethernet_interface(path: &str, number: &str, mac: &str) -> Value {
    json!({
        "@odata.id": path, "@odata.type": "#EthernetInterface.v1_5_1.EthernetInterface",
        "Id": format!("NIC{number}"), "Name": format!("NIC {number}"), "MACAddress": mac,
        "PermanentMACAddress": mac, "InterfaceEnabled": true, "Status": {"State": "Enabled", "Health": "OK"},
    })
}

fn manager(at_system: &str) -> Value {
    json!({
        "@odata.id": "/redfish/v1/Managers/BMC", "@odata.type": "#Manager.v1_5_1.Manager", "Id": "BMC",
        "Name": "Lab BMC", "ManagerType": "BMC", "FirmwareVersion": env!("CARGO_PKG_VERSION"),
        "Status": {"State": "Enabled", "Health": "OK"},
        "VirtualMedia": {"@odata.id": "/redfish/v1/Managers/BMC/VirtualMedia"},
        "Links": {"ManagerForServers": [{"@odata.id": at_system}]},
    })
}

fn chassis(system: &SystemView, at_system: &str) -> Value {
    json!({
        "@odata.id": "/redfish/v1/Chassis/1", "@odata.type": "#Chassis.v1_10_0.Chassis", "Id": "1",
        "Name": system.name, "ChassisType": "RackMount", "PowerState": if system.is_on { "On" } else { "Off" },
        "Links": {
            "ComputerSystems": [{"@odata.id": at_system}],
            "ManagedBy": [{"@odata.id": "/redfish/v1/Managers/BMC"}],
        },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn system(firmware: MachineFirmware) -> SystemView {
        SystemView {
            name: "host-1".to_owned(),
            uuid: uuid::Uuid::from_u128(7),
            is_on: true,
            boot: BootOverride::default(),
            firmware,
            macs: vec!["52:54:00:77:01:01".to_owned()],
            memory_mib: 1024,
            media: None,
        }
    }

    fn at(suffix: &str) -> String {
        system_path(&uuid::Uuid::from_u128(7)) + suffix
    }

    /// Every link in every answer leads to an answer that says the same about itself.
    #[test]
    fn the_tree_has_no_dead_link() {
        let view = system(MachineFirmware::Uefi);
        let (mut open, mut seen) = (vec![ROOT.to_owned()], Vec::new());
        while let Some(path) = open.pop() {
            let path = path.trim_end_matches('/').to_owned();
            // Sessions are the server's business, see `server`.
            if seen.contains(&path) || path == SESSIONS {
                continue;
            }
            let found = answer(&view, &Method::GET, &path, b"");
            assert_eq!(found.status, StatusCode::OK, "{path}");
            let body = found.body.unwrap();
            assert_eq!(body["@odata.id"].as_str().unwrap().trim_end_matches('/'), path);
            seen.push(path);
            links(&body, &mut open);
        }
        assert!(seen.contains(&at("/EthernetInterfaces/NIC1")));
        assert!(seen.contains(&at("/VirtualMedia/Cd")) && seen.contains(&at("/SecureBoot")));
    }

    fn links(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                into.extend(object.get("@odata.id").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|inner| links(inner, into));
            }
            Value::Array(items) => items.iter().for_each(|inner| links(inner, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn boot_once_is_set_shown_and_cleared() {
        let mut view = system(MachineFirmware::Uefi);
        let patch = br#"{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}"#;
        let set = answer(&view, &Method::PATCH, &at(""), patch);
        let wanted = BootOverride { target: BootTarget::Pxe, once: true };
        assert_eq!((set.status, set.effect), (StatusCode::NO_CONTENT, Some(LabBmcEffect::SetBoot(wanted))));
        view.boot = wanted;
        let shown = answer(&view, &Method::GET, &at("/"), b"").body.unwrap();
        assert_eq!(shown["Boot"]["BootSourceOverrideEnabled"], "Once");
        assert_eq!(shown["Boot"]["BootSourceOverrideTarget"], "Pxe");
        let clear = br#"{"Boot": {"BootSourceOverrideEnabled": "Disabled"}}"#;
        let cleared = answer(&view, &Method::PATCH, &at(""), clear);
        assert_eq!(cleared.effect, Some(LabBmcEffect::SetBoot(BootOverride::default())));
    }

    #[test]
    fn what_the_firmware_cannot_do_is_refused() {
        let view = system(MachineFirmware::Bios);
        for boot in [
            r#"{"BootSourceOverrideTarget": "UefiHttp"}"#,
            r#"{"BootSourceOverrideTarget": "Floppy"}"#,
            r#"{"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideMode": "UEFI"}"#,
            r#"{"HttpBootUri": "http://x"}"#,
        ] {
            let refused = answer(&view, &Method::PATCH, &at(""), format!("{{\"Boot\": {boot}}}").as_bytes());
            assert_eq!((refused.status, refused.effect), (StatusCode::BAD_REQUEST, None), "{boot}");
            assert!(refused.body.unwrap()["error"]["message"].is_string());
        }
    }

    #[test]
    fn each_reset_type_that_is_offered_is_understood() {
        let view = system(MachineFirmware::Uefi);
        for kind in RESET_TYPES {
            let body = format!("{{\"ResetType\": \"{kind}\"}}");
            let done = answer(&view, &Method::POST, &at("/Actions/ComputerSystem.Reset"), body.as_bytes());
            assert!(matches!(done.effect, Some(LabBmcEffect::Reset(_))), "{kind}");
        }
        let refused = answer(&view, &Method::POST, &at("/Actions/ComputerSystem.Reset"), b"{\"ResetType\": \"Nmi\"}");
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    }

    proptest! {
        #[test]
        fn any_request_gets_an_answer(path in ".{0,80}", body in prop::collection::vec(any::<u8>(), 0..200)) {
            let view = system(MachineFirmware::Uefi);
            for method in [Method::GET, Method::POST, Method::PATCH] {
                let plain = answer(&view, &method, &path, &body);
                prop_assert!(plain.status != StatusCode::INTERNAL_SERVER_ERROR);
                let below = answer(&view, &method, &at(&path), &body);
                prop_assert!(below.effect.is_none() || method != Method::GET);
            }
        }
    }
}
