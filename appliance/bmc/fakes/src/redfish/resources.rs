//! The JSON of the fake service's resources.

use bytes::Bytes;
use firesteel_bmc::decide::PowerState;
use serde_json::{Value, json};

use super::state::FakeBmcState;
use super::{FakeResponse, RedfishFault};

pub(super) const ROOT: &str = "/redfish/v1";

impl FakeBmcState {
    pub(super) fn root(&self) -> Value {
        let mut root = json!({
            "@odata.id": ROOT,
            "RedfishVersion": "1.15.0",
            "Vendor": self.vendor,
            "Product": self.product,
            "Systems": {"@odata.id": format!("{ROOT}/Systems")},
            "Managers": {"@odata.id": format!("{ROOT}/Managers")},
            "UpdateService": {"@odata.id": format!("{ROOT}/UpdateService")},
            "ProtocolFeaturesSupported": self.features(),
        });
        if !self.has(&RedfishFault::NoSessions) {
            root["SessionService"] = json!({"@odata.id": format!("{ROOT}/SessionService")});
            root["Links"] = json!({"Sessions": {"@odata.id": format!("{ROOT}/SessionService/Sessions")}});
        }
        root
    }

    pub(super) fn system(&self, path: &str) -> Value {
        let power = match self.power {
            PowerState::On => "On",
            PowerState::Off => "Off",
            PowerState::PoweringOn => "PoweringOn",
            PowerState::PoweringOff => "PoweringOff",
            PowerState::Unknown => "Reset",
        };
        let mut system = json!({
            "@odata.id": path,
            "Manufacturer": self.manufacturer,
            "Model": self.model,
            "SerialNumber": "FAKE-1",
            "UUID": "00000000-0000-4000-8000-000000000001",
            "SKU": "F-1",
            "AssetTag": "",
            "BiosVersion": "2.3.4",
            "PowerState": power,
            "MemorySummary": {"TotalSystemMemoryGiB": 64},
            "ProcessorSummary": {"Count": 2, "Model": "Fake CPU"},
            "Boot": self.boot(),
            "Actions": {"#ComputerSystem.Reset": self.reset_action(path)},
            "Links": {"ManagedBy": [{"@odata.id": format!("{ROOT}/Managers/BMC")}]},
        });
        for name in ["EthernetInterfaces", "SecureBoot", "Memory", "Processors", "Storage"] {
            system[name] = json!({"@odata.id": format!("{path}/{name}")});
        }
        self.link_sensors(&mut system);
        if self.has(&RedfishFault::BootInSettings) {
            system["@Redfish.Settings"] = json!({"SettingsObject": {"@odata.id": format!("{path}/SD")}});
        }
        system
    }

    fn boot(&self) -> Value {
        let mut boot = json!({
            "BootSourceOverrideEnabled": self.boot_enabled,
            "BootSourceOverrideTarget": self.boot_target,
            "BootSourceOverrideMode": self.boot_mode,
            "BootSourceOverrideTarget@Redfish.AllowableValues": self.boot_targets_allowed,
        });
        if let Some(uri) = &self.http_boot_uri {
            boot["HttpBootUri"] = uri.as_str().into();
        }
        boot
    }

    fn reset_action(&self, path: &str) -> Value {
        let foreign = self
            .faults
            .iter()
            .find_map(|fault| if let RedfishFault::ForeignReset(to) = fault { Some(to.clone()) } else { None });
        let target = foreign.unwrap_or_else(|| format!("{path}/Actions/ComputerSystem.Reset"));
        if self.has(&RedfishFault::ResetsElsewhere) {
            json!({"target": target, "@Redfish.ActionInfo": format!("{path}/ResetActionInfo")})
        } else {
            json!({"target": target, "ResetType@Redfish.AllowableValues": self.resets_allowed})
        }
    }

