//! Filesystems. In spec 2 they have names, by which files refer to them; in spec 3 they have mount points, and files
//! have paths from `/`.

use std::collections::HashSet;

use crate::fields::{FieldError, Fields, SparseObject};

/// The name of the filesystem that is always there.
const ROOT: &str = "root";
/// Where the initramfs mounts the root filesystem.
const SYSROOT: &str = "/sysroot";

/// What a mount unit says.
pub(super) struct MountUnit {
    pub(super) what: String,
    pub(super) at: String,
}

struct Spec2Filesystem {
    place: String,
    name: String,
    /// The mount point; `None` as long as nothing needs it.
    at: Option<String>,
    device: Option<MountDevice>,
}

struct MountDevice {
    path: String,
    label: Option<String>,
    uuid: Option<String>,
    written: SparseObject,
}

/// All filesystems of a config.
pub(super) struct Mounts(Vec<Spec2Filesystem>);

impl Mounts {
    /// `used` are the names that files, directories and links refer to.
    pub(super) fn read(list: Vec<Fields>, used: &HashSet<String>, units: &[MountUnit]) -> Result<Self, FieldError> {
        let mut filesystems = Vec::new();
        for fields in list {
            let filesystem = Spec2Filesystem::read(fields)?;
            let twice = |other: &&Spec2Filesystem| other.name == filesystem.name && !filesystem.name.is_empty();
            if let Some(other) = filesystems.iter().find(twice) {
                let reason = format!("is the name of {} too, and only one of them could be meant", other.place);
                return Err(FieldError::new(&format!("{}.name", filesystem.place), reason));
            }
            filesystems.push(filesystem);
        }
        for filesystem in filesystems.iter_mut().filter(|one| one.at.is_none() && used.contains(&one.name)) {
            let found = filesystem.device.as_ref().and_then(|device| device.mount_point(units));
            let reason = "files are put on it, and no mount unit in the config says where it is to be mounted: add one";
            let at = found.ok_or_else(|| FieldError::new(&format!("{}.name", filesystem.place), reason))?;
            filesystem.at = Some(at);
        }
        Ok(Self(filesystems))
    }

    /// The path from `/` of a path on a filesystem.
    pub(super) fn path(&self, name: &str, path: &str, place: &str) -> Result<String, FieldError> {
        let at = self.at(name, place)?;
        if !path.starts_with('/') {
            return Err(FieldError::new(&format!("{place}.path"), "is not an absolute path"));
        }
        let whole = if at == "/" { path.to_owned() } else { format!("{at}{path}") };
        let owner = self.0.iter().filter(|one| one.device.is_some()).filter_map(|one| one.at.as_deref());
        let owner = owner.filter(|mount| is_below(&whole, mount)).max_by_key(|mount| mount.len()).unwrap_or("/");
        if owner.len() > at.len() {
            let reason = format!("would come to lie on the filesystem that is mounted at {owner}");
            return Err(FieldError::new(&format!("{place}.path"), reason));
        }
        Ok(whole)
    }

    fn at(&self, name: &str, place: &str) -> Result<&str, FieldError> {
        match self.0.iter().find(|one| one.name == name) {
            Some(Spec2Filesystem { at: Some(at), .. }) => Ok(at),
            Some(Spec2Filesystem { at: None, .. }) => {
                Err(FieldError::new(&format!("{place}.filesystem"), "has no mount point"))
            }
            None if name == ROOT => Ok("/"),
            None => {
                let reason = "is in no filesystem of this config, and where it would be mounted is not known";
                Err(FieldError::new(&format!("{place}.filesystem"), reason))
            }
        }
    }

    pub(super) fn written(self) -> Vec<SparseObject> {
        let written = |one: Spec2Filesystem| Some(one.device?.written.some("path", one.at));
        self.0.into_iter().filter_map(written).collect()
    }
}

fn is_below(path: &str, mount: &str) -> bool {
    mount == "/" || path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Spec2Filesystem {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        let place = fields.place().to_owned();
        let name = fields.text("name")?.unwrap_or_default();
        let path = fields.text("path")?;
        let mount = fields.object("mount")?;
        let filesystem = match path {
            Some(_) if !mount.is_empty() => {
                return Err(fields.error("path", "cannot stand beside mount"));
            }
            Some(path) => {
                let rest = path.strip_prefix(SYSROOT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
                let reason = "is a mount of the initramfs, which spec 3 cannot say: use /sysroot or mount";
                let rest = rest.ok_or_else(|| fields.error("path", reason))?.trim_end_matches('/');
                let at = if rest.is_empty() { "/" } else { rest };
                Self { place, name, at: Some(at.to_owned()), device: None }
            }
            None if mount.is_empty() => return Err(fields.error("mount", "is needed, or path")),
            None => {
                let at = (name == ROOT).then(|| "/".to_owned());
                Self { place, name, at, device: Some(MountDevice::read(mount)?) }
            }
        };
        fields.end()?;
        Ok(filesystem)
    }
}

impl MountDevice {
    fn read(mut mount: Fields) -> Result<Self, FieldError> {
        let path = mount.needed_text("device")?;
        let format = mount.needed_text("format")?;
        let (mut wipe, mut options) = (mount.flag("wipeFilesystem")?, mount.texts("options")?);
        let mut create = mount.object("create")?;
        if !create.is_empty() {
            if wipe == Some(true) || !options.is_empty() {
                return Err(mount.error("create", "cannot stand beside wipeFilesystem and options"));
            }
            (wipe, options) = (create.flag("force")?, create.texts("options")?);
        }
        create.end()?;
        let (label, uuid) = (mount.text("label")?, mount.text("uuid")?);
        mount.end()?;
        let written = SparseObject::default()
            .put("device", path.as_str())
            .put("format", format)
            .set("wipeFilesystem", wipe)
            .some("label", label.clone())
            .some("uuid", uuid.clone())
            .list("options", options);
        Ok(Self { path, label, uuid, written })
    }

    fn mount_point(&self, units: &[MountUnit]) -> Option<String> {
        let by = |folder: &str, mark: &str, value: &Option<String>, what: &str| {
            let value = value.as_deref().filter(|value| !value.is_empty());
            value
                .is_some_and(|value| what == format!("/dev/disk/{folder}/{value}") || what == format!("{mark}={value}"))
        };
        let is_it = |what: &str| {
            what == self.path || by("by-label", "LABEL", &self.label, what) || by("by-uuid", "UUID", &self.uuid, what)
        };
        let unit = units.iter().find(|unit| is_it(&unit.what))?;
        let at = unit.at.trim_end_matches('/');
        let usable = at.starts_with('/') && !at.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."));
        usable.then(|| at.to_owned())
    }
}
