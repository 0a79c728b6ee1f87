//! One pass over all pools: render, stubs, status.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use firesteel_ignition::{
    NewFile, SpecVersion, StubAuthority,
    render::{self, Defaults, PoolRenderError},
    stub::{
        managed_stub::{self, StubSpec},
        names::{managed_name, owners_name},
        spec2::Sectors,
        upgrade::UpgradeTargets,
    },
};
use firesteel_kube::{ObjectPart, Objects, Status};
use firesteel_resources::{
    OwnerReference, Secret,
    machine_config::{MachineConfig, ROLE_LABEL, pool::MachineConfigPool},
    provisioning,
};
use firesteel_runtime::{HostKey, KnownHost, regarding};
use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::{
    PoolView, Pools,
    follow::{FollowedPools, PoolWork},
    status::{self, PoolCounts, PoolStatusInputs},
    stubs::{self, ManagedStub, StubAction},
};
use crate::{ConfigController, controller::ServedHost, instance_files::FILES};

const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
/// Upstream's mark of what a controller made of others.
const GENERATED: &str = "machineconfiguration.openshift.io/generated-by-controller-version";

/// Of a file that a host's config gets besides: a bundle of CAs in a rotation is the longest.
const HOST_FILE_BYTES: usize = 16 << 10;

/// What is kept between passes.
#[derive(Debug)]
pub(super) struct PoolReconciler {
    control: ConfigController,
    /// What each pool was last rendered from: the same again is the same.
    rendered_from: BTreeMap<String, Vec<(String, String)>>,
    /// Stubs of no pool that need a person, and why: told once on their hosts.
    left_alone: BTreeMap<(String, String), String>,
}

impl PoolReconciler {
    pub(super) fn new(control: ConfigController) -> Self {
        Self { control, rendered_from: BTreeMap::new(), left_alone: BTreeMap::new() }
    }

    /// Whether everything that was due was done; what failed is told in the log.
    pub(super) async fn run(&mut self, followed: &FollowedPools, due: PoolWork) -> bool {
        let mut is_done = true;
        if due.render {
            is_done &= self.render(followed).await;
        }
        if due.stubs {
            is_done &= self.stubs(followed).await;
            is_done &=
                noted("telling whether configs are served without a token", self.write_provisioning_warning().await);
        }
        for pool in followed.pools.values() {
            let machines = self.machines(pool);
            is_done &= noted("writing the status of a pool", self.write_pool_status(pool, &machines).await);
        }
        is_done
    }

    async fn render(&mut self, followed: &FollowedPools) -> bool {
        let pools = &self.control.inner.pools;
        pools.lock().pools.retain(|name, _| followed.pools.contains_key(name));
        self.rendered_from.retain(|name, _| followed.pools.contains_key(name));
        let mut is_done = true;
        if let Some(config) = self.unreadable(followed).await {
            self.rendered_from.clear();
            let fault = format!(
                "the stored MachineConfig {config} cannot be read, so that nobody knows which pools it is of: write or \
                 delete it"
            );
            let mut known = pools.lock();
            for name in followed.pools.keys() {
                known.pools.entry(name.clone()).or_default().fault = Some(fault.clone());
            }
            // Whether it was mended is asked again.
            return false;
        }
        for (name, pool) in &followed.pools {
            let selected = selected(pool, followed);
            if self.rendered_from.get(name) == Some(&selected) && !selected.is_empty() {
                continue;
            }
            let configs = match self.read(&selected).await {
                Ok(configs) => configs,
                Err(status) => {
                    tracing::warn!(pool = %name, error = %status.message, "reading the machine configs of a pool");
                    // Rendered anew when they can be read, also from the same as before: it takes the fault away.
                    self.rendered_from.remove(name);
                    unreadable_pool(pools, name, &status.message);
                    is_done = false;
                    continue;
                }
            };
            // No lock is held meanwhile: everybody who asks for a config waits for it.
            let before = pools.lock().pools.get(name).cloned();
            let view = beside_others(|| view(name, &configs, before.as_ref()));
            match (&view.rendered, &view.fault) {
                (_, Some(fault)) => tracing::warn!(pool = %name, %fault, "a pool cannot be rendered"),
                (Some(rendered), None) => tracing::info!(pool = %name, rendered = %rendered.name, "rendered"),
                (None, None) => {}
            }
            pools.lock().pools.insert(name.clone(), view);
            self.rendered_from.insert(name.clone(), selected);
        }
        is_done
    }

    /// A machine config that is there and cannot be read. One that is gone is told of as little as it can be read.
    async fn unreadable(&self, followed: &FollowedPools) -> Option<String> {
        for name in &followed.unreadable {
            if self.control.inner.config_objects.get("", name).await.is_err() {
                return Some(name.clone());
            }
        }
        None
    }

    async fn read(&self, selected: &[(String, String)]) -> Result<Vec<render::RenderableConfig>, Status> {
        let mut configs = Vec::with_capacity(selected.len());
        for (name, _) in selected {
            // One that went meanwhile is a change of its own.
            configs.extend(self.control.inner.config_objects.get("", name).await?.map(mapped));
        }
        Ok(configs)
    }

