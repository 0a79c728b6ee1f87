//! The rules, one file each.

use std::collections::BTreeMap;

pub mod crate_arrows;
pub mod doc_comments;
pub mod folder_arrows;
pub mod lengths;
pub mod log_events;
pub mod string_errors;
pub mod tuple_parameters;
pub mod type_names;

use crate::arrows::Arrows;
use crate::modules::{ModuleFacts, Resolver, units};
use crate::rule::Hit;
use crate::tree::{FileReading, Tree};

/// Finds everything in a tree that breaks a rule, in the order of rules and places.
pub fn check(tree: &Tree, arrows: &Arrows) -> Vec<Hit> {
    let modules = tree.files.iter().map(|file| (file.path.as_str(), file.modules.as_slice()));
    let modules: BTreeMap<&str, &[ModuleFacts]> = modules.collect();
    let units = units(&tree.packages, &modules);
    let product = tree.product(&units);
    let mut hits: Vec<Hit> = product.iter().flat_map(|file| file.product_hits.iter().cloned()).collect();
    let is_test = |file: &&FileReading| !product.iter().any(|product| std::ptr::eq(*product, *file));
    hits.extend(tree.files.iter().filter(is_test).flat_map(|file| file.test_hits.iter().cloned()));
    for package in 0..tree.packages.len() {
        let own: Vec<&&FileReading> = product.iter().filter(|file| file.package == package).collect();
        let names: Vec<_> = own.iter().map(|file| (file.path.as_str(), file.type_names.as_slice())).collect();
        hits.extend(type_names::check(&names));
        let errors: Vec<_> = own.iter().map(|file| (file.path.as_str(), &file.error_types)).collect();
        hits.extend(string_errors::check(&errors));
    }
    let resolver = Resolver::new(&units);
    let re_exported = crate_arrows::re_exported(&tree.packages, &units, &resolver);
    hits.extend(crate_arrows::check(&tree.packages, &re_exported, arrows));
    hits.extend(folder_arrows::check(&tree.packages, &units, &resolver, arrows));
    hits.sort();
    hits
}

/// What the tests of the rules share.
#[cfg(test)]
pub(crate) mod testing {
    use crate::{rule::Hit, source::Source};

    /// Parses a text, and leaves out its tests.
    pub(crate) fn product(text: &str) -> Source {
        let mut source = Source::parse("a.rs", text.to_owned()).expect("a test writes Rust");
        source.remove_tests();
        source
    }

    /// The texts of hits.
    pub(crate) fn texts(hits: &[Hit]) -> Vec<&str> {
        hits.iter().map(|hit| hit.text.as_str()).collect()
    }

    /// The items of hits.
    pub(crate) fn items(hits: &[Hit]) -> Vec<&str> {
        hits.iter().map(|hit| hit.item.as_str()).collect()
    }
}
