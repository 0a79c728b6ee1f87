#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::net::IpAddr;

use firesteel_facts::Mac;
use serde_json::{Value, json};

use super::*;
use crate::address_keeper::AddressState;
use crate::os_image::OsImageState;
use crate::service_health::START_LIMIT;

/// A network with its world.
struct Bench {
    sync: NetworkSync,
    interfaces: Vec<InterfaceFacts>,
    settings: NetworkSettings,
    hosts_in_work: Option<Vec<String>>,
    is_enabled: bool,
    unreadable: Option<String>,
    uptime: Duration,
}

fn interface(name: &str, index: u32) -> InterfaceFacts {
    InterfaceFacts { name: name.to_owned(), index, mac: Some(Mac([2, 0, 0, 0, 0, 1])), addresses: Vec::new() }
}

fn object(more: Value) -> Provisioning {
    let mut object = json!({
        "metadata": {"name": "provisioning-configuration", "finalizers": [FINALIZER]},
        "spec": {"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.77.0.0/24",
            "provisioningDHCPRange": "10.77.0.10,10.77.0.20", "provisioningInterface": "s0"},
    });
    for (part, fields) in more.as_object().unwrap() {
        object[part].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    serde_json::from_value(object).unwrap()
}

impl Bench {
    fn new() -> Self {
        Self {
            sync: NetworkSync::default(),
            interfaces: vec![interface("s0", 3)],
            settings: NetworkSettings {
                interface: None,
                api_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                has_boot_files: true,
            },
            hosts_in_work: Some(Vec::new()),
            is_enabled: true,
            unreadable: None,
            uptime: Duration::ZERO,
        }
    }

    /// A turn whose steps end as `end` says; returns those that were done.
    fn turn_with(
        &mut self,
        object: Option<&Provisioning>,
        end: impl Fn(ServiceStep) -> Result<(), ServiceFailure>,
    ) -> Vec<ServiceStep> {
        let steps = self.sync.plan_turn(SyncInput {
            is_enabled: self.is_enabled,
            object,
            unreadable: self.unreadable.as_deref(),
            interfaces: &self.interfaces,
            named_time_servers: &[],
            settings: &self.settings,
            hosts_in_work: self.hosts_in_work.as_deref(),
            uptime: self.uptime,
        });
        let mut done = Vec::new();
        for step in steps {
            if !self.sync.must_wait(step) {
                self.sync.step_done(self.uptime, step, end(step));
                done.push(step);
            }
        }
        done
    }

    fn turn(&mut self, object: &Provisioning) -> Vec<ServiceStep> {
        self.turn_with(Some(object), |_| Ok(()))
    }

    fn report(&mut self) -> SyncReport {
        self.sync.report(self.uptime, Some(&AddressState::Held { contested_by: None }), true)
    }

    fn reason(&mut self) -> Option<SyncReason> {
        self.report().reason
    }

    fn pass(&mut self, seconds: u64) {
        self.uptime += Duration::from_secs(seconds);
    }
}

#[test]
fn an_object_starts_its_services_and_says_so() {
    let mut bench = Bench::new();
    assert_eq!(bench.turn_with(None, |_| Ok(())), []);
    assert_eq!(bench.reason(), Some(SyncReason::WaitingForProvisioningCr));
    assert!(bench.report().work_hold.is_some_and(|hold| hold.text().contains("apply one")));
    assert_eq!(bench.turn(&object(json!({}))).len(), 4);
    assert_eq!(bench.reason(), Some(SyncReason::DeployComplete));
    assert_eq!(bench.report().work_hold, None);
    assert_eq!(bench.turn(&object(json!({}))), []);
    let disabled = object(json!({"spec": {"provisioningNetwork": "Disabled"}}));
    assert_eq!(bench.turn(&disabled), [ServiceStep::Stop(ServiceName::Dhcp), ServiceStep::Stop(ServiceName::Tftp)]);
    bench.is_enabled = false;
    assert_eq!(bench.turn(&disabled).len(), 2);
    assert_eq!(bench.reason(), Some(SyncReason::UnsupportedPlatform));
}

#[test]
fn an_object_that_cannot_be_served_leaves_everything_as_it_was() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    for wrong in [
        json!({"spec": {"provisioningIP": "none"}}),
        json!({"spec": {"provisioningIP": "fd00::1", "provisioningNetworkCIDR": "fd00::/64",
            "provisioningDHCPRange": "fd00::10,fd00::20"}}),
        json!({"spec": {"provisioningInterface": "s9"}}),
    ] {
        assert_eq!(bench.turn(&object(wrong.clone())), [], "{wrong}");
        let report = bench.report();
        assert_eq!(report.reason, Some(SyncReason::InvalidConfiguration), "{wrong}");
        assert!(report.message.starts_with("spec.provisioningI"), "{}", report.message);
    }
    assert_eq!(bench.turn(&object(json!({}))), []);
    assert_eq!(bench.reason(), Some(SyncReason::DeployComplete));
}

