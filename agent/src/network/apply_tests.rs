#![allow(clippy::unwrap_used, reason = "tests")]
//! In a network namespace of the test's own, with a veth pair: VLANs and bonds are modules that this kernel may not
//! have, so they are tried in the lab's guests (`qemu/scenarios`).

use std::{net::TcpListener, path::Path};

use firesteel_wire::network::{InterfaceAddress, NetworkRoute};
use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, unshare};

use super::*;

/// Runs in a thread with a network namespace of its own; not at all without the right to make one.
fn in_namespace(run: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("skipped: no network namespace can be made here: {error}");
            return;
        }
        run();
    });
    thread.join().unwrap();
}

/// A sysfs that shows these interfaces as NICs.
fn sysfs(folder: &Path, nics: &[(&str, &str)]) -> Roots {
    for (name, mac) in nics {
        let folder = folder.join("class/net").join(name);
        fs::create_dir_all(folder.join("device")).unwrap();
        fs::write(folder.join("address"), mac).unwrap();
        fs::write(folder.join("carrier"), "1").unwrap();
    }
    Roots { sys: folder.to_owned(), ..Roots::default() }
}

fn addresses(interface: &str) -> Vec<String> {
    let all = getifaddrs().unwrap().filter(|one| one.interface_name == interface);
    let mut found: Vec<_> = all
        .filter_map(|one| {
            let address = one.address?;
            let v6 = address.as_sockaddr_in6().map(|v6| v6.ip().to_string());
            address.as_sockaddr_in().map(|v4| v4.ip().to_string()).or(v6)
        })
        .filter(|text| !text.starts_with("fe80"))
        .collect();
    found.sort();
    found
}

fn plan(mac: &str) -> NetworkPlan {
    let mut nic = NetworkLink::new("port", LinkKind::Nic { mac: mac.to_owned() });
    nic.mtu = Some(1400);
    nic.addresses = vec![
        InterfaceAddress { ip: [192, 0, 2, 9].into(), prefix: 24 },
        InterfaceAddress { ip: "2001:db8::9".parse().unwrap(), prefix: 64 },
    ];
    let to = InterfaceAddress { ip: [198, 51, 100, 0].into(), prefix: 24 };
    let routes = vec![NetworkRoute { to, via: Some([192, 0, 2, 1].into()), on: Some("port".into()), metric: Some(7) }];
    NetworkPlan { links: vec![nic], routes }
}

#[test]
fn addresses_and_routes_are_made_and_taken_back() {
    in_namespace(|| {
        let mut netlink = Netlink::open().unwrap();
        netlink.add_veth("near", "far").unwrap();
        netlink.switch("far", true).unwrap();
        netlink.add_address("far", [192, 0, 2, 1].into(), 24).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let roots = sysfs(folder.path(), &[("near", "52:54:00:00:00:09")]);
        let plan = plan("52:54:00:00:00:09");
        for _ in 0..2 {
            let mut applied = AppliedNetwork::new(&roots, &plan);
            applied.apply().unwrap();
            assert_eq!(addresses("near"), ["192.0.2.9", "2001:db8::9"]);
            let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap();
            assert!(routes.lines().any(|line| line.starts_with("near\t006433C6\t010200C0")), "{routes}");
            assert_eq!(applied.obstacle(), None);
            applied.undo();
            assert!(addresses("near").is_empty());
            let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap();
            assert!(!routes.contains("near"), "{routes}");
        }
    });
}

#[test]
fn what_cannot_be_done_is_undone() {
    in_namespace(|| {
        let mut netlink = Netlink::open().unwrap();
        netlink.add_veth("near", "far").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let roots = sysfs(folder.path(), &[("near", "52:54:00:00:00:09")]);
        let mut plan = plan("52:54:00:00:00:09");
        // Not on any network of the plan: the kernel does not take it.
        plan.routes[0].via = Some([203, 0, 113, 1].into());
        let mut applied = AppliedNetwork::new(&roots, &plan);
        let error = format!("{:#}", applied.apply().unwrap_err());
        assert!(error.contains("adding the route to 198.51.100.0/24"), "{error}");
        applied.undo();
        assert!(addresses("near").is_empty());
    });
}

/// A worker that died may have left links of its plan behind, of whatever kind.
#[test]
fn what_a_dead_worker_left_is_removed() {
    in_namespace(|| {
        let mut netlink = Netlink::open().unwrap();
        netlink.add_veth("plan3", "planet").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let roots = sysfs(folder.path(), &[("plan3", "52:54:00:00:00:03"), ("planet", "52:54:00:00:00:04")]);
        remove_leftovers(&roots, &mut netlink).unwrap();
        assert!(firesteel_netlink::index_of("plan3").is_err());
        // Named in sysfs and gone: as a VLAN that went with its bond.
        remove_leftovers(&roots, &mut netlink).unwrap();
    });
}

#[test]
fn an_appliance_is_reached_over_a_plan() {
    in_namespace(|| {
        let mut netlink = Netlink::open().unwrap();
        netlink.add_veth("near", "far").unwrap();
        for interface in ["far", "lo"] {
            netlink.switch(interface, true).unwrap();
        }
        netlink.add_address("far", [192, 0, 2, 1].into(), 24).unwrap();
        let listener = TcpListener::bind("192.0.2.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let roots = sysfs(folder.path(), &[("near", "52:54:00:00:00:09")]);
        let plan = plan("52:54:00:00:00:09");
        let appliance = listener.local_addr().unwrap();
        let mut both =
            super::super::RealNetworkSetup { roots: &roots, plan: &plan, appliance, boot_mac: "52:54:00:00:00:09" };
        let text = super::super::NetworkSetup::by_plan(&mut both).unwrap();
        assert!(text.contains("192.0.2.9/24"), "{text}");
    });
}
