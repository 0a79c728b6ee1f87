//! The API's paths that are not objects: requests about the appliance itself.
//!
//! | request | what it does |
//! |---|---|
//! | `POST /firesteel.dev/accept-clock` | confirms that the clock is right, whatever the store says |
//! | `GET /firesteel.dev/audit?tail=N&follow=true` | the audit log, as lines of JSON: all or the last N lines, and new ones |
//! | `GET /firesteel.dev/backup` | all objects as of one moment, see [`crate::backup`] |
//! | `GET /firesteel.dev/fleet` | whether the hosts reach their wanted state, for clients that wait for them |
//! | `GET /firesteel.dev/log?tail=N` | the newest lines of this process's log: all that are kept, or the last N |
//! | `GET /firesteel.dev/plan/NAMESPACE/HOST` | what would happen to the host's disks; for those who may read the host and its journal |
//! | `GET /firesteel.dev/receipt-key` | the public key of receipts, in PEM |
//! | `GET /firesteel.dev/settings` | the settings in force, in TOML |
//! | `GET /firesteel.dev/store` | which store this is, from which backups it was restored, and which parts are damaged |
//! | `GET /firesteel.dev/unknown-hosts` | unknown machines that boot from the network; for those who may list discovered hosts |
//! | `POST /firesteel.dev/rekey` | seals all secrets with a new key |
//! | `POST /firesteel.dev/rotate-ca?finish=true&force=true&undo=true` | begins an overlap with a new CA, ends it (by force while hosts wait for the old one), or undoes the last step |

pub mod process_report;
mod rotation;
mod rotation_blockers;

use std::sync::Arc;

use firesteel_control::{Control, Fleet};
use firesteel_kube::{Api, Caller, ReadinessRemarks, ResponseAuditNote, Status};
use firesteel_runtime::{AcceptedClock, ClockNotAccepted, HostKey, StoreClock};
use firesteel_store::Store;
use futures_util::TryStreamExt as _;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::json;

use super::body::{ResponseBody, json, refuse};
use super::dry_run;
use super::server::RequestBody;
use super::unknown_hosts::{self, UNKNOWN_HOSTS_PATH};
use crate::audit::{Audit, AuditCaller, AuditGuard, AuditOutcome, AuditedRequest};
use crate::backup::Backups;
use crate::serve::renewal::Certificates;
use crate::serve::sealing::KeyFile;
use process_report::ProcessReport;

const PREFIX: &str = "/firesteel.dev/";

/// The parts behind these paths. Clones share them.
#[derive(Clone, Debug)]
pub struct FiresteelPaths {
    store: Store,
    key_file: Arc<KeyFile>,
    audit: Audit,
    backups: Backups,
    /// The public key of receipts, in PEM.
    receipt_key: Arc<str>,
    /// The control loop; `None` if no machine is served.
    control: Option<Control>,
    /// The certificates; `None` until the API's listener has made them.
    certificates: Option<Certificates>,
    clock: Option<StoreClock>,
    /// What this process says of itself; `None` where it is none of its own.
    process: Option<ProcessReport>,
}

impl FiresteelPaths {
    #[must_use]
    pub fn new(store: &Store, key_file: Arc<KeyFile>, audit: Audit, backups: Backups, receipt_key: &str) -> Self {
        Self {
            store: store.clone(),
            key_file,
            audit,
            backups,
            receipt_key: receipt_key.into(),
            control: None,
            certificates: None,
            clock: None,
            process: None,
        }
    }

    /// Adds the control loop of the hosts.
    #[must_use]
    pub fn with_control(self, control: Control) -> Self {
        Self { control: Some(control), ..self }
    }

    /// Adds the certificates that may be rotated.
    #[must_use]
    pub fn with_certificates(self, certificates: Certificates) -> Self {
        Self { certificates: Some(certificates), ..self }
    }