/// A damaged object must not look like one that was deleted.
#[test]
fn an_object_that_cannot_be_read_changes_nothing() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    bench.unreadable = Some("the checksum is wrong".to_owned());
    assert_eq!(bench.turn_with(None, |_| Ok(())), []);
    let report = bench.report();
    assert_eq!((report.reason, report.work_hold), (Some(SyncReason::InvalidConfiguration), None));
    assert!(report.message.contains("the checksum is wrong"), "{}", report.message);
}

#[test]
fn an_interface_that_vanishes_stops_what_needs_it_and_is_served_again() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    bench.interfaces.clear();
    let stopped = [ServiceName::Dhcp, ServiceName::Tftp, ServiceName::Address].map(ServiceStep::Stop);
    assert_eq!(bench.turn(&object(json!({}))), stopped);
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::InvalidConfiguration));
    assert!(report.message.contains("there is no network interface s0"), "{}", report.message);
    bench.interfaces.push(interface("s0", 9));
    let started = [ServiceName::Address, ServiceName::Tftp, ServiceName::Dhcp].map(ServiceStep::Start);
    assert_eq!(bench.turn(&object(json!({}))), started);
}

#[test]
fn a_service_that_fails_is_said_at_once_tried_again_and_late_after_five_minutes() {
    let mut bench = Bench::new();
    let tftp_fails = |step: ServiceStep| match step {
        ServiceStep::Start(ServiceName::Tftp) => Err(ServiceFailure("port 69 is taken".to_owned())),
        _ => Ok(()),
    };
    assert_eq!(bench.turn_with(Some(&object(json!({}))), tftp_fails).len(), 3, "DHCP waits for TFTP");
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::SyncingResources));
    assert_eq!(report.message, "could not start tftp yet: port 69 is taken");
    assert_eq!(bench.turn_with(Some(&object(json!({}))), tftp_fails), [], "not again at once");
    bench.pass(1);
    assert_eq!(bench.turn_with(Some(&object(json!({}))), tftp_fails), [ServiceStep::Start(ServiceName::Tftp)]);
    bench.pass(START_LIMIT.as_secs());
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::DeployTimedOut));
    assert!(report.message.contains("tftp") && report.message.contains("port 69 is taken"), "{}", report.message);
    bench.turn(&object(json!({})));
    assert_eq!(bench.reason(), Some(SyncReason::DeployComplete));
}

#[test]
fn a_service_that_keeps_ending_is_a_crash_loop() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    for crash in 1..=3 {
        bench.sync.ended(bench.uptime, ServiceName::Dhcp, "the socket failed".to_owned());
        assert_eq!(bench.turn(&object(json!({}))), [], "{crash}: not at once");
        bench.pass(4);
        assert_eq!(bench.turn(&object(json!({}))), [ServiceStep::Start(ServiceName::Dhcp)], "{crash}");
    }
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::DeploymentCrashLooping));
    assert!(report.message.contains("dhcp keeps ending: the socket failed"), "{}", report.message);
    bench.pass(600);
    assert_eq!(bench.reason(), Some(SyncReason::DeployComplete));
}

