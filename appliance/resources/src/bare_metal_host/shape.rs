//! The fields of a BareMetalHost as upstream's schema has them.

use crate::{
    hardware_data::DETAILS_SHAPE,
    shape::{Field, Shape},
};

const TEXT: Shape = Shape::Text;
const MAC: Shape = Shape::Mac { anchored: true };

const IMAGE: Shape = Shape::Object(&[
    Field::new("checksum", &TEXT),
    Field::new("checksumType", &Shape::OneOf(&["md5", "sha256", "sha512", "auto"])),
    Field::new("format", &Shape::OneOf(&["raw", "qcow2", "vdi", "vmdk", "live-iso"])),
    Field::new("ociAuthSecretName", &TEXT),
    Field::required("url", &TEXT),
]);

const SECRET: Shape = Shape::Object(&[Field::new("name", &TEXT), Field::new("namespace", &TEXT)]);

const HINTS: Shape = Shape::Object(&[
    Field::new("deviceName", &TEXT),
    Field::new("hctl", &TEXT),
    Field::new("minSizeGigabytes", &Shape::NATURAL),
    Field::new("model", &TEXT),
    Field::new("rotational", &Shape::Boolean),
    Field::new("serialNumber", &TEXT),
    Field::new("vendor", &TEXT),
    Field::new("wwn", &TEXT),
    Field::new("wwnVendorExtension", &TEXT),
    Field::new("wwnWithExtension", &TEXT),
]);

const RAID: Shape = Shape::Object(&[
    Field::new("hardwareRAIDVolumes", &Shape::List(&HARDWARE_VOLUME)),
    Field::new("softwareRAIDVolumes", &Shape::List(&SOFTWARE_VOLUME)),
]);

const HARDWARE_VOLUME: Shape = Shape::Object(&[
    Field::new("controller", &TEXT),
    Field::required("level", &Shape::OneOf(&["0", "1", "2", "5", "6", "1+0", "5+0", "6+0"])),
    Field::new("name", &TEXT),
    Field::new("numberOfPhysicalDisks", &Shape::Integer { min: Some(1), max: None }),
    Field::new("physicalDisks", &Shape::List(&TEXT)),
    Field::new("rotational", &Shape::Boolean),
    Field::new("sizeGibibytes", &Shape::NATURAL),
]);

const SOFTWARE_VOLUME: Shape = Shape::Object(&[
    Field::required("level", &Shape::OneOf(&["0", "1", "1+0"])),
    Field::new("physicalDisks", &Shape::List(&HINTS)),
    Field::new("rootVolume", &Shape::Boolean),
    Field::new("sizeGibibytes", &Shape::NATURAL),
]);

const CUSTOM_DEPLOY: Shape = Shape::Object(&[Field::required("method", &TEXT)]);
const BOOT_MODE: Shape = Shape::OneOf(&["UEFI", "UEFISecureBoot", "legacy"]);

const FIRMWARE: Shape = Shape::Object(&[
    Field::new("simultaneousMultithreadingEnabled", &Shape::Boolean),
    Field::new("sriovEnabled", &Shape::Boolean),
    Field::new("virtualizationEnabled", &Shape::Boolean),
]);

const NETWORK_INTERFACE: Shape = Shape::Object(&[
    Field::new("hostNetworkAttachment", &Shape::Object(&[Field::new("name", &TEXT), Field::new("namespace", &TEXT)])),
    Field::new("macAddress", &MAC),
    Field::new("name", &TEXT),
    Field::new("switchPort", &Shape::Object(&[Field::required("portID", &TEXT), Field::required("switchID", &MAC)])),
]);

const TAINT: Shape = Shape::Object(&[
    Field::required("effect", &TEXT),
    Field::required("key", &TEXT),
    Field::new("timeAdded", &Shape::Time),
    Field::new("value", &TEXT),
]);

const CONSUMER: Shape = Shape::Object(&[
    Field::new("apiVersion", &TEXT),
    Field::new("fieldPath", &TEXT),
    Field::new("kind", &TEXT),
    Field::new("name", &TEXT),
    Field::new("namespace", &TEXT),
    Field::new("resourceVersion", &TEXT),
    Field::new("uid", &TEXT),
]);