    /// Adds the clock that may be doubted.
    #[must_use]
    pub fn with_clock(self, clock: StoreClock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Adds the log and the settings of this process.
    #[must_use]
    pub fn with_process(self, process: ProcessReport) -> Self {
        Self { process: Some(process), ..self }
    }

    /// Begins the record of a request; without a caller it was sent without valid credentials.
    #[must_use]
    pub fn noting<'a>(&'a self, asked: &'a AuditedRequest, caller: Option<&'a Caller>) -> AuditGuard<'a> {
        let who = caller
            .map_or_else(AuditCaller::default, |caller| AuditCaller { name: &caller.name, groups: &caller.groups });
        self.audit.begin(asked, who)
    }

    /// Tells whether a path is one of these.
    #[must_use]
    pub fn serves(path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    /// Answers one request.
    pub async fn handle(&self, api: &Api, request: Request<RequestBody>, caller: &Caller) -> Response<ResponseBody> {
        let (method, path) = (request.method().as_str().to_owned(), request.uri().path().to_owned());
        if let Some(host) = path.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix("plan/")) {
            let control = self.control.as_ref();
            return dry_run::answer(api, request.method(), request.headers(), caller, host, control).await;
        }
        if path == UNKNOWN_HOSTS_PATH {
            let control = self.control.as_ref();
            return unknown_hosts::answer(api, request.method(), request.headers(), caller, control).await;
        }
        match api.at_path(caller, &method, &path, request.headers()) {
            Err(status) => refuse(&status),
            // A stream ends when its reader loses the right to read it.
            Ok(pass) => self.answer(api, request).await.map(|body| pass.keep(body)),
        }
    }

    async fn answer(&self, api: &Api, request: Request<RequestBody>) -> Response<ResponseBody> {
        match (request.method(), request.uri().path().strip_prefix(PREFIX)) {
            (&Method::GET, Some("audit")) => self.audit(request.uri().query().unwrap_or("")).await,
            (&Method::POST, Some("accept-clock")) => self.accept_clock().await,
            (&Method::POST, Some("rekey")) => self.rekey().await,
            (&Method::POST, Some("rotate-ca")) => {
                rotation::answer(api, self.certificates.as_ref(), request.uri().query().unwrap_or("")).await
            }
            (&Method::GET, Some("backup")) => self.backups.answer().await,
            (&Method::GET, Some("store")) => self.backups.lineage(),
            (&Method::GET, Some("fleet")) => self.fleet(),
            (&Method::GET, Some("log" | "settings")) => process_report::answer(self.process.as_ref(), request.uri()),
            (&Method::GET, Some("receipt-key")) => json(StatusCode::OK, &json!({ "publicKey": *self.receipt_key })),
            (
                _,
                Some(
                    "accept-clock" | "audit" | "backup" | "fleet" | "log" | "rekey" | "rotate-ca" | "settings"
                    | "store" | "receipt-key",
                ),
            ) => refuse(&Status::method_not_allowed()),
            _ => refuse(&Status::no_route()),
        }
    }

    fn fleet(&self) -> Response<ResponseBody> {
        let Some(control) = &self.control else {
            return refuse(&Status::unavailable("this appliance serves its API alone: no host is worked on"));
        };
        let Fleet { outlook, done, progressing, will_not_finish } = control.fleet();
        let hosts = |keys: &[HostKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        let value = json!({
            "outlook": outlook.word(),
            "done": done,
            "progressing": progressing,
            "willNotFinish": hosts(&will_not_finish),
        });
        json(StatusCode::OK, &value)
    }

    async fn audit(&self, query: &str) -> Response<ResponseBody> {
        let of = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let follow = matches!(of("follow"), Some("true" | "1"));
        let tail = match of("tail").map(str::parse).transpose() {
            Ok(tail) => tail,
            Err(error) => return refuse(&Status::bad_request(format!("tail: {error}"))),
        };
        match self.audit.read(tail, follow).await {
            Ok(lines) => {
                let body = StreamBody::new(lines.map_ok(Frame::data));
                let mut response = Response::new(body.boxed_unsync());
                let lines_of_json = HeaderValue::from_static("application/jsonl");
                response.headers_mut().insert(CONTENT_TYPE, lines_of_json);
                response
            }
            Err(error) => refuse(&Status::internal(format!("could not read the audit log: {error}"))),
        }
    }

    async fn accept_clock(&self) -> Response<ResponseBody> {
        let Some(clock) = &self.clock else {
            return refuse(&Status::unavailable("the appliance is starting: try again"));
        };
        match clock.accept().await {
            Ok(AcceptedClock { now, newest }) => {
                json(StatusCode::OK, &json!({ "now": now.to_string(), "newest": newest.to_string() }))
            }
            Err(error @ (ClockNotAccepted::NotDoubted { .. } | ClockNotAccepted::BeforeBuild { .. })) => {
                refuse(&Status::bad_request(error.to_string()))
            }
            Err(error @ ClockNotAccepted::Store(_)) => {
                let error = anyhow::Error::from(error);
                tracing::error!(error = format!("{error:#}"), "could not accept the clock");
                refuse(&Status::internal(format!("{error:#}")))
            }
        }
    }

    async fn rekey(&self) -> Response<ResponseBody> {
        // It runs in a task of its own: it must not stop half-way if its client goes away.
        let (store, key_file) = (self.store.clone(), Arc::clone(&self.key_file));
        let changed = tokio::spawn(async move { key_file.change(&store).await }).await;
        match changed.map_err(anyhow::Error::from).and_then(|changed| changed) {
            Ok(rekeyed) => {
                let damaged: Vec<String> = rekeyed.resealed.damaged.iter().map(ToString::to_string).collect();
                let value = json!({ "key": rekeyed.key, "values": rekeyed.resealed.values, "damaged": damaged });
                json(StatusCode::OK, &value)
            }
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "could not change the key of the secrets");
                refuse(&Status::internal(format!("could not change the key of the secrets: {error:#}")))
            }
        }
    }
}

impl ReadinessRemarks for FiresteelPaths {
    fn remarks(&self) -> Vec<String> {
        let doubt = self.clock.as_ref().and_then(StoreClock::doubt);
        doubt.map(|doubt| format!("clock: {doubt}")).into_iter().collect()
    }
}

/// Returns the outcome of an answer, for the record.
pub(super) fn outcome<B>(response: &Response<B>) -> AuditOutcome<'_> {
    let code = response.status().as_u16();
    response.extensions().get::<ResponseAuditNote>().map_or(AuditOutcome { code, ..AuditOutcome::default() }, |told| {
        AuditOutcome { code, reason: told.reason, name: &told.made, is_turned_away: told.is_turned_away }
    })
}
