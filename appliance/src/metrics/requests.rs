//! Requests by listener and by what became of them.

use std::future::Future;

use http::Response;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Answers of the listeners `API`, `boot`, `agent` and `config`, and connections that got none. Clones share the counts.
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
        let help = "Connections closed because there are too many, by listener and reason: client, common or full for a \
                    new one, yielded for one that was waited for";
        registry.register("firesteel_http_connections_closed", help, self.closed.clone());
    }

    /// Counts a connection that was closed for want of places; the reasons are words of ours.
    pub fn turned_away(&self, listener: &'static str, reason: &'static str) {
        self.closed.get_or_create(&ClosedConnection { listener, reason }).inc();
    }

    /// Counts an answer when it is there.
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
