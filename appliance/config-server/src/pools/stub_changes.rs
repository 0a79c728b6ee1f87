//! The stubs of a pass: made, brought up to date, and judged by [`super::stubs`].

use std::collections::{BTreeMap, BTreeSet};

use firesteel_ignition::StubAuthority;
use firesteel_ignition::stub::managed_stub::{self, StubSpec};
use firesteel_ignition::stub::names::{managed_name, owners_name};
use firesteel_ignition::stub::{spec2::Sectors, upgrade::UpgradeTargets};
use firesteel_kube::{ObjectPart, Status};
use firesteel_resources::machine_config::pool::MachineConfigPool;
use firesteel_resources::{OwnerReference, Secret};
use firesteel_runtime::{HostKey, KnownHost, regarding};

use super::stubs::{self, ManagedStub, StubAction};
use super::{Pools, follow::FollowedPools, pass::PoolReconciler};
use crate::controller::ServedHost;

const API_VERSION: &str = "machineconfiguration.openshift.io/v1";

impl PoolReconciler {
    pub(super) async fn stubs(&mut self, followed: &FollowedPools) -> bool {
        let control = self.control.clone();
        let authority = match control.handles().trust.authority() {
            Ok(authority) => authority,
            Err(error) => {
                self.fault_of_all(&format!("the appliance's CA cannot stand in a stub: {error}"));
                return true;
            }
        };
        let namespaces = self.namespaces_of_hosts();
        let mut is_done = true;
        let mut faults: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (pool, object) in followed.pools.iter().filter(|(_, pool)| !pool.metadata.is_deleting()) {
            // Also those that no host names now: one that does tomorrow must not trust a CA that is gone by then.
            let mut names: BTreeSet<(String, String)> = control.inner.pools.leading_to(pool).into_iter().collect();
            for namespace in &namespaces {
                names.extend([managed_name(pool), owners_name(pool)].map(|name| (namespace.clone(), name)));
            }
            for name in &names {
                match self.stub(object, name, &authority, namespaces.contains(&name.0)).await {
                    Ok(None) => {}
                    Ok(Some(fault)) => {
                        faults.entry(pool.as_str()).or_default().push(format!("{}/{}: {fault}", name.0, name.1));
                    }
                    Err(status) => {
                        tracing::warn!(namespace = %name.0, secret = %name.1, error = %status.message, "could not write a stub; it is tried again in ten seconds");
                        let fault = format!("{}/{}: {}", name.0, name.1, status.message);
                        faults.entry(pool.as_str()).or_default().push(fault);
                        is_done = false;
                    }
                }
            }
        }
        is_done &= self.update_other_stubs(followed, &authority).await;
        let mut known = control.inner.pools.lock();
        for (name, view) in &mut known.pools {
            view.stub_faults = faults.remove(name.as_str()).unwrap_or_default();
        }
        is_done
    }

    /// Updates stubs that lead to configs of Secrets: their CA is ours as well. An event on the hosts that name them
    /// says what a person has to mend.
    async fn update_other_stubs(&mut self, followed: &FollowedPools, authority: &StubAuthority) -> bool {
        let mut is_done = true;
        let before = std::mem::take(&mut self.left_alone);
        for name in self.control.inner.pools.leading_elsewhere(|name| followed.pools.contains_key(name)) {
            match self.change(&name, None, authority).await {
                Ok((StubAction::LeftAlone(why), _)) => {
                    if before.get(&name) != Some(&why) {
                        tracing::warn!(namespace = %name.0, secret = %name.1, %why, "a stub is left as it is");
                        self.record_on_hosts(&name, &format!("the stub in Secret {} is left as it is: {why}", name.1));
                    }
                    self.left_alone.insert(name, why);
                }
                Ok(_) => {}
                Err(status) => {
                    tracing::warn!(namespace = %name.0, secret = %name.1, error = %status.message, "could not write a stub; it is tried again in ten seconds");
                    is_done = false;
                    if let Some(why) = before.get(&name) {
                        self.left_alone.insert(name, why.clone());
                    }
                }
            }
        }
        is_done
    }

    /// Writes an event on each host that is installed with this Secret.
    fn record_on_hosts(&self, secret: &(String, String), text: &str) {
        let with_it: Vec<(HostKey, String)> = {
            let hosts = self.control.hosts();
            let is_of = |key: &HostKey, host: &KnownHost<ServedHost>| {
                let user_data = host.kept.member.as_ref().map(|member| &member.user_data);
                key.namespace == secret.0 && user_data == Some(&secret.1)
            };
            let found = hosts.hosts().filter(|(key, host)| is_of(key, host));
            found.map(|(key, host)| (key.clone(), host.uid.clone())).collect()
        };
        for (key, uid) in with_it {
            self.control.handles().events.record_event(&key, &uid, "StubLeftAlone", true, text.to_owned());
        }
    }

