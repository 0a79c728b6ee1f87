//! The API's listener, and who may come in.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_kube::{Api, Core};
use jiff::Timestamp;
use tokio::{net::TcpListener, task::JoinSet};

use super::{data_dir::DataDir, pki::Pki};
use crate::http::{
    api::{self, AdminToken},
    known::Known,
    own::Own,
    server::{API_CONNECTIONS, Patience, Server},
};

/// Bound, and reachable by the kubeconfig in the data folder; nobody is answered yet.
#[derive(Debug)]
pub struct ApiListener {
    pub pki: Pki,
    listener: TcpListener,
    admin: AdminToken,
}

impl ApiListener {
    /// Binds the address, makes certificates for it and for the other addresses of this process, and leaves
    /// the admin's kubeconfig, which names the port that the system gave where none was asked for.
    ///
    /// # Errors
    /// When the address cannot be had, or a file can be neither read nor written.
    pub async fn open(data: &DataDir, address: SocketAddr, others: &[IpAddr]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listening for the API at {address} (see --api)"))?;
        let addresses: Vec<IpAddr> =
            others.iter().copied().chain([IpAddr::V4(Ipv4Addr::LOCALHOST), address.ip()]).collect();
        let pki = Pki::open(data, &addresses, Timestamp::now())?;
        let bound = listener.local_addr().context("asking for the API's port")?;
        let admin = admin_access(data, bound, &pki)?;
        Ok(Self { pki, listener, admin })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        self.listener.local_addr().context("asking for the API's port")
    }

    /// Answers from now on. Addresses that are `known` have places of their own.
    pub fn spawn(self, tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core, own: Own, known: &Known) {
        let Self { pki, listener, admin } = self;
        let (is_known, patience) = (known.is_known(), Patience::default());
        let tls = Some(Arc::clone(&pki.server));
        let server = Server { name: "API", listener, tls, share: API_CONNECTIONS, is_known, patience };
        let kube = Api::new(core.clone());
        let on_api = move |request, remote| api::handle(kube.clone(), own.clone(), admin.clone(), request, remote);
        tasks.spawn(server.run(on_api));
    }
}

/// The admin's token, in a kubeconfig that `firesteel` and `kubectl` read; made at the first start.
fn admin_access(data: &DataDir, address: SocketAddr, pki: &Pki) -> anyhow::Result<AdminToken> {
    let token = hex::encode(data.secret_key("admin.token")?);
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
            "certificate-authority-data": STANDARD.encode(&pki.ca_pem),
        }}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin", "namespace": "default"}}],
        "current-context": name,
    });
    // JSON is YAML, so every reader of kubeconfigs takes it.
    data.write_private("admin.kubeconfig", serde_json::to_string_pretty(&config)?.as_bytes())?;
    AdminToken::new(&token).map_err(|_| anyhow::anyhow!("the system gives no random bytes"))
}
