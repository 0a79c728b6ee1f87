//! An appliance whose clock is wrong, and is right again later. Its processes get their clocks by libfaketime;
//! everybody else here has the right time.

use std::time::{Duration, Instant};

use firesteel_tests::agent_line::{client, token_of};
use firesteel_tests::appliance::Appliance;
use firesteel_tests::disk_image;
use firesteel_tests::fake_clock::WrongBy;
use firesteel_tests::field::{Field, discover, mac};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::{ADDRESS, Dhcp};
use serde_json::json;

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

const NAME: &str = "host";
const DESCRIBE: [&str; 3] = ["describe", "host", NAME];
const CONFIG: &str = "first";
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Says why a test does nothing here. At the gate it is an error.
fn is_skipped() -> bool {
    if !WrongBy::is_possible() {
        println!("skipped: no process here can have a wrong clock: apt-get install libfaketime");
    }
    !WrongBy::is_possible()
}

/// Adds a host that is to be installed, and boots its machine.
fn boot(field: &Field, hostile: &mut Hostile, user_data: Option<&str>) -> HostAgent {
    let mut spec = json!({"online": true, "bootMACAddress": mac(1).to_string(), "image": disk_image::served()});
    if let Some(secret) = user_data {
        spec["userData"] = json!({"name": secret, "namespace": "default"});
    }
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": NAME}, "spec": spec,
    }));
    field.until(&DESCRIBE, |page| page.contains("waiting for the host to boot"));
    let leased = field.lease(&discover(1, CLASS, &[7]));
    let script = hostile.script(leased, &mac(1).to_string()).body;
    assert!(token_of(&script).is_some(), "{script}");
    let mut agent = HostAgent::new(field, 1);
    agent.boot(field, &script);
    agent
}

/// Status and body of a GET at an address of the appliance, by a client that trusts these CAs alone; `None` where it
/// does not trust the appliance. Listeners for machines come a moment after the API.
fn get(ca_pem: &[u8], url: &str, bearer: Option<&str>) -> Option<(u16, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ends_at = Instant::now() + PATIENCE;
    runtime.block_on(async {
        loop {
            let mut request = client(ca_pem).get(url);
            if let Some(token) = bearer {
                request = request.bearer_auth(token);
            }
            match request.send().await {
                Ok(answer) => return Some((answer.status().as_u16(), answer.text().await.unwrap())),
                Err(error) if format!("{error:?}").contains("InvalidCertificate") => return None,
                Err(error) => assert!(Instant::now() < ends_at, "{url}: {error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
}

fn ready(appliance: &Appliance) -> String {
    get(&appliance.ca_pem(), &format!("{}/readyz", appliance.url()), None).unwrap().1
}

fn doubted(appliance: &Appliance) -> bool {
    let url = format!("{}/metrics", appliance.url());
    let (_, metrics) = get(&appliance.ca_pem(), &url, Some(&appliance.token())).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("firesteel_clock_doubtful "));
    let value: f64 = line.unwrap_or_else(|| panic!("no firesteel_clock_doubtful in\n{metrics}")).parse().unwrap();
    value > 0.5
}

/// A clock that stood still, as one whose battery is empty: receipts and deadlines of 2006 would be on record for ever.
#[test]
fn by_a_clock_before_the_build_no_disk_is_changed() {
    if is_skipped() {
        return;
    }
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.appliance.start_again_at(WrongBy::years(-20));
        // Leases, scripts, hello and inspection go on.
        let mut agent = boot(field, hostile, None);
        let hold = agent.inspect(field).unwrap_or_default();
        assert!(hold.contains("when its program was built"), "{hold}");
        let page = field.until(&DESCRIBE, |page| page.contains("ClockDoubtful True"));
        assert!(page.contains("no disk is changed until the clock is set"), "{page}");
        let got = if agent.is_to_write() { "a plan to write" } else { "no disk is changed" };
        judge("installation by a clock before the build", "a host installed in 2006", "no disk is changed", got);
        assert!(ready(&field.appliance).starts_with("ok\n[-]clock: "), "{}", ready(&field.appliance));
        assert!(doubted(&field.appliance));
        let refused = field.appliance.command().arg("accept-clock").output().unwrap();
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && why.contains("set the clock"), "no word makes that right: {why}");

        // The clock is set: the same boot goes on.
        field.appliance.start_again_at(WrongBy::NOTHING);
        assert!(!doubted(&field.appliance) && ready(&field.appliance) == "ok");
        agent.go_on(field);
        field.until(&DESCRIBE, |page| page.contains("ProvisioningComplete"));
    });
}

/// A clock that was ahead for a while, or has gone back now: the store cannot tell.
#[test]
fn by_a_clock_before_the_stores_newest_time_no_disk_is_changed_until_a_person_accepts_it() {
    if is_skipped() {
        return;
    }
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.appliance.start_again_at(WrongBy::years(20));
        assert!(!doubted(&field.appliance), "it may have been switched off for so long");
        // An hour behind is what a clock may be, and more is not.
        field.appliance.start_again_at(WrongBy { seconds: WrongBy::years(20).seconds - 1800 });
        assert!(!doubted(&field.appliance));
        field.appliance.start_again_at(WrongBy::NOTHING);
        let mut agent = boot(field, hostile, None);
        let hold = agent.inspect(field).unwrap_or_default();
        assert!(hold.contains("the newest time in its store"), "{hold}");
        let page = field.until(&DESCRIBE, |page| page.contains("ClockDoubtful True"));
        assert!(page.contains("firesteel accept-clock"), "{page}");
        assert!(ready(&field.appliance).contains("clock: ") && doubted(&field.appliance));
        let got = if agent.is_to_write() { "a plan to write" } else { "no disk is changed" };
        judge("installation by a clock before the store", "a host installed", "no disk is changed", got);
        // The doubt stands in the store.
        field.appliance.kill_and_start_again();
        assert!(doubted(&field.appliance));

        let said = field.firesteel(&["accept-clock"]);
        assert!(said.contains("counts as right"), "{said}");
        assert!(!doubted(&field.appliance) && ready(&field.appliance) == "ok");
        agent.go_on(field);
        field.until(&DESCRIBE, |page| page.contains("ProvisioningComplete"));
        field.appliance.kill_and_start_again();
        assert!(!doubted(&field.appliance), "and so does the word");
    });
}

