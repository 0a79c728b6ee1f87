//! The first hello of an attempt binds its token to the agent's key. Pure.

use std::net::IpAddr;

use firesteel_boot::{BootSeal, UnseenBoot};
use firesteel_plan::host::identity::{IdentityChange, compare, is_comparable};
use firesteel_plan::journal;
use firesteel_resources::host_journal::{AgentBinding, Claimant, HostJournalStatus, RefusedIdentity};
use firesteel_runtime::event;
use firesteel_wire::{Hello, limits};
use jiff::{SignedDuration, Timestamp};

use crate::{boot_record, claimants, map};

/// Outcome of comparing a hello with the journal.
pub(crate) enum HelloBinding {
    /// The agent is bound from now on.
    New,
    /// The agent was bound before.
    Known,
    /// Another machine is bound, or was before. `is_new`: nothing was known of this one.
    Claimant { is_new: bool },
    /// It is known not to be the host.
    Intruder,
    /// The token is of an attempt that is over.
    OldAttempt { current: u64 },
    /// The machine is another one than the host is known as.
    IdentityChanged { why: String },
    /// The boot that the token is of was not seen.
    Unseen(UnseenBoot),
}

/// What else is known when a hello comes.
pub(crate) struct HelloFacts {
    /// What its token seals of the boot.
    pub(crate) boot: Option<BootSeal>,
    /// Whether the token's boot was seen.
    pub(crate) seen: Result<(), UnseenBoot>,
    /// Another host is known by the same UUID.
    pub(crate) is_uuid_shared: bool,
    pub(crate) remote: IpAddr,
    pub(crate) now: Timestamp,
}

/// The time between two writes of one machine that is refused: it shows that it is still there.
const REFUSED_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// Binds a token to the key of the first hello; pure.
pub(crate) fn bind(status: &mut HostJournalStatus, attempt: u64, hello: &Hello, facts: &HelloFacts) -> HelloBinding {
    let (remote, now) = (facts.remote, facts.now);
    let current = journal::attempt(status);
    let key = hello.key.to_string();
    if journal::is_intruder(status, &key) {
        return HelloBinding::Intruder;
    }
    if current != attempt {
        let is_held = claimants::is_claimant(status, &key);
        return if is_held { HelloBinding::Claimant { is_new: false } } else { HelloBinding::OldAttempt { current } };
    }
    if let Some(agent) = &status.agent
        && agent.attempt == attempt
    {
        if agent.key == key {
            return HelloBinding::Known;
        }
        // What the host is known as may be the word of the bound agent itself. Where it was known before, another
        // machine is no claimant; one that claimed it stays one, whatever it says now.
        if agent.identity_compared
            && !claimants::is_claimant(status, &key)
            && let Err(change) = is_known_machine(status, attempt, hello, facts)
        {
            return HelloBinding::IdentityChanged { why: change.to_string() };
        }
        let other = claimants::claimant_of(attempt, hello, remote, now);
        return HelloBinding::Claimant { is_new: claimants::claim(status, &other, now) };
    }
    if let Err(why) = &facts.seen {
        let detail = format!("from {remote}, MAC {}: {why}", map::field(&hello.identity.boot_mac));
        status.note_again(event(now, attempt, "unseen_boot", detail));
        return HelloBinding::Unseen(why.clone());
    }
    if let Err(change) = is_known_machine(status, attempt, hello, facts) {
        return HelloBinding::IdentityChanged { why: change.to_string() };
    }
    status.refused_identity = None;
    let known = journal::known_identity(status);
    let identity = &hello.identity;
    let identity_compared = is_comparable(&known, &identity.uuid, &identity.serial, facts.is_uuid_shared);
    status.former_agent = status.agent.as_ref().map(Claimant::of);
    status.agent = Some(AgentBinding { identity_compared, ..bound(attempt, hello, remote, now) });
    if let Some(seal) = &facts.boot {
        boot_record::note_hello(status, attempt, seal, now);
    }
    status.progress = None;
    #[allow(clippy::cast_precision_loss, reason = "seconds for people")]
    let detail = format!("{:.1} s after the kernel's start", hello.uptime_ms as f64 / 1000.0);
    status.note(event(now, attempt, "agent_hello", detail));
    if let Some(way) = &hello.network {
        let name = if way.by_plan { "agent_network" } else { "agent_network_failed" };
        status.note(event(now, attempt, name, map::field(&way.text)));
    }
    HelloBinding::New
}

