//! How far one machine came on its way to the agent. Pure: the time is given.
//!
//! A loader that was fetched comes back as iPXE within seconds. Where it does not, firmware mostly begins again with
//! DHCP, or goes on to another boot option: neither counts as coming back.
//!
//! A kernel that was fetched is followed by its initramfs. Where iPXE cannot start it, the script fetches it again, and
//! restarts after some rounds: neither counts as going on.

use std::fmt;
use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};

/// How long a loader may take from its last byte to the first request of iPXE; that of a slow BIOS takes some ten
/// seconds, with a switch port that forwards late. A kernel that is fetched again and again gets as long.
pub const GOES_ON_IN: SignedDuration = SignedDuration::from_secs(90);
/// Firmware that asks again after a longer silence has been switched on again.
const BOOT_GAP: SignedDuration = SignedDuration::from_mins(10);
/// The longest text of an event that is kept.
const TEXT_CHARS_MAX: usize = 200;

/// What a machine did or got last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SightingStage {
    /// DHCP offered an address.
    Offered(Ipv4Addr),
    /// DHCP leased an address.
    Leased(Ipv4Addr),
    /// DHCP gave no address.
    Refused(String),
    /// There is no loader for it.
    NoLoader(String),
    LoaderFailed(String),
    /// A loader was fetched whole.
    Loader {
        file: String,
        via: &'static str,
    },
    /// iPXE runs: it asked DHCP, or fetched its first script.
    Ipxe,
    Script {
        is_uefi: bool,
    },
    /// Its script was asked for from an address that may not be its own.
    AddressMismatch(String),
    /// An iPXE that cannot start the kernel.
    WrongBuild(String),
    Kernel,
    Initramfs,
    /// The agent said hello.
    Agent,
}

impl SightingStage {
    /// Whether firmware may do this, and not only what a loader started.
    fn is_of_firmware(&self) -> bool {
        match self {
            Self::Offered(_)
            | Self::Leased(_)
            | Self::Refused(_)
            | Self::NoLoader(_)
            | Self::LoaderFailed(_)
            | Self::Loader { .. } => true,
            Self::Ipxe
            | Self::Script { .. }
            | Self::AddressMismatch(_)
            | Self::WrongBuild(_)
            | Self::Kernel
            | Self::Initramfs
            | Self::Agent => false,
        }
    }

    /// Whether a machine does this before it fetches the kernel.
    fn is_before_kernel(&self) -> bool {
        self.is_of_firmware() || matches!(self, Self::Ipxe | Self::Script { .. })
    }
}

impl fmt::Display for SightingStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offered(address) => write!(f, "DHCP offered {address}"),
            Self::Leased(address) => write!(f, "DHCP leased {address}"),
            Self::Refused(why) => write!(f, "DHCP gave no address: {why}"),
            Self::NoLoader(why) => write!(f, "no loader: {why}"),
            Self::LoaderFailed(why) => write!(f, "the loader was not fetched: {why}"),
            Self::Loader { file, via } => write!(f, "loader {file} fetched by {}", via.to_ascii_uppercase()),
            Self::Ipxe => f.write_str("iPXE runs"),
            Self::Script { .. } => f.write_str("boot script fetched"),
            Self::AddressMismatch(why) => write!(f, "no boot script: {why}"),
            Self::WrongBuild(why) => write!(f, "no kernel: {why}"),
            Self::Kernel => f.write_str("kernel fetched"),
            Self::Initramfs => f.write_str("initramfs fetched"),
            Self::Agent => f.write_str("agent registered"),
        }
    }
}

/// What a machine fetched to start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootFetch {
    Loader { file: String, via: &'static str },
    Kernel { is_uefi: bool },
}

/// What was fetched, and nothing came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalledBoot {
    pub fetched: BootFetch,
    /// The first fetch of this boot.
    pub since: Timestamp,
    pub fetches: u32,
}

impl StalledBoot {
    /// Says it in so few words that they fit a line of a table.
    #[must_use]
    pub fn hint(&self) -> String {
        let secure_boot = if self.is_uefi() { "Secure Boot, " } else { "" };
        match &self.fetched {
            BootFetch::Loader { file, .. } => {
                format!("{secure_boot}wrong architecture or failed loader? {file} did not come back")
            }
            BootFetch::Kernel { .. } => format!("{secure_boot}too little memory or old iPXE? the kernel did not start"),
        }
    }

    fn is_uefi(&self) -> bool {
        match &self.fetched {
            BootFetch::Loader { file, .. } => file.ends_with(".efi"),
            BootFetch::Kernel { is_uefi } => *is_uefi,
        }
    }

