//! Our verdict on a config beside that of Debian 12's `ignition-validate` (Ignition 2.14, spec 3.0 to 3.3): on the
//! fixtures, on a case of every rule at every version, and on generated configs. `./qemu/lab test` brings the program.
//! Where the verdict is known, ours is held to it without the program too.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; what was compared is counted, what is skipped says so"
)]

mod cases;
mod debian;
mod fixtures;
mod generate;
mod random;
mod texts;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use cases::{Case, cases};
use random::Random;

/// Newest version that Debian's knows.
const MINOR_MAX: u8 = 3;
const SEED: usize = 0x1617;
/// `FIRESTEEL_IGNITION_CONFIGS` and `FIRESTEEL_IGNITION_SEED` set others.
const GENERATED: usize = 2000;
/// Cases have parts that are chosen at random; so many seeds choose each of them.
const SEEDS: usize = 32;
/// So often, at least, a case of each rule is among them.
const OFTEN: usize = 5;

/// A config to compare, and what it is called when the verdicts differ.
struct Sample {
    name: String,
    config: Vec<u8>,
    /// Whether it must be taken, where that is known.
    wanted: Option<bool>,
}

/// Ours is the known verdict, where one is known.
fn assert_known(samples: &[Sample]) {
    for Sample { name, config, wanted } in samples {
        let ours = firesteel_ignition::validate(config);
        let is_right = wanted.is_none_or(|wanted| wanted == ours.errors.is_empty());
        assert!(is_right, "{name}: {wanted:?}\nours: {:?}\n{}", ours.errors, String::from_utf8_lossy(config));
    }
}

/// Counts what both took and what both refused; they must not differ.
fn compare(samples: &[Sample]) -> Option<(usize, usize)> {
    assert_known(samples);
    let configs: Vec<&[u8]> = samples.iter().map(|sample| sample.config.as_slice()).collect();
    let verdicts = debian::verdicts(&configs)?;
    let (mut taken, mut faults) = (0, Vec::new());
    for (sample, debians) in samples.iter().zip(verdicts) {
        let ours = firesteel_ignition::validate(&sample.config);
        taken += usize::from(debians.takes);
        if ours.errors.is_empty() != debians.takes || sample.wanted.is_some_and(|wanted| wanted != debians.takes) {
            let config = String::from_utf8_lossy(&sample.config);
            faults.push(format!(
                "{}: {:?}\nours: {:?}\nDebian's: {debians:?}\n{config}",
                sample.name, sample.wanted, ours.errors
            ));
        }
    }
    assert!(faults.is_empty(), "{} differ, among them:\n{}", faults.len(), faults[..faults.len().min(5)].join("\n\n"));
    Some((taken, samples.len() - taken))
}

#[test]
fn fixtures_get_debians_verdict() {
    let samples = fixtures::configs();
    if samples.is_empty() {
        return;
    }
    if let Some((taken, refused)) = compare(&samples) {
        println!("fixtures: {taken} taken, {refused} refused by both");
        assert!(taken >= 10 && refused >= 6, "{taken}, {refused}");
    }
}

/// Every rule alone, in an otherwise empty config, at every version: a rule holds in its versions and no other.
#[test]
fn every_rule_gets_debians_verdict_in_every_version() {
    if let Some((taken, refused)) = compare(&every_case(SEED)) {
        println!("cases: {taken} taken, {refused} refused by both");
        assert!(taken > 100 && refused > 250, "{taken}, {refused}");
    }
}

#[test]
fn every_rule_gets_its_verdict_whatever_part_is_chosen() {
    (0..SEEDS).for_each(|seed| assert_known(&every_case(seed)));
}

/// Each case at each version.
fn every_case(seed: usize) -> Vec<Sample> {
    (0..=MINOR_MAX)
        .flat_map(|minor| cases(&mut Random::new(seed)).into_iter().map(move |case| (minor, case)))
        .map(|(minor, case)| {
            let mut config = json!({"ignition": {"version": format!("3.{minor}.0")}});
            case.apply(&mut config);
            sample(minor, &case, &config)
        })
        .collect()
}

