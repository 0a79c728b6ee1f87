//! Logins that BMCs refused, by account: several hosts may share one, on a chassis or behind one emulator.
//!
//! The planner decides for each host by what was refused; what it cannot see is that others try at the same
//! moment. So a login that is not known to be good takes a leave here first: those under way count as refused until
//! they have ended, and who would be one too many waits for them. What was refused before a restart is in the memory
//! of the host that was refused: after one, no login is tried before all hosts were looked at.

use std::collections::{HashMap, HashSet};

use firesteel_bmc::BmcAddress;
use firesteel_plan::host::HostTimeouts;
use firesteel_runtime::HostKey;
use jiff::{SignedDuration, Timestamp};

/// How long a refusal is kept: no BMC counts longer.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// Refusals kept of one account: a host alone makes no more in an hour, and beyond it no login is tried anyway.
const OF_ACCOUNT_MAX: usize = 64;
/// Accounts of which good credentials are remembered; beyond it all are forgotten, and the next logins take leaves.
const GOOD_MAX: usize = 10_000;
/// The time between two looks whether those before have ended.
pub(crate) const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// Who an appliance is for a BMC: where it is, and the user name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BmcAccount {
    place: String,
    user: String,
}

impl BmcAccount {
    /// `address` as in `spec.bmc.address`; its path names one system of the BMC. One that is no address
    /// is a place of its own: no login is tried there.
    pub(crate) fn new(address: &str, user: &str) -> Self {
        let place = BmcAddress::parse(address).map_or_else(|_| address.to_owned(), |address| address.place());
        Self { place, user: user.to_owned() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Logins {
    /// When each account was refused, and by which host's own work, if by one.
    refused: HashMap<BmcAccount, Vec<(Option<HostKey>, Timestamp)>>,
    /// Logins under way that are not known to be good.
    under_way: HashMap<BmcAccount, usize>,
    /// The credentials that a BMC took last: a Secret and its version.
    good: HashMap<BmcAccount, String>,
    /// Hosts whose memory was asked for what was refused before this process.
    recalled: HashSet<HostKey>,
}

/// Whether a login may be tried now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginPermission {
    /// They are known to be good.
    Free,
    /// Is counted until [`Logins::end`].
    Counted,
    /// Others are trying; with these it could be one too many.
    Wait,
    HeldBack(Timestamp),
}

impl Logins {
    pub(crate) fn refused(&mut self, account: BmcAccount, host: &HostKey, at: Timestamp) {
        self.count_refused(account, Some(host.clone()), at);
    }

    /// A login was refused that no host's work needed: it counts for all of them.
    pub(crate) fn refused_beside(&mut self, account: BmcAccount, at: Timestamp) {
        self.count_refused(account, None, at);
    }

    fn count_refused(&mut self, account: BmcAccount, by: Option<HostKey>, at: Timestamp) {
        let is_kept = |old: &Timestamp| at.duration_since(*old) < KEPT;
        self.good.remove(&account);
        self.refused.retain(|_, all| {
            all.retain(|(_, old)| is_kept(old));
            !all.is_empty()
        });
        let all = self.refused.entry(account).or_default();
        if all.len() < OF_ACCOUNT_MAX {
            all.push((by, at));
        }
    }

    /// What a host remembers of logins that were refused before this process; the first time alone, because what was
    /// refused since is known here, and also what was taken since.
    pub(crate) fn recall(&mut self, account: &BmcAccount, host: &HostKey, before: &[Timestamp]) {
        if self.recalled.insert(host.clone()) {
            before.iter().for_each(|at| self.refused(account.clone(), host, *at));
        }
    }

    /// The host is gone: one of its name has another memory.
    pub(crate) fn forget_host(&mut self, host: &HostKey) {
        self.recalled.remove(host);
    }

    /// The BMC took a login: it counts from nought again.
    pub(crate) fn accepted(&mut self, account: &BmcAccount, credentials: &str) {
        self.refused.remove(account);
        if self.good.len() >= GOOD_MAX {
            self.good.clear();
        }
        self.good.insert(account.clone(), credentials.to_owned());
    }

    /// Whether the BMC took these credentials when it was last asked.
    pub(crate) fn is_good(&self, account: &BmcAccount, credentials: &str) -> bool {
        self.good.get(account).is_some_and(|good| good == credentials)
    }

    pub(crate) fn begin(
        &mut self,
        account: &BmcAccount,
        credentials: &str,
        limits: &HostTimeouts,
        now: Timestamp,
    ) -> LoginPermission {
        if self.is_good(account, credentials) {
            return LoginPermission::Free;
        }
        let until = |at: Timestamp| at.checked_add(limits.login_window).unwrap_or(Timestamp::MAX);
        let all = self.refused.get(account).map(Vec::as_slice).unwrap_or_default();
        let mut refused: Vec<Timestamp> = all.iter().map(|(_, at)| until(*at)).filter(|until| *until > now).collect();
        refused.sort_unstable();
        let most = limits.logins_refused_max.max(1);
        if let Some(until) = refused.len().checked_sub(most).and_then(|place| refused.get(place)) {
            return LoginPermission::HeldBack(*until);
        }
        let under_way = self.under_way.get(account).copied().unwrap_or_default();
        if refused.len() + under_way >= most {
            return LoginPermission::Wait;
        }
        self.under_way.insert(account.clone(), under_way + 1);
        LoginPermission::Counted
    }

    pub(crate) fn end(&mut self, account: &BmcAccount) {
        if let Some(count) = self.under_way.get_mut(account) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(account);
            }
        }
    }

