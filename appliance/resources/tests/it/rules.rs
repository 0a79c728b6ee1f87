//! Each admission rule with a case that passes and one that fails.

use firesteel_kube_types::summary;
use firesteel_resources::{Admission, Provisioning, admit, kinds, provisioning::NetworkMode};
use proptest::prelude::*;
use serde_json::{Value, json};

const DIGEST: &str = "e98f83a2b9d4043719664a2be75fe8134dc6ca1fdbde807996622f8cc7ecd234";

fn host(name: &str, spec: Value) -> Value {
    let mut all = json!({"online": true});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
           "metadata": {"name": name, "namespace": "default"}, "spec": all})
}

fn with(mut spec: Value, more: Value) -> Value {
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn judge(spec: Value) -> Admission {
    admit(&kinds::BARE_METAL_HOST, &mut host("a", spec), None)
}

/// A login in an address was taken once: what is stored with one can be changed elsewhere, and no refusal quotes it.
#[test]
fn a_login_in_an_address_is_refused_where_it_is_new_and_never_quoted() {
    let spec = |url: &str| json!({"image": {"url": url, "checksum": DIGEST}, "online": false});
    let old = host("a", spec("http://me:planted@images/a"));
    let again = admit(&kinds::BARE_METAL_HOST, &mut host("a", spec("http://me:planted@images/a")), Some(&old));
    assert!(again.causes.is_empty(), "{:?}", again.causes);
    for url in ["http://me:planted@images/b", "ftp://me:planted@images/?planted", "http:me:planted@images"] {
        let judged = admit(&kinds::BARE_METAL_HOST, &mut host("a", spec(url)), Some(&old));
        assert!(!judged.causes.is_empty(), "{url}");
        assert!(!summary(&judged.causes).contains("planted"), "{url}: {}", summary(&judged.causes));
    }
    let judged = judge(spec("http://me:planted@images/a"));
    assert!(summary(&judged.causes).contains("firesteel.dev/image-login"), "{}", summary(&judged.causes));
    let judged = judge(json!({"bmc": {"address": "redfish://me:planted@192.0.2.5/", "credentialsName": "s"}}));
    assert!(!judged.causes.is_empty() && !summary(&judged.causes).contains("planted"), "{:?}", judged.causes);
}

/// An object of an earlier program could not be labelled or let go any more.
#[test]
fn a_login_that_is_stored_keeps_no_other_kind_from_being_changed() {
    let login = "http://me:planted@images/a";
    let wish = json!({"image": {"url": login, "checksum": login}, "poweredOn": true});
    for (kind, spec) in [
        ("DataImage", json!({"url": login})),
        ("HostClaim", wish),
        ("HostFirmwareComponents", json!({"updates": [{"component": "bmc", "url": login}]})),
    ] {
        let kind = kinds::find("metal3.io", kind).unwrap();
        let object = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec});
        let fresh = admit(kind, &mut object.clone(), None).causes;
        assert!(!fresh.is_empty() && !summary(&fresh).contains("planted"), "{}: {fresh:?}", kind.kind);
        let again = admit(kind, &mut object.clone(), Some(&object)).causes;
        assert!(again.is_empty(), "{}: {again:?}", kind.kind);
    }
}

