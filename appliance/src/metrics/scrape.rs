//! Metrics that are read when a client asks: hosts, store, disks, certificates, the process. Nothing of it is kept.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use firesteel_control::FleetSurvey;
use firesteel_images::import::ImageStore;
use firesteel_kube::Api;
use firesteel_rollout::RolloutSurvey;
use firesteel_runtime::StoreClock;
use firesteel_store::{FLUSH_BOUNDS_US, Flushes, Store};
use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::process::Process;
use super::sensors;
use crate::{audit::Audit, serve::controllers::HostControllers};

/// Where a scrape reads from.
#[derive(Debug)]
pub(super) struct MetricsSources {
    store: Store,
    data: PathBuf,
    audit: Audit,
    started_at: Timestamp,
    pub(super) certificates: Mutex<Vec<Certificate>>,
    pub(super) rotation: Mutex<Option<Timestamp>>,
    pub(super) clock: OnceLock<StoreClock>,
    pub(super) controllers: OnceLock<(HostControllers, ImageStore)>,
    pub(super) api: OnceLock<Api>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Certificate {
    pub(super) name: &'static str,
    pub(super) not_after: Timestamp,
}

impl MetricsSources {
    pub(super) fn new(store: Store, data: &Path, audit: Audit) -> Self {
        Self {
            store,
            data: data.to_path_buf(),
            audit,
            started_at: Timestamp::now(),
            certificates: Mutex::default(),
            rotation: Mutex::default(),
            clock: OnceLock::new(),
            controllers: OnceLock::new(),
            api: OnceLock::new(),
        }
    }

    fn store(&self, to: &mut ScrapeWriter<'_>) -> fmt::Result {
        let size = |name: &str| std::fs::metadata(self.data.join(name)).map_or(0, |found| found.len());
        to.gauge("firesteel_store_bytes", "Size of the database", number(size("resources.db")))?;
        to.gauge(
            "firesteel_store_wal_bytes",
            "Size of the database's log of changes",
            number(size("resources.db-wal")),
        )?;
        to.gauge("firesteel_store_revision", "Changes made in the store", number(self.store.current().0))?;
        if let Ok(disk) = nix::sys::statvfs::statvfs(&self.data) {
            let bytes = |blocks: u64| number(blocks.saturating_mul(disk.fragment_size()));
            let help = "Size of the file system of the data folder";
            to.gauge("firesteel_data_folder_size_bytes", help, bytes(disk.blocks()))?;
            let help = "Room on the file system of the data folder";
            to.gauge("firesteel_data_folder_free_bytes", help, bytes(disk.blocks_available()))?;
        }
        if let Some(storage) = self.store.storage() {
            let help = "Size of the reserve for writes on a full disk";
            to.gauge("firesteel_store_reserve_bytes", help, number(storage.reserve_bytes))?;
            let help = "Size of the whole reserve";
            to.gauge("firesteel_store_reserve_full_bytes", help, number(storage.reserve_bytes_full))?;
            let help = "Whether changes are refused for want of room: 0 or 1";
            to.gauge("firesteel_store_refuses", help, number(storage.refused.is_some().into()))?;
            let help = "Whether not even leases, halts and deletions can be stored: 0 or 1";
            to.gauge("firesteel_store_unwritable", help, number(storage.unwritable.is_some().into()))?;
        }
        self.damage(to)?;
        to.flushes(&self.store.flushes())
    }

    fn damage(&self, to: &mut ScrapeWriter<'_>) -> fmt::Result {
        let damage = self.store.damage();
        let help = "Objects whose stored values are damaged";
        to.gauge("firesteel_store_damaged_objects", help, number(damage.objects.len() as u64))?;
        let help = "Kinds that the API does not serve, because their lists are damaged";
        to.gauge("firesteel_store_damaged_kinds", help, number(damage.kinds.len() as u64))?;
        let help = "Whether pages of the database are malformed: 0 or 1";
        to.gauge("firesteel_store_damaged_structure", help, number(u64::from(damage.structure.is_some())))
    }

    fn process(&self, to: &mut ScrapeWriter<'_>) -> fmt::Result {
        let Process { resident_bytes, cpu_seconds, threads, open_files } = Process::read();
        if let Some(bytes) = resident_bytes {
            to.gauge("process_resident_memory_bytes", "Memory in use", number(bytes))?;
        }
        if let Some(seconds) = cpu_seconds {
            to.counter("process_cpu_seconds", "Processor time used", seconds)?;
        }
        if let Some(threads) = threads {
            to.gauge("process_threads", "Threads", number(threads))?;
        }
        if let Some(files) = open_files {
            to.gauge("process_open_fds", "Open file descriptors", number(files))?;
        }
        to.gauge("process_start_time_seconds", "Start of the process in Unix time", seconds(self.started_at))
    }

