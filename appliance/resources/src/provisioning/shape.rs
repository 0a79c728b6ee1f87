//! The fields of a Provisioning object as upstream's schema has them.

use crate::condition;
use crate::shape::{CelRule, Field, Literal, Shape};

const GROWS: CelRule = CelRule {
    cel: "self >= oldSelf",
    message: "must only increase",
    holds: |new, old| old.is_none_or(|old| new.as_i64() >= old.as_i64()),
};

/// Upstream's own kind of condition, without bounds on the texts.
const CONDITION: Shape = Shape::object(&[
    Field::required("lastTransitionTime", Shape::TIME).about("When the status changed last."),
    Field::new("message", TEXT).about("The reason, for people."),
    Field::new("reason", TEXT).about("The reason, as one word."),
    Field::required("status", condition::STATUS_SHAPE).about("Whether it is so."),
    Field::required("type", condition::TYPE_SHAPE).about("What this is about."),
]);

const GENERATION: Shape = Shape::object(&[
    Field::required("group", TEXT).about("The group of what was made."),
    Field::new("hash", TEXT).about("The digest of its content, where it has no generation."),
    Field::new("lastGeneration", Shape::INT64).about("Its generation when it was made."),
    Field::required("name", TEXT).about("Its name."),
    Field::required("namespace", TEXT).about("Its namespace."),
    Field::required("resource", TEXT).about("Its type, as in paths."),
]);

const TEXT: Shape = Shape::TEXT;
const TEXTS: Shape = Shape::list(&TEXT);

pub(super) const SHAPE: Shape = Shape::object(&[
    Field::new(
        "spec",
        Shape::object(&[
            Field::new("additionalNTPServers", TEXTS).about("Time servers besides those that are known already."),
            Field::new("bootIsoSource", Shape::one_of(&["local", "http"])).about("Where a BMC takes boot media from."),
            Field::new("disableVirtualMediaTLS", Shape::BOOLEAN).about("Whether BMCs fetch virtual media without TLS."),
            Field::new("externalIPs", TEXTS).about("Addresses outside of the provisioning network that BMCs can reach."),
            Field::new(
                "preProvisioningOSDownloadURLs",
                Shape::object(&[
                    Field::new("initramfsURL", TEXT).about("Its initramfs."),
                    Field::new("isoURL", TEXT).about("Its ISO image."),
                    Field::new("kernelURL", TEXT).about("Its kernel."),
                    Field::new("rootfsURL", TEXT).about("Its root filesystem."),
                ]),
            ).about("Images of a live operating system."),
            Field::new(
                "prometheusExporter",
                Shape::object(&[
                    Field::new("disableDefaultPrometheusRules", Shape::BOOLEAN).about("Whether the usual alerts are left out."),
                    Field::required("enabled", Shape::BOOLEAN).about("Whether figures are collected."),
                    Field::new("sensorCollectionInterval", Shape::INTEGER.min(60).with_default(Literal::Integer(60)))
                        .about("Seconds between two readings."),
                ]),
            ).about("Figures of BMCs for Prometheus."),
            Field::new("provisioningDHCPExternal", Shape::BOOLEAN).about("Whether another server runs DHCP. Replaced by provisioningNetwork."),
            Field::new("provisioningDHCPRange", TEXT).about("The first and the last address for hosts, with a comma between."),
            Field::new("provisioningDNS", Shape::BOOLEAN).about("Whether DHCP hands out a DNS server."),
            Field::new("provisioningIP", TEXT).about("The appliance's address on the provisioning network."),
            Field::new("provisioningInterface", TEXT).about("The network interface on the provisioning network."),
            Field::new("provisioningMacAddresses", TEXTS).about("MAC addresses of that interface, where its name differs between machines."),
            // An empty word is legal in objects that other tools wrote; the rules know it.
            Field::new("provisioningNetwork", Shape::one_of(&["", "Managed", "Unmanaged", "Disabled"])).about("Who runs DHCP: this appliance (Managed), another server (Unmanaged), or there is no such network (Disabled)."),
            Field::new("provisioningNetworkCIDR", TEXT).about("The provisioning network, such as 172.22.0.0/24."),
            Field::new("provisioningNetworkGateway", TEXT).about("The router that DHCP hands out."),
            Field::new("provisioningOSDownloadURL", TEXT).about("An operating system image that the appliance downloads, checks by its SHA-256 and serves."),
            Field::new("unsupportedConfigOverrides", Shape::object(&[Field::new("ironicAgentImage", TEXT).about("The image of the agent.")])).about("For tests by the makers."),
            Field::new("virtualMediaViaExternalNetwork", Shape::BOOLEAN).about("Whether BMCs reach the virtual media by an external address."),
            Field::new("watchAllNamespaces", Shape::BOOLEAN).about("Whether hosts of all namespaces are managed."),
        ]),
    ).about("What the provisioning network is to be."),
    Field::new(
        "status",
        Shape::object(&[
            Field::new("conditions", Shape::list(&CONDITION).keyed_by(&["type"])).about("What is known of it."),
            Field::new("generations", Shape::list(&GENERATION).keyed_by(&["group", "resource", "namespace", "name"])).about("What was made for it."),
            Field::new("latestAvailableRevision", Shape::INT32.ruled_by(&[GROWS])).about("The newest revision that was rolled out."),
            Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this is about."),
            Field::new("readyReplicas", Shape::INT32).about("How many instances are ready."),
            Field::new("version", TEXT).about("The version that runs."),
        ]),
    ).about("What the provisioning network is."),
]);
