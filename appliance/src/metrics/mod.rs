//! `/metrics`: what the appliance counts and what it is like now, for Prometheus.
//!
//! ```text
//!   control (hosts, network, receipts) ─┐
//!   requests ───────────────────────────┼─► Registry ─► OpenMetrics ─► text 0.0.4, where the client asks for no other
//!   now.rs: store, disks, process, … ───┘
//! ```
//!
//! It is read by whoever may, like any path of the API that is no object (role `admin`, or `viewer` everywhere),
//! and by the holder of the scrape token, if the settings name one. That token opens nothing else.
//!
//! Names that begin with `metal3_` are upstream's; ours begin with `firesteel_`, and those of the process are
//! the ones that every client library has. Labels take values from small fixed sets, but for upstream's
//! `namespace` and `host`, which are bounded ([`firesteel_control::HOSTS_NAMED_MAX`]).

mod process;
mod requests;
mod scrape;
mod text;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use firesteel_images::import::ImageStore;
use firesteel_kube::{Api, Status};
use firesteel_runtime::StoreClock;
use firesteel_store::Store;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use prometheus_client::registry::Registry;

use crate::{
    access::AdminToken,
    audit::Audit,
    http::{
        bearer,
        body::{ResponseBody, full, refuse},
    },
    serve::controllers::Controllers,
    text_file::{self, TEXT_FILE_BYTES_MAX},
};
pub use requests::RequestMetrics;
use scrape::{Certificate, MetricsSources};

/// Where they are read.
pub const PATH: &str = "/metrics";
/// A token that could be guessed would be worse than none.
const TOKEN_CHARS_MIN: usize = 16;

/// All that is counted and looked at. Clones share it.
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
    /// `token`: the file with the scrape token, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read, or what is in it is no token.
    pub fn open(store: &Store, data: &Path, audit: &Audit, token: Option<&Path>) -> anyhow::Result<Self> {
        let mut registry = Registry::default();
        let requests = RequestMetrics::default();
        requests.register(&mut registry);
        let now = Arc::new(MetricsSources::new(store.clone(), data, audit.clone()));
        registry.register_collector(Box::new(Arc::clone(&now)));
        let token = token.map(read_token).transpose()?;
        Ok(Self(Arc::new(MetricsRegistry { registry: Mutex::new(registry), requests, now, token })))
    }

    /// Counts what these controllers do as well, and surveys their hosts.
    pub fn with_controllers(&self, controllers: &Controllers, images: ImageStore) {
        let mut registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.now.controllers.set((controllers.clone(), images)).is_ok() {
            controllers.control.register_metrics(&mut registry);
            controllers.configs.register_metrics(&mut registry);
        }
    }

    /// Tells whether this clock is doubted as well.
    pub fn with_clock(&self, clock: &StoreClock) {
        if self.0.now.clock.set(clock.clone()).is_err() {
            tracing::debug!("the clock is known already");
        }
    }

    /// Tells since when a rotation of the CA waits for its end; `None`: there is none.
    pub fn with_rotation(&self, begun: Option<Timestamp>) {
        *self.0.now.rotation.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    /// Tells when this certificate ends as well, or that it ends at another time.
    pub fn with_certificate(&self, name: &'static str, not_after: Timestamp) {
        let mut certificates = self.0.now.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        certificates.retain(|known| known.name != name);
        certificates.push(Certificate { name, not_after });
    }

    /// Tells how many requests and watches this API answers as well.
    pub fn with_api(&self, api: &Api) {
        if self.0.now.api.set(api.clone()).is_err() {
            tracing::debug!("the API's requests are counted already");
        }
    }

    /// The counter of requests.
    #[must_use]
    pub fn requests(&self) -> &RequestMetrics {
        &self.0.requests
    }

    /// Whether a request shows the scrape token.
    #[must_use]
    pub fn knows(&self, headers: &HeaderMap) -> bool {
        let token = bearer::token(headers);
        self.0.token.as_ref().zip(token).is_some_and(|(known, token)| known.is(token))
    }

    /// All of them, in the form that the client asks for.
    pub async fn answer(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let inner = Arc::clone(&self.0);
        // It reads files, and the database's folder.
        let written = tokio::task::spawn_blocking(move || {
            let registry = inner.registry.lock().unwrap_or_else(PoisonError::into_inner);
            text::openmetrics(&registry)
        });
        match written.await {
            Ok(Ok(openmetrics)) if text::wants_openmetrics(headers) => answered(text::OPENMETRICS, openmetrics),
            Ok(Ok(openmetrics)) => answered(text::CLASSIC, text::classic(&openmetrics)),
            Ok(Err(_)) | Err(_) => refuse(&Status::internal("the metrics could not be written")),
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
    let text = text_file::read(path, TEXT_FILE_BYTES_MAX).context("reading --metrics-token")?;
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
