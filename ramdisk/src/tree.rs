//! The modules of one kernel, and which others each of them needs.
//!
//! It knows no file format but the compression of a module file; what is wanted is said by `sets`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};

use crate::expand::expand;
use crate::modinfo::{self, Modinfo, ModinfoError, normal_name};

/// The largest module of Debian's kernel has 5 MB; a compressed one must not grow without end.
const MODULE_BYTES_MAX: u64 = 64 << 20;

/// One kernel module.
#[derive(Debug, Clone)]
pub struct KernelModule {
    /// Path below `lib/modules/RELEASE`, such as `kernel/fs/ext4/ext4.ko`; without a compression's suffix.
    pub path: String,
    pub info: Modinfo,
    /// The module as the kernel takes it: not compressed, with its signature.
    pub bytes: Vec<u8>,
}

/// All modules of one kernel by name (with `_`).
#[derive(Debug, Default)]
pub struct ModuleTree {
    modules: BTreeMap<String, KernelModule>,
    builtin: BTreeSet<String>,
}

/// What went wrong with a tree of modules.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("reading the module {path}: {source}")]
    Modinfo { path: String, source: ModinfoError },
    #[error("decompressing the module {path}")]
    Decompress {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("the module {module} needs {missing}, which this kernel does not have")]
    MissingDependency { module: String, missing: String },
}

/// Whether a path (of any folder) names a module file.
pub fn is_module_path(path: &str) -> bool {
    [".ko", ".ko.xz", ".ko.zst"].iter().any(|suffix| path.ends_with(suffix))
}

impl ModuleTree {
    /// Adds a module file; `path` as in [`KernelModule::path`], but may end in `.xz` or `.zst`.
    pub fn add(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), TreeError> {
        let (path, bytes) = decompressed(path, bytes)?;
        let info = modinfo::parse(&bytes).map_err(|source| TreeError::Modinfo { path: path.clone(), source })?;
        self.modules.insert(name_of_path(&path), KernelModule { path, info, bytes });
        Ok(())
    }

    /// Takes the content of the package's `modules.builtin`: what needs no loading.
    pub fn add_builtin(&mut self, list: &str) {
        self.builtin.extend(list.lines().filter(|line| !line.is_empty()).map(name_of_path));
    }

    pub fn get(&self, name: &str) -> Option<&KernelModule> {
        self.modules.get(name)
    }

    pub fn is_builtin(&self, name: &str) -> bool {
        self.builtin.contains(name)
    }

    /// All modules, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &KernelModule)> {
        self.modules.iter().map(|(name, module)| (name.as_str(), module))
    }

    /// Everything that `wanted` needs, itself included: dependencies and soft dependencies, of these too.
    /// Wanted names that are not in this kernel are ignored; a hard dependency that is missing is an error.
    pub fn closure<'a>(&self, wanted: impl IntoIterator<Item = &'a str>) -> Result<BTreeSet<String>, TreeError> {
        let by_exact_alias = self.exact_aliases();
        let mut done = BTreeSet::new();
        let mut open: Vec<String> = wanted.into_iter().map(normal_name).collect();
        while let Some(name) = open.pop() {
            let Some(module) = self.modules.get(&name) else { continue };
            if !done.insert(name.clone()) {
                continue;
            }
            for needed in &module.info.depends {
                if self.modules.contains_key(needed) {
                    open.push(needed.clone());
                } else if !self.builtin.contains(needed) {
                    return Err(TreeError::MissingDependency { module: name, missing: needed.clone() });
                }
            }
            for soft in module.info.soft_before.iter().chain(&module.info.soft_after) {
                open.push(soft.clone());
                open.extend(by_exact_alias.get(soft.as_str()).into_iter().flatten().map(|name| (*name).to_owned()));
            }
        }
        Ok(done)
    }

    /// Soft dependencies often name a service (`crc32c`), which several modules offer by an alias.
    fn exact_aliases(&self) -> BTreeMap<String, Vec<&str>> {
        let mut by_alias: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, module) in self.iter() {
            for alias in module.info.aliases.iter().filter(|alias| !alias.contains(['*', '?', '['])) {
                by_alias.entry(normal_name(alias)).or_default().push(name);
            }
        }
        by_alias
    }
}

/// `kernel/drivers/ata/ata-piix.ko` is the module `ata_piix`.
fn name_of_path(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    normal_name(file.split(".ko").next().unwrap_or(file))
}

fn decompressed(path: &str, bytes: Vec<u8>) -> Result<(String, Vec<u8>), TreeError> {
    let Some((plain_path, suffix)) =
        [".xz", ".zst"].into_iter().find_map(|suffix| Some((path.strip_suffix(suffix)?, suffix)))
    else {
        return Ok((path.to_owned(), bytes));
    };
    let mut plain = Vec::new();
    let mut decompress = || match expand(suffix, &bytes, MODULE_BYTES_MAX)? {
        Some(mut reader) => reader.read_to_end(&mut plain),
        None => Err(io::ErrorKind::Unsupported.into()),
    };
    decompress().map_err(|source| TreeError::Decompress { path: path.to_owned(), source })?;
    Ok((plain_path.to_owned(), plain))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::fixture;

    fn tree(modules: &[(&str, &[(&str, &str)])]) -> ModuleTree {
        let mut tree = ModuleTree::default();
        tree.add_builtin("kernel/lib/builtin-one.ko\n");
        for (path, fields) in modules {
            tree.add(path, fixture::module(fields)).unwrap();
        }
        tree
    }

    #[test]
    fn closure_follows_hard_and_soft_dependencies_and_aliases() {
        let tree = tree(&[
            ("kernel/fs/xfs.ko", &[("depends", "libcrc32c,builtin-one")]),
            ("kernel/lib/libcrc32c.ko", &[("softdep", "pre: crc32c"), ("depends", "")]),
            ("kernel/crypto/crc32c_generic.ko", &[("alias", "crc32c")]),
            ("kernel/arch/crc32c-intel.ko", &[("alias", "crc32c"), ("softdep", "post: late")]),
            ("kernel/late.ko", &[("softdep", "pre: xfs")]),
            ("kernel/other.ko", &[]),
        ]);
        let closure = tree.closure(["xfs", "not-in-this-kernel"]).unwrap();
        let names: Vec<_> = closure.iter().map(String::as_str).collect();
        assert_eq!(names, ["crc32c_generic", "crc32c_intel", "late", "libcrc32c", "xfs"]);
    }

    #[test]
    fn a_missing_hard_dependency_is_an_error() {
        let tree = tree(&[("kernel/a.ko", &[("depends", "b")])]);
        assert!(matches!(tree.closure(["a"]), Err(TreeError::MissingDependency { .. })));
    }

    #[test]
    fn compressed_modules_are_kept_plain() {
        let plain = fixture::module(&[("depends", "x")]);
        let mut tree = ModuleTree::default();
        tree.add("kernel/a-b.ko.xz", fixture::xz(&plain)).unwrap();
        let module = tree.get("a_b").unwrap();
        assert_eq!(module.path, "kernel/a-b.ko");
        assert_eq!(module.bytes, plain);
        let bomb = fixture::xz(&vec![0; usize::try_from(MODULE_BYTES_MAX).unwrap() + 1]);
        assert!(bomb.len() < 100_000);
        assert!(matches!(tree.add("kernel/c.ko.xz", bomb), Err(TreeError::Decompress { .. })));
    }
}
