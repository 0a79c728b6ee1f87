//! The appliance that is measured: a process of its own with an empty folder.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::client::Endpoint;

/// One that has not answered by then does not start.
const START: Duration = Duration::from_secs(60);

/// A running appliance; it ends with this.
#[derive(Debug)]
pub(crate) struct Appliance {
    process: Child,
    log: PathBuf,
    pub(crate) endpoint: Endpoint,
}

impl Appliance {
    pub(crate) async fn start(program: &Path, data: &Path) -> Result<Self> {
        fs::create_dir_all(data)?;
        // Free at the moment that it was asked for; nobody else is expected to take it.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free));
        let log = data.with_extension("log");
        let mut process = Command::new(program)
            .args(["serve", "--api-only", "--log", "warn", "--api", &address.to_string(), "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let asked = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if let Some(status) = process.try_wait()? {
                bail!("the appliance ended ({status}): {}", fs::read_to_string(&log).unwrap_or_default());
            }
            let kubeconfig = fs::read(data.join("admin.kubeconfig")).unwrap_or_default();
            let Ok(endpoint) = Endpoint::of(&kubeconfig, address) else { continue };
            if let Ok(mut connection) = endpoint.connect().await
                && connection.get("/readyz").await.is_ok()
            {
                return Ok(Self { process, log, endpoint });
            }
            if asked.elapsed() > START {
                process.kill()?;
                bail!("the appliance does not answer");
            }
        }
    }

    /// Memory that it holds now, and the most that it ever held, in MiB.
    pub(crate) fn memory_mib(&self) -> Result<(f64, f64)> {
        let path = format!("/proc/{}/status", self.process.id());
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let field = |name: &str| -> Option<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse().ok()
        };
        let (now, most) = field("VmRSS:").zip(field("VmHWM:")).context("the kernel does not say it")?;
        Ok((now / 1024.0, most / 1024.0))
    }

    /// Processor time that it took so far, in seconds.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // After the name, which is in parentheses: the twelfth and thirteenth are ticks of 10 ms.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
        let (user, system) = ticks(11).zip(ticks(12)).context("the kernel does not say it")?;
        Ok((user + system) / 100.0)
    }

    /// What it said before something went wrong.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        format!("measuring the API; the appliance's last words: {lines:?}")
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to end.
        if self.process.kill().is_ok()
            && let Err(error) = self.process.wait()
        {
            eprintln!("the appliance did not end: {error}");
        }
    }
}
