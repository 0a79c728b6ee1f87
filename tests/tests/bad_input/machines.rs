//! Machines that are not who they say, or who they were.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firesteel_config_server::{ConfigRefusal, ConfigRequest};
use firesteel_resources::SecretReference;
use firesteel_wire::{AgentInstruction, PlanStep, RefusalReason, RefusalReply};

use crate::agent::{Agent, End, REMOTE, disk, script, token_in};
use crate::appliance::{Appliance, NAMESPACE, until};
use crate::images::{noise, published};

const MAC: &str = "02:00:00:00:03:01";
/// Seconds after which an agent that says nothing may be gone.
const SILENT_S: i64 = 60;

fn assert_refused(result: Result<impl std::fmt::Debug, RefusalReply>, reason: RefusalReason, what: &[&str]) {
    let refusal = result.expect_err("it must be refused");
    assert_eq!(refusal.reason, reason, "{}", refusal.message);
    for part in what {
        assert!(refusal.message.contains(part), "no {part:?} in: {}", refusal.message);
    }
}

/// The next plan that the appliance has for an idle agent.
async fn plan_for(appliance: &Appliance, agent: &mut Agent) -> Vec<PlanStep> {
    loop {
        if let AgentInstruction::Plan { plan } = agent.report(appliance).await.unwrap() {
            return plan.steps;
        }
    }
}

