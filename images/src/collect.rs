//! What goes when room is short (issue 6, S1-11; acceptance of the catalogue's quota). Pure: digests and numbers in,
//! removals and a reason out; `import::ImageStore::collect` performs it.
//!
//! What an object, a plan or a host's state refers to never goes, nor what is open. Of the rest the downloads that
//! never ended go first, then what was used longest ago, and only as much as is needed: an image that is there already
//! saves a download.

use std::collections::HashSet;

use firesteel_facts::Sha256;

/// Something in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreItem {
    /// A download, by the digest of what it must become.
    Partial(Sha256),
    /// A boot file, by its digest.
    File(Sha256),
    /// An image, by the digest of its raw bytes.
    Image(Sha256),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectableItem {
    pub item: StoreItem,
    /// Digests by which it is referred to.
    pub names: Vec<Sha256>,
    pub bytes: u64,
    /// Seconds since 1970.
    pub used_at_s: u64,
}

/// How much room there must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomRequest {
    /// The most that the store may hold.
    pub quota_bytes: Option<u64>,
    /// What is about to come in.
    pub coming_bytes: u64,
    /// What the filesystem has left.
    pub free_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    pub item: StoreItem,
    pub bytes: u64,
}

/// Room that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub missing_bytes: u64,
    /// The text for people: what is short, why nothing more goes, what to do.
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectionPlan {
    /// The removals, in order.
    pub removals: Vec<Removal>,
    pub shortfall: Option<Shortfall>,
}

/// Decides what goes. `open`: what is open although nothing refers to it.
#[must_use]
pub fn plan(
    stored: &[CollectableItem],
    referenced: &HashSet<Sha256>,
    open: &[StoreItem],
    need: RoomRequest,
) -> CollectionPlan {
    let total = stored.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
    let over_quota = need.quota_bytes.map_or(0, |quota| total.saturating_add(need.coming_bytes).saturating_sub(quota));
    let over_disk = need.coming_bytes.saturating_sub(need.free_bytes);
    let needed = over_quota.max(over_disk);
    let is_kept = |one: &&CollectableItem| one.names.iter().any(|name| referenced.contains(name));
    let mut free: Vec<&CollectableItem> =
        stored.iter().filter(|one| !is_kept(one) && !open.contains(&one.item)).collect();
    let rank = |one: &CollectableItem| !matches!(one.item, StoreItem::Partial(_));
    free.sort_by_key(|one| (rank(one), one.used_at_s, one.item));
    let (mut removals, mut made) = (Vec::new(), 0_u64);
    for one in free {
        if made >= needed {
            break;
        }
        made = made.saturating_add(one.bytes);
        removals.push(Removal { item: one.item, bytes: one.bytes });
    }
    let missing_bytes = needed.saturating_sub(made);
    let shortfall = (missing_bytes > 0).then(|| {
        let kept: Vec<&CollectableItem> = stored.iter().filter(is_kept).collect();
        let kept_bytes = kept.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
        let reason = reason(need, over_quota >= over_disk, missing_bytes, kept.len(), kept_bytes, open.len());
        Shortfall { missing_bytes, reason }
    });
    CollectionPlan { removals, shortfall }
}

