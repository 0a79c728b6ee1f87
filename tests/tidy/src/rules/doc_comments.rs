//! Doc comments that are sentences.
//!
//! The reading is by words, not by grammar: `words` says what may not stand at the start. A comment may begin with a
//! verb in the third person, with a noun and what belongs to it, or with a question word (`Whether`, `When`, `What`).
//! It may also begin with a clause, if a comma ends the clause and a main clause follows.

mod fragment;
mod words;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{AttrStyle, Attribute, ItemEnum, ItemStruct, Macro, Meta};

use crate::rule::{Hit, Rule};
use crate::source::{Source, line_of, text_value};

/// What `clap` derives. The comments there are the texts of `--help`: commands without a full stop.
const HELP_DERIVES: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];
/// The start of the text that a hit shows.
const SHOWN_CHARS_MAX: usize = 70;

/// Finds doc comments that are fragments, commands, or without an end.
pub fn check(source: &Source) -> Vec<Hit> {
    let mut comments = Comments::default();
    comments.visit_file(&source.file);
    let hit = |comment: &Comment| {
        let (line, why) = comment.fault()?;
        let shown: String = comment.lines[line].trim().chars().take(SHOWN_CHARS_MAX).collect();
        let (path, text) = (source.path.clone(), format!("\"{shown}\" {why}"));
        Some(Hit { rule: Rule::DocComment, path, line: comment.line + line, item: String::new(), text })
    };
    comments.joined().iter().filter_map(hit).collect()
}

/// One doc comment.
#[derive(Debug)]
struct Comment {
    line: usize,
    is_inner: bool,
    is_help: bool,
    lines: Vec<String>,
}

impl Comment {
    /// The line that is wrong, and why.
    fn fault(&self) -> Option<(usize, String)> {
        let prose = prose(&self.lines);
        let mut lines = prose.iter().flat_map(|paragraph| paragraph.start..paragraph.end);
        if self.is_help {
            let odd = lines.find(|line| words::starts_as_fragment(&self.lines[*line]))?;
            return Some((odd, "begins as a fragment does".to_owned()));
        }
        let first = prose.first()?;
        let opening = first.lines(&self.lines).collect::<Vec<_>>().join(" ");
        if let Some(why) = fragment::why(&opening) {
            return Some((first.start, why));
        }
        let is_odd = |line: &&Paragraph| !ends(line.lines(&self.lines).last().unwrap_or_default());
        if let Some(open) = prose.iter().find(is_odd) {
            return Some((open.end - 1, "does not end with a full stop".to_owned()));
        }
        let odd = lines.find(|line| words::starts_as_fragment(&self.lines[*line]))?;
        Some((odd, "begins a line as a fragment does: wrap the sentence elsewhere, or name its subject".to_owned()))
    }
}

/// Lines of a comment that are one paragraph of sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Paragraph {
    start: usize,
    end: usize,
}

impl Paragraph {
    fn lines(self, lines: &[String]) -> impl Iterator<Item = &str> {
        lines[self.start..self.end].iter().map(|line| line.trim())
    }
}

/// The paragraphs of a comment; headings, lists, tables, links' targets and code are none.
fn prose(lines: &[String]) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let mut is_open = false;
    let mut is_list = false;
    let mut is_code = false;
    for (index, line) in lines.iter().enumerate() {
        let text = line.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        if is_fence || is_code || text.is_empty() {
            (is_open, is_list) = (false, is_list && is_code);
        } else if is_marked(text) {
            (is_open, is_list) = (false, true);
        } else if is_open {
            found.last_mut().into_iter().for_each(|paragraph| paragraph.end = index + 1);
        } else if !is_list {
            is_open = true;
            found.push(Paragraph { start: index, end: index + 1 });
        }
    }
    found
}

/// Whether a line begins an item of a list, a row of a table, a heading, a quotation or a link's target.
fn is_marked(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_numbered = digits > 0 && text[digits..].starts_with(". ");
    let is_target = text.starts_with('[') && text.contains("]: ");
    is_numbered || is_target || ["- ", "* ", "|", "#", "> "].iter().any(|mark| text.starts_with(mark))
}

/// Whether a paragraph's last line ends a sentence, leads over to a list or a block of code, or is an address.
fn ends(line: &str) -> bool {
    let end = line.trim_end_matches([')', '"', '”', '\'', '`', '*', '_', ']']);
    let is_address = line.starts_with("<http") && line.ends_with('>');
    is_address || end.ends_with(['.', '!', '?', ':'])
}

#[derive(Default)]
struct Comments {
    lines: Vec<Line>,
    /// How many items with texts of `--help` are around this place.
    help_depth: usize,
}

struct Line {
    line: usize,
    is_inner: bool,
    is_help: bool,
    text: String,
}

