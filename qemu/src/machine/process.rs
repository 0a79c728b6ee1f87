//! The QEMU process of one power-on: started stopped, controlled by QMP, watched until it ends.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::config::{BootTarget, arguments, boot_devices, bootable_devices};
use super::{MachineError, MachineSettings, QMP_SOCKET};
use crate::os;
use crate::qmp::{Qmp, QmpError};
use crate::tools::Tools;

/// QEMU connects within milliseconds; a loaded computer that reads its firmware from a cold disk
/// may take seconds.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(60);
/// What QEMU itself says: hardly ever anything.
const QEMU_LOG: &str = "qemu.log";

/// Starts QEMU with the processors stopped. The process dies with the lab.
pub(super) async fn launch(
    config: &MachineSettings,
    tools: &Tools,
    target: BootTarget,
) -> Result<(Child, Qmp), MachineError> {
    let socket = config.folder.join(QMP_SOCKET);
    if let Err(error) = fs::remove_file(&socket)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(MachineError::Prepare(error));
    }
    let listener = UnixListener::bind(&socket).map_err(MachineError::Prepare)?;
    let log = config.folder.join(QEMU_LOG);
    let output = File::create(&log).map_err(MachineError::Prepare)?;
    let mut command = Command::new(&tools.qemu);
    command
        .args(arguments(config, tools, target))
        .current_dir(&config.folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(MachineError::Prepare)?)
        .stderr(output)
        .kill_on_drop(true);
    os::die_with_parent(command.as_std_mut(), Signal::SIGKILL);
    let mut child = command.spawn().map_err(MachineError::Start)?;
    let stream = tokio::select! {
        connected = timeout(START_TIMEOUT, listener.accept()) => match connected {
            Ok(accepted) => accepted.map_err(MachineError::Start)?.0,
            Err(_) => return Err(MachineError::NoContact),
        },
        ended = child.wait() => {
            let message = fs::read_to_string(&log).unwrap_or_default().trim().to_owned();
            return Err(MachineError::EndedAtOnce { status: ended.map_err(MachineError::Start)?, message });
        }
    };
    Ok((child, Qmp::start(stream).await?))
}

/// Gives every device the boot index that `target` wants, from the next reset on.
pub(super) async fn set_order(qmp: &Qmp, config: &MachineSettings, target: BootTarget) -> Result<(), QmpError> {
    // An index may not be used twice, not even for a moment.
    for device in bootable_devices(config) {
        qmp.set_property(&device, "bootindex", json!(-1)).await?;
    }
    for (index, device) in boot_devices(config, target).iter().enumerate() {
        qmp.set_property(device, "bootindex", json!(index)).await?;
    }
    Ok(())
}

/// Waits for the process's end, and brings it about when asked.
pub(super) async fn until_ended(mut child: Child, killed: oneshot::Receiver<()>) {
    tokio::select! {
        ended = child.wait() => match ended {
            Ok(status) if status.success() => {}
            Ok(status) => tracing::warn!(%status, "QEMU ended abnormally"),
            Err(error) => tracing::warn!(%error, "could not wait for QEMU; its machine counts as off"),
        },
        // A dropped sender is a request as well: nothing controls this machine any longer.
        _ = killed => {
            if let Err(error) = child.kill().await {
                tracing::warn!(%error, "could not kill QEMU; it ends with the lab");
            }
        }
    }
}
