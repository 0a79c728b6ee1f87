//! The versions of a kind: which ones there are, and an object of one as another has it.

use std::sync::Arc;

use serde_json::Value;

use crate::model::{convert::KindVersion, kind::KindInfo};

impl KindVersion {
    pub(crate) fn of(kind: &KindInfo) -> Self {
        Self {
            version: kind.version,
            api_version: kind.api_version(),
            is_deprecated: kind.is_deprecated,
            fields: Arc::clone(&kind.fields),
            conversion: kind.conversion,
        }
    }
}

impl KindInfo {
    /// A stored object as this version has it.
    pub(crate) fn of_stored(&self, stored: Arc<Value>) -> Arc<Value> {
        match &self.conversion {
            None => stored,
            Some(conversion) => Arc::new(conversion.from_stored(&self.api_version(), &stored)),
        }
    }

    /// Converts a stored object that the caller owns.
    pub(crate) fn read_stored(&self, stored: Value) -> Value {
        match &self.conversion {
            None => stored,
            Some(conversion) => conversion.from_stored(&self.api_version(), &stored),
        }
    }

    /// An object of this version as it is stored. `None` where it is stored as it is.
    pub(crate) fn to_stored(&self, object: &Value) -> Option<Value> {
        let conversion = self.conversion.as_ref()?;
        let stored = self.versions.iter().find(|version| version.conversion.is_none());
        Some(
            conversion
                .to_stored(&stored.map_or_else(|| self.api_version(), |stored| stored.api_version.clone()), object),
        )
    }

    /// Another version of this kind; `None` if there is no other of that name.
    pub(crate) fn other_version(&self, api_version: &str) -> Option<&KindVersion> {
        let found = self.versions.iter().find(|version| version.api_version == api_version)?;
        (found.version != self.version).then_some(found)
    }

    /// An object of this version as another one has it.
    pub(crate) fn convert_to(&self, other: &KindVersion, object: &Value) -> Value {
        let stored = self.to_stored(object);
        let stored = stored.as_ref().unwrap_or(object);
        match &other.conversion {
            Some(conversion) => conversion.from_stored(&other.api_version, stored),
            None => stored.clone(),
        }
    }

    /// An object of another version as this one has it.
    pub(crate) fn convert_from(&self, other: &KindVersion, object: &Value) -> Value {
        let stored = self.versions.iter().find(|version| version.conversion.is_none());
        let stored = match (&other.conversion, stored) {
            (Some(conversion), Some(stored)) => conversion.to_stored(&stored.api_version, object),
            _ => object.clone(),
        };
        self.read_stored(stored)
    }

    /// The warning for clients of a version that is going away.
    pub(crate) fn deprecation(&self) -> Option<String> {
        if !self.is_deprecated {
            return None;
        }
        let current = self.versions.iter().filter(|version| !version.is_deprecated);
        let use_instead = current
            .max_by_key(|version| crate::model::versions::Maturity::of(version.version))
            .map_or_else(String::new, |version| format!("; use {} {}", version.api_version, self.kind));
        Some(format!("{} {} is deprecated{use_instead}", self.api_version(), self.kind))
    }
}

/// How far a version is: beta before alpha, stable before both, and newer before older.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Maturity {
    /// Any text that is no version as Kubernetes numbers them.
    Unknown,
    Alpha(u32, u32),
    Beta(u32, u32),
    Stable(u32),
}

impl Maturity {
    pub(crate) fn of(version: &str) -> Self {
        let parse = || {
            let rest = version.strip_prefix('v')?;
            let split = |word: &str| {
                let (major, minor) = rest.split_once(word)?;
                Some((major.parse().ok()?, minor.parse().ok()?))
            };
            if let Some((major, minor)) = split("alpha") {
                return Some(Self::Alpha(major, minor));
            }
            if let Some((major, minor)) = split("beta") {
                return Some(Self::Beta(major, minor));
            }
            rest.parse().ok().map(Self::Stable)
        };
        parse().unwrap_or(Self::Unknown)
    }
}
