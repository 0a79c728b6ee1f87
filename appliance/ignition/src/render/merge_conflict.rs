//! Machine configs against each other: merged in order, and where that gives nonsense, which two are to blame.

use serde_json::{Value, json};

use super::{KernelType, PoolRenderError, RenderableConfig, merge};
use crate::{CONFIG_BYTES_MAX, SpecVersion, spec3};

fn contradiction(first: &str, second: &str, fault: impl Into<String>) -> PoolRenderError {
    PoolRenderError::Contradiction { first: first.to_owned(), second: second.to_owned(), fault: fault.into() }
}

/// One config of all, in the order in which they are given.
pub(super) fn merge_all(parts: &[(&str, Value)]) -> Result<Value, PoolRenderError> {
    let all = parts.iter().map(|(_, config)| config.clone());
    let mut config = all.reduce(merge).unwrap_or_else(|| json!({"ignition": {"version": SpecVersion::NEWEST.text()}}));
    finish(&mut config);
    let text = config.to_string();
    if text.len() > CONFIG_BYTES_MAX {
        return Err(PoolRenderError::Large(text.len()));
    }
    let findings = crate::validate(text.as_bytes());
    if findings.errors.is_empty() { Ok(config) } else { Err(culprits(parts, &findings.errors.join("; "))) }
}

/// Files of a pool replace what the image has, for the machine-config-operator does so on a running host; Ignition's
/// own default would leave a new host with another file than its neighbours.
fn finish(config: &mut Value) {
    spec3::prune(config);
    spec3::each_surely(config, "storage.files.*.contents", |file, _, _| {
        if file["contents"].get("source").is_some() && !file.contains_key("overwrite") {
            file.insert("overwrite".to_owned(), Value::Bool(true));
        }
    });
}

/// Each alone is valid, and all together are not. One that spoils what is before it, and that before it without which
/// it does not: both are found by halves, for a pool may have a thousand configs, and each look costs what a render
/// does.
fn culprits(parts: &[(&str, Value)], fault: &str) -> PoolRenderError {
    let is_bad = |mut config: Value| {
        finish(&mut config);
        !crate::validate(config.to_string().as_bytes()).errors.is_empty()
    };
    let sum = |parts: &[(&str, Value)]| parts.iter().map(|(_, config)| config.clone()).reduce(merge);
    let at = first_failing_count(parts.len(), |count| sum(&parts[..count]).is_some_and(is_bad));
    let Some(((second, config), before)) = parts[..at].split_last() else { return PoolRenderError::Empty };
    let spoils = |count: usize| {
        is_bad(match sum(&before[..count]) {
            Some(first) => merge(first, config.clone()),
            None => config.clone(),
        })
    };
    match (before.is_empty() || spoils(0), first_failing_count(before.len(), spoils)) {
        (false, at @ 1..) => contradiction(before[at - 1].0, second, fault),
        (_, _) => PoolRenderError::Invalid { name: (*second).to_owned(), fault: fault.to_owned() },
    }
}

/// Finds how many of `all` make `is_so` true: with one less it is false. It is taken to be false with none, and true
/// with all.
fn first_failing_count(all: usize, is_so: impl Fn(usize) -> bool) -> usize {
    let (mut without, mut with) = (0, all);
    while with - without > 1 {
        let half = without + (with - without) / 2;
        if is_so(half) { with = half } else { without = half }
    }
    with
}

/// One kernel for all, and what fits it.
pub(super) fn kernel_type(ordered: &[&RenderableConfig]) -> Result<KernelType, PoolRenderError> {
    let mut chosen: Option<(&str, KernelType)> = None;
    for config in ordered {
        let Some(kind) = KernelType::read(&config.kernel_type) else {
            let fault = "kernelType: must be default, realtime or 64k-pages".to_owned();
            return Err(PoolRenderError::Invalid { name: config.name.clone(), fault });
        };
        match chosen {
            _ if kind == KernelType::Default => {}
            Some((first, other)) if other != kind => {
                let fault = format!("kernelType: {} and {}", other.text(), kind.text());
                return Err(contradiction(first, &config.name, fault));
            }
            Some(_) => {}
            None => chosen = Some((&config.name, kind)),
        }
    }
    let Some((first, kind)) = chosen else { return Ok(KernelType::Default) };
    let devel = |config: &&&RenderableConfig| config.extensions.iter().any(|name| name == "kernel-devel");
    match ordered.iter().find(devel) {
        None => Ok(kind),
        Some(config) if config.name == first => {
            let fault = format!("extensions: kernel-devel is for the default kernel, not for {}", kind.text());
            Err(PoolRenderError::Invalid { name: first.to_owned(), fault })
        }
        Some(config) => {
            let fault = format!("extensions: kernel-devel, but kernelType: {}", kind.text());
            Err(contradiction(first, &config.name, fault))
        }
    }
}

/// An argument of a machine config's own list cannot be one that a config removes: which came last cannot be said, for
/// the two lists are applied by different programs.
pub(super) fn kernel_arguments(ordered: &[&RenderableConfig], parts: &[(&str, Value)]) -> Result<(), PoolRenderError> {
    for (remover, config) in parts {
        let removed = config["kernelArguments"]["shouldNotExist"].as_array().into_iter().flatten();
        for argument in removed.filter_map(Value::as_str) {
            let adds = |config: &&&RenderableConfig| config.kernel_arguments.iter().any(|one| one == argument);
            let Some(adder) = ordered.iter().find(adds) else { continue };
            let fault = "a kernel argument is in kernelArguments and in the config's shouldNotExist".to_owned();
            return Err(if adder.name == *remover {
                PoolRenderError::Invalid { name: adder.name.clone(), fault }
            } else {
                contradiction(&adder.name, remover, fault)
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_turns_the_verdict_is_found_in_few_steps() {
        for (all, wanted) in [(1, 1), (2, 1), (2, 2), (1000, 1), (1000, 500), (1000, 1000)] {
            let steps = Cell::new(0);
            let found = first_failing_count(all, |count| {
                steps.set(steps.get() + 1);
                count >= wanted
            });
            assert_eq!(found, wanted, "of {all}");
            assert!(steps.get() <= 10, "{} steps for {all}", steps.get());
        }
        assert_eq!(first_failing_count(0, |_| true), 0);
    }

    /// No two of them are too many; the last alone is not to blame, nor is what is between them.
    #[test]
    fn of_three_that_do_not_go_together_those_are_named_that_turn_it() {
        let disk = |from: usize| {
            let partitions: Vec<Value> = (from..from + 700).map(|number| json!({"number": number})).collect();
            json!({"ignition": {"version": "3.5.0"}, "storage": {"disks": [{"device": "/dev/a", "partitions": partitions}]}})
        };
        let beside = json!({"ignition": {"version": "3.5.0"}});
        let parts = [("a", disk(1)), ("b", disk(701)), ("c", beside), ("d", disk(1401))];
        let Err(PoolRenderError::Contradiction { first, second, .. }) = merge_all(&parts) else {
            panic!("they are valid")
        };
        assert_eq!((first.as_str(), second.as_str()), ("b", "d"));
    }
}
