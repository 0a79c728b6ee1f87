//! Sensors of a thousand hosts, by the real controller on the simulation's clock, from BMCs that are slow, in use, or do
//! not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_bmc::sensors::{Sensor, SensorHealth, SensorKind, SensorLayout, SensorReading};
use firesteel_plan::HostMemory;
use firesteel_plan::host::SensorInputs;
use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::BmcDetails;
use firesteel_resources::host_journal::HostJournalStatus;
use firesteel_runtime::{HostEvent, HostEvents, HostKey, HostQueue, Runtime, SensorBoard, SteppedHost};
use firesteel_sensors::{
    IN_FLIGHT_MAX, SensorController, SensorControllerConfig, SensorFault, SensorReader, SensorReadingResult,
    SensorSettings,
};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::executor::{Executor, Life, lock};
use crate::random::Random;

const HOSTS: usize = 1000;
const LIFE: u64 = 1;
const MINUTE: Duration = Duration::from_secs(60);
/// Hosts that share one BMC.
const OF_CHASSIS: usize = 4;

/// What is seen of readings from outside.
#[derive(Debug, Default)]
struct SeenReadings {
    under_way: usize,
    most_under_way: usize,
    busy: BTreeSet<String>,
    /// A BMC was read for two hosts at a time.
    were_two_at_once: bool,
    tries: BTreeMap<HostKey, u32>,
    /// When each good reading began.
    read_at: BTreeMap<HostKey, Vec<Duration>>,
}

struct SimulatedReader {
    life: Arc<Life>,
    seen: Arc<Mutex<SeenReadings>>,
    random: Arc<Mutex<Random>>,
}

fn number(key: &HostKey) -> usize {
    key.name[1..].parse().unwrap()
}

fn key(number: usize) -> HostKey {
    HostKey { namespace: "lab".into(), name: format!("h{number:04}") }
}

/// The last hosts share chassis, by fours; all others have a BMC of their own.
fn place(number: usize) -> String {
    let own = HOSTS - 5 * OF_CHASSIS;
    let place = if number < own { number } else { own + (number - own) / OF_CHASSIS };
    format!("10.0.{}.{}", place / 250, place % 250 + 1)
}

/// Hosts whose BMC never answers.
fn is_dead(number: usize) -> bool {
    number % 50 == 0
}

impl SensorReader for SimulatedReader {
    fn read(&self, key: HostKey, layout: SensorLayout) -> BoxFuture<'static, SensorReadingResult> {
        let (life, seen, random) = (Arc::clone(&self.life), Arc::clone(&self.seen), Arc::clone(&self.random));
        Box::pin(async move {
            let (began, number) = (life.uptime(), number(&key));
            {
                let mut seen = lock(&seen);
                seen.under_way += 1;
                seen.most_under_way = seen.most_under_way.max(seen.under_way);
                let is_free = seen.busy.insert(place(number));
                seen.were_two_at_once |= !is_free;
                *seen.tries.entry(key.clone()).or_default() += 1;
            }
            let (takes, is_in_use) = {
                let mut random = lock(&random);
                (random.millis(1_000, 20_000), random.chance(20))
            };
            let takes = if is_dead(number) { Duration::from_secs(130) } else { takes };
            life.sleep_until(began + if is_in_use { Duration::ZERO } else { takes }).await;
            let mut seen = lock(&seen);
            seen.under_way -= 1;
            seen.busy.remove(&place(number));
            let result = match () {
                () if is_in_use => Err(SensorFault::NotNow),
                () if is_dead(number) => Err(SensorFault::Failed("it does not answer".to_owned())),
                () => {
                    seen.read_at.entry(key).or_default().push(began);
                    let fan = |place| Sensor {
                        kind: SensorKind::Fan,
                        name: format!("Fan {place}"),
                        value: None,
                        health: Some(if number == 7 { SensorHealth::Warning } else { SensorHealth::Ok }),
                    };
                    let sensors = (0..6).map(fan).collect();
                    Ok(SensorReading { sensors, system: Some(SensorHealth::Ok), left_out: 0 })
                }
            };
            SensorReadingResult { layout, result }
        })
    }
}

fn stepped(number: usize) -> HostEvent {
    let mut host = BareMetalHost::default();
    let key = key(number);
    (host.metadata.name, host.metadata.namespace) = (key.name, key.namespace);
    host.metadata.uid = format!("uid-{number}");
    let address = format!("redfish://{}/redfish/v1/Systems/{number}", place(number));
    host.spec.bmc = Some(BmcDetails { address, credentials_name: "bmc".to_owned(), ..BmcDetails::default() });
    HostEvent::Stepped(Arc::new(SteppedHost {
        host,
        memory: HostMemory::default(),
        journal: HostJournalStatus::default(),
    }))
}

