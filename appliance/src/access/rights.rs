//! The roles of callers, as the API's objects define them now.
//!
//! Watches of the store follow the objects. The store gives a change to its watches before it answers the request that
//! made it, and every question first takes in what has arrived since the last one. So a deleted grant has no effect on
//! the next request, on any connection. A task wakes those who wait for a change.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firesteel_kube::access::{self, AccessDecision, AccessRequest, AccessRule, OnObjects};
use firesteel_kube::quota::{BYTES, NamespaceQuota, OBJECTS};
use firesteel_kube::{Authorizer, Caller, Core};
use firesteel_resources::access_grant::{AccessGrant, GROUP, SERVICE_ACCOUNT, USER};
use firesteel_resources::roles::{Role, RoleRequest, RoleRule, UNSEEN};
use firesteel_store::{
    ChangeKind, EventStream, GroupResource, ListRange, ObjectKey, PAGE_OBJECTS_MAX, PageRead, Revision, WatchError,
};
use futures_util::FutureExt as _;
use tokio::sync::watch;

use crate::metrics;

/// The objects of a tenant in a namespace without a ResourceQuota. A thousand machines with their claims, bootstrap
/// data and secrets fit; a tenant cannot fill the disk of the others.
const TENANTS_OBJECTS_MAX: u64 = 10_000;
const TENANTS_BYTES_MAX: u64 = 16 << 20;
/// Events of controllers count as well; a tenant makes none beyond these.
const TENANTS_EVENTS_MAX: u64 = 5_000;
/// The quota of a tenant's namespace that has none of its own.
static TENANTS_QUOTA: LazyLock<Arc<NamespaceQuota>> = LazyLock::new(|| {
    let hard = [(OBJECTS, TENANTS_OBJECTS_MAX), (BYTES, TENANTS_BYTES_MAX), ("count/events", TENANTS_EVENTS_MAX)];
    let hard = hard.map(|(word, most)| (word.to_owned(), most)).into();
    Arc::new(NamespaceQuota { name: "firesteel-default".to_owned(), hard })
});

/// The pause before a store that could not be read is read again.
const RETRY: Duration = Duration::from_secs(1);

/// Authorises callers by the grants in the API.
pub struct Rights {
    core: Core,
    view: Mutex<GrantView>,
    generation: watch::Sender<u64>,
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rights")
    }
}

/// The grants and service accounts that were read.
struct GrantView {
    grants: BTreeMap<String, RoleGrant>,
    /// The uids of service accounts, by the names that their tokens have.
    accounts: BTreeMap<String, String>,
    watches: Watches,
    /// More happened at once than the store remembers: only the owner may do anything until all is read again.
    is_behind: bool,
}

struct Watches {
    grants: EventStream,
    accounts: EventStream,
}

struct RoleGrant {
    uid: String,
    holder: GrantHolder,
    role: Role,
    namespace: String,
}

#[derive(Debug, PartialEq, Eq)]
enum GrantHolder {
    /// The name that callers have; service accounts are users too.
    User(String),
    Group(String),
}

impl RoleGrant {
    fn is_of(&self, caller: &Caller) -> bool {
        match &self.holder {
            GrantHolder::User(name) => *name == caller.name,
            GrantHolder::Group(name) => caller.is_in(name),
        }
    }
}

fn grants() -> GroupResource {
    GroupResource::new("firesteel.dev", "accessgrants")
}

fn accounts() -> GroupResource {
    GroupResource::new("", "serviceaccounts")
}

