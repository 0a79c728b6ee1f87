//! The one script per client, in iPXE's words (<https://ipxe.org/cmd>).
//!
//! A script tells the person at the console what happens, fetches with bounded retries, and never
//! ends in iPXE's own shell. What it ends in differs: a machine that was to run the agent
//! restarts and asks again (going on to an old disk would boot the very system that is about to be
//! replaced); one that was to boot its disk, or nothing, goes back to its firmware with a failure
//! status, which is what makes firmware try its next boot option: after a success UEFI's boot
//! manager may stop and show its menu (UEFI 2.10 section 3.1.1).
//!
//! Foreign values enter through [`crate::text`] only.

use crate::disk_probe::{DRIVE_FIRST, DRIVES_MAX, DiskProbe};
use crate::entry::{BootEntry, Endpoints};
use crate::first_stage::script_url;
use crate::request::{Platform, ScriptRequest};
use crate::route::{RoutePath, is_token};
use crate::text::{KernelArguments, console_text};
use crate::token::SealedToken;

/// Rounds of fetching kernel and initramfs before the machine restarts: with the pause, about a
/// minute, in which an appliance that is being restarted is back.
pub const FETCH_ROUNDS_MAX: u32 = 10;
/// The pause between two rounds; it also covers a switch port that forwards late after the link came up.
pub const FETCH_PAUSE_S: u32 = 5;
/// The pause before a machine restarts, so that a person can read why.
pub const RESTART_PAUSE_S: u32 = 30;
/// The pause before a machine asks again whose host's agent may still be at work.
pub const WAIT_PAUSE_S: u32 = 10;
/// iPXE reads the whole script into low memory; ours are far smaller.
pub const SCRIPT_BYTES_MAX: usize = 16 * 1024;

/// Everything besides the entry that a script says.
#[derive(Clone, Copy, Debug)]
pub struct ScriptContext<'a> {
    pub endpoints: &'a Endpoints,
    pub request: &'a ScriptRequest,
    /// The token, which the entries need that start the agent.
    pub token: Option<&'a SealedToken>,
    pub arguments: &'a KernelArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("the agent's boot script needs a sealed token")]
    NoToken,
    #[error("rendering a boot script: its token is not one")]
    BadToken,
    #[error("rendering a boot script: it is longer than {SCRIPT_BYTES_MAX} bytes")]
    Long,
}

/// The script for a client with this entry.
pub fn render(entry: &BootEntry, context: &ScriptContext<'_>) -> Result<String, ScriptError> {
    let mut script = Script::new();
    script.echo("Firesteel", &format!("this machine is {}", context.request.mac.hyphenated()));
    match entry {
        BootEntry::Discovery => {
            script.echo("Firesteel", "it is not known yet: it is inspected, nothing is written to it");
            agent(&mut script, context)?;
        }
        BootEntry::Agent { host, attempt } => {
            script.echo("Firesteel", &format!("host {}, attempt {attempt}: starting the agent", short(host)));
            agent(&mut script, context)?;
        }
        BootEntry::LocalDisk { host, probe } => {
            script.echo("Firesteel", &format!("host {} is provisioned: on to its disk", short(host)));
            local_disk(&mut script, context, probe.as_ref());
        }
        BootEntry::Wait { host, why } => {
            script.echo("Firesteel", &format!("host {} waits", short(host)));
            script.echo("Firesteel", why);
            script.line(&format!("sleep {WAIT_PAUSE_S}"));
            let url = script_url(&context.request.mac.hyphenated(), context.endpoints);
            script.retry_loop("script", |script| {
                script.line(&format!("chain --replace --autofree {url} || goto script-again"));
            });
            script.restart("no boot script");
        }
        BootEntry::Mismatch { host, reason } => {
            script.echo("Firesteel", &format!("no token of host {} for this machine", short(host)));
            script.echo("Firesteel", reason);
            script.restart("this machine may not be the host");
        }
        BootEntry::Exit { reason } => {
            script.echo("Firesteel: nothing to boot", reason);
            script.line("exit 1");
        }
    }
    bounded(script.text)
}

/// The script, where iPXE can hold it.
fn bounded(text: String) -> Result<String, ScriptError> {
    if text.len() > SCRIPT_BYTES_MAX { Err(ScriptError::Long) } else { Ok(text) }
}

/// Why an iPXE of this `${buildarch}` gets no kernel.
#[must_use]
pub fn wrong_build(buildarch: &str) -> String {
    format!("this iPXE is built for {buildarch}; the kernel here is for x86_64")
}

/// The text of `autoexec.ipxe`, which an EFI iPXE fetches by itself from where it was loaded, before any DHCP
/// of its own: it asks for an address and goes on to the client's script.
#[must_use]
pub fn autoexec(endpoints: &Endpoints) -> String {
    let mut script = Script::new();
    script.echo("Firesteel", "iPXE is loaded, asking for the boot script");
    // `netX` is the interface opened last: the one that got an address.
    let url = script_url("${netX/mac:hexhyp}", endpoints);
    script.retry_loop("script", |script| {
        script.line("isset ${netX/ip} || dhcp || goto script-again");
        script.line(&format!("chain --replace --autofree {url} || goto script-again"));
    });
    script.restart("no boot script");
    script.text
}

