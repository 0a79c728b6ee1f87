//! The packages of the workspace, from their manifests.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context;
use serde::Deserialize;

/// A package: its name, its folder and what it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// The folder below the repository's root.
    pub folder: String,
    /// Packages that its product uses, optional ones and those of its build script included.
    pub uses: Vec<String>,
    /// Packages that only its tests use.
    pub tests_use: Vec<String>,
    /// Files that its manifest names as programs, below its folder.
    pub programs: Vec<String>,
}

impl Package {
    /// The package's name as code writes it.
    pub fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The manifest, below the repository's root.
    pub fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }

    fn parse(folder: &str, text: &str) -> anyhow::Result<Self> {
        let manifest: Manifest = toml::from_str(text).with_context(|| format!("could not read {folder}/Cargo.toml"))?;
        let package = manifest.package.with_context(|| format!("{folder}/Cargo.toml names no package"))?;
        let mut uses = names(&manifest.dependencies);
        uses.extend(names(&manifest.build_dependencies));
        let mut tests_use = names(&manifest.dev_dependencies);
        for target in manifest.target.values() {
            uses.extend(names(&target.dependencies));
            tests_use.extend(names(&target.dev_dependencies));
        }
        let programs = manifest.bin.into_iter().filter_map(|program| program.path).collect();
        Ok(Self { name: package.name, folder: folder.to_owned(), uses, tests_use, programs })
    }
}

/// The packages of a workspace, and folders of the repository that do not belong to it.
#[derive(Debug)]
pub struct Workspace {
    pub packages: Vec<Package>,
    pub excluded: Vec<String>,
}

impl Workspace {
    /// Reads the manifests below the repository's root.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let manifest: Manifest =
            toml::from_str(&read(&root.join("Cargo.toml"))?).context("could not read Cargo.toml")?;
        let workspace = manifest.workspace.context("Cargo.toml names no workspace")?;
        let package = |folder: &String| Package::parse(folder, &read(&root.join(folder).join("Cargo.toml"))?);
        let packages = workspace.members.iter().map(package).collect::<anyhow::Result<_>>()?;
        Ok(Self { packages, excluded: workspace.exclude })
    }
}

/// Reads a text; an error names the file.
pub fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

#[derive(Deserialize)]
struct Manifest {
    package: Option<PackageTable>,
    workspace: Option<WorkspaceTable>,
    #[serde(default)]
    dependencies: Dependencies,
    #[serde(default, rename = "dev-dependencies")]
    dev_dependencies: Dependencies,
    #[serde(default, rename = "build-dependencies")]
    build_dependencies: Dependencies,
    #[serde(default)]
    target: BTreeMap<String, TargetTable>,
    #[serde(default)]
    bin: Vec<ProgramTable>,
}

#[derive(Deserialize)]
struct PackageTable {
    name: String,
}

#[derive(Deserialize)]
struct WorkspaceTable {
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
}

#[derive(Deserialize)]
struct TargetTable {
    #[serde(default)]
    dependencies: Dependencies,
    #[serde(default, rename = "dev-dependencies")]
    dev_dependencies: Dependencies,
}

#[derive(Deserialize)]
struct ProgramTable {
    path: Option<String>,
}

type Dependencies = BTreeMap<String, toml::Value>;

/// The packages of a table, by their own names where a table renames them.
fn names(table: &Dependencies) -> Vec<String> {
    let own_name = |value: &toml::Value| value.get("package").and_then(|name| name.as_str()).map(str::to_owned);
    table.iter().map(|(key, value)| own_name(value).unwrap_or_else(|| key.clone())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn dependencies_are_read_from_every_table() {
        let text = "[package]\nname = \"a-b\"\n[[bin]]\nname = \"p\"\npath = \"src/p.rs\"\n[dependencies]\nc.workspace = \
                    true\nd = { version = \"1\", optional = true, package = \"dd\" }\n[build-dependencies]\ne = \"1\"\n\
                    [dev-dependencies]\nf = \"1\"\n[target.'cfg(unix)'.dependencies]\ng = \"1\"\n";
        let package = Package::parse("x/y", text).unwrap();
        assert_eq!((package.crate_name().as_str(), package.manifest().as_str()), ("a_b", "x/y/Cargo.toml"));
        assert_eq!(package.uses, ["c", "dd", "e", "g"]);
        assert_eq!((package.tests_use, package.programs), (vec!["f".to_owned()], vec!["src/p.rs".to_owned()]));
        let error = Package::parse("x", "[workspace]").unwrap_err();
        assert_eq!(error.to_string(), "x/Cargo.toml names no package");
    }
}
