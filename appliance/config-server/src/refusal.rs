//! Why a config is not served, with upstream's status codes and those of the token.

use firesteel_boot::BootTokenError;
use firesteel_ignition::render::ServeError;
use jiff::{SignedDuration, Timestamp};

/// The least time between two refusals that are recorded of one host; those between are counted.
pub(crate) const RECORDED_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// Texts are for people and go into a header: they hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigRefusal {
    #[error("the client asks for a version of Ignition's config that is not served: 2.2 to 3.5 are")]
    Accept,
    #[error("a config is given only for the token of its host")]
    NoToken,
    #[error("{0}")]
    BadToken(BootTokenError),
    #[error("the host of this token is gone")]
    NoHost,
    #[error("the token's deadline is over: run firesteel extend-token HOST")]
    Expired,
    #[error("the OS of this token has reported that it runs, which ended the token")]
    Ended,
    #[error("the token's installation was replaced")]
    Replaced,
    /// Another host's config.
    #[error("{0}")]
    Other(String),
    #[error("there is no config of this name: it is a MachineConfigPool's, or a Secret's of type firesteel.dev/config")]
    Unknown,
    /// What a person has to mend.
    #[error("{0}")]
    Unfit(String),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("the appliance is starting: try again")]
    Starting,
    #[error("{0}")]
    Store(String),
}

impl ConfigRefusal {
    /// Returns the status of HTTP. Ignition asks again after 500 and above, and gives up after less.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Accept => 400,
            Self::NoToken | Self::BadToken(_) | Self::NoHost | Self::Expired => 401,
            Self::Ended | Self::Replaced | Self::Other(_) => 403,
            Self::Unknown => 404,
            Self::Unfit(_) | Self::Store(_) => 500,
            Self::Serve(error) => error.status(),
            Self::Starting => 503,
        }
    }

    /// Returns the word under which it is counted.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::NoToken => "no-token",
            Self::BadToken(_) | Self::NoHost => "bad-token",
            Self::Expired => "expired",
            Self::Ended => "ended",
            Self::Replaced => "replaced",
            Self::Other(_) => "other-host",
            Self::Unknown => "unknown",
            Self::Serve(error) if error.status() < 500 => "version",
            Self::Unfit(_) | Self::Serve(_) => "unfit",
            Self::Starting | Self::Store(_) => "unavailable",
        }
    }

    /// Says whether it belongs to no host that is known.
    pub(crate) fn is_unattributed(&self) -> bool {
        self.word() == "bad-token" || *self == Self::NoToken
    }

    /// Says whether the answer may be another one without any token.
    pub(crate) fn is_of_token(&self) -> bool {
        matches!(self, Self::BadToken(_) | Self::NoHost | Self::Expired | Self::Ended | Self::Replaced | Self::Other(_))
    }

    /// Says whether it is recorded on the host: what passes by itself is not worth a line.
    pub(crate) fn is_recorded(&self) -> bool {
        !matches!(self, Self::Starting | Self::Store(_))
    }
}

/// How often one host was refused, or clients that are no hosts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    recorded_at: Option<Timestamp>,
    unreported: u64,
}

impl Refusals {
    /// Counts one more. Where it is to be recorded, returns how many were only counted before it.
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<u64> {
        if self.recorded_at.is_some_and(|at| now >= at && now.duration_since(at) < RECORDED_EVERY) {
            self.unreported += 1;
            return None;
        }
        self.recorded_at = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_flood_is_counted_and_told_once_a_minute() {
        let mut refusals = Refusals::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let told: Vec<(i64, u64)> = (0..150).filter_map(|second| Some((second, refusals.next(at(second))?))).collect();
        assert_eq!(told, [(0, 0), (60, 59), (120, 59)]);
        assert_eq!(refusals.next(at(5)), Some(29), "a clock that was set back silences nothing");
    }
}
