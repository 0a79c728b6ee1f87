//! The engine against the fake BMC, on a clock that the test moves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::VecDeque;
use std::time::Duration;

use firesteel_bmc::ipmi::Privilege;
use firesteel_bmc::ipmi::command::{self, ChassisControl, IpmiCommand};
use firesteel_bmc::ipmi::engine::{HEARD_BYTES_MAX, IpmiEngine, IpmiSessionEvent, KEEP_ALIVE};
use firesteel_bmc::ipmi::packet::{self, IpmiFrame};
use firesteel_bmc::ipmi::suite::{SessionRandom, Suite};
use firesteel_bmc::{BmcCredentials, Error};
use firesteel_bmc_fakes::ipmi::{FakeIpmi, IpmiFault};
use proptest::prelude::*;

const STEPS_MAX: usize = 1000;

fn credentials() -> BmcCredentials {
    BmcCredentials { username: "admin".into(), password: "correct horse".into() }
}

struct Bench {
    fake: FakeIpmi,
    engine: IpmiEngine,
    now: Duration,
}

impl Bench {
    fn with(credentials: &BmcCredentials, privilege: Privilege, faults: &[IpmiFault]) -> Self {
        let fake = FakeIpmi::new(self::credentials(), 1);
        fake.state().faults = faults.to_vec();
        let now = Duration::from_secs(1000);
        let engine = IpmiEngine::new(credentials, privilege, SessionRandom::from_seed(&[2; 32]), now).unwrap();
        Self { fake, engine, now }
    }

    fn new(faults: &[IpmiFault]) -> Self {
        Self::with(&credentials(), Privilege::Administrator, faults)
    }

    fn open(faults: &[IpmiFault]) -> Self {
        let mut bench = Self::new(&[]);
        bench.opens();
        bench.fake.state().faults = faults.to_vec();
        bench
    }

    fn opens(&mut self) {
        let event = self.run();
        assert!(matches!(event, IpmiSessionEvent::Opened), "{event:?}");
    }

    fn pass(&mut self) {
        while let Some(datagram) = self.engine.transmit() {
            for answer in self.fake.answer(&datagram) {
                self.engine.receive(&answer, self.now);
            }
        }
    }

    /// Until something has happened.
    fn run(&mut self) -> IpmiSessionEvent {
        for _ in 0..STEPS_MAX {
            self.pass();
            if let Some(event) = self.engine.take_event() {
                return event;
            }
            self.now = self.engine.wake_at().expect("nothing has happened, and nothing will");
            self.engine.wake(self.now);
        }
        panic!("nothing happens");
    }

    fn ask(&mut self, request: &IpmiCommand) -> Result<Vec<u8>, Error> {
        self.engine.ask(request, self.now);
        match self.run() {
            IpmiSessionEvent::Answered(reply) => reply.accepted(request.what),
            IpmiSessionEvent::Failed(error) => Err(error),
            event @ (IpmiSessionEvent::Opened | IpmiSessionEvent::Closed) => panic!("{event:?}"),
        }
    }

    fn fails(mut self) -> Error {
        match self.run() {
            IpmiSessionEvent::Failed(error) => error,
            event @ (IpmiSessionEvent::Opened | IpmiSessionEvent::Answered(_) | IpmiSessionEvent::Closed) => {
                panic!("{event:?}")
            }
        }
    }
}

#[test]
fn a_serial_port_is_heard_whole_and_once() {
    for faults in [&[][..], &[IpmiFault::Loses(5)], &[IpmiFault::Repeats], &[IpmiFault::Malformed]] {
        let mut bench = Bench::open(faults);
        assert!(bench.ask(&command::activate_console()).is_err(), "there is none");
        let lines: Vec<_> = (0..40).map(|number| format!("line {number}\n").into_bytes()).collect();
        bench.fake.state().serial = Some(lines.iter().cloned().collect());
        bench.ask(&command::activate_console()).unwrap();
        bench.engine.listen();
        let mut heard = Vec::new();
        // Whatever is sent to the fake makes it say again what was not acknowledged.
        for _ in 0..120 {
            bench.ask(&command::chassis_status()).unwrap();
            heard.extend(bench.engine.take_console_data());
        }
        assert_eq!(String::from_utf8(heard).unwrap(), String::from_utf8(lines.concat()).unwrap(), "{faults:?}");
        // For one listener at a time.
        assert!(bench.ask(&command::activate_console()).is_err());
        bench.ask(&command::deactivate_console()).unwrap();
        bench.ask(&command::activate_console()).unwrap();
    }
}

