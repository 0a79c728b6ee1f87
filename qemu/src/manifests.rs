//! The YAML that a user of the lab would write: the network, a host with its secrets, and the two
//! Ignition configs of its OS (the stub, and the config that the stub fetches).

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::bmc;
use crate::machine::MachineFirmware;
use crate::net::{APPLIANCE_ADDRESS, BRIDGE, DHCP_RANGE, NETWORK_CIDR};

pub const NAMESPACE: &str = "default";
/// Where agents and first boots find the appliance.
const AGENT_PORT: u16 = 8443;
/// Debian's Ignition 2.14 knows specs up to this.
const IGNITION_VERSION: &str = "3.3.0";

/// An image as a host names it.
#[derive(Clone, Debug)]
pub struct ManifestImage {
    pub url: String,
    pub sha256: String,
    /// `raw` or `qcow2`; compression is found by content.
    pub format: &'static str,
}

/// What a host's OS is configured by at its first boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UserData {
    /// A stub that fetches the host's own config from the appliance, which names the host.
    #[default]
    Own,
    /// That stub, whose config fetches one more from this address.
    Merging(String),
    /// That stub, and no config that it could fetch.
    Unserved,
    /// User data as it stands: cloud-init's, for instance.
    Text(String),
    /// What its group's pool has.
    OfGroup,
}

/// The way in which a disk is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootHint {
    Serial(String),
    /// A path such as `/dev/vda`, for a disk that has no serial number.
    Path(String),
}

/// What a machine shall become; by default it is only inspected.
#[derive(Clone, Debug, Default)]
pub struct DesiredHost {
    pub image: Option<ManifestImage>,
    /// The machine's own name, unless given.
    pub hostname: Option<String>,
    /// The disk to use; without it the appliance chooses.
    pub root: Option<RootHint>,
    pub offline: bool,
    /// No inspection when it is registered: only before it is written.
    pub uninspected: bool,
    /// Network data of its ramdisk: the key of the Secret, and the text.
    pub network_data: Option<(&'static str, String)>,
    pub user_data: UserData,
    /// Its group says which image it gets.
    pub in_group: bool,
    /// Network data and metadata of its OS.
    pub os_network_data: Option<String>,
    pub os_meta_data: Option<String>,
    /// What its stub wants of the kernel.
    pub kernel_arguments: Vec<String>,
    /// The form of its hand-off, where it is not to be recognised.
    pub hand_off: Option<&'static str>,
    pub labels: BTreeMap<String, String>,
}

/// A host to be.
#[derive(Clone, Debug)]
pub struct HostManifest {
    pub name: String,
    pub mac: String,
    pub firmware: MachineFirmware,
    /// The BMC's address, where there is one.
    pub bmc: Option<String>,
    pub wish: DesiredHost,
}

/// Makes the Provisioning object.
#[must_use]
pub fn provisioning() -> String {
    provisioning_in("Managed")
}

/// Makes the object with this mode.
#[must_use]
pub fn provisioning_in(mode: &str) -> String {
    yaml(&[json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"},
        "spec": {
            "provisioningNetwork": mode,
            "provisioningInterface": BRIDGE,
            "provisioningIP": APPLIANCE_ADDRESS,
            "provisioningNetworkCIDR": NETWORK_CIDR,
            "provisioningDHCPRange": DHCP_RANGE,
        },
    })])
}

/// The Provisioning object of a site without a provisioning network.
#[must_use]
pub fn disabled_network() -> String {
    yaml(&[json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"},
        "spec": {"provisioningNetwork": "Disabled"},
    })])
}

/// Sets an annotation of a host, or removes it, as a merge patch does it.
#[must_use]
pub fn annotated(name: &str, key: &str, value: Option<&str>) -> String {
    yaml(&[json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {key: value}},
    })])
}

/// Wants a host to be off, as a merge patch does it.
#[must_use]
pub fn offline(name: &str) -> String {
    yaml(&[json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"online": false},
    })])
}

/// Has all disks of a host erased in full when its image goes, as a merge patch does it.
#[must_use]
pub fn erased_in_full(name: &str) -> String {
    let cleaning = json!({"betweenInstallations": {"method": "full", "scope": "all"}}).to_string();
    yaml(&[json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"firesteel.dev/cleaning": cleaning}},
    })])
}

