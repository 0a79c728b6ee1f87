//! Keeps the view of the served kinds (CustomResourceDefinitions) in the store, where it can be
//! listed and watched like anything else. What they say comes from the program: a definition that is missing, differs
//! or is damaged is written again, and which kinds are served does not depend on the store at all.

use firesteel_store::{ListRange, PAGE_OBJECTS_MAX, PageRead};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::model::kind::KindInfo;
use crate::model::status::Status;
use crate::object::builtin::definition;
use crate::object::core::Core;
use crate::object::options::{Preconditions, WriteOptions};
use crate::object::store_errors::read_failed;
use crate::object::terms::ObjectTarget;

impl Core {
    /// Makes the stored definitions those of the kinds served now. To be called once at start, and where one of them is
    /// found to be damaged.
    pub fn publish_kinds(&self) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
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
                    Err(status) if status.is_not_found() || status.is_unreadable() => {
                        if status.is_unreadable() {
                            self.delete_unread(named(&kind, &name)).await?;
                        }
                        self.create(named(&kind, &name), definition.clone(), WriteOptions::default()).await?;
                    }
                    Err(status) => return Err(status),
                }
            }
            let resource = kind.group_resource();
            let read = self.store().page_with_damaged(ListRange::all(&resource), PAGE_OBJECTS_MAX).await;
            let PageRead { page, damaged, .. } = read.map_err(read_failed)?;
            let is_of_before = |name: &str| wanted.iter().all(|definition| name_of(definition) != name);
            for damage in damaged.iter().filter(|damage| is_of_before(&damage.key.name)) {
                self.delete_unread(named(&kind, &damage.key.name)).await?;
            }
            for object in page.items.iter().filter(|object| is_of_before(&object.key.name)) {
                let name = &object.key.name;
                self.delete(named(&kind, name), &Preconditions::default(), None, WriteOptions::default()).await?;
            }
            Ok(())
        })
    }
}

fn labels(definition: &Value) -> impl Iterator<Item = (&String, &Value)> {
    definition["metadata"]["labels"].as_object().into_iter().flatten()
}

fn has_labels(stored: &Value, definition: &Value) -> bool {
    labels(definition).all(|(label, value)| stored["metadata"]["labels"][label] == *value)
}

fn named<'a>(kind: &'a KindInfo, name: &'a str) -> ObjectTarget<'a> {
    ObjectTarget { kind, namespace: "", name }
}
