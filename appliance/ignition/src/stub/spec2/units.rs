//! The sections `systemd` and `networkd`.

use std::collections::HashMap;

use serde_json::Value;

use super::{DuplicatePolicy, Spec2Defaults, mounts::MountUnit, nodes::NetworkFile};
use crate::fields::{FieldError, Fields, SparseObject};

/// Where Ignition 2 put networkd's files.
const NETWORK_FOLDER: &str = "/etc/systemd/network";

#[derive(Default)]
struct Spec2Unit {
    place: String,
    name: String,
    enabled: Option<bool>,
    mask: Option<bool>,
    contents: Option<String>,
    dropins: Vec<Dropin>,
}

struct Dropin {
    place: String,
    name: String,
    contents: Option<String>,
}

pub(super) fn systemd(section: &mut Fields, context: Spec2Defaults) -> Result<SparseObject, FieldError> {
    let mut units: Vec<Spec2Unit> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for fields in section.objects("units")? {
        let mut unit = Spec2Unit::read(fields)?;
        match by_name.get(&unit.name).copied() {
            None => {
                by_name.insert(unit.name.clone(), units.len());
                units.push(unit);
            }
            Some(index) if context.options.duplicates == DuplicatePolicy::LastWins => {
                let earlier = std::mem::take(&mut units[index].dropins);
                let new = |old: &Dropin| unit.dropins.iter().all(|dropin| dropin.name != old.name);
                let kept: Vec<Dropin> = earlier.into_iter().filter(new).collect();
                unit.dropins.extend(kept);
                units[index] = unit;
            }
            Some(index) => {
                let reason = format!("is the name of {} too", units[index].place);
                return Err(FieldError::new(&format!("{}.name", unit.place), reason));
            }
        }
    }
    Ok(SparseObject::default().list("units", units.into_iter().map(Spec2Unit::written).collect::<Vec<_>>()))
}

impl Spec2Unit {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        let (enable, enabled) = (fields.flag("enable")?, fields.flag("enabled")?);
        let unit = Self {
            place: fields.place().to_owned(),
            name: fields.needed_text("name")?,
            // `enable: false` says nothing; `enabled` is the newer field and wins.
            enabled: enabled.or(enable.filter(|enable| *enable)),
            mask: fields.flag("mask")?,
            contents: fields.text("contents")?,
            dropins: dropins(&mut fields)?,
        };
        fields.end()?;
        Ok(unit)
    }

    fn written(self) -> SparseObject {
        let dropin = |one: Dropin| SparseObject::default().put("name", one.name).some("contents", one.contents);
        SparseObject::default()
            .put("name", self.name)
            .some("enabled", self.enabled)
            .set("mask", self.mask)
            .some("contents", self.contents.filter(|text| !text.is_empty()))
            .list("dropins", self.dropins.into_iter().map(dropin).collect::<Vec<_>>())
    }
}

fn dropins(unit: &mut Fields) -> Result<Vec<Dropin>, FieldError> {
    let mut list: Vec<Dropin> = Vec::new();
    for mut fields in unit.objects("dropins")? {
        let dropin = Dropin {
            place: fields.place().to_owned(),
            name: fields.needed_text("name")?,
            contents: fields.text("contents")?.filter(|text| !text.is_empty()),
        };
        fields.end()?;
        if let Some(other) = list.iter().find(|other| other.name == dropin.name) {
            let reason = format!("is the name of {} too", other.place);
            return Err(FieldError::new(&format!("{}.name", dropin.place), reason));
        }
        list.push(dropin);
    }
    Ok(list)
}

/// Units without contents were not written by Ignition 2 either.
pub(super) fn networkd(section: &mut Fields) -> Result<Vec<NetworkFile>, FieldError> {
    let mut files: Vec<NetworkFile> = Vec::new();
    for mut fields in section.objects("units")? {
        let name = fields.needed_text("name")?;
        let kind = name.rsplit_once('.').map(|(_, kind)| kind);
        if !matches!(kind, Some("link" | "netdev" | "network")) || name.contains('/') {
            return Err(fields.error("name", "must be a file's name that ends in .link, .netdev or .network"));
        }
        let contents = fields.text("contents")?;
        let place = fields.place().to_owned();
        files.extend(contents.map(|contents| NetworkFile {
            place,
            path: format!("{NETWORK_FOLDER}/{name}"),
            contents,
        }));
        for Dropin { place, name: dropin, contents } in dropins(&mut fields)? {
            if !dropin.ends_with(".conf") || dropin.contains('/') {
                return Err(FieldError::new(&format!("{place}.name"), "must be a file's name that ends in .conf"));
            }
            let path = format!("{NETWORK_FOLDER}/{name}.d/{dropin}");
            files.extend(contents.map(|contents| NetworkFile { place, path, contents }));
        }
        fields.end()?;
    }
    files.retain(|file| !file.contents.is_empty());
    Ok(files)
}

/// What the config's mount units say; of no use where a unit's shape is wrong, which is found elsewhere.
pub(super) fn mount_units(config: &Value) -> Vec<MountUnit> {
    let units = config["systemd"]["units"].as_array().into_iter().flatten();
    let mounts = units.filter(|unit| unit["name"].as_str().is_some_and(|name| name.ends_with(".mount")));
    mounts.filter_map(|unit| mount_unit(unit["contents"].as_str()?)).collect()
}

fn mount_unit(contents: &str) -> Option<MountUnit> {
    let mut section = "";
    let (mut what, mut at) = (None, None);
    for line in contents.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        match line.split_once('=') {
            Some((name, value)) if section == "[Mount]" => match name.trim() {
                "What" => what = Some(value.trim().to_owned()),
                "Where" => at = Some(value.trim().to_owned()),
                _ => {}
            },
            Some(_) | None => {}
        }
    }
    Some(MountUnit { what: what?, at: at? })
}
