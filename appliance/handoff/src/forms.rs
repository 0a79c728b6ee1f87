//! The forms of one hand-off. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_resources::BareMetalHost;
use firesteel_wire::HandOffFile;
use firesteel_wire::hand_off::{BootPartition, FIRST_BOOT, Forms, HandOffVolume, KernelArgumentEdit, is_argument};
use serde_json::Value;

use crate::hand_off_inputs::{HandOffInputs, OsUserData};
use crate::network_data;
use crate::{arguments, cloud};

/// Ignition's config on the boot partition (coreos-installer writes it there).
const CONFIG: &str = "ignition/config.ign";
/// The layout of a config drive (OpenStack's Nova; cloud-init and Ignition's platform `openstack` read it).
const DRIVE_USER_DATA: &str = "openstack/latest/user_data";
const DRIVE_META_DATA: &str = "openstack/latest/meta_data.json";
const DRIVE_NETWORK_DATA: &str = "openstack/latest/network_data.json";

/// What comes with an attempt.
#[derive(Default)]
pub struct AttemptFiles {
    /// The Ignition config with the host's token; the owner's own where there is none to add.
    pub stub: Option<Vec<u8>>,
    /// What lets the host fetch its config.
    pub token: String,
    /// Files that say which installation this is, for people and boot loaders.
    pub marks: Vec<HandOffFile>,
    /// The number of a volume that is made.
    pub volume_id: u32,
}

/// It holds what only the host may see.
impl std::fmt::Debug for AttemptFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttemptFiles").field("volume_id", &self.volume_id).finish_non_exhaustive()
    }
}

/// Everything that could be handed over, each in its form.
#[must_use]
pub fn compose(host: &BareMetalHost, given: &HandOffInputs, extras: &AttemptFiles) -> Forms {
    let config = match &given.user {
        OsUserData::Ignition(config) => Some(extras.stub.as_ref().unwrap_or(config)),
        OsUserData::None | OsUserData::CloudInit(_) => None,
    };
    let user = match &given.user {
        OsUserData::CloudInit(text) => Some(text),
        OsUserData::Ignition(_) => config,
        OsUserData::None => None,
    };
    Forms {
        form: given.form,
        boot_partition: config.map(|config| boot_partition(host, given, config, extras)),
        kernel_arguments: given.url.as_ref().map(|url| {
            let url = format!("ignition.config.url={url}?token={}", extras.token);
            // Without its network the host could not fetch the config.
            KernelArgumentEdit {
                append: std::iter::once(url).chain(network(host, given)).collect(),
                delete: Vec::new(),
            }
        }),
        config_drive: Some(config_drive(host, given, user, extras)),
        no_cloud: config.is_none().then(|| no_cloud(host, given, user, extras)),
        arguments: (!given.arguments.append.is_empty() || !given.arguments.delete.is_empty())
            .then(|| given.arguments.clone()),
    }
}

/// The network as the initial ramdisk of the OS reads it.
fn network(host: &BareMetalHost, given: &HandOffInputs) -> Vec<String> {
    let plan = given.network.as_ref().and_then(|network| Some((network, network.plan.as_ref()?)));
    plan.map(|(network, plan)| arguments::of(plan, &network.resolvers, &host.metadata.name)).unwrap_or_default()
}

fn boot_partition(host: &BareMetalHost, given: &HandOffInputs, config: &[u8], extras: &AttemptFiles) -> BootPartition {
    let mut files = vec![file(CONFIG, 0o600, config)];
    files.extend(extras.marks.iter().cloned());
    // Last: without it the OS would not look for a config at all.
    files.push(file(FIRST_BOOT, 0o644, b""));
    BootPartition { files, network: network(host, given) }
}

fn config_drive(
    host: &BareMetalHost,
    given: &HandOffInputs,
    user: Option<&Vec<u8>>,
    extras: &AttemptFiles,
) -> HandOffVolume {
    let meta = Value::Object(cloud::config_drive_meta_data(&host.metadata, &given.meta));
    let mut files = vec![file(DRIVE_META_DATA, 0o600, meta.to_string().as_bytes())];
    if let Some(network) = &given.network {
        // cloud-init reads no network at all where a VLAN does not say its address.
        let document = network_data::with_vlan_macs(&network.document);
        files.push(file(DRIVE_NETWORK_DATA, 0o600, document.to_string().as_bytes()));
    }
    files.extend(user.map(|user| file(DRIVE_USER_DATA, 0o600, user)));
    files.extend(extras.marks.iter().cloned());
    HandOffVolume { volume_id: extras.volume_id, files }
}

/// cloud-init takes a volume for NoCloud only where both `user-data` and `meta-data` are on it.
fn no_cloud(
    host: &BareMetalHost,
    given: &HandOffInputs,
    user: Option<&Vec<u8>>,
    extras: &AttemptFiles,
) -> HandOffVolume {
    let meta = Value::Object(cloud::no_cloud_meta_data(&host.metadata, &given.meta));
    let nothing = b"#cloud-config\n{}\n".to_vec();
    let mut files =
        vec![file("meta-data", 0o600, meta.to_string().as_bytes()), file("user-data", 0o600, user.unwrap_or(&nothing))];
    let plan = given.network.as_ref().and_then(|network| Some((network, network.plan.as_ref()?)));
    if let Some((network, plan)) = plan {
        let config = cloud::network_config(plan, &network.resolvers, &network.search);
        files.push(file("network-config", 0o600, config.to_string().as_bytes()));
    }
    files.extend(extras.marks.iter().cloned());
    HandOffVolume { volume_id: extras.volume_id, files }
}

/// What the config asks of the kernel's command line (from spec 3.3 on), for systems whose Ignition cannot change it.
/// Arguments that are no plain words are left to Ignition, and so is what an older spec knows nothing of.
#[must_use]
pub fn wanted_arguments(config: &Value) -> KernelArgumentEdit {
    let version = config.pointer("/ignition/version").and_then(Value::as_str).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    if (parts.next(), parts.next()) < (Some(3), Some(3)) {
        return KernelArgumentEdit::default();
    }
    let list = |name: &str| -> Vec<String> {
        let entries = config["kernelArguments"][name].as_array().into_iter().flatten();
        entries.filter_map(Value::as_str).filter(|word| is_argument(word)).map(str::to_owned).collect()
    };
    KernelArgumentEdit { append: list("shouldExist"), delete: list("shouldNotExist") }
}

/// Makes a file of a hand-over.
#[must_use]
pub fn file(path: &str, mode: u32, content: &[u8]) -> HandOffFile {
    HandOffFile { path: path.to_owned(), mode, content_base64: STANDARD.encode(content) }
}