    /// Brings one Secret of a pool up to date, and returns what a person has to see. `is_wanted`: its namespace has
    /// hosts.
    async fn stub(
        &self,
        pool: &MachineConfigPool,
        name: &(String, String),
        authority: &StubAuthority,
        is_wanted: bool,
    ) -> Result<Option<String>, Status> {
        let (control, pool_name) = (&self.control, pool.metadata.name.as_str());
        let managed = if name.1 == managed_name(pool_name) {
            match managed_stub::managed(pool_name, &control.inner.origins.now().managed, authority, StubSpec::V3_2) {
                Ok(stub) => Some(ManagedStub { stub, owner: owner(pool) }),
                Err(error) => return Ok(Some(error.to_string())),
            }
        } else {
            None
        };
        let (work, is_there) = self.change(name, managed.as_ref(), authority).await?;
        let change = match work {
            StubAction::Nothing if is_there => return Ok(None),
            StubAction::Nothing => {
                let Some(managed) = managed.filter(|_| is_wanted) else { return Ok(None) };
                match control.inner.secrets.create(&stubs::stub_secret(&name.0, &name.1, managed)).await {
                    Err(status) if status.is_already_exists() => return Ok(None),
                    // Its namespace is going.
                    Err(status) if status.code == 403 || status.is_not_found() => return Ok(None),
                    made => made.map(|_| "made".to_owned())?,
                }
            }
            StubAction::Write { what, .. } => what,
            StubAction::LeftAlone(why) => return Ok(Some(why)),
        };
        tracing::info!(pool = pool_name, namespace = %name.0, secret = %name.1, %change, "a stub was changed");
        let text = format!("stub {}/{}: {change}", name.0, name.1);
        let regarding = regarding(API_VERSION, "MachineConfigPool", &pool.metadata);
        control.handles().events.record_about(regarding, "StubChanged", false, text);
        Ok(None)
    }

    /// Changes a Secret where that is due, and returns what was done and whether there is one.
    async fn change(
        &self,
        name: &(String, String),
        managed: Option<&ManagedStub>,
        authority: &StubAuthority,
    ) -> Result<(StubAction, bool), Status> {
        let control = &self.control;
        let origins = control.inner.origins.now();
        let endpoints = &origins.endpoints;
        let ours = UpgradeTargets { endpoints, authority: Some(authority), sectors: Sectors::Unknown };
        let Some(secret) = control.inner.secrets.get(&name.0, &name.1).await? else {
            return Ok((StubAction::Nothing, false));
        };
        let work = stubs::decide(&secret, managed, &ours);
        let owners = managed.and_then(|managed| stubs::other_owners(&secret, managed));
        if matches!(work, StubAction::Write { .. }) || owners.is_some() {
            let now = control.handles().now();
            let write = |secret: &mut Secret| {
                // Whose it is shows before it is written.
                let owners = managed.and_then(|managed| stubs::other_owners(secret, managed));
                if let StubAction::Write { bytes, is_ours, what } = stubs::decide(secret, managed, &ours) {
                    stubs::apply(secret, bytes, is_ours, &what, now);
                }
                if let Some(owners) = owners {
                    secret.metadata.owner_references = owners;
                }
            };
            control.inner.secrets.modify(&name.0, &name.1, ObjectPart::Main, write).await?;
        }
        Ok((work, true))
    }

    fn namespaces_of_hosts(&self) -> BTreeSet<String> {
        self.control.hosts().hosts().map(|(key, _)| key.namespace.clone()).collect()
    }

    fn fault_of_all(&self, fault: &str) {
        for view in self.control.inner.pools.lock().pools.values_mut() {
            view.stub_faults = vec![fault.to_owned()];
        }
    }
}

impl Pools {
    /// Lists the Secrets whose user data leads to the pool.
    fn leading_to(&self, pool: &str) -> Vec<(String, String)> {
        let known = self.lock();
        let leads = known.leads.iter().filter(|(_, names)| names.iter().any(|name| name == pool));
        leads.map(|(name, _)| name.clone()).collect()
    }

    /// Lists those that lead to configs of ours and to no pool.
    fn leading_elsewhere(&self, is_pool: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let known = self.lock();
        let leads = known.leads.iter().filter(|(_, names)| !names.iter().any(|name| is_pool(name)));
        leads.map(|(name, _)| name.clone()).collect()
    }
}

fn owner(pool: &MachineConfigPool) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "MachineConfigPool".to_owned(),
        name: pool.metadata.name.clone(),
        uid: pool.metadata.uid.clone(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}
