//! What happened how often: steps, changes of state, faults.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firesteel_plan::host::transitions::EDGES;
use firesteel_resources::bare_metal_host::ProvisioningState;

/// Everything that goes wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fault {
    RequestLost,
    ReplyLost,
    Delayed,
    Duplicated,
    Reordered,
    PacketLost,
    PacketDuplicated,
    HostVanishes,
    HostHangs,
    HostBootsAgain,
    WorkerDies,
    SecondKey,
    TokenReplayed,
    TokenAltered,
    LiesAboutIdentity,
    LiesAboutWrite,
    HidesReceipts,
    ForgesWipe,
    MacStolen,
    DisksShuffled,
    DiskSwapped,
    DiskCorrupts,
    DiskFails,
    DiskReadOnly,
    BmcUnauthorized,
    BmcRefuses,
    BmcUnreachable,
    BmcSlow,
    BmcIgnoresPower,
    BmcForgetsBoot,
    BmcGarbage,
    KilledBeforeWrite,
    KilledAfterWrite,
    KilledAtEffect,
    KilledAtRest,
    WriteRefused,
    WriteUnheard,
    LeaseRefused,
    ImageFails,
    ImageWrong,
    SecretMissing,
    DhcpStarved,
    Halted,
}

pub(crate) const FAULTS: [Fault; 43] = [
    Fault::RequestLost,
    Fault::ReplyLost,
    Fault::Delayed,
    Fault::Duplicated,
    Fault::Reordered,
    Fault::PacketLost,
    Fault::PacketDuplicated,
    Fault::HostVanishes,
    Fault::HostHangs,
    Fault::HostBootsAgain,
    Fault::WorkerDies,
    Fault::SecondKey,
    Fault::TokenReplayed,
    Fault::TokenAltered,
    Fault::LiesAboutIdentity,
    Fault::LiesAboutWrite,
    Fault::HidesReceipts,
    Fault::ForgesWipe,
    Fault::MacStolen,
    Fault::DisksShuffled,
    Fault::DiskSwapped,
    Fault::DiskCorrupts,
    Fault::DiskFails,
    Fault::DiskReadOnly,
    Fault::BmcUnauthorized,
    Fault::BmcRefuses,
    Fault::BmcUnreachable,
    Fault::BmcSlow,
    Fault::BmcIgnoresPower,
    Fault::BmcForgetsBoot,
    Fault::BmcGarbage,
    Fault::KilledBeforeWrite,
    Fault::KilledAfterWrite,
    Fault::KilledAtEffect,
    Fault::KilledAtRest,
    Fault::WriteRefused,
    Fault::WriteUnheard,
    Fault::LeaseRefused,
    Fault::ImageFails,
    Fault::ImageWrong,
    Fault::SecretMissing,
    Fault::DhcpStarved,
    Fault::Halted,
];

pub(crate) type Edge = (ProvisioningState, ProvisioningState);

#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) commits: u64,
    pub(crate) edges: BTreeMap<Edge, u64>,
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Other things that are worth knowing, such as installations.
    pub(crate) others: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn other(&mut self, what: &'static str) {
        *self.others.entry(what).or_default() += 1;
    }

    pub(crate) fn of_edge(&self, edge: Edge) -> u64 {
        self.edges.get(&edge).copied().unwrap_or(0)
    }

    pub(crate) fn of_fault(&self, fault: Fault) -> u64 {
        self.faults.get(&fault).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.steps += more.steps;
        self.commits += more.commits;
        more.edges.iter().for_each(|(edge, count)| *self.edges.entry(*edge).or_default() += count);
        more.faults.iter().for_each(|(fault, count)| *self.faults.entry(*fault).or_default() += count);
        more.others.iter().for_each(|(what, count)| *self.others.entry(what).or_default() += count);
    }

    /// Edges and faults that were seen less often.
    pub(crate) fn below(&self, least: u64) -> Vec<String> {
        let edges = EDGES.iter().map(|(from, to, _)| (format!("{from} to {to}"), self.of_edge((*from, *to))));
        let faults = FAULTS.iter().map(|fault| (format!("{fault:?}"), self.of_fault(*fault)));
        edges
            .chain(faults)
            .filter(|(_, count)| *count < least)
            .map(|(what, count)| format!("{what}: {count}"))
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} steps, {} writes to the store\n", self.steps, self.commits);
        let mut row = |what: &str, count: u64| {
            // Writing to a String cannot fail.
            let _done = writeln!(text, "  {count:>9}  {what}");
        };
        for (from, to, _) in &EDGES {
            row(
                &format!("{} to {to}", if from.word().is_empty() { "new" } else { from.word() }),
                self.of_edge((*from, *to)),
            );
        }
        for (edge, count) in &self.edges {
            if !EDGES.iter().any(|(from, to, _)| (*from, *to) == *edge) {
                row(&format!("{} to {} (by force)", edge.0, edge.1), *count);
            }
        }
        FAULTS.iter().for_each(|fault| row(&format!("fault {fault:?}"), self.of_fault(*fault)));
        self.others.iter().for_each(|(what, count)| row(what, *count));
        text
    }
}
