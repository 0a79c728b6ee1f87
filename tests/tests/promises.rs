//! The table of what a user relies on, line by line, and the tests that hold it: read from
//! `tests/promises.toml`, checked against the sources, printed.
//!
//! What must be in it: each item of what bad input gets, the faults F1 to F20 and attacks A1 to A18 of the field,
//! the ten defects D1 to D10 of its leaders, and the requirements S3.x of a host's life. A line without a test says why there can be none yet.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the table is what this test shows")]

#[path = "promises/checklist.rs"]
mod checklist;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

const BAD_INPUT: [&str; 45] = [
    "wrong-checksum",
    "truncated-download",
    "stalled-download",
    "reset-download",
    "altered-download",
    "http-error",
    "endless-source",
    "image-larger-than-disk",
    "empty-image",
    "qcow2-backing-file",
    "qcow2-external-data",
    "qcow2-encryption",
    "qcow2-unknown-feature",
    "qcow2-loops",
    "qcow2-absurd-sizes",
    "decompression-bomb",
    "not-a-disk",
    "partition-behind-the-end",
    "bytes-behind-the-end",
    "no-disk-for-hints",
    "several-disks-for-hints",
    "disk-no-longer-the-one-inspected",
    "disk-without-identity",
    "read-only-disk",
    "io-error-at-a-block",
    "silent-corruption",
    "invalid-ignition",
    "missing-secret",
    "stub-larger-than-boot-partition",
    "second-key",
    "token-of-an-older-attempt",
    "token-expired",
    "token-altered",
    "two-machines-with-one-mac",
    "two-machines-with-one-uuid",
    "unknown-mac",
    "no-memory",
    "full-ramdisk",
    "link-flap",
    "spanning-tree",
    "clock-wrong-on-the-host",
    "clock-wrong-on-the-appliance",
    "full-data-folder",
    "full-data-folder-image",
    "full-data-folder-lease",
];
/// Requirements of the host's life; those of inspection, cleaning and claims are held elsewhere.
const HOST_LIFE: [&str; 13] = [
    "S3.15", "S3.16", "S3.17", "S3.18", "S3.19", "S3.22", "S3.24", "S3.25", "S3.26", "S3.27", "S3.28", "S3.29", "S3.31",
];
/// Shortest reason that explains anything.
const REASON_CHARS_MIN: usize = 20;

