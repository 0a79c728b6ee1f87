//! What a host's OS is to be handed: read out of its Secrets here, and judged by [`firesteel_handoff`].

use std::sync::Arc;

use firesteel_handoff::{self as hand_off, ConfigOrigins, HandOffInputs, HandOffReading, HandOffUrls, Referenced};
use firesteel_kube::{Objects, Status};
use firesteel_resources::{BareMetalHost, Secret, SecretReference, boot_image_stream::DeclaredForm};
use firesteel_runtime::{ImageIndex, Live, ServedConfigs, key_of};

use crate::shared::Shared;

/// Reads what the OS of a host is to be handed.
#[derive(Clone)]
pub(crate) struct HandOffReader {
    pub(crate) shared: Arc<Shared>,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) index: Arc<dyn ImageIndex>,
    pub(crate) served: Arc<dyn ServedConfigs>,
    pub(crate) origins: Live<ConfigOrigins>,
}

impl HandOffReader {
    /// What the host's OS is to be handed, as its Secrets say now.
    pub(crate) async fn hand_off_inputs(&self, host: &BareMetalHost) -> Result<HandOffReading, Status> {
        let user = self.referenced(host, host.spec.user_data.as_ref()).await?;
        let meta = self.referenced(host, host.spec.meta_data.as_ref()).await?;
        let network = self.referenced(host, host.spec.network_data.as_ref()).await?;
        if user.is_none() && meta.is_none() && network.is_none() {
            return Ok(HandOffReading::Nothing);
        }
        let origins = self.origins.now();
        let declared = self.declared(host).await?;
        let ways = HandOffUrls { urls: &origins.urls, plain: origins.plain.as_deref(), declared: &declared };
        let reading = hand_off::read(ways, host, user.as_ref(), meta.as_ref(), network.as_ref());
        let HandOffReading::Ready(given) = reading else { return Ok(reading) };
        let served = &self.served;
        let further = served.kernel_arguments(&host.metadata.namespace, &given.configs).await?;
        Ok(hand_off::with_arguments(host, given, further))
    }

    /// What streams say of the form for the host's image. Before they were read after a start it would be a guess.
    async fn declared(&self, host: &BareMetalHost) -> Result<Vec<DeclaredForm>, Status> {
        let Some(image) = host.spec.wanted_image() else { return Ok(Vec::new()) };
        if !self.index.are_read().await {
            return Err(Status::internal("the boot image streams were not read yet: trying again"));
        }
        Ok(self.index.declared(image))
    }

    /// Warns of what may keep the OS from coming up, once for each change of what it is handed. `kept`: the last
    /// warning by the journal; the step that follows puts [`LiveHost::warned`](crate::views::LiveHost) there.
    pub(crate) fn warn_of(&self, host: &BareMetalHost, given: &HandOffInputs, kept: &str) {
        let key = key_of(host);
        let is_news = self
            .shared
            .views()
            .hosts
            .get_mut(&key)
            .is_some_and(|view| hand_off::is_news(&mut view.warned, kept, given));
        for warning in given.warnings.iter().filter(|_| is_news) {
            tracing::warn!(host = %key, %warning, "what the OS is to be handed");
            self.shared.events.record_event(&key, &host.metadata.uid, "HandOffWarning", true, warning.clone());
        }
    }

    /// Reads a Secret of the host's own namespace; `None` where nothing is referenced.
    async fn referenced(
        &self,
        host: &BareMetalHost,
        reference: Option<&SecretReference>,
    ) -> Result<Option<Referenced>, Status> {
        let Some(reference) = reference else { return Ok(None) };
        let secret: Option<Secret> = self.secrets.get(&host.metadata.namespace, &reference.name).await?;
        Ok(Some(Referenced { name: reference.name.clone(), secret }))
    }
}
