//! A Provisioning object is deleted (S0.18): its services stop, what was made for it goes, and nothing else does.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use firesteel_facts::Sha256;
use firesteel_tests::network::PROVISIONING;
use serde_json::Value;

use crate::file_server::{File, FileServer};
use crate::site::{Site, disk, gzip, os_image, with_site};

/// Keys and logins, with what they hold. Certificates of the server are made again at any time.
fn kept(site: &Site) -> BTreeMap<PathBuf, Vec<u8>> {
    let data = site.appliance.data();
    let files = ["secrets", "pki"].into_iter().flat_map(|folder| fs::read_dir(data.join(folder)).unwrap());
    let files = files.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        path.is_file() && !matches!(name.as_str(), "server.crt" | "server.json")
    });
    files.chain([data.join("admin.kubeconfig")]).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_deleted_object_takes_its_image_along_and_no_key_and_no_login() {
    with_site(|site| {
        let packed = gzip(&disk(6, 6));
        let server = FileServer::start();
        let url = server.put(&format!("/os.qcow2.gz?sha256={}", Sha256::of(&packed)), File::of(&packed));
        site.edit(&os_image(&url));
        site.until_complete();
        let before = kept(site);
        for name in ["receipt.key", "admin.token", "token.key", "ca.key", "server.key"] {
            assert!(before.keys().any(|path| path.ends_with(name)), "{name} is among what is compared");
        }
        let (is_done, said) = site.delete();
        assert!(is_done, "{said}");
        site.until(Value::is_null);
        site.until(|_| site.images().is_empty());
        let steps = site.service_steps();
        for service in ["dhcp", "tftp", "image-cache", "http", "address"] {
            let last = steps.iter().rev().find(|line| {
                line.contains(&format!("service=\"{service}\"")) || line.contains(&format!("service={service}"))
            });
            assert!(last.is_some_and(|line| line.contains("stopped")), "{service}: {steps:?}");
        }
        assert_eq!(kept(site), before, "keys and logins stay");
        // A second time there is nothing to delete, and nothing happens.
        let (is_done, said) = site.delete();
        assert!(!is_done && said.contains("not found"), "{said}");
        assert_eq!(kept(site), before);
        // Applied again, all of it comes back.
        let path = site.appliance.folder().join(PROVISIONING);
        site.firesteel(&["apply", "-f", path.to_str().unwrap()]);
        site.until_complete();
        assert_eq!((site.get("/images/os.qcow2/cached-os.qcow2").0, kept(site)), (302, before));
    });
}
