#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
use rustls::pki_types::pem::PemObject as _;

use super::*;

mod live;

#[test]
fn the_key_outlives_a_change_of_address_and_the_certificate_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDir::open(directory.path()).unwrap();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let first = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    let certificate = data.read_text("pki/server.crt").unwrap();
    let again = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    assert_eq!(data.read_text("pki/server.crt").unwrap(), certificate);
    let moved = Pki::open(&data, &["192.0.2.2".parse().unwrap()], now).unwrap();
    assert_ne!(data.read_text("pki/server.crt").unwrap(), certificate);
    assert_eq!(first.pin_sha256, moved.pin_sha256);
    let days = |index: usize| first.ends().unwrap()[index].1.duration_since(now).as_hours() / 24;
    assert!((363..=365).contains(&days(0)) && (3649..=3653).contains(&days(1)), "{:?}", first.ends());
    assert_eq!((first.ca_pem(), again.ca_pem()), (moved.ca_pem(), moved.ca_pem()));
    let later = now + SignedDuration::from_hours(24 * 340);
    let before = data.read_text("pki/server.crt").unwrap();
    Pki::open(&data, &["192.0.2.2".parse().unwrap()], later).unwrap();
    assert_ne!(data.read_text("pki/server.crt").unwrap(), before, "renewed within 30 days of its end");
}

/// The first start had a clock that was ahead, or had stood still: for years all clients would have refused
/// certificates that were not valid yet, or had ended.
#[test]
fn certificates_of_a_clock_that_was_wrong_by_years_are_made_anew_by_the_same_keys() {
    let address = ["192.0.2.1".parse().unwrap()];
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    for wrong in [0, 2_500_000_000] {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDir::open(directory.path()).unwrap();
        let wrong = Timestamp::from_second(wrong).unwrap();
        let first = Pki::open(&data, &address, wrong).unwrap();
        let again = Pki::open(&data, &address, now).unwrap();
        assert_eq!(first.pin_sha256, again.pin_sha256, "agents pin the key, whatever the clock says");
        assert_ne!(first.ca_pem(), again.ca_pem(), "{wrong}");

        trusts(&again.ca_pem(), &data, now).unwrap();
        assert!(trusts(&again.ca_pem(), &data, wrong).is_err(), "the judge has a clock");
        // A disk that was installed in the meantime has the old CA, whose key is the same.
        trusts(&first.ca_pem(), &data, now).unwrap();
    }
}

/// Verifies the server's certificate as a client with this CA and this clock.
fn trusts(ca_pem: &str, data: &DataDir, now: Timestamp) -> Result<(), rustls::Error> {
    use rustls::client::danger::ServerCertVerifier as _;
    let certificate = |pem: &str| certificates(pem).pop().unwrap();
    let mut roots = rustls::RootCertStore::empty();
    // In an overlap the old CA, which signs, comes last.
    roots.add(certificate(ca_pem)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let judge = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let shown = certificate(&data.read_text("pki/server.crt").unwrap());
    let at = std::time::Duration::from_secs(u64::try_from(now.as_second()).unwrap());
    let at = rustls::pki_types::UnixTime::since_unix_epoch(at);
    judge.verify_server_cert(&shown, &[], &"192.0.2.1".try_into().unwrap(), &[], at).map(drop)
}

/// Years of 365 days after the first start.
fn years(years: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * 365 * years)
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
}

/// Tells whether a client that trusts this CA alone accepts the server's current chain.
fn takes(pki: &Pki, ca: &CertificateDer<'static>, now: Timestamp) -> bool {
    use rustls::client::danger::ServerCertVerifier as _;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let judge = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let held = pki.inner.held.lock().unwrap();
    let (shown, above) = held.chain.split_first().unwrap();
    let at = std::time::Duration::from_secs(u64::try_from(now.as_second()).unwrap());
    let at = rustls::pki_types::UnixTime::since_unix_epoch(at);
    judge.verify_server_cert(shown, above, &"192.0.2.1".try_into().unwrap(), &[], at).is_ok()
}

