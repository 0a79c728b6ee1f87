//! What is done with the Secrets that lead hosts to a pool: pure, but for the table of which there are.
//!
//! | Secret | what it is | what is done |
//! |---|---|---|
//! | `<pool>-user-data-managed` | ours: made where hosts are, owned by the pool | written again while no one else changed it |
//! | the same, changed by its owner | customised, and not owned by the pool any more: it stays when the pool goes | as the next |
//! | `<pool>-user-data`, and user data that leads here, whether a host names it or not | the owner's | spec 2 becomes 3.2, our CA the present one; all else stays |
//!
//! An annotation with the digest of what was written last shows whether a managed stub was changed. Upstream has
//! its stubs in the namespace of the machines; a host finds its user data in its own namespace, so each namespace with
//! hosts has the stubs of all pools.

use firesteel_ignition::stub::authority::StubCaChange;
use firesteel_ignition::stub::upgrade::{StubUpgradeResult, Upgrade, UpgradeTargets, upgrade};
use firesteel_resources::secret::{STUB_UPGRADED, SecretBytes, USER_DATA_KEYS};
use firesteel_resources::{OwnerReference, Secret};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};

/// Digest of the user data that was written last; other user data is not ours.
pub(super) const WRITTEN: &str = "firesteel.dev/stub-sha256";
/// The key by which the installer says that the user data is no template.
const DISABLE_TEMPLATING: &str = "disableTemplating";

/// What is wanted in a Secret of ours.
#[derive(Debug)]
pub(super) struct ManagedStub {
    pub(super) stub: String,
    /// The pool.
    pub(super) owner: OwnerReference,
}

/// What is to be done with a Secret that is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StubAction {
    /// It is as it should be.
    Nothing,
    /// Its user data becomes this; in words what that is.
    Write { bytes: SecretBytes, is_ours: bool, what: String },
    /// A person has to look at it.
    LeftAlone(String),
}

/// A Secret for a pool that has none yet.
pub(super) fn stub_secret(namespace: &str, name: &str, managed: ManagedStub) -> Secret {
    let ManagedStub { stub, owner } = managed;
    let mut secret = Secret::default();
    namespace.clone_into(&mut secret.metadata.namespace);
    name.clone_into(&mut secret.metadata.name);
    secret.metadata.annotations.insert(WRITTEN.to_owned(), sha256(stub.as_bytes()));
    secret.metadata.owner_references.push(owner);
    secret.data.insert(USER_DATA_KEYS[0].to_owned(), SecretBytes(stub.into_bytes()));
    secret.data.insert(DISABLE_TEMPLATING.to_owned(), SecretBytes(b"true\n".to_vec()));
    secret
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes))
}

fn is_untouched(secret: &Secret, bytes: &[u8]) -> bool {
    secret.metadata.annotation(WRITTEN) == Some(sha256(bytes).as_str())
}

/// The owners that a managed stub should have, where it has others. While it is ours the pool is one, and takes it
/// along when it goes; what its owner wrote stays.
pub(super) fn other_owners(secret: &Secret, managed: &ManagedStub) -> Option<Vec<OwnerReference>> {
    let (bytes, ManagedStub { stub, owner }) = (secret.user_data()?, managed);
    let is_ours = is_untouched(secret, bytes) || stub.as_bytes() == bytes;
    let owners = &secret.metadata.owner_references;
    let is_pool = |one: &OwnerReference| one.uid == owner.uid;
    // An object has one controller, and one of another owner is not ours to take away.
    let is_taken = owners.iter().any(|one| is_pool(one) || one.controller == Some(true));
    match is_ours {
        true if !is_taken => Some(owners.iter().chain([owner]).cloned().collect()),
        false if owners.iter().any(is_pool) => Some(owners.iter().filter(|one| !is_pool(one)).cloned().collect()),
        true | false => None,
    }
}

/// Decides what to do with a Secret. `managed`: what is wanted in it, where it is one of ours.
pub(super) fn decide(secret: &Secret, managed: Option<&ManagedStub>, ours: &UpgradeTargets<'_>) -> StubAction {
    let Some(bytes) = secret.user_data() else {
        return StubAction::LeftAlone("it has no userData: delete it, and it is created again".to_owned())
            .unless(managed.is_none());
    };
    let managed = managed.map(|managed| managed.stub.as_bytes());
    let is_untouched = is_untouched(secret, bytes);
    let is_wanted = managed == Some(bytes);
    if is_wanted && (is_untouched || secret.immutable == Some(true)) {
        return StubAction::Nothing;
    }
    // What is there is what is wanted: from now on it is ours again.
    let work = match managed.filter(|_| is_untouched || is_wanted) {
        Some(wanted) => StubAction::Write {
            bytes: SecretBytes(wanted.to_vec()),
            is_ours: true,
            what: if is_wanted { "taken for the appliance's own" } else { "written again" }.to_owned(),
        },
        None => owners(upgrade(bytes, ours)),
    };
    match work {
        StubAction::Write { .. } if secret.immutable == Some(true) => {
            StubAction::LeftAlone("it is immutable, and would have to be changed: replace it".to_owned())
        }
        StubAction::Nothing | StubAction::Write { .. } | StubAction::LeftAlone(_) => work,
    }
}

