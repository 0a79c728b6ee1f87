//! What this process says of itself: the newest lines of its log, and its settings.

use std::sync::Arc;

use anyhow::Context as _;
use firesteel_kube::Status;
use http::{HeaderValue, Response, StatusCode, Uri, header::CONTENT_TYPE};

use crate::http::body::{ResponseBody, full, refuse};
use crate::serve::recent_log::RecentLog;
use crate::serve::settings::Settings;

const TEXT: &str = "text/plain; charset=utf-8";
const TOML: &str = "application/toml";

/// The log and the settings of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct ProcessReport {
    recent_log: RecentLog,
    /// The settings in TOML, as `firesteel serve --print-config` prints them.
    settings: Arc<str>,
}

impl ProcessReport {
    /// # Errors
    /// When the settings cannot be written as TOML, which all of them can.
    pub fn new(settings: &Settings, recent_log: &RecentLog) -> anyhow::Result<Self> {
        let settings = toml::to_string(settings).context("could not write the settings as TOML")?;
        Ok(Self { recent_log: recent_log.clone(), settings: settings.into() })
    }

    /// Returns the newest lines of the log. The first line says how many older ones are not kept.
    fn log(&self, tail: Option<usize>) -> Vec<u8> {
        let dropped = self.recent_log.dropped();
        let mut text = Vec::new();
        if dropped > 0 && tail.is_none() {
            text = format!("({dropped} older lines of this process are not kept)\n").into_bytes();
        }
        text.extend(self.recent_log.last(tail));
        text
    }
}

/// Answers a request for one of both.
pub(super) fn answer(process: Option<&ProcessReport>, uri: &Uri) -> Response<ResponseBody> {
    let Some(process) = process else {
        return refuse(&Status::unavailable("the appliance is starting: try again"));
    };
    if uri.path().ends_with("/settings") {
        return text(process.settings.as_bytes().to_vec(), TOML);
    }
    let query = uri.query().unwrap_or_default();
    match query.split('&').find_map(|pair| pair.strip_prefix("tail=")).map(str::parse).transpose() {
        Ok(tail) => text(process.log(tail), TEXT),
        Err(error) => refuse(&Status::bad_request(format!("tail: {error}"))),
    }
}

fn text(bytes: Vec<u8>, kind: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use http_body_util::BodyExt as _;

    use super::*;

    fn body(path: &str) -> (u16, String) {
        let process = ProcessReport { recent_log: RecentLog::default(), settings: "log = \"info\"\n".into() };
        let answer = answer(Some(&process), &path.parse().unwrap());
        let code = answer.status().as_u16();
        let body = futures_util::FutureExt::now_or_never(answer.into_body().collect()).unwrap().unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn the_settings_and_the_log_are_texts() {
        assert_eq!(body("/firesteel.dev/settings"), (200, "log = \"info\"\n".into()));
        assert_eq!(body("/firesteel.dev/log?tail=5"), (200, String::new()));
        assert_eq!(body("/firesteel.dev/log?tail=x").0, 400);
    }
}