/// Asks OpenSSL, which checks the length of paths; `None` if it is not installed.
fn openssl_takes(pki: &Pki, ca_pem: &str, now: Timestamp) -> Option<bool> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let held = pki.inner.held.lock().unwrap();
    let pem = |der: &CertificateDer<'_>| {
        let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
        let lines: Vec<&str> = body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    std::fs::write(file("ca"), ca_pem).unwrap();
    std::fs::write(file("leaf"), pem(&held.chain[0])).unwrap();
    std::fs::write(file("above"), pem(&held.chain[1])).unwrap();
    let mut command = std::process::Command::new("openssl");
    command.args(["verify", "-no-CApath", "-no-CAstore", "-attime", &now.as_second().to_string(), "-CAfile"]);
    command.arg(file("ca")).arg("-untrusted").arg(file("above")).arg(file("leaf"));
    Some(command.output().ok()?.status.success())
}

#[test]
fn during_an_overlap_either_ca_is_enough_and_after_it_the_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDir::open(directory.path()).unwrap();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let pki = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    let old = certificates(&pki.ca_pem())[0].clone();
    assert!(!pki.finish(now).unwrap(), "there is no overlap");
    pki.rotate(now).unwrap();
    let bundle = pki.ca_pem();
    let both = certificates(&bundle);
    assert_eq!((both.len(), &both[1]), (2, &old), "the new one comes first");
    assert_eq!(data.read_text("pki/ca.crt").unwrap(), bundle);
    pki.rotate(now).unwrap();
    assert_eq!(pki.ca_pem(), bundle, "once is enough");
    let again = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    assert_eq!((again.ca_pem(), &again.pin_sha256), (bundle.clone(), &pki.pin_sha256), "after a restart");
    for pki in [&pki, &again] {
        assert!(both.iter().all(|ca| takes(pki, ca, now)));
    }
    let pems: Vec<&str> = bundle.split_inclusive("-----END CERTIFICATE-----\n").collect();
    match openssl_takes(&pki, pems[0], now).zip(openssl_takes(&pki, pems[1], now)) {
        Some(taken) => assert_eq!(taken, (true, true), "as OpenSSL sees it"),
        None => println!("skipped: no openssl here"),
    }

    assert!(pki.finish(now).unwrap());
    assert_eq!(certificates(&pki.ca_pem()), [both[0].clone()]);
    assert!(takes(&pki, &both[0], now) && !takes(&pki, &old, now));
    assert_eq!(pki.trust().bundle().past.len(), 1, "stubs with the old one are known as ours");
    assert!(!data.path("pki/ca.key").exists(), "its key is of no more use");
    let last = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    assert!(takes(&last, &both[0], now));
    last.rotate(now).unwrap();
    assert!(takes(&last, &both[0], now), "and once more");
}

/// Makes an appliance with one address, in a folder that is removed with it.
fn pki_at(now: Timestamp) -> (Pki, DataDir, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDir::open(directory.path()).unwrap();
    let pki = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    (pki, data, directory)
}

#[test]
fn a_rotation_begins_at_eight_years_and_no_clock_ends_it() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let (pki, data, _directory) = pki_at(now);
    let old = certificates(&pki.ca_pem())[0].clone();
    pki.renew(now + years(7)).unwrap();
    assert_eq!(pki.ca_state().next_ends, None);
    pki.renew(now + years(8) + SignedDuration::from_hours(24 * 10)).unwrap();
    let begun = pki.ca_state();
    assert!(begun.next_ends.is_some_and(|ends| ends > now + years(17)), "{begun:?}");
    // The times: near its end, after it, and after the end of the new one.
    for late in [begun.ends - SignedDuration::from_hours(24 * 10), begun.ends + years(1), now + years(40)] {
        pki.renew(late).unwrap();
        let state = pki.ca_state();
        assert!(state.next_ends.is_some() && state.ends > late, "{late}: both are there, and valid: {state:?}");
        assert!(takes(&pki, &old, late), "{late}: who trusts the old CA alone is served");
        assert!(data.path("pki/ca.key").exists() && data.path("pki/ca-2.key").exists());
    }
    assert!(pki.finish(now + years(40)).unwrap());
    assert!(!takes(&pki, &old, now + years(40)), "a person ends it");

    // The settings give another age.
    let directory = tempfile::tempdir().unwrap();
    let data = DataDir::open(directory.path()).unwrap();
    let early = Pki::open_for(&data, ServerNames::default(), 1, now).unwrap();
    early.renew(now + years(1) + SignedDuration::from_hours(24 * 10)).unwrap();
    assert!(early.ca_state().next_ends.is_some());
}