/// A token whose expiry the clock had set lived until 2046, or was dead as soon as the clock was right.
#[test]
fn a_config_token_of_a_wrong_clock_is_neither_dead_nor_good_for_ever() {
    if is_skipped() {
        return;
    }
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.appliance.add_arguments(&["--config-token-days", "2"]);
        field.appliance.start_again_at(WrongBy::years(20));
        let url = format!("https://{ADDRESS}:22623/config/{CONFIG}");
        let version = json!({"version": "3.2.0"});
        let stub = json!({"ignition": {"version": "3.2.0", "config": {"merge": [{"source": url}]}}});
        field.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": CONFIG}, "type": "firesteel.dev/config",
            "stringData": {"config.ign": json!({"ignition": version}).to_string()},
        }));
        field.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "stub"},
            "stringData": {"userData": stub.to_string()},
        }));
        let mut agent = boot(field, hostile, Some("stub"));
        agent.install(field, |_| {});
        field.until(&DESCRIBE, |page| page.contains("ProvisioningComplete"));
        let report = agent.handed_over("firesteel/report.conf");
        let token = report.lines().find_map(|line| line.strip_prefix("FIRESTEEL_REPORT_TOKEN=")).unwrap();
        let fetch = |appliance: &Appliance| get(&appliance.ca_pem(), &url, Some(token)).unwrap().0.to_string();
        let mut at = |clock: WrongBy, accepts: bool, attack: &str, gets: &str| {
            field.appliance.start_again_at(clock);
            if accepts {
                field.firesteel(&["accept-clock"]);
            }
            judge(attack, "a config", gets, &fetch(&field.appliance));
        };
        at(WrongBy::NOTHING, true, "token of 2046, once the clock is right", "200");
        // One start by a wrong clock counts for one day.
        at(WrongBy::years(20), false, "token by a clock that is ahead", "200");
        at(WrongBy::NOTHING, true, "token after that", "200");
        // Two days pass, of which each counts.
        field.appliance.start_again_at(WrongBy::hours(25));
        field.appliance.start_again_at(WrongBy::hours(50));
        judge("token of 2046, three days later", "a config", "401", &fetch(&field.appliance));
    });
}

/// One start with a wrong clock began a rotation of the CA, and the next one ended it for everybody.
#[test]
fn two_starts_with_a_wrong_clock_end_no_ca_and_what_they_began_is_taken_back() {
    if is_skipped() {
        return;
    }
    let mut appliance = Appliance::start(env!("CARGO_BIN_EXE_firesteel-tested"));
    let old = appliance.ca_pem();
    let served = |appliance: &Appliance| {
        let answer = get(&old, &format!("{}/readyz", appliance.url()), None);
        answer.map_or("refused", |_| "served").to_owned()
    };
    let rotate = |appliance: &Appliance, flag: &str| {
        let flags: Vec<&str> = ["rotate-ca", "--yes", flag].into_iter().filter(|word| !word.is_empty()).collect();
        let output = appliance.command().args(&flags).output().unwrap();
        assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for clock in [WrongBy::days(8 * 365 + 30), WrongBy::days(3645), WrongBy::NOTHING] {
        appliance.start_again_at(clock);
        judge(
            &format!("a client of the old CA, {} days ahead", clock.seconds / 86400),
            "-",
            "served",
            &served(&appliance),
        );
    }
    assert!(rotate(&appliance, "--undo").contains("the rotation is undone"));
    judge("the same, after the rotation was taken back", "-", "served", &served(&appliance));
    rotate(&appliance, "");
    rotate(&appliance, "--finish");
    judge("the same, after a person ended the overlap", "-", "refused", &served(&appliance));
    assert!(rotate(&appliance, "--undo").contains("the old CA is trusted again"));
    judge("the same, after that was taken back", "-", "served", &served(&appliance));
    appliance.kill_and_start_again();
    judge("the same, after a restart", "-", "served", &served(&appliance));
}
