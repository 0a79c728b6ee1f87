//! The appliance's TFTP server and other people's clients: curl and atftp, with every option they have, and on a link
//! that loses packets.
//!
//! Each test runs in a network namespace of its own (port 69 is the appliance's there), so it
//! needs root; without it, or without the client, it says so and passes.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "what a lossy link costs is part of what a test shows")]

mod lossy;

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use firesteel_net::tftp::TftpServer;
use firesteel_tftp::TransferEvent;
use nix::sched::{CloneFlags, unshare};

/// Empty, less than a block, whole blocks, many windows, and more blocks of 512 than a block number has.
const FILES: &[(&str, usize)] =
    &[("empty", 0), ("short", 511), ("blocks", 512 * 3), ("many", 1_000_003), ("wrap", 512 * 65_536 + 77)];

fn content(bytes: usize) -> Bytes {
    (0..bytes).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

/// Runs `client` for each file on a thread in a new namespace, where the server answers on 127.0.0.1.
fn with_server(test: &str, client: impl Fn(&Path, &str, &Bytes) + Send + 'static) -> Vec<TransferEvent> {
    in_namespace(test, FILES, move || {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in FILES {
            client(folder.path(), name, &content(*bytes));
        }
    })
}

/// Runs `clients` on a thread in a new namespace, where the server has these files; what it says of them.
fn in_namespace(
    test: &str,
    files: &'static [(&'static str, usize)],
    clients: impl FnOnce() + Send + 'static,
) -> Vec<TransferEvent> {
    let (test, name) = (test.to_owned(), test.to_owned());
    let body = move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("{test} skipped: a network namespace takes root ({error})");
            return Vec::new();
        }
        let is_up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success();
        assert!(is_up, "loopback in the namespace");
        let events: Arc<Mutex<Vec<TransferEvent>>> = Arc::default();
        let seen = Arc::clone(&events);
        // One thread: the server's sockets must be made in the namespace.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(async move {
            let lookup = Arc::new(move |path: &str| {
                files.iter().find(|(name, _)| *name == path).map(|(_, bytes)| content(*bytes))
            });
            let note = Arc::new(move |event: &TransferEvent| {
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
            });
            TftpServer::open("lo", Ipv4Addr::LOCALHOST, Arc::new(|_| Vec::new()), lookup, note).unwrap()
        });
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::scope(|scope| {
            // Threads made here belong to the namespace as well.
            let clients = scope.spawn(move || {
                clients();
                drop(stop);
            });
            runtime.block_on(async {
                tokio::select! {
                    ended = server.run() => panic!("the server ended: {ended:?}"),
                    _ = stopped => {}
                }
            });
            clients.join().unwrap();
        });
        events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    };
    std::thread::Builder::new().name(name).spawn(body).unwrap().join().unwrap()
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: no {program} here");
    }
    found
}

fn fetch(mut command: Command, target: &Path, expected: &Bytes) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let got = std::fs::read(target).unwrap();
    assert_eq!(got.len(), expected.len(), "{command:?}");
    assert!(got == expected[..], "{command:?}: other bytes");
    std::fs::remove_file(target).unwrap();
}

fn all_finished(events: &[TransferEvent], transfers: usize) {
    if events.is_empty() {
        return;
    }
    let finished = events.iter().filter(|event| matches!(event, TransferEvent::Finished { .. })).count();
    assert_eq!(finished, transfers, "{events:?}");
}

#[test]
fn curl_fetches_with_every_option() {
    if !has("curl") {
        return;
    }
    let options: &[&[&str]] = &[&[], &["--tftp-no-options"], &["--tftp-blksize", "1468"], &["--tftp-blksize", "8192"]];
    let events = with_server("curl", move |folder, name, expected| {
        // curl 7.88 takes the one empty block for a connection that never was (getpeername fails).
        if expected.is_empty() {
            return;
        }
        for options in options {
            let target = folder.join(name);
            let mut command = Command::new("curl");
            command.args(["--silent", "--show-error", "--fail", "--max-time", "60", "--output"]).arg(&target);
            command.args(*options).arg(format!("tftp://127.0.0.1/{name}"));
            fetch(command, &target, expected);
        }
    });
    all_finished(&events, options.len() * (FILES.len() - 1));
}

#[test]
fn atftp_fetches_with_every_option() {
    if !has("atftp") {
        return;
    }
    let options: &[&[&str]] = &[
        &[],
        &["tsize 0"],
        &["blksize 1428"],
        &["timeout 2"],
        &["windowsize 8"],
        &["windowsize 32", "blksize 1468"],
        &["tsize 0", "timeout 3", "blksize 65464", "windowsize 16"],
        &["multicast"],
    ];
    let events = with_server("atftp", move |folder, name, expected| {
        for options in options {
            let target = folder.join(name);
            let mut command = Command::new("atftp");
            for option in *options {
                command.args(["--option", option]);
            }
            command.args(["--get", "--remote-file", name, "--local-file"]).arg(&target).args(["127.0.0.1", "69"]);
            fetch(command, &target, expected);
        }
    });
    all_finished(&events, options.len() * FILES.len());
}
