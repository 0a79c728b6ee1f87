//! The two text formats: OpenMetrics 1.0, which the registry writes, and Prometheus' own 0.0.4, converted from it.

use http::{HeaderMap, header};
use prometheus_client::{encoding::text::encode, registry::Registry};

/// The content type of OpenMetrics, of which
/// <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md> is the specification.
pub(super) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of the older format (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
pub(super) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn openmetrics(registry: &Registry) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry).map(|()| text)
}

/// Tells whether the client accepts OpenMetrics. Weights are ignored: a client that names the format can read it, and
/// Prometheus prefers it.
pub(super) fn wants_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        parts.next() == Some("application/openmetrics-text") && !parts.any(|part| part == "q=0" || part == "q=0.0")
    })
}

/// Converts to the older format: there a counter's name ends in `_total` in its description too, and there are no lines
/// for units and for the end.
pub(super) fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = "";
    for line in openmetrics.lines() {
        if let Some((_, words)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help = words;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let total = if kind == "counter" { "_total" } else { "" };
            text.push_str(&format!("# HELP {name}{total} {help}\n# TYPE {name}{total} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
