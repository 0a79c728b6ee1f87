//! Where in a document a value is. A path is written out only when there is something to tell.

use std::fmt;

/// `spec.bmc` + `address` → `spec.bmc.address`.
#[must_use]
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[derive(Clone, Copy)]
pub(super) struct ShapePath<'a> {
    parent: Option<&'a ShapePath<'a>>,
    step: PathSegment<'a>,
}

#[derive(Clone, Copy)]
enum PathSegment<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> ShapePath<'a> {
    pub(super) const ROOT: Self = Self { parent: None, step: PathSegment::Root };

    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    pub(super) fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: PathSegment::Field(name) }
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: PathSegment::Index(index) }
    }
}

impl fmt::Display for ShapePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            PathSegment::Root => Ok(()),
            PathSegment::Field(name) if self.parent.is_none_or(ShapePath::is_root) => f.write_str(name),
            PathSegment::Field(name) => write!(f, ".{name}"),
            PathSegment::Index(index) => write!(f, "[{index}]"),
        }
    }
}
