//! The process settings: flags, and a TOML file with the same names. Flags win.
//!
//! The Provisioning object describes the network; the settings hold only what the process itself needs to start.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use firesteel_config_server::TOKEN_DAYS_DEFAULT;
use firesteel_dhcp::{Ipv4Network, Pool, Subnet};
use firesteel_ignition::stub::managed_stub::CONFIG_PORT;
use firesteel_plan::{admission::AT_ONCE, skew::MinimumVersions};
use firesteel_store::Durability;
use serde::{Deserialize, Serialize};

use super::{pki::CA_YEARS_DEFAULT, sealing};
use crate::image_depot::Quota;
use crate::outbound::OutwardRules;
use crate::text_file::{self, TEXT_FILE_BYTES_MAX};

/// A setting without which the appliance cannot start is neither among the flags nor in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{0} is needed (or `{0}` in the settings file)")]
pub struct MissingSetting(&'static str);

/// Flags of `firesteel serve`, and the keys of its settings file.
#[derive(Clone, Debug, Default, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct RawSettings {
    /// Settings file (TOML) with the names of these flags
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Folder for databases, images, keys and certificates
    #[arg(long, value_name = "DIR", env = "FIRESTEEL_DATA")]
    pub data: Option<PathBuf>,
    /// Start a new appliance in the data folder, also beside a data folder with a similar name, or where keys or images
    /// of an appliance lie without its database; needed for that start alone
    #[arg(long)]
    #[serde(skip)]
    pub init: bool,
    /// Network interface of the provisioning network [default: from the Provisioning object]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Provisioning object (YAML) applied at the first start
    #[arg(long, value_name = "FILE")]
    pub provisioning: Option<PathBuf>,
    /// File with the key that seals secrets in the database, in another folder than the database; made at the first
    /// start [default: DATA/secrets/at-rest.key]
    #[arg(long, value_name = "FILE")]
    pub secrets_key: Option<PathBuf>,
    /// Serve the API alone: no interface, no boot services, no root; hosts stay as they are
    #[arg(long)]
    pub api_only: bool,
    /// Folder with vmlinuz, initramfs.zst and manifest.json; without it hosts are driven by their BMCs alone [default:
    /// none]
    #[arg(long, value_name = "DIR")]
    pub boot_files: Option<PathBuf>,
    /// Folder with undionly.kpxe, ipxe.efi and snponly.efi [default: /usr/lib/ipxe]
    #[arg(long, value_name = "DIR")]
    pub loaders: Option<PathBuf>,
    /// Address of the API; port 0 takes a free port and writes it to admin.kubeconfig [default: 127.0.0.1:6443]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub api: Option<SocketAddr>,
    /// Port for boot scripts, kernel, initramfs and images [default: 8080]
    #[arg(long, value_name = "PORT")]
    pub http_port: Option<u16>,
    /// Port for agents, HTTPS [default: 8443]
    #[arg(long, value_name = "PORT")]
    pub agent_port: Option<u16>,
    /// Port for the configs of hosts, HTTPS [default: 22623]
    #[arg(long, value_name = "PORT")]
    pub config_port: Option<u16>,
    /// Port for the configs of hosts without TLS, like upstream's 22624: anyone on the wire can read tokens and configs
    /// [default: none]
    #[arg(long, value_name = "PORT")]
    pub config_plain_port: Option<u16>,
    /// DNS name or address of this appliance in managed stubs; use a name only if hosts have DNS [default: the address
    /// on the provisioning network]
    #[arg(long, value_name = "HOST")]
    pub config_host: Option<String>,
    /// Serve the configs of pools to every client, without a token; every pool's status warns of it
    #[arg(long)]
    pub config_without_token: bool,
    /// Days for which the config token of an installed host is valid [default: 30]
    #[arg(long, value_name = "DAYS")]
    pub config_token_days: Option<NonZeroU16>,
    /// Age of the CA, in years, at which its rotation begins; it is valid for ten [default: 8]
    #[arg(long, value_name = "YEARS", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub ca_years: Option<u8>,
    /// Console of the ramdisk's kernel, may be repeated [default: tty0 ttyS0]
    #[arg(long, value_name = "TTY")]
    pub console: Vec<String>,
    /// Serve although another DHCP server answers on the wire
    #[arg(long)]
    pub allow_other_dhcp: bool,
    /// A network behind a DHCP relay, may be repeated: CIDR,FIRST,LAST or CIDR,FIRST,LAST,ROUTER
    #[arg(long, value_name = "NETWORK")]
    pub relayed: Vec<String>,
    /// Send our undionly.kpxe first to clients with another iPXE
    #[arg(long)]
    pub upgrade_ipxe: bool,
    /// CAs (PEM) that BMC certificates are verified against
    #[arg(long, value_name = "FILE")]
    pub bmc_ca: Option<PathBuf>,
    /// Addresses (CIDR) that images, checksums, streams and BMCs may have although they are loopback, link-local or
    /// otherwise this machine's alone, may be repeated; the appliance's own listeners stay blocked [default: none]
    #[arg(long, value_name = "CIDR")]
    pub allow_target: Vec<String>,
    /// Proxy for images, checksums and streams, as http://HOST:PORT; environment variables are ignored [default: none]
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
    /// Names (with all names below them) and addresses (CIDR) that are connected to without the proxy, may be repeated
    #[arg(long, value_name = "HOST")]
    pub no_proxy_for: Vec<String>,
    /// Do not use the serial consoles that BMCs of hosts offer by IPMI
    #[arg(long)]
    pub no_bmc_consoles: bool,
    /// Hosts that are inspected, provisioned or deprovisioned at a time; others wait [default: 20]
    #[arg(long, value_name = "NUMBER")]
    pub hosts_at_once: Option<NonZeroUsize>,
    /// The most disk space that images may take, such as 20GiB: if it is exceeded, unused images are removed [default:
    /// the size of the disk]
    #[arg(long, value_name = "SIZE")]
    pub image_quota: Option<Quota>,
    /// The oldest boot images from which hosts may join; older ones block an upgrade: an OCP version, an RHCOS version,
    /// or both with a comma between them [default: 4.13.0,9.2]
    #[arg(long, value_name = "VERSION")]
    pub boot_image_minimum: Option<String>,
    /// File with a bearer token that gives access to /metrics of the API, and nothing else [default: none]
    #[arg(long, value_name = "FILE")]
    pub metrics_token: Option<PathBuf>,
    /// Log filter, such as info or firesteel=debug [default: info]
    #[arg(long, value_name = "FILTER", env = "FIRESTEEL_LOG")]
    pub log: Option<String>,
    /// Write the log as JSON lines
    #[arg(long)]
    pub log_json: bool,
    /// Print the settings in force and exit
    #[arg(long)]
    #[serde(skip)]
    pub print_config: bool,
}

