//! The one table of kinds and files on the disk, and which of them are secret.
//!
//! Join data lets a machine join a cluster, or a person in: tokens, keys, passwords, and configs that hold them. Values
//! of [`SEALED_KINDS`] are sealed in the database with their history. A new kind, or a new file in the data folder,
//! must be named here.

use firesteel_store::GroupResource;

/// A kind whose values are sealed in the database.
#[derive(Clone, Copy, Debug)]
pub struct SealedKind {
    pub group: &'static str,
    pub plural: &'static str,
    /// The word for several objects, in messages.
    pub people_say: &'static str,
    /// The secrets in its objects.
    pub holds: &'static str,
}

impl SealedKind {
    /// Returns the key range of its objects in the store.
    #[must_use]
    pub fn resource(&self) -> GroupResource {
        GroupResource::new(self.group, self.plural)
    }
}

const fn sealed(
    group: &'static str,
    plural: &'static str,
    people_say: &'static str,
    holds: &'static str,
) -> SealedKind {
    SealedKind { group, plural, people_say, holds }
}

pub const SEALED_KINDS: [SealedKind; 4] = [
    sealed("", "secrets", "Secrets", "passwords of BMCs, user data, configs, keys of users"),
    sealed(
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "MachineConfigs",
        "the files of a pool's machines, pull secrets and join tokens among them",
    ),
    sealed(
        "firesteel.dev",
        "hostjournals",
        "HostJournals",
        "the last lines of a first boot that failed, which may quote its config; digests of what was handed over, by \
         which a short secret can be guessed",
    ),
    sealed(
        "firesteel.dev",
        "discoveredhosts",
        "DiscoveredHosts",
        "what a machine without an owner said of itself, and the agent that its token is bound to",
    ),
];

/// A kind whose values are in the clear, and why they may be.
#[derive(Clone, Copy, Debug)]
pub struct ClearKind {
    pub group: &'static str,
    pub plural: &'static str,
    pub why: &'static str,
}

const fn clear(group: &'static str, plural: &'static str, why: &'static str) -> ClearKind {
    ClearKind { group, plural, why }
}

const METAL3: &str = "metal3.io";
const FIRESTEEL: &str = "firesteel.dev";
const CLUSTER_API: &str = "cluster.x-k8s.io";
const MACHINE_CONFIG: &str = "machineconfiguration.openshift.io";

const REFERENCES: &str = "it names Secrets, and holds none";
const SETTINGS: &str = "settings that every reader may see";
const EMPTY: &str = "there are no objects of it";

pub const CLEAR_KINDS: [ClearKind; 35] = [
    clear("", "namespaces", "names"),
    clear("", "configmaps", "Kubernetes' kind for what is no secret"),
    clear("", "resourcequotas", "limits, and what is used of them"),
    clear("", "serviceaccounts", "names; their tokens are signed and not kept"),
    clear("", "events", "messages for people, in which no secret may stand"),
    clear("", "nodes", EMPTY),
    clear("", "services", EMPTY),
    clear("coordination.k8s.io", "leases", "who leads, and since when"),
    clear("apiextensions.k8s.io", "customresourcedefinitions", "the kinds themselves"),
    clear(METAL3, "baremetalhosts", REFERENCES),
    clear(METAL3, "hardwaredata", "an inventory that every reader may see"),
    clear(METAL3, "hostfirmwaresettings", SETTINGS),
    clear(METAL3, "firmwareschemas", SETTINGS),
    clear(METAL3, "hostfirmwarecomponents", SETTINGS),
    clear(METAL3, "hostupdatepolicies", SETTINGS),
    clear(METAL3, "preprovisioningimages", REFERENCES),
    clear(METAL3, "dataimages", SETTINGS),
    clear(METAL3, "bmceventsubscriptions", REFERENCES),
    clear(METAL3, "baremetalswitches", REFERENCES),
    clear(METAL3, "hostnetworkattachments", SETTINGS),
    clear(METAL3, "hostclaims", REFERENCES),
    clear(METAL3, "hostdeploypolicies", SETTINGS),
    clear(METAL3, "provisionings", SETTINGS),
    clear("config.openshift.io", "clusteroperators", "conditions"),
    clear(FIRESTEEL, "halts", "a reason, by a person"),
    clear(FIRESTEEL, "receipts", "signed evidence about disks, made to be handed to others"),
    clear(FIRESTEEL, "accessgrants", "who may do what; certificates and tokens are not kept"),
    clear(FIRESTEEL, "bootimagestreams", "addresses, and public keys"),
    clear(FIRESTEEL, "hostgroups", SETTINGS),
    clear(CLUSTER_API, "clusters", REFERENCES),
    clear(CLUSTER_API, "machines", REFERENCES),
    clear(CLUSTER_API, "machinesets", REFERENCES),
    clear("operator.openshift.io", "machineconfigurations", SETTINGS),
    clear(MACHINE_CONFIG, "machineconfigpools", "names of configs; what is rendered of them is in memory alone"),
    clear("machine.openshift.io", "machinesets", REFERENCES),
];

