//! What was measured, and what it is compared with. Pure.

use std::fmt;

use anyhow::{Context as _, ensure};

/// One run of all clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    /// GiB per second, all clients together.
    pub(super) throughput: f64,
    /// CPU seconds per GiB, of the server and of all clients.
    pub(super) server_cpu: f64,
    pub(super) client_cpu: f64,
}

/// What the appliance must reach of the peer's.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchLimits {
    pub(super) throughput_min: f64,
    pub(super) cpu_max: Option<f64>,
}

/// The appliance beside the peer.
#[derive(Clone, Debug)]
pub(super) struct FigurePair {
    name: &'static str,
    own: Figure,
    peer: Figure,
    limits: BenchLimits,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { throughput, server_cpu, client_cpu } = self;
        write!(f, "{throughput:.2} GiB/s, server {server_cpu:.2} CPU-s/GiB, clients {client_cpu:.2} CPU-s/GiB")
    }
}

impl Figure {
    /// Reads the line of a load script: `LABEL n=64 3.20 GiB/s wall 2.50s server 0.10 cpu-s/GiB client 0.30 cpu-s/GiB
    /// errors 0`.
    pub(super) fn read(line: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.trim_end_matches('s').parse::<f64>().ok();
        let after = |word: &str| number(words.iter().position(|other| *other == word)? + 1);
        let rate = words.iter().position(|word| *word == "GiB/s").and_then(|at| number(at.checked_sub(1)?));
        let needed = || format!("the load script printed {line:?}");
        let errors = after("errors").with_context(needed)?;
        ensure!(errors == 0.0, "{errors} clients failed: {line}");
        Ok(Self {
            throughput: rate.with_context(needed)?,
            server_cpu: after("server").with_context(needed)?,
            client_cpu: after("client").with_context(needed)?,
        })
    }

    fn median(figures: &[Self]) -> Option<Self> {
        let of = |value: fn(&Self) -> f64| {
            let mut all: Vec<f64> = figures.iter().map(value).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied()
        };
        Some(Self {
            throughput: of(|figure| figure.throughput)?,
            server_cpu: of(|figure| figure.server_cpu)?,
            client_cpu: of(|figure| figure.client_cpu)?,
        })
    }
}

impl FigurePair {
    pub(super) fn new(name: &'static str, [own, peer]: [Vec<Figure>; 2], limits: BenchLimits) -> anyhow::Result<Self> {
        let median = |figures: &[Figure]| Figure::median(figures).context("nothing was measured");
        Ok(Self { name, own: median(&own)?, peer: median(&peer)?, limits })
    }

    /// The ratios to the peer's throughput and processor time of the server.
    fn ratios(&self) -> (f64, f64) {
        (self.own.throughput / self.peer.throughput, self.own.server_cpu / self.peer.server_cpu)
    }

    /// Whether the limits are held, of throughput and of processor time.
    fn is_within(&self) -> (bool, bool) {
        let (throughput, cpu) = self.ratios();
        (throughput >= self.limits.throughput_min, self.limits.cpu_max.is_none_or(|most| cpu <= most))
    }

    fn lines(&self) -> String {
        let Self { name, own, peer, limits } = self;
        let mut lines = format!("{name:4}  firesteel  {own}\n{name:4}  nginx      {peer}\n");
        let ((throughput, cpu), (is_fast, is_frugal)) = (self.ratios(), self.is_within());
        lines += &format!(
            "{name:4}  throughput {throughput:.2} × nginx's, at least {:.2}: {}\n",
            limits.throughput_min,
            word(is_fast)
        );
        lines += &match limits.cpu_max {
            Some(most) => {
                format!("{name:4}  CPU per GiB {cpu:.2} × nginx's, at most {most:.2}: {}\n", word(is_frugal))
            }
            None => format!("{name:4}  CPU per GiB {cpu:.2} × nginx's\n"),
        };
        lines
    }
}

fn word(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "MISSED" }
}

/// Whether all limits are held.
pub(super) fn is_reached(plain: &FigurePair, tls: &Option<FigurePair>) -> bool {
    let is_within = |pair: &FigurePair| pair.is_within() == (true, true);
    is_within(plain) && tls.as_ref().is_some_and(is_within)
}

/// All lines. Without a pair there was nothing to measure, which reaches no limit.
pub(super) fn table(plain: &FigurePair, tls: &Option<FigurePair>) -> String {
    let tls = match tls {
        Some(tls) => tls.lines(),
        None => "TLS   firesteel  serves no image over TLS: MISSED\n".to_owned(),
    };
    (plain.lines() + &tls).trim_end().to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn figure(throughput: f64, server_cpu: f64) -> Figure {
        Figure { throughput, server_cpu, client_cpu: 0.3 }
    }

    #[test]
    fn a_scripts_line_is_read() {
        let line = "nginx n=64 3.20 GiB/s wall 2.50s server 0.10 cpu-s/GiB client 0.30 cpu-s/GiB errors 0";
        assert_eq!(Figure::read(line).unwrap(), figure(3.2, 0.1));
        assert!(
            Figure::read(&line.replace("errors 0", "errors 2")).unwrap_err().to_string().contains("2 clients failed")
        );
        for wrong in ["", "GiB/s", "errors 0", "n=64 x GiB/s errors 0 server 1 client 1"] {
            assert!(Figure::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn limits_are_held_against_medians() {
        let own = vec![figure(9.0, 0.1), figure(2.7, 0.15), figure(0.1, 9.0)];
        let peer = vec![figure(3.0, 0.1); 3];
        let limits = BenchLimits { throughput_min: 0.9, cpu_max: Some(1.5) };
        let pair = FigurePair::new("HTTP", [own, peer.clone()], limits).unwrap();
        let text = table(&pair, &None);
        assert!(text.contains("throughput 0.90 × nginx's, at least 0.90: reached"), "{text}");
        assert!(text.contains("CPU per GiB 1.50 × nginx's, at most 1.50: reached"), "{text}");
        assert!(text.ends_with("serves no image over TLS: MISSED"), "{text}");
        assert!(!is_reached(&pair, &None), "what is not measured reaches nothing");
        let tls = |throughput| {
            let own = vec![figure(throughput, 1.0)];
            Some(
                FigurePair::new("TLS", [own, peer.clone()], BenchLimits { throughput_min: 1.0, cpu_max: None })
                    .unwrap(),
            )
        };
        let text = table(&pair, &tls(2.9));
        assert!(text.contains("throughput 0.97 × nginx's, at least 1.00: MISSED"), "{text}");
        assert!(!is_reached(&pair, &tls(2.9)) && is_reached(&pair, &tls(3.0)));
        let costly = [vec![figure(3.0, 0.2)], peer.clone()];
        assert!(!is_reached(&FigurePair::new("HTTP", costly, limits).unwrap(), &tls(3.0)));
        assert!(FigurePair::new("HTTP", [Vec::new(), peer], limits).is_err());
    }
}