impl StubAction {
    fn unless(self, is_nothing: bool) -> Self {
        if is_nothing { Self::Nothing } else { self }
    }
}

fn owners(upgrade: Upgrade) -> StubAction {
    match upgrade {
        Upgrade::Ignored(_) => StubAction::Nothing,
        Upgrade::Refused(error) => StubAction::LeftAlone(error.to_string()),
        Upgrade::Unchanged { authority: StubCaChange::LeftAlone(why), .. } => StubAction::LeftAlone(why.to_string()),
        Upgrade::Unchanged {
            authority: StubCaChange::None | StubCaChange::Current | StubCaChange::Rotated, ..
        } => StubAction::Nothing,
        Upgrade::Changed(change) => {
            let StubUpgradeResult { bytes, from_version, to_version, authority, notes, .. } = *change;
            let mut what = Vec::new();
            if from_version != to_version {
                what.push(format!("brought from {from_version} to {to_version}"));
            }
            match authority {
                StubCaChange::Rotated => what.push("its certificate authority replaced".to_owned()),
                StubCaChange::LeftAlone(why) => what.push(why.to_string()),
                StubCaChange::None | StubCaChange::Current => {}
            }
            what.extend(notes);
            StubAction::Write { bytes: SecretBytes(bytes), is_ours: false, what: what.join("; ") }
        }
    }
}

