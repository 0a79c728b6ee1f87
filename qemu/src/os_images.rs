//! The operating system images of the lab: built in a row, or while something else runs.

use std::collections::BTreeMap;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail};
use firesteel_lab_image::{OsImageFile, OsImageRequest, OsImageSystem, PackedFormat};

use crate::artefacts::{BuiltImage, LARGE_BALLAST_MIB, LARGE_VERSION, WantedImage};
use crate::tools::Tools;

/// Builds images, and says by `say` how far it is. Returns them and their sizes.
pub(crate) fn build_images(
    tools: &Tools,
    wanted: &[WantedImage],
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<(Vec<BuiltImage>, Vec<u64>)> {
    let mut by_version: BTreeMap<(OsImageSystem, &str), Vec<PackedFormat>> = BTreeMap::new();
    for WantedImage { system, version, format } in wanted {
        let formats = by_version.entry((*system, *version)).or_default();
        if !formats.contains(format) {
            formats.push(*format);
        }
    }
    let (mut images, mut sizes) = (Vec::new(), Vec::new());
    for ((system, version), formats) in by_version {
        let request = OsImageRequest {
            cache: tools.cache.clone(),
            out: tools.cache.join("images"),
            version: version.to_owned(),
            system,
            ballast_mib: if version == LARGE_VERSION { LARGE_BALLAST_MIB } else { 0 },
            formats,
        };
        let built = firesteel_lab_image::build(&request, say).context("building the operating system image")?;
        sizes.extend(built.iter().map(|image| image.bytes));
        images.extend(built.into_iter().map(|OsImageFile { format, path, .. }| BuiltImage {
            system,
            version: version.to_owned(),
            format,
            path,
        }));
    }
    Ok((images, sizes))
}

/// Images that are built while something else runs; a later build finds them in the cache. It ends with
/// the value.
#[derive(Debug)]
pub(crate) struct ImagesBuild(Option<JoinHandle<anyhow::Result<()>>>);

impl ImagesBuild {
    /// Starts it; it says nothing, for its progress would run into that of what is shown meanwhile.
    #[must_use]
    pub(crate) fn start(tools: &Tools, wanted: Vec<WantedImage>) -> Self {
        let tools = tools.clone();
        Self(Some(thread::spawn(move || build_images(&tools, &wanted, &mut |_| {}).map(|_| ()))))
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let Some(thread) = self.0.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| bail!("the build of the operating system images came to no end"))
    }
}

impl Drop for ImagesBuild {
    fn drop(&mut self) {
        // Its programs would go on without it.
        drop(self.0.take().map(JoinHandle::join));
    }
}
