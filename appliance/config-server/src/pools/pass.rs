//! One pass over all pools: render, stubs, status.

use std::{collections::BTreeMap, sync::Arc};

use firesteel_ignition::render::{self, Defaults, PoolRenderError};
use firesteel_ignition::{NewFile, SpecVersion};
use firesteel_kube::{ObjectPart, Objects, Status};
use firesteel_resources::machine_config::{MachineConfig, ROLE_LABEL, pool::MachineConfigPool};
use firesteel_resources::provisioning;
use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::follow::{FollowedPools, PoolWork};
use super::status::{self, PoolCounts, PoolStatusInputs};
use super::{PoolView, Pools};
use crate::{ConfigController, instance_files::FILES};
/// Upstream's mark of what a controller made of others.
const GENERATED: &str = "machineconfiguration.openshift.io/generated-by-controller-version";

/// The bytes of a file that a host's config gets besides: a bundle of CAs in a rotation is the longest.
const HOST_FILE_BYTES: usize = 16 << 10;

/// What is kept between passes.
#[derive(Debug)]
pub(super) struct PoolReconciler {
    pub(super) control: ConfigController,
    /// What each pool was last rendered from: the same again is the same.
    rendered_from: BTreeMap<String, Vec<(String, String)>>,
    /// Stubs of no pool that need a person, and why: an event on their hosts says so once.
    pub(super) left_alone: BTreeMap<(String, String), String>,
}

impl PoolReconciler {
    pub(super) fn new(control: ConfigController) -> Self {
        Self { control, rendered_from: BTreeMap::new(), left_alone: BTreeMap::new() }
    }

    /// Does what is due, and says whether all of it was done; the log says what failed.
    pub(super) async fn run(&mut self, followed: &FollowedPools, due: PoolWork) -> bool {
        let mut is_done = true;
        if due.render {
            is_done &= self.render(followed).await;
        }
        if due.stubs {
            is_done &= self.stubs(followed).await;
            is_done &=
                noted("could not write a warning on the Provisioning object", self.write_provisioning_warning().await);
        }
        for pool in followed.pools.values() {
            let machines = self.machines(pool);
            is_done &= noted("could not write the status of a pool", self.write_pool_status(pool, &machines).await);
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
                "the stored MachineConfig {config} cannot be read, so that it is unknown which pools it belongs to: write \
                 or delete it"
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
                    tracing::warn!(pool = %name, error = %status.message, "could not read the machine configs of a pool; its hosts wait until they can be read");
                    // Rendered again when they can be read, also from the same as before: it takes the fault away.
                    self.rendered_from.remove(name);
                    unreadable_pool(pools, name, &status.message);
                    is_done = false;
                    continue;
                }
            };
            // No lock is held meanwhile: every request for a config waits for it.
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

    /// Finds a machine config that is there and cannot be read. One that is gone may still be listed as unreadable.
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
        let now = control.handles().now();
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
        let objects: Objects<Value> = Objects::new(&control.handles().core, "metal3.io", "Provisioning")?;
        let Some(stored) = objects.get("", provisioning::SINGLETON).await? else { return Ok(()) };
        let (stands, now) = (control.config().settings.without_token, control.handles().now());
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

/// Logs what failed; it is tried again.
fn noted(what: &str, result: Result<(), Status>) -> bool {
    if let Err(status) = &result {
        tracing::warn!(error = %status.message, "{what}; it is tried again in ten seconds");
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
        // What no host can be given shows before one asks.
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
