//! Admission rules of a BareMetalHost: upstream's webhook, and what this appliance cannot do.
//!
//! Images that upstream takes and nothing here writes are accepted with a warning ([`super::image_form`]). Stricter
//! than upstream, since it would fail later and be harder to understand: a Redfish address has a path, to the system
//! or its service, and nothing beside it; a reference to a Secret has a name, a deploy method too. Wider: a disk may be
//! named by its link in `/dev/disk/by-id`, and `externallyProvisioned` may be switched on as long as nothing was done
//! to a disk.
//!
//! No message quotes what may be a secret in a URL: not only the client that is refused reads it. A URL may have no
//! user information, which upstream takes: every reader of the object sees its spec, and backups hold it unsealed.

use firesteel_facts::{Mac, has_user_information, shown_url};
use firesteel_kube_types::{Cause, SecretReference};

use crate::bare_metal_host::image_form::{self, FOREIGN_SCHEMES};
use crate::bare_metal_host::spec::{
    BareMetalHostSpec, BootMode, ChecksumType, Image, ImageFormat, InspectionMode, Raid,
};
use crate::bare_metal_host::status::ProvisioningState;
use crate::bare_metal_host::{BareMetalHost, address, annotations};
use crate::mac::normal_mac;

/// Schemes by which an image can be fetched. `file` and `store` name an image that was imported.
const IMAGE_SCHEMES: [&str; 4] = ["http", "https", "file", "store"];

/// Checks a new object, or a change of `old`.
#[must_use]
pub fn causes(new: &BareMetalHost, old: Option<&BareMetalHost>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old.is_none() {
        name(&new.metadata.name, &mut causes);
    }
    let spec = &new.spec;
    bmc(new, &mut causes);
    boot_mac(spec, &mut causes);
    if let Some(wanted) = &spec.image {
        image(wanted, old.and_then(|old| old.spec.image.as_ref()), &mut causes);
    }
    if let Some(wanted) = &spec.raid {
        raid(wanted, spec, &mut causes);
    }
    if spec.firmware.is_some() {
        let why = "the Firmware field is no longer supported, use HostFirmwareSettings resource instead";
        causes.push(Cause::forbidden("spec.firmware", why));
    }
    hints(spec, &mut causes);
    inspection(new, &mut causes);
    secrets(spec, &new.metadata.namespace, &mut causes);
    interfaces(spec, &mut causes);
    if spec.disable_power_off && !spec.online {
        causes.push(Cause::forbidden("spec.disablePowerOff", "cannot be combined with online=false"));
    }
    if let Some(method) = spec.custom_deploy.as_ref().filter(|method| method.method.is_empty()) {
        causes.push(Cause::invalid("spec.customDeploy.method", &method.method, "must not be empty"));
    }
    causes.extend(annotations::causes(&new.metadata, inspection_disabled(new)));
    if let Some(old) = old {
        changes(new, old, &mut causes);
    }
    causes
}

fn changes(new: &BareMetalHost, old: &BareMetalHost, causes: &mut Vec<Cause>) {
    let state = old.status.as_ref().map(|status| status.provisioning.state).unwrap_or_default();
    let old_mac = normal_mac(&old.spec.boot_mac_address);
    if old_mac.is_some() && old_mac != normal_mac(&new.spec.boot_mac_address) {
        causes.push(Cause::forbidden("spec.bootMACAddress", "cannot be changed once it is set"));
    }
    if let Some(old_bmc) = &old.spec.bmc {
        let new_address = new.spec.bmc.as_ref().map(|bmc| bmc.address.as_str()).unwrap_or_default();
        let detached = new.metadata.annotations.contains_key(annotations::DETACHED);
        let free = detached
            || matches!(state, ProvisioningState::New | ProvisioningState::Unmanaged | ProvisioningState::Registering);
        if !old_bmc.address.is_empty() && old_bmc.address != new_address && !free {
            let why = format!("can be changed only while the host is registering or detached; it is {state}");
            causes.push(Cause::forbidden("spec.bmc.address", &why));
        }
    }
    let switched_on = new.spec.externally_provisioned && !old.spec.externally_provisioned;
    let early = matches!(
        state,
        ProvisioningState::New
            | ProvisioningState::Unmanaged
            | ProvisioningState::Registering
            | ProvisioningState::Available
    );
    if switched_on && !early {
        let why = format!("can be switched on only while the host is available; it is {state}");
        causes.push(Cause::forbidden("spec.externallyProvisioned", &why));
    }
}

