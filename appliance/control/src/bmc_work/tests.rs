//! Admission and the drivers take the same addresses.

use firesteel_bmc::{BmcAddress, Error};
use firesteel_plan::host::{BmcAction, BmcFaultKind};
use firesteel_resources::bare_metal_host::address;

/// What is admitted must be an address for the driver too, or the host would fail later with the same words. Names in
/// Punycode are left out: that one decodes to nothing is found by the driver alone.
#[test]
fn each_address_that_is_admitted_is_one_for_its_driver() {
    let schemes = [
        "",
        "ipmi",
        "libvirt",
        "redfish",
        "redfish-virtualmedia",
        "redfish-uefihttp",
        "idrac-redfish",
        "idrac-virtualmedia",
        "ilo5-redfish",
        "ilo5-virtualmedia",
        "idrac",
        "ilo4",
        "ilo4-virtualmedia",
        "ilo5",
        "irmc",
        "http",
        "REDFISH",
    ];
    let places = [
        "",
        "192.0.2.5",
        "bmc.example",
        "BMC.example:8443",
        "[2001:db8::1]",
        "[2001:db8::1]:8000",
        "2001:db8::1",
        "a@192.0.2.5",
        "192.0.2.5:0",
        "192.0.2.5:99999",
        "192.0.2",
        "1.2.3.4.5",
        "a.1",
        "a b",
        "a\\b",
        "-a",
        "a-",
        "[::1",
        "a:b:c",
        "a%41",
        "0x7f.1",
    ];
    let paths = [
        "",
        "/",
        "/redfish",
        "/redfish/v1/",
        "/redfish/v1/Systems",
        "/redfish/v1/Systems/1",
        "/redfish/v1/Systems/System.Embedded.1/",
        "/redfish/v1/Systems/1/Bios",
        "/redfish/v1/Systems/a/b/c",
        "/redfish/v1/Systems/a//b",
        "/bmc/7/redfish/v1/Systems/a/b",
        "/bmc/../redfish/v1/Systems/1",
        "/bmc//7/redfish/v1",
        "/bmc/redfish",
        "/bmcredfish/v1/Systems/1",
        "/redfish/v1/Systems/..",
        "/redfish/v1/Systems/%2e%2E",
        "/redfish/v1/Systems/1?a=b",
        "/redfish/v1/Systems/1#a",
        "/x",
        "//",
        "?privilegelevel=OPERATOR",
        "?privilegelevel=USER",
        "?a",
    ];
    let mut admitted = 0;
    for scheme in schemes {
        for transport in ["", "+http", "+https", "+ftp"] {
            for place in places {
                for path in paths {
                    let separator = if scheme.is_empty() { "" } else { "://" };
                    let text = format!("{scheme}{transport}{separator}{place}{path}");
                    let is_admitted = address::check(&text).is_ok();
                    let parsed = BmcAddress::parse(&text);
                    assert!(!is_admitted || parsed.is_ok(), "{text} is admitted, and {parsed:?}");
                    admitted += usize::from(is_admitted);
                }
            }
        }
    }
    assert!(admitted > 500, "{admitted} were admitted");
}

/// One 404 of a BMC that restarted stopped all work on its host until its spec was edited.
#[test]
fn what_a_bmc_says_is_asked_again_and_only_a_refused_order_is_no_soft_power_off() {
    let soft = BmcAction::PowerOff { hard: false };
    let missing = Error::NotFound { path: "/redfish/v1/Systems/1".into() };
    let several = Error::SeveralSystems { count: 2, example: "/redfish/v1/Systems/1".into() };
    let unable = Error::Unsupported { what: "shut the OS down".into() };
    let refused = Error::Refused { what: "a reset".into(), status: 400, message: String::new() };
    for error in [&missing, &several, &unable, &refused] {
        assert_eq!(super::fault_of(error).kind, BmcFaultKind::Refused, "{error}");
        for action in [BmcAction::Probe, BmcAction::NetBoot, BmcAction::PowerOff { hard: true }] {
            assert_eq!(super::fault_of_order(action, error).kind, BmcFaultKind::Refused, "{action:?} {error}");
        }
    }
    let soft = |error: &Error| super::fault_of_order(soft, error).kind;
    assert_eq!([soft(&unable), soft(&refused)], [BmcFaultKind::Unsupported; 2]);
    let busy = Error::Busy { status: 503 };
    assert_eq!([soft(&missing), soft(&busy)], [BmcFaultKind::Refused; 2], "the OS still may shut down in time");
    assert_eq!(soft(&Error::Timeout { what: "a reset".into() }), BmcFaultKind::Unreachable);
    assert_eq!(soft(&Error::Unauthorized), BmcFaultKind::Credentials);
}
