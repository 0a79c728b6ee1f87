//! The numbers of clauses: each that code, tests, TOML or documents name has its line in `docs/dev/spec`, and each line
//! there has its entry in the tables of tests.
//!
//! There are clauses (`S0.1`), sections (`S0-2.3`), and the numbers of three lists: faults (`F1`), attacks (`A1`) and
//! defects (`D1`). Clauses and sections count wherever they stand. A letter with a number may be much else (a key, a
//! memory slot, a part of a digest), so that those of the lists count in comments, TOML and documents only, and not
//! between backticks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the lines stand.
const SPEC: &str = "docs/dev/spec/";
/// Where the clauses are listed with their tests.
const CHECKLIST: &str = "tests/checklist.toml";
/// Where the numbers of the three lists are listed with their tests.
const PROMISES: &str = "tests/promises.toml";
/// What is read beside scripts without an extension.
const EXTENSIONS: [&str; 6] = ["md", "py", "rs", "sh", "toml", "yaml"];
/// Folders without anything to read: what cargo builds, and inputs that fuzzing found.
const SKIPPED: [&str; 2] = ["corpus", "target"];
/// A line that says what is owed is longer than this.
const TEXT_CHARS_MIN: usize = 20;
/// Numbers that a test makes up, to show that an unknown one is refused: its file and the number.
static MADE_UP: [(&str, &str); 1] = [("tests/tests/promises/checklist.rs", concat!("S3", ".99"))];

/// Texts by their paths from the repository's top.
type Texts = BTreeMap<String, String>;

#[test]
fn every_clause_that_is_named_can_be_looked_up() {
    let texts = texts(&repository());
    for file in [CHECKLIST, PROMISES, "tests/tests/clauses.rs", "docs/dev/spec/S0.md", "qemu/lab"] {
        assert!(texts.contains_key(file), "{file} is not read");
    }
    let faults = faults(&texts);
    assert!(faults.is_empty(), "numbers of clauses:\n{}", faults.join("\n"));
}

/// The check finds what it is for.
#[test]
fn a_clause_without_a_line_is_found() {
    let mut good = texts(&repository());
    good.retain(|file, _| file.starts_with(SPEC) || file == CHECKLIST || file == PROMISES);
    let line = |id: &str, bold: &str, text: &str| format!("- <a id=\"{id}\"></a>**{bold}** {text}\n");
    let said = "What is owed stands here in plain words.";
    let (clause, section) = (format!("S{}.{}", 9, 1), format!("S{}-{}.{}", 1, 77, 2));
    let (fault, attack) = (format!("F{}", 99), format!("A{}", 97));
    let cases = [
        ("agent/x.rs", format!("fn f() {{}}\n/// {clause}: a doc comment.\n"), format!("agent/x.rs:2 names {clause}")),
        ("agent/x.rs", format!("let text = \"{clause}\";\n"), format!("agent/x.rs:1 names {clause}")),
        ("agent/x.rs", format!("let x = 1; // {fault}\n"), format!("agent/x.rs:1 names {fault}")),
        ("docs/guide/x.md", format!("# Title\n\nAs `{section}` says.\n"), format!("docs/guide/x.md:3 names {section}")),
        ("docs/guide/x.md", format!("See ({attack}).\n"), format!("docs/guide/x.md:1 names {attack}")),
        ("qemu/x.toml", format!("# a comment\nline = \"{fault}\"\n"), format!("qemu/x.toml:2 names {fault}")),
        ("qemu/x", format!("run it # as {attack} asks\n"), format!("qemu/x:1 names {attack}")),
        ("docs/dev/spec/x.md", line("S0.1", "S0.1", said), "S0.1 has a line already".to_owned()),
        ("docs/dev/spec/x.md", line(&fault, &attack, said), format!("not followed by **{fault}**")),
        ("docs/dev/spec/x.md", line("F1a", "F1a", said), "F1a is no number of a clause".to_owned()),
        ("docs/dev/spec/x.md", line(&fault, &fault, "Short."), format!("{fault} does not say what is owed")),
        ("docs/dev/spec/x.md", line(&fault, &fault, said), format!("{fault} has no entry in {PROMISES}")),
        ("docs/dev/spec/x.md", line(&clause, &clause, said), format!("{clause} has no entry in {CHECKLIST}")),
    ];
    for (file, text, expected) in cases {
        let mut texts = good.clone();
        texts.insert(file.to_owned(), text);
        let faults = faults(&texts);
        assert!(faults.iter().any(|fault| fault.contains(&expected)), "{expected}: {faults:?}");
    }
    let mut texts = good;
    let page = texts.get_mut("docs/dev/spec/S2.md").unwrap();
    *page = page.replace("<a id=\"S2.7\"></a>", "");
    let faults = faults(&texts);
    let is_it = |fault: &String| fault.starts_with(CHECKLIST) && fault.contains("names S2.7,");
    assert!(faults.iter().any(is_it), "a clause of the checklist without a line: {faults:?}");
}

