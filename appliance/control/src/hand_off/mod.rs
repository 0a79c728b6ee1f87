//! What an installed OS is handed: its user data, metadata and network, in every form that images read. Which of them
//! an image wants is recognised by the agent on the image, or said by its owner.
//!
//! ```text
//! spec.userData ─┐
//! spec.metaData ─┼─ Secrets ─► given::read ─► Given ─► forms::compose ─► wire::Forms ─► agent
//! spec.networkData                 │            │        ▲      ├─ cloud: metadata, network of cloud-init
//! annotation firesteel.dev/hand-off┤            │        │      └─ arguments: network of dracut's first boot
//! spec.handOff of the image's stream┘           │        │
//!                                     what the planner sees   the host's token, the mark of the disk
//! ```
//!
//! The host's annotation goes before what the stream of its image says; where neither says a form, the image tells.
//!
//! | user data | forms that are offered |
//! |---|---|
//! | Ignition config | boot partition; config drive, for images of platform `openstack`; the boot loader's kernel arguments, where the config server has a port without TLS and the stub leads there alone |
//! | cloud-init's | config drive; NoCloud |
//! | none, but metadata or network data | config drive; NoCloud |
//!
//! Everything is judged before a disk is touched: what no form can hold is told on the host, and what may keep the OS from
//! coming up is told by an event. Pure, but for the reading of the Secrets.

mod arguments;
mod cloud;
mod forms;
mod given;
mod promised;
#[cfg(test)]
mod tests;

use firesteel_images::Sha256;
use firesteel_kube::Status;
use firesteel_resources::{BareMetalHost, Secret, meta::SecretReference};
use firesteel_runtime::key_of;

use crate::Control;
use given::Given;

pub(crate) use forms::{Extras, compose, file, wanted_arguments};
pub(crate) use given::{Declared, Reading, User};
pub(crate) use promised::of_plan as promised_by;

/// For fuzzing: a network that is understood has words for every reader, and they are kernel arguments.
pub(crate) fn check_network(document: &serde_json::Value) {
    let (resolvers, search) = (crate::network_data::resolvers(document), crate::network_data::search(document));
    assert_eq!(crate::network_data::resolvers(&crate::network_data::with_vlan_macs(document)), resolvers);
    if let Ok(plan) = crate::network_data::plan_of_os(document) {
        let words = arguments::of(&plan, &resolvers, "host");
        assert!(words.iter().all(|word| firesteel_wire::hand_off::is_argument(word)), "{words:?}");
        assert!(cloud::network_config(&plan, &resolvers, &search).is_object());
    }
}

impl Control {
    /// What the host's OS is to be handed, as its Secrets say now.
    pub(crate) async fn given(&self, host: &BareMetalHost) -> Result<Reading, Status> {
        let user = self.referenced(host, host.spec.user_data.as_ref()).await?;
        let meta = self.referenced(host, host.spec.meta_data.as_ref()).await?;
        let network = self.referenced(host, host.spec.network_data.as_ref()).await?;
        if user.is_none() && meta.is_none() && network.is_none() {
            return Ok(Reading::Nothing);
        }
        let origins = &self.inner.origins;
        let declared = self.declared(host).await?;
        let ways = given::Ways { urls: &origins.urls, plain: origins.plain.as_deref(), declared: &declared };
        let reading = given::read(ways, host, user.as_ref(), meta.as_ref(), network.as_ref());
        let Reading::Ready(given) = reading else { return Ok(reading) };
        let further = self.kernel_arguments_of(&host.metadata.namespace, &given.configs).await?;
        Ok(given::with_arguments(host, given, further))
    }

    /// What streams say of the form for the host's image. Before they were read after a start it would be a guess.
    async fn declared(&self, host: &BareMetalHost) -> Result<Vec<Declared>, Status> {
        let Some(image) = host.spec.wanted_image() else { return Ok(Vec::new()) };
        if !self.inner.streams.are_read(&*self.config().runtime).await {
            return Err(Status::internal("the boot image streams were not read yet: trying again"));
        }
        Ok(self.inner.streams.declared(image))
    }

    /// Tells of what may keep the OS from coming up, once for each change of what it is handed. `kept`: what the
    /// journal says was told last; the step that follows puts [`HostView::warned`](crate::views::HostView) there.
    pub(crate) fn warn_of(&self, host: &BareMetalHost, given: &Given, kept: &str) {
        let key = key_of(host);
        let is_news = self.views().hosts.get_mut(&key).is_some_and(|view| is_news(&mut view.warned, kept, given));
        for warning in given.warnings.iter().filter(|_| is_news) {
            tracing::warn!(host = %key, %warning, "what the OS is to be handed");
            self.events().tell_of(&key, &host.metadata.uid, "HandOffWarning", true, warning.clone());
        }
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

/// Whether it was not warned of before; from now on it was. `warned` is what this process told last, or found to be
/// told; `kept` is what the journal says. Both are digests.
fn is_news(warned: &mut String, kept: &str, given: &Given) -> bool {
    if given.warnings.is_empty() {
        return false;
    }
    let telling = format!("{} {}", given.sha256, given.warnings.join("; "));
    let telling = Sha256::of(telling.as_bytes()).to_string();
    let is_known = *warned == telling || kept == telling;
    *warned = telling;
    !is_known
}