/// A file or folder of the data folder. Only its owner has access.
#[derive(Clone, Copy, Debug)]
pub struct HeldFile {
    /// Its name in the data folder, or the prefix of its name.
    pub name: &'static str,
    pub holds: &'static str,
}

const fn file(name: &'static str, holds: &'static str) -> HeldFile {
    HeldFile { name, holds }
}

pub const FILES: [HeldFile; 14] = [
    // This includes its lock, its log and its index.
    file("resources.db", "all objects, as the tables of kinds say; their names in the clear"),
    file("leases.db", "addresses and MACs"),
    file("secrets", "keys"),
    file("pki", "private keys and certificates"),
    file("admin.kubeconfig", "the admin's token"),
    file("audit", "who asked for what, and no body"),
    file("images", "images, in which no secret may stand: the digest of one is enough to get it"),
    file("streams", "what publishers say of their images"),
    file("boot", "kernels and ramdisks, without seeds"),
    file("backup.tmp", "a copy of resources.db that is being made, sealed as that is"),
    file("reserve", "room, filled as if by chance"),
    file("first-start", "nothing: it marks a folder whose first start has not ended"),
    file("put-address.json", "the address that was put on the interface of the provisioning network"),
    file("lost+found", "what a file system found"),
];

/// Tells whether an appliance makes a file or folder of this name in its data folder.
#[must_use]
pub fn is_own(name: &str) -> bool {
    // A database has files beside it, and the kubeconfig has one while it is written.
    let is_beside = |rest: &str, of: &str| rest.is_empty() || of.ends_with(".db") && rest.starts_with(['-', '.']);
    let of = |file: &HeldFile| name.strip_prefix(file.name).is_some_and(|rest| is_beside(rest, file.name));
    FILES.iter().any(of) || name == "admin.new"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::serve::kinds;

    #[test]
    fn names_of_an_appliance_are_told_from_others() {
        for own in ["resources.db", "resources.db-wal", "resources.db.lock", "leases.db-shm", "pki", "admin.new"] {
            assert!(is_own(own), "{own}");
        }
        for foreign in ["", "resources.dbx", "pki.old", "images-2", "boot.img", "README", ".git"] {
            assert!(!is_own(foreign), "{foreign}");
        }
    }

    #[test]
    fn every_stored_kind_is_in_one_of_the_tables_and_says_why() {
        let listed = || {
            let sealed = SEALED_KINDS.iter().map(|kind| (kind.group, kind.plural, kind.holds));
            sealed.chain(CLEAR_KINDS.iter().map(|kind| (kind.group, kind.plural, kind.why)))
        };
        let named: BTreeSet<_> = listed().map(|(group, plural, _)| (group, plural)).collect();
        assert_eq!(named.len(), SEALED_KINDS.len() + CLEAR_KINDS.len(), "one of them stands here twice");
        assert!(listed().all(|(_, _, why)| !why.is_empty()));
        let registry = kinds::registry();
        let stored = registry.kinds().iter().filter(|kind| kind.is_stored());
        let stored: BTreeSet<_> = stored.map(|kind| (kind.group, kind.plural)).collect();
        let unlisted: Vec<_> = stored.difference(&named).collect();
        assert!(unlisted.is_empty(), "say in a table whether it is sealed: {unlisted:?}");
        let gone: Vec<_> = named.difference(&stored).collect();
        assert!(gone.is_empty(), "no such kind is stored: {gone:?}");
    }
}
