//! Arrows between crates, by their manifests and by what their code names through re-exports.

use std::collections::BTreeSet;

use crate::arrows::{self, Arrows, CrateRow, Without};
use crate::manifest::Package;
use crate::modules::{Resolver, Unit};
use crate::rule::{Hit, Rule};

/// An arrow that no manifest has: a path through re-exports that leads from one package to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReExported {
    from: String,
    to: String,
    file: String,
    line: usize,
    path: String,
}

/// Follows every path of the product to the crate that defines what it names. Returns one arrow for each file.
pub fn re_exported(packages: &[Package], units: &[Unit<'_>], resolver: &Resolver<'_>) -> Vec<ReExported> {
    let mut arrows: Vec<ReExported> = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let from = &packages[unit.package];
        for (module, place) in &unit.modules {
            for path in &place.facts.used {
                let Some(target) = resolver.resolve(index, module, &path.segments) else { continue };
                let to = &packages[units[target.unit].package].name;
                let is_known = arrows.iter().any(|arrow| arrow.file == place.file && arrow.to == *to);
                if *to != from.name && !from.uses.contains(to) && !is_known {
                    let (from, to, file) = (from.name.clone(), to.clone(), place.file.to_owned());
                    arrows.push(ReExported { from, to, file, line: path.line, path: path.segments.join("::") });
                }
            }
        }
    }
    arrows
}

/// Finds arrows that the table does not allow, and rows of the table that nothing needs.
pub fn check(packages: &[Package], re_exported: &[ReExported], arrows: &Arrows) -> Vec<Hit> {
    let mut hits: Vec<Hit> = packages.iter().flat_map(|package| of_package(package, packages, arrows)).collect();
    hits.extend(re_exported.iter().filter_map(|found| of_path(found, arrows)));
    hits.extend(arrows.crates.iter().flat_map(|row| of_row(row, packages, re_exported)));
    hits.extend(duplicates(arrows));
    hits.extend(arrows.without.iter().flat_map(|rule| of_without(rule, packages)));
    hits
}

fn of_package(package: &Package, packages: &[Package], arrows: &Arrows) -> Vec<Hit> {
    let Some(row) = row(arrows, &package.name) else {
        return vec![in_table(&package.name, "has no row: say what it may use")];
    };
    let is_ours = |other: &&String| find(packages, other).is_some();
    let manifest = package.manifest();
    let product = package.uses.iter().filter(is_ours).filter(|other| !row.may_use(other));
    let tests = package.tests_use.iter().filter(is_ours).filter(|other| !row.tests_may_use(other));
    let product = product.map(|other| arrow(&manifest, &package.name, other, "its row does not allow it"));
    let tests = tests.map(|other| arrow(&manifest, &package.name, other, "its row does not allow it to tests either"));
    product.chain(tests).collect()
}

fn of_path(found: &ReExported, arrows: &Arrows) -> Option<Hit> {
    let row = row(arrows, &found.from)?;
    let why = format!("`{}` leads there by a re-export, and its row does not allow it", found.path);
    let hit = || Hit { line: found.line, ..arrow(&found.file, &found.from, &found.to, &why) };
    (!row.may_use(&found.to)).then(hit)
}

/// What a row says that is not so.
fn of_row(row: &CrateRow, packages: &[Package], re_exported: &[ReExported]) -> Vec<Hit> {
    let Some(package) = find(packages, &row.name) else {
        return vec![in_table(&row.name, "is no crate of the workspace: take its row out")];
    };
    let is_used = |other: &str| {
        let by_path = re_exported.iter().any(|found| found.from == row.name && found.to == other);
        by_path || package.uses.iter().any(|used| used == other)
    };
    let product = row.named().filter(|other| !is_used(other));
    let tests = row.tests_use.iter().filter(|other| !package.tests_use.contains(other));
    let unused = product.chain(tests);
    unused.map(|other| in_table(&row.name, &format!("does not use {other}: take it out of its row"))).collect()
}

/// What packages use that they must do without, and names in the rule that are lost.
fn of_without(rule: &Without, packages: &[Package]) -> Vec<Hit> {
    let mut hits = Vec::new();
    for name in &rule.crates {
        let Some(package) = find(packages, name) else {
            hits.push(in_table(name, "is no crate of the workspace: take its name out of `without`"));
            continue;
        };
        let used = reached(package, packages);
        let used = rule.without.iter().filter(|other| used.contains(other.as_str()));
        hits.extend(used.map(|other| arrow(&package.manifest(), name, other, &rule.why)));
    }
    hits
}

/// What a package's product uses, and what the crates of the workspace among these reach in turn.
fn reached<'a>(package: &'a Package, packages: &'a [Package]) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut queue = vec![package];
    while let Some(next) = queue.pop() {
        let ours = next.uses.iter().filter(|other| next.name == package.name || find(packages, other).is_some());
        queue.extend(ours.filter(|other| reached.insert(other.as_str())).filter_map(|other| find(packages, other)));
    }
    reached
}