#[test]
fn a_pause_changes_nothing_and_a_crashed_service_is_started_again() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    let paused = object(json!({"metadata": {"annotations": {PAUSED: ""}},
        "spec": {"provisioningNetwork": "Disabled"}}));
    bench.sync.ended(bench.uptime, ServiceName::Tftp, "x".to_owned());
    bench.pass(60);
    assert_eq!(bench.turn(&paused), [ServiceStep::Start(ServiceName::Tftp)]);
    assert_eq!((bench.reason(), bench.turn(&paused)), (None, Vec::new()));
    assert_eq!(bench.turn(&object(json!({}))), []);
}

#[test]
fn a_deleted_object_waits_for_hosts_in_work_stops_its_services_and_goes() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    let at = json!("2026-01-01T00:00:00Z");
    let deleted = object(json!({"metadata": {"deletionTimestamp": at}}));
    bench.hosts_in_work = Some((0..7).map(|number| format!("rack/h{number}")).collect());
    assert_eq!(bench.turn(&deleted), []);
    let report = bench.report();
    assert!(report.message.contains("rack/h4 and 2 more") && report.work_hold.is_some(), "{}", report.message);
    assert_eq!((report.reason, report.finalizer), (Some(SyncReason::SyncingResources), FinalizerStep::Keep));
    let forced = object(json!({"metadata": {"deletionTimestamp": at, "annotations": {FORCE_REMOVAL: ""}}}));
    let mut impatient = Bench::new();
    impatient.turn(&object(json!({})));
    impatient.hosts_in_work.clone_from(&bench.hosts_in_work);
    assert_eq!(impatient.turn(&forced).len(), 4);
    bench.hosts_in_work = Some(Vec::new());
    assert_eq!(bench.turn(&deleted).len(), 4);
    let report = bench.report();
    assert_eq!((report.reason, report.finalizer), (Some(SyncReason::ResourceNotFound), FinalizerStep::Remove));
    assert_eq!(bench.turn_with(None, |_| Ok(())), []);
    assert_eq!(bench.reason(), Some(SyncReason::WaitingForProvisioningCr));
}

#[test]
fn a_new_object_gets_the_finalizer() {
    let mut bench = Bench::new();
    let mut new = object(json!({}));
    new.metadata.finalizers.clear();
    bench.turn(&new);
    assert_eq!(bench.report().finalizer, FinalizerStep::Add);
    bench.turn(&object(json!({})));
    assert_eq!(bench.report().finalizer, FinalizerStep::Keep);
}

#[test]
fn an_address_that_another_machine_has_is_named() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    for (state, may_put, word) in [
        (AddressState::Conflict { with: mac }, true, "02:00:00:00:00:09 has 10.77.0.1"),
        (AddressState::Held { contested_by: Some(mac) }, true, "uses 10.77.0.1 as well"),
        (AddressState::Failed("no room".to_owned()), true, "no room"),
        (AddressState::Missing, false, "`ip address add 10.77.0.1/24 dev s0`"),
    ] {
        let report = bench.sync.report(bench.uptime, Some(&state), may_put);
        assert_eq!(report.reason, Some(SyncReason::InvalidConfiguration), "{state:?}");
        assert!(report.message.contains(word), "{}", report.message);
    }
    assert_eq!(
        bench.sync.report(bench.uptime, Some(&AddressState::Probing), true).reason,
        Some(SyncReason::SyncingResources)
    );
}

