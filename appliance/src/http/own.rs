//! The API's paths that are no objects: what the appliance's owner does with the appliance itself.
//!
//! | request | what it does |
//! |---|---|
//! | `POST /firesteel.dev/rekey` | seals all secrets by a new key |

use std::sync::Arc;

use firesteel_kube::{Caller, Status};
use firesteel_store::Store;
use http::{Method, Request, Response, StatusCode};
use serde_json::json;

use super::{
    body::{ResponseBody, json},
    server::RequestBody,
};
use crate::serve::at_rest::KeyFile;

const PREFIX: &str = "/firesteel.dev/";

/// What these paths need. Clones share it.
#[derive(Clone, Debug)]
pub struct Own {
    store: Store,
    key_file: Arc<KeyFile>,
}

impl Own {
    #[must_use]
    pub fn new(store: &Store, key_file: KeyFile) -> Self {
        Self { store: store.clone(), key_file: Arc::new(key_file) }
    }

    /// Whether a path is one of these.
    #[must_use]
    pub fn serves(path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request<RequestBody>, caller: &Caller) -> Response<ResponseBody> {
        if !caller.admin {
            let (name, path) = (&caller.name, request.uri().path());
            return refuse(&Status::forbidden(format!("forbidden: User {name:?} cannot use path {path:?}")));
        }
        match (request.method(), request.uri().path().strip_prefix(PREFIX)) {
            (&Method::POST, Some("rekey")) => self.rekey().await,
            (_, Some("rekey")) => refuse(&Status::method_not_allowed()),
            _ => refuse(&Status::no_route()),
        }
    }

    async fn rekey(&self) -> Response<ResponseBody> {
        // In a task of its own: it is not to stop half-way because its asker went away.
        let (store, key_file) = (self.store.clone(), Arc::clone(&self.key_file));
        let changed = tokio::spawn(async move { key_file.change(&store).await }).await;
        match changed.map_err(anyhow::Error::from).and_then(|changed| changed) {
            Ok(rekeyed) => {
                let damaged: Vec<String> = rekeyed.resealed.damaged.iter().map(ToString::to_string).collect();
                let value = json!({ "key": rekeyed.key, "values": rekeyed.resealed.values, "damaged": damaged });
                json(StatusCode::OK, &value)
            }
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "changing the key of the secrets");
                refuse(&Status::internal(format!("changing the key of the secrets: {error:#}")))
            }
        }
    }
}

fn refuse(status: &Status) -> Response<ResponseBody> {
    json(StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &status.to_value())
}
