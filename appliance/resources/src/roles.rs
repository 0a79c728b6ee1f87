//! The roles and what each may do: the whole table, and how it is read. Pure.
//!
//! A grant ([`crate::access_grant`]) gives a role, in one namespace or in all. Nothing is allowed that no
//! line allows. The API server itself allows what every known caller may do: discovery, and questions about the
//! caller.

/// A role that a grant gives on this appliance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Everything.
    Admin,
    /// Runs the hosts of a namespace.
    Operator,
    /// Uses machines, and never sees which hosts they are.
    Tenant,
    /// Sees all but [`UNSEEN`].
    Viewer,
    /// A program on a host. What agents do here they do over their own listener.
    Agent,
}

/// The reach of a line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleReach {
    /// The grant's namespace; a grant without one holds everywhere.
    Granted,
    /// Kinds without namespaces, whatever the namespace of the grant.
    Cluster,
}

/// A line of the table. `*` is every group, every kind with all its parts, or every verb.
#[derive(Clone, Copy, Debug)]
pub struct RoleRule {
    pub role: Role,
    pub place: RuleReach,
    pub groups: &'static [&'static str],
    /// Plurals, and parts as in "hostclaims/status".
    pub resources: &'static [&'static str],
    pub verbs: &'static [&'static str],
}

use Role::{Admin, Operator, Tenant, Viewer};
use RuleReach::{Cluster, Granted};

const ALL: &[&str] = &["*"];
const READ: &[&str] = &["get", "list", "watch"];
const CORE: &[&str] = &[""];
const METAL3: &[&str] = &["metal3.io"];
const FIRESTEEL: &[&str] = &["firesteel.dev"];
const EVENTS: &[&str] = &["", "events.k8s.io"];
const LEASES: &[&str] = &["coordination.k8s.io"];
const DEFINITIONS: &[&str] = &["apiextensions.k8s.io"];
const CLUSTERS: &[&str] = &[
    "cluster.x-k8s.io",
    "infrastructure.cluster.x-k8s.io",
    "bootstrap.cluster.x-k8s.io",
    "controlplane.cluster.x-k8s.io",
    // The Machine API's sets stand beside Cluster API's.
    "machine.openshift.io",
];
const MACHINE_CONFIGS: &[&str] = &["machineconfiguration.openshift.io"];
const OPERATORS: &[&str] = &["operator.openshift.io"];

/// Kinds that a viewer does not see. A reader of a Secret has the passwords in it, and MachineConfigs hold files with
/// join credentials.
pub const UNSEEN: &[(&str, &str)] = &[("", "secrets"), ("machineconfiguration.openshift.io", "machineconfigs")];

/// Deletes an object that cannot be read, and with it whatever would have kept it. No `*` of a role but the
/// administrator's means it.
pub const DELETE_UNREAD: &str = "unsafe-delete-ignore-read-errors";

