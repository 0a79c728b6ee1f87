//! The trees of modules of the workspace's libraries and programs.

use std::collections::{BTreeMap, VecDeque};

use super::facts::{Child, ModuleFacts};
use crate::manifest::Package;

/// A library or a program: its modules by their paths, the root's path being empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// The package, by its place in the workspace.
    pub package: usize,
    /// The library's name in code; nothing for a program, which no other crate can name.
    pub library: Option<String>,
    pub modules: BTreeMap<Vec<String>, Module<'a>>,
}

/// A module with the file that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module<'a> {
    pub file: &'a str,
    pub facts: &'a ModuleFacts,
}

/// Joins the files of all packages to trees.
pub fn units<'a>(packages: &[Package], files: &BTreeMap<&'a str, &'a [ModuleFacts]>) -> Vec<Unit<'a>> {
    let mut units = Vec::new();
    for (index, package) in packages.iter().enumerate() {
        let library = format!("{}/src/lib.rs", package.folder);
        for root in roots(package, files) {
            let name = (root == library).then(|| package.crate_name());
            let empty = Unit { package: index, library: name, modules: BTreeMap::new() };
            let mut reader = UnitReader { files, unit: empty, queue: VecDeque::new() };
            reader.read(root);
            units.push(reader.unit);
        }
    }
    units
}

/// The files that a package's library and programs begin with.
fn roots<'a>(package: &Package, files: &BTreeMap<&'a str, &'a [ModuleFacts]>) -> Vec<&'a str> {
    let source = format!("{}/src/", package.folder);
    let is_root = |path: &str| {
        let Some(below) = path.strip_prefix(&source) else { return false };
        let program = below.strip_prefix("bin/").unwrap_or_default();
        let is_program = program.ends_with("/main.rs") || (!program.is_empty() && !program.contains('/'));
        let is_named = package.programs.iter().any(|program| format!("{}/{program}", package.folder) == path);
        ["lib.rs", "main.rs"].contains(&below) || is_program || is_named
    };
    files.keys().copied().filter(|path| is_root(path)).collect()
}

struct UnitReader<'a, 'f> {
    files: &'f BTreeMap<&'a str, &'a [ModuleFacts]>,
    unit: Unit<'a>,
    queue: VecDeque<QueuedFile<'a>>,
}

struct QueuedFile<'a> {
    file: &'a str,
    module: Vec<String>,
    /// Modules without `#[path]` lie in the folder of the file itself: it is a root or a `mod.rs`.
    is_folder: bool,
}

impl<'a> UnitReader<'a, '_> {
    fn read(&mut self, root: &'a str) {
        self.queue.push_back(QueuedFile { file: root, module: Vec::new(), is_folder: true });
        while let Some(next) = self.queue.pop_front() {
            for module in self.files.get(next.file).copied().unwrap_or_default() {
                for child in &module.children {
                    self.enqueue(&next, &module.inside, child);
                }
                let path = [next.module.as_slice(), &module.inside].concat();
                self.unit.modules.insert(path, Module { file: next.file, facts: module });
            }
        }
    }

    fn enqueue(&mut self, parent: &QueuedFile<'a>, inside: &[String], child: &Child) {
        let Child { name, file } = child;
        let (folder, own) = parent.file.rsplit_once('/').unwrap_or(("", parent.file));
        let stem = own.trim_end_matches(".rs");
        let mut base = folder.to_owned();
        if !parent.is_folder && (file.is_none() || !inside.is_empty()) {
            base = format!("{base}/{stem}");
        }
        inside.iter().for_each(|module| base = format!("{base}/{module}"));
        let candidates = match file {
            Some(file) => vec![(normal(&format!("{base}/{file}")), true)],
            None => vec![(format!("{base}/{name}.rs"), false), (format!("{base}/{name}/mod.rs"), true)],
        };
        let found = candidates
            .iter()
            .find_map(|(path, is_folder)| self.files.get_key_value(path.as_str()).map(|(path, _)| (*path, *is_folder)));
        if let Some((file, is_folder)) = found {
            let mut module = [parent.module.as_slice(), inside].concat();
            module.push(name.clone());
            self.queue.push_back(QueuedFile { file, module, is_folder });
        }
    }
}

/// A path without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{modules::read, rules::testing::product, source::Source};

    #[test]
    fn modules_are_found_in_every_place_that_rust_allows() {
        let texts = [
            ("p/src/lib.rs", "mod a; mod b; mod c { mod d; } #[path = \"odd.rs\"] mod e; #[cfg(test)] mod tests;"),
            ("p/src/a.rs", "mod x; #[cfg(test)] #[path = \"a_tests.rs\"] mod tests;"),
            ("p/src/a/x.rs", ""),
            ("p/src/a_tests.rs", ""),
            ("p/src/b/mod.rs", "mod y;"),
            ("p/src/b/y.rs", ""),
            ("p/src/c/d.rs", ""),
            ("p/src/odd.rs", ""),
            ("p/src/tests.rs", ""),
            ("p/src/bin/tool.rs", "mod part;"),
            ("p/src/bin/part.rs", ""),
            ("p/src/lost.rs", ""),
        ];
        let sources: Vec<Source> = texts.iter().map(|(_, text)| product(text)).collect();
        let modules: Vec<Vec<ModuleFacts>> = sources.iter().map(read).collect();
        let modules = modules.iter().map(Vec::as_slice);
        let files: BTreeMap<&str, &[ModuleFacts]> = texts.iter().map(|(path, _)| *path).zip(modules).collect();
        let package = Package { name: "a-p".to_owned(), folder: "p".to_owned(), ..Package::default() };
        let units = units(&[package], &files);
        assert_eq!(units.len(), 3);
        let library = units.iter().find(|unit| unit.library.as_deref() == Some("a_p")).expect("the library is a unit");
        let shown = |(path, module): (&Vec<String>, &Module<'_>)| format!("{} {}", path.join("::"), module.file);
        let found: Vec<String> = library.modules.iter().map(shown).collect();
        let expected = [
            " p/src/lib.rs",
            "a p/src/a.rs",
            "a::x p/src/a/x.rs",
            "b p/src/b/mod.rs",
            "b::y p/src/b/y.rs",
            "c p/src/lib.rs",
            "c::d p/src/c/d.rs",
            "e p/src/odd.rs",
        ];
        assert_eq!(found, expected);
    }
}
