//! A client with an appliance of its own.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_tests::appliance::Appliance;
use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "default";
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    /// Ends with the test, whatever part of this it takes.
    appliance: Arc<Mutex<Appliance>>,
    pub(crate) client: Client,
}

/// Runs a test with an appliance of its own.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    // It may be there already, from a test of the same process.
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let appliance = Arc::new(Mutex::new(Appliance::start(env!("CARGO_BIN_EXE_firesteel-tested"))));
        let kubeconfig = Kubeconfig::read_from(appliance.lock().unwrap().kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        test(World { appliance: appliance.clone(), client }).await;
        drop(appliance);
    });
}

impl World {
    pub(crate) fn forget_history(&self) {
        self.appliance.lock().unwrap().forget_history();
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn hosts(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &host_resource())
    }
}

pub(crate) fn host_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("metal3.io", "v1alpha1", "BareMetalHost");
    ApiResource::from_gvk_with_plural(&kind, "baremetalhosts")
}

pub(crate) fn host(name: &str) -> DynamicObject {
    DynamicObject::new(name, &host_resource()).data(json!({"spec": {"online": true}}))
}

pub(crate) fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

pub(crate) fn at<'a>(object: &'a DynamicObject, pointer: &str) -> &'a Value {
    object.data.pointer(pointer).unwrap_or(&Value::Null)
}

/// The next of a stream that never ends.
pub(crate) async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    soon(stream.next()).await.expect("the stream ended")
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing came")
}

/// The code of an answer that is an error.
pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> u16 {
    match answer.unwrap_err() {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}