#[test]
fn each_rule_has_a_good_and_a_bad_case() {
    let image = |more: Value| {
        let mut image = json!({"url": "http://images/a.raw", "checksum": DIGEST});
        image.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"image": image})
    };
    let bmc = |address: &str| json!({"bmc": {"address": address, "credentialsName": "s"}});
    let hardware = |volume: Value| json!({"raid": {"hardwareRAIDVolumes": [volume]}});
    let disks = json!([{"deviceName": "/dev/sda"}, {"deviceName": "/dev/sdb"}]);
    let root = |level: &str| json!({"level": level, "rootVolume": true, "physicalDisks": disks});
    let rows: Vec<(Value, Value, &str)> = vec![
        (bmc("redfish+http://192.0.2.5/redfish/v1/Systems/1"), bmc("http://192.0.2.5/x"), "spec.bmc.address"),
        (
            bmc("idrac-virtualmedia://192.0.2.5/redfish/v1/Systems/1"),
            bmc("redfish://192.0.2.5/redfish/v1/Managers/1"),
            "spec.bmc.address",
        ),
        (bmc("redfish-uefihttp://192.0.2.5/redfish/v1/Systems/1"), bmc("irmc://192.0.2.5/"), "spec.bmc.address"),
        (bmc("ilo5-redfish+https://192.0.2.5/"), bmc("ilo5-redfish://root:x@192.0.2.5/"), "spec.bmc.address"),
        (bmc("192.0.2.5"), bmc("ipmi://"), "spec.bmc.address"),
        (bmc("ipmi://192.0.2.5:6230"), bmc("ipmi+http://192.0.2.5"), "spec.bmc.address"),
        (bmc("ipmi://192.0.2.5?privilegelevel=OPERATOR"), bmc("ipmi://?privilegelevel=OPERATOR"), "spec.bmc.address"),
        (json!({}), json!({"bmc": {"address": "ipmi://b", "credentialsName": ""}}), "spec.bmc.credentialsName"),
        (
            json!({"bootMACAddress": "52:54:00:aa:bb:01"}),
            json!({"bootMACAddress": "52-54-00-aa-bb-01"}),
            "spec.bootMACAddress",
        ),
        (json!({}), json!({"bootMACAddress": "01:00:5e:00:00:01"}), "spec.bootMACAddress"),
        (json!({"bootMode": "legacy"}), json!({"bootMode": "bios"}), "spec.bootMode"),
        (image(json!({})), image(json!({"url": "tape://images/a"})), "spec.image.url"),
        (image(json!({"url": "https://images/a"})), image(json!({"url": "http://"})), "spec.image.url"),
        (
            image(json!({"url": "https://images/a@b"})),
            image(json!({"url": "https://me:pw@images/a"})),
            "spec.image.url",
        ),
        (
            image(json!({"checksum": "http://images/SUMS?x=a@b"})),
            image(json!({"checksum": "http://me@images/SUMS"})),
            "spec.image.checksum",
        ),
        (image(json!({"url": "store://a", "checksum": ""})), image(json!({"checksum": ""})), "spec.image.checksum"),
        (image(json!({"checksum": "http://images/SUMS"})), image(json!({"checksum": "abc"})), "spec.image.checksum"),
        (image(json!({"checksumType": "sha256"})), image(json!({"checksumType": "md5"})), "spec.image.checksum"),
        (image(json!({"format": "vmdk"})), image(json!({"format": "vhd"})), "spec.image.format"),
        (
            image(json!({"format": "live-iso", "checksum": ""})),
            image(json!({"format": "vmdk", "checksum": ""})),
            "spec.image.checksum",
        ),
        (image(json!({"url": "oci://r/a:1", "checksum": ""})), image(json!({"url": "oci://"})), "spec.image.url"),
        (
            json!({"userData": {"name": "u", "namespace": "default"}}),
            json!({"userData": {"name": "u", "namespace": "other"}}),
            "spec.userData.namespace",
        ),
        (json!({"networkData": {"name": "u"}}), json!({"networkData": {}}), "spec.networkData.name"),
        (json!({"disablePowerOff": true}), json!({"disablePowerOff": true, "online": false}), "spec.disablePowerOff"),
        (
            json!({"rootDeviceHints": {"minSizeGigabytes": 0}}),
            json!({"rootDeviceHints": {"minSizeGigabytes": -1}}),
            "spec.rootDeviceHints.minSizeGigabytes",
        ),
        (
            hardware(
                json!({"level": "1+0", "controller": "c", "physicalDisks": ["a", "b"], "numberOfPhysicalDisks": 2}),
            ),
            hardware(json!({"level": "1", "controller": "c", "physicalDisks": ["a"], "numberOfPhysicalDisks": 2})),
            "spec.raid.hardwareRAIDVolumes[0].numberOfPhysicalDisks",
        ),
        (
            hardware(json!({"level": "5"})),
            hardware(json!({"level": "1", "physicalDisks": ["a"]})),
            "spec.raid.hardwareRAIDVolumes[0].controller",
        ),
        (
            json!({"raid": {"softwareRAIDVolumes": [root("1")]}}),
            json!({"raid": {"softwareRAIDVolumes": [root("0")]}}),
            "spec.raid.softwareRAIDVolumes[0].level",
        ),
        (json!({}), json!({"raid": {"softwareRAIDVolumes": [root("1"), root("1")]}}), "spec.raid.softwareRAIDVolumes"),
        (
            json!({}),
            json!({"raid": {"softwareRAIDVolumes": [root("1")]}, "rootDeviceHints": {"model": "x"}}),
            "spec.rootDeviceHints",
        ),
        (
            json!({"raid": {"hardwareRAIDVolumes": [], "softwareRAIDVolumes": [root("1")]}}),
            json!({"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": [root("1")]}}),
            "spec.raid",
        ),
        (
            json!({"networkInterfaces": [{"name": "eth0"}]}),
            json!({"networkInterfaces": [{"name": "eth0", "macAddress": "52:54:00:aa:bb:01"}]}),
            "spec.networkInterfaces[0]",
        ),
        (json!({"customDeploy": {"method": "x"}}), json!({"customDeploy": {"method": ""}}), "spec.customDeploy.method"),
        (json!({"inspectionMode": "fast"}), json!({"inspectionMode": "slow"}), "spec.inspectionMode"),
        (bmc("ipmi://[2001:db8::1]:623"), bmc("ipmi://not_a_name"), "spec.bmc.address"),
        (bmc("redfish://a-b.example:8000/redfish/v1/Systems/x"), bmc("redfish://-a.example/x"), "spec.bmc.address"),
        (
            with(bmc("libvirt://192.0.2.5"), json!({"bootMACAddress": "52:54:00:aa:bb:01"})),
            bmc("libvirt://192.0.2.5"),
            "spec.bootMACAddress",
        ),
        (
            json!({"inspectionMode": "disabled"}),
            with(bmc("redfish://192.0.2.5/redfish/v1/Systems/1"), json!({"inspectionMode": "disabled"})),
            "spec.bootMACAddress",
        ),
        (json!({}), json!({"bootMACAddress": "x52:54:00:aa:bb:01"}), "spec.bootMACAddress"),
        (
            with(bmc("redfish://192.0.2.5/redfish/v1/Systems/1"), hardware(json!({"level": "1"}))),
            with(bmc("ipmi://192.0.2.5"), hardware(json!({"level": "1"}))),
            "spec.raid.hardwareRAIDVolumes",
        ),
        (
            with(bmc("redfish://192.0.2.5/redfish/v1/Systems/1"), json!({"bootMode": "UEFISecureBoot"})),
            with(bmc("ipmi://192.0.2.5"), json!({"bootMode": "UEFISecureBoot"})),
            "spec.bootMode",
        ),
        (
            with(bmc("redfish://192.0.2.5/redfish/v1/Systems/1"), json!({"inspectionMode": "fast"})),
            with(bmc("192.0.2.5"), json!({"inspectionMode": "fast"})),
            "spec.inspectionMode",
        ),
        (json!({}), json!({"firmware": {"sriovEnabled": true}}), "spec.firmware"),
        (
            json!({"rootDeviceHints": {"deviceName": "/dev/disk/by-path/pci-0"}}),
            json!({"rootDeviceHints": {"deviceName": "sda"}}),
            "spec.rootDeviceHints.deviceName",
        ),
        (
            json!({"rootDeviceHints": {"deviceName": "/dev/sda"}}),
            json!({"rootDeviceHints": {"deviceName": "/dev/mapper/x"}}),
            "spec.rootDeviceHints.deviceName",
        ),
        (
            json!({"networkInterfaces": [{"name": "a"}, {"name": "b"}]}),
            json!({"networkInterfaces": [{"name": "a"}, {"name": "A"}]}),
            "spec.networkInterfaces[1]",
        ),
        (
            hardware(json!({"level": "1", "name": "v".repeat(64)})),
            hardware(json!({"level": "1", "name": "v".repeat(65)})),
            "spec.raid.hardwareRAIDVolumes[0].name",
        ),
        (
            json!({"raid": {"softwareRAIDVolumes": [{"level": "0", "physicalDisks": disks}]}}),
            json!({"raid": {"softwareRAIDVolumes": [{"level": "0", "physicalDisks": [{}]}]}}),
            "spec.raid.softwareRAIDVolumes[0].physicalDisks",
        ),
        (
            json!({"raid": {"softwareRAIDVolumes": [{"level": "0"}, {"level": "0"}]}}),
            json!({"raid": {"softwareRAIDVolumes": [{"level": "0"}, {"level": "0"}, {"level": "0"}]}}),
            "spec.raid.softwareRAIDVolumes",
        ),
    ];
    for (good, bad, field) in rows {
        let admitted = judge(good.clone());
        assert!(admitted.causes.is_empty(), "{good}: {}", summary(&admitted.causes));
        let refused = judge(bad.clone());
        assert!(refused.causes.iter().any(|cause| cause.field == field), "{bad}: {}", summary(&refused.causes));
    }
}