impl Rights {
    /// Reads all grants and service accounts. If their lists are damaged, only the owner may do anything until they can
    /// be read: see [`Rights::follow`].
    ///
    /// # Errors
    /// When the store is closed.
    pub async fn open(core: &Core) -> anyhow::Result<Self> {
        let view = match GrantView::read(core).await {
            Ok(view) => view,
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "could not read who has which role");
                GrantView::not_loaded(core).await?
            }
        };
        Ok(Self { core: core.clone(), view: Mutex::new(view), generation: watch::Sender::new(0) })
    }

    /// Tells whether the caller runs hosts: the owner, an admin, or an operator of any namespace.
    #[must_use]
    pub fn runs_hosts(&self, caller: &Caller) -> bool {
        let is_one = |grant: &RoleGrant| matches!(grant.role, Role::Admin | Role::Operator);
        caller.is_in(access::MASTERS) || self.view().of(caller).any(is_one)
    }

    /// Wakes those who wait for a change of rights, and reads all again if too much happened at once. Runs as long as
    /// the process lives.
    ///
    /// # Errors
    /// When the store has been closed.
    pub async fn follow(self: Arc<Self>) -> anyhow::Result<()> {
        loop {
            let ended = self.wake().await;
            if let WatchError::Closed = ended {
                return Err(ended.into());
            }
            match GrantView::read(&self.core).await {
                Ok(read) => {
                    *self.lock() = read;
                    self.generation.send_modify(|generation| *generation += 1);
                }
                Err(error) => {
                    tracing::warn!(%error, "could not read who has which role; it is tried again in a second");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Takes in each change when it comes, until one is missed.
    async fn wake(&self) -> WatchError {
        let mut watches = match Watches::open(&self.core, self.core.store().current()).await {
            Ok(watches) => watches,
            Err(error) => return error,
        };
        loop {
            // This holds at the start too: changes from before these watches began went to those of the view.
            if self.view().is_behind {
                return WatchError::Lagged;
            }
            let told = tokio::select! {
                told = watches.grants.next() => told,
                told = watches.accounts.next() => told,
            };
            if let Err(error) = told {
                return error;
            }
        }
    }

    /// The view with all changes until now.
    fn view(&self) -> MutexGuard<'_, GrantView> {
        let mut view = self.lock();
        if view.take_in() {
            self.generation.send_modify(|generation| *generation += 1);
        }
        view
    }

    fn lock(&self) -> MutexGuard<'_, GrantView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watches {
    async fn open(core: &Core, from: Revision) -> Result<Self, WatchError> {
        let store = core.store();
        Ok(Self { grants: store.watch(&grants(), from).await?, accounts: store.watch(&accounts(), from).await? })
    }
}

impl GrantView {
    /// A view that knows no grant.
    async fn not_loaded(core: &Core) -> anyhow::Result<Self> {
        let watches = Watches::open(core, core.store().current()).await?;
        Ok(Self { grants: BTreeMap::new(), accounts: BTreeMap::new(), watches, is_behind: true })
    }

    async fn read(core: &Core) -> anyhow::Result<Self> {
        // Watches begin before the lists are read: a change in between is seen twice rather than missed.
        let watches = Watches::open(core, core.store().current()).await?;
        let mut view = Self { grants: BTreeMap::new(), accounts: BTreeMap::new(), watches, is_behind: false };
        for kind in [grants(), accounts()] {
            let (mut at, mut after) = (None, None);
            loop {
                let range = ListRange { at, after: after.as_ref(), ..ListRange::all(&kind) };
                // A damaged grant gives no rights.
                let PageRead { page, last, .. } = core.store().page_with_damaged(range, PAGE_OBJECTS_MAX).await?;
                at = Some(page.revision);
                after = last;
                for object in &page.items {
                    view.note(&object.key, Some(&object.value));
                }
                if page.remaining == 0 {
                    break;
                }
            }
        }
        Ok(view)
    }

    /// Takes in what has happened; returns whether anything has.
    fn take_in(&mut self) -> bool {
        let mut changed = false;
        for of_grants in [true, false] {
            loop {
                let watch = if of_grants { &mut self.watches.grants } else { &mut self.watches.accounts };
                let Some(told) = watch.next().now_or_never() else { break };
                let Ok(event) = told else {
                    changed |= !self.is_behind;
                    self.is_behind = true;
                    break;
                };
                let value = (event.kind != ChangeKind::Deleted).then_some(&event.value);
                self.note(&event.key, value.map(|value| &value[..]));
                changed = true;
            }
        }
        changed
    }

    fn note(&mut self, key: &ObjectKey, value: Option<&[u8]>) {
        if key.kind == grants() {
            let name = key.name.to_string();
            match value.and_then(grant) {
                Some(grant) => self.grants.insert(name, grant),
                None => self.grants.remove(&name),
            };
        } else {
            let name = format!("{}{}:{}", access::SERVICE_ACCOUNT, key.namespace, key.name);
            match value.and_then(uid_of_living) {
                Some(uid) => self.accounts.insert(name, uid),
                None => self.accounts.remove(&name),
            };
        }
    }

    fn of<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a RoleGrant> {
        self.grants.values().filter(move |grant| !self.is_behind && grant.is_of(caller))
    }
}

/// Reads a stored grant. One that is being deleted counts no more, whatever finalizers it has.
fn grant(value: &[u8]) -> Option<RoleGrant> {
    let AccessGrant { metadata, spec, .. } = match serde_json::from_slice(value) {
        Ok(grant) => grant,
        Err(error) => {
            tracing::error!(%error, "could not read a stored AccessGrant: it grants nothing");
            return None;
        }
    };
    let subject = spec.subject;
    let holder = match subject.kind.as_str() {
        USER => GrantHolder::User(subject.name),
        GROUP => GrantHolder::Group(subject.name),
        SERVICE_ACCOUNT => {
            GrantHolder::User(format!("{}{}:{}", access::SERVICE_ACCOUNT, subject.namespace, subject.name))
        }
        _ => return None,
    };
    let role = Role::of(&spec.role)?;
    (!metadata.is_deleting()).then_some(RoleGrant { uid: metadata.uid, holder, role, namespace: spec.namespace })
}

fn uid_of_living(value: &[u8]) -> Option<String> {
    let object: serde_json::Value = serde_json::from_slice(value).ok()?;
    let metadata = &object["metadata"];
    let uid = metadata["uid"].as_str().filter(|_| metadata["deletionTimestamp"].is_null())?;
    Some(uid.to_owned())
}

impl Authorizer for Rights {
    fn decide(&self, caller: &Caller, asked: AccessRequest<'_>) -> AccessDecision {
        if let Some(decision) = access::common(caller, asked) {
            return decision;
        }
        let view = self.view();
        let allows = |grant: &&RoleGrant| match asked {
            AccessRequest::Objects(OnObjects { verb, group, resource, subresource, namespace, .. }) => {
                let wanted = RoleRequest { verb, group, resource, subresource, namespace };
                grant.role.allows(&grant.namespace, wanted)
            }
            // Paths without an object belong to the appliance itself; a caller who sees all objects sees its metrics
            // too.
            AccessRequest::Path { verb, path } => {
                grant.role == Role::Admin || (reads_metrics(grant) && is_metrics(verb, path))
            }
        };
        match view.of(caller).find(allows) {
            Some(grant) => AccessDecision::allow(format!("role {}", word(grant.role))),
            None if view.is_behind => {
                AccessDecision { reason: "the grants are being read again".into(), ..AccessDecision::deny() }
            }
            None => AccessDecision::deny(),
        }
    }

    fn rules(&self, caller: &Caller, namespace: &str) -> Vec<AccessRule> {
        let mut rules = access::common_rules(caller);
        let view = self.view();
        for grant in view.of(caller) {
            if grant.role == Role::Admin {
                let all = || vec!["*".to_owned()];
                rules.push(AccessRule { verbs: all(), paths: all(), ..AccessRule::default() });
            }
            if reads_metrics(grant) {
                let (verbs, paths) = (vec!["get".to_owned()], vec![metrics::PATH.to_owned()]);
                rules.push(AccessRule { verbs, paths, ..AccessRule::default() });
            }
            for line in grant.role.lines_in(&grant.namespace, namespace) {
                rules.extend(self.rules_of(grant.role, line));
            }
            // Kinds without a namespace are shown in every namespace.
            for line in grant.role.lines_in(&grant.namespace, "") {
                let rule = self.rules_of(grant.role, line);
                rules.extend(rule.into_iter().filter(|rule| !rules.contains(rule)).collect::<Vec<_>>());
            }
        }
        rules
    }

    fn default_quota(&self, caller: &Caller, namespace: &str) -> Option<Arc<NamespaceQuota>> {
        if namespace.is_empty() || caller.is_in(access::MASTERS) {
            return None;
        }
        let view = self.view();
        let roles: Vec<Role> = view
            .of(caller)
            .filter(|grant| grant.namespace.is_empty() || grant.namespace == namespace)
            .map(|grant| grant.role)
            .collect();
        let is_tenant =
            roles.contains(&Role::Tenant) && !roles.contains(&Role::Admin) && !roles.contains(&Role::Operator);
        is_tenant.then(|| Arc::clone(&TENANTS_QUOTA))
    }

    fn is_valid(&self, caller: &Caller) -> bool {
        // The owner's rights never change, and an anonymous caller has none that could end.
        if caller.is_in(access::MASTERS) || *caller == Caller::anonymous() {
            return true;
        }
        let view = self.view();
        if view.is_behind {
            return false;
        }
        if caller.name.starts_with(access::SERVICE_ACCOUNT) {
            return view.accounts.get(&caller.name) == Some(&caller.uid);
        }
        let user = GrantHolder::User(caller.name.clone());
        view.grants.values().any(|grant| grant.uid == caller.uid && grant.holder == user)
    }

    fn generation(&self) -> u64 {
        drop(self.view());
        *self.generation.borrow()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }
}

impl Rights {
    /// A rule in the form that clients are shown. If the role does not see all kinds, the rule names those that it
    /// sees.
    fn rules_of(&self, role: Role, line: &RoleRule) -> Vec<AccessRule> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let rule = |groups: &[&str], resources: &[&str]| AccessRule {
            verbs: owned(line.verbs),
            groups: owned(groups),
            resources: owned(resources),
            paths: Vec::new(),
        };
        if role != Role::Viewer || line.resources != ["*"] {
            return vec![rule(line.groups, line.resources)];
        }
        let mut rules: Vec<AccessRule> = Vec::new();
        for kind in self.core.registry().kinds() {
            let seen = kind.review.is_none() && !UNSEEN.contains(&(kind.group, kind.plural));
            let status = format!("{}/status", kind.plural);
            let both = [kind.plural, status.as_str()];
            let rule = rule(&[kind.group], if kind.has_status { &both } else { &both[..1] });
            if seen && !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        rules
    }
}

/// Tells whether a grant is a viewer's of all namespaces: the metrics count all of them together.
fn reads_metrics(grant: &RoleGrant) -> bool {
    grant.role == Role::Viewer && grant.namespace.is_empty()
}

fn is_metrics(verb: &str, path: &str) -> bool {
    verb == "get" && path == metrics::PATH
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Admin => "admin",
        Role::Operator => "operator",
        Role::Tenant => "tenant",
        Role::Viewer => "viewer",
        Role::Agent => "agent",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_kube::{ObjectPart, Objects};
    use firesteel_resources::access_grant::{AccessGrantSpec, GrantSubject};
    use firesteel_store::{MemoryMedium, Store, WATCH_EVENTS_MAX};

    use super::*;
    use crate::serve::kinds;

    const SECRETS: AccessRequest<'static> = AccessRequest::Objects(OnObjects {
        verb: "get",
        group: "",
        resource: "secrets",
        subresource: "",
        namespace: "a",
        name: "",
    });

    async fn site() -> (Arc<Rights>, Objects<AccessGrant>) {
        let core = Core::new(Store::in_memory(&MemoryMedium::new()), kinds::registry());
        let grants = Objects::new(&core, "firesteel.dev", "AccessGrant").unwrap();
        (Arc::new(Rights::open(&core).await.unwrap()), grants)
    }

    fn operator(user: &str) -> AccessGrant {
        let subject = GrantSubject { kind: USER.into(), name: user.into(), namespace: String::new() };
        let spec = AccessGrantSpec { subject, role: "operator".into(), namespace: "a".into() };
        let mut grant = AccessGrant { spec, ..AccessGrant::default() };
        grant.metadata.name = user.into();
        grant
    }

    #[tokio::test]
    async fn the_metrics_are_for_admins_and_for_viewers_of_everything() {
        let (rights, grants) = site().await;
        let metrics = AccessRequest::Path { verb: "get", path: "/metrics" };
        for (user, role, namespace, may) in [
            ("ann", "operator", "a", false),
            ("bob", "viewer", "a", false),
            ("eve", "viewer", "", true),
            ("root", "admin", "", true),
            ("jim", "agent", "", false),
        ] {
            let mut grant = operator(user);
            (grant.spec.role, grant.spec.namespace) = (role.into(), namespace.into());
            grants.create(&grant).await.unwrap();
            let caller = Caller::new(user);
            assert_eq!(rights.decide(&caller, metrics).allowed, may, "{user}");
            for other in [
                AccessRequest::Path { verb: "get", path: "/metrics/" },
                AccessRequest::Path { verb: "post", path: "/metrics" },
            ] {
                assert_eq!(rights.decide(&caller, other).allowed, role == "admin", "{user}");
            }
            let shown = rights.rules(&caller, "a").iter().any(|rule| rule.paths == ["/metrics"]);
            assert_eq!(shown, may && role != "admin", "{user}");
        }
        assert!(!rights.decide(&Caller::anonymous(), metrics).allowed);
    }

    #[tokio::test]
    async fn admins_and_operators_run_hosts() {
        let (rights, grants) = site().await;
        for (user, role, namespace, does) in [
            ("ann", "operator", "a", true),
            ("root", "admin", "", true),
            ("bob", "tenant", "a", false),
            ("eve", "viewer", "", false),
            ("jim", "agent", "", false),
        ] {
            let mut grant = operator(user);
            (grant.spec.role, grant.spec.namespace) = (role.into(), namespace.into());
            grants.create(&grant).await.unwrap();
            assert_eq!(rights.runs_hosts(&Caller::new(user)), does, "{user}");
        }
        assert!(rights.runs_hosts(&Caller::admin()) && !rights.runs_hosts(&Caller::new("pam")));
    }

    /// No task runs here: the question itself takes in what has happened.
    #[tokio::test]
    async fn what_was_answered_holds_for_the_next_question() {
        let (rights, grants) = site().await;
        let ann = Caller::new("ann");
        assert!(!rights.decide(&ann, SECRETS).allowed);
        let mut made = grants.create(&operator("ann")).await.unwrap();
        assert!(rights.decide(&ann, SECRETS).allowed && !rights.decide(&Caller::new("bob"), SECRETS).allowed);
        let proven = Caller { uid: made.metadata.uid.clone(), ..ann.clone() };
        assert!(rights.is_valid(&proven) && !rights.is_valid(&ann), "a name alone is no credential");
        let before = rights.generation();
        made.metadata.finalizers = vec!["example.com/held".into()];
        grants.update(&made).await.unwrap();
        grants.delete("", "ann").await.unwrap();
        assert!(grants.get("", "ann").await.unwrap().is_some(), "it is held");
        assert!(!rights.decide(&ann, SECRETS).allowed && !rights.is_valid(&proven), "and gives nothing any more");
        assert!(rights.generation() > before);
    }

    #[tokio::test]
    async fn who_missed_too_much_lets_nobody_in_until_all_is_read_again() {
        let (rights, grants) = site().await;
        grants.create(&operator("ann")).await.unwrap();
        let ann = Caller::new("ann");
        assert!(rights.decide(&ann, SECRETS).allowed);
        for number in 0..=WATCH_EVENTS_MAX {
            let label = number.to_string();
            let change = |grant: &mut AccessGrant| drop(grant.metadata.labels.insert("n".into(), label.clone()));
            grants.modify("", "ann", ObjectPart::Main, change).await.unwrap();
        }
        let refused = rights.decide(&ann, SECRETS);
        assert!(!refused.allowed && refused.reason.contains("read again"), "{refused:?}");
        assert!(rights.decide(&Caller::admin(), SECRETS).allowed);
        let mut changes = rights.changes();
        changes.mark_unchanged();
        let following = tokio::spawn(Arc::clone(&rights).follow());
        changes.changed().await.unwrap();
        assert!(rights.decide(&ann, SECRETS).allowed);
        following.abort();
    }
}