#[test]
fn of_a_serial_port_that_nobody_reads_the_newest_is_kept() {
    let mut bench = Bench::open(&[]);
    bench.fake.state().serial = Some((0..200u8).map(|number| vec![number; 200]).collect());
    bench.ask(&command::activate_console()).unwrap();
    bench.engine.listen();
    for _ in 0..200 {
        bench.ask(&command::chassis_status()).unwrap();
    }
    let heard = bench.engine.take_console_data();
    assert_eq!((heard.len(), heard.last()), (HEARD_BYTES_MAX, Some(&199)));
    assert!(bench.engine.take_loss() && !bench.engine.take_loss(), "told once");
}

/// A BMC that was restarted says nothing any more, its end neither.
#[test]
fn a_console_ends_with_its_session() {
    let mut bench = Bench::open(&[]);
    bench.fake.state().serial = Some([b"one".to_vec()].into());
    bench.ask(&command::activate_console()).unwrap();
    bench.engine.listen();
    bench.ask(&command::chassis_status()).unwrap();
    assert_eq!((bench.engine.take_console_data(), bench.engine.take_loss()), (b"one".to_vec(), false));
    bench.fake.state().faults = vec![IpmiFault::Silent];
    let begin = bench.now;
    while bench.engine.is_listening() {
        assert!(bench.now < begin + 2 * KEEP_ALIVE, "it listens to nobody");
        bench.now = bench.engine.wake_at().unwrap();
        bench.engine.wake(bench.now);
        bench.pass();
    }
}

#[test]
fn a_bmc_that_chooses_its_suite_itself_is_offered_that_one() {
    let mut bench = Bench::new(&[IpmiFault::ChoosesSuite]);
    bench.fake.state().suites = vec![Suite::Sha1];
    bench.opens();
    assert_eq!(bench.engine.suite(), Suite::Sha1);
    assert_eq!(bench.fake.state().opened, 2, "what it chose was offered before it was used");
    bench.ask(&command::chassis_control(ChassisControl::On)).unwrap();
}

#[test]
fn a_session_is_opened_used_and_closed_with_either_suite() {
    for suites in [vec![Suite::Sha256, Suite::Sha1], vec![Suite::Sha256], vec![Suite::Sha1]] {
        let mut bench = Bench::new(&[]);
        bench.fake.state().suites.clone_from(&suites);
        bench.opens();
        assert_eq!(bench.engine.suite(), suites[0]);
        assert_eq!(bench.ask(&command::chassis_status()).unwrap()[0] & 1, 0);
        bench.ask(&command::chassis_control(ChassisControl::On)).unwrap();
        assert_eq!(bench.ask(&command::chassis_status()).unwrap()[0] & 1, 1);
        assert_eq!(bench.fake.state().sessions(), 1);
        bench.engine.close(bench.now);
        assert!(matches!(bench.run(), IpmiSessionEvent::Closed));
        assert_eq!(bench.fake.state().sessions(), 0);
        assert_eq!(bench.now, Duration::from_secs(1000), "nothing had to be waited for");
        assert!(matches!(bench.ask(&command::chassis_status()), Err(Error::Timeout { .. })));
    }
}

