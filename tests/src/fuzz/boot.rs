//! What stands between a host's or a user's text and a boot script: queries, paths, tokens, kernel
//! arguments, names. A script that was made is read back as iPXE would read it.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use firesteel_boot::{
    BootEntry, BootTokenClaims, DiskProbe, Endpoints, KernelArguments, Platform, Purpose, RoutePath, ScriptContext,
    ScriptRequest, SealedToken, Sealer, render, request, seed_archive,
};
use firesteel_facts::Mac;

use super::{archives, joined, messages};

const ENDPOINTS: Endpoints = Endpoints { address: Ipv4Addr::new(10, 77, 0, 1), http_port: 8080, agent_port: 8443 };
const KEY: [u8; 32] = [7; 32];

static SEALED: LazyLock<(Sealer, SealedToken)> = LazyLock::new(|| {
    let sealer = Sealer::new(&KEY);
    let claims =
        BootTokenClaims { purpose: Purpose::Agent, subject: "uid".into(), attempt: 3, expires_s: 1000, boot: None };
    let token = sealer.seal(&claims).unwrap();
    (sealer, token)
});

/// Messages: a query, a path, a token, a line of kernel arguments, a host's name, a seed.
pub(super) fn check(input: &[u8]) {
    let parts: Vec<&[u8]> = messages(input).take(6).collect();
    for part in &parts {
        request::check(part);
    }
    let text = |index: usize| String::from_utf8_lossy(parts.get(index).copied().unwrap_or_default()).into_owned();
    let request = ScriptRequest::parse(&text(0)).unwrap_or(ScriptRequest {
        mac: Mac([0x52, 0x54, 0, 1, 2, 3]),
        platform: Platform::Bios,
        buildarch: None,
        uuid: None,
        serial: None,
        odd: Vec::new(),
    });
    path(&text(1));
    let (sealer, own) = &*SEALED;
    for token in [text(2), format!("{}{}", own.as_str(), text(2))] {
        assert!(token == own.as_str() || sealer.open(&token, 1, Purpose::Agent).is_err(), "only we make tokens");
    }
    let arguments = KernelArguments::parse(&text(3)).unwrap_or_default();
    scripts(&request, &arguments, &text(4));
    let seed = parts.get(5).copied().unwrap_or_default();
    if let Ok(archive) = seed_archive(seed) {
        let entries = archives::read_cpio(&archive).unwrap();
        assert_eq!(entries.len(), 2, "a folder and a file, whatever the seed holds");
        assert_eq!(entries[1], ("firesteel/seed.json".to_owned(), 0o100_600, seed.to_vec()));
    }
}

fn path(path: &str) {
    let Some(route) = RoutePath::parse(path) else { return };
    assert_eq!(RoutePath::parse(&route.to_string()).as_ref(), Some(&route), "{path}");
    match &route {
        RoutePath::Kernel { token } | RoutePath::Initramfs { token } => {
            assert!(
                !format!("{route:?}").contains(token.as_str()) || "/boot/…/kernelinitramfs".contains(token.as_str())
            );
        }
        RoutePath::Loader { file } => assert!(!file.contains('/') && !file.starts_with('.')),
        RoutePath::DiskProbe { probe, drive } => assert!(probe.program(*drive).len() <= 512, "it is one sector"),
        RoutePath::Script | RoutePath::NoDisk { .. } => {}
    }
}

fn scripts(request: &ScriptRequest, arguments: &KernelArguments, name: &str) {
    let probe = Some(DiskProbe::gpt_disk_guid(&[1; 16]));
    let entries = |name: &str| {
        [
            BootEntry::Discovery,
            BootEntry::Agent { host: name.into(), attempt: 2 },
            BootEntry::LocalDisk { host: name.into(), probe: probe.clone() },
            BootEntry::Wait { host: name.into(), why: name.into() },
            BootEntry::Mismatch { host: name.into(), reason: name.into() },
            BootEntry::Exit { reason: name.into() },
        ]
    };
    for (entry, plain) in entries(name).iter().zip(entries("x")) {
        let context = |arguments| ScriptContext { endpoints: &ENDPOINTS, request, token: Some(&SEALED.1), arguments };
        let script = render(entry, &context(arguments)).unwrap();
        let expected = render(&plain, &context(&KernelArguments::default())).unwrap();
        // The same commands in the same order, and the arguments as they were given.
        let (found, wanted) = (commands(&script), commands(&expected));
        assert_eq!(found.len(), wanted.len(), "{script}");
        for (found, wanted) in found.iter().zip(&wanted) {
            if found.first().is_some_and(|word| *word == "kernel") {
                let given = arguments.to_string();
                let given: Vec<&str> = given.split_ascii_whitespace().collect();
                assert_eq!(found[..5], wanted[..5]);
                assert_eq!(found[5..found.len() - 3], given);
                assert_eq!(found[found.len() - 3..], ["||", "goto", "fetch-again"]);
            } else {
                assert_eq!(found, wanted, "{script}");
            }
        }
        assert!(script.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{script:?}");
    }
}

/// A script as words. Of what is for a person's eyes only the command remains, once nothing in it means anything.
fn commands(script: &str) -> Vec<Vec<&str>> {
    let mut commands = Vec::new();
    for line in script.split('\n') {
        let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.first() == Some(&"echo") {
            let counts = line.matches("${").count() <= 1 && (!line.contains("${") || line.contains("-round}"));
            let separates = words.iter().any(|word| matches!(*word, ";" | "&&" | "||") || word.contains('#'));
            assert!(counts && !separates, "{line}");
            words.truncate(1);
        }
        commands.push(words);
    }
    commands
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let query = b"mac=52-54-00-01-02-03&uuid=3f0c3b1e-0000-4000-8000-525400010203&serial=SN%20%26%2f1&platform=efi&buildarch=x86_64";
    let probe = format!("/disk-probe/{}/80", DiskProbe::gpt_disk_guid(&[1; 16]));
    let arguments = b"console=tty0 console=ttyS0,115200n8 ip=dhcp";
    vec![
        joined(&[query, b"/boot.ipxe", b"AQ_-x", arguments, b"node-1", b"{\"token\":\"t\"}"]),
        joined(&[
            b"mac=52-54-00-01-02-03&platform=pcbios",
            probe.as_bytes(),
            b"A",
            b"rdinit=/bin/sh",
            b"a\nshell",
            b"",
        ]),
        joined(&[query, b"/boot/AQ_-x/kernel", b"", b"a;b ${x}", b"${net0/mac} || reboot ; #", b"070701TRAILER!!!"]),
        joined(&[query, b"/boot/52-54-00-01-02-03/no-disk", b"", b"a&&b", "é\u{202e}\u{2028}".as_bytes()]),
        joined(&[b"mac=52-54-00-01-02-03&platform=efi&serial=%0a", b"/loader/ipxe.efi", b"x", b"", b"-n"]),
    ]
}
