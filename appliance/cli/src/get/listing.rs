//! Lists of objects: how they are fetched, and printed in each form.

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};

use super::hosts::FleetListing;
use super::{groups, server_table};
use crate::client::{code_of, with_query};
use crate::kinds::{self, CliKind};
use crate::table::{self, clean};
use crate::{ApiClient, OutputFormat, print_text};

/// Objects of one kind that are asked for.
#[derive(Clone, Debug)]
pub(super) struct ObjectListing {
    pub(super) kind: CliKind,
    /// The names of the objects; without any, all are meant.
    pub(super) names: Vec<String>,
    pub(super) options: ListingOptions,
}

/// Which objects are listed, and how.
#[derive(Clone, Debug, Default)]
pub(super) struct ListingOptions {
    /// Whether objects of all namespaces are listed.
    pub(super) everywhere: bool,
    /// A label selector.
    pub(super) selector: Option<String>,
    /// A field selector.
    pub(super) fields: Option<String>,
    /// The last change comes last, as of events.
    pub(super) by_time: bool,
}

impl ObjectListing {
    /// Whether the whole kind is listed, so that machines that are no hosts belong to it.
    pub(super) fn is_whole(&self) -> bool {
        self.names.is_empty() && self.options.selector.is_none()
    }

    /// The path of the collection.
    pub(super) fn collection(&self, client: &ApiClient) -> String {
        if self.options.everywhere {
            kinds::everywhere(self.kind)
        } else {
            kinds::collection(self.kind, &client.namespace)
        }
    }

