//! This tree keeps the rules.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the test prints what it measured")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use firesteel_tidy::allowed::{self, Allowed};
use firesteel_tidy::arrows::{self, Arrows};
use firesteel_tidy::ratchet::{self, Ratchet};
use firesteel_tidy::rule::{Hit, Rule};
use firesteel_tidy::rules;
use firesteel_tidy::tree::Tree;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("could not read {path}: {error}"))
}

#[test]
fn every_source_keeps_the_rules() {
    let started_at = Instant::now();
    let tree = Tree::read(&root()).unwrap_or_else(|error| panic!("{error:#}"));
    for path in ["agent/src/main.rs", "appliance/kube/src/lib.rs", "qemu/disk/src/lib.rs", "tests/tests/promises.rs"] {
        assert!(tree.files.iter().any(|file| file.path == path), "{path} is not read");
    }
    let arrows: Arrows = toml::from_str(&text(arrows::PATH)).unwrap();
    let allowed: Allowed = toml::from_str(&text(allowed::PATH)).unwrap();
    let (hits, mut faults) = allowed.apply(rules::check(&tree, &arrows));
    let ratchet = Ratchet::parse(&text(ratchet::PATH)).unwrap();
    if std::env::var_os(ratchet::UPDATE).is_some() {
        let updated = ratchet.updated(&hits).unwrap_or_else(|refusal| panic!("{}: {refusal}", ratchet::PATH));
        fs::write(root().join(ratchet::PATH), updated.render()).unwrap();
    } else {
        faults.extend(ratchet.compare(&hits));
    }
    println!(
        "{} files in {:.1} s; hits that are left: {}",
        tree.files.len(),
        started_at.elapsed().as_secs_f64(),
        left(&hits)
    );
    assert!(faults.is_empty(), "the rules of the house: {} faults\n\n{}", faults.len(), faults.join("\n\n"));
}

fn left(hits: &[Hit]) -> String {
    let count = |rule: Rule| hits.iter().filter(|hit| hit.rule == rule).count();
    Rule::ALL.map(|rule| format!("{} {}", rule.name(), count(rule))).join(", ")
}
