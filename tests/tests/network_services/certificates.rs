//! The provisioning address is edited while the appliance serves (S0.22): the certificate names the address that there
//! is, by the key that agents pinned.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::site::{Site, runtime, trusting_client, with_site};

const MOVED: &str = "10.77.0.3";
const PATIENCE: Duration = Duration::from_secs(120);

/// A client that trusts the CA and compares the name, as Ignition does.
fn is_trusted(site: &Site, address: &str, port: u16) -> bool {
    let client = trusting_client(&site.appliance);
    let url = format!("https://{address}:{port}/");
    runtime().block_on(async move { client.get(url).send().await.is_ok() })
}

fn until(what: &str, site: &Site, is_so: impl Fn() -> bool) {
    let ends_at = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < ends_at, "{what}\n{}", site.appliance.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_address_that_is_edited_is_in_the_certificate_and_the_pinned_key_stays() {
    with_site(|site| {
        let key_file = site.appliance.data().join("pki/server.key");
        let key = || fs::read(&key_file).unwrap();
        let ca = site.appliance.ca_pem();
        let pinned = key();
        assert!(is_trusted(site, "10.77.0.1", 6443) && is_trusted(site, "10.77.0.1", 8443));
        site.edit(&json!({"provisioningIP": MOVED}));
        until("agents are not served at the new address", site, || is_trusted(site, MOVED, 8443));
        assert!(is_trusted(site, "10.77.0.1", 6443), "the API is where it was");
        assert_eq!((key(), site.appliance.ca_pem()), (pinned.clone(), ca), "agents that run pinned the key");
        site.appliance.kill_and_start_again();
        until("agents are not served after a restart", site, || is_trusted(site, MOVED, 8443));
        assert_eq!(key(), pinned, "over a restart");
    });
}