/// The checked settings: all defaults are filled in.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Settings {
    pub data: PathBuf,
    /// Says that this start begins a new appliance. It is of one start, so no file has it.
    #[serde(skip)]
    pub init: bool,
    pub interface: Option<String>,
    pub provisioning: Option<PathBuf>,
    pub secrets_key: PathBuf,
    pub api_only: bool,
    /// The folder of boot files. Without it hosts are driven by their BMCs alone.
    pub boot_files: Option<PathBuf>,
    pub loaders: PathBuf,
    pub api: SocketAddr,
    pub http_port: u16,
    pub agent_port: u16,
    pub config_port: u16,
    pub config_plain_port: Option<u16>,
    pub config_host: Option<String>,
    pub config_without_token: bool,
    pub config_token_days: u16,
    pub ca_years: u8,
    pub console: Vec<String>,
    pub allow_other_dhcp: bool,
    #[serde(skip)]
    pub relayed: Vec<Subnet>,
    pub upgrade_ipxe: bool,
    pub bmc_ca: Option<PathBuf>,
    pub allow_target: Vec<String>,
    pub proxy: Option<String>,
    pub no_proxy_for: Vec<String>,
    /// The parsed values of the three settings above.
    #[serde(skip)]
    pub outward: OutwardRules,
    pub no_bmc_consoles: bool,
    pub hosts_at_once: usize,
    pub image_quota: Option<Quota>,
    pub boot_image_minimum: MinimumVersions,
    pub metrics_token: Option<PathBuf>,
    pub log: String,
    pub log_json: bool,
    /// The durability of the resources. No flag and no file sets it, nor that of the leases.
    #[serde(skip)]
    pub durability: Durability,
    #[serde(skip)]
    pub lease_durability: Durability,
}

