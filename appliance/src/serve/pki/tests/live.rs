//! Certificates of a server that runs: renewed in time, and for the address that its network has now.

use super::*;

/// It is looked at each hour, and a certificate ends at the beginning of a day: a look that was early enough by the record
/// alone would leave less.
#[test]
fn a_certificate_is_renewed_at_least_thirty_days_before_its_end_by_the_same_key() {
    for second_of_the_day in [0, 3_601, 43_200, 86_399] {
        let now = Timestamp::from_second(1_800_057_600 + second_of_the_day).unwrap();
        let (pki, _, _folder) = pki_at(now);
        let (pin, end) = (pki.pin_sha256.clone(), pki.ends().unwrap()[0].1);
        let last_look = end - SignedDuration::from_hours(30 * 24) - SignedDuration::from_mins(59);
        pki.renew(last_look - SignedDuration::from_hours(5 * 24)).unwrap();
        assert_eq!(pki.ends().unwrap()[0].1, end, "it is not renewed all the time");
        pki.renew(last_look).unwrap();
        assert!(pki.ends().unwrap()[0].1 > end, "{second_of_the_day}: the next look would come too late");
        assert_eq!(pki.pin_sha256, pin, "agents that run pin the key");
    }
}

/// The provisioning address is edited while agents run: what they have open goes on, they connect again by the pinned key,
/// and a client that knows the CA alone is served at the address that there is now.
#[tokio::test]
async fn the_certificate_names_the_address_of_the_network_while_it_is_served() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    stream.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificates(&pki.ca_pem())[0].clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A session that is resumed shows no certificate.
    client.resumption = rustls::client::Resumption::disabled();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let connect = async |name: &'static str| {
        let stream = TcpStream::connect(address).await.unwrap();
        connector.connect(name.try_into().unwrap(), stream).await
    };
    let pin = |stream: &tokio_rustls::client::TlsStream<TcpStream>| {
        let leaf = &stream.get_ref().1.peer_certificates().unwrap()[0];
        let (_, leaf) = x509_parser::parse_x509_certificate(leaf).unwrap();
        hex::encode(digest::digest(&digest::SHA256, leaf.public_key().raw))
    };
    assert!(connect("192.0.2.1").await.is_err(), "it is not served yet");
    pki.set_network_address(Some("192.0.2.1".parse().unwrap()), now).unwrap();
    let mut agent = connect("192.0.2.1").await.unwrap();
    pki.set_network_address(Some("192.0.2.2".parse().unwrap()), now).unwrap();
    agent.write_all(b"x").await.unwrap();
    assert_eq!(agent.read_u8().await.unwrap(), b'x', "what is open goes on");
    let again = connect("192.0.2.2").await.unwrap();
    assert_eq!((pin(&agent), pin(&again)), (pki.pin_sha256.clone(), pki.pin_sha256.clone()));
    assert!(connect("192.0.2.1").await.is_err() && connect("127.0.0.1").await.is_ok());
    // A renewal keeps it, and the end of the network takes it away.
    pki.renew(now).unwrap();
    assert!(connect("192.0.2.2").await.is_ok());
    pki.set_network_address(None, now).unwrap();
    assert!(connect("192.0.2.2").await.is_err() && connect("127.0.0.1").await.is_ok());
    served.abort();
}