fn reason(need: RoomRequest, is_quota: bool, missing: u64, kept: usize, kept_bytes: u64, open: usize) -> String {
    let limit = match need.quota_bytes {
        Some(quota) if is_quota => format!("the image store's quota of {}", mib(quota)),
        Some(_) | None => format!("the filesystem of the image store, which has {} left", mib(need.free_bytes)),
    };
    let coming = if need.coming_bytes == 0 { String::new() } else { format!(" for {} more", mib(need.coming_bytes)) };
    let opened = if open == 0 { String::new() } else { format!(", {open} are being read") };
    let todo = if is_quota { "raise the quota" } else { "give the store a larger filesystem" };
    format!(
        "{} are missing in {limit}{coming}: {kept} images and files with {} are in use{opened}, and nothing else is left \
         to remove; {todo}, or remove what refers to images that are not needed",
        mib(missing),
        mib(kept_bytes),
    )
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn digest(name: u8) -> Sha256 {
        Sha256::of(&[name])
    }

    fn image(name: u8, mib: u64, used_at_s: u64) -> CollectableItem {
        CollectableItem { item: StoreItem::Image(digest(name)), names: vec![digest(name)], bytes: mib * MIB, used_at_s }
    }

    fn quota(mib: u64) -> RoomRequest {
        RoomRequest { quota_bytes: Some(mib * MIB), coming_bytes: 0, free_bytes: u64::MAX }
    }

    fn gone(plan: &CollectionPlan) -> Vec<StoreItem> {
        plan.removals.iter().map(|removal| removal.item).collect()
    }

    #[test]
    fn the_longest_unused_goes_first_and_no_more_than_needed() {
        let stored = [image(1, 100, 50), image(2, 100, 10), image(3, 100, 30), image(4, 100, 1)];
        let used = HashSet::from([digest(4)]);
        let none = plan(&stored, &used, &[], quota(400));
        assert_eq!(none, CollectionPlan::default());
        let one = plan(&stored, &used, &[], quota(399));
        assert_eq!(gone(&one), [StoreItem::Image(digest(2))]);
        let two = plan(&stored, &used, &[], quota(299));
        assert_eq!(gone(&two), [StoreItem::Image(digest(2)), StoreItem::Image(digest(3))]);
        assert_eq!(two.shortfall, None);
        let coming = RoomRequest { coming_bytes: 50 * MIB, ..quota(400) };
        assert_eq!(gone(&plan(&stored, &used, &[], coming)), [StoreItem::Image(digest(2))]);
        let full = RoomRequest { quota_bytes: None, coming_bytes: 150 * MIB, free_bytes: 20 * MIB };
        assert_eq!(gone(&plan(&stored, &used, &[], full)).len(), 2);
    }

    #[test]
    fn downloads_that_never_ended_go_before_images() {
        let partial =
            |name, used_at_s| CollectableItem { item: StoreItem::Partial(digest(name)), ..image(name, 10, used_at_s) };
        let stored = [image(1, 10, 1), partial(2, 99), partial(3, 98)];
        let found = plan(&stored, &HashSet::from([digest(3)]), &[], quota(20));
        assert_eq!(gone(&found), [StoreItem::Partial(digest(2))]);
    }

    #[test]
    fn what_is_in_use_stays_and_the_shortfall_says_why() {
        let stored = [image(1, 100, 1), image(2, 100, 2), image(3, 7, 3)];
        let used = HashSet::from([digest(1)]);
        let found = plan(&stored, &used, &[StoreItem::Image(digest(2))], quota(50));
        assert_eq!(gone(&found), [StoreItem::Image(digest(3))]);
        let shortfall = found.shortfall.as_ref();
        assert_eq!(shortfall.map(|short| short.missing_bytes), Some(150 * MIB));
        let reason = shortfall.map(|short| short.reason.clone()).unwrap_or_default();
        for part in ["150 MiB are missing", "quota of 50 MiB", "1 images and files with 100 MiB", "1 are being read"] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }

    proptest! {
        #[test]
        fn nothing_in_use_goes_and_the_sum_is_right(
            sizes in prop::collection::vec((0_u64..1000, 0_u64..100, any::<bool>(), any::<bool>()), 0..30),
            quota in prop::option::of(0_u64..20_000),
            coming in 0_u64..5000,
            free in 0_u64..5000,
        ) {
            let mut stored = Vec::new();
            let (mut used, mut open) = (HashSet::new(), Vec::new());
            for (name, (bytes, used_at_s, is_used, is_open)) in (0_u8..).zip(sizes) {
                let one = CollectableItem { bytes, ..image(name, 0, used_at_s) };
                if is_used { used.insert(digest(name)); }
                if is_open { open.push(one.item); }
                stored.push(one);
            }
            let need = RoomRequest { quota_bytes: quota, coming_bytes: coming, free_bytes: free };
            let found = plan(&stored, &used, &open, need);
            let mut made = 0;
            for removal in &found.removals {
                let one = stored.iter().find(|one| one.item == removal.item);
                prop_assert!(one.is_some_and(|one| !used.contains(&one.names[0]) && !open.contains(&one.item)));
                made += removal.bytes;
            }
            let total: u64 = stored.iter().map(|one| one.bytes).sum();
            let fits = quota.is_none_or(|quota| total - made + coming <= quota) && free + made >= coming;
            prop_assert_eq!(fits, found.shortfall.is_none());
        }
    }
}
