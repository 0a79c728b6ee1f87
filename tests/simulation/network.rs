//! What goes over the provisioning network besides DHCP: the requests of machines, as the appliance's
//! listeners hand them to control, and what becomes of them.

use std::net::IpAddr;

use firesteel_appliance::serve::controllers::HostControllers;
use firesteel_boot::BootFileName::{self, Initramfs, Kernel};
use firesteel_boot::ScriptRequest;
use firesteel_config_server::{ConfigRefusal, ConfigRequest};
use firesteel_control::{AccessDenial, BootGrant, BootScript, Control};
use firesteel_wire::{AgentReport, Hello, HelloReply, RefusalReply, ReportReply, Seed};

use crate::appliance::BOOT_FILES;

#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Script(ScriptRequest),
    Kernel(String),
    Initramfs(String),
    Hello(Box<Hello>),
    Report(Box<AgentReport>),
    Config { name: String, token: String },
    Running { uid: String, nonce: String },
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Script(BootScript),
    Kernel(Result<(), AccessDenial>),
    Seed(Result<Seed, AccessDenial>),
    Hello(Result<HelloReply, RefusalReply>),
    Report(Result<ReportReply, RefusalReply>),
    Config(Result<Vec<u8>, ConfigRefusal>),
    Running(Result<(), AccessDenial>),
    /// Nobody answered.
    Lost,
}

impl Ask {
    /// A report without work: its answer may be held.
    pub(crate) fn may_be_held(&self) -> bool {
        matches!(self, Self::Report(report) if report.idle && !report.leaving)
    }
}

/// Sends a file whole.
fn send(control: &Control, grant: &BootGrant, file: BootFileName) {
    control.observations.boot_bytes_sent(&grant.claims, file, 0..BOOT_FILES.file(file).bytes);
}

/// Has the appliance answer.
pub(crate) async fn serve(controllers: &HostControllers, ask: Ask, remote: IpAddr) -> Answer {
    let control = &controllers.control;
    match ask {
        Ask::Script(request) => Answer::Script(control.boots.script(&request, remote).await),
        Ask::Kernel(token) => {
            Answer::Kernel(control.boots.open_boot(&token).await.map(|grant| send(control, &grant, Kernel)))
        }
        Ask::Initramfs(token) => Answer::Seed(control.boots.open_boot(&token).await.map(|grant| {
            send(control, &grant, Initramfs);
            grant.seed
        })),
        Ask::Hello(hello) => Answer::Hello(control.agents.hello(*hello, remote).await),
        Ask::Report(report) => Answer::Report(control.agents.report(*report, remote).await),
        Ask::Config { name, token } => {
            let ask = ConfigRequest { name: &name, token: Some(&token), accept: None, head: false, remote };
            Answer::Config(controllers.configs.host_config(ask).await)
        }
        Ask::Running { uid, nonce } => Answer::Running(control.instances.running(&uid, &nonce, remote).await),
    }
}
