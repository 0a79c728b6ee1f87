//! Names of the Secrets with the stubs of a pool.

const MANAGED: &str = "-user-data-managed";
const OWNERS: &str = "-user-data";

/// Returns the name of the stub that is made for a pool, in each namespace with hosts.
#[must_use]
pub fn managed_name(pool: &str) -> String {
    format!("{pool}{MANAGED}")
}

/// Returns the name of the stub that an installer makes for it.
#[must_use]
pub fn owners_name(pool: &str) -> String {
    format!("{pool}{OWNERS}")
}

/// Says whether a Secret's name is one of these for some pool.
#[must_use]
pub fn may_be_of_pool(name: &str) -> bool {
    name.ends_with(MANAGED) || name.ends_with(OWNERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_upstream() {
        assert_eq!(
            (managed_name("worker").as_str(), owners_name("worker").as_str()),
            ("worker-user-data-managed", "worker-user-data")
        );
        assert!(
            may_be_of_pool("worker-user-data") && may_be_of_pool("worker-user-data-managed") && !may_be_of_pool("bmc")
        );
    }
}
