//! The credentials that the appliance makes (S0.23): long, random, and in no object, event or log.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use firesteel_tests::appliance::Appliance;
use firesteel_tests::canary::{plain_forms, shown_below, shown_in};

use crate::site::{PROGRAM, with_site};

/// The fewest characters of a credential that is made.
const CHARS_MIN: usize = 16;

/// Each secret file with its text.
fn secrets(data: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(data.join("secrets")).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    files.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), text(&path))).collect()
}

#[test]
fn credentials_are_long_and_no_two_appliances_have_the_same() {
    let (one, other) = (Appliance::start(PROGRAM), Appliance::start(PROGRAM));
    let (mine, theirs) = (secrets(&one.data()), secrets(&other.data()));
    assert!(mine.contains_key("admin.token") && mine.keys().eq(theirs.keys()), "{:?}", mine.keys());
    for (name, secret) in &mine {
        assert!(secret.len() >= CHARS_MIN, "{name} is {} characters long", secret.len());
        let again = theirs.values().chain(mine.iter().filter(|(other, _)| *other != name).map(|(_, text)| text));
        assert!(again.into_iter().all(|text| text != secret), "{name} is not random");
    }
    assert!(one.token().len() >= CHARS_MIN && one.token() != other.token());
}

#[test]
fn a_login_that_was_made_is_in_its_own_files_alone() {
    with_site(|site| {
        let data = site.appliance.data();
        let token = site.appliance.token();
        let receipt = secrets(&data).remove("receipt.key").unwrap();
        for (what, secret) in [("the admin's token", &token), ("the receipt key", &receipt)] {
            let forms = plain_forms(secret);
            let own = ["secrets/admin.token", "admin.kubeconfig", "secrets/receipt.key"];
            let found = shown_below(site.appliance.folder(), &forms);
            let elsewhere: Vec<&String> =
                found.iter().filter(|place| !own.iter().any(|own| place.contains(own))).collect();
            assert!(elsewhere.is_empty(), "{what} is in {elsewhere:?}");
            for kind in ["provisionings", "clusteroperators", "events", "namespaces"] {
                let objects = site.firesteel(&["get", kind, "-A", "-o", "json"]);
                assert!(shown_in(kind, objects.as_bytes(), &forms).is_empty(), "{what} is in {kind}");
            }
            assert!(shown_in("audit", site.firesteel(&["audit", "--tail", "1000"]).as_bytes(), &forms).is_empty());
        }
    });
}
