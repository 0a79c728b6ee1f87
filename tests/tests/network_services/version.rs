//! The appliance is started as another version than the one that is stored (S0.29).

use reqwest::Client;
use serde_json::{Value, json};

use crate::site::{Site, condition, runtime, trusting_client, with_site};

const OBJECTS: &str = "/apis/metal3.io/v1alpha1/provisionings";
const NAME: &str = "provisioning-configuration";
const PAUSED: &str = "provisioning.metal3.io/paused";
/// The version that an earlier program left.
const EARLIER: &str = "0.0.1";

/// A client of the API as the admin.
struct Admin {
    client: Client,
    url: String,
    token: String,
}

impl Admin {
    fn of(site: &Site) -> Self {
        let client = trusting_client(&site.appliance);
        Self { client, url: site.appliance.url(), token: site.appliance.token() }
    }

    /// Writes the status as an earlier program would have.
    async fn put_status(&self, object: &Value) {
        let url = format!("{}{OBJECTS}/{NAME}/status", self.url);
        let put = self.client.put(url).bearer_auth(&self.token).header("content-type", "application/json");
        let answer = put.body(object.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// Pauses the object, or with null lets it go on.
    async fn annotate(&self, value: &Value) {
        let patch = json!({"metadata": {"annotations": {PAUSED: value}}});
        let request = self.client.patch(format!("{}{OBJECTS}/{NAME}", self.url)).bearer_auth(&self.token);
        let request = request.header("content-type", "application/merge-patch+json").body(patch.to_string());
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// Returns each state of the object from the given one on, until one is as wanted.
    async fn states(&self, from: &Value, until: impl Fn(&Value) -> bool) -> Vec<Value> {
        let revision = from["metadata"]["resourceVersion"].as_str().unwrap();
        let url = format!("{}{OBJECTS}?watch=true&resourceVersion={revision}", self.url);
        let mut answer = self.client.get(url).bearer_auth(&self.token).send().await.unwrap();
        let (mut text, mut states) = (String::new(), Vec::new());
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((line, rest)) = text.split_once('\n') {
                let event: Value = serde_json::from_str(line).unwrap();
                text = rest.to_owned();
                states.push(event["object"].clone());
                if until(states.last().unwrap()) {
                    return states;
                }
            }
        }
        panic!("the watch ended after {states:#?}");
    }
}

#[test]
fn another_version_is_said_once_over_a_restart() {
    with_site(|site| {
        let version = site.object()["status"]["version"].as_str().unwrap().to_owned();
        assert_ne!(version, EARLIER);
        // What is paused keeps the status that it has.
        runtime().block_on(Admin::of(site).annotate(&json!("")));
        let mut object = site.object();
        object["status"]["version"] = json!(EARLIER);
        runtime().block_on(Admin::of(site).put_status(&object));
        site.appliance.kill_and_start_again();
        let paused = site.object();
        assert_eq!(paused["status"]["version"], EARLIER);
        runtime().block_on(Admin::of(site).annotate(&Value::Null));
        let is_done = |object: &Value| {
            object["status"]["version"] == version.as_str() && condition(object, "Progressing")["status"] == "False"
        };
        let states = runtime().block_on(Admin::of(site).states(&paused, is_done));
        let changed = format!("the appliance was changed from {EARLIER} to {version}");
        let says = |object: &&Value| {
            let progressing = condition(object, "Progressing");
            progressing["status"] == "True" && progressing["message"].as_str().unwrap().starts_with(&changed)
        };
        assert!(states.iter().any(|state| says(&state)), "{states:#?}");
        assert!(!says(&states.last().unwrap()));
        // The next start of the same program says nothing of it.
        let before = site.object();
        site.appliance.kill_and_start_again();
        site.edit(&json!({"provisioningDNS": true}));
        let is_edited = |object: &Value| {
            condition(object, "Available")["reason"] == "DeployComplete"
                && object["status"]["observedGeneration"] == object["metadata"]["generation"]
                && object["spec"]["provisioningDNS"] == true
        };
        let states = runtime().block_on(Admin::of(site).states(&before, is_edited));
        assert!(!states.iter().any(|state| says(&state)), "{states:#?}");
    });
}