/// Waits for what the host's page says, while its agents report.
async fn page_says(appliance: &Appliance, parts: &[&str]) {
    until("the page", async || {
        let page = appliance.page("host").await;
        parts.iter().all(|part| page.contains(part))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_key_holds_both_and_neither_goes_on() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let mut agent = Agent::boot(&appliance, MAC, 1).await;
    agent.hello(&appliance).await.unwrap();
    let mut thief = agent.stolen_by(2);
    let bound = appliance.journal("host").await.status.agent;
    let waits = ["more than one machine says that it is host host", "waits"];
    assert_refused(thief.hello(&appliance).await, RefusalReason::Held, &waits);
    assert_refused(thief.report(&appliance).await, RefusalReason::Held, &waits);
    for _ in 0..3 {
        assert_eq!(agent.report(&appliance).await.unwrap(), AgentInstruction::Continue, "it gets no plan");
    }
    let keys = ["01".repeat(8), "02".repeat(8)];
    page_says(&appliance, &["second_claimant", "SecondClaimant", "192.0.2.77", &keys[0], &keys[1]]).await;
    assert_eq!(appliance.journal("host").await.status.agent, bound, "the second one is not bound");
    // A person says who is the host.
    appliance.annotate("host", "firesteel.dev/choose-agent", &"01".repeat(32)).await;
    page_says(&appliance, &["ClaimResolved", "not this host"]).await;
    assert_eq!(plan_for(&appliance, &mut agent).await, [PlanStep::Inspect], "the first one goes on");
    assert_refused(thief.hello(&appliance).await, RefusalReason::OldAttempt, &["known not to be the host"]);
    assert_refused(thief.report(&appliance).await, RefusalReason::OldAttempt, &["known not to be the host"]);
}

/// The agent of an earlier boot goes on, although another one has said hello: one report may have been on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_key_that_reports_twice_after_a_new_hello_holds_both() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let mut old = Agent::boot(&appliance, MAC, 1).await;
    old.hello(&appliance).await.unwrap();
    appliance.ahead_s.store(SILENT_S, Ordering::SeqCst);
    let mut new = Agent::boot(&appliance, MAC, 2).await;
    new.hello(&appliance).await.unwrap();
    let mut stranger = old.stolen_by(3);
    assert_refused(stranger.report(&appliance).await, RefusalReason::OldAttempt, &["attempt 1 is over"]);
    assert_refused(old.report(&appliance).await, RefusalReason::Held, &["report again"]);
    assert_eq!(appliance.journal("host").await.status.claim, None, "it may have been on its way");
    assert_refused(old.report(&appliance).await, RefusalReason::Held, &["more than one machine"]);
    page_says(&appliance, &["second_claimant", "of attempt 1", &"01".repeat(8), &"02".repeat(8)]).await;
    assert_eq!(new.report(&appliance).await.unwrap(), AgentInstruction::Continue);
    appliance.annotate("host", "firesteel.dev/choose-agent", "none").await;
    page_says(&appliance, &["ClaimResolved"]).await;
    // Until the end of its attempt is published it may still be answered.
    while new.report(&appliance).await.is_ok() {}
    for agent in [&mut old, &mut new] {
        let over = "is over, the host is at attempt 3: boot again";
        assert_refused(agent.report(&appliance).await, RefusalReason::OldAttempt, &[over]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_an_older_attempt_opens_nothing() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let mut old = Agent::boot(&appliance, MAC, 1).await;
    old.hello(&appliance).await.unwrap();
    appliance.ahead_s.store(SILENT_S, Ordering::SeqCst);
    let mut new = Agent::boot(&appliance, MAC, 2).await;
    let over = "is over, the host is at attempt 2: boot again";
    assert_refused(old.hello(&appliance).await, RefusalReason::OldAttempt, &["attempt 1", over]);
    assert_refused(old.report(&appliance).await, RefusalReason::OldAttempt, &["attempt 1", over]);
    let denied = appliance.control.boots.open_boot(&old.token).await.unwrap_err().to_string();
    assert!(denied.contains("the token's attempt is over: boot again"), "{denied}");
    assert!(appliance.control.boots.open_boot(&new.token).await.is_ok());
    new.hello(&appliance).await.unwrap();
    assert_eq!(plan_for(&appliance, &mut new).await, [PlanStep::Inspect]);
}

/// A loader goes on with its boot as soon as the appliance listens again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_its_files_right_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let agent = Agent::boot(&appliance, MAC, 1).await;
    let again = tempfile::tempdir().unwrap();
    let appliance = Appliance::start_after(appliance, again.path());
    let opened = appliance.control.boots.open_boot(&agent.token).await;
    assert_eq!(opened.unwrap().mac.to_string(), MAC);
}

/// A request for the script of a host whose agent is there ends nothing, and gets nothing but to ask again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_boot_script_waits_while_an_agent_may_be_at_work() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let mut agent = Agent::boot(&appliance, MAC, 1).await;
    agent.hello(&appliance).await.unwrap();
    assert_eq!(plan_for(&appliance, &mut agent).await, [PlanStep::Inspect]);
    for ahead_s in [0, SILENT_S - 10] {
        appliance.ahead_s.store(ahead_s, Ordering::SeqCst);
        let waits = script(&appliance, MAC, "").await;
        assert!(token_in(&waits).is_none() && waits.contains("sleep 10\n"), "{waits}");
    }
    agent.report(&appliance).await.unwrap();
    until("the note of it", async || {
        let page = appliance.page("host").await;
        page.contains("script_waits") && page.contains("its agent may still be at work")
    })
    .await;
    assert_eq!(appliance.journal("host").await.status.agent.unwrap().attempt, 1);

    appliance.ahead_s.fetch_add(SILENT_S, Ordering::SeqCst);
    let next = Agent::boot(&appliance, MAC, 2).await;
    next.hello(&appliance).await.unwrap();
    assert_eq!(appliance.journal("host").await.status.agent.unwrap().attempt, 2, "it was silent for a minute");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_expired_opens_nothing_and_another_boot_gets_one_that_does() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let mut late = Agent::boot(&appliance, MAC, 1).await;
    // No clock ends it, but time does.
    appliance.ahead_s.store(8 * 24 * 3600, Ordering::SeqCst);
    let opened = appliance.control.boots.open_boot(&late.token).await;
    assert!(!opened.is_err_and(|denied| denied.to_string().contains("expired")));
    appliance.passed_s.store(8 * 24 * 3600, Ordering::SeqCst);
    let what = ["this token has expired", "boot again from the network"];
    assert_refused(late.hello(&appliance).await, RefusalReason::BadToken, &what);
    assert_refused(late.report(&appliance).await, RefusalReason::BadToken, &what);
    let denied = appliance.control.boots.open_boot(&late.token).await.unwrap_err().to_string();
    assert!(what.iter().all(|part| denied.contains(part)), "{denied}");
    assert!(appliance.journal("host").await.status.agent.is_none());
    Agent::boot(&appliance, MAC, 1).await.hello(&appliance).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_was_altered_opens_nothing() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let mut agent = Agent::boot(&appliance, MAC, 1).await;
    let sound = agent.token.clone();
    for at in [0, 1, 20, sound.len() / 2, sound.len() - 2] {
        let other = if &sound[at..=at] == "B" { "C" } else { "B" };
        agent.token = format!("{}{other}{}", &sound[..at], &sound[at + 1..]);
        assert_refused(agent.hello(&appliance).await, RefusalReason::BadToken, &["boot again from the network"]);
        let denied = appliance.control.boots.open_boot(&agent.token).await.unwrap_err().to_string();
        assert!(denied.contains("boot again from the network"), "{denied}");
    }
    assert!(appliance.journal("host").await.status.agent.is_none(), "nothing was bound");
    agent.token = sound;
    agent.hello(&appliance).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hosts_with_one_mac_the_younger_says_so_until_the_older_is_gone() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("older", MAC, None).await;
    let first = token_in(&script(&appliance, MAC, "").await).unwrap();
    appliance.add("younger", MAC, None).await;
    let told =
        ["the boot MAC 02:00:00:00:03:01 belongs to host default/older", "correct spec.bootMACAddress", "delete"];
    appliance.assert_told("younger", &told).await;
    assert_eq!(appliance.status("older").await.error_message, "", "the older one has done nothing wrong");
    let opens = async |token: &str| appliance.control.boots.open_boot(token).await.is_ok();
    let second = token_in(&script(&appliance, MAC, "").await).unwrap();
    assert!(opens(&first).await && opens(&second).await, "the machine is still the older host's");
    let agent = Agent::boot(&appliance, MAC, 1).await;
    agent.hello(&appliance).await.unwrap();
    assert!(appliance.journal("older").await.status.agent.is_some());
    assert!(appliance.journal("younger").await.status.agent.is_none());

    appliance.hosts.delete(NAMESPACE, "older").await.unwrap();
    until("the younger host is well", async || appliance.status("younger").await.error_message.is_empty()).await;
    let mut agent = Agent::boot(&appliance, MAC, 3).await;
    agent.hello(&appliance).await.unwrap();
    assert!(appliance.journal("younger").await.status.agent.is_some(), "now it is its machine");
    assert_eq!(plan_for(&appliance, &mut agent).await, [PlanStep::Inspect]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_machines_with_one_uuid_are_two_hosts() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let (_origin, image) = published(noise(2 << 20));
    let uuid = "03000200-0400-0500-0006-000700080009";
    let mut agents = Vec::new();
    for (name, mac, key) in [("one", "02:00:00:00:03:11", 1), ("two", "02:00:00:00:03:12", 2)] {
        appliance.add(name, mac, Some(image.clone())).await;
        let disks = vec![disk("sda", &format!("disk-of-{name}"), 20)];
        agents.push((name, Agent::boot_with(&appliance, mac, key, uuid, disks).await));
    }
    for (name, agent) in &mut agents {
        let End::WritePlan(plan) = agent.work(&appliance, name).await else {
            panic!("{}", appliance.error(name).await);
        };
        let serials: Vec<&str> = plan
            .steps
            .iter()
            .filter_map(|step| match step {
                PlanStep::WriteImage { disk, .. } => Some(disk.serial.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(serials, [format!("disk-of-{name}")], "each host's plan names its own disk");
        let bound = appliance.journal(name).await.status.agent.unwrap();
        assert_eq!(bound.attempt, 1, "neither was taken for the other booting again");
    }
}

/// The config's name and the token that a stub fetches it with.
fn config_in(plan: &[PlanStep]) -> (String, String) {
    let files = plan.iter().find_map(|step| match step {
        PlanStep::HandOff { forms, .. } => forms.as_ref()?.boot_partition.as_ref(),
        _ => None,
    });
    let stub = files.unwrap().files.iter().find(|file| file.path == "ignition/config.ign").unwrap();
    let stub: serde_json::Value = serde_json::from_slice(&STANDARD.decode(&stub.content_base64).unwrap()).unwrap();
    let merge = &stub["ignition"]["config"]["merge"][0];
    let name = merge["source"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let bearer = merge["httpHeaders"][0]["value"].as_str().unwrap();
    (name, bearer.strip_prefix("Bearer ").unwrap().to_owned())
}

async fn asked_for(appliance: &Appliance, name: &str, token: &str) -> Result<Vec<u8>, ConfigRefusal> {
    let ask = ConfigRequest { name, token: Some(token), accept: None, head: false, remote: REMOTE };
    appliance.configs.host_config(ask).await
}

/// A token of one host opened the configs, and so the secrets, of every other host of its namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_is_given_to_the_host_whose_user_data_fetches_it() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let (_origin, image) = published(noise(2 << 20));
    let mut tokens = Vec::new();
    for (name, mac, key) in [("one", "02:00:00:00:03:21", 1), ("two", "02:00:00:00:03:22", 2)] {
        let config = format!("config-{name}");
        let url = format!("https://192.0.2.1:22623/config/{config}");
        let stub = serde_json::json!({"ignition": {"version": "3.4.0", "config": {"merge": [{"source": url}]}}});
        appliance.add_secret(&format!("user-data-{name}"), "userData", stub.to_string().as_bytes()).await;
        appliance.add_config(&config, br#"{"ignition": {"version": "3.4.0"}}"#).await;
        let user_data = SecretReference { name: format!("user-data-{name}"), namespace: NAMESPACE.into() };
        appliance.add_with(name, mac, Some(image.clone()), |host| host.spec.user_data = Some(user_data)).await;
        let mut agent = Agent::boot(&appliance, mac, key).await;
        let End::WritePlan(plan) = agent.work(&appliance, name).await else {
            panic!("{}", appliance.error(name).await);
        };
        let (asked, token) = config_in(&plan.steps);
        assert_eq!(asked, config);
        let denied = asked_for(&appliance, &config, &agent.token).await.unwrap_err().to_string();
        assert!(denied.contains("another purpose"), "{denied}");
        tokens.push((config, token));
    }
    for (config, token) in &tokens {
        for (other, _) in &tokens {
            let served = asked_for(&appliance, other, token).await;
            if other == config {
                assert!(served.is_ok(), "{served:?}");
            } else {
                let denied = served.unwrap_err().to_string();
                let told = format!("does not fetch the config {other}: let it merge https://192.0.2.1:22623/config/");
                assert!(denied.contains(&told), "{denied}");
            }
        }
    }
}

/// Who hangs up while the script is made breaks off a step of the host, which was never stepped again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hangs_up_while_the_script_is_made_stops_no_host() {
    const FOR_EVER: Duration = Duration::from_secs(60);
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    for pieces in 1..=40 {
        let agent = tokio::time::timeout(FOR_EVER, Agent::boot(&appliance, MAC, pieces)).await;
        let agent = agent.unwrap_or_else(|_| panic!("no script after one that was left after {} pieces", pieces - 1));
        agent.hello(&appliance).await.unwrap();
        appliance.ahead_s.fetch_add(SILENT_S, Ordering::SeqCst);
        let asked = script(&appliance, MAC, "");
        tokio::pin!(asked);
        for _ in 0..pieces {
            if futures_util::poll!(asked.as_mut()).is_ready() {
                break;
            }
            // What it waits for in the store goes on meanwhile.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_nobody_owns_is_inspected_and_shown_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    let mut agent = Agent::boot(&appliance, MAC, 1).await;
    let verdict = agent.hello(&appliance).await.unwrap().verdict;
    let AgentInstruction::Plan { plan } = verdict else { panic!("{verdict:?}") };
    assert_eq!(plan.steps, [PlanStep::Inspect]);
    agent.inspect(&plan);
    // The answer to the report of a finished inspection is held: there is nothing else to do.
    let shown = until("the machine is shown", async || {
        let (machines, _) = appliance.discovered.list(None).await.unwrap();
        machines.iter().any(|machine| machine.status.hardware.is_some())
    });
    tokio::pin!(shown);
    loop {
        tokio::select! {
            verdict = agent.report(&appliance) => {
                assert!(matches!(verdict, Ok(AgentInstruction::Continue)), "{verdict:?}");
            }
            () = &mut shown => break,
        }
    }
    let (machines, _) = appliance.discovered.list(None).await.unwrap();
    let [machine] = machines.as_slice() else { panic!("{machines:?}") };
    assert_eq!((machine.status.boot_mac.as_str(), machine.status.boots), (MAC, 1));
    assert_eq!(machine.status.hardware.as_ref().unwrap().disks.len(), 1);
    // Its token is no host's: adopted, it starts again with one of its own.
    appliance.add("adopted", MAC, None).await;
    until("it is told to start again", async || {
        let is_adopted = |reason: &str| reason.contains("adopted as default/adopted");
        matches!(agent.report(&appliance).await, Ok(AgentInstruction::Abort { reason }) if is_adopted(&reason))
    })
    .await;
}