fn duplicates(arrows: &Arrows) -> Vec<Hit> {
    let mut known = BTreeSet::new();
    let again = arrows.crates.iter().filter(|row| !known.insert(&row.name));
    again.map(|row| in_table(&row.name, "has two rows: keep one")).collect()
}

fn row<'a>(arrows: &'a Arrows, name: &str) -> Option<&'a CrateRow> {
    arrows.crates.iter().find(|row| row.name == name)
}

fn find<'a>(packages: &'a [Package], name: &str) -> Option<&'a Package> {
    packages.iter().find(|package| package.name == name)
}

fn arrow(path: &str, from: &str, to: &str, why: &str) -> Hit {
    let item = format!("{from} -> {to}");
    Hit { rule: Rule::CrateArrow, path: path.to_owned(), line: 1, text: format!("{item}: {why}"), item }
}

fn in_table(name: &str, what: &str) -> Hit {
    let (path, text) = (arrows::PATH.to_owned(), format!("{name} {what}"));
    Hit { rule: Rule::CrateArrow, path, line: 1, item: name.to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::{ModuleFacts, read, units};
    use crate::rules::testing::{product, texts};

    fn package(name: &str, uses: &[&str], tests_use: &[&str]) -> Package {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Package {
            name: name.into(),
            folder: name.into(),
            uses: owned(uses),
            tests_use: owned(tests_use),
            programs: vec![],
        }
    }

    fn row_of(name: &str, uses: &[&str]) -> CrateRow {
        let uses = uses.iter().map(|name| (*name).to_owned()).collect();
        CrateRow { name: name.to_owned(), uses, ..CrateRow::default() }
    }

    #[test]
    fn arrows_that_no_row_allows_are_found() {
        let packages = [package("a", &["b"], &["c"]), package("b", &["c"], &[]), package("c", &[], &[])];
        let crates = vec![row_of("a", &["b"]), row_of("b", &[]), row_of("b", &["c"])];
        let hits = check(&packages, &[], &Arrows { crates, ..Arrows::default() });
        let expected = [
            "a -> c: its row does not allow it to tests either",
            "b -> c: its row does not allow it",
            "c has no row: say what it may use",
            "b has two rows: keep one",
        ];
        assert_eq!(texts(&hits), expected);
        assert_eq!((hits[0].path.as_str(), hits[2].path.as_str()), ("a/Cargo.toml", arrows::PATH));
    }

    #[test]
    fn what_a_crate_must_do_without_is_found_behind_other_crates() {
        let packages =
            [package("a", &["b", "tokio"], &["e"]), package("b", &["c", "hyper"], &[]), package("c", &[], &[])];
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (crates, without) = (owned(&["a", "x"]), owned(&["c", "e", "hyper", "tokio"]));
        let hits = of_without(&Without { crates, without, why: "it decides".to_owned() }, &packages);
        let lost = "x is no crate of the workspace: take its name out of `without`";
        assert_eq!(texts(&hits), ["a -> c: it decides", "a -> tokio: it decides", lost]);
    }

    #[test]
    fn rows_that_nothing_needs_are_found() {
        let packages = [package("a", &["b"], &[]), package("b", &[], &[])];
        let crates = vec![row_of("a", &["b", "c"]), row_of("b", &[]), row_of("gone", &[])];
        let hits = check(&packages, &[], &Arrows { crates, ..Arrows::default() });
        let expected =
            ["a does not use c: take it out of its row", "gone is no crate of the workspace: take its row out"];
        assert_eq!(texts(&hits), expected);
    }

    #[test]
    fn an_arrow_through_a_re_export_is_found() {
        let sources = [
            ("a/src/lib.rs", "use b::Local;\n\nfn f() { b::deep::Fact::new(); }"),
            ("b/src/lib.rs", "pub struct Local; pub mod deep { pub use c::Fact; }"),
            ("c/src/lib.rs", "pub struct Fact;"),
        ];
        let modules: Vec<Vec<ModuleFacts>> = sources.iter().map(|(_, text)| read(&product(text))).collect();
        let files = sources.iter().map(|(path, _)| *path).zip(modules.iter().map(Vec::as_slice)).collect();
        let packages = [package("a", &["b"], &[]), package("b", &["c"], &[]), package("c", &[], &[])];
        let units = units(&packages, &files);
        let found = re_exported(&packages, &units, &Resolver::new(&units));
        let hits = |uses: &[&str]| {
            let crates = vec![row_of("a", uses), row_of("b", &["c"]), row_of("c", &[])];
            check(&packages, &found, &Arrows { crates, ..Arrows::default() })
        };
        let expected = "a -> c: `b::deep::Fact::new` leads there by a re-export, and its row does not allow it";
        let hit = hits(&["b"]);
        assert_eq!(texts(&hit), [expected]);
        assert_eq!((hit[0].path.as_str(), hit[0].line), ("a/src/lib.rs", 3));
        assert_eq!(hits(&["b", "c"]), []);
    }
}
