//! What was measured, as one table: figure, limit, whether it is within it, and a peer's figure.

#![allow(clippy::print_stdout, reason = "its figures are its result")]

use std::time::Duration;

/// Of a figure that is not within its limit.
const MISSED: &str = "NO";

/// Where a figure has to stay.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtMost(f64),
    /// A time on the machine that limits are for: a slower one has more.
    TimeAtMost(f64),
    /// A rate on that machine: a slower one needs less.
    RateAtLeast(f64),
    /// As good as the peer, in the same run.
    AsPeer,
    None,
}

/// The table. Rows are printed as they come, too, for a run is long.
#[derive(Debug)]
pub(crate) struct Figures {
    rows: Vec<[String; 5]>,
    notes: Vec<String>,
    /// [`MachineSpeed::slowness`] of this machine.
    ///
    /// [`MachineSpeed::slowness`]: super::machine_speed::MachineSpeed::slowness
    slowness: f64,
}

impl Figures {
    /// Makes an empty table for a machine that is so many times slower than the one that limits are for.
    pub(crate) fn new(slowness: f64) -> Self {
        Self { rows: Vec::new(), notes: Vec::new(), slowness }
    }

    pub(crate) fn note(&mut self, text: &str) {
        eprintln!("{text}");
        self.notes.push(text.to_owned());
    }

    /// `peer` is what it is compared with, and its figure.
    pub(crate) fn row(&mut self, what: &str, figure: f64, unit: &str, limit: Limit, peer: Option<(&str, f64)>) {
        let (limit_text, within) = match (limit, peer) {
            (Limit::AtMost(limit), _) => (format!("<= {limit} {unit}"), Some(figure <= limit)),
            (Limit::TimeAtMost(limit), _) => {
                let here = limit * self.slowness;
                (format!("<= {} {unit}", rounded(here)), Some(figure <= here))
            }
            (Limit::RateAtLeast(limit), _) => {
                let here = limit / self.slowness;
                (format!(">= {} {unit}", rounded(here)), Some(figure >= here))
            }
            (Limit::AsPeer, Some((name, peer))) if unit.ends_with("/s") => {
                (format!(">= {name}'s"), Some(figure >= peer))
            }
            (Limit::AsPeer, Some((name, peer))) => (format!("<= {name}'s"), Some(figure <= peer)),
            (Limit::AsPeer | Limit::None, _) => (String::new(), None),
        };
        let within = within.map_or("", |within| if within { "yes" } else { MISSED });
        let peer = peer.map_or(String::new(), |(name, figure)| format!("{name} {} {unit}", rounded(figure)));
        let row = [what.to_owned(), format!("{} {unit}", rounded(figure)), limit_text, within.to_owned(), peer];
        eprintln!("{}", row.join("  "));
        self.rows.push(row);
    }

    /// What is not within its limit, each with its figure.
    pub(crate) fn missed(&self) -> Vec<String> {
        let missed = self.rows.iter().filter(|row| row[3] == MISSED);
        missed.map(|[what, figure, limit, ..]| format!("{what}: {figure}, {limit}")).collect()
    }

    pub(crate) fn print(&self) {
        println!("| figure | measured | limit | within | peer |\n|---|---|---|---|---|");
        for row in &self.rows {
            println!("| {} |", row.join(" | "));
        }
        println!();
        self.notes.iter().for_each(|note| println!("{note}"));
    }
}

/// Three digits that count, and no more of a fraction than that.
fn rounded(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// Durations, to be asked for medians and tails.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn push(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The one that so many of a hundred do not exceed, in milliseconds.
    pub(crate) fn percentile_ms(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let index = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(index).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What else the machine does, for without that a figure says little.
pub(crate) fn machine() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("load {load}, {cores} cores")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that missed its limits ended like one that held them.
    #[test]
    fn what_is_not_within_its_limit_is_named() {
        let mut figures = Figures::new(2.0);
        figures.row("held", 10.0, "MiB", Limit::AtMost(10.0), None);
        figures.row("page", 19.0, "ms", Limit::TimeAtMost(10.0), None);
        figures.row("updates", 6.0, "/s", Limit::RateAtLeast(10.0), None);
        figures.row("without a limit", 1e9, "ms", Limit::None, Some(("peer", 1.0)));
        figures.row("as the peer", 5.0, "/s", Limit::AsPeer, Some(("peer", 5.0)));
        assert_eq!(figures.missed(), Vec::<String>::new());
        figures.row("page", 21.0, "ms", Limit::TimeAtMost(10.0), None);
        figures.row("updates", 4.0, "/s", Limit::RateAtLeast(10.0), None);
        figures.row("puts", 4.0, "/s", Limit::AsPeer, Some(("peer", 5.0)));
        assert_eq!(figures.missed().len(), 3);
        assert_eq!(figures.missed()[0], "page: 21.0 ms, <= 20.0 ms");
    }
}