#[derive(Clone, Debug, Deserialize)]
struct Table {
    promise: Vec<Promise>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Promise {
    line: String,
    promise: String,
    held_by: Vec<String>,
    not_built: String,
}

/// Every line that the table must have, in its order.
fn lines() -> Vec<String> {
    let numbered = |letter: &'static str, last: u32| (1..=last).map(move |number| format!("{letter}{number}"));
    let bad_input = BAD_INPUT.iter().map(|item| format!("bad-input {item}"));
    let life = HOST_LIFE.iter().map(|line| (*line).to_owned());
    bad_input.chain(numbered("F", 20)).chain(numbered("A", 18)).chain(numbered("D", 10)).chain(life).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// What is wrong with the table; the sources are looked up below `root`.
fn faults(table: &Table, root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let wanted = lines();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for promise in &table.promise {
        *counts.entry(promise.line.as_str()).or_default() += 1;
        if !wanted.contains(&promise.line) {
            faults.push(format!("{}: there is no such line", promise.line));
        }
        if promise.promise.len() < REASON_CHARS_MIN {
            faults.push(format!("{}: it does not say what a user relies on", promise.line));
        }
        if promise.held_by.is_empty() && promise.not_built.len() < REASON_CHARS_MIN {
            faults.push(format!("{}: no test holds it, and no reason is given", promise.line));
        }
        let broken = promise.held_by.iter().filter_map(|test| fault_of(test, root).err());
        faults.extend(broken.map(|fault| format!("{}: {fault}", promise.line)));
    }
    for line in wanted {
        match counts.get(line.as_str()).copied().unwrap_or(0) {
            0 => faults.push(format!("{line}: it is missing")),
            1 => {}
            count => faults.push(format!("{line}: it is there {count} times")),
        }
    }
    faults
}

/// Whether `FILE TEST`, `FILE TEST CASE` or `lab NAME` names something that is run.
fn fault_of(test: &str, root: &Path) -> Result<(), String> {
    let words: Vec<&str> = test.split_whitespace().collect();
    match words.as_slice() {
        ["lab", name] => scenario(name, root),
        [file, function] => find(file, function, None, root),
        [file, function, case] => find(file, function, Some(case), root),
        _ => Err(format!("{test:?} is neither FILE TEST nor FILE TEST CASE nor lab NAME")),
    }
}

fn scenario(name: &str, root: &Path) -> Result<(), String> {
    if root.join("qemu/scenarios").join(format!("{name}.toml")).is_file() {
        return Ok(());
    }
    let stories = std::fs::read_to_string(root.join("qemu/src/scenario/mod.rs")).unwrap_or_default();
    let stories = stories.split("pub enum Scenario {").nth(1).and_then(|rest| rest.split('}').next()).unwrap_or("");
    let mut variants = stories.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let is_it = |variant: &str| kebab(variant.trim_end_matches(',')) == name;
    if variants.any(is_it) { Ok(()) } else { Err(format!("the lab has no scenario {name}")) }
}

/// `LifeBios` as the command line has it: `life-bios`.
fn kebab(variant: &str) -> String {
    let mut text = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

fn find(file: &str, function: &str, case: Option<&str>, root: &Path) -> Result<(), String> {
    let source = std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
    let head = format!("fn {function}(");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_head = |line: &&str| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.starts_with(&head)
    };
    let at = lines.iter().position(is_head).ok_or_else(|| format!("{file} has no function {function}"))?;
    let attributes = || lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let is_test = |line: &&str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    if !attributes().any(is_test) {
        return Err(format!("{function} in {file} is not a test"));
    }
    if attributes().any(|line| line.starts_with("#[ignore")) {
        return Err(format!("{function} in {file} is not run"));
    }
    match case {
        Some(case) if !has_case(&root.join(file), case) => Err(format!("{file} has no case {case}")),
        Some(_) | None => Ok(()),
    }
}

/// Whether a file, or one beside it in the same test, has a case of this name.
fn has_case(file: &Path, case: &str) -> bool {
    let folder = file.parent().unwrap_or(file);
    let beside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one_test = folder.join("main.rs").is_file();
    let files = std::iter::once(file.to_path_buf()).chain(beside.filter(|_| is_one_test));
    let mut sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    sources.any(|path| std::fs::read_to_string(path).is_ok_and(|source| source.contains(case)))
}

fn read() -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("promises.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Width of the first column.
const NAME_CHARS: usize = 34;

#[test]
fn every_line_is_held_by_a_test() {
    let table = read();
    println!("{:NAME_CHARS$} WHAT A USER RELIES ON, AND WHAT HOLDS IT", "LINE");
    for promise in &table.promise {
        println!("{:NAME_CHARS$} {}", promise.line.replace("bad-input ", ""), promise.promise);
        for test in &promise.held_by {
            println!("{:NAME_CHARS$}   - {test}", "");
        }
        if !promise.not_built.is_empty() {
            println!("{:NAME_CHARS$}   not built: {}", "", promise.not_built);
        }
    }
    let tests: usize = table.promise.iter().map(|promise| promise.held_by.len()).sum();
    let open = table.promise.iter().filter(|promise| promise.held_by.is_empty()).count();
    println!("{} lines, held by {tests} tests and lab scenarios; {open} about what is not built", table.promise.len());
    let faults = faults(&table, &repository());
    assert!(faults.is_empty(), "tests/promises.toml:\n{}", faults.join("\n"));
}

/// The check finds what it is for.
#[test]
fn a_wrong_table_is_found() {
    let good = read();
    type Spoil = fn(&mut Vec<Promise>);
    let cases: [(Spoil, &str); 10] = [
        (|all| drop(all.remove(3)), "it is missing"),
        (|all| all.push(all[0].clone()), "it is there 2 times"),
        (|all| all[0].line = "F21".into(), "there is no such line"),
        (|all| all[0].promise.clear(), "does not say what a user relies on"),
        (|all| all[0].held_by.clear(), "no test holds it"),
        (|all| all[0].held_by = vec!["tests/none.rs a".into()], "tests/none.rs"),
        (|all| all[0].held_by = vec!["tests/tests/promises.rs no_such_test".into()], "has no function no_such_test"),
        (|all| all[0].held_by = vec!["tests/tests/promises.rs kebab".into()], "is not a test"),
        (|all| all[0].held_by = vec!["lab no-such-scenario".into()], "no scenario"),
        (
            |all| all[0].held_by = vec![["qemu/src/net.rs ports_are_read_from_what_ip_prints", "nosuchcase"].join(" ")],
            "has no case nosuchcase",
        ),
    ];
    for (spoil, text) in cases {
        let mut table = good.clone();
        spoil(&mut table.promise);
        let faults = faults(&table, &repository());
        assert!(faults.iter().any(|fault| fault.contains(text)), "{text}: {faults:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.rs"), "#[test]\n#[ignore = \"slow\"]\nfn sleeps() {}\n").unwrap();
    assert!(fault_of("a.rs sleeps", folder.path()).is_err_and(|fault| fault.contains("is not run")));
    for story in ["life", "life-bios", "no-bmc", "altered-block"] {
        assert_eq!(scenario(story, &repository()), Ok(()));
    }
}
