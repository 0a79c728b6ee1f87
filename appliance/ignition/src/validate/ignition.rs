//! The section `ignition`: configs that are merged, authorities, proxy (`types/ignition.go`, `tls.go`, `proxy.go`).
//! Timeouts have no rule but their type.

use std::collections::HashSet;

use super::resource::{self, ResourceUse};
use super::url::Url;
use super::{ConfigLocation, Rules};

pub(super) fn check(rules: &mut Rules<'_>, ignition: &ConfigLocation<'_>) {
    let config = ignition.object("config");
    resource::check(rules, &config.object("replace"), ResourceUse::Replace);
    let tls = ignition.object("security").object("tls");
    for (list, used) in
        [(config.list("merge"), ResourceUse::Merge), (tls.list("certificateAuthorities"), ResourceUse::Authority)]
    {
        for entry in &list {
            resource::check(rules, entry, used);
        }
        rules.unique(&list, "source", &mut HashSet::new());
    }
    proxy(rules, &ignition.object("proxy"));
}

fn proxy(rules: &mut Rules<'_>, proxy: &ConfigLocation<'_>) {
    for (field, may_be_plain) in [("httpProxy", true), ("httpsProxy", false)] {
        let Some(text) = proxy.text(field) else { continue };
        match Url::parse(text).map(|url| url.scheme).as_deref() {
            Some("https") => {}
            Some("http") if may_be_plain => {}
            Some("http") => rules.warning(proxy, field, "is plain HTTP, for what is fetched by HTTPS"),
            Some(_) => rules.error(proxy, field, "must be a URL of http or https"),
            None => rules.error(proxy, field, "is not a URL"),
        }
    }
    rules.unique_texts(proxy, "noProxy", &mut HashSet::new());
}