/// Everything that a role may do.
#[rustfmt::skip]
pub const TABLE: &[RoleRule] = &[
    line(Admin,    Granted, ALL,         ALL,                                   ALL),

    line(Operator, Granted, METAL3,      ALL,                                   ALL),
    line(Operator, Granted, FIRESTEEL,   &["hostjournals", "receipts"],         READ),
    line(Operator, Granted, FIRESTEEL,   &["hostgroups"],                       ALL),
    line(Operator, Granted, CORE,        &["secrets", "configmaps"],            ALL),
    line(Operator, Granted, EVENTS,      &["events"],                           ALL),
    line(Operator, Granted, LEASES,      &["leases"],                           ALL),
    line(Operator, Granted, CORE,        &["namespaces", "serviceaccounts"],    READ),
    // Who is limited by a quota does not write it.
    line(Operator, Granted, CORE,        &["resourcequotas"],                   READ),
    line(Operator, Granted, CORE,        &["resourcequotas/status"],            &["get"]),
    line(Operator, Granted, CORE,        &["pods", "pods/log"],                 READ),
    line(Operator, Cluster, METAL3,      &["provisionings"],                    READ),
    line(Operator, Cluster, FIRESTEEL,   &["discoveredhosts"],                  READ),
    // Which images are golden is said for the whole fleet, and so is what machines are configured with.
    line(Operator, Cluster, FIRESTEEL,   &["bootimagestreams"],                 READ),
    line(Operator, Cluster, OPERATORS,   &["machineconfigurations"],            READ),
    line(Operator, Cluster, MACHINE_CONFIGS, &["machineconfigpools"],           READ),
    // Whoever runs hosts may stop the fleet; who sees all of it sets it going again.
    line(Operator, Cluster, FIRESTEEL,   &["halts"],                            &["get", "list", "watch", "create"]),
    line(Operator, Cluster, DEFINITIONS, &["customresourcedefinitions"],        READ),

    line(Tenant,   Granted, METAL3,      &["hostclaims"],                       ALL),
    line(Tenant,   Granted, METAL3,      &["hostclaims/status"],                &["get"]),
    line(Tenant,   Granted, CLUSTERS,    ALL,                                   ALL),
    line(Tenant,   Granted, CORE,        &["secrets", "configmaps"],            ALL),
    line(Tenant,   Granted, EVENTS,      &["events"],                           &["get", "list", "watch", "create", "patch", "update"]),
    line(Tenant,   Granted, LEASES,      &["leases"],                           ALL),
    line(Tenant,   Granted, CORE,        &["namespaces"],                       &["get"]),
    line(Tenant,   Granted, CORE,        &["resourcequotas"],                   READ),
    line(Tenant,   Granted, CORE,        &["resourcequotas/status"],            &["get"]),
    line(Tenant,   Cluster, DEFINITIONS, &["customresourcedefinitions"],        READ),

    line(Viewer,   Granted, ALL,         ALL,                                   READ),
    line(Viewer,   Cluster, METAL3,      &["provisionings"],                    READ),
    line(Viewer,   Cluster, DEFINITIONS, &["customresourcedefinitions"],        READ),
    // An agent has no line.
];

const fn line(
    role: Role,
    place: RuleReach,
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> RoleRule {
    RoleRule { role, place, groups, resources, verbs }
}

/// An action on objects that a caller asks for. An empty namespace means all of them, or a kind without namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleRequest<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
}

impl Role {
    pub const WORDS: [&'static str; 5] = ["admin", "operator", "tenant", "viewer", "agent"];

    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        let all = [Self::Admin, Self::Operator, Self::Tenant, Self::Viewer, Self::Agent];
        Self::WORDS.iter().position(|known| *known == word).map(|index| all[index])
    }

    /// Says what it may do, in one line.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Admin => "may do everything, everywhere",
            Self::Operator => "runs the hosts of a namespace, and may halt the fleet",
            Self::Tenant => "uses machines by claims in a namespace, and never sees hosts",
            Self::Viewer => "reads all but Secrets and MachineConfigs, in a namespace or everywhere",
            Self::Agent => "has the rights of every known caller alone",
        }
    }

    /// Whether its grants name a namespace: always, never, or as one likes.
    #[must_use]
    pub fn needs_namespace(self) -> Option<bool> {
        match self {
            Self::Operator | Self::Tenant => Some(true),
            Self::Admin | Self::Agent => Some(false),
            Self::Viewer => None,
        }
    }

    /// Whether a grant of this role in a namespace (empty: in all) allows something.
    #[must_use]
    pub fn allows(self, granted: &str, wanted: RoleRequest<'_>) -> bool {
        if self == Self::Viewer && UNSEEN.contains(&(wanted.group, wanted.resource)) {
            return false;
        }
        if self != Self::Admin && wanted.verb == DELETE_UNREAD {
            return false;
        }
        self.lines_in(granted, wanted.namespace).any(|line| line.allows(wanted))
    }

    /// The lines of this role that hold in a namespace, for a grant in one.
    pub fn lines_in<'a>(
        self,
        granted: &'a str,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'static RoleRule> + use<'a> {
        TABLE.iter().filter(move |line| line.role == self && line.place.holds(granted, namespace))
    }
}

impl RuleReach {
    fn holds(self, granted: &str, namespace: &str) -> bool {
        match self {
            Self::Granted => granted.is_empty() || granted == namespace,
            Self::Cluster => namespace.is_empty(),
        }
    }
}

