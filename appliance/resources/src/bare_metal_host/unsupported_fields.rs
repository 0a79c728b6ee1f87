//! Fields that are accepted, because upstream's are, but that nothing acts on yet. A warning at admission and a
//! condition say so, so that the owner does not wait for a RAID set that never comes.

use crate::bare_metal_host::image_form::unwritable;
use crate::bare_metal_host::spec::{BareMetalHostSpec, BootMode, InspectionMode};
use crate::bare_metal_host::{BareMetalHost, address};

/// One line for everything of a host that is set and has no effect.
#[must_use]
pub fn unacted(host: &BareMetalHost) -> Vec<String> {
    unacted_fields(&host.spec)
}

/// One line per field that is set and has no effect, with the field's path first.
#[must_use]
pub fn unacted_fields(spec: &BareMetalHostSpec) -> Vec<String> {
    let image = spec.image.as_ref();
    let bmc = spec.usable_bmc().map(|bmc| bmc.address.as_str());
    let rows: [(&str, bool, &str); 11] = [
        (
            "spec.bmc.address",
            bmc.is_some_and(address::is_virtual_media),
            "a scheme of virtual media asks for booting from a CD, for which the appliance makes no image: the host \
             is booted from the network by PXE, and all else goes by Redfish",
        ),
        ("spec.architecture", !spec.architecture.is_empty(), "the architecture comes from the inspection"),
        (
            "spec.bootMode",
            spec.boot_mode == Some(BootMode::UefiSecureBoot),
            "Secure Boot is not switched; set it in the firmware",
        ),
        (
            "spec.bootMode",
            spec.boot_mode == Some(BootMode::Legacy) && bmc.is_none(),
            "without a BMC the firmware's own mode is used",
        ),
        ("spec.customDeploy", spec.custom_deploy.is_some(), "no deploy method other than writing spec.image exists"),
        ("spec.raid", spec.raid.is_some(), "RAID sets are not built"),
        (
            "spec.inspectionMode",
            spec.inspection_mode == Some(InspectionMode::Fast),
            "there is no inspection through the BMC; the agent inspects",
        ),
        ("spec.networkInterfaces", !spec.network_interfaces.is_empty(), "switch ports are not configured"),
        ("spec.taints", !spec.taints.is_empty(), "taints are not used"),
        ("spec.hardwareProfile", !spec.hardware_profile.is_empty(), "deprecated; use rootDeviceHints"),
        (
            "spec.image.ociAuthSecretName",
            image.is_some_and(|image| !image.oci_auth_secret_name.is_empty()),
            "images are not pulled from registries",
        ),
    ];
    let set = rows.iter().filter(|(_, set, _)| *set).map(|(field, _, why)| (*field, *why));
    let ignored = set.map(|(field, why)| format!("{field} is accepted but not acted on: {why}"));
    let ends_in_error = image.and_then(unwritable);
    let ends_in_error = ends_in_error.map(|(field, why)| format!("{field} ends in an error of the host: {why}"));
    ignored.chain(ends_in_error).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bare_metal_host::spec::{CustomDeploy, Image, ImageFormat};

    #[test]
    fn what_works_gives_no_warning() {
        let image = Image { url: "http://a/b".into(), format: Some(ImageFormat::Raw), ..Image::default() };
        let spec = BareMetalHostSpec {
            online: true,
            image: Some(image),
            boot_mode: Some(BootMode::Uefi),
            ..Default::default()
        };
        assert_eq!(unacted_fields(&spec), Vec::<String>::new());
    }

    #[test]
    fn a_host_that_is_not_booted_as_its_scheme_says_is_told() {
        let of = |address: &str| {
            let bmc = crate::bare_metal_host::BmcDetails {
                address: address.into(),
                credentials_name: "s".into(),
                ..Default::default()
            };
            unacted_fields(&BareMetalHostSpec { bmc: Some(bmc), ..Default::default() })
        };
        for scheme in ["redfish-virtualmedia", "idrac-virtualmedia+http", "ilo5-virtualmedia+https"] {
            let warnings = of(&format!("{scheme}://192.0.2.5/redfish/v1/Systems/1"));
            assert!(warnings.len() == 1 && warnings[0].contains("by PXE"), "{scheme}: {warnings:?}");
        }
        for scheme in ["redfish", "redfish-uefihttp", "idrac-redfish", "ilo5-redfish", "ipmi"] {
            assert_eq!(of(&format!("{scheme}://192.0.2.5/")), Vec::<String>::new(), "{scheme}");
        }
    }

    #[test]
    fn each_idle_field_is_named() {
        let spec = BareMetalHostSpec {
            custom_deploy: Some(CustomDeploy { method: "x".into() }),
            hardware_profile: "libvirt".into(),
            ..Default::default()
        };
        let warnings = unacted_fields(&spec);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].starts_with("spec.customDeploy ") && warnings[1].starts_with("spec.hardwareProfile "));
    }
}
