//! A host that does not boot says why where kubectl users see it.
