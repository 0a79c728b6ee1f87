//! Objects that users apply: bodies in JSON and YAML, and the rules of every kind.

use firesteel_appliance::serve;
use firesteel_kube::negotiate;
use firesteel_resources::kind::{Kind, StoredAs};
use firesteel_resources::kinds::{self, KINDS};
use firesteel_resources::{BareMetalHost, admit, bare_metal_host::annotations, provisioning::Provisioning};
use serde_json::Value;

/// Refusals of one object: more than that helps nobody, and each takes room in an answer.
const REFUSALS_BYTES_MAX: usize = 4 << 20;

/// Of a body that cannot be read: 512 characters.
const REFUSAL_BYTES_MAX: usize = 2048;

pub(super) fn check(input: &[u8]) {
    negotiate::check(input);
    for media_type in [None, Some("application/yaml")] {
        let object = match negotiate::parse_object(media_type, input, "Provisioning") {
            Ok(object) => object,
            Err(status) => {
                super::assert_plain(&status.message);
                assert!(status.message.len() <= REFUSAL_BYTES_MAX, "{} bytes", status.message.len());
                continue;
            }
        };
        if let Ok(yaml) = negotiate::yaml(&object)
            && let Ok(again) = negotiate::parse_object(Some("application/yaml"), yaml.as_bytes(), "Provisioning")
        {
            assert!(same(&again, &object), "{again} is not {object}");
        }
        for kind in KINDS {
            let mut admitted = object.clone();
            let admission = admit::admit(kind, &mut admitted, None);
            let all = admission.causes.iter().map(|cause| cause.message.len() + cause.field.len());
            assert!(all.sum::<usize>() <= REFUSALS_BYTES_MAX);
            // What is admitted has its shape: nothing more is dropped or put in.
            let mut again = admitted.clone();
            let second = admit::admit(kind, &mut again, Some(&object));
            assert_eq!(second.unknown_fields, Vec::<String>::new());
            assert_eq!(again, admitted);
            if let Some(stored_as) = &kind.stored_as {
                there_and_back(kind, stored_as, &object);
            }
        }
        network(&object);
        moved_host(&object);
    }
}

/// Whatever annotations say, reading them ends in a value or in a reason.
fn moved_host(object: &Value) {
    let Ok(host) = serde_json::from_value::<BareMetalHost>(object.clone()) else { return };
    let status = annotations::moved_status(&host.metadata).and_then(Result::err);
    let hardware = annotations::hardware_details(&host.metadata).and_then(Result::err);
    status.iter().chain(&hardware).for_each(|why| assert!(!why.to_string().is_empty()));
}

/// Whatever an object says, and whatever its annotation brings: what becomes of it in the stored version and
/// back stays so.
fn there_and_back(kind: &Kind, stored_as: &StoredAs, object: &Value) {
    let conversion = serve::kinds::conversion(stored_as);
    if !object.is_object() {
        return;
    }
    let there = conversion.to_stored(&stored_as.kind.api_version(), object);
    let back = conversion.from_stored(&kind.api_version(), &there);
    if (stored_as.fits)(object) {
        for part in ["spec", "status"] {
            assert_eq!(back.get(part), object.get(part), "through {there}");
        }
    }
}

/// Numbers may change their form on the way through YAML; everything else must not.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(_), Value::Number(_)) => true,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

/// A network that was admitted is one: its addresses lie where they must.
fn network(object: &Value) {
    let mut object = object.clone();
    if !admit::admit(&kinds::PROVISIONING, &mut object, None).causes.is_empty() {
        return;
    }
    let Ok(found) = admit::decode::<Provisioning>(&object) else { panic!("what is admitted can be read") };
    drop(found.network());
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        "apiVersion: metal3.io/v1alpha1\nkind: Provisioning\nmetadata:\n  name: provisioning-configuration\nspec:\n  provisioningNetwork: Managed\n  provisioningInterface: eth1\n  provisioningIP: 172.22.0.2\n  provisioningNetworkCIDR: 172.22.0.0/24\n  provisioningDHCPRange: 172.22.0.10,172.22.0.100\n",
        r#"{"apiVersion":"metal3.io/v1alpha1","kind":"Provisioning","metadata":{"name":"x"},"spec":{"provisioningNetwork":"Managed","provisioningInterface":"e","provisioningIP":"fd00::2","provisioningNetworkCIDR":"fd00::/64","provisioningDHCPRange":"fd00::a,fd00::ff"}}"#,
        r#"{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"h"},"spec":{"online":true,"bootMACAddress":"52:54:00:12:34:56","bmc":{"address":"redfish://10.0.0.7/redfish/v1/Systems/1","credentialsName":"s"},"rootDeviceHints":{"deviceName":"/dev/vda","minSizeGigabytes":8},"image":{"url":"https://e/o.raw","checksum":"00","checksumType":"sha256"},"userData":{"name":"u"}}}"#,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        "a: !!str 1\nb: 'yes'\nc: 0x10\nd: 1e3\ne: ~\nf: |\n  text\n",
        "a: 1\n---\nb: 2\n",
        "\u{1b}[31m\u{9b}: [\r\n",
        "a\u{7}: 1\na\u{7}: 2\n",
        "{\"a\":\"\\u001b[2J\\u0000\"}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
