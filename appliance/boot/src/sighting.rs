//! How far one machine came on its way to the agent. Pure: the time is given.
//!
//! A loader that was fetched comes back as iPXE within seconds. Where it does not, firmware mostly begins again with
//! DHCP, or goes on to another boot option: neither counts as coming back.

use std::fmt;
use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};

/// How long a loader may take from its last byte to the first request of iPXE; that of a slow BIOS takes some ten
/// seconds, with a switch port that forwards late.
pub const LOADER_RETURNS_IN: SignedDuration = SignedDuration::from_secs(90);
/// Firmware that asks again after a longer silence has been switched on again.
const BOOT_GAP: SignedDuration = SignedDuration::from_mins(10);
/// Of a text that came with an event.
const TEXT_CHARS_MAX: usize = 200;

/// What a machine did or got last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
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
    Script,
    /// An iPXE that cannot start the kernel.
    WrongBuild(String),
    Kernel,
    Initramfs,
    /// The agent said hello.
    Agent,
}

impl Stage {
    /// Whether firmware may do this, and not only what a loader started.
    fn is_of_firmware(&self) -> bool {
        match self {
            Self::Offered(_)
            | Self::Leased(_)
            | Self::Refused(_)
            | Self::NoLoader(_)
            | Self::LoaderFailed(_)
            | Self::Loader { .. } => true,
            Self::Ipxe | Self::Script | Self::WrongBuild(_) | Self::Kernel | Self::Initramfs | Self::Agent => false,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offered(address) => write!(f, "DHCP offered {address}"),
            Self::Leased(address) => write!(f, "DHCP leased {address}"),
            Self::Refused(why) => write!(f, "DHCP gave no address: {why}"),
            Self::NoLoader(why) => write!(f, "no loader: {why}"),
            Self::LoaderFailed(why) => write!(f, "the loader was not fetched: {why}"),
            Self::Loader { file, via } => write!(f, "loader {file} fetched by {}", via.to_ascii_uppercase()),
            Self::Ipxe => f.write_str("iPXE runs"),
            Self::Script => f.write_str("boot script fetched"),
            Self::WrongBuild(why) => write!(f, "no kernel: {why}"),
            Self::Kernel => f.write_str("kernel fetched"),
            Self::Initramfs => f.write_str("initramfs fetched"),
            Self::Agent => f.write_str("agent registered"),
        }
    }
}

/// A loader that did not come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    pub file: String,
    pub via: &'static str,
    /// The first fetch of this boot.
    pub since: Timestamp,
    pub fetches: u32,
}

impl Stall {
    /// Says it in so few words that they fit a line of a table.
    #[must_use]
    pub fn hint(&self) -> String {
        let secure_boot = if self.is_uefi() { "Secure Boot, " } else { "" };
        format!("{secure_boot}wrong architecture or failed loader? {} did not come back", self.file)
    }

    fn is_uefi(&self) -> bool {
        self.file.ends_with(".efi")
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, via, since, fetches } = self;
        write!(f, "the loader {file} was fetched by {}", via.to_ascii_uppercase())?;
        if *fetches > 1 {
            write!(f, ", {fetches} times since")?;
        }
        write!(
            f,
            " {} and did not come back within {} s: ",
            since.strftime("%H:%M:%S UTC"),
            LOADER_RETURNS_IN.as_secs()
        )?;
        if self.is_uefi() {
            f.write_str("Secure Boot refuses an unsigned loader (switch Secure Boot off), ")?;
        }
        f.write_str("the machine is of another architecture, or the loader failed: look at its console")
    }
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub first_at: Timestamp,
    /// When it was heard last.
    pub at: Timestamp,
    pub stage: Stage,
    /// What its SMBIOS holds that is no text.
    pub odd: String,
    loader: Option<Stall>,
    pub(crate) is_reported: bool,
}

impl Sighting {
    pub(crate) fn new(stage: Stage, now: Timestamp) -> Self {
        let mut new =
            Self { first_at: now, at: now, stage: Stage::Ipxe, odd: String::new(), loader: None, is_reported: false };
        new.take(stage, now);
        new
    }

    /// Takes in what the machine did; whether a stall that was reported is over by it.
    pub(crate) fn take(&mut self, stage: Stage, now: Timestamp) -> bool {
        let was_reported = self.is_reported;
        if stage.is_of_firmware() && now.duration_since(self.at) > BOOT_GAP {
            self.forget_loader();
        }
        self.at = now;
        match (&stage, &mut self.loader) {
            (Stage::Loader { file, via }, loader) => {
                let first = Stall { file: cut(file), via, since: now, fetches: 0 };
                let fetched = loader.get_or_insert(first);
                fetched.fetches = fetched.fetches.saturating_add(1);
            }
            // Firmware that begins again: the loader is still not back.
            (stage, Some(_)) if stage.is_of_firmware() => return false,
            _ => self.forget_loader(),
        }
        self.stage = bounded(stage);
        was_reported && !self.is_reported
    }

