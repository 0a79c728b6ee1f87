//! Objects of any kind, put into the store as their users and controllers would; and the images that tests of boot images
//! are about. A stream's releases stand there as its importer would leave them.

use std::time::Duration;

use firesteel_kube::{ObjectPart, Objects};
use firesteel_resources::host_group::ImageReference;
use firesteel_store::{GroupResource, ObjectKey};
use serde_json::{Value, json};

use crate::counts::Counts;
use crate::world::{Setup, World};

pub(crate) fn world(machines: usize) -> World {
    let mut world = World::new(Setup { seed: 11, machines, wild: false, bug: None, so_far: Counts::default() });
    world.settle_tasks();
    world
}

pub(crate) fn location(release: &str) -> String {
    format!("http://images.example/{release}.raw")
}

pub(crate) fn digest(release: &str) -> String {
    image_digest(&location(release))
}

fn image_digest(url: &str) -> String {
    let sum = ring::digest::digest(&ring::digest::SHA256, url.as_bytes());
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A release whose image is at this place, verified to the last byte.
pub(crate) fn release_at(release: &str, location: &str) -> Value {
    json!({"release": release, "seenAt": "2026-01-01T00:00:00Z", "stampedAt": "2026-01-01T01:00:00Z", "withdrawn": false,
           "artifacts": [{"architecture": "x86_64", "platform": "metal", "format": "metal", "part": "disk",
                          "sectorBytes": 512, "location": location, "sha256": image_digest(location),
                          "signature": "none", "state": "verified"}]})
}

pub(crate) fn release(name: &str) -> Value {
    release_at(name, &location(name))
}

pub(crate) fn reference(name: &str) -> ImageReference {
    ImageReference { stream: "stable".into(), release: name.into(), digest: digest(name), url: location(name) }
}

impl World {
    fn wait_for_appliance(&mut self) {
        while self.appliance.is_none() {
            self.pass_time(1);
        }
    }

    /// Makes or changes an object by the API's rules, again until the store has taken it.
    pub(crate) fn put(&mut self, group: &'static str, kind: &'static str, object: Value) {
        self.alter(group, kind, object["metadata"].clone(), move |stored| {
            for part in ["spec", "data"] {
                if let Some(value) = object.get(part) {
                    stored[part] = value.clone();
                }
            }
            for part in ["labels", "annotations", "ownerReferences"] {
                if let Some(value) = object["metadata"].get(part) {
                    stored["metadata"][part] = value.clone();
                }
            }
        });
    }

    pub(crate) fn alter(
        &mut self,
        group: &'static str,
        kind: &'static str,
        metadata: Value,
        change: impl Fn(&mut Value) + Send + Sync + 'static,
    ) {
        self.wait_for_appliance();
        let appliance = self.appliance.as_ref().unwrap();
        let objects: Objects<Value> = Objects::new(&appliance.core, group, kind).unwrap();
        self.executor.spawn(
            appliance.life,
            Box::pin(async move {
                let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
                let (namespace, name) = (text("namespace"), text("name"));
                let stored = objects.modify(&namespace, &name, ObjectPart::Main, &change).await.unwrap();
                if stored.is_none() {
                    let mut new = json!({ "metadata": metadata });
                    change(&mut new);
                    objects.create(&new).await.unwrap();
                }
            }),
        );
        self.settle_tasks();
    }

    /// Changes a status, as its controller would.
    pub(crate) fn alter_status(
        &mut self,
        (group, kind): (&'static str, &'static str),
        (namespace, name): (&'static str, &'static str),
        status: Value,
    ) {
        self.wait_for_appliance();
        let appliance = self.appliance.as_ref().unwrap();
        let objects: Objects<Value> = Objects::new(&appliance.core, group, kind).unwrap();
        let write = async move {
            let change = |stored: &mut Value| stored["status"] = status.clone();
            objects.modify(namespace, name, ObjectPart::Status, change).await.unwrap();
        };
        self.executor.spawn(appliance.life, Box::pin(write));
        self.settle_tasks();
    }

    /// The stream has these releases, the newest first.
    pub(crate) fn stream(&mut self, releases: Vec<Value>) {
        let stream = json!({"metadata": {"name": "stable"}, "spec": {"source": {"file": "stable.json"}}});
        self.put("firesteel.dev", "BootImageStream", stream);
        let status = json!({"stamped": true, "releases": releases});
        self.alter_status(("firesteel.dev", "BootImageStream"), ("", "stable"), status);
    }

    pub(crate) fn stored<T: serde::de::DeserializeOwned>(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<T> {
        let key = ObjectKey::new(&GroupResource::new(group, plural), namespace, name);
        Some(serde_json::from_slice(&self.memory.peek(&key)?.value).unwrap())
    }

    pub(crate) fn pass_time(&mut self, seconds: u64) {
        if let Err(violation) = self.run_for(Duration::from_secs(seconds)) {
            panic!("{violation}\n{}", self.story());
        }
    }
}