    /// The path of the list, with its selectors. A single object has a list that holds it alone.
    pub(super) fn list_path(&self, client: &ApiClient) -> String {
        let one = self.names.first().map(|name| format!("metadata.name={name}"));
        let fields = one.or_else(|| self.options.fields.clone());
        let labels = self.options.selector.clone();
        let query: Vec<(&str, String)> = [("labelSelector", labels), ("fieldSelector", fields)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        with_query(&self.collection(client), &query)
    }

    /// The paths of what is fetched: the list, or each object that is named.
    pub(super) fn paths(&self, client: &ApiClient) -> Vec<String> {
        if self.names.is_empty() {
            return vec![self.list_path(client)];
        }
        let collection = self.collection(client);
        self.names.iter().map(|name| format!("{collection}/{name}")).collect()
    }

    /// The message where there is nothing.
    pub(super) fn nothing(&self, client: &ApiClient) -> String {
        let place = match (self.kind.namespaced, self.options.everywhere) {
            (false, _) => String::new(),
            (true, true) => " in any namespace".to_owned(),
            (true, false) => format!(" in namespace {}", clean(&client.namespace)),
        };
        let with =
            self.options.selector.as_ref().map(|selector| format!(" with labels {selector}")).unwrap_or_default();
        if self.kind.is_host() && self.is_whole() {
            return format!(
                "no hosts{place}; `firesteel apply -f FILE` adds one, and a machine that boots from the network appears \
                 by itself\n"
            );
        }
        // A server is called a machine, too.
        let servers = if self.kind.kind == "Machine" && self.is_whole() {
            format!(" ({}); servers are in `firesteel get hosts`, discovered ones too", self.kind.group)
        } else {
            String::new()
        };
        format!("no {}{place}{with}{servers}\n", self.kind.plural)
    }
}

/// What was found of a listing, and why some of it was not.
pub(super) struct FoundObjects {
    pub(super) items: Vec<Value>,
    pub(super) errors: Vec<anyhow::Error>,
}

/// Fetches the objects of a listing. An object that cannot be fetched does not keep the others from being shown.
pub(super) async fn fetch(client: &ApiClient, listing: &ObjectListing) -> anyhow::Result<FoundObjects> {
    let mut found = FoundObjects { items: Vec::new(), errors: Vec::new() };
    if listing.names.is_empty() {
        let mut list = client
            .get(&listing.list_path(client))
            .await
            .with_context(|| format!("could not list {}", listing.kind.word()))?;
        if let Value::Array(items) = list["items"].take() {
            found.items = items;
        }
    } else {
        for (name, path) in listing.names.iter().zip(listing.paths(client)) {
            match client.get(&path).await {
                Ok(object) => found.items.push(object),
                Err(error) => found.errors.push(missing(client, listing.kind, name, error)),
            }
        }
    }
    for item in &mut found.items {
        complete(item, listing.kind);
    }
    Ok(found)
}

/// Gives an item of a list what a single object has, and takes off what is for controllers.
pub(super) fn complete(item: &mut Value, kind: CliKind) {
    if item["kind"].is_null() {
        item["kind"] = json!(kind.kind);
        item["apiVersion"] = json!(kind.api_version());
    }
    if let Some(metadata) = item["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

/// The error of an object that cannot be fetched.
pub(crate) fn missing(client: &ApiClient, kind: CliKind, name: &str, error: anyhow::Error) -> anyhow::Error {
    let what = kind.object(name);
    if code_of(&error) != Some(404) {
        return error.context(format!("could not get {what}"));
    }
    let place = if kind.namespaced { format!(" in namespace {}", clean(&client.namespace)) } else { String::new() };
    let elsewhere = if kind.namespaced { ", and -A what is in all namespaces" } else { "" };
    let word = kind.word();
    anyhow!("could not get {what}{place}: {error:#}; `firesteel get {word}` shows what is there{elsewhere}")
}

/// Makes the error of a request for a host that is not there. Another error stays as it is.
pub(crate) fn missing_host(client: &ApiClient, name: &str, error: anyhow::Error) -> anyhow::Error {
    if code_of(&error) != Some(404) {
        return error;
    }
    let place = clean(&client.namespace);
    anyhow!(
        "there is no host {name} in namespace {place}; `firesteel get hosts` shows what is there, and -A what is in all \
         namespaces"
    )
}

/// Prints listings in a form.
///
/// # Errors
/// When there is no such object, or the appliance does not answer.
pub(super) async fn print(client: &ApiClient, listings: &[ObjectListing], output: &OutputFormat) -> anyhow::Result<()> {
    let errors = if output.is_table() {
        print_tables(client, listings, *output == OutputFormat::Wide).await?
    } else {
        print_objects(client, listings, output).await?
    };
    let mut errors = errors.into_iter();
    let Some(first) = errors.next() else { return Ok(()) };
    let others: Vec<String> = errors.map(|error| format!("\n{error:#}")).collect();
    if others.is_empty() {
        return Err(first);
    }
    bail!("{first:#}{}", others.concat())
}

async fn print_objects(
    client: &ApiClient,
    listings: &[ObjectListing],
    output: &OutputFormat,
) -> anyhow::Result<Vec<anyhow::Error>> {
    let (mut items, mut errors) = (Vec::new(), Vec::new());
    for listing in listings {
        let found = fetch(client, listing).await?;
        items.extend(found.items);
        errors.extend(found.errors);
        if listing.kind.is_host() && listing.is_whole() {
            items.extend(super::hosts::discovered_objects(client).await?);
        }
    }
    if listings.iter().any(|listing| listing.options.by_time) {
        items.sort_by_cached_key(server_table::last_seen);
    }
    if *output == OutputFormat::Name {
        print_text(&items.iter().map(|item| object_name(item) + "\n").collect::<String>());
        return Ok(errors);
    }
    let is_one = matches!(listings, [ObjectListing { names, .. }] if names.len() == 1);
    let value = match items.pop() {
        Some(item) if is_one => item,
        None if is_one => return Ok(errors),
        last => {
            items.extend(last);
            json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": items })
        }
    };
    print_text(&output.text_of(&value)?.unwrap_or_default());
    Ok(errors)
}

/// The name of an object with its kind and group, as kubectl prints it.
pub(super) fn object_name(object: &Value) -> String {
    let text = |place: &str| object.pointer(place).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_lowercase();
    let group = text("/apiVersion").split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    table::clean(&format!("{kind}{group}/{}", text("/metadata/name")))
}

async fn print_tables(
    client: &ApiClient,
    listings: &[ObjectListing],
    is_wide: bool,
) -> anyhow::Result<Vec<anyhow::Error>> {
    let width = if is_wide { table::UNBOUNDED } else { table::output_width() };
    let mut errors = Vec::new();
    for (number, listing) in listings.iter().enumerate() {
        if number > 0 {
            print_text("\n");
        }
        let everywhere = listing.options.everywhere;
        let mut notes = String::new();
        let (text, found_errors) = if listing.kind.is_host() {
            let (view, errors) = FleetListing::read(client, listing).await?;
            notes = view.notes(width);
            (view.render(jiff::Timestamp::now(), width, is_wide, everywhere), errors)
        } else if listing.kind.kind == "HostGroup" {
            let FoundObjects { items, errors } = fetch(client, listing).await?;
            (groups::render(items, width, is_wide, everywhere)?, errors)
        } else {
            server_table::read(client, listing, is_wide, width).await?
        };
        let shown = if text.is_empty() && found_errors.is_empty() { listing.nothing(client) } else { text };
        if !shown.is_empty() {
            print_text(&(shown + &notes));
        }
        errors.extend(found_errors);
    }
    Ok(errors)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn items_of_lists_are_whole_objects() {
        let host = kinds::by_name("hosts").unwrap();
        let mut item = json!({"metadata": {"name": "a", "managedFields": []}});
        complete(&mut item, host);
        assert_eq!(
            item,
            json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "a"}})
        );
        assert_eq!(object_name(&item), "baremetalhost.metal3.io/a");
        assert_eq!(object_name(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})), "secret/s");
    }
}