impl Comments {
    fn add(&mut self, line: usize, is_inner: bool, text: &str) {
        let is_help = self.help_depth > 0;
        for (index, text) in text.split('\n').enumerate() {
            self.lines.push(Line { line: line + index, is_inner, is_help, text: text.to_owned() });
        }
    }

    /// Comments of lines that follow each other.
    fn joined(mut self) -> Vec<Comment> {
        self.lines.sort_by_key(|line| line.line);
        let mut joined: Vec<Comment> = Vec::new();
        for Line { line, is_inner, is_help, text } in self.lines {
            match joined.last_mut() {
                Some(last) if last.is_inner == is_inner && last.line + last.lines.len() == line => {
                    last.lines.push(text)
                }
                Some(_) | None => joined.push(Comment { line, is_inner, is_help, lines: vec![text] }),
            }
        }
        joined
    }

    /// Looks for comments in the tokens of a macro's call, where they are `#[doc = "…"]`.
    fn search(&mut self, tokens: TokenStream) {
        for token in tokens {
            let TokenTree::Group(group) = token else { continue };
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            match inner.as_slice() {
                [TokenTree::Ident(doc), TokenTree::Punct(_), TokenTree::Literal(text)]
                    if doc == "doc" && group.delimiter() == Delimiter::Bracket =>
                {
                    if let syn::Lit::Str(text) = syn::Lit::new(text.clone()) {
                        self.add(line_of(text.span()), false, &text.value());
                    }
                }
                _ => self.search(group.stream()),
            }
        }
    }

    fn within_help(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        let is_help = attributes.iter().any(is_help);
        self.help_depth += usize::from(is_help);
        visit(self);
        self.help_depth -= usize::from(is_help);
    }
}

/// Whether an attribute has `clap` make texts of `--help` from the comments of its item.
fn is_help(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let is_name =
        |token: TokenTree| matches!(token, TokenTree::Ident(name) if HELP_DERIVES.iter().any(|help| name == help));
    list.path.is_ident("derive") && list.tokens.clone().into_iter().any(is_name)
}

impl<'ast> Visit<'ast> for Comments {
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if attribute.path().is_ident("doc")
            && let Some(text) = text_value(attribute)
        {
            let is_inner = matches!(attribute.style, AttrStyle::Inner(_));
            self.add(line_of(attribute.pound_token.span), is_inner, &text);
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.search(call.tokens.clone());
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.within_help(&item.attrs, |comments| visit::visit_item_struct(comments, item));
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.within_help(&item.attrs, |comments| visit::visit_item_enum(comments, item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::product;

    fn found(text: &str) -> Vec<String> {
        check(&product(text)).into_iter().map(|hit| format!("{} {}", hit.line, hit.text)).collect()
    }

    #[test]
    fn fragments_are_found_on_items_fields_modules_and_in_macros() {
        let text = "//! For the lab.\n\n/// Of a host.\nstruct A {\n    /// Written once.\n    a: u8,\n}\nx! {\n    /// Also \
                    this.\n    b\n}\n";
        let lines: Vec<String> =
            found(text).iter().map(|hit| hit.split(" \"").next().unwrap_or_default().into()).collect();
        assert_eq!(lines, ["1", "3", "5", "9"]);
        assert_eq!(
            found("/// Of a host.\nfn a() {}"),
            ["1 \"Of a host.\" begins with `Of`, so its subject is missing"]
        );
    }

    #[test]
    fn every_paragraph_ends_with_a_stop() {
        let text = "/// Returns it\nfn a() {}\n/// Returns it.\n///\n/// And more\n/// of it\nfn b() {}\n";
        assert_eq!(
            found(text),
            ["1 \"Returns it\" does not end with a full stop", "6 \"of it\" does not end with a full stop"]
        );
    }

    #[test]
    fn a_line_may_not_begin_as_a_fragment_does() {
        let text = "/// Returns what is left.\n/// Of several the first one counts.\nfn a() {}\n";
        let expected = "2 \"Of several the first one counts.\" begins a line as a fragment does: wrap the sentence \
                        elsewhere, or name its subject";
        assert_eq!(found(text), [expected]);
    }

    #[test]
    fn lists_tables_code_and_help_are_left_alone() {
        let text = "//! The parts:\n//!\n//! | a | b |\n//! ```text\n//! of a -> b\n//! ```\n//! - one\n//!   of them\n\n\
                    /// Returns `(a.)` (see [`b`].)\n///\n/// # Errors\n///\n/// Fails if:\n/// 1. it must\nfn a() {}\n\n\
                    /// Run it\n#[derive(Debug, clap::Args)]\nstruct A {\n    /// For this one\n    a: u8,\n}\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn texts_of_help_are_no_fragments_either() {
        let text = "/// Run it\n#[derive(clap::Subcommand)]\nenum A {\n    /// Of this one\n    B,\n}\n";
        assert_eq!(found(text), ["4 \"Of this one\" begins as a fragment does"]);
    }
}
