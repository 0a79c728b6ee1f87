//! Reads from method and path what a request is about. Pure, bounded, without knowledge of kinds.

use crate::model::{parameter::decode, query::Query, status::Status};

/// The longest path: group, version, namespace, plural, name and subresource at their longest.
const PATH_BYTES_MAX: usize = 2048;
/// Parts of the longest path: apis, group, version, namespaces, ns, plural, name, subresource.
const SEGMENTS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiRoute {
    /// `/livez`, `/healthz`: whether the process answers.
    Health,
    /// `/readyz`: whether it stores what it is sent, too.
    Ready,
    /// The path `/version`.
    Version,
    /// The path `/api`: versions of the core group.
    Core,
    /// The path `/apis`: all other groups.
    Groups,
    /// The path `/apis/{group}`.
    Group(String),
    /// The paths `/api/v1` and `/apis/{group}/{version}`.
    Resources { group: String, version: String },
    /// The path `/openapi/v2`.
    OpenApiV2,
    /// The path `/openapi/v3`: which documents there are.
    OpenApiIndex,
    /// The path `/openapi/v3/{path}`, where the rest is as "apis/metal3.io/v1alpha1".
    OpenApi(String),
    /// Objects of a kind, or one of them.
    Objects(ObjectRoute),
    /// Nothing is served there.
    NotFound,
    /// Something is served there, and not by this method.
    MethodNotAllowed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRoute {
    pub verb: Verb,
    pub group: String,
    pub version: String,
    /// The namespace; empty where the path has none: kinds without namespaces, and all namespaces.
    pub namespace: String,
    pub plural: String,
    /// The name of the object; empty for lists.
    pub name: String,
    /// The part of the object; empty for the object itself.
    pub subresource: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The verb as rules name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

pub fn route(method: &str, path: &str, query: &Query) -> ApiRoute {
    if path.len() > PATH_BYTES_MAX {
        return ApiRoute::NotFound;
    }
    let Some(segments) = segments(path) else { return ApiRoute::NotFound };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let fixed = match segments.as_slice() {
        // Kubernetes has one check below each of them for every part; all of them are this process.
        ["readyz", ..] => Some(ApiRoute::Ready),
        ["livez" | "healthz", ..] => Some(ApiRoute::Health),
        ["version"] => Some(ApiRoute::Version),
        ["api"] => Some(ApiRoute::Core),
        ["apis"] => Some(ApiRoute::Groups),
        ["apis", group] => Some(ApiRoute::Group((*group).into())),
        ["api", version] => Some(ApiRoute::Resources { group: String::new(), version: (*version).into() }),
        ["apis", group, version] => Some(ApiRoute::Resources { group: (*group).into(), version: (*version).into() }),
        ["openapi", "v2"] => Some(ApiRoute::OpenApiV2),
        ["openapi", "v3"] => Some(ApiRoute::OpenApiIndex),
        ["openapi", "v3", rest @ ..] => Some(ApiRoute::OpenApi(rest.join("/"))),
        _ => None,
    };
    match (fixed, method) {
        (Some(route), "GET" | "HEAD") => return route,
        (Some(_), _) => return ApiRoute::MethodNotAllowed,
        (None, _) => {}
    }
    match segments.as_slice() {
        ["api", version, rest @ ..] => objects(method, "", version, rest, query),
        ["apis", group, version, rest @ ..] => objects(method, group, version, rest, query),
        _ => ApiRoute::NotFound,
    }
}

fn objects(method: &str, group: &str, version: &str, rest: &[&str], query: &Query) -> ApiRoute {
    let (namespace, plural, name, subresource) = match rest {
        // A namespace is an object too, with subresources of its own.
        ["namespaces"] => ("", "namespaces", "", ""),
        ["namespaces", name] => ("", "namespaces", *name, ""),
        ["namespaces", name, part @ ("status" | "finalize")] => ("", "namespaces", *name, *part),
        ["namespaces", namespace, plural] => (*namespace, *plural, "", ""),
        ["namespaces", namespace, plural, name] => (*namespace, *plural, *name, ""),
        ["namespaces", namespace, plural, name, part] => (*namespace, *plural, *name, *part),
        [plural] => ("", *plural, "", ""),
        [plural, name] => ("", *plural, *name, ""),
        [plural, name, part] => ("", *plural, *name, *part),
        _ => return ApiRoute::NotFound,
    };
    let verb = match (method, name.is_empty()) {
        ("GET" | "HEAD", true) if query.watch => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::List,
        // Also with `watch`: Kubernetes shows the object.
        ("GET" | "HEAD", false) => Verb::Get,
        ("POST", _) => Verb::Create,
        ("PUT", false) => Verb::Update,
        ("PATCH", false) => Verb::Patch,
        ("DELETE", false) => Verb::Delete,
        ("DELETE", true) => Verb::DeleteCollection,
        _ => return ApiRoute::MethodNotAllowed,
    };
    ApiRoute::Objects(ObjectRoute {
        verb,
        group: group.into(),
        version: version.into(),
        namespace: namespace.into(),
        plural: plural.into(),
        name: name.into(),
        subresource: subresource.into(),
    })
}

/// The decoded parts of a path; a slash at the end does not count. `None` if it is malformed: an
/// empty part would name nothing, and a decoded slash would name something else.
fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut segments = Vec::with_capacity(SEGMENTS_MAX);
    for part in path.split('/') {
        let part = decode(part, false)?;
        let bad = part.is_empty() || part == "." || part == ".." || part.contains(['/', '\0']);
        if bad || segments.len() == SEGMENTS_MAX {
            return None;
        }
        segments.push(part);
    }
    Some(segments)
}

/// Reads any bytes as method, path and query in lines of their own. For fuzzing.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let (method, path, query) = (lines.next(), lines.next(), lines.next());
    let parsed: Result<Query, Status> = Query::parse(query.unwrap_or(""));
    if let Ok(query) = parsed {
        let found = route(method.unwrap_or(""), path.unwrap_or(""), &query);
        if let ApiRoute::Objects(objects) = found {
            assert!(!objects.plural.is_empty());
            assert!(!objects.name.contains('/') && !objects.namespace.contains('/'));
        }
        if let Some(text) = query.label_selector {
            drop(crate::model::selector::LabelSelector::parse(&text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn get(path: &str) -> ApiRoute {
        route("GET", path, &Query::default())
    }

    fn object(verb: Verb, [group, version, namespace, plural, name, subresource]: [&str; 6]) -> ApiRoute {
        ApiRoute::Objects(ObjectRoute {
            verb,
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            plural: plural.into(),
            name: name.into(),
            subresource: subresource.into(),
        })
    }

    #[test]
    fn paths_of_objects() {
        let hosts = "/apis/metal3.io/v1alpha1/namespaces/a/baremetalhosts";
        assert_eq!(get(hosts), object(Verb::List, ["metal3.io", "v1alpha1", "a", "baremetalhosts", "", ""]));
        assert_eq!(
            get(&format!("{hosts}/h/status")),
            object(Verb::Get, ["metal3.io", "v1alpha1", "a", "baremetalhosts", "h", "status"])
        );
        assert_eq!(get("/api/v1/secrets"), object(Verb::List, ["", "v1", "", "secrets", "", ""]));
        assert_eq!(get("/api/v1/namespaces/a"), object(Verb::Get, ["", "v1", "", "namespaces", "a", ""]));
        assert_eq!(get("/api/v1/namespaces/a/status"), object(Verb::Get, ["", "v1", "", "namespaces", "a", "status"]));
        assert_eq!(get("/api/v1/namespaces/a/events/x%20y"), object(Verb::Get, ["", "v1", "a", "events", "x y", ""]));
        let watch = Query { watch: true, ..Query::default() };
        assert_eq!(route("GET", "/api/v1/secrets", &watch), object(Verb::Watch, ["", "v1", "", "secrets", "", ""]));
    }

    #[test]
    fn paths_of_the_server() {
        assert_eq!(get("/version/"), ApiRoute::Version);
        assert_eq!(
            (get("/readyz"), get("/livez"), get("/healthz")),
            (ApiRoute::Ready, ApiRoute::Health, ApiRoute::Health)
        );
        assert_eq!(get("/openapi/v2"), ApiRoute::OpenApiV2);
        assert_eq!(get("/openapi/v3/apis/metal3.io/v1alpha1"), ApiRoute::OpenApi("apis/metal3.io/v1alpha1".into()));
        assert_eq!(get("/apis/metal3.io"), ApiRoute::Group("metal3.io".into()));
        assert_eq!(get("/api/v1"), ApiRoute::Resources { group: String::new(), version: "v1".into() });
        assert_eq!(route("POST", "/version", &Query::default()), ApiRoute::MethodNotAllowed);
        assert_eq!(route("PUT", "/api/v1/secrets", &Query::default()), ApiRoute::MethodNotAllowed);
    }

    #[test]
    fn malformed_paths_are_not_found() {
        for path in [
            "",
            "x",
            "/",
            "//",
            "/api//v1",
            "/openapi/v1",
            "/api/v1/namespaces/a%2fb",
            "/api/v1/%zz",
            "/api/v1/namespaces/../secrets",
            "/apis/a/b/namespaces/c/d/e/f/g",
            "/api/v1/a/b/c/d/e/f",
        ] {
            assert_eq!(get(path), ApiRoute::NotFound, "{path}");
        }
        assert_eq!(get(&format!("/api/v1/{}", "a".repeat(4000))), ApiRoute::NotFound);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            check(&bytes);
        }

        #[test]
        fn no_path_panics(path in "(/[a-z0-9.%/]{0,10}){0,10}", query in "([a-zA-Z]{0,12}=[ -~]{0,20}&){0,4}") {
            check(format!("GET\n{path}\n{query}\n").as_bytes());
        }
    }
}
