//! The kinds that an appliance serves, and their objects page by page: those that users defined by a CRD are among them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;

use crate::ApiClient;
use crate::client::{code_of, with_query};

/// Objects of one page, and of one of journals: a journal may have megabytes.
const PAGE_OBJECTS: usize = 100;
const PAGE_JOURNALS: usize = 10;
/// The most objects of one kind.
pub(super) const OBJECTS_MAX: usize = 200_000;
const FORBIDDEN: u16 = 403;
/// How often a list begins again whose pages were lost, since the appliance forgets old states.
const RESTARTS_MAX: usize = 3;
const GONE: u16 = 410;

/// A kind that can be listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServedKind {
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
}

impl ServedKind {
    /// The plural with its group, as in `baremetalhosts.metal3.io`.
    pub(super) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of its objects in one namespace, or of all.
    fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let api = self.api_version();
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/{api}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{api}/{}", self.plural),
        }
    }

    /// The most objects that are asked for at once.
    fn page_objects(&self) -> usize {
        if self.plural == "hostjournals" { PAGE_JOURNALS } else { PAGE_OBJECTS }
    }

    /// The most pages of all its objects.
    pub(super) fn pages_max(&self) -> usize {
        OBJECTS_MAX / self.page_objects()
    }

    /// Says whether its objects are shown elsewhere in the same bundle, or are answers to questions.
    fn is_left_out(&self) -> bool {
        // The same events are in the group without a name.
        self.group == "events.k8s.io" || self.group == "authorization.k8s.io" || self.group == "authentication.k8s.io"
    }
}

/// Which objects a bundle is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum BundleScope<'a> {
    /// All that the caller may read; where that is one namespace, it is this one.
    Everything {
        own: &'a str,
    },
    Namespace(&'a str),
}

/// Asks the appliance for its kinds, each once.
///
/// # Errors
/// When the appliance does not answer, or refuses.
pub(super) async fn kinds(client: &ApiClient) -> anyhow::Result<Vec<ServedKind>> {
    let mut found: BTreeMap<(String, String), ServedKind> = BTreeMap::new();
    let groups = client.get("/apis").await.context("could not ask for the kinds of the appliance")?;
    let mut apis = vec![(String::new(), "v1".to_owned())];
    for group in groups["groups"].as_array().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        let preferred = group["preferredVersion"]["version"].as_str().into_iter();
        let others = group["versions"].as_array().into_iter().flatten();
        let others = others.filter_map(|version| version["version"].as_str());
        apis.extend(preferred.chain(others).map(|version| (name.to_owned(), version.to_owned())));
    }
    for (group, version) in apis {
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let list = client.get(&root).await.with_context(|| format!("could not ask for the kinds of {root}"))?;
        for kind in served(&list, &group, &version) {
            found.entry((kind.group.clone(), kind.plural.clone())).or_insert(kind);
        }
    }
    Ok(found.into_values().filter(|kind| !kind.is_left_out()).collect())
}

/// Reads the kinds of a list of resources that can be listed.
fn served(list: &Value, group: &str, version: &str) -> Vec<ServedKind> {
    let resources = list["resources"].as_array().into_iter().flatten();
    let listed = resources.filter(|resource| {
        let verbs = resource["verbs"].as_array().into_iter().flatten();
        verbs.into_iter().any(|verb| verb == "list")
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kinds = listed.map(|resource| ServedKind {
        group: group.to_owned(),
        plural: text(&resource["name"]),
        version: version.to_owned(),
        kind: text(&resource["kind"]),
        namespaced: resource["namespaced"] == true,
    });
    kinds.filter(|kind| !kind.plural.is_empty() && !kind.plural.contains('/')).collect()
}

/// The objects of a kind, page by page.
#[derive(Debug)]
pub(super) struct ObjectPages<'a> {
    client: &'a ApiClient,
    kind: &'a ServedKind,
    path: String,
    after: String,
    restarts: usize,
    is_over: bool,
    /// Why it is about one namespace alone, although all were asked for.
    pub(super) only_namespace: Option<String>,
}

impl<'a> ObjectPages<'a> {
    /// Begins with the first page.
    pub(super) fn new(client: &'a ApiClient, kind: &'a ServedKind, scope: BundleScope<'_>) -> Self {
        let path = match scope {
            BundleScope::Everything { .. } => kind.path(None),
            BundleScope::Namespace(namespace) => kind.path(Some(namespace)),
        };
        Self { client, kind, path, after: String::new(), restarts: 0, is_over: false, only_namespace: None }
    }

    /// Fetches the next page; `None` behind the last one.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(super) async fn next(&mut self, scope: BundleScope<'_>) -> anyhow::Result<Option<Vec<Value>>> {
        while !self.is_over {
            let mut query = vec![("limit", self.kind.page_objects().to_string())];
            if !self.after.is_empty() {
                query.push(("continue", self.after.clone()));
            }
            match self.client.get(&with_query(&self.path, &query)).await {
                Ok(list) => return Ok(Some(self.take(list))),
                Err(error) if code_of(&error) == Some(FORBIDDEN) && self.narrow(scope, &error) => {}
                // The list goes on with the newest state: an object may be in it twice.
                Err(error) if code_of(&error) == Some(GONE) && self.restarts < RESTARTS_MAX => {
                    self.restarts += 1;
                    self.after.clear();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Takes the items of a page, which have neither kind nor version by themselves.
    fn take(&mut self, mut list: Value) -> Vec<Value> {
        self.after = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        self.is_over = self.after.is_empty();
        let Value::Array(mut items) = list["items"].take() else { return Vec::new() };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.insert("apiVersion".to_owned(), self.kind.api_version().into());
            item.insert("kind".to_owned(), self.kind.kind.clone().into());
        }
        items
    }

    /// Goes on with the caller's own namespace, if that is less than what was refused.
    fn narrow(&mut self, scope: BundleScope<'_>, refusal: &anyhow::Error) -> bool {
        let BundleScope::Everything { own } = scope else { return false };
        if !self.kind.namespaced || self.only_namespace.is_some() {
            return false;
        }
        self.path = self.kind.path(Some(own));
        self.only_namespace = Some(format!("only those of namespace {own}: {refusal:#}"));
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_that_can_be_listed_are_collected() {
        let list = json!({"resources": [
            {"name": "baremetalhosts", "kind": "BareMetalHost", "namespaced": true, "verbs": ["get", "list"]},
            {"name": "baremetalhosts/status", "kind": "BareMetalHost", "namespaced": true, "verbs": ["get", "list"]},
            {"name": "reviews", "kind": "Review", "namespaced": false, "verbs": ["create"]},
        ]});
        let found = served(&list, "metal3.io", "v1alpha1");
        assert_eq!(found.iter().map(ServedKind::resource).collect::<Vec<_>>(), ["baremetalhosts.metal3.io"]);
        let host = &found[0];
        assert_eq!(host.path(None), "/apis/metal3.io/v1alpha1/baremetalhosts");
        assert_eq!(host.path(Some("a")), "/apis/metal3.io/v1alpha1/namespaces/a/baremetalhosts");
        let secret =
            ServedKind { group: String::new(), version: "v1".into(), plural: "secrets".into(), ..host.clone() };
        assert_eq!((secret.path(None), secret.resource()), ("/api/v1/secrets".into(), "secrets".into()));
        let journal = ServedKind { plural: "hostjournals".into(), ..host.clone() };
        assert_eq!((journal.page_objects(), journal.pages_max()), (10, 20_000));
        assert_eq!((host.page_objects(), host.pages_max()), (100, 2_000));
    }
}
