//! Reads the objects that may hold a secret, before anything is collected: what is not known cannot be removed by its
//! value. A caller who may not read them gets a bundle that says so; if they cannot be read for another reason, there is
//! no bundle.

use anyhow::Context as _;
use firesteel_redaction::KnownSecrets;

use super::collection::{BundleTime, MissingPart};
use super::listing::{BundleScope, OBJECTS_MAX, ObjectPages, ServedKind};
use crate::ApiClient;
use crate::client::code_of;
use crate::table::clean;

/// The kinds that hold no Secret, no config and no URL of a user, and may be many.
const WITHOUT_URLS: [&str; 3] = ["hostjournals", "receipts", "events"];
const FORBIDDEN: u16 = 403;

/// The secrets that the caller may read, and what could not be read.
pub(super) struct FoundSecrets {
    pub(super) known: KnownSecrets,
    pub(super) missing: Vec<MissingPart>,
}

impl FoundSecrets {
    /// Reads all objects that may hold one.
    ///
    /// # Errors
    /// When Secrets or configs cannot be read although the caller may, or are too many.
    pub(super) async fn read(
        client: &ApiClient,
        kinds: &[ServedKind],
        scope: BundleScope<'_>,
        time: BundleTime,
    ) -> anyhow::Result<Self> {
        let mut found = Self { known: KnownSecrets::new()?, missing: Vec::new() };
        found.known.add_login(client.token());
        for kind in kinds.iter().filter(|kind| !WITHOUT_URLS.contains(&kind.plural.as_str())) {
            found.read_kind(client, kind, scope, time).await?;
        }
        Ok(found)
    }

    async fn read_kind(
        &mut self,
        client: &ApiClient,
        kind: &ServedKind,
        scope: BundleScope<'_>,
        time: BundleTime,
    ) -> anyhow::Result<()> {
        let mut pages = ObjectPages::new(client, kind, scope);
        for _ in 0..=kind.pages_max() {
            match time.within(pages.next(scope)).await {
                Ok(Some(page)) => page.iter().for_each(|object| self.known.add_object(object)),
                Ok(None) => {
                    if let Some(why) = pages.only_namespace.filter(|_| holds_secrets(kind)) {
                        self.miss(kind, &why);
                    }
                    return Ok(());
                }
                Err(error) => return self.note(kind, error),
            }
        }
        self.note(kind, anyhow::anyhow!("there are more than {OBJECTS_MAX} of them"))
    }

    /// Notes that values are not known.
    fn note(&mut self, kind: &ServedKind, error: anyhow::Error) -> anyhow::Result<()> {
        let is_refused = code_of(&error) == Some(FORBIDDEN);
        if holds_secrets(kind) && !is_refused {
            let what = if kind.kind == "Secret" { "Secrets" } else { "MachineConfigs" };
            return Err(error).with_context(|| format!("could not read the {what}, so no bundle is made"));
        }
        // Of other kinds that are refused, the list of their objects says that they are missing.
        if holds_secrets(kind) || !is_refused {
            self.miss(kind, &format!("{error:#}"));
        }
        Ok(())
    }

    fn miss(&mut self, kind: &ServedKind, why: &str) {
        let what = format!("the search for values of {}", kind.resource());
        self.missing.push(MissingPart { what, why: clean(why) });
    }
}

/// Says whether objects of a kind are made of secrets.
fn holds_secrets(kind: &ServedKind) -> bool {
    matches!(kind.kind.as_str(), "Secret" | "MachineConfig")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::client::ApiError;

    fn kind(kind: &str) -> ServedKind {
        ServedKind {
            group: String::new(),
            plural: format!("{}s", kind.to_ascii_lowercase()),
            version: "v1".into(),
            kind: kind.into(),
            namespaced: true,
        }
    }

    /// An answer of 500 to the list of Secrets was noted, and the bundle was made without a search for their values.
    #[test]
    fn only_a_refusal_lets_a_bundle_be_made_without_values() {
        let mut found = FoundSecrets { known: KnownSecrets::new().unwrap(), missing: Vec::new() };
        let error = |code| {
            anyhow::Error::from(ApiError {
                code,
                reason: String::new(),
                message: "it says no".into(),
                causes: Vec::new(),
            })
        };
        let failed = found.note(&kind("Secret"), error(500)).unwrap_err();
        assert_eq!(failed.to_string(), "could not read the Secrets, so no bundle is made");
        found.note(&kind("Secret"), error(FORBIDDEN)).unwrap();
        found.note(&kind("Host"), error(FORBIDDEN)).unwrap();
        found.note(&kind("Host"), error(500)).unwrap();
        let missing: Vec<&str> = found.missing.iter().map(|part| part.what.as_str()).collect();
        assert_eq!(missing, ["the search for values of secrets", "the search for values of hosts"]);
    }
}