/// Wants an image on a host, as a merge patch does it.
#[must_use]
pub fn wanting_image(name: &str, url: &str) -> String {
    let image = json!({"url": url, "checksum": "0".repeat(64), "checksumType": "sha256"});
    yaml(&[json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"image": image},
    })])
}

/// Takes the image off a host, as a merge patch does it.
#[must_use]
pub fn without_image(name: &str) -> String {
    yaml(&[json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"image": null},
    })])
}

/// The host, its BMC's credentials, its stub and its config.
#[must_use]
pub fn host(host: &HostManifest, ca_pem: &str) -> String {
    let name = &host.name;
    let mut objects = Vec::new();
    if host.bmc.is_some() {
        let credentials = json!({"username": encode(bmc::USER), "password": encode(bmc::PASSWORD)});
        objects.push(secret(&format!("{name}-bmc"), "Opaque", credentials));
    }
    if host.has_user_data() {
        let config = match &host.wish.user_data {
            UserData::Own => Some(final_config(host.hostname(), None)),
            UserData::Merging(url) => Some(final_config(host.hostname(), Some(url))),
            UserData::Unserved | UserData::Text(_) | UserData::OfGroup => None,
        };
        if let Some(config) = config {
            objects.push(served_config(&format!("{name}-config"), &config));
        }
        let text = match &host.wish.user_data {
            UserData::Text(text) => text.clone(),
            UserData::Own | UserData::Merging(_) | UserData::Unserved | UserData::OfGroup => {
                stub(name, ca_pem, &host.wish.kernel_arguments).to_string()
            }
        };
        objects.push(secret(&format!("{name}-user-data"), "Opaque", json!({"userData": encode(&text)})));
    }
    let ramdisk = host.wish.network_data.as_ref().map(|(key, text)| ("network", *key, text));
    let network = host.wish.os_network_data.as_ref().map(|text| ("os-network", "networkData", text));
    let meta = host.wish.os_meta_data.as_ref().map(|text| ("os-meta", "metaData", text));
    for (suffix, key, text) in [ramdisk, network, meta].into_iter().flatten() {
        objects.push(secret(&format!("{name}-{suffix}"), "Opaque", json!({key: encode(text)})));
    }
    objects.push(bare_metal_host(host));
    yaml(&objects)
}

impl HostManifest {
    fn has_user_data(&self) -> bool {
        (self.wish.image.is_some() || self.wish.in_group) && self.wish.user_data != UserData::OfGroup
    }

    /// What the installed OS calls itself, so that its console tells one installation from another.
    fn hostname(&self) -> &str {
        self.wish.hostname.as_deref().unwrap_or(&self.name)
    }
}

/// The config that a host fetches, as a Secret.
#[must_use]
pub fn served_config(name: &str, config: &Value) -> Value {
    secret(name, "firesteel.dev/config", json!({"config.ign": encode(&config.to_string())}))
}

fn bare_metal_host(host: &HostManifest) -> Value {
    let name = &host.name;
    let boot_mode = match host.firmware {
        MachineFirmware::Bios => "legacy",
        MachineFirmware::Uefi => "UEFI",
    };
    let mut spec = json!({"online": !host.wish.offline, "bootMACAddress": host.mac, "bootMode": boot_mode});
    if let Some(address) = &host.bmc {
        spec["bmc"] = json!({
            "address": address,
            "credentialsName": format!("{name}-bmc"),
            "disableCertificateVerification": true,
        });
    }
    if let Some(image) = &host.wish.image {
        spec["image"] = json!({
            "url": image.url, "checksum": image.sha256, "checksumType": "sha256", "format": image.format,
        });
    }
    if host.has_user_data() {
        spec["userData"] = json!({"name": format!("{name}-user-data"), "namespace": NAMESPACE});
    }
    if host.wish.os_network_data.is_some() {
        spec["networkData"] = json!({"name": format!("{name}-os-network"), "namespace": NAMESPACE});
    }
    if host.wish.os_meta_data.is_some() {
        spec["metaData"] = json!({"name": format!("{name}-os-meta"), "namespace": NAMESPACE});
    }
    if host.wish.uninspected {
        spec["inspectionMode"] = json!("disabled");
    }
    if host.wish.network_data.is_some() {
        spec["preprovisioningNetworkDataName"] = json!(format!("{name}-network"));
    }
    match &host.wish.root {
        Some(RootHint::Serial(serial)) => spec["rootDeviceHints"] = json!({"serialNumber": serial}),
        Some(RootHint::Path(path)) => spec["rootDeviceHints"] = json!({"deviceName": path}),
        None => {}
    }
    let mut annotations = serde_json::Map::new();
    if let Some(form) = host.wish.hand_off {
        annotations.insert("firesteel.dev/hand-off".to_owned(), json!(form));
    }
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": host.wish.labels, "annotations": annotations},
        "spec": spec,
    })
}

