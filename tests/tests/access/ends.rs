//! The ends of rights: at once, on connections that are kept, and of what is open.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::people::{GRANTS, Person, Site, run, succeeded};

const SECRETS: &str = "/api/v1/namespaces/claims-a/secrets";

/// Lines of an open watch.
struct Watch {
    response: Response,
    buffer: Vec<u8>,
}

impl Watch {
    async fn of(person: &Person, path: &str) -> Self {
        let response = person.ask(Method::GET, &format!("{path}?watch=1"), &Value::Null).await;
        assert_eq!(response.status().as_u16(), 200);
        Self { response, buffer: Vec::new() }
    }

    async fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                return Some(serde_json::from_slice(&line).unwrap());
            }
            self.buffer.extend_from_slice(&self.response.chunk().await.unwrap()?);
        }
    }

    /// The end, with its reason.
    async fn end(&mut self) -> u64 {
        let last = self.line().await.unwrap();
        assert_eq!(last["type"], "ERROR", "{last}");
        assert_eq!(self.line().await, None, "nothing comes after it");
        last["object"]["code"].as_u64().unwrap()
    }
}

#[test]
fn a_user_who_is_put_out_is_out_at_once() {
    run(async {
        let site = Site::new().await;
        let file = site.let_in("tim", "tenant", Some("claims-a"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let tim = Person::of(&file);
        let ann = site.person("ann", "operator", Some("hosts-a"));
        let mut watch = Watch::of(&tim, SECRETS).await;
        assert_eq!(watch.line().await.unwrap()["type"], "ADDED");
        assert_eq!(tim.get(SECRETS).await, 200);
        let said =
            succeeded(&site.appliance.command().args(["kubeconfig", "--revoke", "tim", "--yes"]).output().unwrap());
        assert!(said.contains("tim-tenant-claims-a"), "{said}");
        // On the connection that he has.
        assert_eq!(tim.get(SECRETS).await, 401);
        assert_eq!(watch.end().await, 401);
        assert_eq!(ann.get("/api/v1/namespaces/hosts-a/secrets").await, 200, "nobody else notices");
        // Another grant of the same name does not bring the old certificate back.
        let again = site.person("tim", "tenant", Some("claims-a"));
        assert_eq!(again.get(SECRETS).await, 200);
        assert_eq!(
            (tim.get(SECRETS).await, Person::of(&file).get(SECRETS).await),
            (401, 200),
            "only the new file is good"
        );
        let twice = site.appliance.command().args(["kubeconfig", "--revoke", "nobody", "--yes"]).output().unwrap();
        assert!(!twice.status.success());
    });
}

#[test]
fn a_right_that_is_taken_ends_what_is_open_by_it_and_leaves_the_rest() {
    run(async {
        let site = Site::new().await;
        let ann = site.person("ann", "operator", Some("hosts-a"));
        let hosts = "/apis/metal3.io/v1alpha1/namespaces/hosts-a/baremetalhosts";
        let secrets = "/api/v1/namespaces/hosts-a/secrets";
        let (mut of_secrets, mut of_hosts) = (Watch::of(&ann, secrets).await, Watch::of(&ann, hosts).await);
        of_secrets.line().await.unwrap();
        of_hosts.line().await.unwrap();
        let patch = json!({ "spec": { "role": "viewer" } });
        let merge = [("content-type", "application/merge-patch+json")];
        let path = format!("{GRANTS}/ann-operator-hosts-a");
        assert_eq!(site.admin.ask_as(Method::PATCH, &path, &merge, &patch).await.status().as_u16(), 200);
        assert_eq!(of_secrets.end().await, 403);
        assert_eq!((ann.get(secrets).await, ann.get(hosts).await), (403, 200));
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let changed = site.admin.ask_as(Method::PATCH, &format!("{hosts}/x"), &merge, &label).await;
        assert_eq!(changed.status().as_u16(), 200);
        assert_eq!(of_hosts.line().await.unwrap()["type"], "MODIFIED", "what she still may see goes on");
        let other = json!({ "spec": { "subject": { "name": "bob" } } });
        assert_eq!(site.admin.ask_as(Method::PATCH, &path, &merge, &other).await.status().as_u16(), 422);
    });
}

#[test]
fn a_token_is_good_for_one_account_and_not_for_the_next_of_its_name() {
    run(async {
        let site = Site::new().await;
        let robot = site.program("claims-a", "robot").await;
        let account = json!({ "kind": "ServiceAccount", "namespace": "claims-a", "name": "robot" });
        assert_eq!(robot.get(SECRETS).await, 403, "an account has no rights by itself");
        site.grant("robot", account, "tenant", "claims-a").await;
        assert_eq!(robot.get(SECRETS).await, 200);
        let mut watch = Watch::of(&robot, SECRETS).await;
        watch.line().await.unwrap();
        let path = "/api/v1/namespaces/claims-a/serviceaccounts/robot";
        assert_eq!(site.admin.ask(Method::DELETE, path, &Value::Null).await.status().as_u16(), 200);
        assert_eq!(robot.get(SECRETS).await, 401);
        assert_eq!(watch.end().await, 401);
        let next = site.program("claims-a", "robot").await;
        assert_eq!((robot.get(SECRETS).await, next.get(SECRETS).await), (401, 200));
    });
}

#[test]
fn nobody_comes_in_without_a_credential_or_with_a_bad_one() {
    run(async {
        let site = Site::new().await;
        let nobody = site.nobody();
        for path in ["/readyz", "/livez", "/healthz"] {
            assert_eq!(nobody.get(path).await, 200, "{path}");
        }
        let token = site.program("claims-a", "robot").await;
        let good = "/apis";
        assert_eq!(token.get(good).await, 200);
        for person in [nobody.clone(), nobody.with_token("x"), nobody.with_token(&"x".repeat(5000))] {
            let refused = person.ask(Method::GET, good, &Value::Null).await;
            assert_eq!(refused.status().as_u16(), 401);
            let status: Value = refused.json().await.unwrap();
            assert_eq!((&status["reason"], &status["message"]), (&json!("Unauthorized"), &json!("Unauthorized")));
        }
        // A token for others is none for this API.
        let accounts = "/api/v1/namespaces/claims-a/serviceaccounts/robot/token";
        let spec = json!({ "spec": { "audiences": ["vault"] } });
        let made: Value = site.admin.ask(Method::POST, accounts, &spec).await.json().await.unwrap();
        let other = nobody.with_token(made["status"]["token"].as_str().unwrap());
        assert_eq!(other.get(good).await, 401);
        // Of another appliance: its CA is not this one's.
        let second = Site::new().await;
        let stranger = Person::of(&second.let_in("boss", "admin", None));
        assert_eq!(stranger.get(good).await, 200);
        let there = stranger.at(&nobody, &site.appliance.ca_pem());
        assert_eq!(there.get(good).await, 401);
    });
}

#[test]
fn a_restart_changes_no_right() {
    run(async {
        let mut site = Site::new().await;
        let file = site.let_in("tim", "tenant", Some("claims-a"));
        let hosts = "/apis/metal3.io/v1alpha1/namespaces/hosts-a/baremetalhosts";
        site.appliance.kill_and_start_again();
        let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        config["clusters"][0]["cluster"]["server"] = json!(site.appliance.url());
        fs::write(&file, config.to_string()).unwrap();
        let tim = Person::of(&file);
        assert_eq!((tim.get(SECRETS).await, tim.get(hosts).await), (200, 403));
        // The command itself works with a certificate, in the namespace of its kubeconfig.
        let own = firesteel(&site, &file, &["get", "secrets"]);
        assert!(own.contains('x'), "{own}");
    });
}

fn firesteel(site: &Site, kubeconfig: &std::path::Path, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(site.appliance.command().get_program());
    succeeded(&command.arg("--kubeconfig").arg(kubeconfig).args(arguments).output().unwrap())
}