/// A wrong digest is the object's fault, a server that is off is not; both are said by the next report.
#[test]
fn an_os_image_that_is_not_there_is_said() {
    let url = format!("http://a/os.qcow2.gz?sha256={}", "0".repeat(64));
    let with_image = object(json!({"spec": {"provisioningOSDownloadURL": url}}));
    let mut bench = Bench::new();
    assert_eq!(bench.turn(&with_image).len(), 5);
    for (state, reason, word) in [
        (OsImageState::Checking, SyncReason::SyncingResources, "looked for"),
        (
            OsImageState::Downloading { done_bytes: 1 << 20, total_bytes: Some(4 << 20) },
            SyncReason::SyncingResources,
            "25% of 4 MiB",
        ),
        (
            OsImageState::Failing { why: "refused".to_owned(), is_late: false },
            SyncReason::SyncingResources,
            "could not get the OS image os.qcow2 yet: refused",
        ),
        (OsImageState::Failing { why: "refused".to_owned(), is_late: true }, SyncReason::DeployTimedOut, "refused"),
        (OsImageState::Refused { why: "is b, not a".to_owned() }, SyncReason::InvalidConfiguration, "is b, not a"),
        (OsImageState::Ready, SyncReason::DeployComplete, "all services run"),
    ] {
        let name = "os.qcow2".to_owned();
        bench.sync.note_os_image(Some(OsImageReport { name, url: url.clone(), state: state.clone() }));
        let report = bench.report();
        assert_eq!((report.reason, report.work_hold), (Some(reason), None), "{state:?}");
        assert!(report.message.contains(word), "{}", report.message);
    }
    // The cache goes on with the earlier address for a moment.
    let (name, earlier) = ("os.qcow2".to_owned(), "http://a/old.qcow2.gz".to_owned());
    bench.sync.note_os_image(Some(OsImageReport { name: name.clone(), url: earlier, state: OsImageState::Ready }));
    assert_eq!(bench.reason(), Some(SyncReason::SyncingResources));
    let state = OsImageState::Refused { why: String::new() };
    bench.sync.note_os_image(Some(OsImageReport { name, url, state }));
    assert_eq!(bench.turn(&object(json!({}))), [ServiceStep::Stop(ServiceName::ImageCache)]);
    assert_eq!(bench.reason(), Some(SyncReason::DeployComplete), "an image that is not wanted is not waited for");
}

#[test]
fn macs_that_no_interface_has_are_named_and_served_when_one_comes() {
    let mut bench = Bench::new();
    let mac = Mac([2, 0, 0, 0, 0, 7]);
    let by_mac = object(json!({"spec": {"provisioningInterface": "",
        "provisioningMacAddresses": [mac.to_string(), "02:00:00:00:00:08"]}}));
    bench.turn(&by_mac);
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::InvalidConfiguration));
    for part in ["spec.provisioningMacAddresses", "02:00:00:00:00:07", "02:00:00:00:00:08"] {
        assert!(report.message.contains(part), "{}", report.message);
    }
    bench.interfaces.push(InterfaceFacts { mac: Some(mac), ..interface("s7", 7) });
    let started = [ServiceName::Address, ServiceName::Tftp, ServiceName::Dhcp].map(ServiceStep::Start);
    assert_eq!(bench.turn(&by_mac), started);
    assert_eq!(bench.reason(), Some(SyncReason::DeployComplete));
}

/// The old word for Unmanaged.
#[test]
fn an_external_dhcp_server_keeps_ours_off() {
    let mut bench = Bench::new();
    let started = [ServiceName::Address, ServiceName::Http, ServiceName::Tftp].map(ServiceStep::Start);
    assert_eq!(bench.turn(&object(json!({"spec": {"provisioningDHCPExternal": true}}))), started);
    let unmanaged = object(json!({"spec": {"provisioningNetwork": "Unmanaged"}}));
    assert_eq!(bench.turn(&unmanaged), []);
}

/// It is no fault, and nothing is waited for.
#[test]
fn a_site_that_boots_no_host_drives_them_by_their_bmcs_alone() {
    let nowhere = object(json!({"spec": {"provisioningNetwork": "Disabled", "provisioningIP": "",
        "provisioningNetworkCIDR": "", "provisioningDHCPRange": "", "provisioningInterface": ""}}));
    let mut bench = Bench::new();
    assert_eq!(bench.turn(&nowhere), [ServiceStep::Start(ServiceName::Http)]);
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::DeployComplete));
    assert!(report.message.contains("driven by their BMCs alone"), "{}", report.message);
    assert!(report.work_hold.as_ref().and_then(WorkHold::bmc_only).is_some_and(|why| why.contains("127.0.0.1")));
    bench.turn(&object(json!({})));
    assert_eq!(bench.report().work_hold, None, "now there is a network");

    let mut bench = Bench::new();
    bench.settings.has_boot_files = false;
    bench.turn_with(None, |_| Ok(()));
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::WaitingForProvisioningCr));
    assert!(report.work_hold.as_ref().and_then(WorkHold::bmc_only).is_some_and(|why| why.contains("--boot-files")));
    assert_eq!(bench.turn(&object(json!({}))), [], "a network that boots hosts has nothing to boot them by");
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::InvalidConfiguration));
    assert!(report.message.contains("--boot-files") && report.work_hold.is_some(), "{}", report.message);
}

