//! Says what is user data as a whole: of cloud-init, of Windows, a script, or Ignition. Pure.

use serde_json::{Map, Value};

/// How user data begins, in small letters.
const BEGINS: [&str; 14] = [
    "#cloud-config",
    "#cloud-boothook",
    "#part-handler",
    "#upstart-job",
    "#!",
    "#include",
    "#ignition",
    "#ps1",
    "## template: jinja",
    "content-type: multipart/",
    "mime-version:",
    "<powershell>",
    "<script>",
    "rem cmd",
];
/// The longest of them.
const BEGIN_BYTES_MAX: usize = 24;

/// Says whether an object is an Ignition config.
pub(crate) fn is_ignition(fields: &Map<String, Value>) -> bool {
    fields.get("ignition").is_some_and(|ignition| ignition["version"].is_string())
}

/// Says whether a text is user data as a whole.
pub(crate) fn is_user_data(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let start = text[..text.floor_char_boundary(BEGIN_BYTES_MAX)].to_ascii_lowercase();
    BEGINS.iter().any(|begin| start.starts_with(begin))
        || (text.starts_with('{')
            && serde_json::from_str::<Value>(text).is_ok_and(|value| value.as_object().is_some_and(is_ignition)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_is_known_by_its_beginning() {
        for text in [
            "#cloud-config\nusers: []",
            "\n#!/bin/sh\n",
            "MIME-Version: 1.0\nContent-Type: multipart/mixed",
            "Content-Type: multipart/mixed; boundary=x",
            "## template: jinja\n#cloud-config",
            "#cloud-boothook\nx",
            "<powershell>x</powershell>",
            "#ps1_sysnative\nx",
            "{\"ignition\": {\"version\": \"3.2.0\"}}",
        ] {
            assert!(is_user_data(text), "{text}");
        }
        for text in ["# a comment", "{\"ignition\": 1}", "ready", "", "äöü äöü äöü äöü äöü"] {
            assert!(!is_user_data(text), "{text}");
        }
    }
}
