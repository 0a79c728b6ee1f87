//! The forms that show a secret wherever they stand: a login in a URL, a private key, a header of a request. Pure.
//!
//! Each form is a pattern over bytes ([`crate::secret_patterns`]). What its group `keep` matches stays, before the secret,
//! and so do quotation marks and brackets around it, so that a reader sees what was there.

use std::ops::Range;

use anyhow::Context as _;
use regex::bytes::{Captures, Regex};

use crate::redactor::SecretTrace;
use crate::secret_names::{SECRET_WORDS, is_secret_name};
use crate::secret_patterns::{ARGUMENT, CUT_KEY_PATTERN, KEY_PATTERNS, PATTERNS, PatternRow, VALUE};
use crate::user_data::is_user_data;

/// What stands for a secret.
pub(crate) const REMOVED: &str = "(removed)";
/// What the appliance itself puts in the place of a secret in a URL.
pub(crate) const HIDDEN: &str = "(hidden)";
/// How often the bytes of a text are read again behind names that are none of secrets; what is behind them then counts
/// as a secret.
const REREADS_MAX: usize = 16;
/// Shorter texts look like user data by chance.
const USER_DATA_BYTES_MIN: usize = 12;

/// A form that shows a secret.
struct SecretForm {
    trace: SecretTrace,
    pattern: Regex,
    check: FormCheck,
}

/// What decides whether a match is a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormCheck {
    Always,
    /// The name before it is that of a secret, and not of a reference to one.
    ByName,
    /// It does not look like a word of a sentence.
    NoWord,
}

/// A secret that was found by its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundForm {
    pub(crate) range: Range<usize>,
    pub(crate) trace: SecretTrace,
}

/// All forms, ready to be looked for.
pub(crate) struct SecretForms {
    keys: Vec<SecretForm>,
    cut_key: SecretForm,
    others: Vec<SecretForm>,
}

impl SecretForms {
    /// # Errors
    /// When a pattern cannot be read.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let form = |(trace, check, pattern): PatternRow| {
            let pattern = pattern.replace("WORDS", &SECRET_WORDS.join("|"));
            let pattern = pattern.replace("VALUE", VALUE).replace("ARGUMENT", ARGUMENT);
            // The tables of Unicode are not built in.
            let pattern = Regex::new(&format!("(?-u){pattern}")).context("could not read a form of secrets")?;
            Ok(SecretForm { trace, pattern, check })
        };
        Ok(Self {
            keys: KEY_PATTERNS.into_iter().map(form).collect::<anyhow::Result<_>>()?,
            cut_key: form(CUT_KEY_PATTERN)?,
            others: PATTERNS.into_iter().map(form).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Finds what has one of the forms.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<FoundForm> {
        let mut found = self.find_keys(text);
        // The end of a whole key is no part of one that was cut off.
        for gap in gaps(text.len(), &found) {
            let cut = self.cut_key.find(&text[gap.clone()]);
            found.extend(cut.into_iter().map(|form| FoundForm {
                range: gap.start + form.range.start..gap.start + form.range.end,
                trace: form.trace,
            }));
        }
        found.extend(self.others.iter().flat_map(|form| form.find(text)));
        found
    }

    /// Finds private keys of several lines.
    pub(crate) fn find_keys(&self, text: &[u8]) -> Vec<FoundForm> {
        self.keys.iter().flat_map(|form| form.find(text)).collect()
    }

    /// Lists the values of fields that are named as secrets.
    pub(crate) fn named_values<'t>(&self, text: &'t [u8]) -> Vec<&'t [u8]> {
        let fields = self.others.iter().filter(|form| form.trace == SecretTrace::NamedField);
        fields.flat_map(|form| form.find(text)).map(|found| &text[found.range]).collect()
    }

    /// Says whether a text that was encoded has one of the forms that no text has by chance.
    pub(crate) fn are_in_decoded(&self, text: &[u8]) -> bool {
        let is_sure = |form: &&SecretForm| {
            matches!(form.trace, SecretTrace::PrivateKey | SecretTrace::WebToken | SecretTrace::PasswordHash)
        };
        self.keys
            .iter()
            .chain([&self.cut_key])
            .chain(&self.others)
            .filter(is_sure)
            .any(|form| form.pattern.is_match(text))
            || printed(text).is_some_and(|text| {
                (text.len() >= USER_DATA_BYTES_MIN && is_user_data(text))
                    || !self.named_values(text.as_bytes()).is_empty()
            })
    }
}

