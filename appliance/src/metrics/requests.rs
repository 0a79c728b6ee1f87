//! Counts requests by listener and outcome.

use std::future::Future;

use http::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Counts answers of the listeners `API`, `boot`, `agent` and `config`, and connections that got none. Clones share the
/// counts.
#[derive(Clone, Debug, Default)]
pub struct RequestMetrics {
    answered: Family<AnsweredLabels, Counter>,
    closed: Family<ClosedConnection, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClosedConnection {
    listener: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnsweredLabels {
    listener: &'static str,
    code: &'static str,
}

impl RequestMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Requests answered, by listener and class of the answer";
        registry.register("firesteel_http_requests", help, self.answered.clone());
        let help = "Connections closed for want of places, by listener and reason: client, common, full, or yielded to another";
        registry.register("firesteel_http_connections_closed", help, self.closed.clone());
    }

    /// Counts a connection that was closed because no place was left; `reason` is one of a fixed set of words.
    pub fn turned_away(&self, listener: &'static str, reason: &'static str) {
        self.closed.get_or_create(&ClosedConnection { listener, reason }).inc();
    }

    /// Counts an answer once it is complete.
    pub async fn counted<B>(
        self,
        listener: &'static str,
        answer: impl Future<Output = Response<B>> + Send,
    ) -> Response<B> {
        let response = answer.await;
        let code = match response.status().as_u16() {
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        self.answered.get_or_create(&AnsweredLabels { listener, code }).inc();
        response
    }
}
