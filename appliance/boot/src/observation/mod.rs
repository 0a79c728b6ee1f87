//! What the appliance saw of the boot of one attempt: who asked for it, whether that may be the host, and what was sent
//! for each of its tokens. Pure.
//!
//! PXE has no secret that a host could show: a MAC address is a word that each machine on the network may use. What can
//! be checked is that the asker has the address that DHCP gave to this MAC: a neighbour has to take part in the host's
//! DHCP for that, which the leases show, and a machine elsewhere has no such address at all.
//!
//! ```text
//!   boot script wanted ──► BootScriptRequest ──► Observation::ask ──► BootAsker (a token may be made)
//!                                                               └──► AskerMismatch (none is)
//!   token made ──► Observation::grant ──► sealed with the digests of its files (BootSeal)
//!   bytes of kernel and initramfs sent for it, over any requests and ranges ──► Observation::sent
//!   hello with it ──► Observation::hello ──► counts once all bytes were sent, else UnseenBoot says what is missing
//! ```
//!
//! It must not know leases, hosts or sockets: the caller looks up who holds the asker's address.

mod coverage;
mod files;
mod grant;

use std::{fmt, net::IpAddr, ops::Range};

pub use coverage::{Coverage, PIECES_MAX};
pub use files::{BootFile, BootFileName, BootFileSet, ServedBootFiles};
use firesteel_facts::{Mac, Sha256};
use grant::TokenGrant;
pub use grant::{BootSeal, UnseenBoot};

/// Tokens of one attempt for which it is remembered what was sent: a loader that tries again gets another one.
pub const GRANTS_MAX: usize = 4;

/// How it is judged whether an asker may be the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskerRule {
    /// Our DHCP serves the host's network: the asker's address is leased to the host.
    Lease,
    /// Another DHCP server does, or the owner says that any address will do: who asks first is the host.
    FirstAsker,
}

/// The holder of the sender's address, by a live lease of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressHolder {
    /// A MAC address of the host itself.
    Host,
    Other(Mac),
    /// No machine has a lease of it.
    Unleased,
}

/// A request for the boot script of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootScriptRequest {
    pub from: IpAddr,
    pub holder: AddressHolder,
    pub rule: AskerRule,
    /// The addresses that are leased to the host.
    pub leased: Vec<IpAddr>,
}

/// Who got the token of an attempt, and on what ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootAsker {
    /// The address was leased to the host.
    Leased(IpAddr),
    /// The address asked first, and was not checked further.
    First(IpAddr),
}

/// Why an asker gets no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskerMismatch {
    from: IpAddr,
    expected: ExpectedAsker,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ExpectedAsker {
    /// An address that is leased to the host; the asker's is leased to this MAC, if to any.
    Lease { leased: Vec<IpAddr>, other: Option<Mac> },
    /// The address that asked first.
    First(IpAddr),
}

impl AskerMismatch {
    #[must_use]
    pub fn from(&self) -> IpAddr {
        self.from
    }
}

/// Both addresses, and the likely causes.
impl fmt::Display for AskerMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the boot script was asked for from {}, ", self.from)?;
        match &self.expected {
            ExpectedAsker::Lease { leased, other } => {
                match other {
                    Some(mac) => write!(f, "an address that is leased to {}", mac.hyphenated())?,
                    None => f.write_str("an address that is leased to no machine")?,
                }
                match leased.as_slice() {
                    [] => f.write_str("; this machine has no live lease")?,
                    [first, ..] => write!(f, "; this machine has {first}")?,
                }
                f.write_str(
                    ": another DHCP server answers, NAT or an HTTP proxy is in between, another network card asks, or \
                     the MAC address is forged; where another DHCP server is to answer, annotate the host with \
                     firesteel.dev/boot-address: any",
                )
            }
            ExpectedAsker::First(first) => write!(
                f,
                "and {first} asked first in this attempt: the machine got another address, another network card \
                 asks, or the MAC address is forged; the next attempt begins with its own first address"
            ),
        }
    }
}

/// The askers of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    attempt: u64,
    first: Option<IpAddr>,
    /// The last asker that may be the host.
    asker: Option<BootAsker>,
    mismatch: Option<AskerMismatch>,
    /// The newest last.
    grants: Vec<TokenGrant>,
}

impl Observation {
    /// Begins with nothing seen.
    #[must_use]
    pub fn of(attempt: u64) -> Self {
        Self { attempt, ..Self::default() }
    }

