//! Finds known secrets in a text, as they are and in every encoding that programs write: escaped as in JSON or in a URL, in
//! hexadecimal, in base64, packed with gzip, and each of these in another. Pure.
//!
//! Nothing is encoded here. Whatever in the text may be encoded is decoded, and the known values are looked for in that:
//! so a value is found at each place of a longer text that was encoded as a whole. What cannot be decoded to its end,
//! since a bound is reached, counts as a secret.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use anyhow::Context as _;

use crate::encodings::{self, EncodedRun, from_base64, from_hex};
use crate::known_secrets::VALUE_BYTES_MIN;
use crate::secret_forms::SecretForms;
use crate::unescaped_text::{EscapeKind, UnescapedText};

/// The most values that are looked for, and their bytes together: the search keeps all of them in memory.
pub(crate) const VALUES_MAX: usize = 200_000;
pub(crate) const VALUES_BYTES_MAX: usize = 8 << 20;
/// How often a text in a text in a text is decoded.
const DEPTH_MAX: usize = 4;
/// The most bytes that one gzip stream is unpacked to.
const UNPACKED_BYTES_MAX: usize = 1 << 20;
/// The most bytes that all gzip streams of a part of the bundle are unpacked from and to.
const BUDGET_BYTES: usize = 64 << 20;
/// The most cuts of a text at which a part of a value is looked for; what is behind them counts as a secret.
const CUTS_MAX: usize = 4_096;
/// What stands where a text was cut off.
const CUT: &[u8] = "…".as_bytes();
/// What stands for a letter that was cut in two.
const CUT_LETTER: &[u8] = "\u{fffd}".as_bytes();

/// Looks for values and forms of secrets.
pub struct SecretSearch {
    values: AhoCorasick,
    /// The values in small letters, in order: what a cut text ends with may begin one of them.
    beginnings: Vec<Vec<u8>>,
    value_bytes_max: usize,
}

/// How much may still be unpacked for a part of the bundle.
#[derive(Debug)]
pub(crate) struct UnpackBudget(Cell<usize>);

/// What a search looks for besides values, and what it may spend.
#[derive(Clone, Copy)]
struct SearchMeans<'a> {
    forms: &'a SecretForms,
    budget: &'a UnpackBudget,
}

impl Default for UnpackBudget {
    fn default() -> Self {
        Self(Cell::new(BUDGET_BYTES))
    }
}

impl UnpackBudget {
    fn spend(&self, bytes: usize) {
        self.0.set(self.0.get().saturating_sub(bytes));
    }

    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// Says that too many values are secret.
#[derive(Debug, thiserror::Error)]
#[error(
    "could not make a bundle: Secrets and configs hold too many values, and at most {VALUES_MAX} of {VALUES_BYTES_MAX} \
     bytes together are looked for; delete Secrets and MachineConfigs that are not used any more"
)]
pub struct TooManyValues;

opaque_debug!(SecretSearch);

