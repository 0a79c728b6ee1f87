//! Who may do what: every verb is asked for, refusals are Kubernetes', and what is open is closed when a
//! right goes.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use firesteel_kube::access::{AccessDecision, AccessRequest, AccessRule, OnObjects, common, common_rules};
use firesteel_kube::instant_subresources::{
    IssueSubresource as IssueRequest, Issued, Issuer, ServiceAccountTokenError,
};
use firesteel_kube::tokens::{ISSUER, TokenKey};
use firesteel_kube::{Authorizer, Body, Caller, KindInfo, REQUESTS_PER_CALLER_MAX, Status, WATCHES_PER_CALLER_MAX};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::toy::{HOSTS, Server, admin, object, run};

/// Verbs of one user in one namespace; an empty one means all.
#[derive(Debug)]
struct Toy {
    verbs: Mutex<Vec<&'static str>>,
    namespace: &'static str,
    generation: watch::Sender<u64>,
}

impl Toy {
    fn new(namespace: &'static str, verbs: &[&'static str]) -> Arc<Self> {
        Arc::new(Self { verbs: Mutex::new(verbs.to_vec()), namespace, generation: watch::Sender::new(0) })
    }

    fn set(&self, verbs: &[&'static str]) {
        *self.verbs.lock().unwrap() = verbs.to_vec();
        self.generation.send_modify(|generation| *generation += 1);
    }
}

impl Authorizer for Toy {
    fn decide(&self, caller: &Caller, asked: AccessRequest<'_>) -> AccessDecision {
        common(caller, asked).unwrap_or_else(|| match asked {
            AccessRequest::Objects(objects) => {
                let within = self.namespace.is_empty() || objects.namespace == self.namespace;
                let part = format!("{}/{}", objects.verb, objects.subresource);
                let wanted = if objects.subresource.is_empty() { objects.verb } else { &part };
                let allowed = within && self.verbs.lock().unwrap().contains(&wanted);
                AccessDecision { allowed, reason: String::new() }
            }
            AccessRequest::Path { .. } => AccessDecision::deny(),
        })
    }

    fn rules(&self, caller: &Caller, _: &str) -> Vec<AccessRule> {
        common_rules(caller)
    }

    fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }
}

#[derive(Debug)]
struct Tokens(TokenKey);

impl Issuer for Tokens {
    fn answer(
        &self,
        _: &KindInfo,
        _: &IssueRequest,
        object: &Value,
        asked: &Value,
        now: Timestamp,
    ) -> Result<Issued, Status> {
        self.0.answer(object, asked, now, "id-1")
    }

    fn caller_of(&self, token: &str, now: Timestamp) -> Result<(Caller, Vec<String>), ServiceAccountTokenError> {
        let claims = self.0.read(token, now)?;
        Ok((claims.caller(), claims.audiences))
    }
}

async fn ask(server: &Server, method: &str, path: &str, media_type: &str, body: &str) -> Response<Body> {
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    server.api.handle(request, &Caller::new("x")).await
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn guarded(server: Server, authorizer: Arc<Toy>) -> Server {
    server.with(|api| api.guarded(authorizer))
}

const JSON: &str = "application/json";

/// Each verb is allowed alone, and every other one is refused then.
#[test]
fn every_verb_is_a_right_of_its_own() {
    run(async {
        let one = format!("{HOSTS}/h1");
        let (status, watch) = (format!("{one}/status"), format!("{HOSTS}?watch=1"));
        let body = object("h1").to_string();
        let requests = [
            ("get", "GET", one.as_str(), JSON, ""),
            ("list", "GET", HOSTS, JSON, ""),
            ("watch", "GET", &watch, JSON, ""),
            ("create", "POST", HOSTS, JSON, &body),
            ("update", "PUT", &one, JSON, &body),
            ("patch", "PATCH", &one, "application/merge-patch+json", "{}"),
            ("patch/status", "PATCH", &status, "application/merge-patch+json", "{}"),
            ("get/status", "GET", &status, JSON, ""),
            ("update/status", "PUT", &status, JSON, &body),
            ("delete", "DELETE", &one, JSON, ""),
            ("deletecollection", "DELETE", HOSTS, JSON, ""),
        ];
        for (right, ..) in requests {
            let server = guarded(Server::in_memory().await, Toy::new("default", &[right]));
            for (verb, method, path, media_type, body) in requests {
                let response = ask(&server, method, path, media_type, body).await;
                let code = response.status().as_u16();
                assert_eq!(code != 403, verb == right, "{verb} with the right to {right}: {code}");
                if verb == right {
                    continue;
                }
                let (word, part) = verb.split_once('/').unwrap_or((verb, ""));
                let resource = if part.is_empty() { "baremetalhosts".into() } else { format!("baremetalhosts/{part}") };
                let told = text(response).await;
                let sentence = format!(
                    r#"User \"x\" cannot {word} resource \"{resource}\" in API group \"metal3.io\" in the namespace \"default\""#
                );
                assert!(told.contains(&sentence), "{told}");
            }
        }
    });
}

#[test]
fn all_namespaces_are_more_than_one_and_what_is_refused_is_not_shown_to_exist() {
    run(async {
        let server =
            guarded(Server::in_memory().await, Toy::new("default", &["get", "list", "watch", "deletecollection"]));
        let all = "/apis/metal3.io/v1alpha1/baremetalhosts";
        for (method, path) in [
            ("GET", all.to_owned()),
            ("GET", format!("{all}?watch=1")),
            ("GET", format!("{all}?fieldSelector=metadata.namespace=default")),
            ("DELETE", all.to_owned()),
            ("GET", HOSTS.replace("default", "other")),
        ] {
            let response = ask(&server, method, &path, JSON, "").await;
            assert_eq!(response.status(), 403, "{method} {path}");
        }
        let refused = ask(&server, "GET", all, JSON, "").await;
        let status: Value = serde_json::from_str(&text(refused).await).unwrap();
        let message = r#"baremetalhosts.metal3.io is forbidden: User "x" cannot list resource "baremetalhosts" in API group "metal3.io" at the cluster scope"#;
        assert_eq!(
            status,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": message,
                "details": { "group": "metal3.io", "kind": "baremetalhosts" },
            })
        );
        // An object that is not there, a kind that is not there, and a path that is not there.
        for path in ["/api/v1/namespaces/other/secrets/none", "/apis/nobody.example/v1/things", "/nothing"] {
            assert_eq!(ask(&server, "GET", path, JSON, "").await.status(), 403, "{path}");
        }
        assert_eq!(ask(&server, "GET", &format!("{HOSTS}/none"), JSON, "").await.status(), 404);
        // A namespace is seen by who may see what is in it.
        assert_eq!(ask(&server, "GET", "/api/v1/namespaces/default", JSON, "").await.status(), 200);
        assert_eq!(ask(&server, "GET", "/api/v1/namespaces", JSON, "").await.status(), 403);
    });
}

