//! The stubs that sets lead their machines to: looked at, and brought to spec 3 in place (S1-3.2, step 7).
//! Their CA is not changed here: that is the pools' part.

use firesteel_ignition::stub::upgrade::{StubUpgradeResult, Upgrade, UpgradeTargets, upgrade};
use firesteel_ignition::stub::{names::managed_name, spec2::Sectors};
use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::policy::StubOutcome;
use firesteel_resources::secret::{STUB_UPGRADED, SecretBytes, USER_DATA_KEYS};
use firesteel_resources::{HostGroup, Secret};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};

use crate::RolloutController;

/// The Secret with the stub that a group leads its hosts to; `None` where each host has its own.
pub(super) fn stub_name_of(group: &HostGroup) -> Option<String> {
    (!group.spec.pool.is_empty()).then(|| managed_name(&group.spec.pool))
}

/// Why hosts cannot be led by this stub, if so.
pub(crate) fn fault(stub: &StubOutcome) -> Option<String> {
    match stub {
        StubOutcome::NotReferenced | StubOutcome::Unchanged | StubOutcome::Changed { .. } | StubOutcome::Ignored => {
            None
        }
        StubOutcome::Refused(why) => Some(format!("the stub of the group's pool cannot be used: {why}")),
        StubOutcome::Missing(name) => {
            Some(format!("the Secret {name} with the stub of the group's pool is missing or has no userData"))
        }
    }
}

/// Another text for a stub, and what it is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rewrite {
    pub(super) secret: String,
    pub(super) change: Box<StubUpgradeResult>,
}

fn judge(name: &str, secret: Option<&Secret>) -> (StubOutcome, Option<Rewrite>) {
    let Some(bytes) = secret.and_then(Secret::user_data) else { return (StubOutcome::Missing(name.to_owned()), None) };
    let ours = UpgradeTargets { endpoints: &[], authority: None, sectors: Sectors::Unknown };
    match upgrade(bytes, &ours) {
        Upgrade::Unchanged { .. } => (StubOutcome::Unchanged, None),
        Upgrade::Ignored(_) => (StubOutcome::Ignored, None),
        Upgrade::Refused(error) => (StubOutcome::Refused(format!("Secret {name}: {error}")), None),
        Upgrade::Changed(change) => {
            let stub = StubOutcome::Changed { digest: change.after_sha256.clone() };
            (stub, Some(Rewrite { secret: name.to_owned(), change }))
        }
    }
}

/// Puts the new text in, where the old one still stands.
fn put(secret: &mut Secret, change: &StubUpgradeResult, now: Timestamp) {
    let Some(key) = USER_DATA_KEYS.into_iter().find(|key| secret.data.contains_key(*key)) else { return };
    if secret.get(key).map(|stub| hex::encode(digest(&SHA256, stub))).as_deref() != Some(&change.before_sha256) {
        return;
    }
    secret.data.insert(key.to_owned(), SecretBytes(change.bytes.clone()));
    let told = format!("{now:.0} brought from {} to {}", change.from_version, change.to_version);
    secret.metadata.annotations.insert(STUB_UPGRADED.to_owned(), told);
}

impl RolloutController {
    /// The stub in a Secret, and what it is to become.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn stub_in(&self, namespace: &str, name: &str) -> Result<(StubOutcome, Option<Rewrite>), Status> {
        self.inner.policy.follow_secret(namespace, name);
        let secret = self.inner.secrets.get(namespace, name).await?;
        Ok(match self.handles().trust.authority() {
            Ok(_) => judge(name, secret.as_ref()),
            Err(error) => {
                (StubOutcome::Refused(format!("the appliance's own certificate authority is damaged: {error}")), None)
            }
        })
    }

    /// The stub of the pool that a group names.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn stub_of_group(&self, group: &HostGroup) -> Result<StubOutcome, Status> {
        match stub_name_of(group) {
            Some(name) => Ok(self.stub_in(&group.metadata.namespace, &name).await?.0),
            None => Ok(StubOutcome::NotReferenced),
        }
    }

    /// # Errors
    /// When the store fails or refuses it, or another stub was written meanwhile.
    pub(super) async fn rewrite_stub(&self, namespace: &str, rewrite: &Rewrite) -> Result<(), Status> {
        let (now, name) = (self.handles().now(), &rewrite.secret);
        let write = |secret: &mut Secret| put(secret, &rewrite.change, now);
        let stored = self.inner.secrets.modify(namespace, name, ObjectPart::Main, write).await?;
        let is_there = stored.as_ref().and_then(Secret::user_data) == Some(rewrite.change.bytes.as_slice());
        if is_there { Ok(()) } else { Err(Status::internal(format!("the Secret {name} was changed meanwhile"))) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn secret(text: &str) -> Secret {
        let mut secret = Secret::default();
        secret.data.insert("userData".to_owned(), SecretBytes(text.as_bytes().to_vec()));
        secret
    }

    fn stub(text: &str) -> StubOutcome {
        judge("s", Some(&secret(text))).0
    }

    const SPEC_2: &str = r#"{"ignition":{"version":"2.2.0","config":{"append":[{"source":"https://a:22623/config/worker","verification":{}}]}}}"#;

    #[test]
    fn each_sort_of_user_data_is_told_apart() {
        assert_eq!(stub(r#"{"ignition":{"version":"3.2.0"}}"#), StubOutcome::Unchanged);
        assert_eq!(stub("#cloud-config\n"), StubOutcome::Ignored);
        assert!(matches!(stub(SPEC_2), StubOutcome::Changed { .. }));
        for (text, word) in [("{", "JSON"), (r#"{"ignition":{"version":"9.0.0"}}"#, "version"), ("???", "neither")] {
            assert!(
                matches!(stub(text), StubOutcome::Refused(why) if why.contains(word) && why.contains("Secret s")),
                "{text}"
            );
        }
        assert_eq!(judge("s", None).0, StubOutcome::Missing("s".into()));
        assert_eq!(judge("s", Some(&Secret::default())).0, StubOutcome::Missing("s".into()));
        assert!(
            fault(&StubOutcome::Missing("s".into())).is_some() && fault(&StubOutcome::Refused("w".into())).is_some()
        );
        assert!(fault(&StubOutcome::Ignored).is_none() && fault(&StubOutcome::Unchanged).is_none());
    }

    /// The pools do that, with what is theirs to know: whether somebody changed the stub.
    #[test]
    fn a_certificate_authority_is_left_to_the_pools() {
        let text =
            r#"{"ignition":{"version":"3.2.0","security":{"tls":{"certificateAuthorities":[{"source":"data:,x"}]}}}}"#;
        assert_eq!(stub(text), StubOutcome::Unchanged);
    }

    #[test]
    fn a_stub_is_written_only_over_the_one_that_was_looked_at() {
        let mut stored = secret(SPEC_2);
        let (_, rewrite) = judge("s", Some(&stored));
        let change = rewrite.unwrap().change;
        let mut other = secret("{}");
        put(&mut other, &change, Timestamp::UNIX_EPOCH);
        assert_eq!(other, secret("{}"));
        put(&mut stored, &change, Timestamp::UNIX_EPOCH);
        assert_eq!(judge("s", Some(&stored)).0, StubOutcome::Unchanged);
        assert!(stored.metadata.annotations[STUB_UPGRADED].ends_with("brought from 2.2.0 to 3.2.0"));
        let kept = String::from_utf8(stored.user_data().unwrap().to_vec()).unwrap();
        assert!(kept.contains("https://a:22623/config/worker"), "{kept}");
    }
}
