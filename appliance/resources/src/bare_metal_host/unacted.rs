//! Fields that are accepted, because upstream's are, but that nothing acts on yet. The owner is
//! told at admission and by a condition, so that nobody waits for a RAID set that never comes.

use crate::bare_metal_host::{
    BareMetalHost, annotations,
    spec::{BareMetalHostSpec, BootMode, InspectionMode},
};

/// One line for everything of a host that is set and has no effect.
#[must_use]
pub fn unacted(host: &BareMetalHost) -> Vec<String> {
    let mut lines = unacted_fields(&host.spec);
    lines.extend(annotations::unacted(&host.metadata));
    lines
}

/// One line per field that is set and has no effect, with the field's path first.
#[must_use]
pub fn unacted_fields(spec: &BareMetalHostSpec) -> Vec<String> {
    let image = spec.image.as_ref();
    let rows: [(&str, bool, &str); 13] = [
        ("spec.architecture", !spec.architecture.is_empty(), "the architecture comes from the inspection"),
        (
            "spec.bootMode",
            spec.boot_mode == Some(BootMode::UefiSecureBoot),
            "Secure Boot is not switched; set it in the firmware",
        ),
        ("spec.bootMode", spec.boot_mode == Some(BootMode::Legacy), "the firmware's own mode is used"),
        ("spec.networkData", spec.network_data.is_some(), "network data is not handed to the OS; use userData"),
        ("spec.metaData", spec.meta_data.is_some(), "metadata is not handed to the OS; use userData"),
        (
            "spec.preprovisioningNetworkDataName",
            !spec.preprovisioning_network_data_name.is_empty(),
            "the ramdisk configures the interface that booted by DHCP",
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
    rows.iter()
        .filter(|(_, set, _)| *set)
        .map(|(field, _, why)| format!("{field} is accepted but not acted on: {why}"))
        .collect()
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
