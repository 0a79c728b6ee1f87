//! Requests by listener and by what became of them.

use std::future::Future;

use http::Response;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Answers of the listeners `API`, `boot` and `agent`. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Requests(Family<Answered, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    listener: &'static str,
    code: &'static str,
}

impl Requests {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Requests answered, by listener and class of the answer";
        registry.register("firesteel_http_requests", help, self.0.clone());
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
        self.0.get_or_create(&Answered { listener, code }).inc();
        response
    }
}