const SPEC: Shape = Shape::Object(&[
    Field::new("architecture", &TEXT),
    Field::new("automatedCleaningMode", &Shape::OneOf(&["metadata", "disabled"])),
    Field::new(
        "bmc",
        &Shape::Object(&[
            Field::required("address", &TEXT),
            Field::required("credentialsName", &TEXT),
            Field::new("disableCertificateVerification", &Shape::Boolean),
        ]),
    ),
    Field::new("bootMACAddress", &Shape::Mac { anchored: false }),
    Field::new("bootMode", &BOOT_MODE),
    Field::new("consumerRef", &CONSUMER).atomic(),
    Field::new("customDeploy", &CUSTOM_DEPLOY),
    Field::new("description", &TEXT),
    Field::new("disablePowerOff", &Shape::Boolean),
    Field::new("externallyProvisioned", &Shape::Boolean),
    Field::new("firmware", &FIRMWARE),
    Field::new("hardwareProfile", &TEXT),
    Field::new("image", &IMAGE),
    Field::new("inspectionMode", &Shape::OneOf(&["disabled", "agent", "fast"])),
    Field::new("metaData", &SECRET).atomic(),
    Field::new("networkData", &SECRET).atomic(),
    Field::new("networkInterfaces", &Shape::List(&NETWORK_INTERFACE)),
    Field::required("online", &Shape::Boolean),
    Field::new("preprovisioningNetworkDataName", &TEXT),
    Field::new("raid", &RAID),
    Field::new("rootDeviceHints", &HINTS),
    Field::new("taints", &Shape::List(&TAINT)),
    Field::new("userData", &SECRET).atomic(),
]);

const CREDENTIALS: Shape =
    Shape::Object(&[Field::new("credentials", &SECRET).atomic(), Field::new("credentialsVersion", &TEXT)]);

const METRIC: Shape = Shape::Object(&[Field::new("end", &Shape::Time), Field::new("start", &Shape::Time)]);

const CONDITION: Shape = Shape::Object(&[
    Field::required("lastTransitionTime", &Shape::Time),
    Field::required("message", &TEXT),
    Field::new("observedGeneration", &Shape::NATURAL),
    Field::required("reason", &TEXT),
    Field::required("status", &Shape::OneOf(&["True", "False", "Unknown"])),
    Field::required("type", &TEXT),
]);

const PROVISIONING: Shape = Shape::Object(&[
    Field::required("ID", &TEXT),
    Field::new("bootMode", &BOOT_MODE),
    Field::new("customDeploy", &CUSTOM_DEPLOY),
    Field::new("firmware", &FIRMWARE),
    Field::new("image", &IMAGE),
    Field::new("raid", &RAID),
    Field::new("rootDeviceHints", &HINTS),
    Field::required("state", &TEXT),
]);

const STATUS: Shape = Shape::Object(&[
    Field::new("conditions", &Shape::List(&CONDITION)).keyed_by(&["type"]),
    Field::required("errorCount", &Shape::INTEGER),
    Field::required("errorMessage", &TEXT),
    Field::new(
        "errorType",
        &Shape::OneOf(&[
            "provisioned registration error",
            "registration error",
            "inspection error",
            "preparation error",
            "provisioning error",
            "power management error",
            "servicing error",
        ]),
    ),
    Field::new("goodCredentials", &CREDENTIALS),
    Field::new("hardware", &DETAILS_SHAPE),
    Field::new("hardwareProfile", &TEXT),
    Field::new("lastAttemptedImage", &IMAGE),
    Field::new("lastUpdated", &Shape::Time),
    Field::new(
        "operationHistory",
        &Shape::Object(&[
            Field::new("deprovision", &METRIC),
            Field::new("inspect", &METRIC),
            Field::new("provision", &METRIC),
            Field::new("register", &METRIC),
        ]),
    ),
    Field::required(
        "operationalStatus",
        &Shape::OneOf(&["", "OK", "discovered", "error", "delayed", "detached", "servicing"]),
    ),
    Field::required("poweredOn", &Shape::Boolean),
    Field::required("provisioning", &PROVISIONING),
    Field::required("provisioningFailCount", &Shape::INTEGER),
    Field::new("triedCredentials", &CREDENTIALS),
]);

pub(crate) const SHAPE: Shape = Shape::Object(&[Field::new("spec", &SPEC), Field::new("status", &STATUS)]);