#[test]
fn names_are_plain_and_no_uuids() {
    let causes = |name: &str| admit(&kinds::BARE_METAL_HOST, &mut host(name, json!({})), None).causes.len();
    assert_eq!(causes("rack-1.node-2"), 0);
    assert_eq!(causes("Rack_1"), 1);
    assert_eq!(causes("123e4567-e89b-12d3-a456-426614174000"), 1);
    assert_eq!(causes("123e4567e89b12d3a456426614174000"), 1);
}

#[test]
fn what_must_not_change_does_not() {
    let old = |state: &str| {
        let mut old = host(
            "a",
            json!({"bootMACAddress": "52:54:00:AA:bb:01",
            "bmc": {"address": "ipmi://one", "credentialsName": "s"}}),
        );
        old["status"] = json!({"operationalStatus": "OK", "errorCount": 0, "errorMessage": "", "poweredOn": true,
            "provisioningFailCount": 0, "provisioning": {"state": state, "ID": "x"}});
        old
    };
    let fields = |old: &Value, change: &dyn Fn(&mut Value)| -> Vec<String> {
        let mut new = old.clone();
        change(&mut new);
        let causes = admit(&kinds::BARE_METAL_HOST, &mut new, Some(old)).causes;
        causes.into_iter().map(|cause| cause.field).collect()
    };
    let none = Vec::<String>::new();
    let mac = |text: &'static str| move |host: &mut Value| host["spec"]["bootMACAddress"] = json!(text);
    assert_eq!(fields(&old("available"), &mac("52:54:00:aa:BB:01")), none, "the same address in other letters");
    assert_eq!(fields(&old("available"), &mac("52:54:00:aa:bb:02")), ["spec.bootMACAddress"]);
    let address = |host: &mut Value| host["spec"]["bmc"]["address"] = json!("ipmi://two");
    assert_eq!(fields(&old("registering"), &address), none);
    assert_eq!(fields(&old("available"), &address), ["spec.bmc.address"]);
    let without = |host: &mut Value| drop(host["spec"].as_object_mut().unwrap().remove("bmc"));
    assert_eq!(fields(&old("available"), &without), ["spec.bmc.address"], "to take it away is to change it");
    let detached = |host: &mut Value| {
        address(host);
        host["metadata"]["annotations"] = json!({"baremetalhost.metal3.io/detached": ""});
    };
    assert_eq!(fields(&old("available"), &detached), none);
    let external = |host: &mut Value| host["spec"]["externallyProvisioned"] = json!(true);
    assert_eq!(fields(&old("available"), &external), none);
    assert_eq!(fields(&old("provisioned"), &external), ["spec.externallyProvisioned"]);
}