/// What is written to the disk: where the real config is, and whom to trust for it.
fn stub(name: &str, ca_pem: &str, kernel_arguments: &[String]) -> Value {
    let ca = format!("data:text/plain;base64,{}", encode(ca_pem));
    let mut stub = json!({"ignition": {
        "version": IGNITION_VERSION,
        "config": {"merge": [{"source": format!("https://{APPLIANCE_ADDRESS}:{AGENT_PORT}/config/{name}-config")}]},
        "security": {"tls": {"certificateAuthorities": [{"source": ca}]}},
    }});
    if !kernel_arguments.is_empty() {
        stub["kernelArguments"] = json!({"shouldExist": kernel_arguments});
    }
    stub
}

/// What the stub fetches.
#[must_use]
pub fn final_config(hostname: &str, merged: Option<&str>) -> Value {
    let mut config = json!({
        "ignition": {"version": IGNITION_VERSION},
        "storage": {"files": [{
            "path": "/etc/hostname", "overwrite": true, "mode": 0o644,
            "contents": {"source": format!("data:,{hostname}")},
        }]},
    });
    if let Some(url) = merged {
        config["ignition"]["config"] = json!({"merge": [{"source": url}]});
    }
    config
}

#[must_use]
pub fn secret(name: &str, kind: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": kind,
        "metadata": {"name": name, "namespace": NAMESPACE}, "data": data,
    })
}

fn encode(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// JSON is YAML; documents are separated as in any manifest.
#[must_use]
pub fn yaml(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object:#}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> ManifestImage {
        ManifestImage { url: "http://x/i".to_owned(), sha256: "00".to_owned(), format: "raw" }
    }

    #[test]
    fn a_host_brings_what_it_names() {
        let text = host(
            &HostManifest {
                name: "host-1".to_owned(),
                mac: "52:54:00:77:01:01".to_owned(),
                firmware: MachineFirmware::Uefi,
                bmc: Some("redfish+https://127.0.1.1:443/redfish/v1/Systems/x".to_owned()),
                wish: DesiredHost {
                    image: Some(image()),
                    os_network_data: Some("{}".to_owned()),
                    ..DesiredHost::default()
                },
            },
            "PEM",
        );
        for named in ["host-1-bmc", "host-1-user-data", "host-1-config", "host-1-os-network"] {
            assert!(text.contains(&format!("\"name\": \"{named}\"")), "{named} in {text}");
        }
        assert_eq!(text.matches("---\n").count(), 5);
    }

    #[test]
    fn user_data_is_the_hosts_own_or_as_given_or_its_groups() {
        let text = |user_data: UserData| {
            let manifest = HostManifest {
                name: "a".to_owned(),
                mac: String::new(),
                firmware: MachineFirmware::Uefi,
                bmc: None,
                wish: DesiredHost { image: Some(image()), user_data, ..DesiredHost::default() },
            };
            host(&manifest, "PEM")
        };
        let count = |user_data: UserData| text(user_data).matches("---\n").count();
        assert_eq!((count(UserData::Own), count(UserData::Unserved), count(UserData::OfGroup)), (3, 2, 1));
        let cloud = "#cloud-config\n".to_owned();
        assert!(text(UserData::Text(cloud.clone())).contains(&encode(&cloud)));
        assert!(!text(UserData::OfGroup).contains("userData"));
        let stub = stub("a", "PEM", &["quiet".to_owned()]);
        assert_eq!(stub["kernelArguments"]["shouldExist"][0], "quiet");
        let merged = final_config("a", Some("http://x/y.ign"));
        assert_eq!(merged["ignition"]["config"]["merge"][0]["source"], "http://x/y.ign");
    }
}
