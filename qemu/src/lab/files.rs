//! Files that the lab publishes for hosts.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use ring::digest;

use super::{Lab, LabError};
use crate::{files::OriginFault, manifests::ManifestImage};

impl Lab {
    /// Publishes an image file for hosts.
    pub fn publish(&mut self, image: &Path) -> Result<ManifestImage, LabError> {
        self.publish_below("", image, Vec::new())
    }

    /// Publishes an image file in a folder of its own, from an origin with faults.
    pub fn publish_below(
        &mut self,
        folder: &str,
        image: &Path,
        faults: Vec<OriginFault>,
    ) -> Result<ManifestImage, LabError> {
        let failed = |source| LabError::File { path: image.to_owned(), source };
        let sha256 = match self.digests.get(image) {
            Some(known) => known.clone(),
            None => {
                let computed = sha256_file(image).map_err(failed)?;
                self.digests.insert(image.to_owned(), computed.clone());
                computed
            }
        };
        let format = if image.extension().is_some_and(|extension| extension == "qcow2") { "qcow2" } else { "raw" };
        let url = self.files.publish_below(folder, image, faults).map_err(failed)?;
        Ok(ManifestImage { url, sha256, format })
    }

    /// Publishes any file, in a folder of its own, and says where it is.
    pub fn publish_file(&self, folder: &str, file: &Path, faults: Vec<OriginFault>) -> Result<String, LabError> {
        let failed = |source| LabError::File { path: file.to_owned(), source };
        self.files.publish_below(folder, file, faults).map_err(failed)
    }

    /// The bytes from which on a published file was asked for.
    #[must_use]
    pub fn starts(&self, url: &str) -> Vec<u64> {
        self.files.starts(url)
    }
}

fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = digest::Context::new(&digest::SHA256);
    let mut chunk = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(hex::encode(context.finish()));
        }
        context.update(&chunk[..read]);
    }
}
