//! A document that changes with the program alone.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;

#[derive(Clone, Debug)]
pub(crate) struct OpenApiDocument {
    pub(crate) bytes: Bytes,
    /// Changes when the document does.
    pub(crate) hash: String,
}

impl OpenApiDocument {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { hash: hash(&bytes), bytes: bytes.into() }
    }
}

/// Changes when the document does; not a secret, so any hash will do.
pub(crate) fn hash(document: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    document.hash(&mut hasher);
    format!("{:016X}", hasher.finish())
}
