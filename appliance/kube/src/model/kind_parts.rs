//! Parts of what is known of a kind, each of a few words.

use std::sync::Arc;

use firesteel_kube_types::Cause;
use serde_json::Value;

/// What a kind's hook found in an object that it accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmittedObject {
    /// Warnings for the client, each as one `Warning` header.
    pub warnings: Vec<String>,
    /// Paths ("spec.foo") that the kind does not have. The hook has dropped them from the object;
    /// whether that is an error, a warning or nothing is the client's choice.
    pub unknown_fields: Vec<String>,
}

/// Checks and normalises an object (defaults, unknown fields) before it is stored. The second
/// argument is the stored object of an update. The object's `metadata` is already checked; changes
/// to it are ignored.
pub type Admit = Arc<dyn Fn(&mut Value, Option<&Value>) -> Result<AdmittedObject, Vec<Cause>> + Send + Sync>;

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
pub struct PrinterColumn {
    pub name: &'static str,
    /// "string", "integer", "boolean" or "date" (shown as an age).
    pub column_type: &'static str,
    pub description: &'static str,
    /// Above 0: only with `-o wide`.
    pub priority: u8,
    pub cell: Cell,
}

#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// Where the value is, as in ".status.provisioning.state" or
    /// ".status.conditions[?(@.type==\"Ready\")].status".
    Path(&'static str),
    Computed(fn(&Value) -> Value),
}

/// What a name may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain, for nearly all kinds.
    Subdomain,
    /// RFC 1123 label: names that become part of other names.
    Label,
    /// Whatever can stand in a path.
    PathSegment,
}

/// Who may write objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Clients of the API, and controllers.
    Everyone,
    /// Controllers in this process alone; the API only shows the objects.
    Controllers,
    /// This server alone, but for labels and annotations, in which clients keep what they know of the objects.
    ControllersButLabels,
}

/// A part of a kind's objects that takes such requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssueSubresource {
    /// The last part of the path, as in `…/serviceaccounts/NAME/token`.
    pub subresource: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    /// What is sent and answered, as in "TokenRequest".
    pub kind: &'static str,
}

impl IssueSubresource {
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// A question that is asked by creating an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    /// May I do this?
    Access,
    /// What may I do?
    Rules,
    /// Who am I?
    Subject,
    /// May this user do this?
    SubjectAccess,
    /// May this user do this in this namespace?
    LocalSubjectAccess,
    /// Whose is this token?
    Token,
}
