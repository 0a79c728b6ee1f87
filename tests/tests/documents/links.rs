//! Where the links of a page lead.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::page::{Page, code_spans};

/// One link: the number of its line, from 1 on, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// The links of a page: `[text](target)`, and definitions of the form `[text]: target`. What is code is no link.
pub(crate) fn targets(page: &Page) -> Vec<Target> {
    let lines = page.lines.iter().enumerate().filter(|(_, line)| !line.is_code);
    lines
        .flat_map(|(index, line)| {
            let text = without_code(&line.text);
            let all: Vec<String> = defined(&text).into_iter().chain(inline(&text)).collect();
            all.into_iter().map(move |target| Target { line: index + 1, target })
        })
        .collect()
}

/// Says of each relative link of a page that leads nowhere how to mend it.
pub(crate) fn dead(name: &str, page: &Page, pages: &BTreeMap<String, Page>, root: &Path) -> Vec<String> {
    let faults = targets(page).into_iter().filter_map(|Target { line, target }| {
        let why = fault_of(name, &target, pages, root)?;
        Some(format!("{name}:{line}: the link to {target:?} is dead: {why}"))
    });
    faults.collect()
}

fn fault_of(name: &str, target: &str, pages: &BTreeMap<String, Page>, root: &Path) -> Option<String> {
    if target.is_empty() {
        return Some("it names nothing; write where it leads".to_owned());
    }
    if is_elsewhere(target) {
        return None;
    }
    if target.starts_with('/') {
        return Some("it begins with a slash; write it relative to the page".to_owned());
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let led_to = if path.is_empty() { name.to_owned() } else { beside(name, path) };
    if led_to.starts_with("..") {
        return Some("it leads out of the repository; name what is meant in words".to_owned());
    }
    if !root.join(&led_to).exists() {
        return Some(format!("there is no {led_to}; correct the path, or write the page"));
    }
    let anchor = anchor?;
    let page = pages.get(&led_to)?;
    let anchors = page.anchors();
    if anchors.contains(anchor) {
        return None;
    }
    let all = anchors.into_iter().collect::<Vec<_>>().join(", ");
    Some(format!("{led_to} has no heading #{anchor}; it has {all}"))
}

/// Whether a target has a scheme, such as `https:`.
fn is_elsewhere(target: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    target.starts_with("//") || target.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// The path below the root that a relative one means on a page; it begins with `..` where it leads out of the root.
fn beside(name: &str, path: &str) -> String {
    let mut found = PathBuf::new();
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    for component in folder.join(path).components() {
        match component {
            Component::ParentDir => {
                if !found.pop() {
                    return format!("../{path}");
                }
            }
            Component::Normal(part) => found.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    found.to_string_lossy().into_owned()
}

/// The line with spaces in place of its inline code.
fn without_code(line: &str) -> String {
    let mut text = line.to_owned();
    for span in code_spans(line) {
        text = text.replacen(&format!("`{span}`"), " ", 1);
    }
    text
}

/// Targets of `[text](target)` and `[text](target "title")`.
fn inline(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| {
        let end = end_of(rest)?;
        let inside = rest[..end].trim();
        let target = inside.split_whitespace().next().unwrap_or_default();
        Some(target.trim_start_matches('<').trim_end_matches('>').to_owned())
    });
    targets.collect()
}

/// Where the bracket ends that was opened before this text.
fn end_of(rest: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Target of a definition, `[text]: target`. Notes, `[^1]: text`, are none.
fn defined(text: &str) -> Option<String> {
    let label = text.trim_start().strip_prefix('[').filter(|label| !label.starts_with('^'))?;
    let (_, target) = label.split_once("]: ")?;
    target.split_whitespace().next().map(|target| target.trim_start_matches('<').trim_end_matches('>').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("docs/guide")).unwrap();
        let written = [("README.md", "# Top\n"), ("docs/guide/a.md", text), ("docs/guide/b.md", "# B\n## It is\n")];
        for (name, text) in written {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let read = |name: &str| (name.to_owned(), Page::read(&folder.path().join(name)));
        let pages: BTreeMap<String, Page> = ["README.md", "docs/guide/a.md", "docs/guide/b.md"].map(read).into();
        dead("docs/guide/a.md", &pages["docs/guide/a.md"], &pages, folder.path())
    }

    #[test]
    fn links_that_lead_somewhere_are_no_faults() {
        let text = "# A page\n[b](b.md), [it](b.md#it-is \"title\"), [top](../../README.md#top), [here](#a-page)\n\
                    [web](https://example.com/x.md), [mail](mailto:a@example.com)\n\
                    `[code](none.md)` and [dir](../guide)\n\
                    ```\n[code](none.md)\n```\n[def]: ./b.md\n";
        assert_eq!(faults(text), Vec::<String>::new());
    }

    #[test]
    fn dead_links_are_found_with_a_remedy() {
        let cases = [
            ("[x](none.md)", "there is no docs/guide/none.md"),
            ("[x](b.md#none)", "has no heading #none; it has b, it-is"),
            ("[x](#none)", "docs/guide/a.md has no heading #none"),
            ("[x](/README.md)", "begins with a slash"),
            ("[x](../../../other.md)", "out of the repository"),
            ("[x]()", "it names nothing"),
            ("[def]: none.md", "there is no docs/guide/none.md"),
            ("a `b` [x](none_(1).md) c", "there is no docs/guide/none_(1).md"),
        ];
        for (text, why) in cases {
            let found = faults(text);
            assert!(found.len() == 1 && found[0].contains(why) && found[0].contains("a.md:1:"), "{text}: {found:?}");
        }
    }
}
