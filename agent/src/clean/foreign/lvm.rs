//! Physical volumes of LVM2 (lvm2, lib/format_text/layout.h): a label in one of the first four sectors, the
//! PV's header in it, the metadata area, and in it the volume group as text.

use super::{Holding, Kind, Owner, View, le32, le64, text};

/// Areas that a header may list; lvm2 writes one or two.
const AREAS_MAX: usize = 8;
/// What is looked at of a group's text: its head has all that matters.
const TEXT_BYTES_MAX: usize = 64 << 10;
const AREA_HEAD_BYTES: usize = 512;

pub(super) fn find(view: &View<'_>) -> Option<Holding> {
    for sector in 0..4 {
        let offset = sector * 512;
        let Some(label) = view.at(offset, 512) else { continue };
        if !label.starts_with(b"LABELONE") || label.get(24..32)? != b"LVM2 001" {
            continue;
        }
        // A PV that belongs to no group, or whose group lies out of sight, is still a PV.
        let group = group(view, label).unwrap_or_default();
        let owner = match (group.lock, group.system) {
            (Some(lock), _) => Owner::Shared(lock),
            (None, Some(system)) => Owner::Host(system),
            (None, None) => Owner::Unnamed,
        };
        return Some(Holding { kind: Kind::Lvm, name: group.name, owner, offset });
    }
    None
}

#[derive(Debug, Default)]
struct Group {
    name: String,
    system: Option<String>,
    lock: Option<String>,
}

fn group(view: &View<'_>, label: &[u8]) -> Option<Group> {
    // After the PV's UUID and size: data areas, a pair of zeros, metadata areas, a pair of zeros.
    let header = label.get(usize::try_from(le32(label, 20)?).ok()?..)?;
    let mut pairs = header.get(40..)?.chunks_exact(16).map_while(|pair| Some((le64(pair, 0)?, le64(pair, 8)?)));
    let data = pairs.by_ref().take(AREAS_MAX).take_while(|(offset, _)| *offset != 0).count();
    if data == AREAS_MAX {
        return None;
    }
    pairs.take(AREAS_MAX).take_while(|(offset, _)| *offset != 0).find_map(|(offset, size)| area(view, offset, size))
}

fn area(view: &View<'_>, offset: u64, size: u64) -> Option<Group> {
    let head = view.at(offset, AREA_HEAD_BYTES)?;
    if head.get(4..20)? != b" LVM2 x[5A%r0N*>" {
        return None;
    }
    let (at, length) = (le64(head, 40)?, le64(head, 48)?);
    if at < AREA_HEAD_BYTES as u64 || at >= size {
        return None;
    }
    let length = usize::try_from(length).ok()?.min(TEXT_BYTES_MAX);
    // The area is a ring behind its head: a text may go on at its start.
    let first = length.min(usize::try_from(size - at).unwrap_or(usize::MAX));
    let mut bytes = view.at(offset.checked_add(at)?, first)?.to_vec();
    if first < length {
        let again = offset.checked_add(AREA_HEAD_BYTES as u64)?;
        bytes.extend(view.at(again, length - first).unwrap_or_default());
    }
    Some(parse(&String::from_utf8_lossy(&bytes)))
}

/// The head of a group's text: `name {`, then `key = value` lines up to the first section in it.
fn parse(said: &str) -> Group {
    let mut group = Group::default();
    let mut lines = said.lines().map(str::trim);
    if let Some(name) = lines.by_ref().find_map(|line| line.strip_suffix('{')) {
        group.name = text(name.trim().as_bytes());
    }
    for line in lines {
        if line.ends_with('{') || line == "}" {
            break;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.split('#').next().unwrap_or_default().trim();
        let plain = text(value.trim_matches('"').as_bytes());
        match key.trim() {
            "system_id" if !plain.is_empty() => group.system = Some(plain),
            "lock_type" if !matches!(plain.as_str(), "" | "none") => group.lock = Some(format!("lvmlockd {plain}")),
            "status" if value.contains("\"CLUSTERED\"") => group.lock = Some("clvmd".to_owned()),
            _ => {}
        }
    }
    group
}

#[cfg(test)]
mod tests {
    use super::super::tests::{disk, look};
    use super::*;

    const AREA: usize = 4096;
    const AREA_BYTES: usize = 8192;

    /// A PV with its label in sector 1 and a group's text somewhere in the ring.
    fn volume(said: &str, at: usize) -> Vec<u8> {
        let mut label = vec![0; 512];
        label[..8].copy_from_slice(b"LABELONE");
        label[20] = 32;
        label[24..32].copy_from_slice(b"LVM2 001");
        let mut put = |at: usize, number: usize| label[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
        put(72, 1 << 20);
        put(104, AREA);
        put(112, AREA_BYTES);
        let mut head = vec![0; 512];
        head[4..20].copy_from_slice(b" LVM2 x[5A%r0N*>");
        head[40..48].copy_from_slice(&(at as u64).to_le_bytes());
        head[48..56].copy_from_slice(&(said.len() as u64).to_le_bytes());
        let first = said.len().min(AREA_BYTES - at);
        let parts: [(usize, &[u8]); 4] = [
            (512, &label),
            (AREA, &head),
            (AREA + at, &said.as_bytes()[..first]),
            (AREA + 512, &said.as_bytes()[first..]),
        ];
        if first < said.len() { disk(2 << 20, &parts) } else { disk(2 << 20, &parts[..3]) }
    }

    fn said(more: &str) -> String {
        format!(
            "vg_data {{\nid = \"x-y\"\nseqno = 7\nstatus = [\"RESIZEABLE\", \"READ\", \"WRITE\"]\n{more}\
             max_lv = 0\n\nphysical_volumes {{\n\nsystem_id = \"not this\"\n}}\n}}\n# Generated by LVM2\n"
        )
    }

    #[test]
    fn a_local_group_names_nobody() {
        let found = look(&volume(&said(""), 1024));
        assert_eq!(found[0].to_string(), "LVM \"vg_data\"");
        assert_eq!(found[0].offset, 512);
    }

    #[test]
    fn owners_are_named() {
        let text = |more: &str| look(&volume(&said(more), 1024))[0].to_string();
        assert_eq!(text("system_id = \"web-7\"\n"), "LVM \"vg_data\" of host \"web-7\"");
        assert_eq!(text("lock_type = \"sanlock\"\n"), "LVM \"vg_data\" shared by lvmlockd sanlock");
        assert_eq!(text("lock_type = \"none\"\n"), "LVM \"vg_data\"");
        let clustered = "status = [\"RESIZEABLE\", \"CLUSTERED\"]\t# x\n";
        assert_eq!(text(clustered), "LVM \"vg_data\" shared by clvmd");
    }

    #[test]
    fn a_text_that_wraps_around_is_read_whole() {
        let found = look(&volume(&said("system_id = \"web-7\"\n"), AREA_BYTES - 40));
        assert_eq!(found[0].owner, Owner::Host("web-7".into()));
    }

    #[test]
    fn a_volume_without_a_group_is_found() {
        let mut bytes = volume(&said(""), 1024);
        bytes[AREA..AREA + 512].fill(0);
        assert_eq!(look(&bytes)[0].to_string(), "LVM");
    }
}