/// What only looks like a number is left alone.
#[test]
fn other_words_are_no_clauses() {
    let cases = [
        ("x.rs", "let key = \"F99\"; // not `F98`, Cortex-A97, 0xA96, %A95 nor D0"),
        ("x.rs", "let serial = \"LS9-1\"; // S1, S3.x, S1-2-3 and S3.14.15"),
        ("x.md", "Press `F98`.\n\n```\nslot A97\n```\n"),
        ("x.sh", "locate A97"),
    ];
    for (file, text) in cases {
        assert_eq!(named(file, text), Vec::<Named<'_>>::new(), "{text}");
    }
    let numbers: Vec<&str> = numbers("S0.1 to S1-2.2, (S1-6). F1/S3.15: \"A18\", S4.28-S4.1").collect();
    assert_eq!(numbers, ["S0.1", "S1-2.2", "S1-6", "F1", "S3.15", "A18", "S4.28", "S4.1"]);
}

/// A number, and the line of a file that names it.
#[derive(Debug, PartialEq, Eq)]
struct Named<'a> {
    line: usize,
    number: &'a str,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Every text below a folder that may name a clause.
fn texts(root: &Path) -> Texts {
    let mut texts = Texts::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                folders.push(path);
            } else if kind.is_file() && may_name_clauses(&path) {
                // What is no text has no extension of these, and names nothing.
                let Ok(text) = std::fs::read_to_string(&path) else { continue };
                texts.insert(path.strip_prefix(root).unwrap().display().to_string(), text);
            }
        }
    }
    texts
}

fn may_name_clauses(path: &Path) -> bool {
    path.extension().is_none_or(|extension| EXTENSIONS.iter().any(|read| extension == *read))
}

/// Every number without its line, every line without its entry, and every line that is not as it must be.
fn faults(texts: &Texts) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = lines_of(texts, &mut faults);
    for (file, text) in texts {
        let is_unknown =
            |named: &Named<'_>| !lines.contains_key(named.number) && !MADE_UP.contains(&(file.as_str(), named.number));
        for Named { line, number } in named(file, text).into_iter().filter(is_unknown) {
            faults.push(format!(
                "{file}:{line} names {number}, which has no line in {SPEC}: correct the number, or write its line in \
                 the page of its list, as {SPEC}README.md says"
            ));
        }
    }
    for (number, place) in lines {
        let table = if number.starts_with('S') { CHECKLIST } else { PROMISES };
        let has_entry = texts.get(table).is_some_and(|text| text.contains(&format!("line = \"{number}\"\n")));
        let is_section = number.contains('-');
        if !is_section && !has_entry {
            faults.push(format!(
                "{place}: {number} has no entry in {table}: add one with the tests that hold it, or with why there is \
                 none"
            ));
        }
    }
    faults
}