fn name(name: &str, causes: &mut Vec<Cause>) {
    let legal = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
    if !legal {
        let why = "may contain lower-case letters, digits, '-' and '.' only";
        causes.push(Cause::invalid("metadata.name", name, why));
    }
    if is_uuid(name) {
        causes.push(Cause::invalid("metadata.name", name, "must not be a UUID: it would read as an identity"));
    }
}

/// Whether a text is a UUID, with hyphens or without.
fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() == 32 && bytes.iter().all(u8::is_ascii_hexdigit) {
        return true;
    }
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn bmc(host: &BareMetalHost, causes: &mut Vec<Cause>) {
    let Some(bmc) = &host.spec.bmc else { return };
    let (address, credentials) = (bmc.address.as_str(), bmc.credentials_name.as_str());
    if !address.is_empty() && credentials.is_empty() {
        causes.push(Cause::required("spec.bmc.credentialsName", "the Secret with username and password"));
    }
    if address.is_empty() {
        if !credentials.is_empty() {
            causes.push(Cause::required("spec.bmc.address", "such as redfish+https://192.0.2.5/redfish/v1/Systems/1"));
        }
        return;
    }
    match address::check(address) {
        Err(why) => causes.push(Cause::invalid("spec.bmc.address", &shown_url(address), &why.to_string())),
        Ok(()) => driver(host, address, causes),
    }
}

/// Refuses what the driver of this BMC cannot do, and asks for what it needs.
fn driver(host: &BareMetalHost, bmc: &str, causes: &mut Vec<Cause>) {
    let (spec, family) = (&host.spec, address::family(bmc));
    let is_plain = address::is_ipmi(bmc);
    if spec.boot_mac_address.is_empty() && (family == "libvirt" || inspection_disabled(host)) {
        let why = format!("BMC driver {family} requires a BootMACAddress value where nothing else tells it");
        causes.push(Cause::required("spec.bootMACAddress", &why));
    }
    let has_volumes = |raid: &Raid| raid.hardware_volumes.as_ref().is_some_and(|volumes| !volumes.is_empty());
    if is_plain && spec.raid.as_ref().is_some_and(has_volumes) {
        let why = format!("BMC driver {family} does not support configuring RAID");
        causes.push(Cause::forbidden("spec.raid.hardwareRAIDVolumes", &why));
    }
    if is_plain && spec.boot_mode == Some(BootMode::UefiSecureBoot) {
        let why = format!("BMC driver {family} does not support secure boot");
        causes.push(Cause::forbidden("spec.bootMode", &why));
    }
    if is_plain && spec.inspection_mode == Some(InspectionMode::Fast) {
        let why = format!("BMC driver {family} does not support fast (out-of-band) inspection");
        causes.push(Cause::forbidden("spec.inspectionMode", &why));
    }
}

fn inspection_disabled(host: &BareMetalHost) -> bool {
    host.spec.inspection_mode == Some(InspectionMode::Disabled)
        || host.metadata.annotation(annotations::INSPECT) == Some("disabled")
}

fn inspection(host: &BareMetalHost, causes: &mut Vec<Cause>) {
    let annotation = host.metadata.annotation(annotations::INSPECT).filter(|value| !value.is_empty());
    let (Some(annotation), Some(mode)) = (annotation, host.spec.inspection_mode) else { return };
    if (annotation == "disabled") != (mode == InspectionMode::Disabled) {
        let why = "inspect.metal3.io annotation and inspectionMode field have contradicting values";
        causes.push(Cause::forbidden("spec.inspectionMode", why));
    }
}

