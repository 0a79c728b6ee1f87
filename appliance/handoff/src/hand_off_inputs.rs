//! What a host's OS is to be handed, read out of its Secrets and judged. Pure.

use std::net::IpAddr;

use firesteel_ignition as ignition;
use firesteel_ignition::stub::form::{self, ParsedUserData};
use firesteel_resources::bare_metal_host::annotations::HAND_OFF;
use firesteel_resources::boot_image_stream::DeclaredForm;
use firesteel_resources::secret::{META_DATA_KEYS, NETWORK_DATA_KEYS};
use firesteel_resources::{BareMetalHost, Secret};
use firesteel_wire::hand_off::{HandOffError, HandOffForm, KernelArgumentEdit};
use firesteel_wire::{NetworkPlan, text::clean};
use ring::digest::{Context, SHA256};
use serde_json::{Map, Value};

use crate::error::{HandOffProblem, MetaDataProblem, UserDataProblem};
use crate::form_origin::{FormOrigin, form_of};
use crate::forms::{self, AttemptFiles};
use crate::network_data::{self, NetworkDataError};

/// The most bytes of metadata. Upstream's has some names; a config drive has room for more.
pub(crate) const META_DATA_BYTES_MAX: usize = 64 << 10;
/// Configs of this appliance that one stub may fetch: their names are kept with the host.
pub(crate) const CONFIGS_MAX: usize = 32;
/// The most bytes of what a host's status says of a Secret.
const REASON_BYTES_MAX: usize = 512;
/// The most bytes of one warning about a config, and of a text that lists them: an event holds 1024 bytes, and the name
/// of a Secret and the number of those left out have their room.
const WARNING_BYTES_MAX: usize = 256;
const WARNINGS_BYTES_MAX: usize = 960;

/// A Secret that the host names.
#[derive(Debug)]
pub struct Referenced {
    pub name: String,
    pub secret: Option<Secret>,
}

/// What came of reading.
#[derive(Debug)]
pub enum HandOffReading {
    /// The host names no Secret for its OS.
    Nothing,
    /// The Secret of the user data is not there, or has none.
    Missing,
    /// It names the Secret and the fault.
    Invalid(HandOffProblem),
    Ready(Box<HandOffInputs>),
}

/// The user data, by who reads it.
#[derive(Clone, PartialEq, Eq)]
pub enum OsUserData {
    None,
    /// An Ignition config, unpacked.
    Ignition(Vec<u8>),
    /// What cloud-init reads, as it is.
    CloudInit(Vec<u8>),
}

/// It holds what only the host may see.
impl std::fmt::Debug for OsUserData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Ignition(_) => "Ignition",
            Self::CloudInit(_) => "CloudInit",
        })
    }
}

/// The OS's network, as its owner wrote it.
#[derive(Clone, PartialEq)]
pub(crate) struct OsNetwork {
    /// `network_data.json`, for who reads it as it is.
    pub(crate) document: Value,
    /// The network for other readers; `None` where the document says what only its own reader understands.
    pub(crate) plan: Option<NetworkPlan>,
    pub(crate) resolvers: Vec<IpAddr>,
    /// Domains in which names are looked for.
    pub(crate) search: Vec<String>,
}

/// What the OS is handed.
#[derive(Clone, PartialEq)]
pub struct HandOffInputs {
    /// The form that the owner wants; `auto` where nothing is said.
    pub(crate) form: HandOffForm,
    pub(crate) said_by: FormOrigin,
    pub user: OsUserData,
    pub(crate) meta: Map<String, Value>,
    pub(crate) network: Option<OsNetwork>,
    /// Configs of this appliance that the user data fetches.
    pub configs: Vec<String>,
    /// What the user data, and the configs of this appliance that it fetches, ask of the kernel's command line.
    pub(crate) arguments: KernelArgumentEdit,
    /// Where the kernel's command line may send Ignition for the config that the user data leads to. It has no token
    /// yet.
    pub(crate) url: Option<String>,
    /// What does not keep it from being handed over, and may keep the OS from coming up: one text for each Secret,
    /// which shows no values.
    pub warnings: Vec<String>,
    /// The digest of everything together; of user data alone it is the digest of that.
    pub sha256: String,
}

