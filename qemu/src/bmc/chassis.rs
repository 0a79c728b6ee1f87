//! The chassis behind `ipmi_sim`, which runs a command for whatever it wants to know or change: here
//! `lab chassis SOCKET WORDS…`, which hands the words to the lab by a Unix socket and prints the answer.
//! The words are those of OpenIPMI's `chassis_control` (lanserv/README.ipmi_sim): `get power`,
//! `set power 0`, `set boot pxe` and so on. A person moves a machine's switches in the same way, by `lab power`.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::console;
use crate::machine::{BootOverride, BootTarget, Machine, MachineError, MachinePower};
use crate::progress::print_status;
use crate::tools::Tools;

/// The socket in the machine's folder. Its name is as long as that of the console, for whose path there is room.
pub const CHASSIS_SOCKET: &str = "chassis.sock";
/// One question has a few words.
const QUESTION_BYTES_MAX: u64 = 256;
/// Who connects has its question ready.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// What an answer begins with that says no.
const REFUSED: &str = "error: ";

/// What `ipmi_sim` may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Power,
    Boot,
    SetPower(bool),
    SetBoot(BootTarget),
    Reset,
    /// The power button.
    Shutdown,
}

/// A switch of a machine's front.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum PowerSwitch {
    On,
    Off,
    /// Restart the machine, as by its reset button
    Reset,
}

/// `lab power`.
#[derive(Clone, Debug, Args)]
pub struct PowerOptions {
    /// The machine, as `lab up` names it
    machine: String,
    #[arg(value_enum)]
    switch: PowerSwitch,
}

/// `lab chassis`, which only `ipmi_sim` starts.
#[derive(Clone, Debug, Args)]
pub struct ChassisOptions {
    socket: PathBuf,
    #[arg(required = true, trailing_var_arg = true)]
    words: Vec<String>,
}

/// Asks the lab, and prints its answer for `ipmi_sim`.
pub fn ask(options: &ChassisOptions) -> io::Result<ExitCode> {
    let mut stream = BlockingStream::connect(&options.socket)?;
    stream.write_all(options.words.join(" ").as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with(REFUSED) {
        io::stderr().write_all(answer.as_bytes())?;
        return Ok(ExitCode::FAILURE);
    }
    io::stdout().write_all(answer.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Moves a switch of a machine of any lab that runs now.
pub fn press(tools: &Tools, options: &PowerOptions) -> anyhow::Result<ExitCode> {
    let PowerOptions { machine, switch } = options;
    let words = match switch {
        PowerSwitch::On => "set power 1",
        PowerSwitch::Off => "set power 0",
        PowerSwitch::Reset => "set reset 1",
    };
    let socket = console::find(tools, machine, CHASSIS_SOCKET)?;
    ensure!(socket.exists(), "{machine} has no switches for people: those of `lab up` have, and those with --bmc ipmi");
    let words = words.split_ascii_whitespace().map(str::to_owned).collect();
    let code = ask(&ChassisOptions { socket, words }).with_context(|| format!("asking the lab to switch {machine}"))?;
    if code == ExitCode::SUCCESS {
        print_status(&format!(
            "{machine}: {}",
            switch.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned())
        ));
    }
    Ok(code)
}

/// Answers for this machine until the task is dropped.
pub(crate) fn listen(socket: &Path, machine: Machine) -> io::Result<tokio::task::AbortHandle> {
    let listener = UnixListener::bind(socket)?;
    let task = tokio::spawn(async move {
        loop {
            match listener.accept().await {
                // One after the other, as they come: ipmi_sim waits for each.
                Ok((stream, _)) => drop(serve(stream, &machine).await),
                Err(error) => {
                    tracing::warn!(%error, "a chassis cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(task.abort_handle())
}

async fn serve(stream: UnixStream, machine: &Machine) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut question = String::new();
    timeout(QUESTION_TIMEOUT, reader.take(QUESTION_BYTES_MAX).read_to_string(&mut question)).await??;
    let answer = match read(&question) {
        None => Err(format!("the chassis does not know {question:?}")),
        Some(ask) => perform(machine, ask).await.map_err(|error| error.to_string()),
    };
    let text = answer.unwrap_or_else(|message| {
        tracing::warn!(reason = %message, %question, machine = machine.config().name, "the chassis refuses");
        format!("{REFUSED}{message}\n")
    });
    writer.write_all(text.as_bytes()).await
}

fn read(question: &str) -> Option<Ask> {
    let words: Vec<_> = question.split_ascii_whitespace().collect();
    Some(match words[..] {
        ["get", "power"] => Ask::Power,
        ["get", "boot"] => Ask::Boot,
        ["set", "power", "0"] => Ask::SetPower(false),
        ["set", "power", "1"] => Ask::SetPower(true),
        ["set", "boot", "none"] => Ask::SetBoot(BootTarget::None),
        ["set", "boot", "pxe"] => Ask::SetBoot(BootTarget::Pxe),
        // The default boot device is the disk (table 28-14 of IPMI 2.0, as ipmi_sim tells it).
        ["set", "boot", "default"] => Ask::SetBoot(BootTarget::Hdd),
        ["set", "boot", "cdrom"] => Ask::SetBoot(BootTarget::Cd),
        ["set", "reset", _] => Ask::Reset,
        ["set", "shutdown", _] => Ask::Shutdown,
        _ => return None,
    })
}

fn name(target: BootTarget) -> &'static str {
    match target {
        BootTarget::None => "none",
        BootTarget::Pxe | BootTarget::UefiHttp => "pxe",
        BootTarget::Hdd => "default",
        BootTarget::Cd => "cdrom",
    }
}

async fn perform(machine: &Machine, ask: Ask) -> Result<String, MachineError> {
    match ask {
        Ask::Power => return Ok(format!("power:{}\n", u8::from(*machine.power().borrow() != MachinePower::Off))),
        Ask::Boot => return Ok(format!("boot:{}\n", name(machine.boot_override().await.target))),
        Ask::SetPower(true) => machine.power_on().await?,
        Ask::SetPower(false) => machine.power_off().await?,
        // ipmi_sim keeps to itself whether it is for one boot only; IPMI's default is that it is.
        Ask::SetBoot(target) => machine.set_boot_override(BootOverride { target, once: true }).await,
        Ask::Reset => machine.reset().await?,
        Ask::Shutdown => machine.press_power_button().await?,
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_ipmi_sim_are_known_and_no_others() {
        for (question, ask) in [
            ("get power", Ask::Power),
            ("get boot", Ask::Boot),
            ("set power 1", Ask::SetPower(true)),
            ("set power 0", Ask::SetPower(false)),
            ("set boot pxe", Ask::SetBoot(BootTarget::Pxe)),
            ("set boot default", Ask::SetBoot(BootTarget::Hdd)),
            ("set boot none", Ask::SetBoot(BootTarget::None)),
            ("set reset 1", Ask::Reset),
            ("set shutdown 1\n", Ask::Shutdown),
        ] {
            assert_eq!(read(question), Some(ask), "{question}");
        }
        for question in ["", "get", "get fan", "set power 2", "set boot floppy", "set power 1 2"] {
            assert_eq!(read(question), None, "{question}");
        }
    }
}
