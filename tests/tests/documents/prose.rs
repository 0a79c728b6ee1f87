//! How long the sentences of a page are.
//!
//! Headings, tables and fenced code are no prose. Inline code is one word, a link its text. A sentence ends at a full
//! stop, a question mark or an exclamation mark before a space, and at the end of its paragraph or item.

use super::page::{Page, without_links};

/// Words and sentences that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) words: usize,
    pub(crate) sentences: usize,
}

impl Measure {
    /// Both together.
    pub(crate) fn with(self, other: Self) -> Self {
        Self { words: self.words + other.words, sentences: self.sentences + other.sentences }
    }

    /// 0 where there is no sentence.
    #[allow(clippy::cast_precision_loss, reason = "a page has some thousand words")]
    pub(crate) fn words_per_sentence(self) -> f64 {
        if self.sentences == 0 { 0.0 } else { self.words as f64 / self.sentences as f64 }
    }
}

/// Measures a page.
pub(crate) fn measure(page: &Page) -> Measure {
    blocks(page).iter().map(|block| of_block(block)).fold(Measure::default(), Measure::with)
}

/// Paragraphs and items of lists, each as one line.
fn blocks(page: &Page) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in &page.lines {
        let text = line.text.trim();
        let is_other = line.is_code || ["#", "|", "<!--", "<a "].iter().any(|start| text.starts_with(start));
        let item = item_of(text);
        if text.is_empty() || is_other || item.is_some() {
            blocks.push(String::new());
        }
        if let Some(block) = blocks.last_mut().filter(|_| !is_other) {
            block.push_str(item.unwrap_or(text));
            block.push(' ');
        }
    }
    blocks.retain(|block| !block.trim().is_empty());
    blocks
}

/// The text of an item of a list, or of a quotation.
fn item_of(text: &str) -> Option<&str> {
    let marked = ["- ", "* ", "+ ", "> "].iter().find_map(|mark| text.strip_prefix(mark));
    marked.or_else(|| {
        let (number, rest) = text.split_once(". ")?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(rest)
    })
}

fn of_block(block: &str) -> Measure {
    let text = without_links(&with_words_for_code(block));
    let mut measure = Measure::default();
    let mut is_open = false;
    for word in text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)) {
        measure.words += 1;
        is_open = true;
        if ends_sentence(word) {
            measure.sentences += 1;
            is_open = false;
        }
    }
    measure.sentences += usize::from(is_open);
    measure
}

/// Abbreviations have a full stop, too.
fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(|letter: char| ")\"'*_”’".contains(letter));
    word.ends_with(['.', '?', '!']) && !["e.g.", "i.e.", "etc.", "vs.", "cf."].contains(&word.trim_start_matches('('))
}

/// The text with one word in place of each inline code.
fn with_words_for_code(text: &str) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    let last = pieces.len() - 1;
    let words = pieces.iter().enumerate().map(|(at, piece)| if at % 2 == 1 && at < last { "code" } else { *piece });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_told_apart() {
        let text = "# A heading of many words is none\n\nOne two three. Four `a b. c` five\nsix.\n\n- seven eight\n\
                    - [nine ten](x.md)\n\n| a table | is none |\n\n```\ncode is none.\n```\n\
                    Version 1.2 is eleven? Yes (e.g. this).\n";
        let measure = measure(&Page::of(text));
        assert_eq!(measure, Measure { words: 3 + 4 + 2 + 2 + 4 + 3, sentences: 2 + 2 + 2 });
        assert!((measure.words_per_sentence() - 3.0).abs() < 0.01);
        assert!(Measure::default().words_per_sentence().abs() < 0.01);
    }
}