#[test]
fn defaults_are_put_in_where_upstream_has_them() {
    let mut object = host("a", json!({"raid": {"softwareRAIDVolumes": [{"level": "1"}], "hardwareRAIDVolumes": null}}));
    assert_eq!(admit(&kinds::BARE_METAL_HOST, &mut object, None).causes, []);
    assert_eq!(object["spec"]["automatedCleaningMode"], "metadata");
    assert_eq!(object["spec"]["raid"]["softwareRAIDVolumes"][0], json!({"level": "1", "rootVolume": false}));
    assert_eq!(object["spec"]["raid"]["hardwareRAIDVolumes"], Value::Null, "a null that upstream keeps");
    let mut object = json!({"metadata": {"name": "provisioning-configuration"},
        "spec": {"provisioningNetwork": "Disabled", "prometheusExporter": {"enabled": true}}});
    assert_eq!(admit(&kinds::PROVISIONING, &mut object, None).causes, []);
    assert_eq!(object["spec"]["prometheusExporter"]["sensorCollectionInterval"], 60);
}

/// Every kind's rules, and that one answer has all that is wrong.
#[test]
fn the_other_kinds_have_upstreams_rules() {
    let judge = |kind: &str, spec: Value| -> Vec<String> {
        let kind = kinds::find("metal3.io", kind).unwrap();
        let mut object = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec});
        let admission = admit(kind, &mut object, None);
        if admission.causes.is_empty() {
            assert!(admission.warnings[0].starts_with(kind.kind), "{:?}", admission.warnings);
        }
        admission.causes.into_iter().map(|cause| cause.field).collect()
    };
    let none: [&str; 0] = [];
    assert_eq!(judge("DataImage", json!({"url": "http://images/a.iso"})), none);
    assert_eq!(judge("DataImage", json!({"url": "file:///a.iso"})), ["spec.url"]);
    let updates =
        |url: &str| json!({"updates": [{"component": "bmc", "url": "http://a/b"}, {"component": "bios", "url": url}]});
    assert_eq!(judge("HostFirmwareComponents", updates("https://a/b")), none);
    assert_eq!(judge("HostFirmwareComponents", updates("b")), ["spec.updates[1].url"]);
    assert_eq!(judge("HostUpdatePolicy", json!({"firmwareUpdates": "onReboot"})), none);
    assert_eq!(judge("HostUpdatePolicy", json!({"firmwareUpdates": "never"})), ["spec.firmwareUpdates"]);
    let subscription = |destination: &str| json!({"hostName": "a", "destination": destination});
    assert_eq!(judge("BMCEventSubscription", subscription("https://events.example/")), none);
    assert_eq!(judge("BMCEventSubscription", subscription("https://events.example")), ["spec.destination"]);
    assert_eq!(judge("BMCEventSubscription", subscription("https://events.example?a=b")), ["spec.destination"]);
    let all = json!({"httpHeadersRef": {"name": "x", "namespace": "other"}});
    assert_eq!(
        judge("BMCEventSubscription", all),
        ["spec.hostName", "spec.destination", "spec.httpHeadersRef.namespace"]
    );
    let settings = |value: Value| json!({"settings": {"a": 1, "b": "x", "c": value}});
    assert_eq!(judge("HostFirmwareSettings", settings(json!(2))), none);
    assert_eq!(judge("HostFirmwareSettings", settings(json!(true))), ["spec.settings.c"]);
    let policy = |expression: &str| json!({"hostClaimNamespaces": {"nameMatches": expression}});
    assert_eq!(judge("HostDeployPolicy", policy("^team-")), none);
    assert_eq!(judge("HostDeployPolicy", policy("(")), ["spec.hostClaimNamespaces.nameMatches"]);
    let vlans = |mode: &str, vlans: &[&str]| json!({"mode": mode, "nativeVLAN": 1, "allowedVLANs": vlans});
    assert_eq!(judge("HostNetworkAttachment", vlans("trunk", &["1", "100-200"])), none);
    assert_eq!(judge("HostNetworkAttachment", vlans("access", &["1"])), ["spec.allowedVLANs"]);
    let bad = vlans("trunk", &["0", "200-100", "5-4095"]);
    let fields: Vec<String> = (0..3).map(|index| format!("spec.allowedVLANs[{index}]")).collect();
    assert_eq!(judge("HostNetworkAttachment", bad), fields);
}

