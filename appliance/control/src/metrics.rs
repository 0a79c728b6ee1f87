//! Counting what happens to hosts, for `/metrics`: upstream's metrics by their names and labels, and ours.
//!
//! Counts are kept in memory and begin at zero with each start, as Prometheus expects it. What hosts are like
//! now is not counted: each request surveys it ([`crate::Control::survey`]).
//!
//! Where upstream has the labels `namespace` and `host`, so have we, for the first [`HOSTS_NAMED_MAX`] hosts
//! since the start. All others are counted together, with both labels empty: a fleet of ten thousand would be
//! half a million series. Nothing else is counted by host; a host's journal and events tell what happened to it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use firesteel_plan::host::host_counts::{HostCount, TimedOperation, counted};
use firesteel_plan::host::{HostInputs, HostStep};
use firesteel_runtime::{HostKey, lock};
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};

use crate::standing::error_label;

/// Hosts that are counted by name. Each may have some forty series.
pub const HOSTS_NAMED_MAX: usize = 500;
/// Upstream's bounds of operations that take minutes.
const SLOW_SECONDS: [f64; 6] = [30.0, 90.0, 180.0, 360.0, 720.0, 1440.0];
/// Those that upstream leaves to the client library.
const QUICK_SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// How disks are erased. A receipt names its method, and an agent that makes names up must not make series.
const METHODS: [&str; 10] = [
    "sanitize-crypto",
    "sanitize-block",
    "sanitize-overwrite",
    "format-crypto",
    "format-user-data",
    "secure-erase-enhanced",
    "secure-erase",
    "write-zeroes",
    "overwrite",
    "metadata",
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HostLabels {
    namespace: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PowerChange {
    namespace: String,
    host: String,
    on_off: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorTypeLabels {
    error_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateChange {
    prev_state: &'static str,
    new_state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DataTypeLabels {
    host_data_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErasureLabels {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NetworkEventLabels {
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ImageFetchLabels {
    outcome: &'static str,
}

/// All counts. Clones share them.
#[derive(Clone)]
pub(crate) struct HostMetrics(Arc<HostMetricFamilies>);

struct HostMetricFamilies {
    registers: Family<HostLabels, Histogram>,
    inspections: Family<HostLabels, Histogram>,
    provisions: Family<HostLabels, Histogram>,
    deprovisions: Family<HostLabels, Histogram>,
    counts: HostCounters,
}

#[derive(Default)]
struct HostCounters {
    named: Mutex<HashSet<HostKey>>,
    reconciled: Family<HostLabels, Counter>,
    not_reconciled: Counter,
    errors: Family<ErrorTypeLabels, Counter>,
    power_changes: Family<PowerChange, Counter>,
    credentials_missing: Counter,
    credentials_invalid: Counter,
    credentials_updated: Counter,
    no_management_access: Counter,
    logins_refused: Counter,
    config_data: Family<DataTypeLabels, Counter>,
    delayed_provisioning: Family<HostLabels, Counter>,
    delayed_deprovisioning: Family<HostLabels, Counter>,
    state_changes: Family<StateChange, Counter>,
    registrations_required: Counter,
    unmanaged: Counter,
    gave_up_cleaning: Counter,
    gave_up_power_off: Counter,
    deletions_delayed: Counter,
    attempts: Counter,
    released_uncleaned: Counter,
    written_bytes: Counter,
    erased_bytes: Family<ErasureLabels, Counter>,
    images: Family<ImageFetchLabels, Counter>,
    agents_refused: Counter,
    second_claimants: Counter,
    network: Family<NetworkEventLabels, Counter>,
}

impl Default for HostMetrics {
    fn default() -> Self {
        let timed = |seconds: fn() -> Histogram| Family::<HostLabels, Histogram>::new_with_constructor(seconds);
        let slow = || timed(|| Histogram::new(SLOW_SECONDS));
        Self(Arc::new(HostMetricFamilies {
            registers: timed(|| Histogram::new(QUICK_SECONDS)),
            inspections: slow(),
            provisions: slow(),
            deprovisions: slow(),
            counts: HostCounters::default(),
        }))
    }
}

impl HostMetrics {
    /// Registers all of them. The names that begin with `metal3_` are upstream's, with its labels.
    pub(crate) fn register(&self, to: &mut Registry) {
        self.register_upstreams(to);
        let all = &self.0.counts;
        let mut own = |name: &str, help: &str, counter: &Counter| to.register(name, help, counter.clone());
        own("firesteel_attempts", "Boots of hosts that got a number", &all.attempts);
        own("firesteel_logins_refused", "Logins that BMCs refused", &all.logins_refused);
        own("firesteel_released_uncleaned", "Hosts let go with a disk that is not clean", &all.released_uncleaned);
        own("firesteel_written_bytes", "Bytes of images written to disks and read back", &all.written_bytes);
        let refused = "Agents refused: their boot was not seen, their token has expired, or they are another machine than the host";
        own("firesteel_agents_refused", refused, &all.agents_refused);
        let claimed = "Attempts that more than one machine claimed";
        own("firesteel_second_claimants", claimed, &all.second_claimants);
        let erased = "Bytes of disks proven to be erased, by how, and of metadata read back as cleared";
        to.register("firesteel_erased_bytes", erased, all.erased_bytes.clone());
        let network = "What DHCP, TFTP and HTTP boot gave to machines, and what they refused";
        to.register("firesteel_network_events", network, all.network.clone());
        to.register("firesteel_images_fetched", "Images fetched or refused", all.images.clone());
    }

    fn register_upstreams(&self, to: &mut Registry) {
        let all = &self.0.counts;
        to.register("metal3_reconcile", "Steps of hosts", all.reconciled.clone());
        to.register("metal3_host_error", "Errors that hosts came into", all.errors.clone());
        let power = "Orders to switch a host on or off that its BMC carried out; a reset counts as on";
        to.register("metal3_operation_power_change", power, all.power_changes.clone());
        let config = "Data for a host's OS that was missing or unfit";
        to.register("metal3_host_config_data_error", config, all.config_data.clone());
        let delayed = "Hosts that had to wait for a slot to be";
        let (provisioning, deprovisioning) = (&all.delayed_provisioning, &all.delayed_deprovisioning);
        // The doubled line is upstream's.
        let help = format!("{delayed} inspected or provisioned");
        to.register("metal3_delayed__provisioning", help, provisioning.clone());
        to.register("metal3_delayed__deprovisioning", format!("{delayed} deprovisioned"), deprovisioning.clone());
        let mut took = |what: &str, family: &Family<HostLabels, Histogram>| {
            let name = format!("metal3_operation_{what}_duration_seconds");
            to.register(name, format!("How long it took to {what} a host"), family.clone());
        };
        took("register", &self.0.registers);
        took("inspect", &self.0.inspections);
        took("provision", &self.0.provisions);
        took("deprovision", &self.0.deprovisions);
        to.register("metal3_provisioning_state_change", "Changes of a host's state", all.state_changes.clone());
        let mut count = |name: &str, help: &str, counter: &Counter| to.register(name, help, counter.clone());
        count("metal3_reconcile_error", "Steps that could not be made or stored", &all.not_reconciled);
        count("metal3_credentials_missing", "Secrets for BMCs found missing", &all.credentials_missing);
        let invalid = "Secrets for BMCs found without user name or password";
        count("metal3_credentials_invalid", invalid, &all.credentials_invalid);
        count("metal3_credentials_updated", "Other credentials that BMCs took", &all.credentials_updated);
        let access = "BMCs that could not be reached or refused the login";
        count("metal3_credentials_no_management_access", access, &all.no_management_access);
        count("metal3_host_registration_required", "Hosts that had to be registered", &all.registrations_required);
        count("metal3_host_unmanaged", "Hosts found without a BMC", &all.unmanaged);
        let uncleaned = "Hosts whose cleaning was given up when they were deleted; they may still run";
        count("metal3_delete_without_deprovisioning", uncleaned, &all.gave_up_cleaning);
        let running = "Hosts deleted although they could not be switched off";
        count("metal3_delete_without_powering_off", running, &all.gave_up_power_off);
        let detached = "Looks at deletions that wait for a detached host";
        count("metal3_delete_delayed_for_detached", detached, &all.deletions_delayed);
    }

    /// A step was made and stored.
    pub(crate) fn step(&self, key: &HostKey, seen: &HostInputs, step: &HostStep) {
        let all = &self.0.counts;
        let host = self.named(key);
        all.reconciled.get_or_create(&host).inc();
        for count in counted(seen, step) {
            self.count(&host, &count);
        }
    }

    fn count(&self, host: &HostLabels, count: &HostCount) {
        let all = &self.0.counts;
        match count {
            HostCount::StateChanged { from, to } => {
                let change = StateChange { prev_state: from.word(), new_state: to.word() };
                all.state_changes.get_or_create(&change).inc();
            }
            HostCount::Failed(kind) => {
                all.errors.get_or_create(&ErrorTypeLabels { error_type: error_label(*kind) }).inc();
            }
            HostCount::PowerOrdered { on } => {
                let HostLabels { namespace, host } = host.clone();
                let on_off = if *on { "on" } else { "off" };
                all.power_changes.get_or_create(&PowerChange { namespace, host, on_off }).inc();
            }
            HostCount::UserDataUnusable => {
                all.config_data.get_or_create(&DataTypeLabels { host_data_type: "user-data" }).inc();
            }
            HostCount::Delayed { deprovisioning } => {
                let delayed = if *deprovisioning { &all.delayed_deprovisioning } else { &all.delayed_provisioning };
                delayed.get_or_create(host).inc();
            }
            HostCount::Took { operation, seconds } => {
                let took = match operation {
                    TimedOperation::Register => &self.0.registers,
                    TimedOperation::Inspect => &self.0.inspections,
                    TimedOperation::Provision => &self.0.provisions,
                    TimedOperation::Deprovision => &self.0.deprovisions,
                };
                took.get_or_create(host).observe(*seconds);
            }
            HostCount::CredentialsMissing => bump(&all.credentials_missing),
            HostCount::CredentialsInvalid => bump(&all.credentials_invalid),
            HostCount::NoManagementAccess => bump(&all.no_management_access),
            HostCount::LoginRefused => bump(&all.logins_refused),
            HostCount::CredentialsUpdated => bump(&all.credentials_updated),
            HostCount::RegistrationRequired => bump(&all.registrations_required),
            HostCount::BecameUnmanaged => bump(&all.unmanaged),
            HostCount::GaveUpCleaning => bump(&all.gave_up_cleaning),
            HostCount::GaveUpPowerOff => bump(&all.gave_up_power_off),
            HostCount::DeletionDelayed => bump(&all.deletions_delayed),
            HostCount::AttemptBegun => bump(&all.attempts),
            HostCount::SecondClaimant => bump(&all.second_claimants),
            HostCount::ReleasedUncleaned => bump(&all.released_uncleaned),
            HostCount::Written { bytes } => drop(all.written_bytes.inc_by(*bytes)),
        }
    }

    pub(crate) fn step_failed(&self) {
        bump(&self.0.counts.not_reconciled);
    }

    /// A disk is proven to be erased by this method, or its metadata was read back as cleared.
    pub(crate) fn erased(&self, method: &str, bytes: u64) {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("other");
        self.0.counts.erased_bytes.get_or_create(&ErasureLabels { method }).inc_by(bytes);
    }

    pub(crate) fn image_fetched(&self, is_ready: bool) {
        let outcome = if is_ready { "ready" } else { "failed" };
        self.0.counts.images.get_or_create(&ImageFetchLabels { outcome }).inc();
    }

    /// Counts a network event by one of the names that [`crate::NetworkEvent::name`] has.
    pub(crate) fn network(&self, event: &'static str) {
        self.0.counts.network.get_or_create(&NetworkEventLabels { event }).inc();
    }

    pub(crate) fn agent_refused(&self) {
        bump(&self.0.counts.agents_refused);
    }

    /// The labels of a host: its own while there are few.
    fn named(&self, key: &HostKey) -> HostLabels {
        let mut named = lock(&self.0.counts.named);
        if !named.contains(key) {
            if named.len() >= HOSTS_NAMED_MAX {
                return HostLabels::default();
            }
            named.insert(key.clone());
        }
        HostLabels { namespace: key.namespace.clone(), host: key.name.clone() }
    }
}

fn bump(counter: &Counter) {
    counter.inc();
}

#[cfg(test)]
mod tests {
    use firesteel_resources::bare_metal_host::ErrorType;

    use firesteel_resources::bare_metal_host::ProvisioningState;

    use super::*;

    fn text(metrics: &HostMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap_or_default();
        text
    }

    fn key(name: String) -> HostKey {
        HostKey { namespace: "default".into(), name }
    }

    #[test]
    fn a_fleet_has_no_more_series_than_its_bound_and_no_count_is_lost() {
        let metrics = HostMetrics::default();
        let hosts = HOSTS_NAMED_MAX as u64 + 300;
        for number in 0..hosts {
            let host = metrics.named(&key(format!("h{number}")));
            metrics.count(&host, &HostCount::PowerOrdered { on: true });
        }
        let text = text(&metrics);
        let lines: Vec<&str> =
            text.lines().filter(|line| line.starts_with("metal3_operation_power_change_total")).collect();
        assert_eq!(lines.len(), HOSTS_NAMED_MAX + 1);
        let sum: u64 = lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
        assert_eq!(sum, hosts);
        assert!(
            text.contains(r#"metal3_operation_power_change_total{namespace="",host="",on_off="on"} 300"#),
            "{text}"
        );
    }

    #[test]
    fn names_and_labels_are_upstreams() {
        let metrics = HostMetrics::default();
        let host = metrics.named(&key("a".into()));
        for count in [
            HostCount::StateChanged { from: ProvisioningState::New, to: ProvisioningState::Registering },
            HostCount::Failed(ErrorType::PowerManagement),
            HostCount::UserDataUnusable,
            HostCount::Delayed { deprovisioning: true },
            HostCount::Took { operation: TimedOperation::Provision, seconds: 100.0 },
            HostCount::GaveUpCleaning,
        ] {
            metrics.count(&host, &count);
        }
        let text = text(&metrics);
        for line in [
            r#"metal3_provisioning_state_change_total{prev_state="",new_state="registering"} 1"#,
            r#"metal3_host_error_total{error_type="power management error"} 1"#,
            r#"metal3_host_config_data_error_total{host_data_type="user-data"} 1"#,
            r#"metal3_delayed__deprovisioning_total{namespace="default",host="a"} 1"#,
            r#"metal3_operation_provision_duration_seconds_bucket{le="90.0",namespace="default",host="a"} 0"#,
            r#"metal3_operation_provision_duration_seconds_bucket{le="180.0",namespace="default",host="a"} 1"#,
            r#"metal3_operation_provision_duration_seconds_bucket{le="1440.0",namespace="default",host="a"} 1"#,
            "metal3_delete_without_deprovisioning_total 1",
            "metal3_delete_without_powering_off_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
