//! The quotas of namespaces, read when they changed, as what the store is to allow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use firesteel_store::{AllowanceScope, GroupResource, ListRange, Measure, QuotaAllowance, Revision, Store};

use super::QuotaSubject;
use crate::model::kind_parts::Writers;
use crate::model::namespace_quota::NamespaceQuota;
use crate::model::registry::Registry;
use crate::model::status::Status;
use crate::object::{store_errors, stored};

/// Quotas of one namespace that are looked at; owners have one or two.
const QUOTAS_MAX: usize = 32;
/// Namespaces whose quotas are remembered. One that is forgotten is read again.
const NAMESPACES_MAX: usize = 1024;

/// The quotas of all namespaces, shared by all writers.
#[derive(Debug)]
pub(crate) struct QuotaBook {
    quotas: GroupResource,
    /// What counts for no quota of bytes, and for none of objects.
    uncounted: Arc<[GroupResource]>,
    uncounted_objects: Arc<[GroupResource]>,
    known: Mutex<HashMap<String, KnownQuotas>>,
}

#[derive(Clone, Debug)]
struct KnownQuotas {
    at: Revision,
    quotas: Arc<[NamespaceQuota]>,
}

impl QuotaBook {
    pub(crate) fn new(registry: &Registry) -> Self {
        let quotas = GroupResource::new("", "resourcequotas");
        let kept = registry.stored_kinds().filter(|kind| kind.writers == Writers::Controllers);
        // A quota that is too small can be made larger.
        let uncounted: Vec<GroupResource> = kept.map(|kind| kind.stored_resource()).chain([quotas.clone()]).collect();
        // Controllers write many, and they go by themselves.
        let events = GroupResource::new("", "events");
        let uncounted_objects = uncounted.iter().cloned().chain([events]).collect();
        Self { quotas, uncounted: uncounted.into(), uncounted_objects, known: Mutex::default() }
    }

    /// What a client's write in a namespace is bound to: the quotas of its owner, and of `default` what they do not
    /// speak of.
    pub(crate) async fn allowances(
        &self,
        store: &Store,
        namespace: &str,
        default: Option<&NamespaceQuota>,
    ) -> Result<Vec<QuotaAllowance>, Status> {
        let quotas = self.quotas_of(store, namespace).await?;
        let is_set = |word: &String| quotas.iter().any(|quota| quota.hard.contains_key(word));
        let own = quotas.iter().flat_map(|quota| quota.hard.iter().map(move |limit| (quota, limit)));
        let others = default.into_iter().flat_map(|quota| quota.hard.iter().map(move |limit| (quota, limit)));
        let all = own.chain(others.filter(|(_, (word, _))| !is_set(word)));
        Ok(all.filter_map(|(quota, (word, most))| self.allowance(&quota.name, word, *most)).collect())
    }

    /// What a word of a quota allows.
    pub(super) fn allowance(&self, quota: &str, word: &str, most: u64) -> Option<QuotaAllowance> {
        let (measure, scope) = match QuotaSubject::of(word)? {
            QuotaSubject::Kind(kind) => (Measure::Objects, AllowanceScope::Only(kind)),
            QuotaSubject::All(Measure::Objects) => {
                (Measure::Objects, AllowanceScope::AllBut(self.uncounted_objects.clone()))
            }
            QuotaSubject::All(Measure::Bytes) => (Measure::Bytes, AllowanceScope::AllBut(self.uncounted.clone())),
        };
        Some(QuotaAllowance { quota: quota.to_owned(), word: word.to_owned(), measure, scope, most })
    }

    async fn quotas_of(&self, store: &Store, namespace: &str) -> Result<Arc<[NamespaceQuota]>, Status> {
        let changed = store.changed(&self.quotas);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned();
        if let Some(known) = known.filter(|known| known.at >= changed) {
            return Ok(known.quotas);
        }
        let range = ListRange { namespace: Some(namespace), ..ListRange::all(&self.quotas) };
        let page = store.page(range, QUOTAS_MAX).await.map_err(store_errors::read_failed)?;
        if page.remaining > 0 {
            tracing::warn!(namespace, "a namespace has more than {QUOTAS_MAX} quotas: only the first of them limit it");
        }
        let mut quotas = Vec::with_capacity(page.items.len());
        for object in &page.items {
            quotas.push(NamespaceQuota::of(&object.key.name, &stored::decode(object)?));
        }
        let quotas: Arc<[NamespaceQuota]> = quotas.into();
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= NAMESPACES_MAX {
            all.clear();
        }
        all.insert(namespace.to_owned(), KnownQuotas { at: page.revision, quotas: quotas.clone() });
        Ok(quotas)
    }
}
