//! Boots that end before the agent: the last stage, and a loader that does not come back.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use firesteel_control::{DhcpRequestSource, NetworkEvent};
use firesteel_resources::{ConditionStatus, condition::find_condition};

use crate::agent::{script, token_in};
use crate::appliance::{Appliance, until};
use crate::logins;

const MAC: &str = "02:00:00:00:04:01";
const STRANGER: &str = "02:00:00:00:04:02";

fn note(appliance: &Appliance, mac: &str, event: NetworkEvent) {
    appliance.control.network.note(mac.parse().unwrap(), event);
}

fn loader() -> NetworkEvent {
    NetworkEvent::Loader { file: "snponly.efi".into(), bytes: 1, via: "tftp" }
}

async fn network_boot(appliance: &Appliance, name: &str) -> Option<(ConditionStatus, String)> {
    let status = appliance.status(name).await;
    find_condition(&status.conditions, "NetworkBoot").map(|found| (found.status, found.message.clone()))
}

/// The clock is the test's: what waits by time looks again when another loader is fetched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loader_that_does_not_come_back_is_in_timeline_condition_and_list() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    for mac in [MAC, STRANGER] {
        note(&appliance, mac, loader());
    }
    appliance.ahead_s.store(89, Ordering::SeqCst);
    assert!(appliance.control.unknown_hosts()[0].stalled.is_empty(), "it has a second left");
    appliance.ahead_s.store(90, Ordering::SeqCst);
    note(&appliance, "02:00:00:00:04:03", loader());
    until("the condition", async || network_boot(&appliance, "host").await.is_some()).await;
    let (status, message) = network_boot(&appliance, "host").await.unwrap();
    assert_eq!(status, ConditionStatus::False);
    for cause in ["snponly.efi", "Secure Boot refuses an unsigned loader", "another architecture", "the loader failed"]
    {
        assert!(message.contains(cause), "no {cause:?} in: {message}");
    }
    until("the timeline", async || appliance.page("host").await.contains("boot_stalled")).await;
    let unknown = appliance.control.unknown_hosts();
    let stranger = unknown.iter().find(|unknown| unknown.mac == STRANGER).unwrap();
    assert!(stranger.hint.starts_with("Secure Boot") && stranger.stalled == message, "{stranger:?}");
    assert!(unknown.iter().all(|unknown| unknown.mac != MAC), "a host is no unknown machine: {unknown:?}");

    // Once Secure Boot is off iPXE comes back.
    let address = Ipv4Addr::new(192, 0, 2, 50);
    note(&appliance, MAC, NetworkEvent::DhcpOffer { address, client: "iPXE".into(), asker: DhcpRequestSource::Ipxe });
    until("the condition's end", async || {
        network_boot(&appliance, "host").await.is_some_and(|(status, _)| status == ConditionStatus::True)
    })
    .await;
    let noted = appliance.journal("host").await.status.network;
    let stalls: Vec<u64> = noted.iter().filter(|note| note.event == "boot_stalled").map(|note| note.count).collect();
    assert_eq!(stalls, [1], "reported once");
}

/// Secure Boot of a virtual machine runs the iPXE of its network card, and refuses the kernel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kernel_that_does_not_start_is_in_condition_and_list() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    for mac in [MAC, STRANGER] {
        note(&appliance, mac, NetworkEvent::Script { bytes: 1, is_uefi: true, odd: String::new() });
        note(&appliance, mac, NetworkEvent::Kernel { bytes: 1 });
    }
    note(&appliance, MAC, NetworkEvent::Kernel { bytes: 1 });
    appliance.ahead_s.store(90, Ordering::SeqCst);
    note(&appliance, STRANGER, NetworkEvent::Kernel { bytes: 1 });
    until("the condition", async || network_boot(&appliance, "host").await.is_some()).await;
    let (status, message) = network_boot(&appliance, "host").await.unwrap();
    assert_eq!(status, ConditionStatus::False);
    assert!(message.contains("the kernel was fetched, 2 times since") && message.contains("Secure Boot"), "{message}");
    let unknown = appliance.control.unknown_hosts();
    assert!(unknown[0].hint.starts_with("Secure Boot, ") && unknown[0].stage == "kernel fetched", "{unknown:?}");
}

/// A script needs no credentials: it makes no object, whatever MAC it is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_for_made_up_machines_make_no_object() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    for number in 0..50 {
        let mac = format!("02:00:00:00:05:{number:02x}");
        assert!(script(&appliance, &mac, "").await.contains("/kernel "));
        note(&appliance, &mac, NetworkEvent::Script { bytes: 1, is_uefi: true, odd: String::new() });
    }
    assert!(appliance.discovered.list(None).await.unwrap().0.is_empty());
    assert_eq!(appliance.control.unknown_hosts().len(), 50);
}

/// What runs on the host may ask as well, for as long as the BMC has not answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_gets_no_token_before_its_bmc_has_switched_it_on() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let (fake, address) = logins::bmc(Vec::new()).await;
    logins::add_login(&appliance, "wrong").await;
    logins::add_host(&appliance, "host", MAC, &address).await;
    appliance.error("host").await;
    let waits = script(&appliance, MAC, "").await;
    assert!(token_in(&waits).is_none() && waits.contains("host host waits"), "{waits}");
    logins::set_password(&appliance, logins::PASSWORD).await;
    until("the script has a token", async || {
        let resets = fake.state().resets.clone();
        let has_token = token_in(&script(&appliance, MAC, "").await).is_some();
        // What was done by then was done before the script was asked for, or while it was made.
        assert!(!has_token || !fake.state().resets.is_empty(), "{resets:?}");
        has_token
    })
    .await;
    assert_eq!(fake.state().resets, ["On"]);
}

/// The planner steps by the test's clock, when the host is touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_does_not_fetch_its_loader_says_so_after_a_minute() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let is_awaited = |reason: &str| reason.contains("waiting for the host to boot");
    until("the host is awaited", async || {
        appliance.journal("host").await.status.reason.is_some_and(|reason| is_awaited(&reason.text))
    })
    .await;
    let (address, asker) = (Ipv4Addr::new(192, 0, 2, 50), DhcpRequestSource::Firmware);
    note(&appliance, MAC, NetworkEvent::DhcpAck { address, client: "PXEClient".into(), asker });
    appliance.ahead_s.store(60, Ordering::SeqCst);
    appliance.touch("host").await;
    until("the condition", async || network_boot(&appliance, "host").await.is_some()).await;
    let (status, message) = network_boot(&appliance, "host").await.unwrap();
    assert_eq!(status, ConditionStatus::False);
    let cause = "the host has an address and did not fetch its loader, and has not come further for more than 60 s";
    assert!(message.contains(cause) && message.contains("69/udp"), "{message}");
    let page = appliance.page("host").await;
    assert!(page.contains("NetworkBootSilent") && page.contains(&format!("Hint:         {message}")), "{page}");
}
