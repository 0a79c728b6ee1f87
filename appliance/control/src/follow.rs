//! Hosts and what they wait for are followed, so that each is looked at again when it may go on.

use firesteel_facts::Mac;
use std::collections::BTreeMap;

use firesteel_kube::ObjectChange;
use firesteel_resources::{ObjectMeta, Secret};
use firesteel_runtime::{ControllerError, HostKey, IndexVersion, follow_index, follow_objects, key_of};

use crate::{reconciler::HostReconciler, views::StoredHostIdentity};

impl HostReconciler {
    pub(crate) async fn follow_hosts(self) -> Result<(), ControllerError> {
        let mut changes = self.hosts.subscribe().await?;
        let mut known: BTreeMap<HostKey, ObjectMeta> = BTreeMap::new();
        loop {
            match changes.next().await? {
                ObjectChange::Applied(host) => {
                    let key = key_of(&host);
                    self.host_is_readable(&key);
                    // A status is what a step made of the rest: it asks for no other one.
                    let asked = ObjectMeta { resource_version: String::new(), ..host.metadata.clone() };
                    if known.get(&key) == Some(&asked) {
                        continue;
                    }
                    known.insert(key.clone(), asked);
                    let macs: Vec<Mac> = host.spec.boot_mac().iter().filter_map(|mac| mac.parse().ok()).collect();
                    self.shared.views().learn_host(&key, Some(StoredHostIdentity::of(&host.metadata, &macs)));
                    self.unowned.forget_discovered(&macs);
                    self.shared.queue.wake(&key);
                }
                ObjectChange::Deleted(host) => {
                    let key = key_of(&host);
                    self.host_is_readable(&key);
                    known.remove(&key);
                    let is_current =
                        self.shared.views().hosts.get(&key).is_none_or(|view| view.uid == host.metadata.uid);
                    self.shared.views().remove_host(&key, &host.metadata.uid);
                    self.shared.discovered_changed.notify_one();
                    // Its namesake, which was made since, may have one of its own already.
                    if is_current {
                        self.free_slot(&key);
                    }
                    self.shared.views().consoles.end(&key);
                    self.shared.logs.forget(&key);
                    if let Err(status) = self.shared.journals.remove(&key, &host.metadata.uid).await {
                        tracing::warn!(host = %key, error = %status.message, "could not remove the journal of a host that is gone; a new host of its name replaces it");
                    }
                    let (receipts, namespace) = (self.receipts.clone(), key.namespace.clone());
                    self.shared.tasks.spawn(async move { receipts.tidy_receipts(&namespace).await });
                    // A step under way may still publish what it decided for it; the next one takes that back.
                    self.shared.queue.wake(&key);
                    self.shared.wake_hosts(|_| true);
                }
                ObjectChange::Synced => {
                    tracing::debug!("all hosts are known");
                    // Once: a watch that begins again finds the hosts that were counted before.
                    let hosts: Vec<HostKey> = known.keys().cloned().collect();
                    self.shared.views().slots.expect(hosts);
                    self.shared.hosts.note_hosts_read();
                }
                ObjectChange::Undecodable { name, error } => {
                    self.host_is_unreadable(&HostKey { namespace: name.namespace, name: name.name }, &error);
                }
            }
        }
    }

    /// Looks at the hosts again when streams say another form of hand-over.
    pub(crate) async fn follow_index(self) -> Result<(), ControllerError> {
        let changed = |known: IndexVersion, now: IndexVersion| {
            if now.forms != known.forms {
                // One of them may have waited for the right form.
                self.shared.wake_hosts(|_| true);
            }
        };
        follow_index(&*self.reader.index, changed).await;
        Ok(())
    }

    /// A changed Secret may be what a host of its namespace waits for.
    pub(crate) async fn follow_secrets(self) -> Result<(), ControllerError> {
        let changed = |secret: Secret| self.shared.wake_hosts(|key| key.namespace == secret.metadata.namespace);
        follow_objects(&self.secrets, changed).await
    }
}