    fn is_kernel(&self) -> bool {
        matches!(self.fetched, BootFetch::Kernel { .. })
    }

    /// When it is to have gone on. A kernel's initramfs may take its time: only who fetches the kernel again has failed.
    fn next_stage_by(&self) -> Option<Timestamp> {
        let is_awaited = !self.is_kernel() || self.fetches > 1;
        is_awaited.then(|| self.since.checked_add(GOES_ON_IN).unwrap_or(Timestamp::MAX))
    }
}

impl fmt::Display for StalledBoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fetched {
            BootFetch::Loader { file, via } => {
                write!(f, "the loader {file} was fetched by {}", via.to_ascii_uppercase())?;
            }
            BootFetch::Kernel { .. } => f.write_str("the kernel was fetched")?,
        }
        if self.fetches > 1 {
            write!(f, ", {} times since", self.fetches)?;
        }
        let (since, seconds) = (self.since.strftime("%H:%M:%S UTC"), GOES_ON_IN.as_secs());
        let (unsigned, other) = match &self.fetched {
            BootFetch::Loader { .. } => {
                write!(f, " {since} and did not come back within {seconds} s: ")?;
                ("loader", "the machine is of another architecture, or the loader failed: look at its console")
            }
            BootFetch::Kernel { .. } => {
                write!(f, " {since} and did not start within {seconds} s: ")?;
                ("kernel", "the machine has too little memory, or its iPXE is too old: look at its console")
            }
        };
        if self.is_uefi() {
            write!(f, "Secure Boot refuses an unsigned {unsigned} (switch Secure Boot off), ")?;
        }
        f.write_str(other)
    }
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub first_at: Timestamp,
    /// When it was heard last.
    pub at: Timestamp,
    pub stage: SightingStage,
    /// What its SMBIOS holds that is no text.
    pub odd: String,
    awaited: Option<StalledBoot>,
    /// Whether its last script was one for UEFI.
    is_uefi: bool,
    pub(crate) is_reported: bool,
}

impl Sighting {
    pub(crate) fn new(stage: SightingStage, now: Timestamp) -> Self {
        let mut new = Self {
            first_at: now,
            at: now,
            stage: SightingStage::Ipxe,
            odd: String::new(),
            awaited: None,
            is_uefi: false,
            is_reported: false,
        };
        new.take(stage, now);
        new
    }

    /// Takes in what the machine did; whether a stall that was reported is over by it.
    pub(crate) fn take(&mut self, stage: SightingStage, now: Timestamp) -> bool {
        let was_reported = self.is_reported;
        if stage.is_of_firmware() && now.duration_since(self.at) > BOOT_GAP {
            self.forget_awaited();
        }
        self.at = now;
        if let SightingStage::Script { is_uefi } = &stage {
            self.is_uefi = *is_uefi;
        }
        if self.begins_again(&stage) {
            return false;
        }
        let fetched = match &stage {
            SightingStage::Loader { file, via } => Some(BootFetch::Loader { file: cut(file), via }),
            SightingStage::Kernel => Some(BootFetch::Kernel { is_uefi: self.is_uefi }),
            SightingStage::Offered(_)
            | SightingStage::Leased(_)
            | SightingStage::Refused(_)
            | SightingStage::NoLoader(_)
            | SightingStage::LoaderFailed(_)
            | SightingStage::Ipxe
            | SightingStage::Script { .. }
            | SightingStage::AddressMismatch(_)
            | SightingStage::WrongBuild(_)
            | SightingStage::Initramfs
            | SightingStage::Agent => None,
        };
        match fetched {
            None => self.forget_awaited(),
            Some(fetched) => {
                let is_kernel = matches!(fetched, BootFetch::Kernel { .. });
                if self.awaited.as_ref().is_some_and(|awaited| awaited.is_kernel() != is_kernel) {
                    self.forget_awaited();
                }
                let awaited = self.awaited.get_or_insert(StalledBoot { fetched, since: now, fetches: 0 });
                awaited.fetches = awaited.fetches.saturating_add(1);
            }
        }
        self.stage = bounded(stage);
        was_reported && !self.is_reported
    }

    /// Whether the machine begins its boot again, and what is awaited has not come so far. A kernel that was fetched once
    /// is awaited in its own boot alone.
    fn begins_again(&self, stage: &SightingStage) -> bool {
        match &self.awaited {
            Some(awaited) if awaited.is_kernel() => awaited.fetches > 1 && stage.is_before_kernel(),
            Some(_) => stage.is_of_firmware() && !matches!(stage, SightingStage::Loader { .. }),
            None => false,
        }
    }