    fn machines(&self, pool: &MachineConfigPool) -> PoolCounts {
        let pools = &self.control.inner.pools;
        let name = pool.metadata.name.as_str();
        let view = pools.lock().pools.get(name).cloned().unwrap_or_default();
        let rendered = view.rendered.as_ref().map_or("", |rendered| rendered.name.as_str());
        let mut all = self.control.machines_of(pools, std::iter::once((name, rendered)));
        all.remove(name).unwrap_or_default()
    }

    async fn write_pool_status(&self, pool: &MachineConfigPool, machines: &PoolCounts) -> Result<(), Status> {
        let (control, name) = (&self.control, pool.metadata.name.as_str());
        let view = control.inner.pools.lock().pools.get(name).cloned().unwrap_or_default();
        let now = control.now();
        let of = |generation: i64, old: &Value| {
            let seen = PoolStatusInputs {
                generation,
                rendered: view.rendered.as_deref(),
                fault: view.fault.as_deref(),
                stub_faults: &view.stub_faults,
                machines,
                without_token: control.config().settings.without_token,
            };
            status::status(old, &seen, now)
        };
        let Some(stored) = control.inner.pool_objects.get("", name).await? else { return Ok(()) };
        // Another pool of its name has its own spec, which comes as a change.
        if stored.metadata.uid != pool.metadata.uid || of(pool.metadata.generation, &stored.status) == stored.status {
            return Ok(());
        }
        let change = |pool: &mut MachineConfigPool| pool.status = of(pool.metadata.generation, &pool.status);
        control.inner.pool_objects.modify("", name, ObjectPart::Status, change).await.map(drop)
    }

    /// The standing warning on the Provisioning object, beside those of the pools.
    async fn write_provisioning_warning(&self) -> Result<(), Status> {
        let control = &self.control;
        let objects: Objects<Value> = Objects::new(&control.config().core, "metal3.io", "Provisioning")?;
        let Some(stored) = objects.get("", provisioning::SINGLETON).await? else { return Ok(()) };
        let (stands, now) = (control.config().settings.without_token, control.now());
        let told = |object: &mut Value| {
            if !object["status"].is_object() {
                object["status"] = json!({});
            }
            let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if stands {
                let text = status::WITHOUT_TOKEN_TEXT;
                status::set(&mut conditions, status::WITHOUT_TOKEN, true, "OperatorSetting", text, now);
            } else {
                conditions.retain(|condition| condition["type"] != status::WITHOUT_TOKEN);
            }
            object["status"]["conditions"] = Value::Array(conditions);
        };
        let has = stored["status"]["conditions"].as_array().into_iter().flatten();
        let is_told = has.clone().any(|condition| condition["type"] == status::WITHOUT_TOKEN);
        if is_told == stands {
            return Ok(());
        }
        objects.modify("", provisioning::SINGLETON, ObjectPart::Status, told).await.map(drop)
    }

