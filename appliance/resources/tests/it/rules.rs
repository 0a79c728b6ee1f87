//! Each admission rule with a case that passes and one that fails.

use firesteel_resources::{Admission, Provisioning, admit, cause::summary, kinds, provisioning::NetworkMode};
use proptest::prelude::*;
use serde_json::{Value, json};

const DIGEST: &str = "e98f83a2b9d4043719664a2be75fe8134dc6ca1fdbde807996622f8cc7ecd234";

fn host(name: &str, spec: Value) -> Value {
    let mut all = json!({"online": true});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
           "metadata": {"name": name, "namespace": "default"}, "spec": all})
}

fn judge(spec: Value) -> Admission {
    admit(&kinds::BARE_METAL_HOST, &mut host("a", spec), None)
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
        (bmc("idrac-virtualmedia://192.0.2.5/x"), bmc("redfish://192.0.2.5"), "spec.bmc.address"),
        (bmc("192.0.2.5"), bmc("ipmi://"), "spec.bmc.address"),
        (bmc("ipmi://192.0.2.5:6230"), bmc("ipmi+http://192.0.2.5"), "spec.bmc.address"),
        (json!({}), json!({"bmc": {"address": "ipmi://b", "credentialsName": ""}}), "spec.bmc.credentialsName"),
        (
            json!({"bootMACAddress": "52:54:00:aa:bb:01"}),
            json!({"bootMACAddress": "52-54-00-aa-bb-01"}),
            "spec.bootMACAddress",
        ),
        (json!({}), json!({"bootMACAddress": "01:00:5e:00:00:01"}), "spec.bootMACAddress"),
        (json!({"bootMode": "legacy"}), json!({"bootMode": "bios"}), "spec.bootMode"),
        (image(json!({})), image(json!({"url": "ftp://images/a"})), "spec.image.url"),
        (image(json!({"url": "https://images/a"})), image(json!({"url": "http://"})), "spec.image.url"),
        (image(json!({"url": "store://a", "checksum": ""})), image(json!({"checksum": ""})), "spec.image.checksum"),
        (image(json!({"checksum": "http://images/SUMS"})), image(json!({"checksum": "abc"})), "spec.image.checksum"),
        (image(json!({"checksumType": "sha256"})), image(json!({"checksumType": "md5"})), "spec.image.checksum"),
        (image(json!({"format": "qcow2"})), image(json!({"format": "vmdk"})), "spec.image.format"),
        (image(json!({"format": "raw"})), image(json!({"format": "live-iso"})), "spec.image.format"),
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
    assert_eq!((network.mode, network.cidr.unwrap().prefix), (NetworkMode::Managed, 24));
    assert_eq!(network.cidr.unwrap().last().to_string(), "192.0.2.255");
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
