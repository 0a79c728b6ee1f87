//! Texts of log events.

use proc_macro2::{Literal, TokenStream, TokenTree};
use syn::{Macro, Path, visit::Visit};

use crate::rule::{Hit, Rule};
use crate::source::{Source, line_of};

/// The macros of `tracing` that write an event.
const EVENT_MACROS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "event"];

/// Finds events whose text begins with a gerund, however many lines the call has.
pub fn check(source: &Source) -> Vec<Hit> {
    let mut events = Events { path: &source.path, hits: Vec::new() };
    events.visit_file(&source.file);
    events.hits
}

/// The gerund that a text begins with. Any word in `ing` counts: `nothing …` has better words as well.
fn gerund(text: &str) -> Option<&str> {
    let end = text.find(|letter: char| !letter.is_alphabetic()).unwrap_or(text.len());
    let word = &text[..end];
    (word.len() > "ing".len() && word.ends_with("ing")).then_some(word)
}

struct Events<'a> {
    path: &'a str,
    hits: Vec<Hit>,
}

impl Events<'_> {
    fn judge(&mut self, literal: &Literal) {
        let syn::Lit::Str(text) = syn::Lit::new(literal.clone()) else { return };
        let text = text.value();
        if let Some(word) = gerund(&text) {
            self.hits.push(Hit {
                rule: Rule::LogEvent,
                path: self.path.to_owned(),
                line: line_of(literal.span()),
                item: word.to_owned(),
                text: format!("the event \"{}\" begins with a gerund", text.lines().next().unwrap_or_default()),
            });
        }
    }

    /// Looks for events in the tokens of another macro's call.
    fn search(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let TokenTree::Group(group) = token else { continue };
            let is_event = matches!(&tokens[..index], [.., TokenTree::Ident(name), TokenTree::Punct(bang)]
                if bang.as_char() == '!' && EVENT_MACROS.iter().any(|event| name == event));
            if is_event {
                for literal in messages(group.stream()) {
                    self.judge(&literal);
                }
            } else {
                self.search(group.stream());
            }
        }
    }
}

fn is_named(path: &Path, names: &[&str]) -> bool {
    path.segments.last().is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// The texts of a macro's call that are messages: alone between two commas, or behind `message =`.
fn messages(tokens: TokenStream) -> Vec<Literal> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(sign) if sign.as_char() == ',');
    tokens.split(is_comma).filter_map(message).collect()
}

fn message(part: &[TokenTree]) -> Option<Literal> {
    match part {
        [TokenTree::Literal(literal)] => Some(literal.clone()),
        [TokenTree::Ident(name), TokenTree::Punct(equals), TokenTree::Literal(literal)]
            if name == "message" && equals.as_char() == '=' =>
        {
            Some(literal.clone())
        }
        [TokenTree::Ident(_), TokenTree::Punct(bang), TokenTree::Group(group)] if bang.as_char() == '!' => {
            messages(group.stream()).into_iter().next()
        }
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Events<'_> {
    fn visit_macro(&mut self, call: &'ast Macro) {
        let is_of_tracing = call.path.segments.len() == 1 || call.path.segments[0].ident == "tracing";
        if is_of_tracing && is_named(&call.path, &EVENT_MACROS) {
            for literal in messages(call.tokens.clone()) {
                self.judge(&literal);
            }
        } else {
            self.search(call.tokens.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{items, product};

    fn found(statements: &str) -> Vec<String> {
        let hits = check(&product(&format!("fn f() {{\n{statements}\n}}")));
        items(&hits).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn gerunds_are_found_on_every_level_and_over_several_lines() {
        let statements = "tracing::warn!(\n    host = %name,\n    error = error as &dyn std::error::Error,\n    \
                          \"compacting the store\",\n);\n\
                          error!(target: \"x\", \"Reading {SELF}: {error}\");\n\
                          info!(message = \"booting\", host);\n\
                          tracing::event!(Level::INFO, concat!(\"making \", \"room\"));\n\
                          tokio::select! { _ = a => { tracing::debug!(\"nothing to do\") } }";
        assert_eq!(found(statements), ["compacting", "Reading", "booting", "making", "nothing"]);
    }

    #[test]
    fn sentences_fields_and_other_calls_are_left_alone() {
        let statements = "tracing::warn!(what = \"compacting\", \"could not compact the store; trying again\");\n\
                          warn!(\"{} is booting\", name);\nlog::warn!(\"x\");\nanyhow::bail!(\"reading {path}\");\n\
                          file.write(\"cleaning\").context(\"writing the file\");\nerror!(\"ing\");\n\
                          info!(\"no change\");";
        assert_eq!(found(statements), Vec::<String>::new());
        let place = check(&product("fn f() {\n\n    warn!(\n        \"going\"\n    );\n}"));
        assert_eq!((place[0].line, place[0].text.as_str()), (4, "the event \"going\" begins with a gerund"));
    }
}