    async fn stubs(&mut self, followed: &FollowedPools) -> bool {
        let control = self.control.clone();
        let authority = match control.config().trust.authority() {
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
                        tracing::warn!(namespace = %name.0, secret = %name.1, error = %status.message, "a stub");
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

    /// Stubs that lead to configs of Secrets: their CA is ours as well. What a person has to mend is told on the hosts
    /// that name them.
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
                    tracing::warn!(namespace = %name.0, secret = %name.1, error = %status.message, "a stub");
                    is_done = false;
                    if let Some(why) = before.get(&name) {
                        self.left_alone.insert(name, why.clone());
                    }
                }
            }
        }
        is_done
    }

    /// On each host that is installed with this Secret.
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
            self.control.events().record_event(&key, &uid, "StubLeftAlone", true, text.to_owned());
        }
    }

    /// Brings one Secret of a pool up to date; what a person has to see. `is_wanted`: its namespace has hosts.
    async fn stub(
        &self,
        pool: &MachineConfigPool,
        name: &(String, String),
        authority: &StubAuthority,
        is_wanted: bool,
    ) -> Result<Option<String>, Status> {
        let (control, pool_name) = (&self.control, pool.metadata.name.as_str());
        let managed = if name.1 == managed_name(pool_name) {
            match managed_stub::managed(pool_name, &control.inner.origins.managed, authority, StubSpec::V3_2) {
                Ok(stub) => Some(ManagedStub { stub, owner: owner(pool) }),
                Err(error) => return Ok(Some(error.to_string())),
            }
        } else {
            None
        };
        let (work, is_there) = self.change(name, managed.as_ref(), authority).await?;
        let told = match work {
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
        tracing::info!(pool = pool_name, namespace = %name.0, secret = %name.1, %told, "a stub was changed");
        let text = format!("stub {}/{}: {told}", name.0, name.1);
        control.events().record_about(
            regarding(API_VERSION, "MachineConfigPool", &pool.metadata),
            "StubChanged",
            false,
            text,
        );
        Ok(None)
    }

    /// What was done with a Secret, and whether there is one.
    async fn change(
        &self,
        name: &(String, String),
        managed: Option<&ManagedStub>,
        authority: &StubAuthority,
    ) -> Result<(StubAction, bool), Status> {
        let control = &self.control;
        let ours = UpgradeTargets {
            endpoints: &control.inner.origins.endpoints,
            authority: Some(authority),
            sectors: Sectors::Unknown,
        };
        let Some(secret) = control.inner.secrets.get(&name.0, &name.1).await? else {
            return Ok((StubAction::Nothing, false));
        };
        let work = stubs::decide(&secret, managed, &ours);
        let owners = managed.and_then(|managed| stubs::other_owners(&secret, managed));
        if matches!(work, StubAction::Write { .. }) || owners.is_some() {
            let now = control.now();
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

impl super::Pools {
    /// The Secrets whose user data leads to the pool.
    fn leading_to(&self, pool: &str) -> Vec<(String, String)> {
        let known = self.lock();
        let leads = known.leads.iter().filter(|(_, names)| names.iter().any(|name| name == pool));
        leads.map(|(name, _)| name.clone()).collect()
    }

    /// Those that lead to configs of ours and to no pool.
    fn leading_elsewhere(&self, is_pool: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let known = self.lock();
        let leads = known.leads.iter().filter(|(_, names)| !names.iter().any(|name| is_pool(name)));
        leads.map(|(name, _)| name.clone()).collect()
    }
}

/// A pool whose machine configs could not be read is there all the same.
fn unreadable_pool(pools: &Pools, pool: &str, why: &str) {
    let mut known = pools.lock();
    known.pools.entry(pool.to_owned()).or_default().fault = Some(format!("its machine configs cannot be read: {why}"));
}

/// Long work without a pause: the tasks of this thread go on elsewhere meanwhile. A simulation has one thread, and no
/// runtime of tokio to tell.
fn beside_others<R>(work: impl FnOnce() -> R) -> R {
    let flavour = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavour {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        Ok(_) | Err(_) => work(),
    }
}

/// What failed is told and tried again.
fn noted(what: &str, result: Result<(), Status>) -> bool {
    if let Err(status) = &result {
        tracing::warn!(error = %status.message, "{what}");
    }
    result.is_ok()
}

/// The machine configs of a pool with their versions. A pool without a selector selects none, as upstream's.
fn selected(pool: &MachineConfigPool, followed: &FollowedPools) -> Vec<(String, String)> {
    let Some(selector) = &pool.spec.machine_config_selector else { return Vec::new() };
    let matching = followed.configs.iter().filter(|(_, config)| selector.matches(&config.labels));
    matching.map(|(name, config)| (name.clone(), config.version.clone())).collect()
}

fn view(name: &str, configs: &[render::RenderableConfig], before: Option<&PoolView>) -> PoolView {
    let stub_faults = before.map(|before| before.stub_faults.clone()).unwrap_or_default();
    let kept = || before.and_then(|before| before.rendered.clone());
    let (rendered, fault) = match render::render(name, configs, &Defaults::default()) {
        // What no host can be given is told before one asks.
        Ok(rendered) => match render::serve(&rendered, &of_a_host(), SpecVersion::NEWEST) {
            Ok(_) => (Some(Arc::new(rendered)), None),
            Err(error) => (kept(), Some(error.to_string())),
        },
        // Who takes all configs away means it.
        Err(error @ PoolRenderError::Empty) => (None, Some(error.to_string())),
        Err(error) => (kept(), Some(error.to_string())),
    };
    PoolView { rendered, fault, stub_faults }
}

/// Files as a host gets them, and as long as they may become.
fn of_a_host() -> render::Additions {
    let file = |path: &str| NewFile { path: path.to_owned(), mode: 0o600, contents: vec![b'x'; HOST_FILE_BYTES] };
    render::Additions { files: FILES.map(file).to_vec(), ..render::Additions::default() }
}

fn mapped(config: MachineConfig) -> render::RenderableConfig {
    let MachineConfig { metadata, spec, .. } = config;
    render::RenderableConfig {
        role: metadata.labels.get(ROLE_LABEL).cloned().unwrap_or_default(),
        generated: metadata.annotation(GENERATED).is_some_and(|version| !version.is_empty()),
        name: metadata.name,
        config: Some(spec.config),
        kernel_arguments: spec.kernel_arguments,
        extensions: spec.extensions,
        fips: spec.fips,
        kernel_type: spec.kernel_type,
        os_image_url: spec.os_image_url,
        extensions_image: spec.base_os_extensions_container_image,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_could_not_be_read_is_there() {
        let pools = Pools::default();
        assert_eq!(pools.rendered("worker").map_err(|refusal| refusal.status()), Err(404));
        unreadable_pool(&pools, "worker", "the disk is full");
        let refusal = pools.rendered("worker").expect_err("there is nothing to serve");
        assert_eq!(refusal.status(), 500, "Ignition asks again");
        assert!(refusal.to_string().contains("the disk is full"), "{refusal}");
    }
}
