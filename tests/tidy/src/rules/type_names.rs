//! Names of types, each only once in a crate.

use std::collections::BTreeMap;

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{ItemEnum, ItemStruct, ItemTrait, ItemType, ItemUnion};

use crate::rule::{Hit, Rule};
use crate::source::{Source, line_of};

/// A name that each module may give its own type.
const IDIOMATIC: &str = "Error";

/// A type that a file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    pub name: String,
    pub line: usize,
}

/// Reads the names of structs, enums, unions, traits and aliases.
pub fn read(source: &Source) -> Vec<TypeName> {
    let mut names = Names(Vec::new());
    names.visit_file(&source.file);
    names.0
}

/// Finds names that one crate has twice. Takes the names of each file.
pub fn check(files: &[(&str, &[TypeName])]) -> Vec<Hit> {
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (path, names) in files {
        for name in names.iter().filter(|name| name.name != IDIOMATIC) {
            places.entry(&name.name).or_default().push((path, name.line));
        }
    }
    places.retain(|_, places| places.len() > 1);
    places.iter().flat_map(|(name, places)| hits(name, places)).collect()
}

fn hits(name: &str, places: &[(&str, usize)]) -> Vec<Hit> {
    let hit = |place: &(&str, usize)| {
        let others = places.iter().filter(|other| *other != place).map(|(path, line)| format!("{path}:{line}"));
        Hit {
            rule: Rule::TypeName,
            path: place.0.to_owned(),
            line: place.1,
            item: name.to_owned(),
            text: format!("`{name}` is also defined in {}", others.collect::<Vec<_>>().join(", ")),
        }
    };
    places.iter().map(hit).collect()
}

struct Names(Vec<TypeName>);

impl Names {
    fn add(&mut self, name: &Ident) {
        self.0.push(TypeName { name: name.to_string(), line: line_of(name.span()) });
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.add(&item.ident);
        // A method with a body may define types of its own.
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.add(&item.ident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{items, product};

    #[test]
    fn a_name_that_is_there_twice_is_found_at_both_places() {
        let one = read(&product("struct Place; mod x { enum Kind {} }\ntype Answer = u8;"));
        let other = read(&product("trait Kind {}\nfn f() { union Answer { x: u8 } }\nstruct Once;"));
        let hits = check(&[("one.rs", &one), ("other.rs", &other)]);
        assert_eq!(items(&hits), ["Answer", "Answer", "Kind", "Kind"]);
        assert_eq!(hits[1].text, "`Answer` is also defined in one.rs:2");
        assert_eq!((hits[1].path.as_str(), hits[1].line), ("other.rs", 2));
    }

    #[test]
    fn errors_may_repeat_and_associated_types_and_tests_do_not_count() {
        let one = read(&product("enum Error {}\ntrait A { type Item; }\nstruct B;"));
        let other =
            read(&product("struct Error;\nimpl A for C { type Item = u8; }\n#[cfg(test)] mod tests { struct B; }"));
        assert_eq!(check(&[("one.rs", &one), ("other.rs", &other)]), []);
    }
}