impl SecretSearch {
    /// Prepares the search for these values.
    ///
    /// # Errors
    /// When there are too many of them.
    pub fn new(values: &BTreeSet<Vec<u8>>) -> anyhow::Result<Self> {
        let bytes: usize = values.iter().map(Vec::len).sum();
        if values.len() > VALUES_MAX || bytes > VALUES_BYTES_MAX {
            return Err(TooManyValues.into());
        }
        let mut beginnings: Vec<Vec<u8>> = values.iter().map(|value| value.to_ascii_lowercase()).collect();
        beginnings.sort_unstable();
        let value_bytes_max = values.iter().map(Vec::len).max().unwrap_or_default();
        let mut search = AhoCorasick::builder();
        search.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest);
        let values = search.build(values).context("could not prepare the search for the values of Secrets")?;
        Ok(Self { values, beginnings, value_bytes_max })
    }

    /// Says whether a value is in the text as it is.
    pub(crate) fn is_plainly_in(&self, text: &[u8]) -> bool {
        self.values.is_match(text)
    }

    /// Finds what shows a value. The ranges are in order, and do not overlap.
    pub(crate) fn find(&self, forms: &SecretForms, budget: &UnpackBudget, text: &[u8]) -> Vec<Range<usize>> {
        merged(self.find_at(SearchMeans { forms, budget }, text, 0))
    }

    /// Finds what shows a value over the ends of lines, which a search in each line cannot see.
    pub(crate) fn find_across_lines(
        &self,
        forms: &SecretForms,
        budget: &UnpackBudget,
        text: &[u8],
    ) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self.values.find_iter(text).map(|found| found.range()).collect();
        found.extend(self.wrapped(SearchMeans { forms, budget }, text, 0));
        found.retain(|range| text[range.clone()].contains(&b'\n'));
        merged(found)
    }

    fn find_at(&self, means: SearchMeans<'_>, text: &[u8], depth: usize) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self.values.find_iter(text).map(|found| found.range()).collect();
        found.extend(self.cut_values(text));
        if let Some(form) = UnescapedText::of(text, EscapeKind::Form) {
            found.extend(self.values.find_iter(&form.bytes).map(|found| form.origin(&found.range())));
        }
        if depth >= DEPTH_MAX {
            // A stream that lies too deep is not unpacked.
            let is_packed = |run: &EncodedRun| encodings::gzip_starts(&from_base64(&run.letters, 0)).next().is_some();
            let runs = encodings::base64_runs(text, encodings::BASE64_LETTERS_MIN);
            found.extend(runs.filter(is_packed).map(|run| run.range));
            return found;
        }
        let shows = |decoded: &[u8]| self.is_in_decoded(means, decoded, depth + 1);
        for run in encodings::base64_runs(text, encodings::BASE64_LETTERS_MIN) {
            if (0..4).any(|skipped| shows(&from_base64(&run.letters, skipped))) {
                found.push(run.range);
            }
        }
        found.extend(self.wrapped(means, text, depth));
        for run in encodings::hex_runs(text) {
            if (0..2).any(|skipped| shows(&from_hex(&run.letters, skipped))) {
                found.push(run.range);
            }
        }
        for kind in [EscapeKind::Backslash, EscapeKind::Percent] {
            if let Some(unescaped) = UnescapedText::of(text, kind) {
                let inner = self.find_at(means, &unescaped.bytes, depth + 1);
                found.extend(inner.into_iter().map(|range| unescaped.origin(&range)));
            }
        }
        found
    }

    /// Finds base64 of several lines that shows a value.
    fn wrapped(&self, means: SearchMeans<'_>, text: &[u8], depth: usize) -> Vec<Range<usize>> {
        let shows = |run: &EncodedRun| {
            (0..4).any(|skipped| self.is_in_decoded(means, &from_base64(&run.letters, skipped), depth + 1))
        };
        encodings::wrapped_runs(text).into_iter().filter(shows).map(|run| run.range).collect()
    }

    fn is_in_decoded(&self, means: SearchMeans<'_>, decoded: &[u8], depth: usize) -> bool {
        if means.forms.are_in_decoded(decoded) || !self.find_at(means, decoded, depth).is_empty() {
            return true;
        }
        encodings::gzip_starts(decoded).any(|start| {
            if depth >= DEPTH_MAX || means.budget.is_spent() {
                return true;
            }
            let unpacked = encodings::unpack(&decoded[start..], UNPACKED_BYTES_MAX);
            means.budget.spend(unpacked.read + unpacked.bytes.len());
            unpacked.is_cut
                || (!unpacked.bytes.is_empty()
                    && (means.forms.are_in_decoded(&unpacked.bytes)
                        || !self.find_at(means, &unpacked.bytes, depth + 1).is_empty()))
        })
    }

    /// Finds the beginnings of values before the marks of cuts.
    fn cut_values(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let cuts = text.windows(CUT.len()).enumerate().filter(|(_, window)| *window == CUT).map(|(at, _)| at);
        for (number, cut) in cuts.enumerate() {
            if number == CUTS_MAX {
                found.push(cut..text.len());
                break;
            }
            let mut end = cut;
            while text[..end].ends_with(CUT_LETTER) {
                end -= CUT_LETTER.len();
            }
            let first = end.saturating_sub(self.value_bytes_max);
            let last = end.saturating_sub(VALUE_BYTES_MIN);
            found.extend((first..=last).find(|start| self.begins_value(&text[*start..end])).map(|start| start..cut));
        }
        found
    }

    /// Says whether a value begins with these bytes.
    fn begins_value(&self, bytes: &[u8]) -> bool {
        let lower = bytes.to_ascii_lowercase();
        let place = self.beginnings.partition_point(|value| *value < lower);
        lower.len() >= VALUE_BYTES_MIN && self.beginnings.get(place).is_some_and(|value| value.starts_with(&lower))
    }
}

/// Puts ranges in order, and joins those that overlap.
fn merged(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match merged.last_mut().filter(|last| range.start < last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
