//! Redfish services as people have them.

use firesteel_bmc_fakes::redfish::Fake;
use serde_json::json;

use crate::agent;
use crate::bench::{SYSTEM, say, with};

/// How often the service was asked with a request that begins so.
fn times(fake: &Fake, request: &str) -> usize {
    fake.state().requests.iter().filter(|made| made.starts_with(request)).count()
}

#[test]
fn redfish_session_without_location() {
    with(|bench| {
        let (fake, origin) = bench.bmc(&json!({"location": "none", "session_limit": 4}));
        bench.add("c03", &format!("{origin}{SYSTEM}"));
        bench.is_driven("c03", &fake);
        bench.until("no session is left", || fake.state().sessions.is_empty().then_some(()));
        let (made, ended) = (times(&fake, "POST /redfish/v1/SessionService"), times(&fake, "DELETE"));
        assert!(made >= 2 && made == ended, "{made} sessions were made and {ended} ended");
        assert_eq!(bench.find_condition("c03", "BMCSession"), None);
        say("redfish-session-without-location", "each session ends", &format!("{made} made, {ended} ended"));
    });
}

#[test]
fn redfish_session_without_a_free_place() {
    with(|bench| {
        let (fake, origin) = bench.bmc(&json!({"session_limit": 4, "session_taken": 4}));
        bench.add("basic", &format!("{origin}{SYSTEM}"));
        let got = bench.is_driven("basic", &fake);
        let condition = bench.condition("basic", "BMCSession");
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("NoneFree")));
        say("redfish-session-without-location, full", "Basic, with a condition", &format!("{got}, {condition}"));
    });
    with(|bench| {
        let (fake, origin) = bench.bmc(&json!({"session_limit": 4, "session_taken": 4, "no_basic": true}));
        bench.add("full", &format!("{origin}{SYSTEM}"));
        let error = bench.error("full");
        let tries = times(&fake, "POST /redfish/v1/SessionService");
        assert!(error.contains("no session free"), "after {tries} tries: {error}");
        let reboot = bench.firesteel(&["reboot", "full"]);
        let told = String::from_utf8_lossy(&reboot.stderr);
        assert!(!reboot.status.success() && told.contains("no session free"), "{told}");
        say(
            "redfish-session-without-location, full, no Basic",
            "an error, and no reboot",
            &format!("after {tries} tries: {error} | {told}"),
        );
    });
}

#[test]
fn redfish_trailing_slash_redirect() {
    with(|bench| {
        let methods = ["GET", "POST", "PATCH", "DELETE"];
        let (fake, origin) = bench.bmc(&json!({"redirect": {"code": 308, "methods": methods}}));
        bench.add("c02", &format!("{origin}{SYSTEM}"));
        let got = bench.is_driven("c02", &fake);
        bench.until("no session is left", || fake.state().sessions.is_empty().then_some(()));
        say("redfish-trailing-slash-redirect", "on", &got);
    });
}

#[test]
fn redfish_gzip_unasked() {
    with(|bench| {
        for (name, quirks) in [("c01", json!({"gzip": true})), ("deflate", json!({"encoding": "deflate"}))] {
            let (fake, origin) = bench.bmc(&quirks);
            bench.add_with(name, &format!("{origin}{SYSTEM}"), &json!({"bootMACAddress": mac_of(name)}));
            let got = bench.is_driven(name, &fake);
            say("redfish-gzip-unasked", &format!("on with {quirks}"), &got);
        }
        let (_fake, origin) = bench.bmc(&json!({"encoding": "zz"}));
        bench.add_with("zz", &format!("{origin}{SYSTEM}"), &json!({"bootMACAddress": mac_of("zz")}));
        let error = bench.error("zz");
        assert!(error.contains("it is encoded as zz, which was not asked for"), "{error}");
        say("redfish-gzip-unasked", "an unknown encoding is named", &error);
    });
}

