//! The same service behind certificates and TLS that are odd: version 1 of X.509, short keys, old cipher suites. What
//! rustls does not serve is served by Python and OpenSSL; without them a test says so and passes.

use std::net::{TcpListener as StdListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_bmc_fakes::redfish::Fake;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::json;
use tokio::net::TcpListener;

use crate::bench::{Bench, SYSTEM, fake, say, with};

/// In CI the peers' own Python, elsewhere what is there.
const PYTHONS: [&str; 2] = ["python-bmc-peers", "python3"];
/// TLS as the arguments say, in front of a port.
const PROXY: &str = r#"
import socket, ssl, sys, threading
port, behind, cert, key, ciphers, newest = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.minimum_version = ssl.TLSVersion.TLSv1_2
context.maximum_version = getattr(ssl.TLSVersion, newest)
context.set_ciphers(ciphers)
context.load_cert_chain(cert, key)
def pump(source, sink):
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
def serve(plain):
    try:
        outer = context.wrap_socket(plain, server_side=True)
        inner = socket.create_connection(("127.0.0.1", int(behind)))
    except OSError:
        plain.close()
        return
    threading.Thread(target=pump, args=(outer, inner), daemon=True).start()
    pump(inner, outer)
listener = socket.create_server(("127.0.0.1", int(port)))
while True:
    plain, _ = listener.accept()
    threading.Thread(target=serve, args=(plain,), daemon=True).start()
"#;

#[derive(Debug)]
struct One(Arc<CertifiedKey>);

impl ResolvesServerCert for One {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// A value in DER.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let head = if content.len() < 0x80 { vec![tag, length[1]] } else { vec![tag, 0x82, length[0], length[1]] };
    [head, content].concat()
}

/// A certificate of X.509 version 1 that ended years ago and names no host, and its key in PKCS #8.
fn version_1() -> (Vec<u8>, Vec<u8>) {
    const SEQUENCE: u8 = 0x30;
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).unwrap();
    let ecdsa_with_sha256 = der(SEQUENCE, &[&[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]]);
    let curve: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    let key = der(SEQUENCE, &[&der(SEQUENCE, &[curve]), &der(3, &[&[0], pair.public_key().as_ref()])]);
    let validity = der(SEQUENCE, &[&der(0x17, &[b"010101000000Z"]), &der(0x17, &[b"020101000000Z"])]);
    let name = der(SEQUENCE, &[]);
    let signed = der(SEQUENCE, &[&[2, 1, 1], &ecdsa_with_sha256, &name, &validity, &name, &key]);
    let signature = pair.sign(&random, &signed).unwrap();
    let certificate = der(SEQUENCE, &[&signed, &ecdsa_with_sha256, &der(3, &[&[0], signature.as_ref()])]);
    (certificate, pkcs8.as_ref().to_vec())
}

#[test]
fn bmc_certificate_x509v1() {
    with(|bench| {
        let (certificate, key) = version_1();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
        let certified = CertifiedKey::new(vec![CertificateDer::from(certificate)], key);
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(One(Arc::new(certified))));
        let service = fake(&json!({}));
        let address = serve(bench, service.clone(), config);
        bench.add("c05", &format!("redfish://{address}{SYSTEM}"));
        let got = bench.is_driven("c05", &service);
        say("bmc-certificate-x509v1", "on, with a certificate of version 1 that has ended", &got);
        let advice = json!({"bmc": {"address": format!("redfish://{address}{SYSTEM}"), "credentialsName": "v-bmc"},
            "bootMACAddress": "52:54:00:77:05:01"});
        bench.add_with("v", "redfish://192.0.2.1", &advice);
        let error = bench.error("v");
        assert!(error.contains("set bmc.disableCertificateVerification"), "{error}");
        say("bmc-certificate-x509v1, verified", "refused, with the advice", &error);
    });
}

/// Answers behind TLS; where.
fn serve(bench: &Bench, service: Fake, config: ServerConfig) -> String {
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = bench.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    bench.runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (service, acceptor) = (service.clone(), acceptor.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    service.converse(stream).await;
                }
            });
        }
    });
    address
}

/// Python's TLS in front of a service, with a certificate of OpenSSL; ends with the value.
struct Old {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Old {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Old {
    /// `None` where there is no OpenSSL or Python.
    fn start(bench: &Bench, service: Fake, bits: u32, ciphers: &str, newest: &str) -> Option<Self> {
        let runs = |program: &str, argument: &str| {
            Command::new(program)
                .arg(argument)
                .stdin(Stdio::null())
                .output()
                .is_ok_and(|output| output.status.success())
        };
        let python = PYTHONS.into_iter().find(|python| runs(python, "--version"));
        let Some(python) = python.filter(|_| runs("openssl", "version")) else {
            println!("skipped: no openssl or Python here");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (cert, key) = (path("cert.pem"), path("key.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-newkey", &format!("rsa:{bits}"), "-subj", "/CN=IPMI", "-days", "1"])
            .args(["-keyout", &key, "-out", &cert])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let listener = bench.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let behind = listener.local_addr().unwrap().port();
        bench.runtime.spawn(service.serve(listener));
        // Free a moment ago, and no other program is in this namespace.
        let port = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(python)
            .args(["-c", PROXY, &port.to_string(), &behind.to_string(), &cert, &key, ciphers, newest])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let old = Self { child, port, _folder: folder };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(300), "Python does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(old)
    }
}

#[test]
fn bmc_certificate_with_a_short_key() {
    with(|bench| {
        for (newest, mac) in [("TLSv1_2", "52:54:00:77:05:02"), ("TLSv1_3", "52:54:00:77:05:03")] {
            let service = fake(&json!({}));
            let old = Old::start(bench, service.clone(), 1024, "DEFAULT:@SECLEVEL=0", newest);
            let Some(old) = old else { return };
            let name = newest.to_ascii_lowercase().replace('_', "-");
            let address = format!("redfish://127.0.0.1:{}{SYSTEM}", old.port);
            bench.add_with(&name, &address, &json!({"bootMACAddress": mac}));
            let got = bench.is_driven(&name, &service);
            say("bmc-certificate-x509v1, RSA-1024", &format!("on by {newest}"), &got);
        }
    });
}

#[test]
fn bmc_tls_rsa_key_exchange() {
    with(|bench| {
        let ciphers = "AES256-GCM-SHA384:AES128-GCM-SHA256:@SECLEVEL=0";
        let Some(old) = Old::start(bench, fake(&json!({})), 2048, ciphers, "TLSv1_2") else { return };
        bench.add("c04", &format!("redfish://127.0.0.1:{}{SYSTEM}", old.port));
        let error = bench.error("c04");
        let suites = "TLS 1.2 with the cipher suites TLS_RSA_WITH_AES_256_GCM_SHA384, TLS_RSA_WITH_AES_128_GCM_SHA256";
        assert!(error.contains(suites) && error.contains("no longer supported"), "{error}");
        assert!(!error.contains("disableCertificateVerification"), "{error}");
        say("bmc-tls-rsa-key-exchange", "what the BMC offers, and no advice to set what is set", &error);
    });
}
