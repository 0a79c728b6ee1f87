//! The API's listener, and who may come in.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_kube::{Api, Core, logs::Logs};
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    build_time::certificate_time,
    data_dir::{DataDir, is_full},
    pki::{Pki, ServerNames},
    renewal::Certificates,
};
use crate::{
    access::{Access, AdminToken},
    http::{
        admin_paths::FiresteelPaths,
        api::ApiServer,
        operators::Operators,
        server::{API_CONNECTIONS, HttpTimeouts, Server},
    },
    metrics::Metrics,
};

/// Bound, and reachable by the kubeconfig in the data folder; nobody is answered yet.
pub struct ApiListener {
    pub pki: Pki,
    listener: TcpListener,
    access: Access,
    data: DataDir,
    admin: String,
    logs: Option<Arc<dyn Logs>>,
}

/// It holds the admin's token.
impl std::fmt::Debug for ApiListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiListener").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl ApiListener {
    /// Binds the address, makes certificates for it and for the other addresses of this process, and leaves
    /// the admin's kubeconfig, which names the port that the system gave where none was asked for.
    ///
    /// # Errors
    /// When the address cannot be had, or a file can be neither read nor written.
    pub async fn open(
        data: &DataDir,
        core: &Core,
        address: SocketAddr,
        mut names: ServerNames,
        ca_years: u8,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listening for the API at {address} (see --api)"))?;
        names.addresses.extend([IpAddr::V4(Ipv4Addr::LOCALHOST), address.ip()]);
        let now = certificate_time();
        let pki = Pki::open_for(data, names, ca_years, now)?;
        let bound = listener.local_addr().context("asking for the API's port")?;
        // The kubeconfig says that the listener is there: what else can fail comes before it.
        let admin = hex::encode(data.secret_key("admin.token")?);
        let access = Access::open(data, core, AdminToken::new(&admin)?, now).await?;
        match admin_access(data, bound, &pki, &admin) {
            // The appliance serves all the same; an earlier one is right unless address or CA changed.
            Err(error) if is_full(&error) => {
                tracing::error!(error = format!("{error:#}"), "admin.kubeconfig is as an earlier start left it");
            }
            written => written?,
        }
        Ok(Self { pki, listener, access, data: data.clone(), admin, logs: None })
    }

    /// The same with logs for `kubectl logs`.
    #[must_use]
    pub fn with_logs(self, logs: Arc<dyn Logs>) -> Self {
        Self { logs: Some(logs), ..self }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        self.listener.local_addr().context("asking for the API's port")
    }

    /// Answers from now on. `operators` have places of their own.
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
        let certificates = Certificates::new(&pki, &data, &access, metrics, (address, &admin));
        metrics.with_rotation(pki.ca_state().begun);
        for (name, not_after) in pki.ends()? {
            metrics.with_certificate(name, not_after);
        }
        tasks.spawn(certificates.clone().keep());
        let api = ApiServer::new(kube, (access, operators), own.with_certificates(certificates), metrics.clone());
        let requests = metrics.requests().clone();
        tasks.spawn(
            server.run(move |request, remote| requests.clone().counted("API", api.clone().handle(request, remote))),
        );
        Ok(())
    }
}

/// The admin's token, in a kubeconfig that `firesteel` and `kubectl` read; made at the first start.
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
    // JSON is YAML, so every reader of kubeconfigs takes it.
    data.write("admin.kubeconfig", serde_json::to_string_pretty(&config)?.as_bytes())
}