    /// Refusals that other hosts met; a host remembers its own.
    pub(crate) fn elsewhere(&self, account: &BmcAccount, host: &HostKey) -> Vec<Timestamp> {
        let all = self.refused.get(account).map(Vec::as_slice).unwrap_or_default();
        all.iter().filter(|(other, _)| other.as_ref() != Some(host)).map(|(_, at)| *at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_shared_by_the_systems_of_a_bmc() {
        let key = |name: &str| HostKey { namespace: "default".to_owned(), name: name.to_owned() };
        let at = |second| Timestamp::from_second(second).expect("in range");
        let mut logins = Logins::default();
        let one = BmcAccount::new("redfish://BMC.example:8000/redfish/v1/Systems/1", "admin");
        let two = BmcAccount::new("redfish+http://bmc.example:8000/redfish/v1/Systems/2", "admin");
        assert_eq!(one, two);
        assert_ne!(one, BmcAccount::new("redfish://bmc.example:8000/redfish/v1/Systems/1", "root"));
        logins.refused(one.clone(), &key("a"), at(1));
        assert_eq!((logins.elsewhere(&two, &key("b")), logins.elsewhere(&two, &key("a"))), (vec![at(1)], vec![]));
        logins.refused(two.clone(), &key("b"), at(3601));
        assert_eq!(logins.elsewhere(&two, &key("c")), [at(3601)], "an hour later");
        logins.accepted(&one, "default/s@1");
        assert_eq!(logins.elsewhere(&two, &key("c")), []);
        assert!(logins.is_good(&two, "default/s@1") && !logins.is_good(&two, "default/s@2"));
        logins.refused_beside(one, at(3700));
        assert_eq!(logins.elsewhere(&two, &key("a")), [at(3700)], "a console's counts for all");
        assert!(!logins.is_good(&two, "default/s@1"), "and is not tried again");
    }

    /// `:443` spelled out was another account, and so was one with other letters in its name.
    #[test]
    fn an_account_is_where_its_bmc_is_however_that_is_written() {
        let same = [
            ["redfish://bmc.example/redfish/v1/Systems/1", "redfish+https://BMC.example:443/redfish/v1/Systems/2"],
            ["redfish+http://192.0.2.5/redfish/v1/Systems/1", "idrac-redfish+http://192.0.2.5:80"],
            ["redfish://[2001:db8::1]", "redfish://[2001:DB8:0::1]:443/redfish/v1/Systems/1"],
            ["ipmi://192.0.2.5", "192.0.2.5:623"],
            ["ipmi://BMC.example", "ipmi://bmc.example:623?privilegelevel=OPERATOR"],
        ];
        for [one, other] in same {
            assert_eq!(BmcAccount::new(one, "a"), BmcAccount::new(other, "a"), "{one} {other}");
        }
        assert_ne!(BmcAccount::new("redfish://bmc.example", "a"), BmcAccount::new("redfish://bmc.example:8443", "a"));
        assert_ne!(BmcAccount::new("redfish://bmc.example", "a"), BmcAccount::new("redfish+http://bmc.example", "a"));
    }

    /// A restart forgot what the other hosts of the account had met, and locked it.
    #[test]
    fn what_was_refused_before_a_restart_is_recalled_once() {
        let key = |name: &str| HostKey { namespace: "default".to_owned(), name: name.to_owned() };
        let at = |second| Timestamp::from_second(second).expect("in range");
        let account = BmcAccount::new("redfish://bmc.example", "admin");
        let (limits, mut logins) = (HostTimeouts::default(), Logins::default());
        logins.recall(&account, &key("a"), &[at(1), at(2)]);
        logins.recall(&account, &key("b"), &[at(3), at(4)]);
        assert_eq!(logins.elsewhere(&account, &key("c")).len(), 4);
        assert!(matches!(logins.begin(&account, "default/s@1", &limits, at(5)), LoginPermission::HeldBack(_)));
        logins.recall(&account, &key("a"), &[at(1), at(2)]);
        assert_eq!(logins.elsewhere(&account, &key("c")).len(), 4, "once");
        logins.accepted(&account, "default/s@1");
        logins.recall(&account, &key("a"), &[at(1), at(2)]);
        assert_eq!(logins.elsewhere(&account, &key("c")), [], "the BMC counts from nought");
        logins.forget_host(&key("a"));
        logins.recall(&account, &key("a"), &[at(9)]);
        assert_eq!(logins.elsewhere(&account, &key("c")), [at(9)]);
    }

    /// However many hosts try at once and in whatever order their tries end: no window has five refusals.
    #[test]
    fn logins_under_way_count_until_they_have_ended() {
        let key = |name: usize| HostKey { namespace: "default".to_owned(), name: name.to_string() };
        let at = |second| Timestamp::from_second(second).expect("in range");
        let account = BmcAccount::new("redfish://bmc.example", "admin");
        let limits = HostTimeouts::default();
        let mut logins = Logins::default();
        let begin = |logins: &mut Logins, second| logins.begin(&account, "default/s@1", &limits, at(second));
        for _ in 0..4 {
            assert_eq!(begin(&mut logins, 0), LoginPermission::Counted);
        }
        assert_eq!(begin(&mut logins, 0), LoginPermission::Wait, "all four may be refused");
        for host in 0..4 {
            assert_eq!(begin(&mut logins, 1), LoginPermission::Wait);
            logins.refused(account.clone(), &key(host), at(1));
            logins.end(&account);
        }
        assert_eq!(begin(&mut logins, 2), LoginPermission::HeldBack(at(601)));
        assert_eq!(begin(&mut logins, 601), LoginPermission::Counted, "the BMC has forgotten");
        // A try that ends without a word about the login makes room.
        logins.end(&account);
        assert_eq!(logins.under_way.len(), 0);
        logins.accepted(&account, "default/s@1");
        for _ in 0..100 {
            assert_eq!(begin(&mut logins, 602), LoginPermission::Free, "good ones do not wait");
        }
        let other = logins.begin(&account, "default/s@2", &limits, at(602));
        assert_eq!(other, LoginPermission::Counted, "an edit may be wrong");
        logins.refused(account.clone(), &key(0), at(603));
        assert_eq!(begin(&mut logins, 604), LoginPermission::Counted, "the BMC's may have changed");
    }
}
