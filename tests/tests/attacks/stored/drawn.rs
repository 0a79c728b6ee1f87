//! Objects of every kind that its schema and its rules take, drawn at random.

use firesteel_resources::admit;
use firesteel_resources::kind::{Kind, KindScope};
use firesteel_resources::kinds::{KINDS, MACHINE_CONFIGURATION, PROVISIONING};
use firesteel_resources::provisioning::SINGLETON;
use firesteel_resources::shape::{self, Field, Shape, ShapeForm};
use serde_json::{Map, Value, json};

use super::{served, unserved, with};

/// Texts that mean something to one rule or another; a field takes those of its shape.
const TEXTS: &[&str] = &[
    "",
    "a",
    "worker",
    "1",
    "10",
    "x86_64",
    "latest",
    "pinned",
    "2026-01-01T00:00:00Z",
    "30s",
    "1h0m0s",
    "v1",
    "a.example.com/v1",
    "52:54:00:12:34:56",
    "10.77.0.1",
    "10.77.0.9",
    "fd00::1",
    "10.77.0.0/24",
    "10.64.0.0/10",
    "fd00::/64",
    "10.77.0.100,10.77.0.199",
    "10.77.0.2, 10.77.0.255",
    "fd00::10,fd00::20",
    "s0",
    "none0",
    "Managed",
    "Unmanaged",
    "Disabled",
    "ntp.example.com",
    "redfish://192.0.2.5/redfish/v1/Systems/1",
    "ipmi://192.0.2.5",
    "https://images.example.com/a.raw",
    "oci://registry.example.com/a:1",
    "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
    "admin",
    "metadata",
    "3.2.0",
];
const INTEGERS: [i64; 8] = [0, 1, 2, 3, 60, 300, 65_536, -1];
/// Of these names a kind may take one alone.
const NAMES: [&str; 4] = ["cluster", "fleet", "worker", "version"];
/// Levels of a document.
const DEPTH_MAX: usize = 9;

/// Those that a user writes, in the version that is stored; the network is one object, with a test of its own.
pub(super) fn kinds() -> impl Iterator<Item = &'static Kind> {
    let is_drawn = |kind: &&Kind| !kind.read_only && kind.stored_as.is_none() && kind.kind != PROVISIONING.kind;
    KINDS.iter().copied().filter(is_drawn)
}

/// Specs with what the rules of their kind ask for. Networks are of all sorts: those that can be served, and others.
fn plain(kind: &Kind) -> Vec<Value> {
    if kind.kind == PROVISIONING.kind {
        let unserved = unserved().into_iter().map(|(_, over, ..)| with(&over));
        return [served()].into_iter().chain(unserved).collect();
    }
    let reference = || json!({"apiGroup": "x.example.com", "kind": "Thing", "name": "a"});
    let machine =
        || json!({"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": reference()});
    let spec = match (kind.group, kind.kind) {
        ("metal3.io", "BareMetalHost") => json!({"online": true}),
        ("metal3.io", "BareMetalSwitch") => {
            json!({"address": "a", "deviceType": "netmiko_cisco_ios", "macAddress": "52:54:00:12:34:56"})
        }
        ("metal3.io", "BMCEventSubscription") => {
            json!({"hostName": "a", "destination": "https://events.example.com/a"})
        }
        ("metal3.io", "DataImage") => json!({"url": "https://images.example.com/a.iso"}),
        ("metal3.io", "HostClaim") => json!({"poweredOn": true}),
        ("metal3.io", "HostFirmwareComponents") => json!({"updates": []}),
        ("metal3.io", "HostFirmwareSettings") => json!({"settings": {}}),
        ("metal3.io", "HostNetworkAttachment") => json!({"mode": "access", "nativeVLAN": 1}),
        ("firesteel.dev", "AccessGrant") => json!({"subject": {"kind": "User", "name": "ann"}, "role": "viewer"}),
        ("firesteel.dev", "BootImageStream") => json!({"source": {"file": "stable.json"}}),
        ("firesteel.dev", "Halt") => json!({"by": "ann", "reason": "a drill"}),
        ("firesteel.dev", "HostGroup") => {
            json!({"selector": {"matchLabels": {"a": "b"}}, "image": {"stream": "stable"}})
        }
        ("cluster.x-k8s.io", "Cluster") => json!({"infrastructureRef": reference()}),
        ("cluster.x-k8s.io", "Machine") => machine(),
        ("cluster.x-k8s.io", "MachineSet") => json!({
            "clusterName": "c", "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": machine()},
        }),
        _ => json!({}),
    };
    vec![spec]
}

