//! Parameters that are tuples without names.

use syn::visit::{self, Visit};
use syn::{FnArg, ImplItemFn, ItemFn, ItemImpl, Pat, Signature, TraitItemFn, Type};

use crate::rule::{Hit, Rule};
use crate::source::{Source, line_of};

/// Finds functions that take a tuple. A method of a trait may have to: there, only one that takes the tuple apart
/// between the brackets counts.
pub fn check(source: &Source) -> Vec<Hit> {
    let mut parameters = Parameters { path: &source.path, is_of_trait: false, hits: Vec::new() };
    parameters.visit_file(&source.file);
    parameters.hits
}

struct Parameters<'a> {
    path: &'a str,
    /// The methods that are visited implement a trait.
    is_of_trait: bool,
    hits: Vec<Hit>,
}

impl Parameters<'_> {
    fn judge(&mut self, signature: &Signature, is_given: bool) {
        for input in &signature.inputs {
            let FnArg::Typed(parameter) = input else { continue };
            let is_apart = matches!(*parameter.pat, Pat::Tuple(_));
            if is_tuple(&parameter.ty) && (is_apart || !is_given) {
                let item = signature.ident.to_string();
                self.hits.push(Hit {
                    rule: Rule::TupleParameter,
                    path: self.path.to_owned(),
                    line: line_of(parameter.colon_token.spans[0]),
                    text: format!("`{item}` takes a tuple"),
                    item,
                });
            }
        }
    }
}

fn is_tuple(kind: &Type) -> bool {
    if let Type::Reference(reference) = kind {
        return is_tuple(&reference.elem);
    }
    matches!(kind, Type::Tuple(tuple) if tuple.elems.len() > 1)
}

impl<'ast> Visit<'ast> for Parameters<'_> {
    fn visit_item_impl(&mut self, implementation: &'ast ItemImpl) {
        let outer = std::mem::replace(&mut self.is_of_trait, implementation.trait_.is_some());
        visit::visit_item_impl(self, implementation);
        self.is_of_trait = outer;
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.judge(&function.sig, false);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.judge(&function.sig, self.is_of_trait);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.judge(&function.sig, false);
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{items, product};

    #[test]
    fn tuples_are_found_by_their_type() {
        let text = "fn a((x, y): (u8, u8)) {}\nfn b(\n    pair: &(u8, u8),\n) {}\nimpl A { fn c(&self, x: &mut (u8, u8)) {} }\n\
                    trait B { fn d(x: (u8, u8)); }\nimpl From<(u8, u8)> for A { fn from((x, y): (u8, u8)) -> A {} }\n";
        let hits = check(&product(text));
        assert_eq!(items(&hits), ["a", "b", "c", "d", "from"]);
        assert_eq!((hits[1].line, hits[1].text.as_str()), (3, "`b` takes a tuple"));
    }

    #[test]
    fn named_parts_lists_and_closures_are_left_alone() {
        let text = "fn a(Pair { x, y }: Pair, list: &[(u8, u8)], f: impl Fn((u8, u8)), unit: ()) { |(x, y): (u8, u8)| x; }\n\
                    impl From<(u8, u8)> for A { fn from(pair: (u8, u8)) -> A {} }\n";
        assert_eq!(check(&product(text)), []);
    }
}
