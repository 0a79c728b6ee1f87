//! What an installed OS is handed: its user data, metadata and network, in every form that images read. Which of them
//! an image wants is recognised by the agent on the image, or said by its owner.
//!
//! ```text
//! spec.userData ─┐
//! spec.metaData ─┼─ Secrets ─► given::read ─► Given ─► forms::compose ─► wire::Forms ─► agent
//! spec.networkData                 │            │        ▲      ├─ cloud: metadata, network of cloud-init
//! annotation firesteel.dev/hand-off┘            │        │      └─ arguments: network of dracut's first boot
//!                                     what the planner sees   the host's token, the mark of the disk
//! ```
//!
//! | user data | forms that are offered |
//! |---|---|
//! | Ignition config | boot partition; config drive, for images of platform `openstack`; the boot loader's kernel arguments, where the config server has a port without TLS and the stub leads there alone |
//! | cloud-init's | config drive; NoCloud |
//! | none, but metadata or network data | config drive; NoCloud |
//!
//! Everything is judged before a disk is touched: what no form can hold is told on the host. Pure, but for the reading
//! of the Secrets.

mod arguments;
mod cloud;
mod forms;
mod given;
#[cfg(test)]
mod tests;

use firesteel_kube::Status;
use firesteel_resources::{BareMetalHost, Secret, meta::SecretReference};

use crate::Control;

pub(crate) use forms::{Extras, compose, file, wanted_arguments};
pub(crate) use given::{Reading, User};

/// For fuzzing: a network that is understood has words for every reader, and they are kernel arguments.
pub(crate) fn check_network(document: &serde_json::Value) {
    let resolvers = crate::network_data::resolvers(document);
    if let Ok(plan) = crate::network_data::plan_of_os(document) {
        let words = arguments::of(&plan, &resolvers, "host");
        assert!(words.iter().all(|word| firesteel_wire::hand_off::is_argument(word)), "{words:?}");
        assert!(cloud::network_config(&plan, &resolvers).is_object());
    }
}

impl Control {
    /// What the host's OS is to be handed, as its Secrets say now.
    pub(crate) async fn given(&self, host: &BareMetalHost) -> Result<Reading, Status> {
        let user = self.referenced(host, host.spec.user_data.as_ref()).await?;
        let meta = self.referenced(host, host.spec.meta_data.as_ref()).await?;
        let network = self.referenced(host, host.spec.network_data.as_ref()).await?;
        let origins = &self.inner.origins;
        let ways = given::Ways { urls: &origins.urls, plain: origins.plain.as_deref() };
        let reading = given::read(ways, host, user.as_ref(), meta.as_ref(), network.as_ref());
        let Reading::Ready(given) = reading else { return Ok(reading) };
        let further = self.kernel_arguments_of(&host.metadata.namespace, &given.configs).await?;
        Ok(given::with_arguments(host, given, further))
    }

    /// `None`: nothing is referenced. Secrets of the host's own namespace alone are read.
    async fn referenced(
        &self,
        host: &BareMetalHost,
        reference: Option<&SecretReference>,
    ) -> Result<Option<given::Referenced>, Status> {
        let Some(reference) = reference else { return Ok(None) };
        let secret: Option<Secret> = self.inner.secrets.get(&host.metadata.namespace, &reference.name).await?;
        Ok(Some(given::Referenced { name: reference.name.clone(), secret }))
    }
}
