//! `PreprovisioningImage` (metal3.io/v1alpha1): a ramdisk built for one host. Named as its host.

use crate::condition;
use crate::kind::{Kind, METAL3, V1ALPHA1, column};
use crate::shape::{Field, Shape};

pub const KIND: Kind = Kind {
    short_names: &["ppimg"],
    has_status: true,
    columns: &[
        column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether the image can be used", 0),
        column("Reason", ".status.conditions[?(@.type=='Ready')].reason", "Why it can, or cannot", 0),
    ],
    about: "A ramdisk for the host of the same name.",
    without_controller: Some("the appliance brings one ramdisk for all hosts"),
    ..Kind::new(METAL3, V1ALPHA1, "PreprovisioningImage", "preprovisioningimages", "preprovisioningimage", &SHAPE)
};

const FORMAT: Shape = Shape::one_of(&["iso", "initrd"]);

const SPEC: Shape = Shape::object(&[
    Field::new("acceptFormats", Shape::list(&FORMAT)).about("The formats that can be booted."),
    Field::new("architecture", Shape::TEXT).about("The processor architecture of the host."),
    Field::new("networkDataName", Shape::TEXT).about("The Secret with the network configuration that goes into it."),
]);

const NETWORK_DATA: Shape = Shape::object(&[
    Field::new("name", Shape::TEXT).about("The name of the Secret."),
    Field::new("version", Shape::TEXT).about("The revision of the Secret."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("architecture", Shape::TEXT).about("The processor architecture that the image is for."),
    Field::new("conditions", condition::LIST_SHAPE).about("Whether the image can be used."),
    Field::new("extraKernelParams", Shape::TEXT).about("Further arguments of the kernel, if an initrd is booted."),
    Field::new("format", FORMAT).about("The format of the image."),
    Field::new("imageUrl", Shape::TEXT).about("Where the image is fetched from."),
    Field::new("kernelUrl", Shape::TEXT).about("Where the kernel is fetched from, where an initrd is booted."),
    Field::new("networkData", NETWORK_DATA).about("The network configuration that went into it."),
]);

const SHAPE: Shape =
    Shape::object(&[Field::spec(SPEC, "What the image is to be."), Field::status(STATUS, "What the image is.")]);
