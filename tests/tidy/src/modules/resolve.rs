//! Where a path leads: the module that defines what it names.

use std::collections::BTreeMap;

use super::{facts::Import, units::Unit};

/// Longest chain of re-exports that is followed; an endless one is no Rust.
const STEPS_MAX: usize = 24;

/// A module, and whether it is itself what a path names, or an item in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The unit, by its place among all of them.
    pub unit: usize,
    pub module: Vec<String>,
    pub is_module: bool,
}

/// Follows paths through the modules of all units.
#[derive(Debug)]
pub struct Resolver<'a> {
    units: &'a [Unit<'a>],
    libraries: BTreeMap<&'a str, usize>,
}

impl<'a> Resolver<'a> {
    /// Prepares to follow paths in these units.
    pub fn new(units: &'a [Unit<'a>]) -> Self {
        let named = units.iter().enumerate().filter_map(|(index, unit)| Some((unit.library.as_deref()?, index)));
        Self { units, libraries: named.collect() }
    }

    /// Follows a path that a module names. `None` where it leads out of the workspace or names something local.
    pub fn resolve(&self, unit: usize, module: &[String], segments: &[String]) -> Option<Place> {
        self.follow(unit, module, segments, 0)
    }

    fn follow(&self, unit: usize, module: &[String], segments: &[String], steps: usize) -> Option<Place> {
        let [first, rest @ ..] = segments else { return None };
        if steps > STEPS_MAX {
            return None;
        }
        let start = |unit: usize, module: &[String]| Place { unit, module: module.to_vec(), is_module: true };
        match first.as_str() {
            "crate" => return Some(self.walk(start(unit, &[]), rest, steps)),
            "self" => return Some(self.walk(start(unit, module), rest, steps)),
            "super" => {
                let (_, outer) = module.split_last()?;
                // What follows may be `super` again.
                let again = rest.first().is_some_and(|next| next == "super");
                return if again {
                    self.follow(unit, outer, rest, steps + 1)
                } else {
                    Some(self.walk(start(unit, outer), rest, steps))
                };
            }
            _ => {}
        }
        if let Some(place) = self.step(unit, module, first, steps) {
            return Some(if place.is_module { self.walk(place, rest, steps) } else { place });
        }
        let library = *self.libraries.get(first.as_str())?;
        Some(self.walk(start(library, &[]), rest, steps))
    }

    /// Goes on from a module along the rest of a path.
    fn walk(&self, mut place: Place, segments: &[String], steps: usize) -> Place {
        for name in segments {
            if !place.is_module {
                break;
            }
            place = match self.step(place.unit, &place.module, name, steps) {
                Some(next) => next,
                // A macro made it, or it is defined in a way that is not known here.
                None => Place { is_module: false, ..place },
            };
        }
        place
    }

    /// What a name is in a module: a module below it, its own item, or what an import brings.
    fn step(&self, unit: usize, module: &[String], name: &str, steps: usize) -> Option<Place> {
        let mut below = module.to_vec();
        below.push(name.to_owned());
        let modules = &self.units[unit].modules;
        if modules.contains_key(&below) {
            return Some(Place { unit, module: below, is_module: true });
        }
        let facts = modules.get(module)?.facts;
        if facts.defined.contains(name) {
            return Some(Place { unit, module: module.to_vec(), is_module: false });
        }
        let is_it = |import: &&Import| import.name.as_deref() == Some(name);
        if let Some(import) = facts.imports.iter().find(is_it) {
            return self.imported(unit, module, import, name, steps);
        }
        let globs = facts.imports.iter().filter(|import| import.name.is_none());
        globs.into_iter().find_map(|glob| {
            let place = self.follow(unit, module, &glob.segments, steps + 1)?;
            let is_other = place.is_module && (place.unit, place.module.as_slice()) != (unit, module);
            is_other.then(|| self.bounded_step(&place, name, steps + 1)).flatten()
        })
    }

    fn bounded_step(&self, place: &Place, name: &str, steps: usize) -> Option<Place> {
        if steps > STEPS_MAX { None } else { self.step(place.unit, &place.module, name, steps) }
    }

    fn imported(&self, unit: usize, module: &[String], import: &Import, name: &str, steps: usize) -> Option<Place> {
        // `use name::x as name` names another crate, not itself.
        let is_own = import.segments.first().is_some_and(|first| first == name);
        if !is_own {
            return self.follow(unit, module, &import.segments, steps + 1);
        }
        let library = *self.libraries.get(name)?;
        let root = Place { unit: library, module: Vec::new(), is_module: true };
        Some(self.walk(root, &import.segments[1..], steps + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Package;
    use crate::modules::{ModuleFacts, read, units};
    use crate::rules::testing::product;
    use crate::source::Source;

    const TEXTS: [(&str, &str); 7] = [
        (
            "one/src/lib.rs",
            "pub mod model; pub mod serve; pub use model::Kind; pub use self::serve::*; mod a { pub struct X; }",
        ),
        ("one/src/model.rs", "pub struct Kind; pub use two::Fact as Known; pub(crate) use super::a;"),
        (
            "one/src/serve.rs",
            "use super::model::{self, Known}; pub struct Page; use crate::model::a as letters; use two;",
        ),
        ("two/src/lib.rs", "mod inner; pub use inner::*; pub use endless::*; pub mod endless;"),
        ("two/src/inner.rs", "pub enum Fact { A }"),
        ("two/src/endless.rs", "pub use super::*;"),
        ("two/src/main.rs", "use two::Fact; fn main() {}"),
    ];

    fn found(unit_root: &str, module: &str, path: &str) -> Option<String> {
        let sources: Vec<Source> = TEXTS.iter().map(|(_, text)| product(text)).collect();
        let modules: Vec<Vec<ModuleFacts>> = sources.iter().map(read).collect();
        let files: BTreeMap<&str, &[ModuleFacts]> =
            TEXTS.iter().map(|(path, _)| *path).zip(modules.iter().map(Vec::as_slice)).collect();
        let package = |name: &str| Package { name: name.to_owned(), folder: name.to_owned(), ..Package::default() };
        let units = units(&[package("one"), package("two")], &files);
        let unit =
            units.iter().position(|unit| unit.modules[&Vec::new()].file == unit_root).expect("a unit has a root");
        let split =
            |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let place = Resolver::new(&units).resolve(unit, &split(module), &split(path))?;
        let root = units[place.unit].modules[&Vec::new()].file;
        Some(format!("{root} {}{}", place.module.join("::"), if place.is_module { " itself" } else { "" }))
    }

    #[test]
    fn paths_are_followed_through_re_exports() {
        let one = "one/src/lib.rs";
        let cases = [
            (one, "", "crate::Kind", Some("one/src/lib.rs model")),
            (one, "serve", "crate::Page::new", Some("one/src/lib.rs serve")),
            (one, "serve", "model::Kind", Some("one/src/lib.rs model")),
            (one, "serve", "model", Some("one/src/lib.rs model itself")),
            (one, "serve", "super::model::Known", Some("two/src/lib.rs inner")),
            (one, "serve", "Known::A", Some("two/src/lib.rs inner")),
            (one, "serve", "letters::X", Some("one/src/lib.rs a")),
            (one, "serve", "two::Fact", Some("two/src/lib.rs inner")),
            (one, "serve", "two::inner::Fact", Some("two/src/lib.rs inner")),
            (one, "serve", "two::made_by_macro", Some("two/src/lib.rs ")),
            (one, "serve", "std::fmt::Debug", None),
            (one, "serve", "Local::new", None),
            ("two/src/lib.rs", "endless", "super::super::x", None),
            ("two/src/lib.rs", "endless", "Fact", Some("two/src/lib.rs inner")),
            ("two/src/lib.rs", "endless", "Missing", None),
            ("two/src/main.rs", "", "two::Fact", Some("two/src/lib.rs inner")),
        ];
        for (root, module, path, expected) in cases {
            assert_eq!(found(root, module, path).as_deref(), expected, "{path} in {root} {module}");
        }
    }
}
