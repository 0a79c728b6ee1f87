//! `firesteel get`: lists objects, as kubectl does, and follows them.

mod groups;
mod hosts;
mod listing;
mod server_table;
mod watch;

use anyhow::Context as _;
use firesteel_kube::LabelSelector;
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState};
use firesteel_resources::{BareMetalHost, DiscoveredHost};
use serde::de::DeserializeOwned;
use serde_json::Value;

#[cfg(test)]
pub(super) use self::hosts::FleetListing;
pub(super) use self::hosts::halt_line;
use self::listing::{ListingOptions, ObjectListing};
pub(super) use self::listing::{missing, missing_host};
use super::object_words::{self, KindSelection};
use super::usage::wrong_use;
use super::{ApiClient, OutputFormat, kinds};

#[derive(Debug, clap::Args)]
pub struct GetOptions {
    /// `hosts`, or another kind by its plural or short name, with names behind it; or KIND/NAME
    #[arg(value_name = "KIND", required = true)]
    what: Vec<String>,
    #[command(flatten)]
    scope: ScopeOptions,
    /// Go on and print what changes
    #[arg(long, short)]
    watch: bool,
    /// table, wide, yaml, json, name or jsonpath=TEMPLATE
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputFormat::of_objects, default_value = "table")]
    output: OutputFormat,
}

/// Which objects of a kind are meant.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ScopeOptions {
    /// Objects of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Only objects with these labels, such as `rack=r1,!spare`
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
}

impl ScopeOptions {
    pub(super) fn is_everywhere(&self) -> bool {
        self.all_namespaces
    }

    pub(super) fn selector(&self) -> Option<&str> {
        self.selector.as_deref()
    }

    /// Checks the flags against the objects that are named.
    ///
    /// # Errors
    /// When the flags do not go with names, or the selector cannot be read.
    pub(super) fn check(&self, selections: &[KindSelection]) -> anyhow::Result<()> {
        let has_names = selections.iter().any(|selection| !selection.names.is_empty());
        if has_names && self.all_namespaces {
            let text =
                "--all-namespaces (-A) does not go with a name, which is one of a namespace: give --namespace (-n)";
            return Err(wrong_use(text));
        }
        if has_names && self.selector.is_some() {
            return Err(wrong_use("--selector (-l) does not go with names: leave out one of them"));
        }
        match self.selector.as_deref().map(LabelSelector::parse) {
            Some(Err(status)) => Err(wrong_use(format!(
                "could not read --selector (-l): {}; write it as `rack=r1`, `rack!=r1`, `rack in (r1,r2)` or `!spare`",
                status.message
            ))),
            Some(Ok(_)) | None => Ok(()),
        }
    }
}

/// # Errors
/// When there is no such kind or object, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, options: GetOptions) -> anyhow::Result<()> {
    let GetOptions { what, scope, watch, output } = options;
    let selections = object_words::read(&what)?;
    scope.check(&selections)?;
    let listings: Vec<ObjectListing> = selections
        .into_iter()
        .map(|selection| {
            let options = ListingOptions {
                everywhere: scope.all_namespaces && selection.kind.namespaced,
                selector: scope.selector.clone(),
                ..ListingOptions::default()
            };
            ObjectListing { kind: selection.kind, names: selection.names, options }
        })
        .collect();
    if !watch {
        return listing::print(client, &listings, &output).await;
    }
    match listings.as_slice() {
        [one] if one.names.len() <= 1 => watch::run(client, one, &output).await,
        _ => Err(wrong_use("--watch (-w) follows one object or one kind: leave out the others")),
    }
}

/// Prints the events of a namespace or of one object, oldest first, and follows them.
///
/// # Errors
/// When the appliance does not answer, or refuses.
pub(super) async fn events(
    client: &ApiClient,
    everywhere: bool,
    fields: Option<String>,
    follows: bool,
    output: &OutputFormat,
) -> anyhow::Result<()> {
    let options = ListingOptions { everywhere, fields, by_time: true, ..ListingOptions::default() };
    let listing = ObjectListing { kind: kinds::by_name("events")?, names: Vec::new(), options };
    if follows {
        return watch::run(client, &listing, output).await;
    }
    listing::print(client, &[listing], output).await
}

/// Fetches all objects of a kind, typed.
pub(super) async fn list<T: DeserializeOwned>(client: &ApiClient, kind: &str) -> anyhow::Result<Vec<T>> {
    list_in(client, kind, false).await
}

/// Fetches all objects of a kind, in all namespaces or the current one, typed.
async fn list_in<T: DeserializeOwned>(client: &ApiClient, kind: &str, everywhere: bool) -> anyhow::Result<Vec<T>> {
    let found = kinds::by_name(kind)?;
    let path = if everywhere { kinds::everywhere(found) } else { kinds::collection(found, &client.namespace) };
    let value = client.get(&path).await?;
    let items = value.get("items").cloned().unwrap_or(Value::Array(Vec::new()));
    serde_json::from_value(items).with_context(|| format!("could not read the list of {}", found.plural))
}

/// Fetches the machines that are not adopted.
pub(super) async fn discovered(client: &ApiClient) -> anyhow::Result<Vec<DiscoveredHost>> {
    list(client, "discoveredhosts").await
}

/// Returns whether the host is on. It is unknown where no BMC says it: there is none, or it has not answered so far.
pub(super) fn power(host: &BareMetalHost) -> &'static str {
    let status = host.status.as_ref();
    let is_unheard = host.spec.bmc.as_ref().is_none_or(|bmc| bmc.address.is_empty())
        || status.is_none_or(|status| {
            let is_early = matches!(status.provisioning.state, ProvisioningState::New | ProvisioningState::Registering);
            is_early || status.error_type == Some(ErrorType::Registration)
        });
    match status.is_some_and(|status| status.powered_on) {
        true => "on",
        false if is_unheard => "unknown",
        false => "off",
    }
}

/// The host's state in upstream's word.
pub(super) fn state(host: &BareMetalHost) -> String {
    let state = host.status.as_ref().map(|status| status.provisioning.state.to_string()).unwrap_or_default();
    if state.is_empty() { "new".to_owned() } else { state }
}