/// Compares the machine of a hello with what the host is known as, and keeps one that is another; `Err` says both.
fn is_known_machine(
    status: &mut HostJournalStatus,
    attempt: u64,
    hello: &Hello,
    facts: &HelloFacts,
) -> Result<(), IdentityChange> {
    let now = facts.now;
    let (uuid, serial) = (map::field(&hello.identity.uuid).to_ascii_lowercase(), map::field(&hello.identity.serial));
    let known = journal::known_identity(status);
    let Err(change) = compare(&known, &uuid, &serial, facts.is_uuid_shared) else { return Ok(()) };
    let (address, mac) = (facts.remote.to_string(), map::field(&hello.identity.boot_mac));
    status.note_again(event(now, attempt, "identity_changed", format!("from {address}, MAC {mac}: {change}")));
    let refused = RefusedIdentity { uuid, serial, address, mac, at: now, attempt };
    // The same machine asks again and again.
    let is_known = |known: &RefusedIdentity| {
        (known.mark(), known.attempt) == (refused.mark(), attempt) && now.duration_since(known.at) < REFUSED_AGAIN
    };
    if !status.refused_identity.as_ref().is_some_and(is_known) {
        status.refused_identity = Some(refused);
    }
    Err(change)
}

/// Describes the agent that this hello is of.
fn bound(attempt: u64, hello: &Hello, remote: IpAddr, now: Timestamp) -> AgentBinding {
    AgentBinding {
        attempt,
        key: hello.key.to_string(),
        boot_id: map::field(&hello.boot_id),
        bound_at: now,
        mac: map::field(&hello.identity.boot_mac),
        uuid: map::field(&hello.identity.uuid).to_ascii_lowercase(),
        serial: map::field(&hello.identity.serial),
        address: remote.to_string(),
        agent_version: map::field(&hello.agent_version),
        kernel_version: map::field(&hello.kernel_version),
        network: hello.network.as_ref().map(|way| map::field(&way.text)).unwrap_or_default(),
        network_failed: hello.network.as_ref().is_some_and(|way| !way.by_plan),
        program_sha256: map::field(&hello.program.sha256),
        abilities: hello.program.abilities.iter().take(limits::ABILITIES_MAX).map(|own| map::field(own)).collect(),
        ..AgentBinding::default()
    }
}

#[cfg(test)]
pub(crate) mod examples {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_wire::{PublicKey, SmbiosIdentity};

    use super::*;

    pub(crate) fn hello(key: u8) -> Hello {
        Hello {
            token: "t".into(),
            key: PublicKey([key; 32]),
            identity: SmbiosIdentity { boot_mac: "52:54:00:00:00:01".into(), ..SmbiosIdentity::default() },
            agent_version: "0.1.0".into(),
            kernel_version: "6.1".into(),
            uptime_ms: 2500,
            boot_id: "b".into(),
            network: None,
            program: firesteel_wire::Program::default(),
        }
    }

    pub(crate) fn facts(now: Timestamp) -> HelloFacts {
        HelloFacts { boot: None, seen: Ok(()), is_uuid_shared: false, remote: "192.0.2.9".parse().unwrap(), now }
    }

    pub(crate) fn unseen(now: Timestamp) -> HelloFacts {
        HelloFacts { seen: Err(UnseenBoot::Unsealed), ..facts(now) }
    }