fn run_until(executor: &Executor, end: Duration) {
    executor.run();
    while let Some(at) = executor.next_timer().filter(|at| *at <= end) {
        executor.advance(at.max(executor.now()));
        executor.run();
    }
    executor.advance(end);
    executor.run();
}

#[test]
fn a_thousand_bmcs_are_read_each_minute_and_give_way() {
    for seed in 0..3 {
        a_thousand_bmcs(seed);
    }
}

fn a_thousand_bmcs(seed: u64) {
    let executor = Executor::new(seed);
    let random = Arc::new(Mutex::new(Random::new(seed)));
    let life =
        Life { executor: executor.clone(), number: LIFE, random: Mutex::new(Random::new(seed + 1)), deaf_after: None };
    let life = Arc::new(life);
    let (events, board, seen) = (HostEvents::default(), SensorBoard::default(), Arc::<Mutex<SeenReadings>>::default());
    let runtime: Arc<dyn Runtime> = life.clone();
    let queue = Arc::new(HostQueue::new(Arc::clone(&runtime)));
    let reader = SimulatedReader { life, seen: Arc::clone(&seen), random };
    let sensors = SensorController::new(SensorControllerConfig {
        runtime,
        hosts: events.clone(),
        queue,
        board: board.clone(),
        reader: Arc::new(reader),
    });
    let follower = sensors.clone();
    executor.spawn(LIFE, Box::pin(async move { drop(follower.follow_hosts().await) }));
    (0..HOSTS).for_each(|number| events.publish(&key(number), &stepped(number)));
    executor.run();
    assert!(sensors.survey().is_none(), "nothing is read before the service runs");
    let (_settings, settings) = watch::channel(SensorSettings { every: MINUTE, with_alerts: true });
    let rounds = sensors.clone();
    executor.spawn(LIFE + 1, Box::pin(async move { drop(rounds.read_rounds(settings).await) }));
    run_until(&executor, 10 * MINUTE);

    check_readings(&lock(&seen), seed);
    let of = |number: usize| board.of(&key(number), &format!("uid-{number}"));
    assert!(matches!(of(1), Some(SensorInputs::Fresh(word)) if word.word == "OK"), "seed {seed}");
    assert!(matches!(of(7), Some(SensorInputs::Fresh(word)) if word.sensor == "fan Fan 0"), "seed {seed}");
    assert_eq!(of(0), Some(SensorInputs::Stale(None)), "seed {seed}: it never answered");

    events.publish(&key(1), &HostEvent::Gone);
    run_until(&executor, 12 * MINUTE);
    assert_eq!(of(1), None, "seed {seed}: it is gone");
    assert_eq!(sensors.survey().map(|survey| survey.hosts.len()), Some(HOSTS - 1));
    executor.kill(LIFE + 1);
    assert!(sensors.survey().is_none() && of(2).is_none(), "seed {seed}: the service has ended");
    let tries: u32 = lock(&seen).tries.values().sum();
    run_until(&executor, 14 * MINUTE);
    assert_eq!(lock(&seen).tries.values().sum::<u32>(), tries, "seed {seed}: nothing is read any more");
}

fn check_readings(seen: &SeenReadings, seed: u64) {
    assert!(seen.most_under_way <= IN_FLIGHT_MAX, "seed {seed}: {}", seen.most_under_way);
    assert!(!seen.were_two_at_once, "seed {seed}: a BMC was read for two hosts at a time");
    for number in 0..HOSTS {
        let tries = seen.tries.get(&key(number)).copied().unwrap_or_default();
        if is_dead(number) {
            assert!((1..=6).contains(&tries), "seed {seed}: h{number} does not answer and was asked {tries} times");
            continue;
        }
        let read_at = seen.read_at.get(&key(number)).cloned().unwrap_or_default();
        let longest = read_at.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        // A BMC that was in use is read some seconds later, and hosts of one chassis wait for each other.
        let late = Duration::from_secs(if number < HOSTS - 5 * OF_CHASSIS { 100 } else { 140 });
        assert!(read_at.len() >= 8 && longest <= late, "seed {seed}: h{number} {} {longest:?}", read_at.len());
    }
    let readings: usize = seen.read_at.values().map(Vec::len).sum();
    let alive = (0..HOSTS).filter(|number| !is_dead(*number)).count();
    assert!(readings >= alive * 19 / 2, "seed {seed}: {readings} readings of {alive} hosts in ten minutes");
    println!("seed {seed}: {readings} readings of {alive} hosts in ten minutes, {} at a time", seen.most_under_way);
}
