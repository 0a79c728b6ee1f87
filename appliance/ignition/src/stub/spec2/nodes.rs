//! Files, directories and links.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{DuplicatePolicy, Spec2Defaults, mounts::Mounts, resource};
use crate::data_url;
use crate::fields::{FieldError, Fields, SparseObject};

/// What files, directories and links have in common.
pub(super) struct Spec2FileNode {
    place: String,
    pub(super) filesystem: String,
    path: String,
    overwrite: Option<bool>,
    user: SparseObject,
    group: SparseObject,
    /// What only one of the three has.
    rest: Fields,
}

impl Spec2FileNode {
    pub(super) fn read_all(list: Vec<Fields>) -> Result<Vec<Self>, FieldError> {
        list.into_iter().map(Self::read).collect()
    }

    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        let owner = |fields: &mut Fields, name: &str| {
            let mut owner = fields.object(name)?;
            let id = owner.whole("id")?;
            let name = owner.text("name")?.filter(|name| !name.is_empty());
            owner.end()?;
            Ok::<_, FieldError>(SparseObject::default().some("id", id).some("name", name))
        };
        Ok(Self {
            place: fields.place().to_owned(),
            filesystem: fields.needed_text("filesystem")?,
            path: fields.needed_text("path")?,
            overwrite: fields.flag("overwrite")?,
            user: owner(&mut fields, "user")?,
            group: owner(&mut fields, "group")?,
            rest: fields,
        })
    }

    fn mode(&mut self, context: Spec2Defaults) -> Result<Option<i64>, FieldError> {
        let mode = self.rest.whole("mode")?;
        Ok(if context.mode_defaults_to_zero { mode.or(Some(0)) } else { mode })
    }
}

/// A file that networkd reads, of a section that spec 3 does not have.
pub(super) struct NetworkFile {
    pub(super) place: String,
    pub(super) path: String,
    pub(super) contents: String,
}

/// Files in their order, each path once.
#[derive(Default)]
struct Spec2Files {
    list: Vec<(String, SparseObject)>,
    by_path: HashMap<String, usize>,
}

pub(super) fn files(
    nodes: Vec<Spec2FileNode>,
    network_files: Vec<NetworkFile>,
    mounts: &Mounts,
    context: Spec2Defaults,
) -> Result<Vec<SparseObject>, FieldError> {
    let mut files = Spec2Files::default();
    for node in nodes {
        files.add(node, mounts, context)?;
    }
    for NetworkFile { place, path, contents } in network_files {
        if let Some(index) = files.by_path.get(&path) {
            return Err(FieldError::new(&place, format!("would be the same file as {}", files.list[*index].0)));
        }
        let path = mounts.path("root", &path, &place)?;
        let written = SparseObject::default()
            .put("path", path.as_str())
            .put("mode", 0o644)
            .put("overwrite", true)
            .put("contents", json!({"source": data_url::encode(contents.as_bytes())}));
        files.by_path.insert(path, files.list.len());
        files.list.push((place, written));
    }
    Ok(files.list.into_iter().map(|(_, file)| file).collect())
}

impl Spec2Files {
    fn add(&mut self, mut node: Spec2FileNode, mounts: &Mounts, context: Spec2Defaults) -> Result<(), FieldError> {
        let append = node.rest.flag("append")?.unwrap_or(false);
        let mut contents = node.rest.object("contents")?;
        let compression = contents.text("compression")?.filter(|name| !name.is_empty());
        let mut source = resource(&mut contents)?.some("compression", compression);
        contents.end()?;
        // No source is an empty file here; in spec 3 it would be any file.
        source.0.entry("source").or_insert_with(|| json!(""));
        if append && node.overwrite == Some(true) {
            return Err(FieldError::new(&format!("{}.append", node.place), "cannot stand beside overwrite"));
        }
        let mode = node.mode(context)?;
        let path = mounts.path(&node.filesystem, &node.path, &node.place)?;
        let Spec2FileNode { place, overwrite, user, group, rest, .. } = node;
        rest.end()?;
        let file = SparseObject::default().put("path", path.as_str()).some("mode", mode);
        let file = file.object("user", user).object("group", group);
        match self.by_path.get(&path).copied() {
            Some(index) if append => return self.append(index, file, source, &place),
            Some(index) if context.options.duplicates == DuplicatePolicy::Refused => {
                let reason = format!("is the path of {} too", self.list[index].0);
                return Err(FieldError::new(&format!("{place}.path"), reason));
            }
            // It is written where the first was: in spec 3 the order says nothing.
            Some(index) => {
                self.list[index] = (place, file.put("overwrite", overwrite.unwrap_or(true)).put("contents", source));
            }
            None => {
                let file = if append {
                    file.put("overwrite", false).put("append", vec![Value::from(source)])
                } else {
                    file.put("overwrite", overwrite.unwrap_or(true)).put("contents", source)
                };
                self.by_path.insert(path, self.list.len());
                self.list.push((place, file));
            }
        }
        Ok(())
    }

    /// One more piece at the end of a file that is there: with the same mode and owner, for a file has them once.
    fn append(
        &mut self,
        index: usize,
        file: SparseObject,
        source: SparseObject,
        place: &str,
    ) -> Result<(), FieldError> {
        let (other, first) = &mut self.list[index];
        for name in ["mode", "user", "group"] {
            match (file.0.get(name), first.0.get(name)) {
                (Some(here), there) if there != Some(here) => {
                    let reason = format!("differs from that of {other}, which is the same file");
                    return Err(FieldError::new(&format!("{place}.{name}"), reason));
                }
                (Some(_) | None, _) => {}
            }
        }
        let list = first.0.entry("append").or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(source.into());
        }
        Ok(())
    }
}

pub(super) fn directories(
    nodes: Vec<Spec2FileNode>,
    mounts: &Mounts,
    context: Spec2Defaults,
) -> Result<Vec<SparseObject>, FieldError> {
    let convert = |mut node: Spec2FileNode| {
        let mode = node.mode(context)?;
        let path = mounts.path(&node.filesystem, &node.path, &node.place)?;
        let Spec2FileNode { overwrite, user, group, rest, .. } = node;
        rest.end()?;
        let written = SparseObject::default().put("path", path).some("mode", mode).set("overwrite", overwrite);
        Ok(written.object("user", user).object("group", group))
    };
    nodes.into_iter().map(convert).collect()
}

pub(super) fn links(nodes: Vec<Spec2FileNode>, mounts: &Mounts) -> Result<Vec<SparseObject>, FieldError> {
    let convert = |mut node: Spec2FileNode| {
        let hard = node.rest.flag("hard")?;
        let target = node.rest.needed_text("target")?;
        // A hard link's target is a path on the link's own filesystem; a symbolic one's is what the running OS sees.
        let target = if hard == Some(true) && target.starts_with('/') {
            mounts.path(&node.filesystem, &target, &node.place)?
        } else {
            target
        };
        let path = mounts.path(&node.filesystem, &node.path, &node.place)?;
        let Spec2FileNode { overwrite, user, group, rest, .. } = node;
        rest.end()?;
        let written = SparseObject::default().put("path", path).put("target", target).set("hard", hard);
        Ok(written.set("overwrite", overwrite).object("user", user).object("group", group))
    };
    nodes.into_iter().map(convert).collect()
}
