//! Where QEMU, the firmware and the boot loaders are: in the cache, where `qemu/lab` unpacked them,
//! else where Debian's packages install them.

use std::env;
use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
pub enum ToolsError {
    #[error("{what} is not here (looked for {}): run qemu/lab, which fetches it", tried.join(", "))]
    Missing { what: &'static str, tried: Vec<String> },
    #[error("neither FIRESTEEL_CACHE nor HOME is set: there is nowhere to keep what was built")]
    NoCache,
}

/// Paths of everything that the lab runs or serves and did not build.
#[derive(Clone, Debug)]
pub struct Tools {
    pub cache: PathBuf,
    pub qemu: PathBuf,
    pub ovmf_code: PathBuf,
    pub ovmf_vars: PathBuf,
    /// Holds `undionly.kpxe`, `ipxe.efi` and `snponly.efi`.
    pub loaders: PathBuf,
}

impl Tools {
    pub fn find() -> Result<Self, ToolsError> {
        let cache = cache_folder()?;
        let tools = cache.join("tools");
        let data = |path: &str| vec![tools.join("firmware").join(path), Path::new("/").join(path)];
        Ok(Self {
            qemu: first_of("qemu-system-x86_64", programs(&tools, "qemu-system-x86_64"))?,
            ovmf_code: first_of("the UEFI firmware", data("usr/share/OVMF/OVMF_CODE_4M.fd"))?,
            ovmf_vars: first_of("the UEFI variable store", data("usr/share/OVMF/OVMF_VARS_4M.fd"))?,
            loaders: first_of("iPXE", data("usr/lib/ipxe/undionly.kpxe"))?.with_file_name(""),
            cache,
        })
    }

    /// A program that not every run needs.
    pub fn program(&self, name: &'static str) -> Result<PathBuf, ToolsError> {
        first_of(name, programs(&self.cache.join("tools"), name))
    }

    /// The folder of something that is only unpacked, known by a file in it.
    pub fn unpacked(&self, name: &'static str, file: &str) -> Result<PathBuf, ToolsError> {
        let folder = self.cache.join("tools").join(name);
        first_of(name, vec![folder.join(file)]).map(|_| folder)
    }
}

/// Where a program may be.
fn programs(tools: &Path, name: &str) -> Vec<PathBuf> {
    let on_path = env::var_os("PATH")
        .into_iter()
        .flat_map(|path| env::split_paths(&path).map(|folder| folder.join(name)).collect::<Vec<_>>());
    std::iter::once(tools.join("bin").join(name)).chain(on_path).collect()
}

/// `$FIRESTEEL_CACHE`, `$XDG_CACHE_HOME/firesteel` or `~/.cache/firesteel`.
pub fn cache_folder() -> Result<PathBuf, ToolsError> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("FIRESTEEL_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("firesteel")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/firesteel")))
        .ok_or(ToolsError::NoCache)
}

fn first_of(what: &'static str, candidates: Vec<PathBuf>) -> Result<PathBuf, ToolsError> {
    match candidates.iter().find(|path| path.is_file()) {
        Some(found) => Ok(found.clone()),
        None => {
            Err(ToolsError::Missing { what, tried: candidates.iter().map(|path| path.display().to_string()).collect() })
        }
    }
}