/// What is known beside the host and its Secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandOffUrls<'a> {
    /// What the URLs of all configs of this appliance begin with.
    pub urls: &'a [String],
    /// Those without TLS.
    pub plain: Option<&'a str>,
    /// What streams say of the form for the host's image.
    pub declared: &'a [DeclaredForm],
}

/// It holds what only the host may see.
impl std::fmt::Debug for HandOffInputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandOffInputs").field("form", &self.form).field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

/// Reads the Secrets; `None` for those that the host does not name.
#[must_use]
pub fn read(
    ways: HandOffUrls<'_>,
    host: &BareMetalHost,
    user: Option<&Referenced>,
    meta: Option<&Referenced>,
    network: Option<&Referenced>,
) -> HandOffReading {
    if user.is_none() && meta.is_none() && network.is_none() {
        return HandOffReading::Nothing;
    }
    if user.is_some_and(|user| user.bytes().is_none()) {
        return HandOffReading::Missing;
    }
    match read_hand_off(ways, host, user, meta, network) {
        Ok(given) => HandOffReading::Ready(Box::new(given)),
        Err(why) => HandOffReading::Invalid(why),
    }
}

impl Referenced {
    fn bytes(&self) -> Option<&[u8]> {
        self.secret.as_ref().and_then(Secret::user_data)
    }

    /// The value of the first of these keys that is there. `field` names the reference to people.
    fn value(&self, field: &'static str, keys: &[&'static str]) -> Result<&[u8], HandOffProblem> {
        let name = || self.name.clone();
        let secret = self.secret.as_ref().ok_or_else(|| HandOffProblem::NoSecret { name: name(), field })?;
        let found = keys.iter().find_map(|key| secret.get(key));
        found.ok_or_else(|| HandOffProblem::NoKey { name: name(), field, key: keys[0] })
    }

    fn meta_data(&self, digest: &mut SecretTextDigests) -> Result<Map<String, Value>, HandOffProblem> {
        let bytes = self.value("spec.metaData", &META_DATA_KEYS)?;
        digest.add(bytes);
        let (name, key) = (self.name.clone(), META_DATA_KEYS[0]);
        meta_data(bytes).map_err(|problem| HandOffProblem::MetaData { name, key, problem })
    }

    fn os_network(
        &self,
        form: HandOffForm,
        digest: &mut SecretTextDigests,
        warnings: &mut Vec<String>,
    ) -> Result<OsNetwork, HandOffProblem> {
        let bytes = self.value("spec.networkData", &NETWORK_DATA_KEYS)?;
        digest.add(bytes);
        let (name, key) = (self.name.clone(), NETWORK_DATA_KEYS[0]);
        let (read, lost) =
            network_of(bytes, form).map_err(|problem| HandOffProblem::NetworkData { name, key, problem })?;
        warnings.extend(lost.map(|lost| format!("Secret {}, key {key}: {lost}", self.name)));
        Ok(read)
    }
}

