//! The clients: all at once, each a curl that fetches the first 128 MiB and throws them away.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use tokio::process::Command;

use super::figures::Figure;

/// What one client fetches.
const RANGE_BYTES: u64 = 128 << 20;
const GIB: f64 = 1_073_741_824.0;
/// The kernel's `USER_HZ`, in which /proc tells CPU time.
const TICKS_PER_S: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Load {
    /// The script that replaces the clients here.
    script: Option<PathBuf>,
    clients: u16,
}

impl Load {
    pub(super) fn new(script: Option<&Path>, clients: u16) -> anyhow::Result<Self> {
        let found = |path: &Path| path.canonicalize().with_context(|| format!("finding the script {}", path.display()));
        Ok(Self { script: script.map(found).transpose()?, clients })
    }

    /// One run of all clients against the server, whose CPU time is that of its process and of that one's children.
    pub(super) async fn run(&self, label: &str, url: &str, server: u32) -> anyhow::Result<Figure> {
        match &self.script {
            Some(script) => self.run_script(script, label, url, server).await,
            None => self.run_clients(url, server).await,
        }
    }

    async fn run_script(&self, script: &Path, label: &str, url: &str, server: u32) -> anyhow::Result<Figure> {
        let arguments =
            [label.to_owned(), url.to_owned(), "1".to_owned(), self.clients.to_string(), server.to_string()];
        let mut command = Command::new("bash");
        let output = command.arg(script).args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.with_context(|| format!("running {}", script.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "{} failed ({}): {}",
            script.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Figure::read(text.lines().last().unwrap_or_default())
    }

    async fn run_clients(&self, url: &str, server: u32) -> anyhow::Result<Figure> {
        let (server_before, clients_before) = (cpu_of(server)?, cpu_of_children()?);
        let begun = Instant::now();
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--insecure", "--fail", "--output", "/dev/null", "--range"])
                .arg(format!("0-{}", RANGE_BYTES - 1))
                .arg(url)
                .stdin(Stdio::null())
                .kill_on_drop(true);
            clients.push(curl.spawn().context("running curl")?);
        }
        let mut errors = 0;
        for mut client in clients {
            errors += u32::from(!client.wait().await.context("waiting for curl")?.success());
        }
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(errors == 0, "{errors} clients failed");
        #[allow(clippy::cast_precision_loss, reason = "a number of GiB")]
        let gib = (RANGE_BYTES * u64::from(self.clients)) as f64 / GIB;
        Ok(Figure {
            throughput: gib / seconds,
            server_cpu: (cpu_of(server)? - server_before) / gib,
            client_cpu: (cpu_of_children()? - clients_before) / gib,
        })
    }
}

/// CPU seconds of a process and of its children.
fn cpu_of(process: u32) -> anyhow::Result<f64> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|id| id.parse().ok());
    let mut ticks = 0;
    for id in std::iter::once(process).chain(children) {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).context("reading a server's CPU time")?;
        ticks += ticks_of(&stat).context("reading a server's CPU time")?;
    }
    #[allow(clippy::cast_precision_loss, reason = "hundredths of a second")]
    Ok(ticks as f64 / TICKS_PER_S)
}

/// Fields 14 and 15 of proc(5)'s stat. The second field may hold anything, so they are counted from its end.
fn ticks_of(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// CPU seconds of clients that have ended.
fn cpu_of_children() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("reading the clients' CPU time")?;
    let seconds = |time: nix::sys::time::TimeVal| {
        #[allow(clippy::cast_precision_loss, reason = "a time with microseconds")]
        let seconds = time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds
    };
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn cpu_time_is_read_though_the_name_is_odd() {
        assert_eq!(ticks_of("42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14"), Some(11 + 12));
        assert_eq!(ticks_of("42 (x) S"), None);
        assert!(cpu_of(std::process::id()).unwrap() >= 0.0);
        assert!(cpu_of(u32::MAX).is_err());
    }

    #[tokio::test]
    async fn a_script_is_called_with_what_it_needs_and_its_last_line_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("load.sh");
        let text =
            "echo begins; echo \"$1 n=$4 $3.5 GiB/s wall 1s server 0.25 cpu-s/GiB client 0.50 cpu-s/GiB errors 0\"\n";
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
        let load = Load::new(Some(&script), 64).unwrap();
        let figure = load.run("nginx", "http://x", 1).await.unwrap();
        assert_eq!(figure, Figure { throughput: 1.5, server_cpu: 0.25, client_cpu: 0.5 });
        fs::write(&script, "exit 3\n").unwrap();
        assert!(load.run("nginx", "http://x", 1).await.is_err());
        assert!(Load::new(Some(&folder.path().join("none")), 64).is_err());
    }
}
