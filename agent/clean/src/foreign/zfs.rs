//! Members of ZFS pools (openzfs, `vdev_label_t`): four labels of 256 KiB, two at each end, each with a list
//! of names and values in XDR behind its first 16 KiB.

use super::{ContentKind, ContentOwner, VolumeView, be32, label::RecognisedLabel, text};

const LABEL_BYTES: u64 = 256 << 10;
const LIST_AT: u64 = 16 << 10;
const LIST_BYTES: usize = 112 << 10;
/// Names in one list; a pool's has about twenty.
const PAIRS_MAX: usize = 256;
/// Where uberblocks start in a label, and their magic.
const UBERBLOCKS_AT: u64 = 128 << 10;
const UBERBLOCKS_BYTES: usize = 128 << 10;
const UBERBLOCK_BYTES: usize = 1024;
const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;
const STRING: u32 = 9;

pub(super) fn find(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    let aligned = view.size_bytes() / LABEL_BYTES * LABEL_BYTES;
    let ends = [2, 1].into_iter().filter_map(|count| aligned.checked_sub(count * LABEL_BYTES));
    let labels: Vec<u64> = [0, LABEL_BYTES].into_iter().chain(ends).collect();
    // A label that names its pool says more than one of which only the uberblocks are left.
    labels.iter().find_map(|label| named(view, *label)).or_else(|| labels.iter().find_map(|label| bare(view, *label)))
}

fn named(view: &VolumeView<'_>, label: u64) -> Option<RecognisedLabel> {
    let list = view.at(label.checked_add(LIST_AT)?, LIST_BYTES)?;
    let pairs = strings(&list)?;
    let said = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let owner = said("hostname").filter(|host| !host.is_empty()).map_or(ContentOwner::Unnamed, ContentOwner::Host);
    Some(RecognisedLabel { kind: ContentKind::Zfs, name: said("name")?, owner, offset: label })
}

fn bare(view: &VolumeView<'_>, label: u64) -> Option<RecognisedLabel> {
    let blocks = view.at(label.checked_add(UBERBLOCKS_AT)?, UBERBLOCKS_BYTES)?;
    let magics = [UBERBLOCK_MAGIC.to_le_bytes(), UBERBLOCK_MAGIC.to_be_bytes()];
    let is_marked = blocks.chunks(UBERBLOCK_BYTES).any(|block| magics.iter().any(|magic| block.starts_with(magic)));
    is_marked.then(|| RecognisedLabel {
        kind: ContentKind::Zfs,
        name: String::new(),
        owner: ContentOwner::Unnamed,
        offset: label,
    })
}

/// The texts of an XDR list (openzfs, module/nvpair/nvpair.c): encoding and byte order in four bytes,
/// version and flags; then pairs, each with its encoded size first, ended by a size of zero.
fn strings(list: &[u8]) -> Option<Vec<(String, String)>> {
    if list.first() != Some(&1) {
        return None;
    }
    let mut rest = list.get(12..)?;
    let mut found = Vec::new();
    for _ in 0..PAIRS_MAX {
        let size = usize::try_from(be32(rest, 0)?).ok()?;
        if size == 0 {
            return Some(found);
        }
        let (pair, after) = rest.split_at_checked(size)?;
        if let Some(pair) = string(pair) {
            found.push(pair);
        }
        rest = after;
    }
    None
}

/// A pair that holds one text: sizes, name, type, number of elements, text.
fn string(pair: &[u8]) -> Option<(String, String)> {
    let mut rest = pair.get(8..)?;
    let name = xdr_text(&mut rest)?;
    if (be32(rest, 0)?, be32(rest, 4)?) != (STRING, 1) {
        return None;
    }
    rest = rest.get(8..)?;
    Some((text(name), text(xdr_text(&mut rest)?)))
}

/// Length, bytes, and zeros up to a multiple of four.
fn xdr_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(be32(rest, 0)?).ok()?;
    let end = 4_usize.checked_add(length)?;
    let taken = rest.get(4..end)?;
    *rest = rest.get(end.checked_next_multiple_of(4)?..)?;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{disk, look};
    use super::*;

    const SIZE: usize = 4 << 20;

    fn xdr(text: &str) -> Vec<u8> {
        let mut bytes = u32::try_from(text.len()).unwrap_or(0).to_be_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn pair(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
        let body = [xdr(name), kind.to_be_bytes().to_vec(), 1_u32.to_be_bytes().to_vec(), value.to_vec()].concat();
        let size = u32::try_from(body.len() + 8).unwrap_or(0).to_be_bytes();
        [&size[..], &size, &body].concat()
    }

    fn list() -> Vec<u8> {
        [
            vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            pair("version", 8, &5000_u64.to_be_bytes()),
            pair("name", STRING, &xdr("tank")),
            pair("hostid", 8, &7_u64.to_be_bytes()),
            pair("hostname", STRING, &xdr("nas-1")),
            vec![0; 8],
        ]
        .concat()
    }

    #[test]
    fn any_of_the_four_labels_names_the_pool_and_its_host() {
        for label in [0, 256 << 10, SIZE - (512 << 10), SIZE - (256 << 10)] {
            let found = look(&disk(SIZE, &[(label + (16 << 10), &list())]));
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].to_string(), "ZFS \"tank\" of host \"nas-1\"");
            assert_eq!(found[0].offset, label as u64);
        }
    }

    #[test]
    fn uberblocks_alone_are_enough() {
        for magic in [UBERBLOCK_MAGIC.to_le_bytes(), UBERBLOCK_MAGIC.to_be_bytes()] {
            let found = look(&disk(SIZE, &[((128 << 10) + 7 * 1024, &magic)]));
            assert_eq!(found[0].to_string(), "ZFS");
        }
    }

    #[test]
    fn a_list_that_lies_about_lengths_names_nothing() {
        let mut list = list();
        list[12] = 0xff;
        assert_eq!(look(&disk(SIZE, &[(16 << 10, &list)])), []);
    }
}
