//! The part of a URL after the question mark, and percent encoding. Pure.

use firesteel_kube_types::{Cause, CauseReason};
use serde_json::json;

use crate::model::field_validation::FieldValidation;
use crate::model::log_options::LogOptions;
use crate::model::parameter::{boolean, decode, number};
use crate::model::status::Status;

/// The longest query that is read; client-go's longest are label selectors of some kilobytes.
const QUERY_BYTES_MAX: usize = 16 << 10;
/// The longest name of a field manager, as Kubernetes has it.
pub(crate) const MANAGER_BYTES_MAX: usize = 128;
/// Most letters of a field manager's name that are listed as wrong: each fault shows the whole name.
const LETTERS_SHOWN_MAX: usize = 8;
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

    /// How a write is to be made. `options` names the request's options in Kubernetes, as in "CreateOptions"; `causes`
    /// are what its verb refuses besides. All that is wrong is in the refusal.
    pub(crate) fn write_terms(&self, options: &str, mut causes: Vec<Cause>) -> Result<QueryTerms<'_>, Status> {
        causes.extend(self.manager_causes());
        causes.extend(self.dry_run_cause());
        let validation = self.validation().unwrap_or_else(|cause| {
            causes.push(cause);
            FieldValidation::default()
        });
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", options, "", causes));
        }
        let manager = self.field_manager.as_deref();
        Ok(QueryTerms { validation, manager, dry_run: !self.dry_run.is_empty() })
    }

    /// Whether nothing is to be stored; of requests that say nothing else.
    pub(crate) fn is_dry_run(&self, options: &str) -> Result<bool, Status> {
        match self.dry_run_cause() {
            Some(cause) => Err(Status::invalid("meta.k8s.io", options, "", vec![cause])),
            None => Ok(!self.dry_run.is_empty()),
        }
    }

    pub(crate) fn dry_run_cause(&self) -> Option<Cause> {
        let is_unknown = self.dry_run.iter().any(|value| value != "All");
        is_unknown.then(|| Cause::not_supported_json("dryRun", &json!(self.dry_run), &["All"]))
    }

    fn validation(&self) -> Result<FieldValidation, Cause> {
        match self.field_validation.as_deref() {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                Err(Cause::not_supported_json("fieldValidation", &json!(other), &supported))
            }
        }
    }

    /// What is wrong with the name under which the request writes.
    fn manager_causes(&self) -> Vec<Cause> {
        let name = self.field_manager.as_deref().unwrap_or_default();
        let too_long = (name.len() > MANAGER_BYTES_MAX).then(|| Cause {
            reason: CauseReason::FieldValueTooLong,
            message: format!("Too long: may not be more than {MANAGER_BYTES_MAX} bytes"),
            field: "fieldManager".into(),
        });
        let odd = name.char_indices().filter(|(_, letter)| letter.is_control()).take(LETTERS_SHOWN_MAX);
        let odd = odd.map(|(at, letter)| {
            let why = format!("invalid character U+{:04X} (at position {at})", u32::from(letter));
            Cause::invalid_json("fieldManager", &json!(name), &why)
        });
        too_long.into_iter().chain(odd).collect()
    }
}

/// How a write is to be made, as its query says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryTerms<'a> {
    pub(crate) validation: FieldValidation,
    pub(crate) dry_run: bool,
    /// The name of the field manager, if the query has one.
    pub(crate) manager: Option<&'a str>,
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

    /// A client corrected one and met the next.
    #[test]
    fn all_that_is_wrong_with_a_write_is_told() {
        let query = Query::parse(&format!("fieldManager=a%0Ab%07{}&dryRun=Some&fieldValidation=X", "c".repeat(128)));
        let query = query.unwrap();
        let first = Cause::forbidden("force", "may not be specified for non-apply patch");
        let refused = query.write_terms("PatchOptions", vec![first]).unwrap_err();
        let fields: Vec<&str> = refused.causes().iter().map(|cause| cause.field.as_str()).collect();
        let manager = "fieldManager";
        assert_eq!(fields, ["force", manager, manager, manager, "dryRun", "fieldValidation"]);
        assert!(refused.causes()[2].message.ends_with("invalid character U+000A (at position 1)"), "{refused}");
        let many = Query::parse(&format!("fieldManager={}", "%07".repeat(5_000))).unwrap();
        assert!(many.write_terms("CreateOptions", Vec::new()).unwrap_err().causes().len() <= 9);
        let query = Query::parse("fieldManager=m&dryRun=All&fieldValidation=Strict").unwrap();
        let terms = QueryTerms { validation: FieldValidation::Strict, dry_run: true, manager: Some("m") };
        assert_eq!(query.write_terms("CreateOptions", Vec::new()), Ok(terms));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["watch=maybe", "limit=ten", "labelSelector=%zz", "labelSelector=%f", "labelSelector=%ff"] {
            assert_eq!(Query::parse(bad).unwrap_err().code, 400, "{bad}");
        }
        assert_eq!(Query::parse(&"a".repeat(QUERY_BYTES_MAX + 1)).unwrap_err().code, 400);
    }
}
