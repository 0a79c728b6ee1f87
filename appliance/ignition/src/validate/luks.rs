//! Encrypted volumes (`types/luks.go`, `clevis.go` or `custom.go`, `tang.go`, `cex.go`).

use std::collections::HashSet;

use serde::de::IgnoredAny;

use super::resource::{self, ResourceUse};
use super::url::Url;
use super::{ConfigLocation, Rules, path};

/// Most bytes of a LUKS2 label: 48 with the final NUL.
const LABEL_BYTES_MAX: usize = 47;

pub(super) fn check(rules: &mut Rules<'_>, storage: &ConfigLocation<'_>) {
    let volumes = storage.list("luks");
    for volume in &volumes {
        if volume.text("name").unwrap_or_default().contains('/') {
            rules.error(volume, "name", "must be without a slash");
        }
        if volume.text("label").is_some_and(|label| label.len() > LABEL_BYTES_MAX) {
            rules.error(volume, "label", "has more than 47 bytes");
        }
        rules.error_if_some(volume, "device", path::fault(volume.text("device").unwrap_or_default()));
        resource::check(rules, &volume.object("keyFile"), ResourceUse::Contents);
        clevis(rules, &volume.object("clevis"));
        cex(rules, volume);
        // `options` may stand twice; these may not.
        rules.unique_texts(volume, "openOptions", &mut HashSet::new());
    }
    rules.unique(&volumes, "name", &mut HashSet::new());
}

fn clevis(rules: &mut Rules<'_>, clevis: &ConfigLocation<'_>) {
    let tangs = clevis.list("tang");
    for tang in &tangs {
        let scheme = Url::parse(tang.text("url").unwrap_or_default()).map(|url| url.scheme);
        if !matches!(scheme.as_deref(), Some("http" | "https")) {
            rules.error(tang, "url", "must be a URL of http or https");
        }
        if tang.filled("thumbprint").is_none() {
            rules.error(tang, "thumbprint", "is needed");
        }
        if tang.filled("advertisement").is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_err()) {
            rules.error(tang, "advertisement", "is not JSON");
        }
    }
    rules.unique(&tangs, "url", &mut HashSet::new());
    let custom = clevis.object("custom");
    custom_pin(rules, &custom);
    // In 3.2 an empty one is one.
    let has_custom = if rules.minor == 2 { clevis.has("custom") } else { custom.filled("pin").is_some() };
    if has_custom && has_pins(clevis) {
        rules.error(clevis, "custom", "must be alone: without tpm2, tang and threshold");
    }
}

fn has_pins(clevis: &ConfigLocation<'_>) -> bool {
    !clevis.list("tang").is_empty() || clevis.is("tpm2", true) || clevis.whole("threshold").unwrap_or_default() != 0
}

fn custom_pin(rules: &mut Rules<'_>, custom: &ConfigLocation<'_>) {
    let (pin, config) = (custom.filled("pin"), custom.filled("config"));
    // In 3.2 a need for the network alone says nothing.
    let needs_network = rules.minor >= 3 && custom.is("needsNetwork", true);
    if pin.is_none() && config.is_none() && !needs_network {
        return;
    }
    if !matches!(pin, Some("tpm2" | "tang" | "sss")) {
        rules.error(custom, "pin", "must be tpm2, tang or sss");
    }
    if config.is_none() {
        rules.error(custom, "config", "is needed");
    }
}

/// Keys in an IBM Z crypto card, which need no other key (3.5).
fn cex(rules: &mut Rules<'_>, volume: &ConfigLocation<'_>) {
    let clevis = volume.object("clevis");
    if !volume.object("cex").is("enabled", true) {
        return;
    }
    if clevis.object("custom").filled("pin").is_some() || has_pins(&clevis) {
        rules.error(volume, "cex", "goes without clevis");
    }
    if volume.object("keyFile").filled("source").is_some() {
        rules.error(volume, "cex", "goes without keyFile");
    }
}