fn read_hand_off(
    ways: HandOffUrls<'_>,
    host: &BareMetalHost,
    user: Option<&Referenced>,
    meta: Option<&Referenced>,
    network: Option<&Referenced>,
) -> Result<HandOffInputs, HandOffProblem> {
    let (form, said_by) = form_of(host, ways.declared)?;
    let mut warnings = Vec::new();
    let mut digest = SecretTextDigests::default();
    let user = match user.and_then(|user| Some((&user.name, user.bytes()?))) {
        None => OsUserData::None,
        Some((name, bytes)) => {
            digest.add(bytes);
            let problem = |problem| HandOffProblem::UserData { name: name.clone(), problem };
            let (user, found) = user_data(bytes).map_err(problem)?;
            warnings.extend(listed(&format!("Secret {name}, key userData"), &found));
            user
        }
    };
    let meta = meta.map_or_else(|| Ok(Map::new()), |meta| meta.meta_data(&mut digest))?;
    let network = network.map(|network| network.os_network(form, &mut digest, &mut warnings)).transpose()?;
    if let (OsUserData::Ignition(_), Some(_)) = (&user, &network) {
        warnings.extend(lost_network(form).map(str::to_owned));
    }
    let (configs, url, arguments) = match &user {
        OsUserData::Ignition(config) => {
            let configs = ignition::fetched_from(config, ways.urls);
            let url = plain_url(config, &configs, ways);
            let arguments = forms::wanted_arguments(&serde_json::from_slice(config).unwrap_or_default());
            (configs, url, arguments)
        }
        OsUserData::None | OsUserData::CloudInit(_) => (Vec::new(), None, KernelArgumentEdit::default()),
    };
    if configs.len() > CONFIGS_MAX {
        return Err(HandOffProblem::TooManyConfigs { count: configs.len() });
    }
    if form == HandOffForm::KernelArguments && url.is_none() {
        return Err(HandOffProblem::NoPlainConfig { said_by });
    }
    let sha256 = digest.end();
    let given = HandOffInputs { form, said_by, user, meta, network, configs, arguments, url, warnings, sha256 };
    check(host, &given)?;
    Ok(given)
}

/// The very forms that the agent will get, but for what comes with an attempt.
fn check(host: &BareMetalHost, given: &HandOffInputs) -> Result<(), HandOffProblem> {
    let forms = forms::compose(host, given, &AttemptFiles::default());
    forms.check().map_err(|why| {
        let text = match (&why, &given.said_by) {
            (HandOffError::Missing(_), FormOrigin::Annotation) => format!("{}: {why}", given.said_by),
            (HandOffError::Missing(_), FormOrigin::Stream(_)) => {
                format!("{}: {why}; for this host alone the annotation {HAND_OFF} says another form", given.said_by)
            }
            _ => why.to_string(),
        };
        HandOffProblem::Form(clean(&text, REASON_BYTES_MAX))
    })
}

/// Adds what the configs that the user data fetches ask of the kernel's command line.
#[must_use]
pub fn with_arguments(
    host: &BareMetalHost,
    mut given: Box<HandOffInputs>,
    further: KernelArgumentEdit,
) -> HandOffReading {
    let add = |all: &mut Vec<String>, more: Vec<String>| {
        for word in more {
            if !all.contains(&word) {
                all.push(word);
            }
        }
    };
    add(&mut given.arguments.append, further.append);
    add(&mut given.arguments.delete, further.delete);
    match check(host, &given) {
        Ok(()) => HandOffReading::Ready(given),
        Err(problem) => {
            let problem = Box::new(problem);
            HandOffReading::Invalid(HandOffProblem::KernelArguments { configs: given.configs, problem })
        }
    }
}

/// A kernel argument replaces the stub and all that it says, and it has no CA of ours: only a stub that says nothing
/// but where the config is, and whom to trust for that, loses nothing.
fn plain_url(config: &[u8], configs: &[String], ways: HandOffUrls<'_>) -> Option<String> {
    let [name] = configs else { return None };
    let plain = ways.plain?;
    let stub: Value = serde_json::from_slice(config).ok()?;
    let section = stub.pointer("/ignition/config")?.as_object()?;
    let all = section.values().filter(|value| !value.is_null());
    let mut sources = all.flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
    let source = sources.next()?;
    if sources.next().is_some() {
        return None;
    }
    let says_more = says_beside(&stub, &["ignition"])
        || says_beside(&stub["ignition"], &["version", "config", "security"])
        || says_beside(source, &["source"]);
    (!says_more).then(|| format!("{plain}{name}"))
}