/// S0.16: services run on, also over a restart of the process; the next edit waits for the end of the pause.
#[test]
fn after_a_start_a_paused_object_has_its_services() {
    let mut bench = Bench::new();
    let paused = object(json!({"metadata": {"annotations": {PAUSED: ""}}}));
    assert_eq!(bench.turn(&paused).len(), 4);
    assert!(bench.reason().is_none() && bench.sync.is_paused());
    let edited =
        object(json!({"metadata": {"annotations": {PAUSED: ""}}, "spec": {"provisioningNetwork": "Disabled"}}));
    assert_eq!(bench.turn(&edited), []);
    let at = json!("2026-01-01T00:00:00Z");
    let deleted = object(json!({"metadata": {"annotations": {PAUSED: ""}, "deletionTimestamp": at}}));
    assert_eq!(bench.turn(&deleted), [], "a deletion waits for the end of the pause");
    assert_eq!(bench.report().finalizer, FinalizerStep::Keep);
}

/// S0.18: hosts that were written before a restart end their work.
#[test]
fn after_a_start_a_deleted_object_serves_hosts_in_work() {
    let mut bench = Bench::new();
    let deleted = object(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    bench.hosts_in_work = None;
    assert_eq!(bench.turn(&deleted).len(), 4);
    let report = bench.report();
    assert!(report.message.contains("not known yet"), "{}", report.message);
    assert_eq!(report.finalizer, FinalizerStep::Keep);
    bench.hosts_in_work = Some(vec!["rack/h1".to_owned()]);
    assert_eq!(bench.turn(&deleted), []);
    bench.hosts_in_work = Some(Vec::new());
    assert_eq!(bench.turn(&deleted).len(), 4);
    assert_eq!(bench.report().finalizer, FinalizerStep::Remove);
}

#[test]
fn an_edit_that_a_service_refused_is_forgotten_when_it_is_taken_back_or_mended() {
    let refuses = |step: ServiceStep| match step {
        ServiceStep::Adjust(_) => Err(ServiceFailure("it overlaps".to_owned())),
        _ => Ok(()),
    };
    let edited = object(json!({"spec": {"provisioningDHCPRange": "10.77.0.10,10.77.0.30"}}));
    let mended = object(json!({"spec": {"provisioningDHCPRange": "10.77.0.10,10.77.0.25"}}));
    for (next, steps) in [(object(json!({})), 0), (mended, 1)] {
        let mut bench = Bench::new();
        bench.turn(&object(json!({})));
        bench.turn_with(Some(&edited), refuses);
        let report = bench.report();
        assert_eq!(report.reason, Some(SyncReason::SyncingResources), "{}", report.message);
        assert!(report.message.contains("it overlaps"), "{}", report.message);
        assert_eq!(bench.turn(&next).len(), steps);
        bench.pass(START_LIMIT.as_secs());
        assert_eq!(bench.reason(), Some(SyncReason::DeployComplete));
    }
}

/// S0.4, where the network that runs has no interface of its own.
#[test]
fn a_wrong_edit_of_a_network_without_an_interface_changes_nothing() {
    let mut bench = Bench::new();
    let nowhere = object(json!({"spec": {"provisioningNetwork": "Disabled", "provisioningIP": "",
        "provisioningNetworkCIDR": "", "provisioningDHCPRange": "", "provisioningInterface": ""}}));
    assert_eq!(bench.turn(&nowhere), [ServiceStep::Start(ServiceName::Http)]);
    assert_eq!(bench.turn(&object(json!({"spec": {"provisioningInterface": "s9"}}))), []);
    assert_eq!(bench.reason(), Some(SyncReason::InvalidConfiguration));
}

/// The API listens on all addresses, of which none is known to be one that hosts reach.
#[test]
fn an_api_without_an_address_of_its_own_is_no_address_for_hosts() {
    let mut bench = Bench::new();
    bench.settings.api_address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let nowhere = object(json!({"spec": {"provisioningNetwork": "Disabled", "provisioningIP": "",
        "provisioningNetworkCIDR": "", "provisioningDHCPRange": ""}}));
    assert_eq!(bench.turn(&nowhere), []);
    let report = bench.report();
    assert_eq!(report.reason, Some(SyncReason::InvalidConfiguration));
    assert!(report.message.starts_with("spec.provisioningIP: without it"), "{}", report.message);
}

/// No host is led to an address that nothing serves, and none begins a boot that cannot succeed.
#[test]
fn dhcp_waits_for_what_it_leads_to_and_hosts_wait_for_both() {
    let mut bench = Bench::new();
    let no_http = |step: ServiceStep| match step {
        ServiceStep::Start(ServiceName::Http) => Err(ServiceFailure("the address is not there".to_owned())),
        _ => Ok(()),
    };
    assert!(!bench.turn_with(Some(&object(json!({}))), no_http).is_empty());
    assert!(bench.sync.must_wait(ServiceStep::Start(ServiceName::Dhcp)));
    assert!(!bench.sync.must_wait(ServiceStep::Start(ServiceName::Tftp)));
    bench.pass(1);
    bench.turn(&object(json!({})));
    assert!(!bench.sync.must_wait(ServiceStep::Start(ServiceName::Dhcp)));
    assert_eq!(bench.report().work_hold, None);
    bench.sync.ended(bench.uptime, ServiceName::Dhcp, "the socket failed".to_owned());
    assert!(bench.report().work_hold.is_some(), "no host gets an address");
    bench.pass(1);
    bench.turn(&object(json!({})));
    bench.interfaces.clear();
    bench.turn(&object(json!({})));
    assert!(bench.report().work_hold.is_some(), "the interface is gone");
}

/// DHCP was stopped for another address, and nothing but HTTP held its start up.
#[test]
fn dhcp_that_was_replaced_starts_once_http_runs() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    let moved = object(json!({"spec": {"provisioningIP": "10.77.0.9"}}));
    let no_http = |step: ServiceStep| match step {
        ServiceStep::Start(ServiceName::Http) => Err(ServiceFailure("the address is not there".to_owned())),
        _ => Ok(()),
    };
    let steps = bench.turn_with(Some(&moved), no_http);
    assert!(
        steps.contains(&ServiceStep::Stop(ServiceName::Dhcp))
            && !steps.contains(&ServiceStep::Start(ServiceName::Dhcp))
    );
    bench.pass(1);
    assert_eq!(bench.turn(&moved), [ServiceStep::Start(ServiceName::Http), ServiceStep::Start(ServiceName::Dhcp)]);
    assert_eq!(bench.reason(), Some(SyncReason::DeployComplete));
}

/// An interface that comes back while an edit is wrong is served as before the edit.
#[test]
fn an_interface_that_returns_is_served_while_an_edit_is_wrong() {
    let mut bench = Bench::new();
    bench.turn(&object(json!({})));
    let wrong = object(json!({"spec": {"provisioningIP": "none"}}));
    assert_eq!(bench.turn(&wrong), []);
    bench.interfaces = vec![interface("s0", 9)];
    let steps = bench.turn(&wrong);
    for name in [ServiceName::Address, ServiceName::Tftp, ServiceName::Dhcp] {
        assert!(steps.contains(&ServiceStep::Stop(name)) && steps.contains(&ServiceStep::Start(name)), "{steps:?}");
    }
}
