//! The fields of a BareMetalHost as upstream's schema has them.

use crate::condition::{self, CONDITIONS_MAX};
use crate::hardware_data::DETAILS_SHAPE;
use crate::shape::{Field, Literal, Shape};
use crate::{mac, reference};

const TEXT: Shape = Shape::TEXT;
const MAC: Shape = Shape::TEXT.matching(mac::MAC_PATTERN);
const SECRET: Shape = reference::SECRET_SHAPE;
const CONSUMER: Shape = reference::REFERENCE_SHAPE;

pub(crate) const IMAGE: Shape = Shape::object(&[
    Field::new("checksum", TEXT).about("The digest of the image, or a URL of a file of digests that names the image."),
    Field::new("checksumType", Shape::one_of(&["md5", "sha256", "sha512", "auto"]))
        .about("How the digest was made. With auto, its length tells."),
    Field::new("format", Shape::one_of(&["raw", "qcow2", "vdi", "vmdk", "live-iso"]))
        .about("The format of the image. Without it, the image itself tells; live-iso is booted and never written."),
    Field::new("ociAuthSecretName", TEXT).about("The Secret with credentials for an image in an OCI registry."),
    Field::required("url", TEXT).about("Where the image is fetched from, by the appliance."),
]);

const HINTS: Shape = Shape::object(&[
    Field::new("deviceName", TEXT).about("The path of the device, such as /dev/vda or /dev/disk/by-path/…."),
    Field::new("hctl", TEXT).about("The SCSI address (host:channel:target:lun)."),
    Field::new("minSizeGigabytes", Shape::NATURAL).about("The least size of the device, in gigabytes."),
    Field::new("model", TEXT).about("A part of the model name."),
    Field::new("rotational", Shape::BOOLEAN).about("Whether the device has spinning platters."),
    Field::new("serialNumber", TEXT).about("The serial number, exactly."),
    Field::new("vendor", TEXT).about("A part of the vendor's name."),
    Field::new("wwn", TEXT).about("The unique identifier of the storage, exactly."),
    Field::new("wwnVendorExtension", TEXT).about("The vendor's extension of that identifier, exactly."),
    Field::new("wwnWithExtension", TEXT).about("The identifier with its extension, exactly."),
]);

const RAID: Shape = Shape::object(&[
    Field::new("hardwareRAIDVolumes", Shape::list(&HARDWARE_VOLUME).nullable())
        .about("Volumes of the host's RAID controllers."),
    Field::new("softwareRAIDVolumes", Shape::list(&SOFTWARE_VOLUME).nullable().items_max(2))
        .about("Volumes made by the operating system of its disks."),
]);

const HARDWARE_VOLUME: Shape = Shape::object(&[
    Field::new("controller", TEXT).about("The controller that makes the volume."),
    Field::required("level", Shape::one_of(&["0", "1", "2", "5", "6", "1+0", "5+0", "6+0"])).about("The RAID level."),
    Field::new("name", TEXT.chars_max(64)).about("The name of the volume; unique on the host."),
    Field::new("numberOfPhysicalDisks", Shape::INTEGER.min(1)).about("How many disks the volume takes."),
    Field::new("physicalDisks", Shape::list(&TEXT)).about("The disks of the volume, in the words of the controller."),
    Field::new("rotational", Shape::BOOLEAN).about("Whether its disks have spinning platters."),
    Field::new("sizeGibibytes", Shape::NATURAL).about("The size of the volume; 0 or none for all there is."),
]);

const SOFTWARE_VOLUME: Shape = Shape::object(&[
    Field::required("level", Shape::one_of(&["0", "1", "1+0"])).about("The RAID level."),
    Field::new("physicalDisks", Shape::list(&HINTS).items_min(2)).about("Hints for each disk of the volume."),
    Field::new("rootVolume", Shape::BOOLEAN.with_default(Literal::Boolean(false)))
        .about("Whether the operating system is written to this volume."),
    Field::new("sizeGibibytes", Shape::NATURAL).about("The size of the volume; 0 or none for all there is."),
]);

pub(crate) const CUSTOM_DEPLOY: Shape =
    Shape::object(&[Field::required("method", TEXT).about("The name of the method, instead of writing an image.")]);
const BOOT_MODE: Shape = Shape::one_of(&["UEFI", "UEFISecureBoot", "legacy"]);

