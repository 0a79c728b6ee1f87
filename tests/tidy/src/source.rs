//! One Rust file, parsed.

use std::{fmt, ops::RangeInclusive};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Attribute, ImplItem, Item, Meta, TraitItem, spanned::Spanned};

/// A file's text and its syntax tree.
pub struct Source {
    /// The path below the repository's root.
    pub path: String,
    pub text: String,
    /// The items; after [`Source::remove_tests`] those of the product only.
    pub file: syn::File,
    /// Lines that belong to tests, once these are removed.
    pub test_lines: Vec<RangeInclusive<usize>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Source").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Source {
    /// Parses a file.
    pub fn parse(path: &str, text: String) -> syn::Result<Self> {
        let file = syn::parse_file(&text)?;
        Ok(Self { path: path.to_owned(), text, file, test_lines: Vec::new() })
    }

    /// Leaves only the product: takes out what is compiled for tests alone.
    pub fn remove_tests(&mut self) {
        let mut items = std::mem::take(&mut self.file.items);
        if self.file.attrs.iter().any(is_for_tests) {
            self.test_lines.push(1..=self.text.lines().count());
            items.clear();
        }
        self.remove_from(&mut items);
        self.file.items = items;
    }

    fn remove_from(&mut self, items: &mut Vec<Item>) {
        items.retain(|item| self.stays(attributes(item), item));
        for item in items {
            if let Item::Mod(module) = item
                && let Some((_, items)) = &mut module.content
            {
                self.remove_from(items);
            } else if let Item::Impl(implementation) = item {
                implementation.items.retain(|item| self.stays(impl_attributes(item), item));
            } else if let Item::Trait(declaration) = item {
                declaration.items.retain(|item| self.stays(trait_attributes(item), item));
            }
        }
    }

    fn stays(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let is_product = !attributes.iter().any(is_for_tests);
        if !is_product {
            self.test_lines.push(lines_of(item.span()));
        }
        is_product
    }

    /// Whether a line belongs to tests.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|lines| lines.contains(&line))
    }
}

/// The line that a span begins at, from 1 on.
pub fn line_of(span: Span) -> usize {
    span.start().line
}

fn lines_of(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

/// The file that `#[path = "…"]` names.
pub fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find(|attribute| attribute.path().is_ident("path")).and_then(text_value)
}

/// The text of an attribute such as `#[doc = "…"]`.
pub fn text_value(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(literal) = &pair.value else { return None };
    let syn::Lit::Str(text) = &literal.lit else { return None };
    Some(text.value())
}

/// Whether what has this attribute is compiled for tests alone: `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let is_test = attribute.path().segments.last().is_some_and(|segment| segment.ident == "test");
    let Meta::List(list) = &attribute.meta else { return is_test };
    is_test || (list.path.is_ident("cfg") && needs_test(&list.tokens))
}

fn needs_test(condition: &TokenStream) -> bool {
    let mut tokens = condition.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(word)), None) => word == "test",
        (Some(TokenTree::Ident(word)), Some(TokenTree::Group(group))) if word == "all" => {
            let is_test = |token: TokenTree| matches!(token, TokenTree::Ident(word) if word == "test");
            group.stream().into_iter().any(is_test)
        }
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Verbatim(_) | _ => &[],
    }
}

fn impl_attributes(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        ImplItem::Macro(item) => &item.attrs,
        ImplItem::Verbatim(_) | _ => &[],
    }
}

fn trait_attributes(item: &TraitItem) -> &[Attribute] {
    match item {
        TraitItem::Const(item) => &item.attrs,
        TraitItem::Fn(item) => &item.attrs,
        TraitItem::Type(item) => &item.attrs,
        TraitItem::Macro(item) => &item.attrs,
        TraitItem::Verbatim(_) | _ => &[],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn what_only_tests_compile_is_removed() {
        let text = "fn a() {}\n#[cfg(test)]\nmod x;\nmod b {\n    #[cfg(all(test, unix))]\n    #[path = \"z.rs\"]\n    \
                    mod y;\n    #[cfg(not(test))]\n    fn c() {}\n}\nimpl A {\n    #[cfg(test)]\n    fn d() {\n    }\n}\n\
                    #[tokio::test]\nasync fn e() {}\n";
        let mut source = Source::parse("a.rs", text.to_owned()).unwrap();
        source.remove_tests();
        let test_lines: Vec<usize> = (1..=17).filter(|line| source.is_test_line(*line)).collect();
        assert_eq!(test_lines, [2, 3, 5, 6, 7, 12, 13, 14, 16, 17]);
        assert_eq!(source.file.items.len(), 3);
    }

    #[test]
    fn a_file_of_tests_has_no_product() {
        let mut source = Source::parse("a.rs", "#![cfg(test)]\nfn a() {}\n".to_owned()).unwrap();
        source.remove_tests();
        assert!(source.file.items.is_empty() && source.is_test_line(2));
    }
}
