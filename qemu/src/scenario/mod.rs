//! End-to-end runs that end in a verdict: what `lab test` does after the unit tests. Each scenario
//! is a story told with [`crate::lab::Lab`]; it names what it saw when it fails.

mod life;
mod paths;

use anyhow::Context as _;

use crate::{
    artefacts::{ImageFormat, NEXT_VERSION, WantedImage},
    lab::{Lab, LabConfig},
    machine::Firmware,
    progress::{Step, say},
    runs::RunFolder,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// On BIOS and on UEFI at once: install, boot the network first and reach the own disk though an
    /// older copy stands before it, install another image, delete
    Life,
    /// The same on BIOS only
    LifeBios,
    /// The same on UEFI only
    LifeUefi,
    /// A machine without BMC is discovered, adopted and installed
    NoBmc,
    /// BIOS: the network card's iPXE loads our undionly.kpxe by TFTP
    Chain,
    /// UEFI firmware that boots by HTTP and knows no PXE
    HttpBoot,
    /// Three machines at once, 512 MiB each
    Three,
}

impl Scenario {
    /// What every run of the tests goes through.
    pub const STANDARD: &[Self] = &[Self::Life];
    /// `--all`.
    pub const ALL: &[Self] = &[Self::Life, Self::NoBmc, Self::Chain, Self::HttpBoot, Self::Three];

    /// Images that it needs.
    #[must_use]
    pub fn images(self) -> Vec<WantedImage> {
        match self {
            Self::Life | Self::LifeBios | Self::LifeUefi => {
                vec![ImageFormat::Gz.into(), WantedImage { version: NEXT_VERSION, format: ImageFormat::Qcow2 }]
            }
            Self::NoBmc | Self::HttpBoot | Self::Three => vec![ImageFormat::Zst.into()],
            Self::Chain => vec![ImageFormat::Gz.into()],
        }
    }

    /// Runs it in a lab of its own.
    pub async fn run(self, config: LabConfig) -> anyhow::Result<()> {
        let mut config = config;
        config.folder = config.folder.join(format!("{self:?}").to_lowercase());
        config.upgrade_ipxe = self == Self::Chain;
        std::fs::create_dir_all(&config.folder).context("making the scenario's folder")?;
        let mut lab = Lab::start(config.clone()).await?;
        let told = match self {
            Self::Life => life::lives(&mut lab, &config, &[Firmware::Bios, Firmware::Uefi]).await,
            Self::LifeBios => life::lives(&mut lab, &config, &[Firmware::Bios]).await,
            Self::LifeUefi => life::lives(&mut lab, &config, &[Firmware::Uefi]).await,
            Self::NoBmc => paths::no_bmc(&mut lab, &config).await,
            Self::Chain => paths::chain(&mut lab, &config).await,
            Self::HttpBoot => paths::http_boot(&mut lab, &config).await,
            Self::Three => paths::three(&mut lab, &config).await,
        };
        if told.is_err() {
            say(&format!("the appliance's log ends with:\n{}", lab.appliance.log_tail(15)));
        }
        lab.stop().await;
        told
    }
}

/// Runs scenarios one after the other, all of them, and says which failed.
pub async fn run_all(scenarios: &[Scenario], config: &LabConfig, run: &RunFolder) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for scenario in scenarios {
        let step = Step::begin(format!("scenario {scenario:?}"));
        match scenario.run(config.clone()).await {
            Ok(()) => step.end_with("passed"),
            Err(error) => {
                step.end_with("FAILED");
                say(&format!("{scenario:?}: {error:#}"));
                failed.push(format!("{scenario:?}"));
            }
        }
        // Disks are large; logs of a failed scenario stay until the run ends.
        for machine in std::fs::read_dir(run.path().join(format!("{scenario:?}").to_lowercase()).join("hosts"))
            .into_iter()
            .flatten()
            .flatten()
        {
            for file in std::fs::read_dir(machine.path()).into_iter().flatten().flatten() {
                if file.path().extension().is_some_and(|extension| extension == "raw") {
                    std::fs::remove_file(file.path()).context("removing a disk")?;
                }
            }
        }
    }
    anyhow::ensure!(failed.is_empty(), "these scenarios failed: {}", failed.join(", "));
    Ok(())
}
