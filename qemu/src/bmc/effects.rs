//! The effects of Redfish requests on the machine.

use std::{io, path::PathBuf, sync::PoisonError, time::Duration};

use thiserror::Error;
use tokio::io::AsyncWriteExt as _;

use super::redfish::{LabBmcEffect, ResetType};
use super::{LabBmcState, MIB};
use crate::machine::{Machine, MachineError};

/// The longest wait for a guest that does not answer a press of the power button.
const GRACE: Duration = Duration::from_secs(60);
/// The time for a whole image, from a host on the same computer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(600);
/// A DVD with one layer.
const MEDIA_BYTES_MAX: usize = 4700 * MIB;

#[derive(Debug, Error)]
pub(super) enum PerformError {
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("fetching the image: {0}")]
    Fetch(#[from] FetchMediaError),
}

#[derive(Debug, Error)]
pub(super) enum FetchMediaError {
    #[error(transparent)]
    Download(#[from] reqwest::Error),
    #[error(transparent)]
    Keep(#[from] io::Error),
    #[error("it has more than {} MiB", MEDIA_BYTES_MAX / MIB)]
    TooLarge,
}

pub(super) async fn perform(shared: &LabBmcState, effect: LabBmcEffect) -> Result<(), PerformError> {
    let machine = &shared.machine;
    let media = |url: Option<String>| *shared.media.lock().unwrap_or_else(PoisonError::into_inner) = url;
    match effect {
        LabBmcEffect::InsertMedia(url) => {
            let path = fetch(machine, &url).await?;
            machine.reconfigure(|config| config.media = Some(path));
            media(Some(url));
        }
        LabBmcEffect::EjectMedia => {
            machine.reconfigure(|config| config.media = None);
            media(None);
        }
        LabBmcEffect::SetBoot(boot) => machine.set_boot_override(boot).await,
        LabBmcEffect::Reset(ResetType::On | ResetType::ForceOn) => machine.power_on().await?,
        LabBmcEffect::Reset(ResetType::ForceOff) => machine.power_off().await?,
        LabBmcEffect::Reset(ResetType::GracefulShutdown | ResetType::PushPowerButton) => {
            machine.press_power_button().await?
        }
        LabBmcEffect::Reset(ResetType::ForceRestart) => machine.reset().await?,
        LabBmcEffect::Reset(ResetType::PowerCycle) => {
            machine.power_off().await?;
            machine.power_on().await?;
        }
        LabBmcEffect::Reset(ResetType::GracefulRestart) => {
            machine.press_power_button().await?;
            let machine = machine.clone();
            // The request is answered at once, as BMCs do; the restart follows the guest's own end.
            tokio::spawn(async move {
                if tokio::time::timeout(GRACE, machine.wait_off()).await.is_err() {
                    return;
                }
                if let Err(error) = machine.power_on().await {
                    tracing::warn!(%error, "could not switch a machine on after its graceful shutdown; it stays off");
                }
            });
        }
    }
    Ok(())
}

/// Fetches an image for the virtual drive, into a file of its own: a running machine may still read the last one.
async fn fetch(machine: &Machine, url: &str) -> Result<PathBuf, FetchMediaError> {
    // An error means that it is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().timeout(FETCH_TIMEOUT).build()?;
    let mut answer = client.get(url).send().await?.error_for_status()?;
    let path = machine.folder().join(format!("media-{}.raw", uuid::Uuid::new_v4().simple()));
    let mut file = tokio::fs::File::create(&path).await?;
    let mut bytes = 0;
    while let Some(chunk) = answer.chunk().await? {
        bytes += chunk.len();
        if bytes > MEDIA_BYTES_MAX {
            return Err(FetchMediaError::TooLarge);
        }
        file.write_all(&chunk).await?;
    }
    file.flush().await?;
    Ok(path)
}
