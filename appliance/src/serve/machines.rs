//! What serves machines apart from the services of the network: boot files, images, and the controllers of hosts. They
//! work whether or not there is a provisioning network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use firesteel_boot::{AskerRule, Endpoints, HostNetwork, KernelArguments, Sealer, ServedBootFiles};
use firesteel_config_server::ConfigSettings;
use firesteel_control::{Images, SchemeDriver};
use firesteel_facts::WorkHold;
use firesteel_network::BmcOnlyCause;
use firesteel_runtime::Live;
use jiff::SignedDuration;
use ring::hmac;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::ServeContext;
use super::controllers::{ControllersConfig, HostControllers};
use super::data_dir::DataDir;
use super::pki::Pki;
use super::service_parts::ServiceParts;
use super::settings::Settings;
use super::streams::FollowedStreams;
use crate::http::boot_files::{self, BootFiles, KeptBootFiles};
use crate::http::images::ImageFiles;
use crate::http::operators::Operators;
use crate::outbound::OutboundRuntime;

/// What of a process that serves the parts are made of.
pub(super) struct PartsInput<'a> {
    pub(super) context: &'a ServeContext<'a>,
    pub(super) pki: &'a Pki,
    pub(super) streams: &'a FollowedStreams,
    pub(super) way_out: &'a OutboundRuntime,
    pub(super) operators: Operators,
    /// The listener of the API.
    pub(super) api: SocketAddr,
}

/// Makes the parts. Nothing of them listens yet.
///
/// # Errors
/// When files cannot be read, or a flag is wrong.
pub(super) fn open_parts(input: PartsInput<'_>) -> anyhow::Result<ServiceParts> {
    let PartsInput { context, pki, streams, way_out, operators, api } = input;
    let ServeContext { settings, data, core, metrics, .. } = context;
    let (files, kept) = open_boot_files(settings, data)?;
    let images = ImageFiles::new(streams.store()).with_os_image(streams.os_images().cached().clone());
    let boot_files = ServedBootFiles { current: files.set(), kept: kept.as_ref().map(|kept| kept.set) };
    let host_network = Live::new(without_network(settings));
    let config = controllers_config(context, pki, host_network.clone(), boot_files, streams.for_hosts(), way_out)?;
    Ok(ServiceParts {
        settings: (*settings).clone(),
        data: (*data).clone(),
        core: core.clone(),
        controllers: HostControllers::new(config)?,
        files,
        kept,
        images,
        os_images: streams.os_images().clone(),
        metrics: metrics.clone(),
        pki: pki.clone(),
        dialer: way_out.dialer().clone(),
        operators,
        api,
        host_network,
        changes: Mutex::new(()),
    })
}

/// Reads the files that boot hosts, and those from before an upgrade. Without a folder of them there are none: hosts are
/// driven by their BMCs alone.
fn open_boot_files(settings: &Settings, data: &DataDir) -> anyhow::Result<(BootFiles, Option<KeptBootFiles>)> {
    let Some(folder) = settings.boot_files.as_deref() else {
        tracing::info!(
            "there are no boot files (--boot-files): hosts are driven by their BMCs alone, and none boots into the agent"
        );
        return Ok((BootFiles::none(), None));
    };
    let files = BootFiles::load(folder, &settings.loaders)?;
    let kept = boot_files::keep(&data.path("boot"), folder, &files).unwrap_or_else(|error| {
        tracing::warn!("could not keep the boot files for a later upgrade: {error}; boots under way then start again");
        None
    });
    Ok((files, kept))
}

/// Says how hosts would reach an appliance that serves no network: at the API's address.
fn without_network(settings: &Settings) -> HostNetwork {
    let address = match settings.api.ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::LOCALHOST,
    };
    HostNetwork {
        endpoints: Endpoints { address, http_port: settings.http_port, agent_port: settings.agent_port },
        asker_rule: AskerRule::FirstAsker,
        hosts_have_dns: true,
        work_hold: Some(if settings.boot_files.is_some() {
            WorkHold::NotServed("waiting until the provisioning network is looked at after the start".to_owned())
        } else {
            WorkHold::BmcOnly(BmcOnlyCause::NoBootFiles.to_string())
        }),
    }
}

fn config_settings(settings: &Settings) -> ConfigSettings {
    ConfigSettings {
        host: settings.config_host.clone(),
        port: settings.config_port,
        plain_port: settings.config_plain_port,
        without_token: settings.config_without_token,
        token_life: SignedDuration::from_hours(24 * i64::from(settings.config_token_days)),
    }
}

fn controllers_config(
    context: &ServeContext<'_>,
    pki: &Pki,
    host_network: Live<HostNetwork>,
    boot_files: ServedBootFiles,
    images: Arc<dyn Images>,
    way_out: &OutboundRuntime,
) -> anyhow::Result<ControllersConfig> {
    let ServeContext { settings, data, core, clock, .. } = context;
    let consoles = settings.console.iter().map(|console| format!("console={console}"));
    let kernel_arguments = KernelArguments::new(consoles).context("--console")?;
    let mut bmc_tls = firesteel_bmc::Tls::default();
    if let Some(path) = &settings.bmc_ca {
        bmc_tls.authorities = certificates(path)?;
    }
    let drivers = SchemeDriver::new(way_out.dialer().clone());
    let drivers = if settings.no_bmc_consoles { drivers.without_consoles() } else { drivers };
    Ok(ControllersConfig {
        core: core.clone(),
        runtime: Arc::new(way_out.runtime()),
        clock: clock.clone(),
        images,
        bmc: Arc::new(drivers),
        host_network,
        boot_files,
        sealer: Sealer::new(&data.secret_key("token.key")?),
        nonce_key: hmac::Key::new(hmac::HMAC_SHA256, &data.secret_key("nonce.key")?),
        receipt_key: data.receipt_key()?,
        trust: pki.trust().clone(),
        configs: config_settings(settings),
        pin_sha256: pki.pin_sha256.clone(),
        kernel_arguments,
        bmc_tls,
        hosts_at_once: settings.hosts_at_once,
        boot_image_minimum: settings.boot_image_minimum,
        tells_events: true,
    })
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .with_context(|| format!("could not read --bmc-ca {}", path.display()))?
        .collect();
    let found = found.with_context(|| format!("could not read --bmc-ca {}", path.display()))?;
    anyhow::ensure!(!found.is_empty(), "--bmc-ca {} holds no certificate in PEM", path.display());
    Ok(found)
}