    /// Remembers the address that asked first, unless one is known.
    pub fn remember_first(&mut self, first: IpAddr) {
        self.first.get_or_insert(first);
    }

    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Says why the newest asker got nothing, unless one that may be the host asked in this attempt, too.
    #[must_use]
    pub fn mismatch(&self) -> Option<&AskerMismatch> {
        self.mismatch.as_ref().filter(|_| self.asker.is_none())
    }

    /// Decides whether an asker may be the host.
    ///
    /// # Errors
    /// When it may not; the observation keeps the reason.
    pub fn ask(&mut self, asked: &BootScriptRequest) -> Result<BootAsker, AskerMismatch> {
        let from = asked.from.to_canonical();
        let judged = match (asked.holder, asked.rule) {
            (AddressHolder::Host, _) => {
                // The holder of the host's lease goes before all others, and no other one comes after it.
                self.first = Some(from);
                Ok(BootAsker::Leased(from))
            }
            (AddressHolder::Other(_) | AddressHolder::Unleased, AskerRule::FirstAsker) => {
                match *self.first.get_or_insert(from) {
                    first if first == from => Ok(BootAsker::First(from)),
                    first => Err(ExpectedAsker::First(first)),
                }
            }
            (AddressHolder::Other(mac), AskerRule::Lease) => {
                Err(ExpectedAsker::Lease { leased: asked.leased.clone(), other: Some(mac) })
            }
            (AddressHolder::Unleased, AskerRule::Lease) => {
                Err(ExpectedAsker::Lease { leased: asked.leased.clone(), other: None })
            }
        };
        let judged = judged.map_err(|expected| AskerMismatch { from, expected });
        match &judged {
            Ok(asker) => self.asker = Some(*asker),
            Err(mismatch) => self.mismatch = Some(mismatch.clone()),
        }
        judged
    }

    /// Numbers another token of this attempt: `now_ms`, or one more than the token before.
    pub fn grant(&mut self, now_ms: u64) -> u64 {
        let id = self.grants.last().map_or(now_ms, |last| now_ms.max(last.id.saturating_add(1)));
        self.remember(id);
        id
    }

    /// Counts the tokens of which something is remembered.
    #[must_use]
    pub fn grants(&self) -> usize {
        self.grants.len()
    }

    /// Takes in that bytes of a file were handed to the connection, for the token of this number. A token that is not
    /// known was made before the appliance started, and is known from now on. Returns whether the file is whole by it.
    pub fn sent(&mut self, grant: u64, file: BootFileName, range: Range<u64>, files: &BootFileSet) -> bool {
        if !self.grants.iter().any(|known| known.id == grant) {
            self.remember(grant);
        }
        let grant = self.grants.iter_mut().find(|known| known.id == grant);
        grant.is_some_and(|grant| grant.sent(file, range, files.file(file).bytes))
    }

    /// Decides whether a first hello counts: with which token it came, and what the program is that says it, as far as it
    /// says so.
    ///
    /// # Errors
    /// When not all of the token's files were sent for it, or the program is another one.
    pub fn hello(
        &self,
        seal: Option<&BootSeal>,
        served: &ServedBootFiles,
        agent: Option<Sha256>,
    ) -> Result<(), UnseenBoot> {
        let seal = seal.ok_or(UnseenBoot::Unsealed)?;
        let files = served.of(seal).ok_or(UnseenBoot::OtherFiles)?;
        let none = TokenGrant::default();
        let grant = self.grants.iter().find(|known| known.id == seal.grant).unwrap_or(&none);
        if let Some(missing) = grant.missing(files) {
            return Err(missing);
        }
        match (seal.agent, agent) {
            (Some(sealed), Some(said)) if sealed != said => Err(UnseenBoot::OtherAgent),
            _ => Ok(()),
        }
    }

