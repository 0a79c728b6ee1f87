//! The API's listener and its access control.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_kube::{Api, Core, logs::Logs};
use tokio::{net::TcpListener, task::JoinSet};

use super::build_time::certificate_time;
use super::data_dir::{DataDir, is_full};
use super::pki::{Pki, ServerNames};
use super::renewal::Certificates;
use crate::access::{Access, AdminToken};
use crate::http::admin_paths::FiresteelPaths;
use crate::http::api::ApiServer;
use crate::http::operators::Operators;
use crate::http::server::{API_CONNECTIONS, HttpTimeouts, Server};
use crate::metrics::Metrics;

/// The listener of the API: bound, and named in the kubeconfig of the data folder, but not answering yet.
pub struct ApiListener {
    pub pki: Pki,
    listener: TcpListener,
    access: Access,
    data: DataDir,
    admin: String,
    logs: Option<Arc<dyn Logs>>,
}

/// Hides the admin's token.
impl std::fmt::Debug for ApiListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiListener").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl ApiListener {
    /// Binds the address, makes certificates for it and for the other addresses of this process, and writes the admin's
    /// kubeconfig. That names the port that the system chose if none was requested.
    ///
    /// # Errors
    /// When the address is not available, or a file can be neither read nor written.
    pub async fn open(
        data: &DataDir,
        core: &Core,
        address: SocketAddr,
        mut names: ServerNames,
        ca_years: u8,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("could not listen for the API at {address} (see --api)"))?;
        names.addresses.extend([IpAddr::V4(Ipv4Addr::LOCALHOST), address.ip()]);
        let now = certificate_time();
        let pki = Pki::open_for(data, names, ca_years, now)?;
        let bound = listener.local_addr().context("could not read the API's port")?;
        // The kubeconfig says that the listener is there, so everything else that can fail comes first.
        let admin = hex::encode(data.secret_key("admin.token")?);
        let access = Access::open(data, core, AdminToken::new(&admin)?, now).await?;
        match admin_access(data, bound, &pki, &admin) {
            // The appliance serves all the same; an earlier kubeconfig is right unless address or CA changed.
            Err(error) if is_full(&error) => {
                tracing::error!(
                    error = format!("{error:#}"),
                    "could not write admin.kubeconfig: it is as an earlier start left it"
                );
            }
            written => written?,
        }
        Ok(Self { pki, listener, access, data: data.clone(), admin, logs: None })
    }

    /// Adds logs for `kubectl logs`.
    #[must_use]
    pub fn with_logs(self, logs: Arc<dyn Logs>) -> Self {
        Self { logs: Some(logs), ..self }
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    /// When the system does not return it.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        self.listener.local_addr().context("could not read the API's port")
    }

    /// Starts to answer. Clients in `operators` have places of their own.
    ///
    /// # Errors
    /// When TLS cannot be prepared.
    pub fn spawn(
        self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        core: &Core,
        own: FiresteelPaths,
        operators: Operators,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        let address = self.address()?;
        let Self { pki, listener, access, data, admin, logs } = self;
        let (standings, patience, requests) =
            (operators.client_classes(), HttpTimeouts::default(), metrics.requests().clone());
        let tls = Some(pki.server_for(access.credentials.clients.verifier())?);
        let server = Server { name: "API", listener, tls, share: API_CONNECTIONS, standings, patience, requests };
        tasks.spawn(Arc::clone(&access.rights).follow());
        let mut kube = Api::new(core.clone());
        if let Some(logs) = logs {
            kube = kube.logging(logs);
        }
        let certificates = Certificates::new(&pki, &data, &access, metrics, address, &admin);
        certificates.publish_metrics()?;
        tasks.spawn(certificates.clone().keep());
        let api = ApiServer::new(kube, access, operators, own.with_certificates(certificates), metrics.clone());
        let requests = metrics.requests().clone();
        tasks.spawn(
            server.run(move |request, remote| requests.clone().counted("API", api.clone().handle(request, remote))),
        );
        Ok(())
    }
}

/// Writes the admin's token to a kubeconfig for `firesteel` and `kubectl`; made at the first start.
pub(super) fn admin_access(data: &DataDir, address: SocketAddr, pki: &Pki, token: &str) -> anyhow::Result<()> {
    let server = match address.ip() {
        ip if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        _ => address,
    };
    let name = "firesteel";
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority-data": STANDARD.encode(pki.ca_pem()),
        }}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin", "namespace": "default"}}],
        "current-context": name,
    });
    // JSON is YAML, so every reader of kubeconfigs can parse it.
    data.write("admin.kubeconfig", serde_json::to_string_pretty(&config)?.as_bytes())
}