impl RoleRule {
    fn allows(&self, wanted: RoleRequest<'_>) -> bool {
        let has = |words: &[&str], word: &str| words.iter().any(|own| *own == "*" || *own == word);
        let is_resource = |own: &str| match own.split_once('/') {
            Some((resource, part)) => (resource, part) == (wanted.resource, wanted.subresource),
            None => own == "*" || (own == wanted.resource && wanted.subresource.is_empty()),
        };
        has(self.verbs, wanted.verb)
            && has(self.groups, wanted.group)
            && self.resources.iter().any(|own| is_resource(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: RoleRequest<'static> =
        RoleRequest { verb: "get", group: "metal3.io", resource: "baremetalhosts", subresource: "", namespace: "a" };

    #[test]
    fn a_role_ends_where_its_namespace_does() {
        assert!(Role::Operator.allows("a", HOSTS));
        assert!(!Role::Operator.allows("a", RoleRequest { namespace: "b", ..HOSTS }));
        assert!(
            !Role::Operator.allows("a", RoleRequest { namespace: "", ..HOSTS }),
            "all namespaces are more than one"
        );
        assert!(Role::Viewer.allows("", RoleRequest { namespace: "", ..HOSTS }));
        assert!(!Role::Viewer.allows("a", RoleRequest { namespace: "", ..HOSTS }));
    }

    #[test]
    fn a_part_of_an_object_is_a_right_of_its_own() {
        let claim = RoleRequest { verb: "update", resource: "hostclaims", ..HOSTS };
        assert!(Role::Tenant.allows("a", claim));
        assert!(!Role::Tenant.allows("a", RoleRequest { subresource: "status", ..claim }));
        assert!(Role::Tenant.allows("a", RoleRequest { subresource: "status", verb: "get", ..claim }));
        assert!(Role::Operator.allows("a", RoleRequest { subresource: "status", ..claim }));
        let token =
            RoleRequest { verb: "create", group: "", resource: "serviceaccounts", subresource: "token", ..HOSTS };
        assert!(!Role::Operator.allows("a", token), "a token may be worth more than its maker");
    }

    #[test]
    fn what_cannot_be_read_is_deleted_by_an_administrator_alone() {
        let unread = RoleRequest { verb: DELETE_UNREAD, ..HOSTS };
        assert!(Role::Admin.allows("", unread));
        assert!(Role::Operator.allows("a", RoleRequest { verb: "delete", ..HOSTS }));
        assert!(!Role::Operator.allows("a", unread) && !Role::Tenant.allows("a", unread));
    }

    #[test]
    fn a_viewer_sees_no_secret_and_an_agent_nothing() {
        let secrets = RoleRequest { group: "", resource: "secrets", ..HOSTS };
        for granted in ["", "a"] {
            assert!(!Role::Viewer.allows(granted, secrets) && Role::Viewer.allows(granted, HOSTS));
        }
        assert!(!Role::Agent.allows("", HOSTS));
        assert!(TABLE.iter().all(|line| line.role != Role::Agent));
    }

    #[test]
    fn an_operator_has_groups_of_hosts_and_sees_which_images_are_golden() {
        let group = RoleRequest { verb: "create", group: "firesteel.dev", resource: "hostgroups", ..HOSTS };
        assert!(Role::Operator.allows("a", group) && !Role::Tenant.allows("a", group));
        assert!(
            !Role::Operator.allows("a", RoleRequest { subresource: "status", ..group }),
            "history is the appliance's"
        );
        let stream = RoleRequest { resource: "bootimagestreams", verb: "get", namespace: "", ..group };
        assert!(Role::Operator.allows("a", stream));
        assert!(!Role::Operator.allows("a", RoleRequest { verb: "update", ..stream }));
        let config = RoleRequest { group: "machineconfiguration.openshift.io", resource: "machineconfigs", ..stream };
        for role in [Role::Operator, Role::Viewer] {
            assert!(!role.allows("", config), "join credentials may stand in them");
        }
    }

    #[test]
    fn every_word_is_a_role() {
        for word in Role::WORDS {
            assert_eq!(Role::of(word).map(|role| format!("{role:?}").to_lowercase()).as_deref(), Some(word));
        }
        assert_eq!(Role::of("root"), None);
    }
}