fn sample(minor: u8, case: &Case, config: &Value) -> Sample {
    Sample {
        name: format!("{} at 3.{minor}", case.rule),
        config: config.to_string().into_bytes(),
        wanted: Some(!case.refused.contains(&minor)),
    }
}

#[test]
fn generated_configs_get_debians_verdict() {
    let setting = |name: &str| std::env::var(name).ok().map(|number| number.parse::<usize>().unwrap());
    let count = setting("FIRESTEEL_IGNITION_CONFIGS").unwrap_or(GENERATED);
    let seed = setting("FIRESTEEL_IGNITION_SEED").unwrap_or(SEED);
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    let samples: Vec<Sample> = (0..count).map(|number| generated(seed, number, &mut rules)).collect();
    let Some((taken, refused)) = compare(&samples) else { return };
    let counts: Vec<String> = rules.iter().map(|(rule, times)| format!("{rule} ({times})")).collect();
    println!(
        "generated, seed {seed:#x}: {taken} taken, {refused} refused by both; of each rule: {}",
        counts.join(", ")
    );
    assert!(taken > count / 4 && refused > count / 4, "{taken}, {refused}");
    let rare: Vec<_> = rules.iter().filter(|(_, times)| **times < OFTEN).collect();
    assert!(rare.is_empty() && rules.len() > 100, "{} rules, too rare: {rare:?}", rules.len());
}

/// Of twenty: four valid ones, twelve with a case of a rule, two with something changed anywhere, two with a strange
/// text.
fn generated(seed: usize, number: usize, rules: &mut BTreeMap<&'static str, usize>) -> Sample {
    let random = &mut Random::new(seed.wrapping_add(number << 20));
    let minor = random.minor();
    let mut config = generate::valid(random, minor);
    let (round, turn) = (number / 20, number % 20);
    let mut plain = |rule: &'static str, config: &Value, wanted| {
        *rules.entry(rule).or_default() += 1;
        let name = format!("number {number}, {rule}, at 3.{minor}");
        Sample { name, config: config.to_string().into_bytes(), wanted }
    };
    match turn {
        0..4 => plain("(valid)", &config, Some(true)),
        4..16 => {
            let mut list = cases(random);
            let at = (round * 12 + turn - 4) % list.len();
            let case = list.swap_remove(at);
            case.apply(&mut config);
            *rules.entry(case.rule).or_default() += 1;
            sample(minor, &case, &config)
        }
        16 | 17 => {
            generate::change_anything(random, &mut config);
            plain("(changed anywhere)", &config, None)
        }
        _ => {
            let (pointer, text) = texts::strange(random);
            cases::put(&mut config, pointer, text);
            plain("(strange text)", &config, None)
        }
    }
}

/// Where we refuse on purpose what Ignition takes; the module `validate` says why.
#[test]
fn deliberate_differences_are_these() {
    let deep = format!(r#""x":{}1{}"#, "[".repeat(200), "]".repeat(200));
    let partitions: Vec<Value> = (1..3000).map(|number| json!({"number": number})).collect();
    let partitions = format!(r#""storage":{{"disks":[{{"device":"/a","partitions":{}}}]}}"#, json!(partitions));
    let large = format!(r#""x":"{}""#, "x".repeat(firesteel_ignition::CONFIG_BYTES_MAX));
    let differences = [
        ("a name twice", r#""systemd":{},"systemd":{}"#),
        ("a name in another case", r#""Systemd":{}"#),
        ("no Unicode", r#""passwd":{"users":[{"name":"\ud800"}]}"#),
        ("minus zero", r#""passwd":{"users":[{"name":"x","uid":-0}]}"#),
        ("deep", deep.as_str()),
        ("many partitions", partitions.as_str()),
        ("large", large.as_str()),
    ];
    let configs = differences.map(|(_, more)| format!(r#"{{"ignition":{{"version":"3.3.0"}},{more}}}"#));
    let bytes: Vec<&[u8]> = configs.iter().map(String::as_bytes).collect();
    for config in &bytes {
        assert!(!firesteel_ignition::validate(config).errors.is_empty());
    }
    let Some(verdicts) = debian::verdicts(&bytes) else { return };
    for ((name, _), verdict) in differences.iter().zip(verdicts) {
        assert!(verdict.takes, "{name}: no difference any more: {verdict:?}");
    }
}