fn agent(script: &mut Script, context: &ScriptContext<'_>) -> Result<(), ScriptError> {
    let token = context.token.ok_or(ScriptError::NoToken)?.as_str();
    if !is_token(token) {
        return Err(ScriptError::BadToken);
    }
    let base = context.endpoints.http_base();
    let kernel = RoutePath::Kernel { token: token.to_owned() };
    let initramfs = RoutePath::Initramfs { token: token.to_owned() };
    let arguments = context.arguments;
    script.retry_loop("fetch", |script| {
        script.line("imgfree");
        // EFI kernels find the initramfs by the name that `initrd=` gives; BIOS ignores it.
        script.line(&format!("kernel --name kernel {base}{kernel} initrd=initramfs {arguments} || goto fetch-again"));
        script.line(&format!("initrd --name initramfs {base}{initramfs} || goto fetch-again"));
        script.line("boot || goto fetch-again");
    });
    script.restart("the kernel could not be fetched or started");
    Ok(())
}

fn local_disk(script: &mut Script, context: &ScriptContext<'_>, probe: Option<&DiskProbe>) {
    let (Platform::Bios, Some(probe)) = (context.request.platform, probe) else {
        // UEFI: the next entry of the boot order is the one that the agent made, with the disk's full path.
        script.line("exit 1");
        return;
    };
    let base = context.endpoints.http_base();
    for drive in DRIVE_FIRST..DRIVE_FIRST + DRIVES_MAX {
        let path = RoutePath::DiskProbe { probe: probe.clone(), drive };
        script.line(&format!("chain --autofree {base}{path} && goto disk-{drive:02x} ||"));
    }
    script.echo("Firesteel", "no disk of this machine holds what was installed on it");
    let no_disk = RoutePath::NoDisk { mac: context.request.mac };
    script.line(&format!("imgfetch --name no-disk {base}{no_disk} ||"));
    script.line("imgfree no-disk ||");
    script.line("sleep 10");
    script.line("exit 1");
    for drive in DRIVE_FIRST..DRIVE_FIRST + DRIVES_MAX {
        script.line(&format!(":disk-{drive:02x}"));
        script.echo("Firesteel", &format!("booting drive 0x{drive:02x}"));
        script.line(&format!("sanboot --no-describe --drive 0x{drive:02x} ||"));
        script.line("exit 1");
    }
}

/// Shortens a host's name for the console.
fn short(name: &str) -> String {
    name.chars().take(40).collect()
}

struct Script {
    text: String,
}

impl Script {
    fn new() -> Self {
        Self { text: "#!ipxe\n".to_owned() }
    }

    /// One line made of constants and checked values.
    fn line(&mut self, line: &str) {
        debug_assert!(!line.contains(['\n', '\r', '\0']), "a script line is one line");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// The prefix keeps the text from being read as an option of `echo`.
    fn echo(&mut self, prefix: &str, text: &str) {
        self.line(&format!("echo {prefix}: {}", console_text(text)));
    }

    /// `body` jumps to `<name>-again` where it fails; it is run `FETCH_ROUNDS_MAX` times at most, and
    /// what follows the loop is run when all of them failed.
    fn retry_loop(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("set {name}-round:int32 0"));
        self.line(&format!(":{name}"));
        body(self);
        self.line(&format!(":{name}-again"));
        self.line(&format!("inc {name}-round"));
        self.line(&format!("iseq ${{{name}-round}} {FETCH_ROUNDS_MAX} && goto {name}-failed ||"));
        self.line(&format!(
            "echo Firesteel: failed, round ${{{name}-round}} of {FETCH_ROUNDS_MAX}, again in {FETCH_PAUSE_S} seconds"
        ));
        self.line(&format!("sleep {FETCH_PAUSE_S}"));
        self.line(&format!("goto {name}"));
        self.line(&format!(":{name}-failed"));
    }

    fn restart(&mut self, why: &str) {
        self.echo("Firesteel", &format!("{why}, restarting in {RESTART_PAUSE_S} seconds"));
        self.line(&format!("sleep {RESTART_PAUSE_S}"));
        self.line("reboot");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No entry has so long a script today: arguments, token and texts have bounds of their own.
    #[test]
    fn a_script_that_ipxe_cannot_hold_is_an_error() {
        for (bytes, is_held) in [(0, true), (SCRIPT_BYTES_MAX, true), (SCRIPT_BYTES_MAX + 1, false)] {
            let script = bounded("x".repeat(bytes));
            assert_eq!(script.map(|script| script.len()), if is_held { Ok(bytes) } else { Err(ScriptError::Long) });
        }
    }

    #[test]
    fn a_wrong_build_is_named_with_what_the_kernel_is_for() {
        assert_eq!(wrong_build("arm64"), "this iPXE is built for arm64; the kernel here is for x86_64");
    }
}
