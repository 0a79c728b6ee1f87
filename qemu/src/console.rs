//! `lab console HOST`: this terminal as the machine's serial terminal. Ctrl-] leaves.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::{machine::CONSOLE_SOCKET, progress::print_status, run_folder, tools::Tools};

/// Ctrl-], as in telnet.
const ESCAPE: u8 = 0x1d;

/// Connects to a machine of any lab that runs now.
pub async fn attach(tools: &Tools, host: &str) -> anyhow::Result<()> {
    let socket = find(tools, host, CONSOLE_SOCKET)?;
    let stream = UnixStream::connect(&socket)
        .await
        .with_context(|| format!("connecting to the console of {host} (is it switched on?)"))?;
    print_status(&format!("this is the serial console of {host}; Ctrl-] leaves it"));
    let terminal = RawTerminal::enter().context("preparing the terminal")?;
    let ended = relay(stream).await;
    drop(terminal);
    print_status("left the console");
    ended.context("relaying the console")
}

/// Finds this socket of a machine, in any lab that runs now.
pub(crate) fn find(tools: &Tools, host: &str, socket: &str) -> anyhow::Result<PathBuf> {
    let mut seen = Vec::new();
    for run in entries(&tools.cache.join("runs")) {
        let name = run.file_name().to_string_lossy().into_owned();
        let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
        if pid.and_then(run_folder::process_name).as_deref() != Some(&name) {
            continue;
        }
        // A scenario's lab lies one folder deeper.
        let deeper = entries(&run.path()).map(|entry| entry.path());
        for hosts in std::iter::once(run.path()).chain(deeper).map(|lab| lab.join("hosts")) {
            for entry in entries(&hosts) {
                if entry.file_name() == host {
                    return Ok(entry.path().join(socket));
                }
                seen.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    if seen.is_empty() {
        bail!("no lab runs: start one with `lab up`");
    }
    bail!("no machine {host} runs; there is {}", seen.join(", "))
}

/// What is in a folder; nothing where there is none.
fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

async fn relay(stream: UnixStream) -> io::Result<()> {
    let (mut from_guest, mut to_guest) = stream.into_split();
    let mut output = tokio::spawn(async move {
        let mut buffer = [0; 4096];
        loop {
            let read = from_guest.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            let mut screen = io::stdout().lock();
            screen.write_all(&buffer[..read])?;
            screen.flush()?;
        }
    });
    // A thread blocked in reading the terminal cannot be cancelled, so it only feeds a channel.
    let (keys, mut typed) = tokio::sync::mpsc::channel(16);
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        while let Ok(read @ 1..) = io::Read::read(&mut io::stdin(), &mut buffer) {
            if keys.blocking_send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    loop {
        tokio::select! {
            ended = &mut output => return ended?,
            keys = typed.recv() => match keys {
                Some(keys) => {
                    let end = keys.iter().position(|key| *key == ESCAPE);
                    to_guest.write_all(&keys[..end.unwrap_or(keys.len())]).await?;
                    if end.is_some() {
                        return Ok(());
                    }
                }
                // Input that is no terminal has an end; the guest may still have something to say.
                None => return (&mut output).await?,
            }
        }
    }
}

/// The terminal in raw mode until this is dropped.
#[derive(Debug)]
struct RawTerminal {
    before: String,
}

impl RawTerminal {
    /// Enters the raw mode; gives `None` where standard input is no terminal.
    fn enter() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        let before = stty(&["-g"])?;
        stty(&["raw", "-echo"])?;
        Ok(Some(Self { before }))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Nothing is left to do if the terminal itself is gone.
        drop(stty(&[self.before.trim()]));
    }
}

fn stty(arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("stty").args(arguments).stdin(std::process::Stdio::inherit()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
