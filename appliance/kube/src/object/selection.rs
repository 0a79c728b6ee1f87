//! Which objects a list or a watch is about, and in which form they are wanted.

use std::sync::Arc;

use firesteel_store::{Damage, ObjectKey};

use crate::codec::negotiate::ResponseFormat;
use crate::codec::table::Include;
use crate::model::kind::KindInfo;
use crate::model::query::Query;
use crate::model::selector::ListSelector;
use crate::model::status::Status;
use crate::object::core::Core;

/// What every list and watch has.
#[derive(Debug)]
pub(crate) struct ListSelection {
    pub(crate) kind: Arc<KindInfo>,
    /// The namespace; empty for all.
    pub(crate) namespace: String,
    pub(crate) selector: ListSelector,
    pub(crate) include: Include,
    pub(crate) format: ResponseFormat,
}

impl ListSelection {
    pub(crate) fn new(
        kind: Arc<KindInfo>,
        namespace: &str,
        query: &Query,
        format: ResponseFormat,
    ) -> Result<Self, Status> {
        let selector = ListSelector::parse(&kind, query.label_selector.as_deref(), query.field_selector.as_deref())?;
        let include = Include::parse(query.include_object.as_deref())?;
        Ok(Self { kind, namespace: namespace.into(), selector, include, format })
    }

    /// The selection for objects of another kind.
    pub(crate) fn of_kind(&self, kind: Arc<KindInfo>) -> Self {
        Self {
            kind,
            namespace: self.namespace.clone(),
            selector: ListSelector::default(),
            include: self.include,
            format: self.format,
        }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_str())
    }

    /// Whether an object of which only its key is known may be one that is asked for.
    pub(crate) fn may_be(&self, key: &ObjectKey) -> bool {
        self.selector.fields.name().is_none_or(|name| name == key.name)
    }

    /// The refusal of a list in which one of these would be missing, with all that are known.
    pub(crate) fn refusal(&self, core: &Core, mut found: Vec<Damage>) -> Option<Status> {
        let known = core.store().damaged(&self.kind.stored_resource(), self.namespace());
        for damage in known {
            if found.iter().all(|other| other.key != damage.key) {
                found.push(damage);
            }
        }
        found.retain(|damage| self.may_be(&damage.key));
        (!found.is_empty()).then(|| Status::damaged(&found))
    }
}