    fn images(&self, to: &mut ScrapeWriter<'_>, images: &ImageStore) -> fmt::Result {
        // An unreadable folder must not look like an empty one.
        let Ok(all) = images.list() else { return Ok(()) };
        to.gauge("firesteel_images", "Images in the store", number(all.len() as u64))?;
        let bytes = all.iter().map(|image| image.meta.stream_bytes).sum();
        to.gauge("firesteel_images_bytes", "Bytes of the images in the store", number(bytes))
    }
}

impl Collector for MetricsSources {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = ScrapeWriter::new(encoder);
        let version = env!("CARGO_PKG_VERSION");
        to.gauges("firesteel_build", "The program's version", [([("version", version)], 1.0)])?;
        self.store(&mut to)?;
        self.process(&mut to)?;
        to.counter("firesteel_audit_lost", "Records that the audit log lost", number(self.audit.lost()))?;
        let certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ends = certificates.iter().map(|found| ([("certificate", found.name)], seconds(found.not_after)));
        to.gauges("firesteel_certificate_end_timestamp_seconds", "When a certificate ends in Unix time", ends)?;
        if let Some(begun) = *self.rotation.lock().unwrap_or_else(PoisonError::into_inner) {
            let help = "When the rotation of the CA began that is not finished, in Unix time";
            to.gauge("firesteel_ca_rotation_begun_timestamp_seconds", help, seconds(begun))?;
        }
        if let Some(clock) = self.clock.get() {
            let help = "Whether the appliance's clock may be wrong, so that no disk is changed: 0 or 1";
            to.gauge("firesteel_clock_doubtful", help, number(u64::from(clock.doubt().is_some())))?;
        }
        if let Some(api) = self.api.get() {
            let (requests, watches) = api.under_way();
            to.gauge("firesteel_api_requests_under_way", "Requests being answered", number(requests))?;
            to.gauge("firesteel_api_watches", "Watches being served", number(watches))?;
            let held = api.core().unstored().borrow().len() as u64;
            let help = "Halts that are in force and could not be stored";
            to.gauge("firesteel_halts_unstored", help, number(held))?;
        }
        if let Some((controllers, images)) = self.controllers.get() {
            to.survey(&controllers.control.survey())?;
            to.rollout(&controllers.rollout.survey())?;
            self.images(&mut to, images)?;
            if let Some(survey) = controllers.sensors.survey() {
                sensors::write(&survey, &mut to)?;
            }
        }
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

pub(super) fn seconds(at: Timestamp) -> f64 {
    at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64()
}

/// Writes metrics to the encoder of one scrape.
pub(super) struct ScrapeWriter<'a>(DescriptorEncoder<'a>);

impl<'a> ScrapeWriter<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        encoder.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    pub(super) fn gauges<S: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (S, f64)>,
    ) -> fmt::Result {
        let mut encoder: MetricEncoder<'_> = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(labels, value)| encoder.encode_family(&labels)?.encode_gauge(&value))
    }

    fn flushes(&mut self, flushes: &Flushes) -> fmt::Result {
        let bounds = FLUSH_BOUNDS_US.iter().map(|bound| number(*bound) / 1e6).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(flushes.classes).collect();
        let help = "How long it took to write a batch of changes to the disk";
        let name = "firesteel_store_flush_duration_seconds";
        let (sum, count) = (flushes.total.as_secs_f64(), flushes.classes.iter().sum());
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        let help = "Batches of changes that could not be written";
        self.counter("firesteel_store_flush_failures", help, number(flushes.failed))
    }

    fn survey(&mut self, survey: &FleetSurvey) -> fmt::Result {
        let by = |counts: &BTreeMap<&'static str, u64>, label: &'static str| {
            counts.iter().map(|(word, count)| ([(label, *word)], number(*count))).collect::<Vec<_>>()
        };
        self.gauges("firesteel_hosts", "Hosts by state", by(&survey.states, "state"))?;
        let errors = survey.errors.iter();
        let errors =
            errors.map(|((kind, waits), count)| ([("error_type", *kind), ("waits_for", *waits)], number(*count)));
        let help = "Hosts in an error, by type and by what ends it: an edit, the next retry, or the end of the cause";
        self.gauges("firesteel_hosts_in_error", help, errors)?;
        let help = "Hosts by whether they will reach their wanted state";
        self.gauges("firesteel_hosts_outlook", help, by(&survey.outlooks, "outlook"))?;
        let still = survey.still_seconds.iter().map(|(state, seconds)| ([("state", *state)], *seconds));
        let help = "For each working state, how long the slowest host has made no progress";
        self.gauges("firesteel_hosts_still_seconds", help, still)?;
        self.gauge("firesteel_hosts_delayed", "Hosts that wait for a slot", number(survey.delayed))?;
        self.gauge("firesteel_hosts_frozen", "Hosts that are frozen", number(survey.frozen))?;
        self.gauge("firesteel_hosts_held", "Hosts that are paused or detached", number(survey.held))?;
        let help = "Whether the fleet is halted, so that no disk is changed: 0 or 1";
        self.gauge("firesteel_halted", help, number(u64::from(survey.is_halted)))?;
        let help = "Hosts whose BMC refused the login and has taken none since";
        self.gauge("firesteel_hosts_login_refused", help, number(survey.refused))?;
        let help = "Hosts that more than one machine claims to be, until that is settled";
        self.gauge("firesteel_hosts_claimed_twice", help, number(survey.claimed))?;
        self.gauge("firesteel_queue", "Hosts in the work queue of the control loop", number(survey.queued))?;
        self.gauge("firesteel_discovered_machines", "Machines that are not adopted", number(survey.discovered))?;
        let help = "Images that hosts need, by progress";
        self.gauges("firesteel_images_wanted", help, by(&survey.images, "state"))
    }

    fn rollout(&mut self, survey: &RolloutSurvey) -> fmt::Result {
        let help = "Groups of hosts whose rollout of a new image halted";
        self.gauge("firesteel_host_groups_halted", help, number(survey.halted_groups))?;
        let sets = survey.boot_image_sets.iter().map(|(word, count)| ([("state", *word)], number(*count)));
        let help = "Sets whose boot images are managed, by the result";
        self.gauges("firesteel_boot_image_sets", help, sets)?;
        let help = "Whether nothing checks how old boot images are: 0 or 1";
        self.gauge(
            "firesteel_boot_image_skew_unchecked",
            help,
            number(u64::from(survey.boot_images_new_enough.is_none())),
        )?;
        let help = "Whether boot images are too old for an upgrade: 0 or 1";
        let is_old = survey.boot_images_new_enough == Some(false);
        self.gauge("firesteel_boot_images_too_old", help, number(u64::from(is_old)))
    }
}
