//! The part of a URL after the question mark, and percent encoding. Pure.

use crate::logs::LogOptions;
use crate::rules::FieldValidation;
use crate::status::{Cause, Status};
use serde_json::json;

/// The longest query that is read; client-go's longest are label selectors of some kilobytes.
const QUERY_BYTES_MAX: usize = 16 << 10;
/// The longest name of a field manager, as Kubernetes has it.
pub(crate) const MANAGER_BYTES_MAX: usize = 128;
/// The most parameters of one query.
const PARAMETERS_MAX: usize = 64;

/// What a request asks for beyond its path. As sent; what it means is for the verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub watch: bool,
    pub resource_version: Option<String>,
    pub resource_version_match: Option<String>,
    pub limit: Option<usize>,
    pub continue_token: Option<String>,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub timeout_seconds: Option<u64>,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub dry_run: Vec<String>,
    pub field_validation: Option<String>,
    pub include_object: Option<String>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub ignores_read_error: Option<bool>,
    pub field_manager: Option<String>,
    pub force: Option<bool>,
    pub log: LogOptions,
}

impl Query {
    pub fn parse(query: &str) -> Result<Self, Status> {
        if query.len() > QUERY_BYTES_MAX {
            return Err(Status::bad_request(format!("the query is longer than {QUERY_BYTES_MAX} bytes")));
        }
        let mut found = Self::default();
        for (number, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            // One that was left out could be the one that says that nothing is to be done.
            if number >= PARAMETERS_MAX {
                return Err(Status::bad_request(format!("the query has more than {PARAMETERS_MAX} parameters")));
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = (decode(key, true), decode(value, true));
            let (Some(key), Some(value)) = decoded else {
                return Err(Status::bad_request(format!("invalid URL escape in {pair:?}")));
            };
            found.set(&key, value)?;
        }
        Ok(found)
    }

    fn set(&mut self, key: &str, value: String) -> Result<(), Status> {
        let text = |value: String| (!value.is_empty()).then_some(value);
        match key {
            "watch" => self.watch = boolean(key, &value)?,
            "resourceVersion" => self.resource_version = text(value),
            "resourceVersionMatch" => self.resource_version_match = text(value),
            "limit" => self.limit = number(key, &value)?.and_then(|limit| usize::try_from(limit).ok()),
            "continue" => self.continue_token = text(value),
            "labelSelector" => self.label_selector = text(value),
            "fieldSelector" => self.field_selector = text(value),
            "timeoutSeconds" => self.timeout_seconds = number(key, &value)?,
            "allowWatchBookmarks" => self.allow_watch_bookmarks = boolean(key, &value)?,
            "sendInitialEvents" => self.send_initial_events = Some(boolean(key, &value)?),
            // Also an empty one: it is refused, and not taken for none.
            "dryRun" => self.dry_run.push(value),
            "fieldValidation" => self.field_validation = text(value),
            "includeObject" => self.include_object = text(value),
            "propagationPolicy" => self.propagation_policy = text(value),
            "orphanDependents" => self.orphan_dependents = Some(boolean(key, &value)?),
            "ignoreStoreReadErrorWithClusterBreakingPotential" => {
                self.ignores_read_error = Some(boolean(key, &value)?);
            }
            "fieldManager" => self.field_manager = text(value),
            "force" => self.force = Some(boolean(key, &value)?),
            // As Kubernetes: pretty, gracePeriodSeconds and what it does not know are passed over.
            _ => self.log.set(key, &value)?,
        }
        Ok(())
    }

    /// `options` names the request's options, as in "CreateOptions".
    pub fn validation(&self, options: &str) -> Result<FieldValidation, Status> {
        match self.field_validation.as_deref() {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                let cause = Cause::not_supported("fieldValidation", &json!(other), &supported);
                Err(Status::invalid("meta.k8s.io", options, "", vec![cause]))
            }
        }
    }

    /// Under which name the request writes, if it says one.
    pub fn manager(&self, options: &str) -> Result<Option<&str>, Status> {
        let Some(name) = self.field_manager.as_deref() else { return Ok(None) };
        let fault = if name.len() > MANAGER_BYTES_MAX {
            Some(Cause {
                reason: "FieldValueTooLong".into(),
                message: format!("Too long: may not be more than {MANAGER_BYTES_MAX} bytes"),
                field: "fieldManager".into(),
            })
        } else if name.chars().any(char::is_control) {
            Some(Cause::invalid("fieldManager", &json!(name), "should only contain printable characters"))
        } else {
            None
        };
        fault.map_or(Ok(Some(name)), |cause| Err(Status::invalid("meta.k8s.io", options, "", vec![cause])))
    }

    pub fn is_dry_run(&self, options: &str) -> Result<bool, Status> {
        if self.dry_run.iter().any(|value| value != "All") {
            let cause = Cause::not_supported("dryRun", &json!(self.dry_run), &["All"]);
            return Err(Status::invalid("meta.k8s.io", options, "", vec![cause]));
        }
        Ok(!self.dry_run.is_empty())
    }
}

pub(crate) fn boolean(key: &str, value: &str) -> Result<bool, Status> {
    match value {
        "" | "1" | "true" | "True" | "t" => Ok(true),
        "0" | "false" | "False" | "f" => Ok(false),
        _ => Err(Status::bad_request(format!("invalid value {value:?} of {key}: a boolean is expected"))),
    }
}

fn number(key: &str, value: &str) -> Result<Option<u64>, Status> {
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse::<i64>() {
        // client-go sends 0 and below for "not set".
        Ok(number) => Ok(u64::try_from(number).ok().filter(|number| *number > 0)),
        Err(_) => Err(Status::bad_request(format!("invalid value {value:?} of {key}: a number is expected"))),
    }
}

/// Undoes percent encoding; `None` if it is malformed or not UTF-8.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if plus_is_space => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("watch=1&labelSelector=a%20in%20%28b%2Cc%29&limit=500&fieldManager=x&dryRun=All");
        let query = query.unwrap();
        assert!(query.watch);
        assert_eq!(query.label_selector.as_deref(), Some("a in (b,c)"));
        assert_eq!(query.limit, Some(500));
        assert!(query.is_dry_run("CreateOptions").unwrap());
        assert_eq!(Query::parse("limit=0&watch=false").unwrap(), Query::default());
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["watch=maybe", "limit=ten", "labelSelector=%zz", "labelSelector=%f", "labelSelector=%ff"] {
            assert_eq!(Query::parse(bad).unwrap_err().code, 400, "{bad}");
        }
        assert_eq!(Query::parse(&"a".repeat(QUERY_BYTES_MAX + 1)).unwrap_err().code, 400);
    }
}
