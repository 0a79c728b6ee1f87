//! Paths that a BMC gives for its resources.

use firesteel_facts::bmc_address::is_plain;

/// A path that a BMC gave for one of its own resources: absolute, on the same origin, plain. Anything else could carry
/// the request (and its credentials) elsewhere.
#[must_use]
pub fn own_path(path: &str) -> Option<&str> {
    (is_plain(path) && path.contains("/redfish/")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_on_the_service() {
        assert_eq!(own_path("/redfish/v1/Systems/1"), Some("/redfish/v1/Systems/1"));
        assert_eq!(own_path("/bmc/7/redfish/v1/Systems/1"), Some("/bmc/7/redfish/v1/Systems/1"));
        for path in [
            "",
            "redfish/v1",
            "//evil/redfish/",
            "http://evil/",
            "/redfish//x",
            "/redfish/../x",
            "/redfish/%2e%2E/x",
            "/redfish/.%2e",
            "/redfish/./x",
            "/redfish/a b",
            "/redfish/x?y",
            "/other",
        ] {
            assert_eq!(own_path(path), None, "{path}");
        }
    }
}
