//! `/metrics`: counters and the current state of the appliance, for Prometheus.
//!
//! ```text
//!   control (hosts, network, receipts) ─┐
//!   requests ───────────────────────────┼─► Registry ─► OpenMetrics ─► text 0.0.4, unless the client asks for OpenMetrics
//!   scrape.rs: store, disks, … ─────────┘
//! ```
//!
//! Callers with the right to this path may read it, as any path of the API that is not an object (role `admin`, or
//! `viewer` of all namespaces), and the holder of the scrape token, if the settings name one. That token gives no other
//! right.
//!
//! Names that begin with `metal3_` are upstream's; ours begin with `firesteel_`, and those of the process are the usual
//! ones of Prometheus' client libraries. Labels take values from small fixed sets, except upstream's `namespace` and
//! `host`, which are bounded ([`firesteel_control::HOSTS_NAMED_MAX`]), and those of sensors (`sensors.rs`), which have
//! names that begin with `baremetal_` where they are upstream's.

mod process;
mod requests;
mod scrape;
mod sensors;
mod text;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use firesteel_images::import::ImageStore;
use firesteel_kube::{Api, Status};
use firesteel_runtime::StoreClock;
use firesteel_store::Store;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use prometheus_client::registry::Registry;

use crate::access::AdminToken;
use crate::audit::Audit;
use crate::http::bearer;
use crate::http::body::{ResponseBody, full, refuse};
use crate::serve::controllers::HostControllers;
use crate::text_file::{self, TEXT_FILE_BYTES_MAX};
pub use requests::RequestMetrics;
use scrape::{Certificate, MetricsSources};

/// The path of the metrics.
pub const PATH: &str = "/metrics";
/// A token that can be guessed would be worse than none.
const TOKEN_CHARS_MIN: usize = 16;

/// All counters and everything that a scrape reads. Clones share it.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<MetricsRegistry>);

#[derive(Debug)]
struct MetricsRegistry {
    registry: Mutex<Registry>,
    requests: RequestMetrics,
    now: Arc<MetricsSources>,
    token: Option<AdminToken>,
}

impl Metrics {
    /// Opens the metrics. `token` is the file with the scrape token, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read, or holds no token.
    pub fn open(store: &Store, data: &Path, audit: &Audit, token: Option<&Path>) -> anyhow::Result<Self> {
        let mut registry = Registry::default();
        let requests = RequestMetrics::default();
        requests.register(&mut registry);
        let now = Arc::new(MetricsSources::new(store.clone(), data, audit.clone()));
        registry.register_collector(Box::new(Arc::clone(&now)));
        let token = token.map(read_token).transpose()?;
        Ok(Self(Arc::new(MetricsRegistry { registry: Mutex::new(registry), requests, now, token })))
    }

    /// Adds the counters of these controllers, and a survey of their hosts.
    pub fn with_controllers(&self, controllers: &HostControllers, images: ImageStore) {
        let mut registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.now.controllers.set((controllers.clone(), images)).is_ok() {
            controllers.control.register_metrics(&mut registry);
            controllers.configs.register_metrics(&mut registry);
        }
    }

    /// Adds whether this clock is doubted.
    pub fn with_clock(&self, clock: &StoreClock) {
        if self.0.now.clock.set(clock.clone()).is_err() {
            tracing::debug!("the clock is known already");
        }
    }

    /// Reports since when a rotation of the CA waits for its end; `None` if there is none.
    pub fn with_rotation(&self, begun: Option<Timestamp>) {
        *self.0.now.rotation.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    /// Reports when this certificate ends; a later call replaces the time.
    pub fn with_certificate(&self, name: &'static str, not_after: Timestamp) {
        let mut certificates = self.0.now.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        certificates.retain(|known| known.name != name);
        certificates.push(Certificate { name, not_after });
    }

    /// Adds the numbers of requests and watches that this API answers.
    pub fn with_api(&self, api: &Api) {
        if self.0.now.api.set(api.clone()).is_err() {
            tracing::debug!("the API's requests are counted already");
        }
    }

    /// The counters of requests.
    #[must_use]
    pub fn requests(&self) -> &RequestMetrics {
        &self.0.requests
    }

    /// Tells whether a request has the scrape token.
    #[must_use]
    pub fn knows(&self, headers: &HeaderMap) -> bool {
        let token = bearer::token(headers);
        self.0.token.as_ref().zip(token).is_some_and(|(known, token)| known.is(token))
    }

    /// Answers with all metrics, in the format that the client asks for.
    pub async fn answer(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let inner = Arc::clone(&self.0);
        // This reads files, and the database's folder.
        let written = tokio::task::spawn_blocking(move || {
            let registry = inner.registry.lock().unwrap_or_else(PoisonError::into_inner);
            text::openmetrics(&registry)
        });
        match written.await {
            Ok(Ok(openmetrics)) if text::wants_openmetrics(headers) => answered(text::OPENMETRICS, openmetrics),
            Ok(Ok(openmetrics)) => answered(text::CLASSIC, text::classic(&openmetrics)),
            Ok(Err(_)) | Err(_) => refuse(&Status::internal("could not write the metrics")),
        }
    }
}

fn answered(content_type: &'static str, text: String) -> Response<ResponseBody> {
    let mut response = Response::new(full(text));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn read_token(path: &Path) -> anyhow::Result<AdminToken> {
    let text = text_file::read(path, TEXT_FILE_BYTES_MAX).context("could not read --metrics-token")?;
    let token = text.trim();
    let is_one = token.len() >= TOKEN_CHARS_MIN && token.bytes().all(|byte| byte.is_ascii_graphic());
    anyhow::ensure!(
        is_one,
        "--metrics-token {}: it must hold one word of at least {TOKEN_CHARS_MIN} characters of ASCII",
        path.display()
    );
    AdminToken::new(token)
}

#[cfg(test)]
mod tests;
