//! A page in Markdown: its lines, headings, anchors and inline code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tree;

/// A written page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) bytes: usize,
    pub(crate) lines: Vec<PageLine>,
}

/// One line of a page.
#[derive(Debug)]
pub(crate) struct PageLine {
    pub(crate) text: String,
    /// It is in a fenced block of code, or its fence.
    pub(crate) is_code: bool,
}

impl Page {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Self {
        Self::of(&tree::read(path))
    }

    /// Reads a text.
    pub(crate) fn of(text: &str) -> Self {
        let mut fence: Option<(char, usize)> = None;
        let mut lines = Vec::new();
        for line in text.lines() {
            let is_code = match (fence, fence_of(line)) {
                (None, opened) => {
                    fence = opened.map(|(letter, count, _)| (letter, count));
                    fence.is_some()
                }
                (Some((letter, count)), Some((other, others, is_bare)))
                    if letter == other && others >= count && is_bare =>
                {
                    fence = None;
                    true
                }
                (Some(_), _) => true,
            };
            lines.push(PageLine { text: line.to_owned(), is_code });
        }
        Self { bytes: text.len(), lines }
    }

    /// The texts of the headings, each with the number of its line, from 0 on.
    pub(crate) fn headings(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.lines.iter().enumerate().filter(|(_, line)| !line.is_code);
        lines.filter_map(|(number, line)| Some((number, heading(&line.text)?)))
    }

    /// Where links to this page may lead: the headings as GitHub names them, and what has an `id`.
    pub(crate) fn anchors(&self) -> BTreeSet<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut anchors = BTreeSet::new();
        for (_, text) in self.headings() {
            let base = slug(text);
            let count = counts.entry(base.clone()).or_default();
            let anchor = if *count == 0 { base } else { format!("{base}-{count}") };
            *count += 1;
            anchors.insert(anchor);
        }
        for line in self.lines.iter().filter(|line| !line.is_code) {
            let marks = [" id=\"", " name=\""].into_iter().flat_map(|mark| line.text.split(mark).skip(1));
            anchors.extend(marks.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
        anchors
    }

    /// All words in inline code of headings, tables and paragraphs, without the signs around them.
    pub(crate) fn code_words(&self) -> BTreeSet<&str> {
        self.lines.iter().filter(|line| !line.is_code).flat_map(|line| code_words_of(&line.text)).collect()
    }
}

/// The words in inline code of one line.
pub(crate) fn code_words_of(line: &str) -> Vec<&str> {
    code_spans(line).into_iter().flat_map(|span| span.split_whitespace().map(bare)).collect()
}

/// What stands in backticks on a line.
pub(crate) fn code_spans(line: &str) -> Vec<&str> {
    // Every second piece between backticks is code; the last one only where it is closed.
    let pieces: Vec<&str> = line.split('`').collect();
    let closed = pieces.len().saturating_sub(1);
    pieces[..closed].iter().skip(1).step_by(2).copied().collect()
}

/// A word without the signs that stand around it in a sentence or a usage.
fn bare(word: &str) -> &str {
    word.trim_matches(|letter: char| ",;:()[]{}\"'…".contains(letter)).trim_end_matches('.')
}

/// The text of a heading in the form `## Text`.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim().trim_end_matches('#').trim())
}

/// The letter and length of a fence, and whether nothing follows it.
fn fence_of(line: &str) -> Option<(char, usize, bool)> {
    let text = line.trim_start();
    let letter = text.chars().next().filter(|letter| ['`', '~'].contains(letter))?;
    let rest = text.trim_start_matches(letter);
    let count = text.len() - rest.len();
    // A line with inline code may begin with three backticks, too, and has more of them.
    (count >= 3 && !rest.contains('`')).then(|| (letter, count, rest.trim().is_empty()))
}

/// The anchor that GitHub makes of a heading.
pub(crate) fn slug(heading: &str) -> String {
    let plain = without_links(heading).to_lowercase();
    let letters = plain.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    });
    letters.collect()
}

/// `[text](target)` becomes `text`.
pub(crate) fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (head, label) = before.rsplit_once('[').unwrap_or(("", before));
        plain.push_str(head);
        plain.push_str(label);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# A *title*, with `code`!\n```\n# no heading\n```\n## Twice\n## Twice\n#none\n<a id=\"own\"></a>\n";
        let page = Page::of(text);
        let expected = ["a-title-with-code", "own", "twice", "twice-1"];
        assert_eq!(page.anchors().into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(slug("See [the guide](a.md) — now"), "see-the-guide--now");
    }

    #[test]
    fn words_of_code_have_no_signs_around_them() {
        let page = Page::of("| `--data` | `kubectl get (bmh)`, `a` and `open\n```\n`fenced`\n```\n");
        assert_eq!(page.code_words().into_iter().collect::<Vec<_>>(), ["--data", "a", "bmh", "get", "kubectl"]);
    }
}
