//! The OS image of the Provisioning object (S0.12): fetched once, served only with the digest that its address states,
//! replaced and removed with the address.

use std::fs;

use firesteel_facts::Sha256;

use crate::file_server::{Fault, File, FileServer};
use crate::site::{condition, disk, gzip, os_image, with_site};

const SERVED: &str = "/images/os.qcow2/cached-os.qcow2";

/// The path of an image on its origin, with its digest.
fn path(name: &str, sha256: Sha256) -> String {
    format!("/{name}.gz?sha256={sha256}")
}

#[test]
fn an_image_is_fetched_once_kept_over_restarts_and_fetched_again_where_the_disk_changed_it() {
    with_site(|site| {
        let image = disk(6, 1);
        let packed = gzip(&image);
        let server = FileServer::start();
        // Upstream's installer states the digest of what is in the file. The download is cut, and gone on with.
        let path = path("os.qcow2", Sha256::of(&image));
        let half = packed.len() as u64 / 2;
        let url = server.put(&path, File::of(&packed).with(&[Fault::Cut(half)]));
        assert_eq!(site.get(SERVED).0, 404, "none is named yet");
        let before = site.service_steps().len();
        site.edit(&os_image(&url));
        site.until_complete();
        let steps = site.service_steps().split_off(before);
        assert!(steps.len() == 1 && steps[0].contains("image-cache"), "only this service starts: {steps:?}");
        let (status, _, location) = site.get(SERVED);
        assert_eq!(status, 302);
        let (status, stream, _) = site.get(&location.unwrap());
        assert_eq!((status, zstd::decode_all(&stream[..]).unwrap() == image), (200, true));
        let (status, sums, _) = site.get(&format!("{SERVED}.sha256sum"));
        let expected = format!("{}  cached-os.qcow2\n", Sha256::of(&stream));
        assert_eq!((status, String::from_utf8(sums).unwrap()), (200, expected));
        let fetched = server.seen(&path).len();
        assert_eq!(fetched, 2, "once, in two parts");

        site.appliance.kill_and_start_again();
        site.until(|_| site.get(SERVED).0 == 302);
        assert_eq!(server.seen(&path).len(), fetched);

        let stored = site.appliance.data().join("images").join(&site.images()[0]);
        site.appliance.kill_and_start_again_after(|| {
            let mut bytes = fs::read(&stored).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&stored, bytes).unwrap();
        });
        site.until(|_| site.get(SERVED).0 == 302);
        assert_eq!(server.seen(&path).len(), fetched + 1, "it was read again at the start");
        assert_eq!(fs::read(&stored).unwrap(), stream);
    });
}

#[test]
fn an_image_with_another_digest_is_not_served_and_both_are_in_the_condition() {
    with_site(|site| {
        let image = disk(6, 2);
        let packed = gzip(&image);
        let (expected, found) = (Sha256::of(b"another"), Sha256::of(&packed));
        let server = FileServer::start();
        let wrong = path("os.qcow2", expected);
        let url = server.put(&wrong, File::of(&packed));
        site.edit(&os_image(&url));
        let object = site.until(|object| condition(object, "Degraded")["reason"] == "InvalidConfiguration");
        let message = condition(&object, "Degraded")["message"].as_str().unwrap().to_owned();
        for part in ["spec.provisioningOSDownloadURL", &expected.to_string(), &found.to_string()] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(condition(&object, "Available")["status"], "True", "the rest of the network is served");
        assert_eq!((site.get(SERVED).0, site.images().len()), (404, 0));
        // Another address is another matter, at once; the wrong one was fetched once.
        let right = path("os.qcow2", found);
        let url = server.put(&right, File::of(&packed));
        site.edit(&os_image(&url));
        site.until_complete();
        assert_eq!((site.get(SERVED).0, server.seen(&wrong).len(), server.seen(&right).len()), (302, 1, 1));
    });
}

#[test]
fn an_origin_that_is_off_is_said_and_asked_again() {
    with_site(|site| {
        let packed = gzip(&disk(6, 3));
        let server = FileServer::start();
        let path = path("os.qcow2", Sha256::of(&packed));
        let steps = site.service_steps().len();
        site.edit(&os_image(&server.url(&path)));
        let object = site.until(|object| {
            let progressing = condition(object, "Progressing");
            let message = progressing["message"].as_str().unwrap_or_default();
            message.contains("could not get the OS image os.qcow2 yet") && message.contains("404")
        });
        assert_eq!(condition(&object, "Degraded")["status"], "False");
        assert_eq!(condition(&object, "Available")["status"], "True");
        server.put(&path, File::of(&packed));
        site.until_complete();
        assert_eq!(site.get(SERVED).0, 302);
        assert_eq!(site.service_steps().len(), steps + 1, "nothing else was touched");
    });
}

#[test]
fn another_address_replaces_the_image_and_none_removes_it() {
    with_site(|site| {
        let server = FileServer::start();
        let publish = |name: &str, seed| {
            let packed = gzip(&disk(6, seed));
            server.put(&path(name, Sha256::of(&packed)), File::of(&packed))
        };
        let (first, second) = (publish("os.qcow2", 4), publish("new.qcow2", 5));
        site.edit(&os_image(&first));
        site.until_complete();
        let old = site.images();
        let steps = site.service_steps().len();
        site.edit(&os_image(&second));
        site.until(|_| site.get("/images/new.qcow2/cached-new.qcow2").0 == 302);
        site.until(|_| site.images().len() == 1);
        assert_ne!(site.images(), old, "the image that was replaced is gone");
        assert_eq!(site.get(SERVED).0, 404);
        site.edit(&serde_json::json!({"provisioningOSDownloadURL": null}));
        site.until_complete();
        site.until(|_| site.images().is_empty());
        assert_eq!(site.get("/images/new.qcow2/cached-new.qcow2").0, 404);
        let steps = site.service_steps().split_off(steps);
        assert!(steps.iter().all(|line| line.contains("image-cache")) && steps.len() == 2, "{steps:?}");
    });
}
