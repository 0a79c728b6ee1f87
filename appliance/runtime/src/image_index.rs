//! What other controllers ask of the boot image streams. The index of the streams answers, and they know it by this
//! alone.

use firesteel_plan::policy::{Catalogue, CatalogueImage, FormerImage};
use firesteel_resources::{Image, boot_image_stream::DeclaredForm};
use tokio::sync::watch;

use crate::Pending;

/// Counts what changed about the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexVersion {
    /// Changes of the images.
    pub images: u64,
    /// Changes of the form in which some host's image may be handed its configuration.
    pub forms: u64,
}

/// The images of all boot image streams.
pub trait ImageIndex: Send + Sync {
    /// Returns all images of all streams, of each the newest release first.
    fn entries(&self) -> Vec<CatalogueImage>;

    /// Returns the images with their streams. `former`: images that sets name, or had, which may not be in any stream
    /// any more.
    fn catalogue(&self, former: Vec<FormerImage>) -> Catalogue;

    /// Returns what streams say of the form in which this image is handed its configuration.
    fn declared(&self, image: &Image) -> Vec<DeclaredForm>;

    /// Waits until all streams have been read after a start.
    fn read(&self) -> Pending<'_, ()>;

    /// Waits for the same as a request does. `false`: they were not read in time.
    fn are_read(&self) -> Pending<'_, bool>;

    /// Tells of changes from now on.
    fn changes(&self) -> watch::Receiver<IndexVersion>;
}
