//! The written pages, held by the sources: links lead somewhere, pages are short and plain, and each name that a user
//! meets has a line in `docs/reference`.
//!
//! | name | its owner | found |
//! |---|---|---|
//! | annotations, labels | constants, those of hosts in `bare_metal_host/annotations.rs` | in the sources |
//! | API kinds | the registry of the API | by calling it |
//! | commands, flags | `clap`'s `Command` | by calling it |
//! | crates | `Cargo.toml` of the workspace and of its members | by reading them |
//! | metrics | names that are registered, in files named `metrics` | in the sources |
//! | alerts | `appliance/alerts/firesteel.yaml` | by reading it |
//! | condition types | none: they are named where each condition is made | in the sources |
//! | event reasons | none: they are named where each event is recorded | in the sources |
//!
//! No list of names is copied here. What has no owner is found by the calls that make it (`made`), and a call whose
//! name cannot be seen is a fault.
//!
//! `tree` finds files, `page` reads Markdown, `links` follows it, `prose` measures it, `rust`, `source` and `constants`
//! read Rust, `names` and `made` find names, `command_line` the commands.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "each test prints what it measured")]

mod command_line;
mod constants;
mod links;
mod made;
mod names;
mod page;
mod prose;
mod rust;
mod source;
mod tree;

use std::collections::BTreeMap;

use page::Page;

/// Longest page, in lines.
const PAGE_LINES_MAX: usize = 300;
/// The README is read first, so it is shorter.
const README: &str = "README.md";
const README_LINES_MAX: usize = 150;
const README_BYTES_MAX: usize = 9_000;
/// Where the guides are, and how long their sentences are on average.
const GUIDES: &str = "docs/guide/";
const WORDS_PER_SENTENCE_MAX: f64 = 18.0;
/// Pages that a fault about long sentences names.
const LONG_PAGES_NAMED: usize = 5;
/// Where the reference is.
const REFERENCE: &str = "docs/reference/";

/// Reads all written pages, by their paths below the repository's root.
fn pages() -> BTreeMap<String, Page> {
    let root = tree::root();
    let paths = tree::files(&root, "md");
    paths.iter().map(|path| (tree::name_of(path), Page::read(path))).collect()
}

/// Fails with all faults, one a line.
fn hold(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}: {} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn no_link_is_dead() {
    let pages = pages();
    let root = tree::root();
    let faults: Vec<String> = pages.iter().flat_map(|(name, page)| links::dead(name, page, &pages, &root)).collect();
    let count: usize = pages.values().map(|page| links::targets(page).len()).sum();
    println!("{} pages, {count} links", pages.len());
    hold("links of the written pages", &faults);
}

#[test]
fn pages_are_short() {
    let faults: Vec<String> = pages().iter().flat_map(|(name, page)| lengths(name, page)).collect();
    hold("lengths of the written pages", &faults);
}

fn lengths(name: &str, page: &Page) -> Vec<String> {
    let lines_max = if name == README { README_LINES_MAX } else { PAGE_LINES_MAX };
    let mut faults = Vec::new();
    let mut bound = |what: &str, size: usize, size_max: usize| {
        if size > size_max {
            faults.push(format!("{name} has {size} {what}, and {size_max} are allowed: move a part into another page"));
        }
    };
    bound("lines", page.lines.len(), lines_max);
    if name == README {
        bound("bytes", page.bytes, README_BYTES_MAX);
    }
    faults
}

/// The figure is printed: words per sentence of each guide, and of all together.
#[test]
fn guides_have_short_sentences() {
    let pages = pages();
    let guides = pages.iter().filter(|(name, _)| name.starts_with(GUIDES));
    let mut measured: Vec<(prose::Measure, &str)> =
        guides.map(|(name, page)| (prose::measure(page), name.as_str())).collect();
    assert!(!measured.is_empty(), "{GUIDES} has no page: write the guides, or say here where they are");
    measured.sort_by(|(one, _), (other, _)| other.words_per_sentence().total_cmp(&one.words_per_sentence()));
    for (measure, name) in &measured {
        println!("{:5.1} words per sentence, {:4} sentences  {name}", measure.words_per_sentence(), measure.sentences);
    }
    let all = measured.iter().fold(prose::Measure::default(), |all, (measure, _)| all.with(*measure));
    println!("{:5.1} words per sentence in {} guides", all.words_per_sentence(), measured.len());
    let longest: Vec<&str> = measured.iter().take(LONG_PAGES_NAMED).map(|(_, name)| *name).collect();
    assert!(
        all.words_per_sentence() <= WORDS_PER_SENTENCE_MAX,
        "the guides have {:.1} words per sentence, and {WORDS_PER_SENTENCE_MAX} are allowed: split the long sentences, \
         first in {}",
        all.words_per_sentence(),
        longest.join(", ")
    );
}

#[test]
fn the_reference_has_a_line_for_each_name() {
    let (pages, root) = (pages(), tree::root());
    let sources = source::all(&root);
    let constants = constants::Constants::of(&sources);
    let (conditions, events) = (made::conditions(&sources, &constants), made::events(&sources, &constants));
    let topics = [
        ("annotations.md", "annotation or label", names::annotations(&sources)),
        ("conditions.md", "condition type", conditions.names),
        ("events.md", "event reason", events.names),
        ("metrics.md", "metric", names::metrics(&sources)),
        ("metrics.md", "alert", names::alerts(&root)),
        ("crates.md", "crate", names::crates(&root)),
        ("api-kinds.md", "API kind", names::kinds()),
    ];
    let mut faults: Vec<String> = conditions.faults.into_iter().chain(events.faults).collect();
    for (file, what, found) in &topics {
        let file = format!("{REFERENCE}{file}");
        println!("{:4} {what}: {file}", found.len());
        if found.is_empty() {
            faults.push(format!("no {what} is found any more: say in tests/tests/documents where they are now"));
        }
        faults.extend(names::missing(&file, pages.get(&file), what, found));
    }
    let files = ["cli.md", "cli-objects.md"].map(|file| format!("{REFERENCE}{file}"));
    let commands = command_line::commands();
    println!("{:4} command: {}", commands.len(), files.join(", "));
    let found: Vec<&Page> = files.iter().filter_map(|file| pages.get(file)).collect();
    faults.extend(command_line::missing(&files.join(" or "), &found, &commands));
    hold("names without a line in docs/reference", &faults);
}