/// Two starts with a wrong clock: the first began a rotation, and the second ended it. All disks and kubeconfigs that
/// trusted the old CA alone were cut off from then on.
#[test]
fn two_starts_with_a_wrong_clock_end_no_ca() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let (pki, data, _directory) = pki_at(now);
    let pem = pki.ca_pem();
    let old = certificates(&pem)[0].clone();
    for wrong in [now + years(8) + SignedDuration::from_hours(24 * 30), now + SignedDuration::from_hours(24 * 3645)] {
        Pki::open(&data, &["192.0.2.1".parse().unwrap()], wrong).unwrap();
    }
    let pki = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    assert!(takes(&pki, &old, now));
    if let Some(taken) = openssl_takes(&pki, &pem, now) {
        assert!(taken, "as OpenSSL sees it, which minds when a CA begins and ends");
    }
    // The rotation that the wrong clock began is undone.
    assert_eq!(pki.undo(now).unwrap(), Ok(UndoneRotation::Beginning));
    assert_eq!((pki.ca_state().next_ends, certificates(&pki.ca_pem()).len()), (None, 1));
    assert!(takes(&pki, &old, now));
    assert_eq!(pki.undo(now).unwrap(), Err(UndoRotationError::Nothing));
}

/// Certificates that are issued while the clock is ahead are valid when it is right again.
#[test]
fn a_certificate_that_a_clock_ahead_renewed_begins_as_before() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let (pki, data, _directory) = pki_at(now);
    let ahead = now + years(20);
    pki.renew(ahead).unwrap();
    let handed_out = certificates(&pki.ca_pem()).pop().unwrap();
    let pki = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    assert!(takes(&pki, &handed_out, now));
    let (_, read) = x509_parser::parse_x509_certificate(&handed_out).unwrap();
    assert!(read.validity().not_before.timestamp() <= now.as_second(), "{:?}", read.validity());
}

#[test]
fn an_end_is_taken_back_and_so_is_a_beginning() {
    use std::os::unix::fs::PermissionsExt as _;
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let (pki, data, _directory) = pki_at(now);
    let old = certificates(&pki.ca_pem())[0].clone();
    assert_eq!(pki.undo(now).unwrap(), Err(UndoRotationError::Nothing));
    pki.rotate(now).unwrap();
    let (begun, bundle) = (pki.ca_state(), pki.ca_pem());
    let new = certificates(&bundle)[0].clone();
    assert!(pki.finish(now).unwrap());
    assert!(!takes(&pki, &old, now) && !data.path("pki/ca.key").exists());
    assert_eq!(data.path("pki/ca.key.retired").metadata().unwrap().permissions().mode() & 0o777, 0o600);

    assert_eq!(pki.undo(now).unwrap(), Ok(UndoneRotation::End));
    assert_eq!((pki.ca_state(), pki.ca_pem()), (begun, bundle), "the overlap is as it was");
    assert!(takes(&pki, &old, now) && takes(&pki, &new, now));
    assert!(data.path("pki/ca.key").exists() && !data.path("pki/ca.key.retired").exists());
    let again = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    assert!(takes(&again, &old, now) && takes(&again, &new, now), "after a restart");

    assert_eq!(again.undo(now).unwrap(), Ok(UndoneRotation::Beginning));
    assert!(takes(&again, &old, now) && !takes(&again, &new, now));
    assert!(!data.path("pki/ca-2.key").exists(), "no client was given the new one alone");
    // The next one is another CA, with another name.
    again.rotate(now).unwrap();
    assert!(data.path("pki/ca-3.key").exists() && again.trust().bundle().past.len() == 1);
    // The next end removes the key that the last one kept.
    assert!(again.finish(now).unwrap());
    again.rotate(now).unwrap();
    assert!(again.finish(now).unwrap());
    let left = ["ca.key", "ca.key.retired", "ca-3.key", "ca-3.key.retired", "ca-4.key"];
    let left = left.map(|key| data.path(&format!("pki/{key}")).exists());
    assert_eq!(left, [false, false, false, true, true]);
    std::fs::remove_file(data.path("pki/ca-3.key.retired")).unwrap();
    let file = "pki/ca-3.key.retired".to_owned();
    assert_eq!(again.undo(now).unwrap(), Err(UndoRotationError::NoKey { file }), "an owner who removed it meant it");
}

