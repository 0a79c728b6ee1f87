//! The constants of the product, and the texts that they have.

use std::collections::{BTreeMap, BTreeSet};

use super::rust::{Form, Token, close_of};
use super::source::Source;

/// The texts of all constants of the product, by the constants' names.
#[derive(Debug, Default)]
pub(crate) struct Constants<'a>(BTreeMap<&'a str, Vec<Constant<'a>>>);

/// One of them, with the file that it is in.
#[derive(Debug)]
struct Constant<'a> {
    source: &'a Source,
    texts: Vec<&'a str>,
}

impl<'a> Constants<'a> {
    pub(crate) fn of(sources: &'a [Source]) -> Self {
        let mut all: BTreeMap<&str, Vec<Constant<'_>>> = BTreeMap::new();
        for source in sources {
            for (name, texts) in constants(source) {
                all.entry(name).or_default().push(Constant { source, texts });
            }
        }
        Self(all)
    }

    /// The texts of the constant that is meant: that of the module that is named, else of the same file, else of any.
    pub(crate) fn texts(&self, name: &str, module: Option<&str>, source: &Source) -> BTreeSet<String> {
        let all = self.0.get(name).map(Vec::as_slice).unwrap_or_default();
        let of = |is_meant: &dyn Fn(&Source) -> bool| -> BTreeSet<String> {
            let meant = all.iter().filter(|constant| is_meant(constant.source));
            meant.flat_map(|constant| constant.texts.iter().map(|text| (*text).to_owned())).collect()
        };
        let in_module = module.map(|module| of(&|other: &Source| other.is_module(module))).unwrap_or_default();
        let here = of(&|other: &Source| other.name == source.name);
        [in_module, here, of(&|_: &Source| true)].into_iter().find(|texts| !texts.is_empty()).unwrap_or_default()
    }
}

/// Each constant of a file with the texts in its value.
pub(crate) fn constants(source: &Source) -> Vec<(&str, Vec<&str>)> {
    let tokens = source.tokens.as_slice();
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(3) {
        let is_head = tokens[at].is_word("const") || tokens[at].is_word("static");
        if !is_head || tokens[at + 1].form != Form::Word || !tokens[at + 2].is_sign(':') {
            continue;
        }
        let end = end_of_statement(tokens, at);
        let value = tokens[at..end].iter().skip_while(|token| !token.is_sign('='));
        let texts = value.filter(|token| token.form == Form::Text).map(|token| token.text.as_str()).collect();
        found.push((tokens[at + 1].text.as_str(), texts));
    }
    found
}

/// The semicolon that ends what begins here.
pub(crate) fn end_of_statement(tokens: &[Token], start: usize) -> usize {
    let mut at = start;
    while let Some(token) = tokens.get(at).filter(|token| !token.is_sign(';') && !token.closes()) {
        at = if token.opens() { close_of(tokens, at) + 1 } else { at + 1 };
    }
    at
}