#[test]
fn an_apply_that_makes_an_object_needs_the_right_to_create() {
    run(async {
        let server = guarded(Server::in_memory().await, Toy::new("default", &["patch"]));
        let (path, apply) = (format!("{HOSTS}/h1?fieldManager=m"), "application/apply-patch+yaml");
        let body = object("h1").to_string();
        let refused = ask(&server, "PATCH", &path, apply, &body).await;
        assert_eq!(refused.status(), 403);
        assert!(
            text(refused).await.contains(r#"baremetalhosts.metal3.io \"h1\" is forbidden: User \"x\" cannot create"#)
        );
        let path_of_admin = server.post(HOSTS, &object("h1")).await;
        assert_eq!(path_of_admin.code, 201);
        assert_eq!(ask(&server, "PATCH", &path, apply, &body).await.status(), 200, "to change it is enough now");
    });
}

#[test]
fn a_watch_ends_when_its_right_does() {
    run(async {
        let toy = Toy::new("default", &["watch"]);
        let server = guarded(Server::in_memory().await, Arc::clone(&toy));
        server.post(HOSTS, &object("h1")).await;
        let mut body = ask(&server, "GET", &format!("{HOSTS}?watch=1"), JSON, "").await.into_body();
        let mut line = async || {
            let frame = body.frame().await?.unwrap().into_data().unwrap();
            Some(serde_json::from_slice::<Value>(&frame).unwrap())
        };
        assert_eq!(line().await.unwrap()["type"], "ADDED");
        // Another right changes nothing.
        toy.set(&["watch", "get"]);
        server.post(HOSTS, &object("h2")).await;
        assert_eq!(line().await.unwrap()["object"]["metadata"]["name"], "h2");
        // What happens at the same time is not sent any more.
        toy.set(&["get"]);
        server.post(HOSTS, &object("h3")).await;
        let last = line().await.unwrap();
        assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(403)), "{last}");
        assert_eq!(line().await, None);
        assert_eq!(ask(&server, "GET", &format!("{HOSTS}?watch=1"), JSON, "").await.status(), 403);
    });
}

#[test]
fn who_is_put_out_while_his_request_is_on_its_way_writes_nothing() {
    run(async {
        let toy = Toy::new("default", &["create"]);
        let server = guarded(Server::in_memory().await, Arc::clone(&toy));
        let send = async |body: &'static str, rights_meanwhile: &'static [&'static str]| {
            let toy = Arc::clone(&toy);
            let late = futures_util::stream::once(async move {
                toy.set(rights_meanwhile);
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(body.as_bytes())))
            });
            let request = Request::post(HOSTS).header("content-type", JSON);
            let request = request.body(StreamBody::new(late)).unwrap();
            server.api.handle(request, &Caller::new("x")).await.status().as_u16()
        };
        let host = r#"{"metadata":{"name":"h1"},"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","spec":{"online":true}}"#;
        assert_eq!(send(host, &[]).await, 403);
        assert_eq!(server.get(&format!("{HOSTS}/h1")).await.code, 404);
        toy.set(&["create"]);
        assert_eq!(send(host, &["create", "get"]).await, 201, "another right changes nothing");
    });
}