fn hints(spec: &BareMetalHostSpec, causes: &mut Vec<Cause>) {
    let name = spec.root_device_hints.as_ref().map(|hints| hints.device_name.as_str()).unwrap_or_default();
    if name.is_empty() {
        return;
    }
    let rest = name.strip_prefix("/dev/").unwrap_or_default();
    let rest = rest.strip_prefix("disk/by-path/").or_else(|| rest.strip_prefix("disk/by-id/")).unwrap_or(rest);
    if rest.is_empty() || rest.contains('/') {
        let why = "must be a path in /dev/, /dev/disk/by-path/ or /dev/disk/by-id/";
        causes.push(Cause::invalid("spec.rootDeviceHints.deviceName", name, why));
    }
}

fn boot_mac(spec: &BareMetalHostSpec, causes: &mut Vec<Cause>) {
    let text = &spec.boot_mac_address;
    if text.is_empty() {
        return;
    }
    let Ok(mac) = text.parse::<Mac>() else {
        // Upstream's pattern takes an address with something around it.
        causes.push(Cause::invalid("spec.bootMACAddress", text, "must be a MAC address such as 52:54:00:12:34:56"));
        return;
    };
    if !mac.is_unicast() {
        causes.push(Cause::invalid("spec.bootMACAddress", text, "must be the address of one interface"));
    }
}

/// What is said of an image's address with a login in it.
const LOGIN_IN_URL: &str = "may not hold a user or a password, which every reader of the object can see: put them \
                            into a Secret with the keys username and password in the host's namespace, and name it in \
                            the host's annotation firesteel.dev/image-login";

/// An address that was stored before the rule stays as long as it is not changed: a host that has it can be retried,
/// moved and deleted.
fn refuse_login(field: &str, text: &str, old: Option<&str>, causes: &mut Vec<Cause>) {
    if has_user_information(text) && old != Some(text) {
        causes.push(Cause::forbidden(field, LOGIN_IN_URL));
    }
}

/// Judges the image of a host, which may have had an `old` one.
pub(crate) fn image(image: &Image, old: Option<&Image>, causes: &mut Vec<Cause>) {
    refuse_login("spec.image.url", &image.url, old.map(|old| old.url.as_str()), causes);
    refuse_login("spec.image.checksum", &image.checksum, old.map(|old| old.checksum.as_str()), causes);
    let shown = shown_url(&image.url);
    let scheme = image_form::scheme(&image.url);
    if !IMAGE_SCHEMES.contains(&scheme.as_str()) && !FOREIGN_SCHEMES.contains(&scheme.as_str()) {
        let why = format!("must start with one of {}", IMAGE_SCHEMES.map(|scheme| format!("{scheme}://")).join(", "));
        causes.push(Cause::invalid("spec.image.url", &shown, &why));
    } else if image.url.contains(char::is_whitespace) || image.url.len() == scheme.len() + 3 {
        causes.push(Cause::invalid("spec.image.url", &shown, "is no URL"));
    }
    // What was imported by hand was checked then, and is named by its digest. The others name theirs, or are never
    // written, as upstream has it.
    let needs_none = matches!(scheme.as_str(), "file" | "store" | "oci") || image.format == Some(ImageFormat::LiveIso);
    if image.checksum.is_empty() {
        if !needs_none {
            causes.push(Cause::required("spec.image.checksum", "a digest, or the URL of a file with digests"));
        }
    } else if !image.checksum.contains("://") && scheme != "oci" {
        checksum(image, causes);
    }
}

fn checksum(image: &Image, causes: &mut Vec<Cause>) {
    let digits = image.checksum.len();
    let hexadecimal = image.checksum.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = match image.checksum_type.unwrap_or_default() {
        ChecksumType::Md5 => digits == 32,
        ChecksumType::Sha256 => digits == 64,
        ChecksumType::Sha512 => digits == 128,
        ChecksumType::Auto => [32, 64, 128].contains(&digits),
    };
    if !hexadecimal || !fits {
        let why = "must be a URL, or hexadecimal digits: 32 for md5, 64 for sha256, 128 for sha512, \
                   and as many as checksumType says";
        causes.push(Cause::invalid("spec.image.checksum", &shown_url(&image.checksum), why));
    }
}