    pub(crate) fn journal(attempt: u64) -> HostJournalStatus {
        HostJournalStatus { memory: serde_json::json!({"attempt": attempt}), ..HostJournalStatus::default() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_resources::hardware::{HardwareRecord, SystemRecord};

    use super::examples::{facts, hello, journal, unseen};
    use super::*;

    #[test]
    fn the_first_key_of_an_attempt_takes_its_token() {
        let now = Timestamp::UNIX_EPOCH;
        let mut status = journal(4);
        for _ in 0..2 {
            let refused = bind(&mut status, 4, &hello(1), &unseen(now));
            assert!(matches!(refused, HelloBinding::Unseen(UnseenBoot::Unsealed)));
        }
        assert_eq!(status.agent, None, "nothing is bound");
        assert_eq!(status.timeline.iter().filter(|event| event.event == "unseen_boot").count(), 1);
        assert!(matches!(bind(&mut status, 4, &hello(1), &facts(now)), HelloBinding::New));
        assert!(matches!(bind(&mut status, 4, &hello(1), &unseen(now)), HelloBinding::Known), "it was seen before");
        let bound = status.agent.clone();
        assert!(matches!(bind(&mut status, 4, &hello(2), &facts(now)), HelloBinding::Claimant { is_new: true }));
        assert!(matches!(bind(&mut status, 4, &hello(2), &facts(now)), HelloBinding::Claimant { is_new: false }));
        assert_eq!(status.agent, bound, "the second key is not bound");
        let claim = status.claim.clone().unwrap();
        assert_eq!((claim.first.key.as_str(), claim.others[0].key.as_str()), (&*"01".repeat(32), &*"02".repeat(32)));
        let second: Vec<_> = status.timeline.iter().filter(|event| event.event == "second_claimant").collect();
        assert_eq!(second.len(), 1, "reported once, not at each try");
        assert!(second[0].detail.contains("192.0.2.9") && second[0].detail.contains("52:54:00:00:00:01"));
        assert!(matches!(bind(&mut status, 3, &hello(1), &facts(now)), HelloBinding::OldAttempt { current: 4 }));
        status.memory = serde_json::json!({"attempt": 5});
        assert!(matches!(bind(&mut status, 5, &hello(3), &facts(now)), HelloBinding::New), "a new attempt, a new key");
        assert_eq!(status.former_agent.as_ref().unwrap().key, "01".repeat(32), "it may report on");
        status.memory = serde_json::json!({"attempt": 6, "intruders": [{"key": "02".repeat(32)}]});
        assert!(matches!(bind(&mut status, 6, &hello(2), &facts(now)), HelloBinding::Intruder));
    }

    /// A machine with a stolen token may be inspected before the host's own agent comes.
    #[test]
    fn what_the_bound_agent_alone_said_makes_no_other_machine_a_stranger() {
        let now = Timestamp::UNIX_EPOCH;
        let uuid = |last: char| format!("4c4c4544-0046-3310-8051-b4c04f56443{last}");
        let says = |key: u8, last: char| {
            let mut hello = hello(key);
            hello.identity.uuid = uuid(last);
            hello
        };
        for is_accepted in [false, true] {
            let mut status = journal(4);
            assert!(matches!(bind(&mut status, 4, &says(1, '1'), &facts(now)), HelloBinding::New));
            let inspected = |attempt| HardwareRecord {
                attempt,
                system: SystemRecord { uuid: uuid('1'), ..SystemRecord::default() },
                ..HardwareRecord::default()
            };
            status.hardware = Some(inspected(4));
            if is_accepted {
                status.memory["identity"] = serde_json::json!({"uuid": uuid('1')});
            }
            assert!(matches!(
                bind(&mut status, 4, &says(2, '2'), &facts(now)),
                HelloBinding::Claimant { is_new: true }
            ));
            assert_eq!(status.refused_identity, None);

            // The power settled it, and the planner forgot what was accepted.
            status.memory = serde_json::json!({"attempt": 5});
            assert!(
                matches!(bind(&mut status.clone(), 5, &says(3, '2'), &facts(now)), HelloBinding::New),
                "the host is back"
            );
            // Who was compared with an earlier inspection is held against it.
            status.hardware = Some(inspected(3));
            assert!(matches!(bind(&mut status, 5, &says(4, '1'), &facts(now)), HelloBinding::New));
            let stranger = bind(&mut status, 5, &says(5, '2'), &facts(now));
            assert!(matches!(stranger, HelloBinding::IdentityChanged { .. }));
            // What claimed it once stays a claimant, whatever it says of itself later.
            assert!(matches!(
                bind(&mut status, 5, &says(6, '1'), &facts(now)),
                HelloBinding::Claimant { is_new: true }
            ));
            assert!(matches!(
                bind(&mut status, 5, &says(6, '2'), &facts(now)),
                HelloBinding::Claimant { is_new: false }
            ));
        }
    }

    /// A second machine with the host's MAC, as after a swap of boards or of cables; in each state of the host.
    #[test]
    fn another_machine_is_refused_and_reported_and_changes_nothing() {
        let now = Timestamp::UNIX_EPOCH;
        for state in ["registering", "inspecting", "available", "provisioned"] {
            let mut status = journal(4);
            let known = serde_json::json!({"uuid": "4c4c4544-0046-3310-8051-b4c04f564432", "serial": "S1"});
            status.memory = serde_json::json!({"attempt": 4, "state": {"name": state}, "identity": known});
            let says = |uuid: &str| {
                let mut other = hello(2);
                uuid.clone_into(&mut other.identity.uuid);
                other
            };
            for uuid in ["4c4c4544-0046-3310-8051-b4c04f564433", "", "00000000-0000-0000-0000-000000000000"] {
                for _ in 0..2 {
                    let refused = bind(&mut status, 4, &says(uuid), &facts(now));
                    assert!(matches!(refused, HelloBinding::IdentityChanged { .. }), "{state} {uuid}");
                }
                assert_eq!(status.refused_identity.as_ref().unwrap().uuid, uuid);
                let shared = HelloFacts { is_uuid_shared: true, ..facts(now) };
                assert!(matches!(bind(&mut status.clone(), 4, &says(uuid), &shared), HelloBinding::New));
            }
            assert_eq!(status.agent, None, "the token is not taken");
            let noted: Vec<_> = status.timeline.iter().filter(|event| event.event == "identity_changed").collect();
            assert!(noted.len() == 1 && noted[0].detail.contains("192.0.2.9"), "{noted:?}");
            let mut accepted = status.clone();
            accepted.memory["identity"] = serde_json::json!({"uuid": "", "serial": ""});
            assert!(matches!(bind(&mut accepted, 4, &says(""), &facts(now)), HelloBinding::New), "a person said so");
            // Its bytes are swapped by other firmware of the same board.
            for right in ["4C4C4544-0046-3310-8051-B4C04F564432", "44454c4c-4600-1033-8051-b4c04f564432"] {
                assert!(
                    matches!(bind(&mut status.clone(), 4, &says(right), &facts(now)), HelloBinding::New),
                    "{right}"
                );
            }
            bind(&mut status, 4, &says("4c4c4544-0046-3310-8051-b4c04f564432"), &facts(now));
            assert_eq!(status.refused_identity, None, "the host is back");
        }
    }
}
