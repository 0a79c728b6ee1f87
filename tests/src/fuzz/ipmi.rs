//! What BMCs answer by IPMI, and whoever sends datagrams in their name; and IPMI's addresses.
//!
//! An input is a list of datagrams. Each parser sees all of them, and an engine gets one after each
//! step of a true set-up.

use std::time::Duration;

use firesteel_bmc::BmcCredentials;
use firesteel_bmc::ipmi::command::{self, AuthCapabilities, BootFlags, IpmiReply};
use firesteel_bmc::ipmi::engine::{IpmiEngine, IpmiSessionEvent};
use firesteel_bmc::ipmi::packet::{self, IpmiFrame, IpmiMessage};
use firesteel_bmc::ipmi::sol::Console;
use firesteel_bmc::ipmi::suite::{IpmiSessionKeys, Numbers, SessionRandom, Suite};
use firesteel_bmc::ipmi::{IpmiAddress, Privilege, fru};
use firesteel_bmc_fakes::ipmi::FakeIpmi;
use firesteel_control::ConsoleText;
use firesteel_wire::{limits::LOG_LINE_BYTES_MAX, text::is_hidden};

/// Of a BMC, which no line of a console may hold.
const PASSWORD: &str = "correct horse";
/// More than a set-up with all its repetitions takes.
const STEPS_MAX: usize = 200;

pub(super) fn check(input: &[u8]) {
    parsers(input);
    for datagram in super::messages(input) {
        parsers(datagram);
    }
    engine(input);
    console(input);
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(address) = IpmiAddress::parse(text)
    {
        assert_eq!(IpmiAddress::parse(&address.to_string()).as_ref(), Ok(&address));
        assert!(address.port() != 0 && !address.host().contains(['@', '/', '[', '?']));
        super::assert_plain(address.host());
    }
}

fn parsers(bytes: &[u8]) {
    match packet::frame(bytes) {
        Ok(IpmiFrame::Bare { message: text } | IpmiFrame::Plain { payload: text, .. }) => {
            assert!(text.len() < bytes.len())
        }
        Ok(IpmiFrame::Sealed { .. }) => assert!(packet::open(bytes, &keys()).is_err(), "nobody else has the keys"),
        Ok(IpmiFrame::Console { .. }) => {
            assert!(packet::open_console(bytes, &keys()).is_err(), "nobody else has the keys");
        }
        Err(why) => super::assert_plain(why),
    }
    if let Ok(message) = IpmiMessage::read(bytes) {
        assert_eq!(IpmiMessage::read(&message.write()).as_ref(), Ok(&message));
    }
    let fru::FruIdentity { manufacturer, model, part, serial } = fru::identity(bytes);
    for text in [manufacturer, model, part, serial].into_iter().flatten() {
        super::assert_plain(&text);
    }
    if let Some(header) = bytes.first_chunk() {
        assert!(fru::bytes_wanted(header, 0xffff) <= fru::BYTES_MAX);
    }
    if let Some(flags) = BootFlags::read(bytes) {
        super::assert_plain(&flags.to_string());
        let again = BootFlags::read(&[&[1, 5][..], &flags.write()].concat());
        assert_eq!(again, Some(flags));
    }
    let mut console = Console::default();
    if let (Ok(first), Ok(again)) = (console.take(bytes), console.take(bytes)) {
        assert!(first.characters.len() < bytes.len() && again.characters.is_empty());
        assert_eq!(first.answer, again.answer);
    }
    if let Some(text) = command::guid_text(bytes) {
        assert_eq!(text.len(), 36);
    }
    let _ =
        (command::power(bytes), AuthCapabilities::read(bytes), command::fru_size(bytes), command::console_port(bytes));
    if let Some((completion, data)) = bytes.split_first() {
        let reply = IpmiReply { completion: *completion, data: data.to_vec() };
        if let Err(error) = reply.accepted("it") {
            super::assert_plain(&error.to_string());
        }
    }
}

/// What a serial port says, as it is told.
fn console(input: &[u8]) {
    let mut text = ConsoleText::default();
    text.hide([PASSWORD.to_owned()]);
    let lines: Vec<String> = super::messages(input).flat_map(|part| text.feed(part)).collect();
    for line in lines.into_iter().chain(text.flush()) {
        assert!(!line.is_empty() && line.len() <= LOG_LINE_BYTES_MAX, "{line:?}");
        assert!(!line.contains(PASSWORD) && !line.chars().any(is_hidden), "{line:?}");
    }
}

