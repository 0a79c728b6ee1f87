//! What tests share: upstream's files, where they are beside the project, and certificates that only look like some.
#![allow(clippy::unwrap_used, reason = "tests")]

use base64::{Engine as _, engine::general_purpose::STANDARD};
pub(crate) use firesteel_fixtures::bytes as fixture;
use serde_json::Value;

pub(crate) fn stub(name: &str) -> Option<Vec<u8>> {
    fixture(&format!("ignition/stubs/{name}"))
}

pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// The CA in a stub.
pub(crate) fn authority_of(stub: &[u8]) -> String {
    let config = json(stub);
    let source = config.pointer("/ignition/security/tls/certificateAuthorities/0/source").unwrap();
    String::from_utf8(crate::data_url::decode(source.as_str().unwrap()).unwrap()).unwrap()
}

/// Makes a certificate that `seed` names; its content is never read here.
pub(crate) fn certificate(seed: &str) -> String {
    let body = STANDARD.encode(format!("certificate {seed} {}", "x".repeat(60)));
    let lines: Vec<&str> = body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Ignition takes it.
pub(crate) fn assert_valid(config: &Value) {
    let findings = crate::validate(config.to_string().as_bytes());
    assert!(findings.errors.is_empty(), "{config:#}\n{findings:?}");
}
