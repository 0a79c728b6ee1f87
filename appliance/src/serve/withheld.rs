//! Why no machine is served although the settings ask for it: what machines are served by is there and cannot be
//! read. The API goes on alone and says so; another start would find the same.

use crate::net::{dhcp::DhcpError, leases::LeaseStoreError};

/// What cannot be read, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Withheld(pub(super) String);

/// The reason, where an error is one.
pub(super) fn why(error: &anyhow::Error) -> Option<String> {
    if let Some(Withheld(why)) = error.downcast_ref::<Withheld>() {
        return Some(why.clone());
    }
    let leases = match error.downcast_ref::<DhcpError>() {
        Some(DhcpError::Leases(error)) => Some(error),
        Some(_) | None => error.downcast_ref::<LeaseStoreError>(),
    };
    leases.filter(|error| error.is_damage()).map(|_| {
        format!(
            "{error:#}: the file is damaged. Stop the appliance, move leases.db and the files beside it (-wal, -shm) \
             to another place, wait until leases that were given have ended (an hour), and start it again"
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use anyhow::Context as _;
    use jiff::Timestamp;

    use super::*;
    use crate::net::leases::LeaseStore;

    #[test]
    fn damaged_leases_and_objects_are_reasons_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        std::fs::write(&path, "x".repeat(8192)).unwrap();
        let opened = LeaseStore::open(&path, Timestamp::UNIX_EPOCH).map(drop);
        let error = opened.map_err(DhcpError::from).context("starting DHCP").unwrap_err();
        let why_not = why(&error).unwrap();
        assert!(why_not.contains("leases.db") && why_not.contains("move"), "{why_not}");
        let error = anyhow::Error::new(Withheld("the object is damaged".into())).context("opening the network");
        assert_eq!(why(&error).as_deref(), Some("the object is damaged"));
        assert_eq!(why(&anyhow::anyhow!("a port is taken")), None);
    }
}
