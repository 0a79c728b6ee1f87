//! The API of an appliance whose database cannot be opened. The process stays, since another start would find the same
//! file: it answers every request with 500, the file, the cause and the remedy. It serves nothing else: no lease, no
//! boot script, no token, no config; and it writes nothing to the database.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use firesteel_kube::Status;
use firesteel_store::StoreOpenError;
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::{net::TcpListener, task::JoinSet};

use super::api::admin_access;
use super::build_time::certificate_time;
use super::data_dir::DataDir;
use super::pki::{Pki, ServerNames};
use super::settings::Settings;
use super::until_signal;
use crate::access::AdminToken;
use crate::access::certificates::ClientCa;
use crate::http::bearer;
use crate::http::body::{ResponseBody, refuse, text};
use crate::http::operators::Operators;
use crate::http::server::{API_CONNECTIONS, HttpTimeouts, RequestBody, Server};
use crate::metrics::RequestMetrics;

/// The answer to everyone but the owner: strangers must not learn a path, and "unauthorized" would be wrong for users
/// whose grants cannot be read.
const FOR_OTHERS: &str = "the appliance cannot open its database; its owner gets the details";

/// Returns why a database cannot be opened and what to do, if the file itself is the cause.
pub(super) fn unopened_reason(error: &anyhow::Error, data: &Path) -> Option<String> {
    let found = error.downcast_ref::<StoreOpenError>().filter(|error| error.is_damage())?;
    if found.is_out_of_reach() {
        return Some(format!(
            "could not open the database: {error:#}. Nothing is served or changed meanwhile: look at the permissions of \
             {} and of the files in it, free space on its disk, and start the appliance again",
            data.display()
        ));
    }
    Some(format!(
        "could not open the database: {error:#}. Nothing is served or changed meanwhile: stop the appliance, look at \
         the disk, restore a backup with `firesteel restore BACKUP --data {} --force` (what is there is kept under another \
         name), and start the appliance again",
        data.display()
    ))
}

/// Answers until a signal.
pub(super) async fn serve(settings: &Settings, data: &DataDir, why: String) -> anyhow::Result<()> {
    tracing::error!("{why}");
    let now = certificate_time();
    let address = settings.api;
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("could not listen for the API at {address} (see --api)"))?;
    let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), address.ip()];
    let pki = Pki::open_for(data, ServerNames { addresses, names: Vec::new() }, settings.ca_years, now)?;
    let clients = ClientCa::open(data, now)?;
    let admin = hex::encode(data.secret_key("admin.token")?);
    let bound = listener.local_addr().context("could not read the API's port")?;
    admin_access(data, bound, &pki, &admin)?;
    let answers = Arc::new(UnopenedStoreApi { admin: AdminToken::new(&admin)?, why });
    let tls = Some(pki.server_for(clients.verifier())?);
    let (standings, patience, requests) =
        (Operators::default().client_classes(), HttpTimeouts::default(), RequestMetrics::default());
    let server = Server { name: "API", listener, tls, share: API_CONNECTIONS, standings, patience, requests };
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(move |request: Request<RequestBody>, _| {
        let answers = Arc::clone(&answers);
        async move { answers.to(request.uri().path(), request.headers()) }
    }));
    until_signal(tasks).await
}

/// The answers to all requests.
struct UnopenedStoreApi {
    admin: AdminToken,
    why: String,
}

impl UnopenedStoreApi {
    fn to(&self, path: &str, headers: &HeaderMap) -> Response<ResponseBody> {
        if path == "/livez" {
            return text(StatusCode::OK, "ok");
        }
        let is_owner = bearer::token(headers).is_some_and(|token| self.admin.is(token));
        refuse(&Status::unreadable(if is_owner { self.why.as_str() } else { FOR_OTHERS }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_store::Store;
    use http::{HeaderValue, header::AUTHORIZATION};

    use super::*;

    #[test]
    fn the_owner_is_told_file_and_remedy_and_others_that_it_is_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resources.db");
        std::fs::write(&path, "x".repeat(8192)).unwrap();
        let error = anyhow::Error::from(Store::open(&path).unwrap_err()).context("opening the store");
        let why = unopened_reason(&error, folder.path()).unwrap();
        assert!(why.contains("resources.db") && why.contains("firesteel restore"), "{why}");
        let unopened = UnopenedStoreApi { admin: AdminToken::new("owner").unwrap(), why };
        let mut headers = HeaderMap::new();
        for (token, is_owner) in [("Bearer other", false), ("Bearer owner", true)] {
            headers.insert(AUTHORIZATION, HeaderValue::from_static(token));
            let answer = unopened.to("/api/v1/namespaces", &headers);
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "no credential is called wrong");
            let told = futures_util::FutureExt::now_or_never(http_body_util::BodyExt::collect(answer.into_body()));
            let told = told.unwrap().unwrap().to_bytes();
            let told = String::from_utf8_lossy(&told);
            assert_eq!(told.contains("resources.db"), is_owner, "{told}");
        }
        assert_eq!(unopened.to("/readyz", &headers).status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(unopened.to("/livez", &HeaderMap::new()).status(), StatusCode::OK);
    }

    #[test]
    fn a_file_that_cannot_be_reached_is_not_called_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resources.db");
        std::fs::create_dir(&path).unwrap();
        let error = anyhow::Error::from(Store::open(&path).unwrap_err());
        let why = unopened_reason(&error, folder.path()).unwrap();
        assert!(why.contains("permissions") && why.contains("free space") && !why.contains("restore"), "{why}");
    }

    #[test]
    fn what_is_no_damage_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resources.db");
        let _open = Store::open(&path).unwrap();
        let error = anyhow::Error::from(Store::open(&path).unwrap_err());
        assert_eq!(unopened_reason(&error, folder.path()), None, "another process has it");
    }
}
