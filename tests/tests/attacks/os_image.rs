//! Hosts that name the OS image of the Provisioning object at the appliance's own address, as upstream's installer writes
//! it (S0.12): they are installed with what was fetched once, and the appliance asks none of its own listeners.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firesteel_tests::agent_line::token_of;
use firesteel_tests::field::{Field, discover, mac};
use firesteel_tests::network::{ADDRESS, Dhcp};
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

/// The image of a disk with one Linux partition (MBR).
fn disk() -> Vec<u8> {
    let mut image = vec![0_u8; 1 << 20];
    image[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 2, 0, 8, 0, 0, 0, 0, 4, 0, 0]);
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image
}

/// Serves a file from now on at any path, in this thread's namespace; returns the origin, and the count of requests.
fn origin(file: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((ADDRESS, 0)).unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            counted.fetch_add(1, Ordering::SeqCst);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", file.len());
            drop((&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(&file)));
        }
    });
    (origin, requests)
}

/// Names the image in the Provisioning object.
fn name_os_image(field: &Field, url: &str) {
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"},
        "spec": {
            "provisioningNetwork": "Managed", "provisioningInterface": "s0", "provisioningIP": ADDRESS,
            "provisioningNetworkCIDR": "10.77.0.0/24", "provisioningDHCPRange": "10.77.0.100,10.77.0.199",
            "provisioningOSDownloadURL": url,
        },
    }));
}

#[test]
fn a_host_is_installed_with_the_cached_image_and_the_appliance_asks_itself_for_nothing() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        let image = disk();
        let sha256 = hex::encode(digest(&SHA256, &image));
        let (origin, requests) = origin(image);
        let served = format!("http://{ADDRESS}:8080/images/os.qcow2/cached-os.qcow2");
        field.apply(&json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "victim"},
            "spec": {
                "online": true, "bootMACAddress": mac(1).to_string(),
                "image": {"url": served, "checksum": format!("{served}.md5sum")},
            },
        }));
        field.until(&["describe", "host", "victim"], |page| page.contains("waiting for the host to boot"));
        name_os_image(field, &format!("{origin}/os.qcow2.gz?sha256={sha256}"));
        let leased = field.lease(&discover(1, CLASS, &[7]));
        let script = hostile.script(leased, &mac(1).to_string()).body;
        assert!(token_of(&script).is_some(), "{script}");
        let mut agent = HostAgent::of(field, 1);
        agent.boot(field, &script);
        agent.install(field, |_| {});
        field.until(&["describe", "host", "victim"], |page| page.contains("ProvisioningComplete"));
        let asked = requests.load(Ordering::SeqCst);
        judge(
            "an image at the appliance's own address",
            "its own listener",
            "one request",
            &match asked {
                1 => "one request".to_owned(),
                more => format!("{more} requests"),
            },
        );
    });
}