fn raid(raid: &Raid, spec: &BareMetalHostSpec, causes: &mut Vec<Cause>) {
    let hardware = raid.hardware_volumes.as_deref().unwrap_or_default();
    let software = raid.software_volumes.as_deref().unwrap_or_default();
    if !hardware.is_empty() && !software.is_empty() {
        causes.push(Cause::forbidden("spec.raid", "hardwareRAIDVolumes and softwareRAIDVolumes exclude each other"));
    }
    for (index, volume) in hardware.iter().enumerate() {
        let path = format!("spec.raid.hardwareRAIDVolumes[{index}]");
        if volume.physical_disks.is_empty() {
            continue;
        }
        if volume.controller.is_empty() {
            causes.push(Cause::required(&format!("{path}.controller"), "physicalDisks belong to a controller"));
        }
        let count = volume.physical_disks.len() as u64;
        if volume.number_of_physical_disks.is_some_and(|wanted| wanted != count) {
            let why = format!("differs from the {count} physicalDisks");
            let number = volume.number_of_physical_disks.unwrap_or_default().to_string();
            causes.push(Cause::invalid(&format!("{path}.numberOfPhysicalDisks"), &number, &why));
        }
    }
    software_raid(software, spec, causes);
}

fn software_raid(
    volumes: &[crate::bare_metal_host::spec::SoftwareRaidVolume],
    spec: &BareMetalHostSpec,
    causes: &mut Vec<Cause>,
) {
    let list = "spec.raid.softwareRAIDVolumes";
    let roots: Vec<_> = volumes.iter().enumerate().filter(|(_, volume)| volume.root_volume).collect();
    if roots.len() > 1 {
        causes.push(Cause::invalid(list, "rootVolume", "at most one volume can be the root volume"));
    }
    for (index, volume) in roots {
        if volume.level != "1" {
            causes.push(Cause::invalid(
                &format!("{list}[{index}].level"),
                &volume.level,
                "the root volume must be RAID-1",
            ));
        }
        if spec.root_device_hints.as_ref().is_some_and(|hints| !hints.is_empty()) {
            causes.push(Cause::forbidden("spec.rootDeviceHints", "cannot be combined with a RAID root volume"));
        }
    }
}

fn secrets(spec: &BareMetalHostSpec, namespace: &str, causes: &mut Vec<Cause>) {
    let references: [(&str, &Option<SecretReference>); 3] = [
        ("spec.userData", &spec.user_data),
        ("spec.networkData", &spec.network_data),
        ("spec.metaData", &spec.meta_data),
    ];
    for (path, reference) in references {
        let Some(reference) = reference else { continue };
        if !reference.namespace.is_empty() && reference.namespace != namespace {
            let why = format!("must be empty or {namespace:?}: Secrets of other namespaces are not read");
            causes.push(Cause::invalid(&format!("{path}.namespace"), &reference.namespace, &why));
        }
        if reference.name.is_empty() {
            causes.push(Cause::required(&format!("{path}.name"), "the Secret's name"));
        }
    }
}

fn interfaces(spec: &BareMetalHostSpec, causes: &mut Vec<Cause>) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, interface) in spec.network_interfaces.iter().enumerate() {
        let path = format!("spec.networkInterfaces[{index}]");
        if interface.name.is_empty() == interface.mac_address.is_empty() {
            causes.push(Cause::invalid(&path, &interface.name, "exactly one of name and macAddress must be set"));
            continue;
        }
        let selector = if interface.name.is_empty() { &interface.mac_address } else { &interface.name };
        if !seen.insert(selector.to_ascii_lowercase()) {
            causes.push(Cause::duplicate(&path, selector));
        }
    }
}