#[test]
fn a_subscription_stays_as_it_is() {
    let kind = kinds::find("metal3.io", "BMCEventSubscription").unwrap();
    let old = json!({"metadata": {"name": "a"}, "spec": {"hostName": "a", "destination": "http://a/"}});
    let mut same = old.clone();
    same["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(admit(kind, &mut same, Some(&old)).causes, []);
    let mut other = old.clone();
    other["spec"]["destination"] = json!("http://b/");
    let causes = admit(kind, &mut other, Some(&old)).causes;
    assert_eq!(summary(&causes), "spec: Forbidden: subscriptions cannot be updated, please recreate it");
}

#[test]
fn claims_say_what_is_wrong_with_their_selectors() {
    let judge = |spec: Value| -> Vec<String> {
        let mut object =
            json!({"metadata": {"name": "a", "namespace": "default"}, "spec": with(json!({"poweredOn": true}), spec)});
        let admission = admit(kinds::find("metal3.io", "HostClaim").unwrap(), &mut object, None);
        admission.causes.into_iter().map(|cause| cause.field).collect()
    };
    let expression = |operator: &str, values: &[&str]| json!({"hostSelector": {"matchExpressions": [{"key": "example.com/rack", "operator": operator, "values": values}]}});
    let at = |rest: &str| vec![format!("spec.hostSelector.matchExpressions[0].{rest}")];
    let none = Vec::<String>::new();
    for (operator, values) in
        [("in", &["a", "b"][..]), ("notin", &["a"]), ("=", &["a"]), ("!=", &["a"]), ("exists", &[])]
    {
        assert_eq!(judge(expression(operator, values)), none, "{operator}");
    }
    for (operator, values) in [("in", &[][..]), ("=", &["a", "b"]), ("!", &["a"])] {
        assert_eq!(judge(expression(operator, values)), at("values"), "{operator}");
    }
    assert_eq!(judge(expression("gt", &["1"])), at("operator"));
    assert_eq!(judge(expression("In", &["a"])), at("operator"), "upstream's webhook does not ignore case");
    assert_eq!(judge(expression("in", &["a", "b c"])), at("values[1]"));
    let labels = json!({"hostSelector": {"matchLabels": {"a b": "x", "good": "x y"}}});
    assert_eq!(judge(labels).len(), 2, "every error in one answer");
    let image = |url: &str, checksum: &str| json!({"image": {"url": url, "checksum": checksum}});
    assert_eq!(judge(image("http://a/b", "x")), none);
    assert_eq!(judge(image("http://a/b", "")), ["spec.image.checksum"]);
    assert_eq!(judge(image("oci://a/b", "x")), ["spec.image.checksum"]);
    assert_eq!(judge(image("/a", "x")), ["spec.image.url"]);
    assert_eq!(judge(json!({"userData": {"name": "u", "namespace": "other"}})), ["spec.userData.namespace"]);
}

/// Upstream's own YAML of `oci://` and of live ISOs was refused.
#[test]
fn images_that_upstream_takes_are_taken_with_a_warning() {
    let digest = json!({"checksum": DIGEST, "checksumType": "sha256"});
    for (field, image) in [
        ("spec.image.url", json!({"url": "oci://registry.example.com/os/worker:1"})),
        ("spec.image.url", with(digest.clone(), json!({"url": "oci://registry.example.com/os/worker:1"}))),
        ("spec.image.url", with(digest.clone(), json!({"url": "ftp://images/a.raw"}))),
        ("spec.image.format", json!({"url": "http://images/a.iso", "format": "live-iso"})),
        ("spec.image.format", with(digest.clone(), json!({"url": "http://images/a", "format": "vmdk"}))),
        ("spec.image.format", with(digest, json!({"url": "http://images/a", "format": "vdi"}))),
    ] {
        let Admission { causes, warnings, .. } = judge(json!({"image": image}));
        assert!(causes.is_empty(), "{image}: {}", summary(&causes));
        let wanted = format!("{field} ends in an error of the host");
        assert!(warnings.len() == 1 && warnings[0].starts_with(&wanted), "{image}: {warnings:?}");
    }
}

#[test]
fn unknown_and_idle_fields_are_told_and_nulls_are_absent() {
    let admission = judge(json!({"onlin": true, "raid": null, "hardwareProfile": "libvirt", "image": null}));
    assert_eq!(admission.unknown_fields, ["spec.onlin"]);
    assert_eq!(admission.causes, []);
    assert!(matches!(admission.warnings.as_slice(), [one] if one.starts_with("spec.hardwareProfile")));
    let wrong = admit(&kinds::BARE_METAL_HOST, &mut json!({"spec": {"online": "maybe"}}), None);
    assert_eq!(
        summary(&wrong.causes),
        "spec.online: Invalid value: \"string\": spec.online in body must be of type boolean: \"string\""
    );
}

#[test]
fn the_provisioning_network_closes_upstreams_gaps() {
    let judge = |more: Value| {
        let mut spec = json!({"provisioningIP": "192.0.2.1", "provisioningNetworkCIDR": "192.0.2.0/24",
            "provisioningDHCPRange": "192.0.2.10,192.0.2.20"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut object = json!({"metadata": {"name": "provisioning-configuration"}, "spec": spec});
        (admit(&kinds::PROVISIONING, &mut object, None).causes.len(), object)
    };
    let (causes, object) = judge(json!({}));
    assert_eq!(causes, 0);
    let network = serde_json::from_value::<Provisioning>(object).unwrap().network().unwrap();
    assert_eq!((network.mode, network.cidr.unwrap().prefix_len()), (NetworkMode::Managed, 24));
    assert_eq!(network.cidr.unwrap().broadcast().to_string(), "192.0.2.255");
    for bad in [
        json!({"provisioningDHCPRange": "192.0.2.20,192.0.2.10"}),
        json!({"provisioningDHCPRange": "2001:db8::1,2001:db8::2"}),
        json!({"provisioningDHCPRange": "192.0.2.1,192.0.2.10"}),
        json!({"provisioningNetwork": "Disabled", "provisioningNetworkGateway": "192.0.2.254"}),
        json!({"provisioningNetwork": "Other"}),
        json!({"provisioningNetworkGateway": "192.0.2.255"}),
    ] {
        assert!(judge(bad.clone()).0 > 0, "{bad}");
    }
    let mut named = json!({"metadata": {"name": "mine"}, "spec": {"provisioningNetwork": "Disabled"}});
    assert_eq!(admit(&kinds::PROVISIONING, &mut named, None).causes[0].field, "metadata.name");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z:/.]{0,12}".prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "metadata",
        "name",
        "annotations",
        "spec",
        "status",
        "online",
        "bmc",
        "address",
        "image",
        "url",
        "raid",
        "softwareRAIDVolumes",
        "physicalDisks",
        "level",
        "provisioningIP",
        "provisioningNetworkCIDR",
        "reboot.metal3.io",
    ]);
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>()),
        ]
    })
}

proptest! {
    /// No document makes the door panic, and what it lets through can be decoded.
    #[test]
    fn the_door_stands(object in value(), old in value()) {
        for kind in kinds::KINDS {
            let mut object = object.clone();
            let admission = admit(kind, &mut object, Some(&old));
            if admission.causes.is_empty() && kind.kind == "BareMetalHost" {
                let decoded = firesteel_resources::admit::decode::<firesteel_resources::BareMetalHost>(&object);
                prop_assert!(decoded.is_ok(), "{:?}", decoded.err());
            }
        }
    }
}