const FIRMWARE: Shape = Shape::object(&[
    Field::new("simultaneousMultithreadingEnabled", Shape::BOOLEAN).about("Two or more threads on one core."),
    Field::new("sriovEnabled", Shape::BOOLEAN).about("Virtual functions of network cards."),
    Field::new("virtualizationEnabled", Shape::BOOLEAN).about("Virtual machines on this host."),
]);

const NETWORK_INTERFACE: Shape = Shape::object(&[
    Field::new(
        "hostNetworkAttachment",
        Shape::object(&[
            Field::new("name", TEXT.chars_max(253)).about("Its name."),
            Field::new("namespace", TEXT.chars_max(63)).about("Its namespace."),
        ]),
    )
    .about("What the switch port is to be connected to."),
    Field::new("macAddress", MAC).about("The MAC address of the interface."),
    Field::new("name", TEXT.matching("^[a-zA-Z0-9._-]+$")).about("The name of the interface."),
    Field::new(
        "switchPort",
        Shape::object(&[
            Field::required("portID", TEXT).about("The name of the port."),
            Field::required("switchID", MAC).about("The MAC address of the switch."),
        ]),
    )
    .about("The port of the switch at the other end of the cable."),
]);

const TAINT: Shape = Shape::object(&[
    Field::required("effect", TEXT).about("What happens to pods that do not tolerate the taint."),
    Field::required("key", TEXT).about("The key of the taint."),
    Field::new("timeAdded", Shape::TIME).about("When the taint was set."),
    Field::new("value", TEXT).about("The value of the taint."),
]);

const SPEC: Shape = Shape::object(&[
    Field::new("architecture", TEXT)
        .about("The processor architecture, such as x86_64 or aarch64; found by inspection when not given."),
    Field::new(
        "automatedCleaningMode",
        Shape::one_of(&["metadata", "disabled"]).with_default(Literal::Text("metadata")),
    )
    .about("Whether the disks are cleaned before and after use: their metadata, or not at all."),
    Field::new(
        "bmc",
        Shape::object(&[
            Field::required("address", TEXT).about(
                "The URL of the BMC, such as redfish://10.0.0.7/redfish/v1/Systems/1. Its scheme names the protocol.",
            ),
            Field::required("credentialsName", TEXT)
                .about("The Secret with username and password of the BMC; it has to be in the same namespace."),
            Field::new("disableCertificateVerification", Shape::BOOLEAN)
                .about("Whether the BMC's certificate is taken unseen. That lets anybody between read the password."),
        ]),
    )
    .about("How to reach the board that controls the power of the host (BMC)."),
    Field::new("bootMACAddress", Shape::TEXT.matching(mac::MAC_PATTERN_UNANCHORED))
        .about("The MAC address of the interface that the host boots from."),
    Field::new("bootMode", BOOT_MODE)
        .about("How the firmware boots: UEFI, UEFI with Secure Boot, or as a BIOS (legacy)."),
    Field::new("consumerRef", CONSUMER)
        .about("The consumer of this host, which sets this itself. A host with a consumer is not for others."),
    Field::new("customDeploy", CUSTOM_DEPLOY).about("A deployment method instead of an image."),
    Field::new("description", TEXT).about("A description for people."),
    Field::new("disablePowerOff", Shape::BOOLEAN).about("Whether the host is never powered off, only restarted."),
    Field::new("externallyProvisioned", Shape::BOOLEAN).about(
        "Whether something else installed the host: its disks are never written and its power alone is managed.",
    ),
    Field::new("firmware", FIRMWARE).about("Settings of the firmware."),
    Field::new("hardwareProfile", TEXT).about("The name of a profile of hardware; not used any more."),
    Field::new("image", IMAGE)
        .about("The operating system image that is to be on the host. Without it, the host is deprovisioned."),
    Field::new("inspectionMode", Shape::one_of(&["disabled", "agent", "fast"]))
        .about("Whether the hardware is inspected: by the agent, fast, or not at all."),
    Field::new("metaData", SECRET).about("The Secret with metadata for first-boot software."),
    Field::new("networkData", SECRET).about("The Secret with the network configuration for first-boot software."),
    Field::new("networkInterfaces", Shape::list(&NETWORK_INTERFACE))
        .about("The network interfaces and what they are to be connected to."),
    Field::required("online", Shape::BOOLEAN).about("Whether the host is to be powered on."),
    Field::new("preprovisioningNetworkDataName", TEXT)
        .about("The Secret with the network configuration for the time before provisioning."),
    Field::new("raid", RAID).about("The RAID volumes of the host."),
    Field::new("rootDeviceHints", HINTS).about(
        "What the disk for the operating system must be like. Hints that fit no disk, or several, are an error.",
    ),
    Field::new("taints", Shape::list(&TAINT)).about("Taints for the node that this host becomes."),
    Field::new("userData", SECRET)
        .about("The Secret with the configuration of the operating system (an Ignition config, key userData)."),
]);