    fn forget_awaited(&mut self) {
        self.awaited = None;
        self.is_reported = false;
    }

    /// When what was fetched is to have gone on.
    pub(crate) fn next_stage_by(&self) -> Option<Timestamp> {
        self.awaited.as_ref()?.next_stage_by()
    }

    /// Says what was fetched and came to nothing, if anything did.
    #[must_use]
    pub fn stall(&self, now: Timestamp) -> Option<&StalledBoot> {
        self.awaited.as_ref().filter(|awaited| awaited.next_stage_by().is_some_and(|by| now >= by))
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

fn bounded(stage: SightingStage) -> SightingStage {
    match stage {
        SightingStage::Refused(why) => SightingStage::Refused(cut(&why)),
        SightingStage::NoLoader(why) => SightingStage::NoLoader(why.chars().take(2 * TEXT_CHARS_MAX).collect()),
        SightingStage::LoaderFailed(why) => SightingStage::LoaderFailed(cut(&why)),
        SightingStage::AddressMismatch(why) => {
            SightingStage::AddressMismatch(why.chars().take(2 * TEXT_CHARS_MAX).collect())
        }
        SightingStage::WrongBuild(why) => SightingStage::WrongBuild(cut(&why)),
        SightingStage::Loader { file, via } => SightingStage::Loader { file: cut(&file), via },
        short @ (SightingStage::Offered(_)
        | SightingStage::Leased(_)
        | SightingStage::Ipxe
        | SightingStage::Script { .. }
        | SightingStage::Kernel
        | SightingStage::Initramfs
        | SightingStage::Agent) => short,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 100);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn loader() -> SightingStage {
        SightingStage::Loader { file: "snponly.efi".into(), via: "tftp" }
    }

    #[test]
    fn a_loader_that_does_not_come_back_in_90_seconds_is_a_stall() {
        let mut seen = Sighting::new(SightingStage::Offered(ADDRESS), at(0));
        seen.take(loader(), at(5));
        assert_eq!(seen.stall(at(94)), None);
        assert_eq!(
            seen.stall(at(95)).unwrap().to_string(),
            "the loader snponly.efi was fetched by TFTP 08:00:05 UTC and did not come back within 90 s: Secure Boot \
             refuses an unsigned loader (switch Secure Boot off), the machine is of another architecture, or the loader \
             failed: look at its console"
        );
    }

    #[test]
    fn secure_boot_is_no_cause_on_bios() {
        let seen = Sighting::new(SightingStage::Loader { file: "undionly.kpxe".into(), via: "tftp" }, at(0));
        let stall = seen.stall(at(90)).unwrap();
        assert!(!stall.to_string().contains("Secure Boot") && stall.hint().starts_with("wrong architecture"));
    }

    #[test]
    fn each_stage_has_its_words() {
        for (stage, words) in [
            (SightingStage::Offered(ADDRESS), "DHCP offered 10.77.0.100"),
            (SightingStage::Leased(ADDRESS), "DHCP leased 10.77.0.100"),
            (SightingStage::Refused("full".into()), "DHCP gave no address: full"),
            (SightingStage::NoLoader("arm".into()), "no loader: arm"),
            (SightingStage::LoaderFailed("lost".into()), "the loader was not fetched: lost"),
            (loader(), "loader snponly.efi fetched by TFTP"),
            (SightingStage::Ipxe, "iPXE runs"),
            (SightingStage::Script { is_uefi: true }, "boot script fetched"),
            (SightingStage::WrongBuild("old".into()), "no kernel: old"),
            (SightingStage::Kernel, "kernel fetched"),
            (SightingStage::Initramfs, "initramfs fetched"),
            (SightingStage::Agent, "agent registered"),
        ] {
            assert_eq!(stage.to_string(), words);
        }
    }

    #[test]
    fn whatever_a_loader_starts_ends_the_wait() {
        for stage in [
            SightingStage::Ipxe,
            SightingStage::Script { is_uefi: true },
            SightingStage::WrongBuild("x".into()),
            SightingStage::Kernel,
            SightingStage::Agent,
        ] {
            let mut seen = Sighting::new(loader(), at(0));
            seen.take(stage.clone(), at(10));
            assert_eq!((seen.stall(at(1000)), &seen.stage), (None, &stage));
        }
    }

    #[test]
    fn firmware_that_begins_again_has_not_come_back() {
        let mut seen = Sighting::new(loader(), at(0));
        for again in 1..4 {
            assert!(!seen.take(SightingStage::Offered(ADDRESS), at(30 * again)));
            assert!(!seen.take(SightingStage::LoaderFailed("aborted".into()), at(30 * again)));
            assert_eq!(seen.stage, loader(), "the furthest that it came");
            seen.take(loader(), at(30 * again + 1));
        }
        let stall = seen.stall(at(92)).unwrap();
        assert_eq!((stall.fetches, stall.since), (4, at(0)));
        assert!(stall.to_string().contains("4 times"), "{stall}");
    }

    #[test]
    fn a_machine_that_was_switched_on_again_begins_again() {
        let mut seen = Sighting::new(loader(), at(0));
        seen.is_reported = true;
        let mut patient = seen.clone();
        assert!(!patient.take(SightingStage::Offered(ADDRESS), at(600)) && patient.stage == loader());
        assert!(seen.take(SightingStage::Offered(ADDRESS), at(601)), "the stall is over");
        assert_eq!((seen.stall(at(700)), &seen.stage), (None, &SightingStage::Offered(ADDRESS)));
        seen.take(loader(), at(605));
        assert_eq!(seen.stall(at(690)), None);
        assert!(seen.stall(at(695)).is_some());
    }

    /// Secure Boot lets the iPXE in a virtual network card run, and refuses the kernel.
    #[test]
    fn a_kernel_that_is_fetched_again_and_again_is_a_stall() {
        let script = || SightingStage::Script { is_uefi: true };
        let mut seen = Sighting::new(script(), at(0));
        for round in 0..10 {
            seen.take(SightingStage::Kernel, at(6 * round));
        }
        assert_eq!(seen.stall(at(89)), None);
        // The script gives up, and the machine restarts.
        for stage in [SightingStage::Offered(ADDRESS), SightingStage::Ipxe, script()] {
            assert!(!seen.take(stage, at(89)));
            assert_eq!(seen.stage, SightingStage::Kernel, "the furthest that it came");
        }
        let stall = seen.stall(at(90)).unwrap().clone();
        for part in
            ["kernel was fetched, 10 times", "did not start within 90 s", "refuses an unsigned kernel", "memory"]
        {
            assert!(stall.to_string().contains(part), "{part}: {stall}");
        }
        assert!(stall.hint().starts_with("Secure Boot, "), "{}", stall.hint());
        seen.is_reported = true;
        assert!(!seen.take(SightingStage::Kernel, at(95)) && seen.stall(at(95)).is_some());
        assert!(seen.take(SightingStage::Initramfs, at(100)), "it goes on");
        assert_eq!(seen.stall(at(1000)), None);
        let mut bios = Sighting::new(SightingStage::Script { is_uefi: false }, at(0));
        for again in 0..2 {
            bios.take(SightingStage::Kernel, at(again));
        }
        assert!(!bios.stall(at(90)).unwrap().to_string().contains("Secure Boot"));
    }

    #[test]
    fn a_slow_initramfs_and_a_power_cut_are_no_stall() {
        let script = || SightingStage::Script { is_uefi: true };
        let mut seen = Sighting::new(script(), at(0));
        seen.take(SightingStage::Kernel, at(1));
        assert_eq!(seen.stall(at(5000)), None, "its initramfs comes slowly");
        for stage in [SightingStage::Offered(ADDRESS), loader(), SightingStage::Ipxe, script(), SightingStage::Kernel] {
            seen.take(stage, at(80));
        }
        assert_eq!((seen.stall(at(1000)), &seen.stage), (None, &SightingStage::Kernel));
    }

    #[test]
    fn texts_are_bounded() {
        let long = "x".repeat(100_000);
        for (stage, characters) in [
            (SightingStage::Refused(long.clone()), 200),
            (SightingStage::NoLoader(long.clone()), 400),
            (SightingStage::LoaderFailed(long.clone()), 200),
            (SightingStage::AddressMismatch(long.clone()), 400),
            (SightingStage::WrongBuild(long.clone()), 200),
            (SightingStage::Loader { file: long.clone(), via: "http" }, 200),
        ] {
            let seen = Sighting::new(stage, at(0));
            assert_eq!(seen.stage.to_string().matches('x').count(), characters);
            let length = |stall: &StalledBoot| match &stall.fetched {
                BootFetch::Loader { file, .. } => file.len(),
                BootFetch::Kernel { .. } => 0,
            };
            assert!(seen.stall(at(90)).is_none_or(|stall| length(stall) == TEXT_CHARS_MAX));
        }
    }
}