impl RawSettings {
    /// Reads the file, applies the flags on top, and checks the result.
    ///
    /// # Errors
    /// When the file cannot be read, has unknown names, or a required setting is missing.
    pub fn check(self) -> anyhow::Result<Settings> {
        let merged = match &self.config {
            Some(path) => self.clone().over(read(path)?),
            None => self,
        };
        let console =
            if merged.console.is_empty() { vec!["tty0".to_owned(), "ttyS0".to_owned()] } else { merged.console };
        for name in &console {
            anyhow::ensure!(
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b','),
                "--console {name}: use a kernel console such as ttyS0 or ttyS1,115200"
            );
        }
        let ca_years = merged.ca_years.unwrap_or(CA_YEARS_DEFAULT);
        anyhow::ensure!((1..=9).contains(&ca_years), "ca-years: must be 1 to 9, because the CA is valid for ten years");
        let minimum = merged.boot_image_minimum.as_deref().map(|text| text.parse().context("boot-image-minimum"));
        let boot_image_minimum = minimum.transpose()?.unwrap_or_default();
        let outward = OutwardRules::read(&merged.allow_target, merged.proxy.as_deref(), &merged.no_proxy_for)?;
        let data = merged.data.ok_or(MissingSetting("data"))?;
        Ok(Settings {
            secrets_key: merged.secrets_key.unwrap_or_else(|| data.join(sealing::DEFAULT_FILE)),
            data,
            init: merged.init,
            interface: merged.interface,
            provisioning: merged.provisioning,
            api_only: merged.api_only,
            boot_files: merged.boot_files,
            loaders: merged.loaders.unwrap_or_else(|| PathBuf::from("/usr/lib/ipxe")),
            api: merged.api.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 6443))),
            http_port: merged.http_port.unwrap_or(8080),
            agent_port: merged.agent_port.unwrap_or(8443),
            config_port: merged.config_port.unwrap_or(CONFIG_PORT),
            config_plain_port: merged.config_plain_port,
            config_host: merged.config_host,
            config_without_token: merged.config_without_token,
            config_token_days: merged.config_token_days.map_or(TOKEN_DAYS_DEFAULT, NonZeroU16::get),
            ca_years,
            console,
            allow_other_dhcp: merged.allow_other_dhcp,
            relayed: merged.relayed.iter().map(|text| relayed(text)).collect::<anyhow::Result<_>>()?,
            upgrade_ipxe: merged.upgrade_ipxe,
            bmc_ca: merged.bmc_ca,
            outward,
            allow_target: merged.allow_target,
            proxy: merged.proxy,
            no_proxy_for: merged.no_proxy_for,
            no_bmc_consoles: merged.no_bmc_consoles,
            metrics_token: merged.metrics_token,
            image_quota: merged.image_quota,
            boot_image_minimum,
            hosts_at_once: merged.hosts_at_once.map_or(AT_ONCE, NonZeroUsize::get),
            log: merged.log.unwrap_or_else(|| "info".to_owned()),
            log_json: merged.log_json,
            durability: Durability::PowerCut,
            lease_durability: Durability::PowerCut,
        })
    }

    fn over(self, file: Self) -> Self {
        Self {
            config: self.config,
            data: self.data.or(file.data),
            init: self.init,
            interface: self.interface.or(file.interface),
            provisioning: self.provisioning.or(file.provisioning),
            secrets_key: self.secrets_key.or(file.secrets_key),
            api_only: self.api_only || file.api_only,
            boot_files: self.boot_files.or(file.boot_files),
            loaders: self.loaders.or(file.loaders),
            api: self.api.or(file.api),
            http_port: self.http_port.or(file.http_port),
            agent_port: self.agent_port.or(file.agent_port),
            config_port: self.config_port.or(file.config_port),
            config_plain_port: self.config_plain_port.or(file.config_plain_port),
            config_host: self.config_host.or(file.config_host),
            config_without_token: self.config_without_token || file.config_without_token,
            config_token_days: self.config_token_days.or(file.config_token_days),
            ca_years: self.ca_years.or(file.ca_years),
            console: if self.console.is_empty() { file.console } else { self.console },
            allow_other_dhcp: self.allow_other_dhcp || file.allow_other_dhcp,
            relayed: if self.relayed.is_empty() { file.relayed } else { self.relayed },
            upgrade_ipxe: self.upgrade_ipxe || file.upgrade_ipxe,
            bmc_ca: self.bmc_ca.or(file.bmc_ca),
            allow_target: if self.allow_target.is_empty() { file.allow_target } else { self.allow_target },
            proxy: self.proxy.or(file.proxy),
            no_proxy_for: if self.no_proxy_for.is_empty() { file.no_proxy_for } else { self.no_proxy_for },
            no_bmc_consoles: self.no_bmc_consoles || file.no_bmc_consoles,
            hosts_at_once: self.hosts_at_once.or(file.hosts_at_once),
            metrics_token: self.metrics_token.or(file.metrics_token),
            image_quota: self.image_quota.or(file.image_quota),
            boot_image_minimum: self.boot_image_minimum.or(file.boot_image_minimum),
            log: self.log.or(file.log),
            log_json: self.log_json || file.log_json,
            print_config: self.print_config,
        }
    }
}

