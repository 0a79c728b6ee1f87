use firesteel_runtime::{HostEvent, SteppedHost, Tokio};

use super::*;

/// One whose answers no reading stands.
struct PanickingReader;

fn key(name: &str) -> HostKey {
    HostKey { namespace: "lab".into(), name: name.into() }
}

impl SensorReader for PanickingReader {
    fn read(&self, key: HostKey, layout: SensorLayout) -> BoxFuture<'static, SensorReadingResult> {
        Box::pin(async move {
            assert!(key.name != "a", "a reading that fails as the test wants it");
            SensorReadingResult { layout, result: Ok(SensorReading::default()) }
        })
    }
}

fn stepped(name: &str) -> HostEvent {
    let mut stepped = SteppedHost { host: Default::default(), memory: Default::default(), journal: Default::default() };
    let metadata = &mut stepped.host.metadata;
    (metadata.name, metadata.namespace, metadata.uid) = (name.into(), "lab".into(), name.into());
    let bmc = stepped.host.spec.bmc.get_or_insert_default();
    (bmc.address, bmc.credentials_name) = (format!("redfish://{name}.example"), "bmc".into());
    HostEvent::Stepped(Arc::new(stepped))
}

/// It ended the sensors of all hosts.
#[tokio::test]
async fn a_reading_that_panics_is_one_that_failed_and_others_go_on() {
    let runtime: Arc<dyn Runtime> = Arc::new(Tokio::new());
    let (hosts, board) = (HostEvents::default(), SensorBoard::default());
    let sensors = SensorController::new(SensorControllerConfig {
        queue: Arc::new(HostQueue::new(Arc::clone(&runtime))),
        runtime,
        hosts: hosts.clone(),
        board: board.clone(),
        reader: Arc::new(PanickingReader),
    });
    ["a", "b"].iter().for_each(|name| hosts.publish(&key(name), &stepped(name)));
    let every = Duration::from_millis(400);
    let (_settings, settings) = watch::channel(SensorSettings { every, with_alerts: true });
    let is_b_read = || matches!(board.of(&key("b"), "b"), Some(SensorInputs::Fresh(_)));
    let seen = async {
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if is_b_read() {
                break;
            }
        }
        (is_b_read(), board.of(&key("a"), "a"))
    };
    let seen = tokio::select! {
        ended = sensors.read_rounds(settings) => panic!("{ended:?}"),
        ended = sensors.follow_hosts() => panic!("{ended:?}"),
        seen = seen => seen,
    };
    assert_eq!(seen, (true, Some(SensorInputs::Awaited)));
}