    fn remember(&mut self, id: u64) {
        if self.grants.len() >= GRANTS_MAX {
            self.grants.remove(0);
        }
        let place = self.grants.partition_point(|known| known.id < id);
        self.grants.insert(place, TokenGrant::of(id));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const HOST: [u8; 4] = [10, 77, 0, 100];
    const NEIGHBOUR: [u8; 4] = [10, 77, 0, 200];
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn asked(from: [u8; 4], holder: AddressHolder, rule: AskerRule) -> BootScriptRequest {
        BootScriptRequest { from: from.into(), holder, rule, leased: vec![HOST.into()] }
    }

    #[test]
    fn a_token_needs_a_lease_or_to_be_the_first() {
        use AddressHolder::{Host, Other, Unleased};
        use AskerRule::{FirstAsker, Lease};
        let (leased, first) = (BootAsker::Leased(HOST.into()), BootAsker::First(HOST.into()));
        for (holder, rule, wanted) in [
            (Host, Lease, Some(leased)),
            (Other(MAC), Lease, None),
            (Unleased, Lease, None),
            (Host, FirstAsker, Some(leased)),
            (Other(MAC), FirstAsker, Some(first)),
            (Unleased, FirstAsker, Some(first)),
        ] {
            let got = Observation::of(1).ask(&asked(HOST, holder, rule));
            assert_eq!(got.ok(), wanted, "{holder:?} {rule:?}");
        }
    }

    #[test]
    fn of_askers_without_a_lease_the_first_is_the_host() {
        assert_eq!(Observation::of(3).attempt(), 3);
        let mut boot = Observation::of(1);
        let ask = |boot: &mut Observation, from, holder| boot.ask(&asked(from, holder, AskerRule::FirstAsker));
        assert_eq!(ask(&mut boot, HOST, AddressHolder::Unleased), Ok(BootAsker::First(HOST.into())));
        let refused = ask(&mut boot, NEIGHBOUR, AddressHolder::Unleased).unwrap_err();
        assert!(refused.to_string().contains("from 10.77.0.200, and 10.77.0.100 asked first"), "{refused}");
        assert_eq!(ask(&mut boot, HOST, AddressHolder::Unleased), Ok(BootAsker::First(HOST.into())));
        assert_eq!(
            ask(&mut boot, NEIGHBOUR, AddressHolder::Host),
            Ok(BootAsker::Leased(NEIGHBOUR.into())),
            "a lease of the host says more than who was first"
        );
        assert!(ask(&mut boot, HOST, AddressHolder::Unleased).is_err(), "and from then on it is the host");
        assert!(ask(&mut Observation::of(2), NEIGHBOUR, AddressHolder::Unleased).is_ok(), "the next attempt");
        let mut leased = Observation::of(3);
        assert!(ask(&mut leased, HOST, AddressHolder::Host).is_ok());
        assert!(ask(&mut leased, NEIGHBOUR, AddressHolder::Unleased).is_err(), "nor does one come after it");
        let mut remembered = Observation::of(1);
        remembered.remember_first(HOST.into());
        assert!(ask(&mut remembered, NEIGHBOUR, AddressHolder::Unleased).is_err(), "after a restart, too");
    }

    const FILES: BootFileSet = BootFileSet {
        kernel: BootFile { sha256: Sha256([1; 32]), bytes: 100 },
        initramfs: BootFile { sha256: Sha256([2; 32]), bytes: 200 },
        agent: Some(Sha256([3; 32])),
    };

    const SERVED: ServedBootFiles = ServedBootFiles { current: FILES, kept: None };

    fn seal(grant: u64) -> BootSeal {
        BootSeal {
            grant,
            asker: BootAsker::Leased(HOST.into()),
            kernel: FILES.kernel.sha256,
            initramfs: FILES.initramfs.sha256,
            agent: FILES.agent,
        }
    }

    #[test]
    fn a_hello_counts_once_all_bytes_were_sent_for_its_token() {
        use BootFileName::{Initramfs, Kernel};
        let mut boot = Observation::of(1);
        let (one, other) = (boot.grant(10), boot.grant(10));
        assert_eq!((one, other), (10, 11));
        let missing =
            |boot: &Observation, grant| boot.hello(Some(&seal(grant)), &SERVED, None).unwrap_err().to_string();
        assert!(missing(&boot, one).contains("0 of 100 bytes of the kernel"));
        assert!(boot.sent(one, Kernel, 0..100, &FILES));
        assert!(!boot.sent(one, Kernel, 0..100, &FILES), "it was whole before");
        assert!(!boot.sent(one, Initramfs, 0..199, &FILES));
        assert!(missing(&boot, one).contains("199 of 200 bytes of the initramfs"));
        boot.sent(other, Initramfs, 199..200, &FILES);
        assert!(missing(&boot, one).contains("199 of 200"), "that byte was sent for another token");
        assert!(boot.sent(one, Initramfs, 150..200, &FILES));
        assert_eq!(boot.hello(Some(&seal(one)), &SERVED, None), Ok(()));
        assert!(missing(&boot, other).contains("kernel") && missing(&boot, 99).contains("0 of 100"));
    }

    #[test]
    fn a_hello_needs_the_tokens_own_files_and_program() {
        let mut boot = Observation::of(1);
        let grant = boot.grant(1);
        boot.sent(grant, BootFileName::Kernel, 0..100, &FILES);
        boot.sent(grant, BootFileName::Initramfs, 0..200, &FILES);
        let hello = |seal: Option<BootSeal>, agent| boot.hello(seal.as_ref(), &SERVED, agent);
        assert_eq!(hello(None, None), Err(UnseenBoot::Unsealed));
        let other = Sha256([9; 32]);
        for altered in [
            BootSeal { kernel: other, ..seal(grant) },
            BootSeal { initramfs: other, ..seal(grant) },
            BootSeal { agent: Some(other), ..seal(grant) },
        ] {
            assert_eq!(hello(Some(altered), None), Err(UnseenBoot::OtherFiles));
        }
        assert_eq!(hello(Some(seal(grant)), FILES.agent), Ok(()));
        assert_eq!(hello(Some(seal(grant)), Some(other)), Err(UnseenBoot::OtherAgent));
    }

    #[test]
    fn a_boot_that_began_before_an_upgrade_goes_on_with_its_files() {
        let mut boot = Observation::of(1);
        boot.sent(5, BootFileName::Kernel, 0..100, &FILES);
        boot.sent(5, BootFileName::Initramfs, 0..200, &FILES);
        let new = BootFileSet { kernel: BootFile { sha256: Sha256([9; 32]), bytes: 500 }, ..FILES };
        let upgraded = ServedBootFiles { current: new, kept: Some(FILES) };
        assert_eq!(boot.hello(Some(&seal(5)), &upgraded, None), Ok(()));
        let later = ServedBootFiles { kept: None, ..upgraded };
        assert_eq!(boot.hello(Some(&seal(5)), &later, None), Err(UnseenBoot::OtherFiles));
    }

    #[test]
    fn what_is_sent_for_a_token_of_before_a_start_counts_and_tokens_are_bounded() {
        let mut boot = Observation::of(1);
        boot.sent(5, BootFileName::Kernel, 0..100, &FILES);
        boot.sent(5, BootFileName::Initramfs, 0..200, &FILES);
        assert_eq!(boot.hello(Some(&seal(5)), &SERVED, None), Ok(()));
        assert_eq!((0..GRANTS_MAX).map(|_| boot.grant(6)).collect::<Vec<_>>(), [6, 7, 8, 9]);
        assert_eq!(boot.grants(), GRANTS_MAX);
        assert!(boot.hello(Some(&seal(5)), &SERVED, None).is_err(), "the oldest makes room");
    }

    #[test]
    fn a_token_of_a_number_that_was_used_begins_with_nothing() {
        let mut boot = Observation::of(1);
        assert_eq!(boot.grants(), 0);
        boot.sent(u64::MAX, BootFileName::Kernel, 0..100, &FILES);
        assert_eq!((boot.grant(6), boot.grants()), (u64::MAX, 2), "there is no larger number");
        let missing = UnseenBoot::NotFetched { file: BootFileName::Kernel, sent: 0, bytes: 100 };
        assert_eq!(boot.hello(Some(&seal(u64::MAX)), &SERVED, None), Err(missing));
    }

    #[test]
    fn a_mismatch_names_both_addresses_until_the_host_asks() {
        let mut boot = Observation::of(1);
        boot.ask(&asked(NEIGHBOUR, AddressHolder::Other(MAC), AskerRule::Lease)).unwrap_err();
        let text = boot.mismatch().unwrap().to_string();
        for part in ["from 10.77.0.200", "leased to 02-00-00-00-00-09", "has 10.77.0.100", "NAT", "boot-address: any"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        boot.ask(&asked(HOST, AddressHolder::Host, AskerRule::Lease)).unwrap();
        assert_eq!(boot.mismatch(), None);
        let nowhere =
            BootScriptRequest { leased: Vec::new(), ..asked(HOST, AddressHolder::Unleased, AskerRule::Lease) };
        let text = boot.ask(&nowhere).unwrap_err().to_string();
        assert_eq!(boot.mismatch(), None, "the host has its token");
        assert!(text.contains("leased to no machine; this machine has no live lease"), "{text}");
    }
}