/// Whatever comes in between: no session stands that the BMC does not know, and nothing goes on for ever.
fn engine(input: &[u8]) {
    let credentials = BmcCredentials { username: "admin".into(), password: "secret".into() };
    let fake = FakeIpmi::new(credentials.clone(), 1);
    let mut now = Duration::ZERO;
    let mut engine =
        IpmiEngine::new(&credentials, Privilege::Administrator, SessionRandom::from_seed(&[2; 32]), now).unwrap();
    let mut foreign = super::messages(input);
    for _ in 0..STEPS_MAX {
        if let Some(datagram) = foreign.next() {
            engine.receive(datagram, now);
        }
        match engine.take_event() {
            Some(IpmiSessionEvent::Opened) => {
                while let Some(datagram) = engine.transmit() {
                    drop(fake.answer(&datagram));
                }
                return assert!(fake.state().sessions() > 0);
            }
            Some(IpmiSessionEvent::Failed(error)) => return super::assert_plain(&error.to_string()),
            Some(event @ (IpmiSessionEvent::Answered(_) | IpmiSessionEvent::Closed)) => {
                panic!("{event:?} of a session that is not there")
            }
            None => {}
        }
        if let Some(datagram) = engine.transmit() {
            for answer in fake.answer(&datagram) {
                engine.receive(&answer, now);
            }
        } else if let Some(at) = engine.wake_at() {
            now = at;
            engine.wake(now);
        }
    }
    panic!("a set-up goes on for ever");
}

fn keys() -> IpmiSessionKeys {
    let numbers = Numbers {
        suite: Suite::Sha256,
        console_id: 1,
        bmc_id: 2,
        console_random: [3; 16],
        bmc_random: [4; 16],
        bmc_guid: [5; 16],
        role: 0x14,
        name: b"admin".to_vec(),
    };
    numbers.keys(b"another").0
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let credentials = BmcCredentials { username: "admin".into(), password: "secret".into() };
    // All that a true BMC says while a session is opened, used and closed.
    let fake = FakeIpmi::new(credentials.clone(), 1);
    let random = SessionRandom::from_seed(&[2; 32]);
    let mut engine = IpmiEngine::new(&credentials, Privilege::Administrator, random, Duration::ZERO).unwrap();
    let mut answers = Vec::new();
    let mut requests = [command::chassis_status(), command::boot_flags(), command::read_fru(0, 32)].into_iter();
    loop {
        while let Some(datagram) = engine.transmit() {
            for answer in fake.answer(&datagram) {
                engine.receive(&answer, Duration::ZERO);
                answers.push(answer);
            }
        }
        match (engine.take_event(), requests.next()) {
            (Some(_), Some(request)) => engine.ask(&request, Duration::ZERO),
            (Some(IpmiSessionEvent::Closed) | None, _) => break,
            (Some(_), None) => engine.close(Duration::ZERO),
        }
    }
    let all: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
    // Refusals of the set-up, for the tag that comes first in it.
    let refused: Vec<Vec<u8>> =
        (0..=0x12).map(|status| packet::encode_plain(0x11, &[0, status, 0, 0, 0, 0, 0, 0])).collect();
    let refusals: Vec<&[u8]> = refused.iter().map(Vec::as_slice).collect();
    let mut seeds = vec![super::joined(&all), super::joined(&refusals)];
    seeds.extend(answers.iter().cloned());
    seeds.push(fru::with_product("Example", "Server 5", "SN-77"));
    seeds.push(IpmiMessage { to: 0x81, function: 7, from: 0x20, sequence: 1, command: 1, data: vec![0, 1, 2] }.write());
    seeds.push(vec![1, 5, 0xa0, 0x04, 0, 0, 0]);
    let said: [&[u8]; 4] = [
        b"\x1b[2J\x1b[01;01H\x1b[=3hBdsDxe: loading Boot0001\r\n10%\x08\x08\x0820%\rdone\n",
        b"http://10.0.0.1:8080/boot/AQ7dGhpcyBpcyBub3QgYSB0b2tlbg/initramfs... ok\n",
        b"login: correct horse\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n",
        b"\x1b]0;title\x07\x1b(Bpassword = 'x'; https://a:b@c/ \xc3\xbc\xff",
    ];
    seeds.push(super::joined(&said));
    for text in
        ["ipmi://10.0.0.5:6230", "10.0.0.5", "ipmi://[fd00::1]:623?privilegelevel=OPERATOR", "libvirt://a-b.example"]
    {
        seeds.push(text.as_bytes().to_vec());
    }
    seeds
}
