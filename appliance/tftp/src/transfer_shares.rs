//! Which transfers may run beside each other. Pure.
//!
//! A quarter of all is kept for known hosts, and each of these has few of it, however many addresses are said to be its own.
//! All clients share the rest. When all that a request may have is taken, the transfer gives up its place whose client
//! has not answered for the longest time: nothing shows that there is a client, since any machine can write any
//! address into a request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// How many transfers there may be, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferShares {
    pub(crate) total: usize,
    /// The places of one address, besides those that are kept for a host there.
    pub(crate) per_client: usize,
    /// The places of one known host, in the part that is kept.
    pub(crate) per_host: usize,
}

impl TransferShares {
    /// The places for known hosts alone: a quarter.
    pub(crate) const fn kept(self) -> usize {
        self.total / 4
    }

    /// The places that all clients share.
    const fn common(self) -> usize {
        self.total - self.kept()
    }
}

/// The part that a transfer has its place from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransferPart {
    Common,
    /// What is kept, for this host.
    Kept(Arc<str>),
}

/// One transfer that runs.
pub(crate) struct RunningTransfer<'a, K> {
    pub(crate) key: K,
    pub(crate) client: IpAddr,
    pub(crate) part: &'a TransferPart,
    pub(crate) started: Instant,
    /// Its client has answered.
    pub(crate) is_confirmed: bool,
}

/// A place, and the transfer that has to go for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GrantedTransfer<K> {
    pub(crate) part: TransferPart,
    pub(crate) instead_of: Option<K>,
}

/// Finds a place for a client at which these hosts are known.
pub(crate) fn find<'a, K: Copy>(
    shares: TransferShares,
    client: IpAddr,
    hosts: &[Arc<str>],
    running: impl Iterator<Item = RunningTransfer<'a, K>> + Clone,
) -> Option<GrantedTransfer<K>> {
    let in_common = || running.clone().filter(|transfer| *transfer.part == TransferPart::Common);
    let in_kept = || running.clone().filter(|transfer| *transfer.part != TransferPart::Common);
    let may_have_common = in_common().filter(|transfer| transfer.client == client).count() < shares.per_client;
    let kept_for = |host: &Arc<str>| TransferPart::Kept(Arc::clone(host));
    let has_share = |host: &&Arc<str>| {
        let part = kept_for(host);
        in_kept().filter(|transfer| *transfer.part == part).count() < shares.per_host
    };
    let host = hosts.iter().find(has_share);
    if may_have_common && in_common().count() < shares.common() {
        return Some(GrantedTransfer { part: TransferPart::Common, instead_of: None });
    }
    if let Some(host) = host.filter(|_| in_kept().count() < shares.kept()) {
        return Some(GrantedTransfer { part: kept_for(host), instead_of: None });
    }
    let open = running.clone().filter(|transfer| match transfer.part {
        TransferPart::Common => may_have_common,
        TransferPart::Kept(_) => host.is_some(),
    });
    let oldest = open.filter(|transfer| !transfer.is_confirmed).min_by_key(|transfer| transfer.started)?;
    let part = match (oldest.part, host) {
        (TransferPart::Kept(_), Some(host)) => kept_for(host),
        (TransferPart::Kept(_) | TransferPart::Common, _) => TransferPart::Common,
    };
    Some(GrantedTransfer { part, instead_of: Some(oldest.key) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SHARES: TransferShares = TransferShares { total: 16, per_client: 3, per_host: 2 };

    /// Transfers by the order in which they began.
    #[derive(Default)]
    struct Table {
        transfers: Vec<(u8, TransferPart, bool)>,
    }

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn host(number: u8) -> Arc<str> {
        Arc::from(number.to_string())
    }

    impl Table {
        fn find(&self, client: u8, hosts: &[u8]) -> Option<GrantedTransfer<usize>> {
            let began = Instant::now();
            let running =
                self.transfers.iter().enumerate().map(|(key, (client, part, is_confirmed))| RunningTransfer {
                    key,
                    client: address(*client),
                    part,
                    started: began + Duration::from_secs(key as u64),
                    is_confirmed: *is_confirmed,
                });
            let hosts: Vec<_> = hosts.iter().map(|number| host(*number)).collect();
            find(SHARES, address(client), &hosts, running)
        }

        /// Begins all that the client can have without another one's end.
        fn take_all(&mut self, client: u8, hosts: &[u8], is_confirmed: bool) -> usize {
            let before = self.transfers.len();
            while let Some(GrantedTransfer { part, instead_of: None }) = self.find(client, hosts) {
                self.transfers.push((client, part, is_confirmed));
            }
            self.transfers.len() - before
        }
    }

    /// 512 requests with a long timeout refused everybody for two minutes.
    #[test]
    fn strangers_leave_a_quarter_to_known_hosts_and_each_host_has_few_of_it() {
        let mut table = Table::default();
        let taken: Vec<usize> = (1..=6).map(|client| table.take_all(client, &[], true)).collect();
        assert_eq!(taken, [3, 3, 3, 3, 0, 0]);
        assert_eq!(table.find(7, &[]), None);
        assert_eq!(
            (table.take_all(100, &[1], true), table.take_all(101, &[1], true)),
            (2, 0),
            "one host, two addresses"
        );
        assert_eq!(table.take_all(102, &[2, 3], true), 2, "there are four in all");
        assert_eq!(table.find(103, &[4]), None, "each of them has answered");
    }

    #[test]
    fn who_has_not_answered_for_longest_makes_room() {
        let mut table = Table::default();
        for client in 1..=4 {
            table.take_all(client, &[], client == 1);
        }
        assert_eq!(table.find(5, &[]), Some(GrantedTransfer { part: TransferPart::Common, instead_of: Some(3) }));
        assert_eq!(table.find(4, &[]), None, "this address has what one may have");
        // In the part that is kept it is the same.
        for (client, _, is_confirmed) in &mut table.transfers {
            *is_confirmed = *client != 9;
        }
        table.take_all(9, &[1], false);
        table.take_all(8, &[2], true);
        let place = GrantedTransfer { part: TransferPart::Kept(host(3)), instead_of: Some(12) };
        assert_eq!(table.find(10, &[3]), Some(place));
        assert_eq!(table.find(10, &[]), None, "not for a stranger");
        assert_eq!(table.find(8, &[2]), None, "nor for a host that has its share");
    }
}
