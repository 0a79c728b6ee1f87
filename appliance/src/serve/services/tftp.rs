//! TFTP as a service.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use firesteel_boot::autoexec;
use firesteel_control::{Control, NetworkEvent};
use firesteel_net::tftp::TftpServer;
use firesteel_network::TftpPlan;
use firesteel_tftp::TransferEvent;

use super::ServiceTasks;
use crate::serve::service_parts::ServiceParts;

/// Starts TFTP.
///
/// # Errors
/// When the port is not available.
pub(super) fn start(tasks: &mut ServiceTasks, parts: &Arc<ServiceParts>, plan: &TftpPlan) -> anyhow::Result<()> {
    let (network, loaders) = (parts.host_network(), Arc::clone(&parts.files.loaders));
    let lookup = Arc::new(move |path: &str| {
        let name = firesteel_tftp::base_name(path);
        if name == "autoexec.ipxe" {
            return Some(Bytes::from(autoexec(&network.now().endpoints)));
        }
        loaders.get(name).map(|blob| blob.bytes.clone())
    });
    let control = parts.control().clone();
    let events = Arc::new(move |event: &TransferEvent| note(&control, event));
    let server = TftpServer::open(&plan.link.name, plan.address, parts.hosts_at(), lookup, events);
    let server = server.context("could not start TFTP")?;
    tasks.spawn(async move { server.run().await.context("could not serve TFTP") });
    Ok(())
}

fn note(control: &Control, event: &TransferEvent) {
    let (client, note) = match event {
        TransferEvent::Finished { client, file, bytes, .. } => {
            (client, NetworkEvent::Loader { file: file.clone(), bytes: *bytes, via: "tftp" })
        }
        TransferEvent::Failed { client, file, reason, bytes_acknowledged } => {
            let reason = format!("{reason:?} after {bytes_acknowledged} bytes");
            (client, NetworkEvent::LoaderFailed { file: file.clone(), reason })
        }
        TransferEvent::Refused { client, file, reason } => {
            let file = file.clone().unwrap_or_default();
            (client, NetworkEvent::LoaderFailed { file, reason: (*reason).to_owned() })
        }
        TransferEvent::Started { .. } | TransferEvent::Probed { .. } => return,
    };
    control.network.note_address(client.ip(), note);
}
