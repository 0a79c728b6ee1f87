//! A kernel package: its image, its modules, and where to get one.

use std::path::{Path, PathBuf};

use crate::apt::{Apt, AptError};
use crate::deb::{Deb, DebError, PackageIdentity};
use crate::tree::{ModuleTree, TreeError, is_module_path};

/// Which of Debian's kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelFlavour {
    /// The kernel for any machine.
    Generic,
    /// The kernel for virtual machines: starts faster, but has no SATA and no drivers for real network cards.
    Cloud,
}

/// What went wrong with a kernel package.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error(transparent)]
    Fetch(#[from] AptError),
    #[error(transparent)]
    Package(#[from] DebError),
    #[error(transparent)]
    Modules(#[from] TreeError),
    #[error("the package {package} holds no kernel image")]
    NoImage { package: String },
}

/// An unpacked kernel package.
#[derive(Debug)]
pub struct UnpackedKernel {
    pub identity: PackageIdentity,
    /// SHA-256 of the package file.
    pub sha256: String,
    pub release: String,
    pub image: Vec<u8>,
    pub modules: ModuleTree,
    /// The package's `modules.builtin`.
    pub builtin: String,
}

/// Fetches Debian's current kernel package of `flavour` (amd64), and gives its file.
pub fn fetch_kernel(apt: &Apt, flavour: KernelFlavour) -> Result<PathBuf, AptError> {
    let metapackage = match flavour {
        KernelFlavour::Generic => "linux-image-amd64",
        KernelFlavour::Cloud => "linux-image-cloud-amd64",
    };
    apt.download(&apt.dependency(metapackage, "linux-image-")?)
}

impl UnpackedKernel {
    /// Unpacks a kernel package in memory.
    pub fn open(path: &Path) -> Result<Self, KernelError> {
        let deb = Deb::open(path)?;
        let identity = deb.identity()?;
        let mut image = None;
        let mut modules = ModuleTree::default();
        let mut builtin = String::new();
        let mut first_error = None;
        deb.for_each_data_file(
            &mut |path| path.starts_with("boot/vmlinuz-") || path.ends_with("/modules.builtin") || is_module_path(path),
            &mut |path, bytes| {
                if let Some(release) = path.strip_prefix("boot/vmlinuz-") {
                    image = Some((release.to_owned(), bytes));
                } else if path.ends_with("/modules.builtin") {
                    builtin = String::from_utf8_lossy(&bytes).into_owned();
                } else if let Some((_, below)) = path.split_once("/kernel/") {
                    let added = modules.add(&format!("kernel/{below}"), bytes);
                    first_error = first_error.take().or(added.err());
                }
            },
        )?;
        if let Some(error) = first_error {
            return Err(error.into());
        }
        modules.add_builtin(&builtin);
        let (release, image) = image.ok_or_else(|| KernelError::NoImage { package: identity.package.clone() })?;
        Ok(Self { identity, sha256: deb.sha256().to_owned(), release, image, modules, builtin })
    }
}
