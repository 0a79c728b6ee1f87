//! Methods, paths and queries of the API, and Accept headers.

use firesteel_kube::route::{self, ApiRoute};
use firesteel_kube::{LabelSelector, Query, negotiate};
use serde_json::json;

/// Of one part of a path: nothing that is decoded gets longer.
const PATH_BYTES_MAX: usize = 2048;

/// Method, path, query and Accept header in lines of their own.
pub(super) fn check(input: &[u8]) {
    route::check(input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.split('\n');
    let (method, path, query) =
        (lines.next().unwrap_or_default(), lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    for discovery in [true, false] {
        drop(negotiate::accept(lines.clone().next(), discovery));
    }
    drop(negotiate::media_type(lines.next()));
    let query = match Query::parse(query) {
        Ok(query) => query,
        Err(status) => return assert!((400..500).contains(&status.code), "{status:?}"),
    };
    if let ApiRoute::Objects(found) = route::route(method, path, &query) {
        let parts = [&found.group, &found.version, &found.namespace, &found.plural, &found.name, &found.subresource];
        for part in parts {
            assert!(!part.contains(['/', '\0']) && !matches!(part.as_str(), "." | ".."), "{part:?}");
        }
        assert!(parts.iter().map(|part| part.len()).sum::<usize>() <= PATH_BYTES_MAX);
        // The path that these parts make leads to the same object.
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if parts.iter().all(|part| plain(part)) && found.plural != "namespaces" {
            let mut made = if found.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", found.group) };
            made.extend(["/", &found.version]);
            if !found.namespace.is_empty() {
                made.extend(["/namespaces/", &found.namespace]);
            }
            for part in [&found.plural, &found.name, &found.subresource].into_iter().filter(|part| !part.is_empty()) {
                made.extend(["/", part]);
            }
            assert_eq!(route::route(method, &made, &query), ApiRoute::Objects(found), "{made}");
        }
    }
    if let Some(selector) = query.label_selector.as_deref().and_then(|text| LabelSelector::parse(text).ok()) {
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let matches = selector.matches(&object);
        assert!(!selector.is_empty() || matches, "an empty selector takes everything");
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        "GET\n/apis/metal3.io/v1alpha1/namespaces/a/baremetalhosts/h/status\n\napplication/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "GET\n/api/v1/secrets\nwatch=1&labelSelector=a%20in%20%28b%2Cc%29%2Cd!%3De%2C!f&limit=500&resourceVersion=7&allowWatchBookmarks=true\n",
        "POST\n/api/v1/namespaces/a/secrets\ndryRun=All&fieldValidation=Strict\n",
        "DELETE\n/apis/metal3.io/v1alpha1/baremetalhosts\nfieldSelector=metadata.name%3Dx&propagationPolicy=Background\n",
        "GET\n/api/v1/namespaces/%2e%2e/secrets/a%2fb\nlabelSelector=%zz\n",
        "PATCH\n/api/v1/namespaces/a/status\ntimeoutSeconds=-1&sendInitialEvents=t&continue=x\n",
        "GET\n/readyz/ping\n\n*/*",
        "GET\n/apis\n\napplication/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