#[test]
fn what_keeps_a_session_from_being_opened_is_told() {
    for (fault, error) in [
        (IpmiFault::RefusesSession(0x01), Error::NoSessionFree),
        (IpmiFault::RefusesSession(0x11), Error::Unsupported { what: "use cipher suite 17 or 3".into() }),
        (IpmiFault::OldVersion, Error::Unsupported { what: "speak IPMI 2.0 (RMCP+) here".into() }),
        (IpmiFault::Silent, Error::Unreachable { detail: "no answer to IPMI over LAN".into() }),
        (
            IpmiFault::Forged,
            Error::BadAnswer { what: "the privilege level".into(), detail: "its integrity code is wrong".into() },
        ),
    ] {
        assert_eq!(Bench::new(std::slice::from_ref(&fault)).fails(), error, "{fault:?}");
    }
    assert!(matches!(Bench::new(&[IpmiFault::BmcKey]).fails(), Error::Unsupported { what } if what.contains("Kg")));
    assert!(matches!(Bench::new(&[IpmiFault::RefusesSession(0x09)]).fails(), Error::Forbidden { .. }));
    assert!(matches!(Bench::new(&[IpmiFault::RefusesSession(0x77)]).fails(), Error::Refused { status: 0x77, .. }));
}

#[test]
fn a_wrong_user_and_a_wrong_password_are_told_apart_and_hold_no_place() {
    for (username, password, error) in
        [("root", "correct horse", Error::UnknownUser), ("admin", "Correct horse", Error::WrongPassword)]
    {
        let wrong = BmcCredentials { username: username.into(), password: password.into() };
        let bench = Bench::with(&wrong, Privilege::Administrator, &[]);
        let fake = bench.fake.clone();
        assert_eq!(bench.fails(), error);
        assert_eq!(fake.state().sessions(), 0);
    }
    // The BMC learns of it, so that it does not wait for the end of this set-up.
    let mut bench =
        Bench::with(&BmcCredentials { password: "wrong".into(), ..credentials() }, Privilege::Administrator, &[]);
    assert!(matches!(bench.run(), IpmiSessionEvent::Failed(Error::WrongPassword)));
    bench.pass();
    assert_eq!(bench.fake.state().places(), 0);
}

#[test]
fn logins_that_ipmi_has_no_room_for_are_told_before_anything_is_sent() {
    for (username, password) in [("a".repeat(17), "x".into()), ("a".into(), "x".repeat(21)), ("a\0".into(), "x".into())]
    {
        let login = BmcCredentials { username, password };
        let error =
            IpmiEngine::new(&login, Privilege::Administrator, SessionRandom::from_seed(&[0; 32]), Duration::ZERO)
                .unwrap_err();
        assert!(matches!(error, Error::UnfitLogin { .. }));
        assert!(!error.to_string().contains("xx"), "{error}");
    }
}

#[test]
fn a_lower_level_is_asked_for_where_the_address_says_so() {
    let mut bench = Bench::with(&credentials(), Privilege::Operator, &[IpmiFault::OperatorOnly]);
    bench.opens();
    let mut bench = Bench::new(&[IpmiFault::OperatorOnly]);
    let event = bench.run();
    assert!(
        matches!(&event, IpmiSessionEvent::Failed(Error::Forbidden { message }) if message.contains("0x81")),
        "{event:?}"
    );
    bench.engine.close(bench.now);
    assert!(matches!(bench.run(), IpmiSessionEvent::Closed));
    assert_eq!(bench.fake.state().sessions(), 0, "it was open all the same");
}

#[test]
fn lost_datagrams_are_sent_again_and_nothing_is_done_twice() {
    for of in 3..=9 {
        let mut bench = Bench::new(&[IpmiFault::Loses(of)]);
        bench.opens();
        bench.ask(&command::chassis_control(ChassisControl::On)).unwrap();
        for _ in 0..5 {
            bench.ask(&command::chassis_control(ChassisControl::Reset)).unwrap();
            bench.ask(&command::chassis_status()).unwrap();
        }
        assert_eq!(bench.fake.state().controls, [1, 3, 3, 3, 3, 3], "one of {of} is lost");
    }
}