/// Parses a relayed network, such as `10.1.0.0/24,10.1.0.10,10.1.0.99,10.1.0.1`.
fn relayed(text: &str) -> anyhow::Result<Subnet> {
    let wrong = || format!("--relayed {text}: give CIDR,FIRST,LAST or CIDR,FIRST,LAST,ROUTER");
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let (cidr, first, last, router) = match parts.as_slice() {
        [cidr, first, last] => (cidr, first, last, None),
        [cidr, first, last, router] => (cidr, first, last, Some(router)),
        _ => anyhow::bail!(wrong()),
    };
    let (address, prefix) = cidr.split_once('/').with_context(wrong)?;
    let network = Ipv4Network {
        address: address.parse().with_context(wrong)?,
        prefix_length: prefix.parse().with_context(wrong)?,
    };
    let pool = Pool { first: first.parse().with_context(wrong)?, last: last.parse().with_context(wrong)? };
    let router = router.map(|router| router.parse()).transpose().with_context(wrong)?;
    Ok(Subnet { network, pool: Some(pool), router })
}

fn read(path: &Path) -> anyhow::Result<RawSettings> {
    let text = text_file::read(path, TEXT_FILE_BYTES_MAX)?;
    toml::from_str(&text).with_context(|| format!("could not read settings from {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn flags_without_file() -> RawSettings {
        RawSettings { data: Some("/d".into()), boot_files: Some("/b".into()), ..RawSettings::default() }
    }

    #[test]
    fn the_oldest_boot_images_are_told_by_flag_or_file_and_printed_as_they_are_read() {
        let of = |text: &str| RawSettings { boot_image_minimum: Some(text.to_owned()), ..flags_without_file() }.check();
        assert_eq!(flags_without_file().check().unwrap().boot_image_minimum, MinimumVersions::default());
        let minimum = of("4.16.0,9.4").unwrap().boot_image_minimum;
        assert_eq!(minimum, "9.4,4.16.0".parse().unwrap());
        assert_eq!(String::from(minimum), "4.16.0,9.4");
        let wrong = format!("{:#}", of("4.16").unwrap_err());
        assert!(wrong.contains("boot-image-minimum") && wrong.contains("\"4.16\""), "{wrong}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.toml");
        std::fs::write(&path, "boot-image-minimum = \"4.17.0\"\n").unwrap();
        let flags = RawSettings { config: Some(path), ..flags_without_file() };
        assert_eq!(flags.clone().check().unwrap().boot_image_minimum.ocp, [4, 17, 0]);
        let flags = RawSettings { boot_image_minimum: Some("4.18.0".to_owned()), ..flags };
        assert_eq!(flags.check().unwrap().boot_image_minimum.ocp, [4, 18, 0]);
    }

    #[test]
    fn flags_win_over_the_file_and_unknown_names_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.toml");
        std::fs::write(&path, "data = \"/d\"\ninterface = \"eth9\"\nboot-files = \"/b\"\nhttp-port = 81\n").unwrap();
        let flags =
            RawSettings { config: Some(path.clone()), interface: Some("br0".to_owned()), ..RawSettings::default() };
        let settings = flags.clone().check().unwrap();
        assert_eq!((settings.interface.as_deref(), settings.http_port, settings.agent_port), (Some("br0"), 81, 8443));
        std::fs::write(&path, "datta = \"/d\"\n").unwrap();
        assert!(format!("{:#}", flags.clone().check().unwrap_err()).contains("datta"));
        std::fs::write(&path, format!("#{}\n", "x".repeat(TEXT_FILE_BYTES_MAX))).unwrap();
        assert!(format!("{:#}", flags.check().unwrap_err()).contains("more than"), "a large file is not read");
        let relay = |text: &str| RawSettings { relayed: vec![text.to_owned()], ..flags_without_file() }.check();
        let subnet = relay("10.1.0.0/24,10.1.0.10,10.1.0.99,10.1.0.1").unwrap().relayed[0].clone();
        assert_eq!((subnet.network.prefix_length, subnet.router), (24, Some("10.1.0.1".parse().unwrap())));
        let allowed = |text: &str| RawSettings { allow_target: vec![text.to_owned()], ..flags_without_file() }.check();
        assert_eq!(allowed("127.0.1.0/24").unwrap().outward.allowed[0].to_string(), "127.0.1.0/24");
        assert!(allowed("127.0.1").unwrap_err().to_string().contains("--allow-target 127.0.1"));
        for wrong in ["10.1.0.0/24", "10.1.0.0,a,b", "10.1.0.0/24,10.1.0.10"] {
            assert!(relay(wrong).unwrap_err().to_string().contains("--relayed"), "{wrong}");
        }
        let missing = RawSettings::default().check().unwrap_err().to_string();
        assert!(missing.contains("--data is needed"), "{missing}");
        let alone = RawSettings { boot_files: None, ..flags_without_file() };
        assert_eq!(alone.check().unwrap().boot_files, None, "hosts are driven by their BMCs alone");
    }
}
