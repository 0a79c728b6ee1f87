//! Which member of an array holds a byte of it: the layouts of md and of LVM's raid volumes (kernel,
//! drivers/md/raid0.c, raid5.c `raid5_compute_sector`, raid10.c `__raid10_find_phys`). Pure.

/// An array whose chunks lie on its members, of whatever kind, in turn.
#[derive(Debug)]
pub(super) struct Stripes<M> {
    pub(super) level: RaidLevel,
    pub(super) chunk_bytes: u64,
    /// The members in the order of their roles; a missing one is `None`.
    pub(super) members: Vec<Option<M>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RaidLevel {
    Raid0,
    /// The last member holds the parity.
    Raid4,
    /// RAID 5 with the number of md's layout.
    Raid5(u32),
    Raid6(u32),
    /// How many copies lie beside each other.
    Raid10(u64),
}

impl RaidLevel {
    /// Reads the level and the layout of md's superblock. `None` for a level whose data lies in one piece on a member,
    /// or that is not known.
    pub(super) fn of_md(level: i32, layout: u32) -> Option<Self> {
        match level {
            0 => Some(Self::Raid0),
            4 => Some(Self::Raid4),
            5 => Some(Self::Raid5(layout)),
            6 => Some(Self::Raid6(layout)),
            10 => Some(Self::Raid10(u64::from(layout & 0xff).max(1))),
            _ => None,
        }
    }

    /// Members whose chunks hold data in one stripe.
    fn data_members(self, members: u64) -> Option<u64> {
        let count = match self {
            Self::Raid0 | Self::Raid10(_) => members,
            Self::Raid4 | Self::Raid5(_) => members.checked_sub(1)?,
            Self::Raid6(_) => members.checked_sub(2)?,
        };
        (count > 0).then_some(count)
    }

    /// Size of an array whose members have these sizes.
    pub(super) fn size_bytes(self, members: &[u64], chunk_bytes: u64) -> u64 {
        let whole = |bytes: u64| bytes.checked_div(chunk_bytes).map_or(0, |chunks| chunks * chunk_bytes);
        let least = members.iter().copied().map(whole).min().unwrap_or(0);
        let count = members.len() as u64;
        match self {
            Self::Raid0 => members.iter().copied().map(whole).fold(0, u64::saturating_add),
            Self::Raid10(near) => least.saturating_mul(count) / near.max(1),
            Self::Raid4 | Self::Raid5(_) | Self::Raid6(_) => {
                least.saturating_mul(self.data_members(count).unwrap_or(0))
            }
        }
    }

    /// Member and stripe of a chunk.
    fn place(self, chunk: u64, members: u64) -> Option<(u64, u64)> {
        let data = self.data_members(members)?;
        if let Self::Raid10(near) = self {
            let copy = chunk.checked_mul(near)?;
            return Some((copy % members, copy / members));
        }
        let (stripe, index) = (chunk / data, chunk % data);
        // Left layouts begin with the parity on the last member, right ones on the first.
        let turn = |is_left: bool| if is_left { members - 1 - stripe % members } else { stripe % members };
        let member = match self {
            Self::Raid0 | Self::Raid4 | Self::Raid10(_) => index,
            Self::Raid5(layout @ (0 | 1)) => {
                let parity = turn(layout == 0);
                if index >= parity { index + 1 } else { index }
            }
            Self::Raid5(layout @ (2 | 3)) => (turn(layout == 2) + 1 + index) % members,
            // Parity first, or last.
            Self::Raid5(4) => index + 1,
            Self::Raid5(_) => index,
            Self::Raid6(layout @ (0 | 1)) => {
                let parity = turn(layout == 0);
                if parity == members - 1 {
                    index + 1
                } else if index >= parity {
                    index + 2
                } else {
                    index
                }
            }
            Self::Raid6(layout @ (2 | 3)) => (turn(layout == 2) + 2 + index) % members,
            Self::Raid6(4) => index + 2,
            Self::Raid6(_) => index,
        };
        Some((member, stripe))
    }
}

impl<M> Stripes<M> {
    /// The member that holds this byte, the offset in it, and how many bytes follow there.
    pub(super) fn locate(&self, at: u64) -> Option<(&M, u64, u64)> {
        let chunk = at.checked_div(self.chunk_bytes)?;
        let inside = at % self.chunk_bytes;
        let (member, stripe) = self.level.place(chunk, self.members.len() as u64)?;
        let member = self.members.get(usize::try_from(member).ok()?)?.as_ref()?;
        Some((member, stripe.checked_mul(self.chunk_bytes)?.checked_add(inside)?, self.chunk_bytes - inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(level: RaidLevel, count: u64, chunks: u64) -> Vec<(u64, u64)> {
        (0..chunks).filter_map(|chunk| level.place(chunk, count)).collect()
    }

    #[test]
    fn chunks_lie_where_md_puts_them() {
        assert_eq!(members(RaidLevel::Raid0, 2, 4), [(0, 0), (1, 0), (0, 1), (1, 1)]);
        assert_eq!(members(RaidLevel::Raid4, 3, 4), [(0, 0), (1, 0), (0, 1), (1, 1)]);
        // Left-symmetric, mdadm's own choice: the parity is on 2, 1, 0, and data begins behind it.
        assert_eq!(members(RaidLevel::Raid5(2), 3, 6), [(0, 0), (1, 0), (2, 1), (0, 1), (1, 2), (2, 2)]);
        assert_eq!(members(RaidLevel::Raid5(0), 3, 4), [(0, 0), (1, 0), (0, 1), (2, 1)]);
        assert_eq!(members(RaidLevel::Raid5(1), 3, 4), [(1, 0), (2, 0), (0, 1), (2, 1)]);
        assert_eq!(members(RaidLevel::Raid6(2), 4, 4), [(1, 0), (2, 0), (0, 1), (1, 1)]);
        assert_eq!(members(RaidLevel::Raid10(2), 4, 4), [(0, 0), (2, 0), (0, 1), (2, 1)]);
        assert_eq!(members(RaidLevel::Raid10(2), 3, 3), [(0, 0), (2, 0), (1, 1)]);
    }

    #[test]
    fn an_array_is_as_large_as_its_data() {
        assert_eq!(RaidLevel::Raid0.size_bytes(&[100, 205], 10), 300);
        assert_eq!(RaidLevel::Raid5(2).size_bytes(&[105, 200, 200], 10), 200);
        assert_eq!(RaidLevel::Raid6(2).size_bytes(&[100; 4], 10), 200);
        assert_eq!(RaidLevel::Raid10(2).size_bytes(&[100; 4], 10), 200);
        assert_eq!(RaidLevel::Raid0.size_bytes(&[100], 0), 0);
    }

    #[test]
    fn too_few_members_hold_nothing() {
        assert_eq!(members(RaidLevel::Raid5(2), 1, 2), []);
        assert_eq!(members(RaidLevel::Raid6(2), 2, 2), []);
        assert_eq!(members(RaidLevel::Raid0, 0, 2), []);
    }
}
