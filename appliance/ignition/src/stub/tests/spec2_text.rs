//! Names of networkd's files, and groups.

use serde_json::{Value, json};

use super::STRICT;
use super::spec2::{old, refused};
use crate::stub::spec2::{DuplicatePolicy, Spec2Options, convert};

#[test]
fn files_of_networkd_stay_in_their_folder() {
    let unit = |name: &str, dropin: &str| {
        let dropins = json!([{"name": dropin, "contents": "[Link]\n"}]);
        old("2.3.0", json!({"networkd": {"units": [{"name": name, "dropins": dropins}]}}))
    };
    let kinds = "networkd.units[0].name: must be a file's name that ends in .link, .netdev or .network";
    let conf = "networkd.units[0].dropins[0].name: must be a file's name that ends in .conf";
    for (name, dropin, wanted) in [
        ("a/b.link", "1.conf", kinds),
        ("a.service", "1.conf", kinds),
        ("a.link", "1.txt", conf),
        ("a.link", "a/1.conf", conf),
    ] {
        assert_eq!(refused(unit(name, dropin)), wanted, "{name} {dropin}");
    }
    for kind in ["link", "netdev", "network"] {
        let new = convert(unit(&format!("a.{kind}"), "1.conf"), STRICT).unwrap();
        assert_eq!(new["storage"]["files"][0]["path"], format!("/etc/systemd/network/a.{kind}.d/1.conf"));
    }
}

#[test]
fn a_group_that_stands_twice_is_refused_or_the_last_counts() {
    let with = |groups: Value| old("2.3.0", json!({"passwd": {"groups": groups}}));
    let groups = json!([{"name": "a", "gid": 1}, {"name": "b", "gid": 2, "passwordHash": "x"}]);
    assert_eq!(convert(with(groups.clone()), STRICT).unwrap()["passwd"]["groups"], groups);
    let twice = with(json!([{"name": "a", "gid": 1}, {"name": "b", "gid": 2}, {"name": "a", "gid": 3}]));
    assert_eq!(refused(twice.clone()), "passwd.groups[2].name: is the name of another group too");
    let last = Spec2Options { duplicates: DuplicatePolicy::LastWins, ..STRICT };
    assert_eq!(
        convert(twice, last).unwrap()["passwd"]["groups"],
        json!([{"name": "a", "gid": 3}, {"name": "b", "gid": 2}])
    );
}