/// Whether something stands in an object beside these. What Ignition passes over is nothing.
fn says_beside(object: &Value, names: &[&str]) -> bool {
    let is_hollow = |value: &Value| match value {
        Value::Null => true,
        Value::Object(members) => members.values().all(Value::is_null),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    object
        .as_object()
        .is_some_and(|object| object.iter().any(|(name, value)| !names.contains(&name.as_str()) && !is_hollow(value)))
}

/// Reads user data, with warnings about what Ignition lets pass.
fn user_data(bytes: &[u8]) -> Result<(OsUserData, Vec<String>), UserDataProblem> {
    // An empty one is what it is for cloud-init, which may take the metadata alone; Ignition takes none.
    match form::read(bytes)? {
        ParsedUserData::NotIgnition(_) => {
            Ok((OsUserData::CloudInit(form::for_cloud_init(bytes).into_owned()), Vec::new()))
        }
        ParsedUserData::Json { text, .. } => {
            let findings = ignition::validate(text.as_bytes());
            if !findings.errors.is_empty() {
                return Err(UserDataProblem::NotValid { errors: findings.errors });
            }
            Ok((OsUserData::Ignition(text.into_bytes()), findings.warnings))
        }
    }
}

/// Warnings as one text, as many as it has room for; `None` where there are none.
fn listed(of: &str, warnings: &[String]) -> Option<String> {
    let mut text = format!("{of}: ");
    let mut count = 0;
    for warning in warnings {
        let warning = clean(warning, WARNING_BYTES_MAX);
        if count > 0 && text.len() + warning.len() > WARNINGS_BYTES_MAX {
            text += &format!("; and {} more", warnings.len() - count);
            break;
        }
        let before = if count > 0 { "; " } else { "" };
        text += &format!("{before}{warning}");
        count += 1;
    }
    (count > 0).then_some(text)
}

/// Says in which forms Ignition does not read the network of `spec.networkData`.
fn lost_network(form: HandOffForm) -> Option<&'static str> {
    match form {
        HandOffForm::ConfigDrive => Some(
            "the network of spec.networkData is on the config drive, where Ignition does not read it: give it by DHCP, or \
             in the Ignition config",
        ),
        HandOffForm::Auto => Some(
            "if the image takes a config drive (platform openstack), Ignition does not read the network of \
             spec.networkData there: give it by DHCP, or in the Ignition config",
        ),
        // Kernel arguments say it; on a NoCloud volume Ignition reads nothing at all.
        HandOffForm::BootPartition | HandOffForm::KernelArguments | HandOffForm::NoCloud => None,
    }
}

fn meta_data(bytes: &[u8]) -> Result<Map<String, Value>, MetaDataProblem> {
    if bytes.len() > META_DATA_BYTES_MAX {
        return Err(MetaDataProblem::TooLong);
    }
    let value: Value = firesteel_kube::yaml::read(bytes)
        .map_err(|error| MetaDataProblem::NotYaml(clean(&error.to_string(), REASON_BYTES_MAX)))?;
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(MetaDataProblem::NotAnObject),
    }
}

/// The network, and what of it is lost in a form that is not read as it is written. The OS may know words that are not
/// known here: a config drive has them all.
fn network_of(bytes: &[u8], form: HandOffForm) -> Result<(OsNetwork, Option<String>), NetworkDataError> {
    let document = network_data::document(bytes)?;
    let (resolvers, search) = (network_data::resolvers(&document), network_data::search(&document));
    let (plan, why) = match network_data::plan_of_os(&document) {
        Ok(plan) => (Some(plan), None),
        Err(why) => (None, Some(why)),
    };
    let lost = why.filter(|_| form != HandOffForm::ConfigDrive).map(|why| {
        let text =
            "a config drive has the network as it is written, and an image that takes another form gets none from it";
        clean(&format!("{why}; {text}"), REASON_BYTES_MAX)
    });
    Ok((OsNetwork { document, plan, resolvers, search }, lost))
}

/// Digests all texts together; one text alone has its own digest, whatever else could have been there.
#[derive(Default)]
struct SecretTextDigests(Vec<Vec<u8>>);

impl SecretTextDigests {
    fn add(&mut self, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }

    fn end(self) -> String {
        let mut context = Context::new(&SHA256);
        if let [only] = self.0.as_slice() {
            context.update(only);
        } else {
            for bytes in &self.0 {
                context.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
                context.update(bytes);
            }
        }
        hex::encode(context.finish())
    }
}
