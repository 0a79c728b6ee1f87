//! What control asks of the config server when it composes a hand-over.

use firesteel_handoff::wanted_arguments;
use firesteel_kube::Status;
use firesteel_resources::secret::CONFIG_KEY;
use firesteel_runtime::{ConfigsNotReady, HostKey, Pending, ServedConfigs};
use firesteel_wire::hand_off::KernelArgumentEdit;

use crate::{ConfigController, ConfigRefusal};

impl ServedConfigs for ConfigController {
    fn check<'a>(&'a self, key: &'a HostKey, names: &'a [String]) -> Pending<'a, Result<(), ConfigsNotReady>> {
        Box::pin(async move {
            if !self.inner.pools.are_read(&*self.handles().runtime).await {
                return Err(ConfigsNotReady::PoolsNotRead);
            }
            let checked = self.check_rendered(key, names).await;
            checked.map_err(|refusal| ConfigsNotReady::Refused(refusal.to_string()))
        })
    }

    fn kernel_arguments<'a>(
        &'a self,
        namespace: &'a str,
        names: &'a [String],
    ) -> Pending<'a, Result<KernelArgumentEdit, Status>> {
        Box::pin(self.kernel_arguments_of(namespace, names))
    }
}

impl ConfigController {
    /// Collects what configs of this appliance ask of the kernel's command line, as far as they are there. Clients
    /// before 3.3.0 do not get it (S1.30), so the agent sets it.
    async fn kernel_arguments_of(&self, namespace: &str, names: &[String]) -> Result<KernelArgumentEdit, Status> {
        let mut all = KernelArgumentEdit::default();
        for name in names {
            let secret = self.config_secret(namespace, name).await?;
            let wanted = match (&secret, self.inner.pools.rendered(name)) {
                (Some(secret), _) => {
                    let config = secret.get(CONFIG_KEY).and_then(|text| serde_json::from_slice(text).ok());
                    wanted_arguments(&config.unwrap_or_default())
                }
                (None, Ok(rendered)) => wanted_arguments(&rendered.config),
                // [`Self::check_rendered`] stops a host that is about to be written, and a refusal one that fetches it.
                (None, Err(_)) => continue,
            };
            all.append.extend(wanted.append);
            all.delete.extend(wanted.delete);
        }
        Ok(all)
    }

    /// Checks whether every config that user data names can be known now. The kernel arguments of a pool that is there
    /// and not rendered are unknown, and a host that is written has no other chance to get them. What does not exist
    /// may be made before it is fetched.
    async fn check_rendered(&self, key: &HostKey, names: &[String]) -> Result<(), ConfigRefusal> {
        for name in names {
            match self.find_config(key, name).await {
                Ok(_) | Err(ConfigRefusal::Unknown) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }
}