#[test]
fn noise_and_repetitions_change_nothing() {
    for faults in [
        &[IpmiFault::Malformed][..],
        &[IpmiFault::Repeats],
        &[IpmiFault::Malformed, IpmiFault::Repeats, IpmiFault::Loses(4)],
    ] {
        let mut bench = Bench::new(faults);
        bench.opens();
        bench.ask(&command::chassis_control(ChassisControl::On)).unwrap();
        assert_eq!(bench.ask(&command::chassis_status()).unwrap()[0] & 1, 1);
        assert!(bench.ask(&command::system_guid()).unwrap().len() == 16);
    }
}

#[test]
fn a_set_up_that_the_bmc_forgot_begins_anew() {
    let mut bench = Bench::new(&[IpmiFault::ForgetsSetUp]);
    bench.opens();
    assert_eq!(bench.fake.state().opened, 2);
}

#[test]
fn a_silent_bmc_is_given_up_in_a_bounded_time() {
    let mut bench = Bench::new(&[IpmiFault::Silent]);
    assert!(matches!(bench.run(), IpmiSessionEvent::Failed(Error::Unreachable { .. })));
    assert_eq!(bench.now, Duration::from_secs(1015));
    let mut bench = Bench::open(&[IpmiFault::Silent]);
    assert_eq!(bench.ask(&command::chassis_status()), Err(Error::Timeout { what: "the chassis status".into() }));
    assert_eq!(bench.now, Duration::from_secs(1015));
    bench.fake.state().faults.clear();
    assert!(bench.ask(&command::chassis_status()).is_ok(), "the session outlives a lost request");
    bench.fake.state().faults = vec![IpmiFault::Silent];
    bench.engine.close(bench.now);
    assert!(matches!(bench.run(), IpmiSessionEvent::Closed));
    assert!(bench.now < Duration::from_millis(1_016_500), "nobody waits for a good-bye");
}

#[test]
fn a_busy_bmc_is_asked_again_some_times() {
    let mut bench = Bench::open(&[IpmiFault::Busy(2)]);
    assert!(bench.ask(&command::chassis_status()).is_ok());
    assert_eq!(bench.now, Duration::from_secs(1003));
    let mut bench = Bench::open(&[IpmiFault::Busy(9)]);
    assert_eq!(bench.ask(&command::chassis_status()), Err(Error::Busy { status: 0xc0 }));
    assert_eq!(bench.fake.state().faults, [IpmiFault::Busy(5)]);
}

#[test]
fn an_idle_session_is_kept_alive_and_its_end_is_noticed() {
    let mut bench = Bench::open(&[]);
    let asked = bench.fake.state().requests.len();
    for _ in 0..3 {
        assert!(bench.engine.is_idle());
        bench.now = bench.engine.wake_at().unwrap();
        bench.engine.wake(bench.now);
        bench.pass();
    }
    assert_eq!(bench.now, Duration::from_secs(1075));
    assert_eq!(bench.fake.state().requests.len(), asked + 3);
    bench.fake.state().forget_sessions();
    while let Some(at) = bench.engine.wake_at() {
        bench.now = at;
        bench.engine.wake(at);
        bench.pass();
    }
    assert!(!bench.engine.is_idle());
    assert!(matches!(bench.ask(&command::chassis_status()), Err(Error::Timeout { .. })));
}

#[test]
fn a_question_takes_precedence_over_a_keep_alive() {
    let mut bench = Bench::open(&[]);
    bench.now = bench.engine.wake_at().unwrap();
    bench.engine.wake(bench.now);
    assert!(bench.ask(&command::chassis_status()).unwrap().len() == 3);
    assert!(bench.engine.is_idle());
}