    /// What can be read below the system.
    pub(super) fn part_of_system(&self, path: &str, rest: &[&str]) -> FakeResponse {
        let names = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
        let number = |name: &str, prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse::<usize>().ok());
        match rest {
            ["ResetActionInfo"] => reply(&json!({"Parameters": [
                {"Name": "ResetType", "AllowableValues": self.resets_allowed},
            ]})),
            ["EthernetInterfaces"] => {
                reply(&collection(&format!("{path}/EthernetInterfaces"), &names("eth", self.macs.len())))
            }
            ["EthernetInterfaces", name] => match number(name, "eth").and_then(|n| self.macs.get(n)) {
                Some(mac) => {
                    reply(&json!({"Id": name, "MACAddress": mac_text(mac), "LinkStatus": "LinkUp", "SpeedMbps": 25000}))
                }
                None => error(404, "no such interface"),
            },
            ["SecureBoot"] => reply(&json!({
                "SecureBootEnable": false, "SecureBootCurrentBoot": "Enabled", "SecureBootMode": "UserMode",
            })),
            ["Memory"] => reply(&collection(&format!("{path}/Memory"), &names("dimm", self.modules))),
            ["Memory", name] if number(name, "dimm").is_some_and(|n| n < self.modules) => reply(&json!({
                "Id": name, "DeviceLocator": name.to_uppercase(), "CapacityMiB": 32768, "MemoryDeviceType": "DDR5",
                "OperatingSpeedMhz": 4800, "Manufacturer": "Fake", "PartNumber": "P-1", "SerialNumber": "S-1",
                "Status": {"Health": "OK"},
            })),
            ["Processors"] => reply(&collection(&format!("{path}/Processors"), &names("CPU", 2))),
            ["Processors", name] if number(name, "CPU").is_some_and(|n| n < 2) => reply(&json!({
                "Id": name, "Socket": name, "Manufacturer": "Fake", "Model": "Fake CPU", "TotalCores": 32,
                "TotalThreads": 64, "MaxSpeedMHz": 3000, "ProcessorType": "CPU", "InstructionSet": "x86-64",
                "Status": {"Health": "OK"},
            })),
            ["Storage", rest @ ..] => self.storage(&format!("{path}/Storage"), rest),
            _ => error(404, "no such resource"),
        }
    }

    /// One controller with drives, and a volume of two of them.
    fn storage(&self, path: &str, rest: &[&str]) -> FakeResponse {
        let controller = format!("{path}/RAID");
        let drives = (0..self.drives).map(|n| json!({"@odata.id": format!("{controller}/Drives/bay{n}")}));
        let naa = |digits: String| json!([{"DurableName": digits, "DurableNameFormat": "NAA"}]);
        match rest {
            [] => reply(&collection(path, &["RAID".to_owned()])),
            ["RAID"] => reply(&json!({
                "Drives": drives.collect::<Vec<_>>(), "Volumes": {"@odata.id": format!("{controller}/Volumes")},
            })),
            ["RAID", "Drives", name] => match name.strip_prefix("bay").and_then(|n| n.parse::<usize>().ok()) {
                Some(n) if n < self.drives => reply(&json!({
                    "Id": name, "Name": format!("Bay {n}"), "CapacityBytes": 480_103_981_056_u64, "MediaType": "SSD",
                    "Protocol": "SATA", "Manufacturer": "Fake", "Model": "Fake SSD",
                    "SerialNumber": format!("DRIVE-{n}"),
                    "Revision": "1.0", "Identifiers": naa(format!("5000C500A1B2{n:04X}")), "Status": {"Health": "OK"},
                })),
                _ => error(404, "no such drive"),
            },
            ["RAID", "Volumes"] => reply(&collection(&format!("{controller}/Volumes"), &["1".to_owned()])),
            ["RAID", "Volumes", "1"] => reply(&json!({
                "Id": "1", "Name": "system", "CapacityBytes": 480_000_000_000_u64, "RAIDType": "RAID1",
                "Status": {"Health": "OK"},
            })),
            _ => error(404, "no such resource"),
        }
    }

    pub(super) fn manager(&self) -> Value {
        json!({
            "Model": "Fake BMC", "FirmwareVersion": self.manager_firmware, "Status": {"Health": "OK"},
        })
    }
}

pub(super) fn update(rest: &[&str]) -> FakeResponse {
    let list = format!("{ROOT}/UpdateService/FirmwareInventory");
    match rest {
        [] => reply(&json!({"FirmwareInventory": {"@odata.id": list}})),
        ["FirmwareInventory"] => reply(&collection(&list, &["BIOS".to_owned(), "BMC".to_owned()])),
        ["FirmwareInventory", name @ ("BIOS" | "BMC")] => reply(&json!({"Name": name, "Version": "2.3.4"})),
        _ => error(404, "no such resource"),
    }
}

pub(super) fn collection(path: &str, names: &[String]) -> Value {
    let members: Vec<Value> = names.iter().map(|name| json!({"@odata.id": format!("{path}/{name}")})).collect();
    json!({"@odata.id": path, "Members@odata.count": members.len(), "Members": members})
}

fn mac_text(mac: &[u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02X}")).join(":")
}

pub(super) fn reply(value: &Value) -> FakeResponse {
    respond(200, Bytes::from(value.to_string()))
}

pub(super) fn respond(status: u16, body: Bytes) -> FakeResponse {
    FakeResponse { status, headers: vec![("content-type", "application/json".to_owned())], body }
}

pub(super) fn empty() -> FakeResponse {
    FakeResponse { status: 204, headers: Vec::new(), body: Bytes::new() }
}

pub(super) fn error(status: u16, message: &str) -> FakeResponse {
    error_as(status, "Base.1.0.GeneralError", message)
}

pub(super) fn error_as(status: u16, id: &str, message: &str) -> FakeResponse {
    let body = json!({"error": {
        "code": "Base.1.0.GeneralError",
        "@Message.ExtendedInfo": [{"MessageId": id, "Message": message}],
    }});
    respond(status, Bytes::from(body.to_string()))
}
