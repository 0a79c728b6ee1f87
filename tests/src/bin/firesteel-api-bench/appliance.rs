//! The appliance that is measured: a process of its own with an empty folder.

use std::{fs, net::SocketAddr, path::Path};

use anyhow::{Context as _, Result};

use crate::client::Endpoint;

/// A running appliance; it ends with this.
#[derive(Debug)]
pub(crate) struct Appliance {
    process: firesteel_tests::appliance::Appliance,
    pub(crate) endpoint: Endpoint,
}

impl Appliance {
    /// Its folder is made below `dir`, on the disk that is to be measured.
    pub(crate) async fn start(program: &Path, dir: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("appliance-").tempdir_in(dir)?;
        let arguments = ["--api-only", "--log", "warn"];
        let process = firesteel_tests::appliance::Appliance::start_whole(program, "127.0.0.1:0", &arguments, folder);
        let url = process.url();
        let address: SocketAddr = url.trim_start_matches("https://").parse().context("the kubeconfig's server")?;
        let endpoint = Endpoint::of(&fs::read(process.kubeconfig())?, address)?;
        endpoint.connect().await?.get("/readyz").await?;
        Ok(Self { process, endpoint })
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
        let log = self.process.log();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        format!("measuring the API; the appliance's last words: {lines:?}")
    }
}
