//! Reasons why no machine is served although the settings ask for it: data for serving machines cannot be read, or the
//! stored network cannot be served. The API runs alone and says so; another start would find the same.

use firesteel_net::{dhcp::DhcpError, leases::LeaseStoreError};

/// The problem and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NetworkProblem {
    /// The data cannot be read as long as this process lives.
    #[error("{0}")]
    Unreadable(String),
    /// The network cannot be served with the object and the interface as they are now; both may change at any time.
    #[error("{0}")]
    Unservable(String),
}

/// Returns the problem, if an error is one.
pub(super) fn network_problem(error: &anyhow::Error) -> Option<NetworkProblem> {
    if let Some(withheld) = error.downcast_ref::<NetworkProblem>() {
        return Some(withheld.clone());
    }
    let leases = match error.downcast_ref::<DhcpError>() {
        Some(DhcpError::Leases(error)) => Some(error),
        Some(_) | None => error.downcast_ref::<LeaseStoreError>(),
    };
    leases.filter(|error| error.is_damage()).map(|_| {
        NetworkProblem::Unreadable(format!(
            "{error:#}: the file is damaged. Stop the appliance, move leases.db and the files beside it (-wal, -shm) \
             to another place, wait until leases that were given have ended (an hour), and start it again"
        ))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use anyhow::Context as _;
    use jiff::Timestamp;

    use super::*;
    use firesteel_net::leases::{LeaseFile, LeaseStore};

    #[test]
    fn damaged_leases_and_objects_are_reasons_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        std::fs::write(&path, "x".repeat(8192)).unwrap();
        let opened = LeaseStore::open(LeaseFile::new(&path), Timestamp::UNIX_EPOCH).map(drop);
        let error = opened.map_err(DhcpError::from).context("could not start DHCP").unwrap_err();
        let Some(NetworkProblem::Unreadable(why_not)) = network_problem(&error) else {
            panic!("damaged leases end the process")
        };
        assert!(why_not.contains("leases.db") && why_not.contains("move"), "{why_not}");
        for withheld in [NetworkProblem::Unreadable("damaged".into()), NetworkProblem::Unservable("IPv6".into())] {
            let error = anyhow::Error::new(withheld.clone()).context("opening the network");
            assert_eq!(network_problem(&error), Some(withheld));
        }
        assert_eq!(network_problem(&anyhow::anyhow!("a port is taken")), None);
    }
}
