//! Machine configs against each other: merged in order, and where that gives nonsense, which two are to blame.

use serde_json::{Value, json};

use super::{KernelType, MachineConfig, RenderError, merge};
use crate::{CONFIG_BYTES_MAX, SpecVersion, spec3};

fn contradiction(first: &str, second: &str, fault: impl Into<String>) -> RenderError {
    RenderError::Contradiction { first: first.to_owned(), second: second.to_owned(), fault: fault.into() }
}

/// One config of all, in the order in which they are given.
pub(super) fn merge_all(parts: &[(&str, Value)]) -> Result<Value, RenderError> {
    let all = parts.iter().map(|(_, config)| config.clone());
    let mut config = all.reduce(merge).unwrap_or_else(|| json!({"ignition": {"version": SpecVersion::NEWEST.text()}}));
    finish(&mut config);
    let text = config.to_string();
    if text.len() > CONFIG_BYTES_MAX {
        return Err(RenderError::Large(text.len()));
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

/// Each alone is valid. The first that spoils what is before it, and the first of these with which it does.
fn culprits(parts: &[(&str, Value)], fault: &str) -> RenderError {
    let valid = |mut config: Value| {
        finish(&mut config);
        crate::validate(config.to_string().as_bytes()).errors.is_empty()
    };
    let mut sum: Option<Value> = None;
    for (index, (second, config)) in parts.iter().enumerate() {
        let merged = match &sum {
            None => config.clone(),
            Some(sum) => merge(sum.clone(), config.clone()),
        };
        if !valid(merged.clone()) {
            let alone = |part: &&(&str, Value)| !valid(merge(part.1.clone(), config.clone()));
            let before = &parts[..index];
            return match before.iter().find(alone).or_else(|| before.last()) {
                Some((first, _)) => contradiction(first, second, fault),
                None => RenderError::Invalid { name: (*second).to_owned(), fault: fault.to_owned() },
            };
        }
        sum = Some(merged);
    }
    let last = |back: usize| parts.iter().rev().nth(back).map_or("", |(name, _)| name);
    contradiction(last(1), last(0), fault)
}

/// One kernel for all, and what fits it.
pub(super) fn kernel_type(ordered: &[&MachineConfig]) -> Result<KernelType, RenderError> {
    let mut chosen: Option<(&str, KernelType)> = None;
    for config in ordered {
        let Some(kind) = KernelType::read(&config.kernel_type) else {
            let fault = "kernelType: must be default, realtime or 64k-pages".to_owned();
            return Err(RenderError::Invalid { name: config.name.clone(), fault });
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
    let devel = |config: &&&MachineConfig| config.extensions.iter().any(|name| name == "kernel-devel");
    match ordered.iter().find(devel) {
        None => Ok(kind),
        Some(config) if config.name == first => {
            let fault = format!("extensions: kernel-devel is for the default kernel, not for {}", kind.text());
            Err(RenderError::Invalid { name: first.to_owned(), fault })
        }
        Some(config) => {
            let fault = format!("extensions: kernel-devel, but kernelType: {}", kind.text());
            Err(contradiction(first, &config.name, fault))
        }
    }
}

/// An argument of a machine config's own list cannot be one that a config removes: which came last cannot be said, for
/// the two lists are applied by different programs.
pub(super) fn kernel_arguments(ordered: &[&MachineConfig], parts: &[(&str, Value)]) -> Result<(), RenderError> {
    for (remover, config) in parts {
        let removed = config["kernelArguments"]["shouldNotExist"].as_array().into_iter().flatten();
        for argument in removed.filter_map(Value::as_str) {
            let adds = |config: &&&MachineConfig| config.kernel_arguments.iter().any(|one| one == argument);
            let Some(adder) = ordered.iter().find(adds) else { continue };
            let fault = "a kernel argument is in kernelArguments and in the config's shouldNotExist".to_owned();
            return Err(if adder.name == *remover {
                RenderError::Invalid { name: adder.name.clone(), fault }
            } else {
                contradiction(&adder.name, remover, fault)
            });
        }
    }
    Ok(())
}