/// What the BMC sent before, sent again by somebody else.
#[test]
fn recorded_answers_are_worth_nothing() {
    let mut bench = Bench::open(&[]);
    let request = command::chassis_status();
    bench.engine.ask(&request, bench.now);
    let recorded: Vec<_> =
        std::iter::from_fn(|| bench.engine.transmit()).flat_map(|datagram| bench.fake.answer(&datagram)).collect();
    bench.engine.receive(&recorded[0], bench.now);
    assert!(matches!(bench.engine.take_event(), Some(IpmiSessionEvent::Answered(_))));
    // Until the number in the message comes round.
    for _ in 0..63 {
        bench.ask(&request).unwrap();
    }
    bench.engine.ask(&request, bench.now);
    bench.engine.receive(&recorded[0], bench.now);
    assert!(bench.engine.take_event().is_none());
}

/// A refusal that bears our number of the session, or none, is the BMC's; one of another session is not.
#[test]
fn a_refusal_of_another_session_is_left() {
    for (id, is_taken) in [(None, true), (Some(&[0; 4][..]), true), (Some(&[9; 4]), false), (Some(&[9; 3]), true)] {
        let mut bench = Bench::new(&[]);
        let open = loop {
            let datagram = bench.engine.transmit().unwrap();
            if let Ok(IpmiFrame::Plain { payload_type: packet::payload::OPEN_REQUEST, payload }) =
                packet::frame(&datagram)
            {
                break payload.to_vec();
            }
            for answer in bench.fake.answer(&datagram) {
                bench.engine.receive(&answer, bench.now);
            }
        };
        let (tag, own) = (open[0], &open[4..8]);
        let refusal =
            packet::encode_plain(packet::payload::OPEN_ANSWER, &[&[tag, 0x0d, 0, 0], id.unwrap_or(own)].concat());
        bench.engine.receive(&refusal, bench.now);
        let event = bench.engine.take_event();
        assert_eq!(matches!(event, Some(IpmiSessionEvent::Failed(Error::UnknownUser))), is_taken, "{id:?}: {event:?}");
        assert_eq!(event.is_some(), is_taken);
    }
}

/// What the engine has sent and the BMC has not yet read, with the tag of the newest message of the set-up.
#[derive(Default)]
struct Sent {
    datagrams: VecDeque<Vec<u8>>,
    tag: Option<u8>,
}

impl Sent {
    fn drain(&mut self, engine: &mut IpmiEngine) {
        while let Some(datagram) = engine.transmit() {
            if let Ok(IpmiFrame::Plain { payload, .. }) = packet::frame(&datagram) {
                self.tag = payload.first().copied();
            }
            self.datagrams.push_back(datagram);
        }
    }
}

proptest! {
    /// Nobody proves who refuses a login: what happens to have the tag of our message may end it, and nothing else.
    #[test]
    fn no_datagrams_panic_or_open_a_session(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..20),
        kind in 0u8..6,
    ) {
        let mut bench = Bench::new(&[]);
        let (mut sent, mut event, mut is_refused) = (Sent::default(), None, false);
        for _ in 0..6 {
            for datagram in &datagrams {
                let head = [0x06, 0x00, 0xff, 0x07, 0x06, 0x10 | kind, 0, 0, 0, 0, 0, 0, 0, 0];
                let framed = [&head[..], datagram].concat();
                sent.drain(&mut bench.engine);
                // Behind the head and a length: tag and status.
                let answers = |tag| sent.tag == Some(tag);
                is_refused |= matches!(datagram[..], [_, _, tag, status, ..] if answers(tag) && status != 0);
                bench.engine.receive(datagram, bench.now);
                bench.engine.receive(&framed, bench.now);
            }
            event = bench.engine.take_event().or(event);
            prop_assert!(event.is_none() || bench.engine.is_idle() || is_refused, "{event:?}");
            // One message further.
            sent.drain(&mut bench.engine);
            if let Some(datagram) = sent.datagrams.pop_front() {
                for answer in bench.fake.answer(&datagram) {
                    bench.engine.receive(&answer, bench.now);
                }
            }
        }
        event = bench.engine.take_event().or(event);
        prop_assert_eq!(matches!(event, Some(IpmiSessionEvent::Opened)), bench.engine.is_idle());
        prop_assert!(bench.engine.is_idle() || is_refused, "{:?}", event);
    }
}
