//! The sources of the product: what the appliance, the agent and their crates are made of.

use std::{ops::Range, path::Path};

use super::rust::{Form, Token, close_of, tokens, without_tests};
use super::tree;

/// Folders of the crates that users run. The lab and the tests name nothing that a user meets.
const PRODUCT: [&str; 4] = ["appliance", "agent", "images", "ramdisk"];
/// Parts of paths that are no product: tests, and stateful doubles.
const NO_PRODUCT: [&str; 4] = ["tests", "tests.rs", "fake", "benches"];

/// One file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Below the repository's root.
    pub(crate) name: String,
    /// Without comments and tests.
    pub(crate) tokens: Vec<Token>,
    pub(crate) functions: Vec<Function>,
}

/// A function with a body, by the places of its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) parameters: Range<usize>,
    pub(crate) body: Range<usize>,
}

/// Reads all of them.
pub(crate) fn all(root: &Path) -> Vec<Source> {
    let paths = PRODUCT.iter().flat_map(|folder| tree::files(&root.join(folder), "rs"));
    let named = paths.map(|path| (tree::name_of(&path), path));
    let product = named.filter(|(name, _)| !name.split('/').any(|part| NO_PRODUCT.contains(&part)));
    product.map(|(name, path)| Source::of(&name, &tree::read(&path))).collect()
}

impl Source {
    /// Reads a text.
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let tokens = without_tests(&tokens(text));
        let functions = functions(&tokens);
        Self { name: name.to_owned(), tokens, functions }
    }

    /// `appliance/src/main.rs:12`
    pub(crate) fn place(&self, at: usize) -> String {
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        format!("{}:{line}", self.name)
    }

    /// The innermost function whose body has this token.
    pub(crate) fn function_at(&self, at: usize) -> Option<&Function> {
        self.functions.iter().filter(|function| function.body.contains(&at)).max_by_key(|function| function.body.start)
    }

    /// Whether this is the file of a module of this name.
    pub(crate) fn is_module(&self, module: &str) -> bool {
        let path = self.name.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        path.rsplit('/').next() == Some(module)
    }
}

fn functions(tokens: &[Token]) -> Vec<Function> {
    let is_name = |at: usize| tokens.get(at).is_some_and(|token| token.form == Form::Word);
    let heads = (0..tokens.len()).filter(|at| tokens[*at].is_word("fn") && is_name(at + 1));
    heads.filter_map(|at| function(tokens, at + 1)).collect()
}

/// The function whose name stands here; `None` where it has no body.
fn function(tokens: &[Token], name: usize) -> Option<Function> {
    let open = parameters_of(tokens, name + 1)?;
    let parameters = open..close_of(tokens, open);
    let mut at = parameters.end + 1;
    while !tokens.get(at)?.is_sign('{') {
        if tokens[at].is_sign(';') {
            return None;
        }
        at = if tokens[at].opens() { close_of(tokens, at) + 1 } else { at + 1 };
    }
    Some(Function { name: tokens[name].text.clone(), parameters, body: at..close_of(tokens, at) })
}

/// The bracket of the parameters, behind those of types.
fn parameters_of(tokens: &[Token], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in start..tokens.len() {
        let is_arrow = tokens[at - 1].is_sign('-');
        if tokens[at].is_sign('<') {
            depth += 1;
        } else if tokens[at].is_sign('>') && !is_arrow {
            depth = depth.saturating_sub(1);
        } else if tokens[at].is_sign('(') && depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_parameters() {
        let text = "impl A { fn a<T: Fn(u8)>(b: u8) -> [u8; 2] { fn c(d: u8) { e } f } fn g(&self); }";
        let source = Source::of("x/y/mod.rs", text);
        let names: Vec<&str> = source.functions.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        let place = |word: &str| source.tokens.iter().position(|token| token.is_word(word)).unwrap();
        assert_eq!(source.function_at(place("e")).unwrap().name, "c");
        assert_eq!(source.function_at(place("f")).unwrap().name, "a");
        assert!(source.is_module("y") && !source.is_module("mod"));
    }
}