impl SecretForm {
    fn find(&self, text: &[u8]) -> Vec<FoundForm> {
        let mut found = Vec::new();
        let (mut at, mut reread) = (0, 0);
        while let Some(captures) = self.pattern.captures_at(text, at) {
            let whole = captures.get(0).map_or(at..at, |whole| whole.range());
            let secret = self.inner(text, captures.name("keep").map_or(whole.start, |keep| keep.end())..whole.end);
            let secret = captures.name("quote").map_or(secret.start, |quote| quote.end())..secret.end;
            let is_behind_bound = reread > text.len().saturating_mul(REREADS_MAX);
            if is_removed(&text[secret.clone()])
                || !(is_behind_bound || self.is_secret(&captures, &text[secret.clone()]))
            {
                // There may be a secret in what is none as a whole.
                let kept = captures.name("keep").map_or(whole.end, |keep| keep.end());
                reread += whole.end - kept;
                at = kept.max(at + 1);
            } else {
                at = whole.end.max(at + 1);
                found.push(FoundForm { range: secret, trace: self.trace });
            }
            if at > text.len() {
                break;
            }
        }
        found
    }

    fn is_secret(&self, captures: &Captures<'_>, secret: &[u8]) -> bool {
        match self.check {
            FormCheck::Always => true,
            FormCheck::ByName => {
                let name = captures.name("name").map_or(&[][..], |name| name.as_bytes());
                // The beginning of a list or an object is none; its fields are looked at by themselves.
                !secret.iter().all(|byte| matches!(byte, b'[' | b'{')) && is_secret_name(&String::from_utf8_lossy(name))
            }
            FormCheck::NoWord => !is_word(secret),
        }
    }

    /// Leaves out the quotation marks and the brackets around a secret, and the sign behind a login.
    fn inner(&self, text: &[u8], range: Range<usize>) -> Range<usize> {
        let Range { mut start, mut end } = range;
        if self.trace == SecretTrace::UrlLogin && text[start..end].ends_with(b"@") {
            end -= 1;
        }
        if end - start >= 2 && text[start] == b'[' && text[end - 1] == b']' {
            (start, end) = (start + 1, end - 1);
            let spaces = |byte: &&u8| byte.is_ascii_whitespace();
            start += text[start..end].iter().take_while(spaces).count();
            end -= text[start..end].iter().rev().take_while(spaces).count();
        }
        let backslashes = text[start..end].iter().take_while(|byte| **byte == b'\\').count();
        let quote = text[start..end].get(backslashes).copied().filter(|byte| matches!(byte, b'"' | b'\''));
        let marks = backslashes + 1;
        let closing = |mark: u8| end - start >= 2 * marks && text[end - 1] == mark;
        match quote.filter(|mark| closing(*mark)) {
            Some(_) => start + marks..end - marks,
            None => start..end,
        }
    }
}

/// Lists what of a text is between forms that were found.
fn gaps(length: usize, found: &[FoundForm]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = found.iter().map(|form| form.range.clone()).collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let (mut gaps, mut end) = (Vec::new(), 0);
    for range in ranges {
        if range.start > end {
            gaps.push(end..range.start);
        }
        end = end.max(range.end);
    }
    gaps.push(end..length);
    gaps
}

/// Says whether a text is what stands for a secret already, or nothing.
fn is_removed(secret: &[u8]) -> bool {
    let text = String::from_utf8_lossy(secret);
    let is_mark = |letter: char| letter.is_ascii_whitespace() || matches!(letter, '"' | '\'' | '\\' | '@' | '[' | ']');
    text.split(',')
        .map(|part| part.trim_matches(is_mark))
        .all(|part| part.is_empty() || [REMOVED, HIDDEN].contains(&part))
}

/// Returns a text in which each byte can be printed.
fn printed(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text).filter(|text| !text.contains(|letter: char| letter.is_control() && !letter.is_ascii_whitespace()))
}

/// Says whether these are letters of a word, as in "basic authentication".
fn is_word(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_lowercase)
}

#[cfg(test)]
mod tests;