/// The place of each number's line in the lists; what is wrong with the lines goes to `faults`.
fn lines_of<'a>(texts: &'a Texts, faults: &mut Vec<String>) -> BTreeMap<&'a str, String> {
    let mut lines: BTreeMap<&str, String> = BTreeMap::new();
    for (file, page) in texts.iter().filter(|(file, _)| file.starts_with(SPEC)) {
        for (index, line) in page.lines().enumerate() {
            let Some(anchor) = line.trim_start_matches("- ").strip_prefix("<a id=\"") else { continue };
            let place = format!("{file}:{}", index + 1);
            let (number, text) = anchor.split_once("\"></a>").unwrap_or((anchor, ""));
            if numbers(number).next() != Some(number) {
                faults.push(format!("{place}: {number} is no number of a clause: write one such as S0.1 or F1"));
            }
            match text.strip_prefix(&format!("**{number}**")) {
                Some(text) if text.trim().chars().count() >= TEXT_CHARS_MIN => {}
                Some(_) => faults.push(format!("{place}: {number} does not say what is owed: write it in plain words")),
                None => faults.push(format!(
                    "{place}: the anchor {number} is not followed by **{number}**: give both the same number"
                )),
            }
            match lines.get(number) {
                Some(before) => faults.push(format!("{place}: {number} has a line already, in {before}: keep one")),
                None => drop(lines.insert(number, place)),
            }
        }
    }
    lines
}

/// The numbers that a file names.
fn named<'a>(file: &str, text: &'a str) -> Vec<Named<'a>> {
    let mark = comment_mark(file);
    let mut is_fenced = false;
    let mut named = Vec::new();
    for (index, line) in text.lines().enumerate() {
        is_fenced ^= mark.is_none() && line.starts_with("```");
        let is_clause = |number: &&str| number.starts_with('S');
        named.extend(numbers(line).filter(is_clause).map(|number| Named { line: index + 1, number }));
        let said = match mark {
            Some(mark) => line.split_once(mark).map_or("", |(_, said)| said),
            None if is_fenced => "",
            None => line,
        };
        // Every second piece stood between backticks.
        let lists = said.split('`').step_by(2).flat_map(numbers).filter(|number| !number.starts_with('S'));
        named.extend(lists.map(|number| Named { line: index + 1, number }));
    }
    named
}

/// What comments begin with in a file; nothing where all of it is read.
fn comment_mark(file: &str) -> Option<&'static str> {
    match Path::new(file).extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Some("//"),
        Some("md" | "toml") => None,
        Some(_) | None => Some("#"),
    }
}

/// The numbers of clauses, sections and lists in a text, in its order.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(['S', 'F', 'A', 'D']).filter_map(move |(at, letter)| {
        let before = text[..at].chars().next_back();
        let is_inside = before.is_some_and(|before| match letter {
            "S" => before.is_alphanumeric() || before == '_',
            _ => before.is_alphanumeric() || "_-./:%".contains(before),
        });
        if is_inside { None } else { number_at_start(&text[at..]) }
    })
}

/// The number that a text begins with. Its first character is one of the four letters.
fn number_at_start(text: &str) -> Option<&str> {
    let chapter = 1 + digits(&text[1..])?;
    let end = match (text.starts_with('S'), text.as_bytes().get(chapter)) {
        // No list begins at 0.
        (false, _) if text[1..].starts_with('0') => return None,
        (false, _) => chapter,
        (true, Some(b'.')) => chapter + 1 + digits(&text[chapter + 1..])?,
        (true, Some(b'-')) => {
            let section = chapter + 1 + digits(&text[chapter + 1..])?;
            let part = text[section..].strip_prefix('.').and_then(digits);
            part.map_or(section, |part| section + 1 + part)
        }
        (true, Some(_) | None) => return None,
    };
    let mut behind = text[end..].chars();
    let is_whole = match behind.next() {
        Some('.' | '-') => !behind.next().is_some_and(|next| next.is_ascii_digit()),
        Some(next) => !next.is_alphanumeric() && next != '_',
        None => true,
    };
    is_whole.then(|| &text[..end])
}

/// How many digits a text begins with, where they are a number below 100 without a zero before it.
fn digits(text: &str) -> Option<usize> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_padded = count > 1 && text.starts_with('0');
    ((1..=2).contains(&count) && !is_padded).then_some(count)
}