const CREDENTIALS: Shape = Shape::object(&[
    Field::new("credentials", SECRET).about("The Secret."),
    Field::new("credentialsVersion", TEXT).about("The revision of the Secret."),
]);

const METRIC: Shape = Shape::object(&[
    Field::new("end", Shape::TIME.nullable()).about("When it ended."),
    Field::new("start", Shape::TIME.nullable()).about("When it began."),
]);

const PROVISIONING: Shape = Shape::object(&[
    Field::required("ID", TEXT).about("The identity of this host for the program that provisions it."),
    Field::new("bootMode", BOOT_MODE).about("The boot mode that was used."),
    Field::new("customDeploy", CUSTOM_DEPLOY).about("The method that was used."),
    Field::new("firmware", FIRMWARE).about("The settings of the firmware that were made."),
    Field::new("image", IMAGE).about("The image that is on the host, or being written."),
    Field::new("raid", RAID).about("The RAID volumes that were made."),
    Field::new("rootDeviceHints", HINTS).about("The hints that the disk was chosen by."),
    Field::required("state", TEXT).about("The state of the host, such as available or provisioned."),
]);

const ERROR_TYPE: Shape = Shape::one_of(&[
    "provisioned registration error",
    "registration error",
    "inspection error",
    "preparation error",
    "provisioning error",
    "power management error",
    "servicing error",
]);

pub(super) const STATUS: Shape = Shape::object(&[
    Field::new("conditions", condition::LIST_SHAPE.items_max(CONDITIONS_MAX))
        .about("What is known of the host, one condition for each question."),
    Field::required("errorCount", Shape::INTEGER.with_default(Literal::Integer(0)))
        .about("How often it failed since it last succeeded."),
    Field::required("errorMessage", TEXT).about("What went wrong last, and where known, what to do."),
    Field::new("errorType", ERROR_TYPE).about("Which part went wrong. Without it, nothing is wrong."),
    Field::new("goodCredentials", CREDENTIALS).about("The credentials of the BMC that worked last."),
    Field::new("hardware", DETAILS_SHAPE).about("The hardware that inspection found."),
    Field::new("hardwareProfile", TEXT).about("The name of the profile that fits the hardware; not used any more."),
    Field::new("lastAttemptedImage", IMAGE).about("The image that was tried last."),
    Field::new("lastUpdated", Shape::TIME).about("When this status changed last."),
    Field::new(
        "operationHistory",
        Shape::object(&[
            Field::new("deprovision", METRIC).about("Taking the host out of use."),
            Field::new("inspect", METRIC).about("Finding out its hardware."),
            Field::new("provision", METRIC).about("Writing the operating system."),
            Field::new("register", METRIC).about("Making contact with its BMC."),
        ]),
    )
    .about("When each kind of work began and ended last."),
    Field::required(
        "operationalStatus",
        Shape::one_of(&["", "OK", "discovered", "error", "delayed", "detached", "servicing"]),
    )
    .about("How the host is, as one word."),
    Field::required("poweredOn", Shape::BOOLEAN).about("Whether the host is powered on."),
    Field::required("provisioning", PROVISIONING).about("What is on the host, and how far the work is."),
    Field::required("provisioningFailCount", Shape::INTEGER.with_default(Literal::Integer(0)))
        .about("How often provisioning failed since it last succeeded."),
    Field::new("triedCredentials", CREDENTIALS).about("The credentials of the BMC that were tried last."),
]);

pub(crate) const SHAPE: Shape = Shape::object(&[
    Field::spec(SPEC, "What the host is to be."),
    Field::status(STATUS, "What the host is, as the appliance sees it."),
]);