#[test]
fn a_watch_ends_with_what_its_caller_proved_himself_with() {
    run(async {
        let server = Server::in_memory().await;
        let short = Caller { until: Some(Timestamp::now()), ..admin() };
        let request = Request::get(format!("{HOSTS}?watch=1")).body(Full::<Bytes>::default()).unwrap();
        let body = server.api.handle(request, &short).await.into_body().collect().await.unwrap().to_bytes();
        let last: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(401)));
    });
}

/// The bodies are held, as by clients that read slowly.
#[test]
fn too_many_watches_of_one_caller_are_refused_and_others_are_not() {
    run(async {
        const { assert!(REQUESTS_PER_CALLER_MAX >= 64 && WATCHES_PER_CALLER_MAX >= 100) };
        let server = guarded(Server::in_memory().await, Toy::new("", &["watch", "list"]));
        let watch = format!("{HOSTS}?watch=1&resourceVersion=1");
        let mut held = Vec::new();
        for _ in 0..WATCHES_PER_CALLER_MAX {
            let response = ask(&server, "GET", &watch, JSON, "").await;
            assert_eq!(response.status(), 200);
            held.push(response);
        }
        let refused = ask(&server, "GET", &watch, JSON, "").await;
        assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "1"));
        let status: Value = serde_json::from_str(&text(refused).await).unwrap();
        assert_eq!(
            (&status["reason"], &status["details"]["retryAfterSeconds"]),
            (&json!("TooManyRequests"), &json!(1))
        );
        assert_eq!(ask(&server, "GET", HOSTS, JSON, "").await.status(), 200);
        let request = Request::get(&watch).body(Full::<Bytes>::default()).unwrap();
        assert_eq!(server.api.handle(request, &admin()).await.status(), 200, "somebody else");
        held.pop();
        assert_eq!(ask(&server, "GET", &watch, JSON, "").await.status(), 200);
    });
}

#[test]
fn a_service_account_has_tokens_on_request() {
    run(async {
        let server = Server::in_memory().await;
        let server = server.with(|api| api.issuing(Arc::new(Tokens(TokenKey::new(&[3; 32])))));
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let path = format!("{accounts}/robot/token");
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
        assert_eq!(server.post(&path, &request).await.code, 404);
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
        let uid = server.post(accounts, &account).await.json()["metadata"]["uid"].clone();
        let made = server.post(&path, &request).await;
        assert_eq!(made.code, 201);
        let made = made.json();
        assert_eq!((&made["kind"], &made["metadata"]["name"]), (&json!("TokenRequest"), &json!("robot")));
        assert_eq!(made["spec"]["expirationSeconds"], 3600);
        // The path says what it is, for clients that do not.
        assert_eq!(server.post(&path, &json!({ "spec": { "expirationSeconds": 600 } })).await.code, 201);
        let short = server.post(&path, &json!({ "spec": { "expirationSeconds": 10 } })).await;
        assert_eq!(short.code, 422);
        assert_eq!(server.get(&path).await.code, 405);

        let review = async |spec: Value| {
            let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec });
            server.post("/apis/authentication.k8s.io/v1/tokenreviews", &body).await.json()["status"].clone()
        };
        let known = review(json!({ "token": made["status"]["token"] })).await;
        assert_eq!((&known["authenticated"], &known["audiences"]), (&json!(true), &json!([ISSUER])));
        assert_eq!(
            (&known["user"]["username"], &known["user"]["uid"]),
            (&json!("system:serviceaccount:default:robot"), &uid)
        );
        assert_eq!(
            review(json!({ "token": made["status"]["token"], "audiences": ["x"] })).await["authenticated"],
            false
        );
        assert_eq!(review(json!({ "token": "a.b.c" })).await["authenticated"], false);
        let parts = server.get("/api/v1").await.json();
        let names = parts["resources"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap());
        assert!(names.clone().any(|name| name == "serviceaccounts/token"));
    });
}

#[test]
fn one_may_ask_what_others_may() {
    run(async {
        let server = guarded(Server::in_memory().await, Toy::new("default", &["get"]));
        let spec = |namespace: &str| {
            let objects = json!({ "verb": "get", "group": "", "resource": "secrets", "namespace": namespace });
            json!({ "spec": { "user": "somebody", "resourceAttributes": objects } })
        };
        let all = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        assert_eq!(server.post(all, &spec("default")).await.json()["status"]["allowed"], true);
        assert_eq!(server.post(all, &spec("other")).await.json()["status"]["allowed"], false);
        let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
        assert_eq!(server.post(local, &spec("default")).await.json()["status"]["allowed"], true);
        assert_eq!(server.post(local, &spec("other")).await.code, 422);
        assert_eq!(server.post(all, &json!({ "spec": {} })).await.code, 422);
        let asked = ask(&server, "POST", all, JSON, &spec("default").to_string()).await;
        assert_eq!(asked.status(), 403, "not everybody may");
        let own = OnObjects { verb: "create", group: "authorization.k8s.io", ..OnObjects::default() };
        assert!(common(&Caller::new("x"), AccessRequest::Objects(own)).is_none());
    });
}
