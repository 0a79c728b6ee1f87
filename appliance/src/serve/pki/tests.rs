#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

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

/// The first start had a clock that was ahead, or had stood still: for years everybody would have refused
/// certificates that were not valid yet, or not any more.
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
        // A disk that was installed meanwhile has the old CA, whose key is the same.
        trusts(&first.ca_pem(), &data, now).unwrap();
    }
}

/// Whether a client with this CA and this clock takes the server's certificate.
fn trusts(ca_pem: &str, data: &DataDir, now: Timestamp) -> Result<(), rustls::Error> {
    use rustls::client::danger::ServerCertVerifier as _;
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate(ca_pem)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let judge =
        rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let shown = certificate(&data.read_text("pki/server.crt").unwrap());
    let at = std::time::Duration::from_secs(u64::try_from(now.as_second()).unwrap());
    let at = rustls::pki_types::UnixTime::since_unix_epoch(at);
    judge.verify_server_cert(&shown, &[], &"192.0.2.1".try_into().unwrap(), &[], at).map(drop)
}