/// A stream of choices; the same seed chooses the same.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// An object that is admitted, or nothing. The first of a kind has only what its rules ask for, so that some object
    /// of each kind is there whatever is drawn.
    pub(super) fn object(&mut self, kind: &Kind, number: usize) -> Option<Value> {
        let plain = plain(kind);
        let mut object = if number < plain.len() { json!({}) } else { self.value(kind.shape, 0)? };
        let fields = object.as_object_mut()?;
        // A new object has no status.
        fields.remove("status");
        if number < plain.len() || kind.kind == PROVISIONING.kind {
            // The fields of a network go together: few are taken where all are drawn.
            let mut spec = plain[number % plain.len()].clone();
            spec.as_object_mut()?.extend(fields.get("spec").and_then(Value::as_object).cloned().unwrap_or_default());
            fields.insert("spec".into(), spec);
        }
        let own = format!("drawn-{number}");
        let name = if kind.kind == PROVISIONING.kind {
            SINGLETON
        } else if kind.kind == MACHINE_CONFIGURATION.kind {
            NAMES[0]
        } else if number > 0 && self.below(4) == 0 {
            NAMES[self.below(NAMES.len())]
        } else {
            own.as_str()
        };
        fields.insert("apiVersion".into(), json!(kind.api_version()));
        fields.insert("kind".into(), json!(kind.kind));
        let metadata = match kind.scope {
            KindScope::Namespaced => json!({"name": name, "namespace": "default"}),
            KindScope::Cluster => json!({"name": name}),
        };
        fields.insert("metadata".into(), metadata);
        let admission = admit(kind, &mut object.clone(), None);
        admission.causes.is_empty().then_some(object)
    }

    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % count.max(1)
    }

    fn value(&mut self, shape: &Shape, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        match shape.form {
            ShapeForm::Boolean => Some(json!(self.below(2) == 0)),
            ShapeForm::Integer | ShapeForm::Number | ShapeForm::IntegerOrText => {
                self.fitting(shape, INTEGERS.map(Value::from).to_vec())
            }
            ShapeForm::Text => {
                let words = if shape.words.is_empty() { TEXTS } else { shape.words };
                self.fitting(shape, words.iter().map(|word| json!(word)).collect())
            }
            ShapeForm::Any if self.below(2) == 0 => Some(json!({"ignition": {"version": "3.2.0"}})),
            ShapeForm::Any => Some(json!({})),
            ShapeForm::Map(item) => {
                let value = if self.below(2) == 0 { self.value(item, depth + 1) } else { None };
                Some(value.map_or_else(|| json!({}), |value| json!({"worker": value})))
            }
            ShapeForm::List(item) => {
                let count = shape.items_min.unwrap_or(0).max(self.below(2));
                (0..count).map(|_| self.value(item, depth + 1)).collect::<Option<Vec<_>>>().map(Value::from)
            }
            ShapeForm::Object(fields) => self.fields(fields, depth),
        }
    }

    fn fields(&mut self, fields: &[Field], depth: usize) -> Option<Value> {
        let mut drawn = Map::new();
        // The deeper, the fewer: a rule of one field refuses the whole.
        let rarity = 2 + depth;
        for field in fields {
            if !field.required && depth > 0 && self.below(rarity) > 0 {
                continue;
            }
            match self.value(&field.shape, depth + 1) {
                Some(value) => drop(drawn.insert(field.name.to_owned(), value)),
                None if field.required => return None,
                None => {}
            }
        }
        Some(Value::Object(drawn))
    }

    /// One of these that the shape takes.
    fn fitting(&mut self, shape: &Shape, mut values: Vec<Value>) -> Option<Value> {
        values.retain(|value| shape::check(shape, value, None).is_empty());
        if values.is_empty() {
            return None;
        }
        let chosen = self.below(values.len());
        Some(values.swap_remove(chosen))
    }
}