/// Hosts beside each other have their own.
fn mac_of(name: &str) -> String {
    let last = name.bytes().fold(0_u8, u8::wrapping_add);
    format!("52:54:00:77:04:{last:02x}")
}

#[test]
fn redfish_html_answer() {
    with(|bench| {
        let page = "<!DOCTYPE html><html><head><title>Sign in</title></head></html>";
        let (_fake, origin) = bench.bmc(&json!({"bodies": {SYSTEM: page}}));
        bench.add("c10", &format!("{origin}{SYSTEM}"));
        let error = bench.error("c10");
        assert!(
            error.contains("it is HTML, not JSON (content type text/html)") && !error.contains("Sign in"),
            "{error}"
        );
        say("redfish-html-answer", "HTML is named", &error);
    });
}

#[test]
fn redfish_no_boot_override() {
    with(|bench| {
        let boot = json!({
            "BootSourceOverrideEnabled": null, "BootSourceOverrideTarget": null, "BootSourceOverrideMode": null,
            "BootSourceOverrideTarget@Redfish.AllowableValues": null, "AutomaticRetryConfig": "Disabled",
        });
        let refusal = json!({"status": 400, "id": "Base.1.13.0.PropertyUnknown", "message": "No such property."});
        let (fake, origin) = bench.bmc(&json!({"merge": {SYSTEM: {"Boot": boot}}, "refuse_patch": refusal}));
        bench.add("c06", &format!("{origin}{SYSTEM}"));
        let got = bench.is_driven("c06", &fake);
        let condition = bench.condition("c06", "BootOverride");
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("NotOffered")));
        let text = condition["message"].as_str().unwrap();
        assert!(text.contains("put the network first"), "{text}");
        say("redfish-no-boot-override", "on by its own order, with a condition", &format!("{got}: {text}"));
    });
}

#[test]
fn redfish_once_stored_as_continuous() {
    with(|bench| {
        let (fake, origin) = bench.bmc(&json!({"once": "Continuous"}));
        agent::install(bench, "c07", &format!("{origin}{SYSTEM}"));
        bench.until("the override is taken back", || (fake.state().boot_enabled == "Disabled").then_some(()));
        let patches = times(&fake, "PATCH");
        assert_eq!(patches, 2, "one to set it, one to take it back");
        assert_eq!(bench.find_condition("c07", "BootOverride"), None);
        say("redfish-once-stored-as-continuous", "Disabled after the installation", "Disabled");
    });
    with(|bench| {
        let refusal = json!({"status": 400, "id": "Base.1.8.PropertyNotWritable", "message": "It is fixed."});
        let (_fake, origin) = bench.bmc(&json!({"once": "Continuous", "refuse_disable": refusal}));
        agent::install(bench, "kept", &format!("{origin}{SYSTEM}"));
        let condition = bench.condition("kept", "BootOverride");
        let text = condition["message"].as_str().unwrap_or_default();
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("NotTakenBack")));
        assert!(text.contains("It is fixed.") && text.contains("switch it off there"), "{text}");
        say("redfish-once-stored-as-continuous, refused", "the host says so", text);
    });
}

#[test]
fn bmc_address_without_path() {
    with(|bench| {
        for (name, quirks, scheme, path) in [
            ("c09", json!({"merge": {"/redfish/v1": {"Systems": null}}}), "redfish", ""),
            (
                "c09v",
                json!({"system": "mycluster/node-0"}),
                "redfish-virtualmedia",
                "/redfish/v1/Systems/mycluster/node-0",
            ),
            ("c09p", json!({"prefix": "/rack/3"}), "redfish", "/rack/3/redfish/v1/Systems/1"),
        ] {
            let (fake, origin) = bench.bmc(&quirks);
            let address = format!("{scheme}{}{path}", origin.strip_prefix("redfish").unwrap());
            bench.add_with(name, &address, &json!({"bootMACAddress": mac_of(name)}));
            let got = bench.is_driven(name, &fake);
            say("bmc-address-without-path", &format!("on by {scheme}+http://HOST{path}"), &got);
        }
    });
}
