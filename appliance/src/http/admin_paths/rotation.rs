//! `POST /firesteel.dev/rotate-ca`: rotates the CA, one step for each request of its owner.

use firesteel_kube::{Api, Status};
use http::{Response, StatusCode};
use serde_json::{Value, json as value};

use super::rotation_blockers;
use crate::http::body::{ResponseBody, json, refuse};
use crate::serve::build_time::certificate_time;
use crate::serve::pki::{CaStatus, UndoneRotation};
use crate::serve::renewal::Certificates;

/// The step that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RotationWish {
    Begin,
    Finish { by_force: bool },
    Undo,
}

/// Answers one request; without certificates the listener does not run yet.
pub(super) async fn answer(api: &Api, certificates: Option<&Certificates>, query: &str) -> Response<ResponseBody> {
    let Some(certificates) = certificates else {
        return refuse(&Status::unavailable("the appliance is starting: try again"));
    };
    let done = match parse_rotation(query) {
        Ok(wish) => perform(api, certificates, wish).await,
        Err(status) => Err(status),
    };
    done.map_or_else(|status| refuse(&status), |value| json(StatusCode::OK, &value))
}

fn parse_rotation(query: &str) -> Result<RotationWish, Status> {
    let is_set = |name: &str| {
        query.split('&').filter_map(|pair| pair.strip_prefix(name)).any(|value| matches!(value, "=true" | "=1"))
    };
    match (is_set("finish"), is_set("undo")) {
        (false, false) => Ok(RotationWish::Begin),
        (true, false) => Ok(RotationWish::Finish { by_force: is_set("force") }),
        (false, true) => Ok(RotationWish::Undo),
        (true, true) => Err(Status::bad_request("finish and undo: ask for one of them")),
    }
}

async fn perform(api: &Api, certificates: &Certificates, wish: RotationWish) -> Result<Value, Status> {
    let now = certificate_time();
    if wish == (RotationWish::Finish { by_force: false }) {
        let hosts = rotation_blockers::of_old_ca(api, certificates, now).await?;
        if !hosts.is_empty() {
            return Err(Status::bad_request(rotation_blockers::waiting_hosts_text(&hosts)));
        }
    }
    let certificates = certificates.clone();
    // This makes keys and writes files.
    let changed = tokio::task::spawn_blocking(move || -> anyhow::Result<Result<Value, Status>> {
        Ok(match wish {
            RotationWish::Begin => Ok(shown(&certificates.rotate(now)?, None)),
            RotationWish::Finish { .. } => {
                let none = "no rotation of the CA is under way: firesteel rotate-ca begins one";
                certificates.finish(now)?.map(|state| shown(&state, None)).ok_or_else(|| Status::bad_request(none))
            }
            RotationWish::Undo => match certificates.undo(now)? {
                Ok((what, state)) => Ok(shown(&state, Some(what))),
                Err(why) => Err(Status::bad_request(why.to_string())),
            },
        })
    });
    let changed = changed.await.map_err(anyhow::Error::from).and_then(|changed| changed);
    changed.unwrap_or_else(|error| {
        tracing::error!(error = format!("{error:#}"), "could not rotate the CA");
        Err(Status::internal(format!("could not rotate the CA: {error:#}")))
    })
}

fn shown(state: &CaStatus, taken_back: Option<UndoneRotation>) -> Value {
    let taken_back = taken_back.map(|what| match what {
        UndoneRotation::End => "end",
        UndoneRotation::Beginning => "beginning",
    });
    value!({
        "ends": state.ends.to_string(),
        "nextEnds": state.next_ends.map(|ends| ends.to_string()),
        "takenBack": taken_back,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_is_asked_for_at_a_time() {
        for (query, expected) in [
            ("", Ok(RotationWish::Begin)),
            ("finish=true", Ok(RotationWish::Finish { by_force: false })),
            ("finish=1&force=true", Ok(RotationWish::Finish { by_force: true })),
            ("undo=true", Ok(RotationWish::Undo)),
            ("undo=false", Ok(RotationWish::Begin)),
            ("finish=true&undo=true", Err(400)),
        ] {
            assert_eq!(parse_rotation(query).map_err(|status| status.code), expected, "{query}");
        }
    }
}