    fn forget_loader(&mut self) {
        self.loader = None;
        self.is_reported = false;
    }

    /// When the loader that was fetched is to be back.
    pub(crate) fn returns_by(&self) -> Option<Timestamp> {
        let loader = self.loader.as_ref()?;
        Some(loader.since.checked_add(LOADER_RETURNS_IN).unwrap_or(Timestamp::MAX))
    }

    /// Says which loader did not come back, if one did not.
    #[must_use]
    pub fn stall(&self, now: Timestamp) -> Option<&Stall> {
        self.loader.as_ref().filter(|_| self.returns_by().is_some_and(|by| now >= by))
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

fn bounded(stage: Stage) -> Stage {
    match stage {
        Stage::Refused(why) => Stage::Refused(cut(&why)),
        Stage::NoLoader(why) => Stage::NoLoader(why.chars().take(2 * TEXT_CHARS_MAX).collect()),
        Stage::LoaderFailed(why) => Stage::LoaderFailed(cut(&why)),
        Stage::WrongBuild(why) => Stage::WrongBuild(cut(&why)),
        Stage::Loader { file, via } => Stage::Loader { file: cut(&file), via },
        short @ (Stage::Offered(_)
        | Stage::Leased(_)
        | Stage::Ipxe
        | Stage::Script
        | Stage::Kernel
        | Stage::Initramfs
        | Stage::Agent) => short,
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

    fn loader() -> Stage {
        Stage::Loader { file: "snponly.efi".into(), via: "tftp" }
    }

    #[test]
    fn a_loader_that_does_not_come_back_in_90_seconds_is_a_stall() {
        let mut seen = Sighting::new(Stage::Offered(ADDRESS), at(0));
        seen.take(loader(), at(5));
        assert_eq!(seen.stall(at(94)), None);
        let text = seen.stall(at(95)).unwrap().to_string();
        for part in ["snponly.efi was fetched by TFTP", "90 s", "Secure Boot", "architecture", "loader failed"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn secure_boot_is_no_cause_on_bios() {
        let seen = Sighting::new(Stage::Loader { file: "undionly.kpxe".into(), via: "tftp" }, at(0));
        let stall = seen.stall(at(90)).unwrap();
        assert!(!stall.to_string().contains("Secure Boot") && stall.hint().starts_with("wrong architecture"));
    }

    #[test]
    fn whatever_a_loader_starts_ends_the_wait() {
        for stage in [Stage::Ipxe, Stage::Script, Stage::WrongBuild("x".into()), Stage::Kernel, Stage::Agent] {
            let mut seen = Sighting::new(loader(), at(0));
            seen.take(stage.clone(), at(10));
            assert_eq!((seen.stall(at(1000)), &seen.stage), (None, &stage));
        }
    }

    #[test]
    fn firmware_that_begins_again_has_not_come_back() {
        let mut seen = Sighting::new(loader(), at(0));
        for again in 1..4 {
            assert!(!seen.take(Stage::Offered(ADDRESS), at(30 * again)));
            assert!(!seen.take(Stage::LoaderFailed("aborted".into()), at(30 * again)));
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
        assert!(seen.take(Stage::Offered(ADDRESS), at(601)), "the stall is over");
        assert_eq!((seen.stall(at(700)), &seen.stage), (None, &Stage::Offered(ADDRESS)));
        seen.take(loader(), at(605));
        assert_eq!(seen.stall(at(690)), None);
        assert!(seen.stall(at(695)).is_some());
    }

    #[test]
    fn texts_are_bounded() {
        let long = "x".repeat(100_000);
        for stage in [
            Stage::Refused(long.clone()),
            Stage::NoLoader(long.clone()),
            Stage::LoaderFailed(long.clone()),
            Stage::WrongBuild(long.clone()),
            Stage::Loader { file: long.clone(), via: "http" },
        ] {
            let seen = Sighting::new(stage, at(0));
            assert!(seen.stage.to_string().len() < 3 * TEXT_CHARS_MAX);
            assert!(seen.stall(at(90)).is_none_or(|stall| stall.file.len() == TEXT_CHARS_MAX));
        }
    }
}
