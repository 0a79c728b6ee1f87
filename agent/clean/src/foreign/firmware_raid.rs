//! RAID of firmware and of Windows: members that say that they are part of more, and are not looked into. Such a label
//! is found and remarked on: what the array holds is not known.

use super::label::{RecognisedLabel, RegionLabels};
use super::{ContentKind, ContentOwner, VolumeView, be32, text};

/// Where Windows keeps the head of a dynamic disk in a classic table (`PRIVHEAD`), and where in its own partition of a
/// GPT: the copies at its end.
const LDM_CLASSIC_AT: u64 = 6 * 512;

pub(super) fn find(view: &VolumeView<'_>, seen: &mut RegionLabels) {
    for holding in [imsm(view), ddf(view), ldm(view)].into_iter().flatten() {
        let RecognisedLabel { kind, offset, .. } = holding;
        seen.remark(offset, format!("a label of {kind}, whose volumes are not looked into"));
        seen.holdings.push(holding);
    }
}

/// Intel's metadata (mdadm, super-intel.c): its anchor is the last block but one.
fn imsm(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const SIGNATURE: &[u8] = b"Intel Raid ISM Cfg Sig. ";
    let ends = [1024, 8192].into_iter().filter_map(|back| view.size_bytes().checked_sub(back));
    let offset = ends.into_iter().find(|at| view.at(*at, SIGNATURE.len()).is_some_and(|bytes| bytes == SIGNATURE))?;
    Some(RecognisedLabel { kind: ContentKind::Imsm, name: String::new(), owner: ContentOwner::Unnamed, offset })
}

/// SNIA DDF: the anchor is the last block; some firmware leaves it 257 blocks before the end.
fn ddf(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const MAGIC: u32 = 0xde11_de11;
    let ends = [512, 4096, 257 * 512].into_iter().filter_map(|back| view.size_bytes().checked_sub(back));
    let offset = ends.into_iter().find(|at| view.at(*at, 4).and_then(|bytes| be32(&bytes, 0)) == Some(MAGIC))?;
    Some(RecognisedLabel { kind: ContentKind::Ddf, name: String::new(), owner: ContentOwner::Unnamed, offset })
}

/// Dynamic disks of Windows (kernel, block/partitions/ldm.c): the group's name begins with the computer's,
/// `WEB7-Dg0`.
fn ldm(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const GROUP_NAME_AT: usize = 0xf0;
    let size = view.size_bytes();
    // In a partition of its own: the first of its blocks by the table, copies in the last ones.
    let places = [Some(LDM_CLASSIC_AT), Some(0), size.checked_sub(512), size.checked_sub(256 * 512)];
    let is_head = |at: &u64| view.at(*at, 8).is_some_and(|head| head == b"PRIVHEAD");
    let offset = places.into_iter().flatten().find(is_head)?;
    let head = view.at(offset, 512)?;
    let name = text(head.get(GROUP_NAME_AT..GROUP_NAME_AT + 32)?);
    let owner = match name.rsplit_once("-Dg") {
        Some((host, _)) if !host.is_empty() => ContentOwner::Host(host.to_owned()),
        Some(_) | None => ContentOwner::Unnamed,
    };
    Some(RecognisedLabel { kind: ContentKind::Ldm, name, owner, offset })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{disk, look, remarks};

    const SIZE: usize = 1 << 20;

    #[test]
    fn each_is_found_at_its_place_and_remarked_on() {
        let ddf: &[u8] = &[0xde, 0x11, 0xde, 0x11];
        for (at, bytes, shown) in [
            (SIZE - 1024, &b"Intel Raid ISM Cfg Sig. 1.3.00"[..], "Intel RAID (IMSM)"),
            (SIZE - 512, ddf, "DDF RAID"),
            (SIZE - 257 * 512, ddf, "DDF RAID"),
            (6 * 512, b"PRIVHEAD", "LDM (dynamic disk of Windows)"),
        ] {
            let disk = disk(SIZE, &[(at, bytes)]);
            assert_eq!(look(&disk)[0].to_string(), shown);
            assert_eq!(remarks(&disk).len(), 1, "{shown}");
        }
    }

    #[test]
    fn a_dynamic_disk_names_its_computer() {
        let disk = disk(SIZE, &[(SIZE - 512, b"PRIVHEAD"), (SIZE - 512 + 0xf0, b"WEB7-Dg0")]);
        assert_eq!(look(&disk)[0].to_string(), "LDM (dynamic disk of Windows) \"WEB7-Dg0\" of host \"WEB7\"");
    }
}
