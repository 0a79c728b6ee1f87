//! Runs a program of Debian's to its end, and makes its failure readable.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// How much of a failed program's output is shown: its end, where the reason stands.
const OUTPUT_LINES_MAX: usize = 30;

/// Runs `command`; its output is shown only if it fails.
pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .with_context(|| format!("running {program} (qemu/lab installs what is needed)"))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..].join("\n");
    bail!("{program} failed ({}):\n{tail}", output.status)
}

/// A command with its arguments.
pub(super) fn command<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    // Debian keeps filesystem tools where only root looks.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// A path as text, for tools that take options like `offset=…` in one word with it.
pub(super) fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("the path {} is not text", path.display()))
}
