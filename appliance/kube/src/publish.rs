//! Keeps the view of the served kinds (CustomResourceDefinitions) in the store, where it can be
//! listed and watched like anything else.

use firesteel_store::{PAGE_OBJECTS_MAX, Range};
use serde_json::Value;

use crate::builtin::definition;
use crate::core::{Core, Preconditions, WriteOptions, read_failed};
use crate::kind::KindInfo;
use crate::rules::Target;
use crate::status::Status;

impl Core {
    /// Makes the stored definitions those of the kinds served now. To be called once at start.
    pub async fn publish_kinds(&self) -> Result<(), Status> {
        let registry = self.registry();
        let Some(kind) = registry.by_kind("apiextensions.k8s.io", "CustomResourceDefinition").cloned() else {
            return Ok(());
        };
        let wanted = definition::definitions(registry, self.now());
        let name_of = |definition: &Value| definition["metadata"]["name"].as_str().unwrap_or("").to_owned();
        for definition in &wanted {
            let name = name_of(definition);
            match self.get(named(&kind, &name)).await {
                Ok(stored) if stored["spec"] == definition["spec"] && has_labels(&stored, definition) => {}
                Ok(stored) => {
                    let uid = stored["metadata"]["uid"].as_str().unwrap_or_default();
                    let renew = |stored: &mut Value| {
                        stored["spec"] = definition["spec"].clone();
                        for (label, value) in labels(definition) {
                            stored["metadata"]["labels"][label] = value.clone();
                        }
                        // What was found out of it stays; the times in it are those of its beginning.
                        for part in ["acceptedNames", "storedVersions"] {
                            stored["status"][part] = definition["status"][part].clone();
                        }
                        let generation = stored["metadata"]["generation"].as_i64().unwrap_or(0);
                        stored["metadata"]["generation"] = generation.saturating_add(1).into();
                    };
                    self.edit(named(&kind, &name), uid, renew).await?;
                }
                Err(status) if status.is_not_found() => {
                    self.create(named(&kind, &name), definition.clone(), WriteOptions::default()).await?;
                }
                Err(status) => return Err(status),
            }
        }
        let resource = kind.group_resource();
        let page = self.store().list(Range::all(&resource), PAGE_OBJECTS_MAX).await;
        for object in page.map_err(read_failed)?.items {
            let name = &object.key.name;
            if wanted.iter().all(|definition| name_of(definition) != **name) {
                self.delete(named(&kind, name), &Preconditions::default(), WriteOptions::default()).await?;
            }
        }
        Ok(())
    }
}

fn labels(definition: &Value) -> impl Iterator<Item = (&String, &Value)> {
    definition["metadata"]["labels"].as_object().into_iter().flatten()
}

fn has_labels(stored: &Value, definition: &Value) -> bool {
    labels(definition).all(|(label, value)| stored["metadata"]["labels"][label] == *value)
}

fn named<'a>(kind: &'a KindInfo, name: &'a str) -> Target<'a> {
    Target { kind, namespace: "", name }
}
