//! All sources of the workspace, each parsed once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use anyhow::Context;

use crate::manifest::{Package, Workspace, read};
use crate::modules::{self, ModuleFacts, Unit};
use crate::rule::Hit;
use crate::rules::string_errors::{self, ErrorTypes};
use crate::rules::type_names::{self, TypeName};
use crate::rules::{doc_comments, lengths, log_events, tuple_parameters};
use crate::source::Source;

/// Packages in this folder are tests themselves.
const TEST_PACKAGES: &str = "tests";
/// The one package of tests that keeps the rules of a product.
const OWN_PACKAGE: &str = "tests/tidy";
/// A folder with what a build made.
const BUILT: &str = "target";

/// The packages of the workspace, and what their files say.
#[derive(Debug)]
pub struct Tree {
    pub packages: Vec<Package>,
    /// Every Rust file, in the order of paths.
    pub files: Vec<FileReading>,
}

/// What one file says.
#[derive(Clone, Debug)]
pub struct FileReading {
    /// The path below the repository's root.
    pub path: String,
    /// The package, by its place in the workspace.
    pub package: usize,
    /// Hits of the rules that need this file only, if it is part of a product.
    pub product_hits: Vec<Hit>,
    /// Hits of the same rules, if all of it is a test.
    pub test_hits: Vec<Hit>,
    pub type_names: Vec<TypeName>,
    pub error_types: ErrorTypes,
    pub modules: Vec<ModuleFacts>,
}

/// A file that is still to be read.
#[derive(Debug)]
struct FoundFile {
    path: String,
    package: usize,
}

impl Tree {
    /// Reads every Rust file of the workspace below the repository's root.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let workspace = Workspace::read(root)?;
        let mut found = Vec::new();
        for (package, folder) in workspace.packages.iter().map(|package| &package.folder).enumerate() {
            let others: Vec<&String> = workspace.packages.iter().map(|other| &other.folder).collect();
            let is_left_out = |path: &str| {
                let is_other = others.iter().any(|other| *other == path && path != folder);
                is_other || workspace.excluded.iter().any(|excluded| excluded == path)
            };
            collect(root, folder, package, &is_left_out, &mut found)?;
        }
        let mut files = read_all(root, &found)?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { packages: workspace.packages, files })
    }

    /// The files that are part of a product: those that a library or a program outside the tests is made of.
    pub fn product<'a>(&'a self, units: &[Unit<'a>]) -> Vec<&'a FileReading> {
        let is_product = |unit: &&Unit<'_>| is_product(&self.packages[unit.package].folder);
        let modules = units.iter().filter(is_product).flat_map(|unit| unit.modules.values());
        let paths: BTreeSet<&str> = modules.map(|module| module.file).collect();
        self.files.iter().filter(|file| paths.contains(file.path.as_str())).collect()
    }
}

/// Whether the package in a folder is no package of tests.
fn is_product(folder: &str) -> bool {
    folder.split('/').next() != Some(TEST_PACKAGES) || folder == OWN_PACKAGE
}

/// Adds the Rust files below a folder.
fn collect(
    root: &Path,
    folder: &str,
    package: usize,
    is_left_out: &dyn Fn(&str) -> bool,
    found: &mut Vec<FoundFile>,
) -> anyhow::Result<()> {
    let open = || format!("could not list {folder}");
    for entry in fs::read_dir(root.join(folder)).with_context(open)? {
        let entry = entry.with_context(open)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        let kind = entry.file_type().with_context(open)?;
        if kind.is_dir() && !name.starts_with('.') && name != BUILT && !is_left_out(&path) {
            collect(root, &path, package, is_left_out, found)?;
        } else if kind.is_file() && name.ends_with(".rs") {
            found.push(FoundFile { path, package });
        }
    }
    Ok(())
}

/// Reads files on all cores. Spans belong to the thread that parses, so each file is judged where it is parsed.
fn read_all(root: &Path, found: &[FoundFile]) -> anyhow::Result<Vec<FileReading>> {
    let next = AtomicUsize::new(0);
    let read_some = || {
        let mut readings = Vec::new();
        while let Some(file) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            readings.push(read_file(root.join(&file.path), file)?);
        }
        Ok(readings)
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(read_some)).collect();
        let mut all = Vec::new();
        for thread in running {
            let readings: anyhow::Result<Vec<FileReading>> =
                thread.join().map_err(|_| anyhow::anyhow!("a thread that reads sources panicked"))?;
            all.extend(readings?);
        }
        Ok(all)
    })
}

fn read_file(full: PathBuf, file: &FoundFile) -> anyhow::Result<FileReading> {
    let source = Source::parse(&file.path, read(&full)?).with_context(|| format!("could not parse {}", file.path))?;
    Ok(judge(source, file.package))
}

/// Applies all rules that need one file only, and reads what the others need.
fn judge(mut source: Source, package: usize) -> FileReading {
    let functions = lengths::functions(&source);
    let mut test_hits = lengths::check_file(&source);
    let mut product_hits = test_hits.clone();
    source.remove_tests();
    product_hits.extend(log_events::check(&source));
    test_hits.extend(lengths::check_functions(&source, true, &functions));
    product_hits.extend(lengths::check_functions(&source, false, &functions));
    product_hits.extend(lengths::check_product(&source));
    product_hits.extend(doc_comments::check(&source));
    product_hits.extend(tuple_parameters::check(&source));
    FileReading {
        package,
        product_hits,
        test_hits,
        type_names: type_names::read(&source),
        error_types: string_errors::read(&source),
        modules: modules::read(&source),
        path: source.path,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::{modules::units, rule::Rule};

    #[test]
    fn product_is_what_libraries_and_programs_outside_the_tests_are_made_of() {
        let texts = [
            "a/build.rs",
            "a/src/conformance.rs",
            "a/src/lib.rs",
            "a/src/x.rs",
            "a/tests/it.rs",
            "tests/fixtures/src/lib.rs",
            "tests/tidy/src/lib.rs",
        ];
        let files = texts.map(|path| {
            let text = if path == "a/src/lib.rs" { "mod x; #[cfg(test)] mod conformance;" } else { "" };
            let package = usize::from(!path.starts_with('a')) + usize::from(path.starts_with(OWN_PACKAGE));
            judge(Source::parse(path, text.to_owned()).unwrap(), package)
        });
        let package = |folder: &str| Package { folder: folder.to_owned(), ..Package::default() };
        let packages = ["a", "tests/fixtures", OWN_PACKAGE].map(package).to_vec();
        let tree = Tree { packages, files: files.to_vec() };
        let modules = tree.files.iter().map(|file| (file.path.as_str(), file.modules.as_slice())).collect();
        let product = tree.product(&units(&tree.packages, &modules));
        let paths: Vec<&str> = product.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a/src/lib.rs", "a/src/x.rs", "tests/tidy/src/lib.rs"]);
    }

    #[test]
    fn a_file_is_judged_as_product_and_as_test() {
        let text = format!("/// Of it.\nfn a() {{\n{}}}\n", "x();\n".repeat(lengths::FUNCTION_LINES_MAX));
        let reading = judge(Source::parse("a.rs", text).unwrap(), 0);
        let rules: Vec<Rule> = reading.product_hits.iter().map(|hit| hit.rule).collect();
        assert_eq!((rules, reading.test_hits), (vec![Rule::FunctionLength, Rule::DocComment], vec![]));
    }
}