/// Carries the work out on the Secret; the caller stores it.
pub(super) fn apply(secret: &mut Secret, bytes: SecretBytes, is_ours: bool, what: &str, now: Timestamp) {
    let key = USER_DATA_KEYS.into_iter().find(|key| secret.data.contains_key(*key)).unwrap_or(USER_DATA_KEYS[0]);
    let digest = sha256(&bytes.0);
    secret.data.insert(key.to_owned(), bytes);
    let annotations = &mut secret.metadata.annotations;
    if is_ours {
        annotations.insert(WRITTEN.to_owned(), digest);
    } else {
        annotations.insert(STUB_UPGRADED.to_owned(), format!("{now:.0} {what}"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use firesteel_ignition::StubAuthority;
    use firesteel_ignition::stub::managed_stub::{Endpoint, StubSpec, managed};
    use firesteel_ignition::stub::spec2::Sectors;

    use super::*;

    fn certificate(seed: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(format!("ca {seed}")))
    }

    struct World {
        endpoints: Vec<Endpoint>,
        authority: StubAuthority,
    }

    impl World {
        fn new(ca: &str, past: &[&str]) -> Self {
            let past: Vec<String> = past.iter().map(|seed| certificate(seed)).collect();
            let past: Vec<&str> = past.iter().map(String::as_str).collect();
            let endpoints = vec![Endpoint::new("192.0.2.1", 22623).unwrap()];
            Self { endpoints, authority: StubAuthority::new(&certificate(ca), &past).unwrap() }
        }

        fn stub(&self) -> String {
            managed("worker", &self.endpoints[0], &self.authority, StubSpec::V3_2).unwrap()
        }

        fn decide(&self, secret: &Secret, is_managed: bool) -> StubAction {
            let managed = ManagedStub { stub: self.stub(), owner: OwnerReference::default() };
            let (endpoints, authority) = (self.endpoints.as_slice(), &self.authority);
            let ours = UpgradeTargets { endpoints, authority: Some(authority), sectors: Sectors::Unknown };
            decide(secret, is_managed.then_some(&managed), &ours)
        }
    }

    fn secret(bytes: &[u8]) -> Secret {
        let nothing = ManagedStub { stub: String::new(), owner: OwnerReference::default() };
        let mut secret = stub_secret("default", "worker-user-data", nothing);
        secret.metadata.annotations.clear();
        secret.data.insert("userData".to_owned(), SecretBytes(bytes.to_vec()));
        secret
    }

    fn written(work: StubAction) -> String {
        match work {
            StubAction::Write { bytes, .. } => String::from_utf8(bytes.0).unwrap(),
            other @ (StubAction::Nothing | StubAction::LeftAlone(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_managed_stub_is_written_anew_until_somebody_changes_it() {
        let (old, new) = (World::new("old", &[]), World::new("new", &["old"]));
        let managed = ManagedStub { stub: old.stub(), owner: OwnerReference::default() };
        let mut stored = stub_secret("default", "worker-user-data-managed", managed);
        assert_eq!(old.decide(&stored, true), StubAction::Nothing);
        let StubAction::Write { bytes, is_ours, what } = new.decide(&stored, true) else { panic!("it is out of date") };
        assert!(is_ours);
        apply(&mut stored, bytes, is_ours, &what, Timestamp::UNIX_EPOCH);
        assert_eq!(new.decide(&stored, true), StubAction::Nothing);

        // A partition of the owner's, in bytes that are not ours.
        let own = old.stub().replacen(
            r#"{"ignition""#,
            r#"{ "storage":{"disks":[{"device":"/dev/sdb","wipeTable":true}]},"ignition""#,
            1,
        );
        stored.data.insert("userData".to_owned(), SecretBytes(own.clone().into_bytes()));
        assert_eq!(old.decide(&stored, true), StubAction::Nothing, "customised, and well");
        // Somebody took that back.
        let back =
            Secret { data: [("userData".to_owned(), SecretBytes(new.stub().into_bytes()))].into(), ..stored.clone() };
        let mut ours = back.clone();
        ours.metadata.annotations.insert(WRITTEN.to_owned(), "of another time".to_owned());
        let StubAction::Write { bytes, is_ours, what } = new.decide(&ours, true) else { panic!("it is ours again") };
        assert!(is_ours && bytes.0 == new.stub().as_bytes());
        apply(&mut ours, bytes, is_ours, &what, Timestamp::UNIX_EPOCH);
        assert_eq!(ours, back);
        let rotated = written(new.decide(&stored, true));
        assert!(rotated.starts_with(r#"{ "storage":{"disks":[{"device":"/dev/sdb""#), "{rotated}");
        assert!(rotated.contains(&STANDARD.encode(certificate("new"))));
        let moved = World { endpoints: vec![Endpoint::new("192.0.2.7", 22623).unwrap()], ..World::new("old", &[]) };
        assert_eq!(moved.decide(&stored, true), StubAction::Nothing, "another address is the owner's to write");
    }

    #[test]
    fn a_managed_stub_is_its_pools_until_somebody_changes_it() {
        let owner = |uid: &str, controller| OwnerReference {
            uid: uid.to_owned(),
            controller: Some(controller),
            ..OwnerReference::default()
        };
        let (old, new) = (World::new("old", &[]), World::new("new", &["old"]));
        let managed = |world: &World| ManagedStub { stub: world.stub(), owner: owner("pool", true) };
        let mut stored = stub_secret("default", "worker-user-data-managed", managed(&old));
        stored.metadata.owner_references.push(owner("another", false));
        for world in [&old, &new] {
            assert_eq!(other_owners(&stored, &managed(world)), None, "out of date, and ours");
        }
        stored.data.insert("userData".to_owned(), SecretBytes(old.stub().replacen('{', "{ ", 1).into_bytes()));
        let own = other_owners(&stored, &managed(&old)).unwrap();
        assert_eq!(own, [owner("another", false)], "a pool that goes takes nothing along that somebody wrote");
        stored.metadata.owner_references = own;
        assert_eq!(other_owners(&stored, &managed(&old)), None);
        // It is ours again, by what is wanted now.
        stored.data.insert("userData".to_owned(), SecretBytes(new.stub().into_bytes()));
        let ours = other_owners(&stored, &managed(&new)).unwrap();
        assert_eq!(ours, [owner("another", false), owner("pool", true)]);
        stored.metadata.owner_references = vec![owner("controller", true)];
        assert_eq!(other_owners(&stored, &managed(&new)), None, "an object has one controller");
    }

    #[test]
    fn an_owners_stub_is_lifted_or_rotated_or_left_alone() {
        let world = World::new("new", &["old"]);
        let spec_2 = managed("worker", &world.endpoints[0], &world.authority, StubSpec::V2_2).unwrap();
        let lifted = secret(spec_2.as_bytes());
        let text = written(world.decide(&lifted, false));
        assert!(text.contains(r#""version":"3.2.0""#) && text.contains("192.0.2.1:22623/config/worker"), "{text}");
        assert_eq!(world.decide(&secret(world.stub().as_bytes()), false), StubAction::Nothing, "byte for byte");
        for (bytes, why) in [
            (&b"{"[..], "not valid JSON"),
            (b"{\"ignition\":{}}", "ignition.version"),
            (b"{\"ignition\":{\"version\":\"4.0.0\"}}", "not a version that is known"),
        ] {
            let StubAction::LeftAlone(told) = world.decide(&secret(bytes), false) else { panic!("{why}") };
            assert!(told.contains(why), "{told}");
        }
        assert_eq!(world.decide(&secret(b"#cloud-config\n"), false), StubAction::Nothing);
        let immutable = Secret { immutable: Some(true), ..secret(spec_2.as_bytes()) };
        assert!(matches!(world.decide(&immutable, false), StubAction::LeftAlone(why) if why.contains("immutable")));
    }

    #[test]
    fn two_authorities_are_left_alone_and_told() {
        let world = World::new("new", &["old"]);
        let source = |seed: &str| {
            let data = STANDARD.encode(certificate(seed));
            format!(r#"{{"source":"data:;base64,{data}"}}"#)
        };
        let two = format!(
            r#"{{"ignition":{{"version":"3.2.0","config":{{"merge":[{{"source":"https://192.0.2.1:22623/config/worker"}}]}},"security":{{"tls":{{"certificateAuthorities":[{},{}]}}}}}}}}"#,
            source("old"),
            source("theirs")
        );
        let StubAction::LeftAlone(why) = world.decide(&secret(two.as_bytes()), false) else {
            panic!("it is the owner's")
        };
        assert!(why.contains("2 certificate authorities"), "{why}");
    }
}