#[test]
fn a_rotation_that_is_due_is_not_taken_back() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let (pki, _data, _directory) = pki_at(now);
    let late = now + years(9);
    pki.renew(late).unwrap();
    assert_eq!(pki.undo(late).unwrap(), Err(UndoRotationError::Due));
    assert!(pki.ca_state().next_ends.is_some());
}

/// The files of an earlier version, whose clock ended overlaps.
#[test]
fn a_ca_that_a_clock_ended_under_an_earlier_version_is_taken_back() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let (pki, data, _directory) = pki_at(now);
    let old = certificates(&pki.ca_pem())[0].clone();
    pki.rotate(now).unwrap();
    pki.finish(now).unwrap();
    // An earlier version wrote no number of a CA whose rotation was undone.
    let book: serde_json::Value = serde_json::from_str(&data.read_text("pki/authorities.json").unwrap()).unwrap();
    assert!(book["retired"].is_object() && book.get("taken_back").is_none(), "{book}");
    let upgraded = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
    assert_eq!(upgraded.undo(now).unwrap(), Ok(UndoneRotation::End));
    assert!(takes(&upgraded, &old, now));
}

/// Once the old key is gone, clients that trust only one of the two CAs cannot be served any more.
#[test]
fn a_clock_that_was_wrong_ends_no_overlap() {
    let address = ["192.0.2.1".parse().unwrap()];
    let start = Timestamp::from_second(1_800_000_000).unwrap();
    let now = start + years(8);
    // It stood still, or is ahead by more than the life of either CA.
    for wrong in [Timestamp::UNIX_EPOCH, start + years(30)] {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDir::open(directory.path()).unwrap();
        Pki::open(&data, &address, start).unwrap();
        let pki = Pki::open(&data, &address, now).unwrap();
        pki.rotate(now).unwrap();
        let both = certificates(&pki.ca_pem());
        let bundle = pki.ca_pem();
        let pki = Pki::open(&data, &address, wrong).unwrap();
        pki.renew(wrong + SignedDuration::from_hours(1)).unwrap();
        pki.renew(now).unwrap();
        assert!(pki.ca_state().next_ends.is_some(), "{wrong}: the overlap goes on");
        assert!(data.path("pki/ca.key").exists() && data.path("pki/ca-2.key").exists(), "{wrong}");
        assert!(both.iter().chain(&certificates(&pki.ca_pem())).all(|ca| takes(&pki, ca, now)), "{wrong}");
        let past = pki.trust().bundle().past;
        let known = |pem: &&str| past.iter().any(|known| known == pem);
        let pems: Vec<&str> = bundle.split_inclusive("-----END CERTIFICATE-----\n").collect();
        assert!(pems.len() == 2 && pems.iter().all(known), "{wrong}: stubs with what was replaced are known as ours");
    }
}

/// A handshake after the change shows the new certificate, although the listener was not restarted.
#[tokio::test]
async fn a_listener_takes_other_certificates_without_a_restart() {
    use tokio::net::{TcpListener, TcpStream};
    let directory = tempfile::tempdir().unwrap();
    let data = DataDir::open(directory.path()).unwrap();
    let now = Timestamp::now();
    let pki = Pki::open(&data, &["127.0.0.1".parse().unwrap()], now).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&pki.server));
    let served = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust us ends the handshake.
            drop(acceptor.accept(stream).await);
        }
    });
    let connects = async |ca: CertificateDer<'static>| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
        connector.connect("127.0.0.1".try_into().unwrap(), stream).await.is_ok()
    };
    let old = certificates(&pki.ca_pem())[0].clone();
    assert!(connects(old.clone()).await);
    pki.rotate(now).unwrap();
    let new = certificates(&pki.ca_pem())[0].clone();
    assert!(connects(old.clone()).await && connects(new.clone()).await, "both in the overlap");
    pki.finish(now).unwrap();
    assert!(connects(new).await && !connects(old).await);
    served.abort();
}
