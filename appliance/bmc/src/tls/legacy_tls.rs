//! What a BMC offers whose TLS has nothing in common with ours, so that its owner knows what is too old.
//!
//! It is asked with hellos as clients sent them years ago (RFC 5246, section 7.4.1.2), and each connection ends with
//! its answer: no secret is sent, and nothing that is agreed on is used. First with what we take, as a BMC that
//! takes that is not too old; then with what we do not take, leaving out what it has picked already.

use std::time::Duration;

use firesteel_dial::Dialer;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use url::Url;

/// One connection, to its answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Suites that are asked for, each by a connection of its own: enough to know them by.
const NAMED_MAX: usize = 4;
/// A server's hello up to its cipher suite: longer ones only have a longer session identifier.
const HELLO_BYTES_MIN: usize = 4 + 2 + 32 + 1 + 2;
const SESSION_ID_BYTES_MAX: usize = 32;

/// Suites with which we speak TLS 1.2 as well.
const OURS: &[u16] = &[0xc02c, 0xc02b, 0xc030, 0xc02f, 0xcca9, 0xcca8];

/// Suites that are no longer supported, strongest first (IANA's TLS registry).
const OLD: &[(u16, &str)] = &[
    (0xc024, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
    (0xc023, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    (0xc028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
    (0xc027, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    (0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    (0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    (0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    (0x009f, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0x009e, "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0x006b, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0067, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0x0039, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA"),
    (0x0033, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA"),
    (0x009d, "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    (0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    (0x003d, "TLS_RSA_WITH_AES_256_CBC_SHA256"),
    (0x003c, "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    (0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA"),
    (0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA"),
    (0x0084, "TLS_RSA_WITH_CAMELLIA_256_CBC_SHA"),
    (0x0041, "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA"),
    (0xc012, "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x0016, "TLS_DHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x000a, "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x0005, "TLS_RSA_WITH_RC4_128_SHA"),
    (0x0004, "TLS_RSA_WITH_RC4_128_MD5"),
];

/// Groups, formats and signatures that a server may insist on: `supported_groups`, `ec_point_formats`,
/// `signature_algorithms`. An address or a name of the server is not sent: who needs one shows another certificate.
const EXTENSIONS: &[(u16, &[u8])] = &[
    (10, &[0, 8, 0, 0x17, 0, 0x18, 0, 0x19, 0, 0x1d]),
    (11, &[1, 0]),
    (13, &[0, 20, 4, 1, 5, 1, 6, 1, 4, 3, 5, 3, 6, 3, 8, 4, 8, 5, 2, 1, 2, 3]),
];

/// The version and suite that a server picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NegotiatedSuite {
    version: u16,
    suite: u16,
}

/// What the BMC picks of what is too old, in words. `None`: it picks nothing of that, or is not too old.
pub(super) async fn offer(dialer: &Dialer, origin: &Url) -> Option<String> {
    let host = origin.host_str()?.trim_matches(['[', ']']).to_owned();
    let port = origin.port_or_known_default()?;
    if ask(dialer, &host, port, OURS).await.is_some() {
        return None;
    }
    let mut suites: Vec<u16> = OLD.iter().map(|(suite, _)| *suite).collect();
    let mut picked: Vec<NegotiatedSuite> = Vec::new();
    while picked.len() < NAMED_MAX
        && let Some(next) = ask(dialer, &host, port, &suites).await
        && suites.contains(&next.suite)
    {
        suites.retain(|suite| *suite != next.suite);
        picked.push(next);
    }
    in_words(&picked)
}

fn in_words(picked: &[NegotiatedSuite]) -> Option<String> {
    let first = picked.first()?;
    let version = match first.version {
        0x0300 => "SSL 3.0",
        0x0301 => "TLS 1.0",
        0x0302 => "TLS 1.1",
        _ => "TLS 1.2",
    };
    let name = |picked: &NegotiatedSuite| OLD.iter().find(|(suite, _)| *suite == picked.suite).map(|(_, name)| *name);
    let names: Vec<&str> = picked.iter().filter_map(name).collect();
    let more = if picked.len() == NAMED_MAX { " and perhaps others like these" } else { "" };
    Some(format!("{version} with the cipher suites {}{more}", names.join(", ")))
}

async fn ask(dialer: &Dialer, host: &str, port: u16, suites: &[u16]) -> Option<NegotiatedSuite> {
    let mut random = [0; 32];
    SystemRandom::new().fill(&mut random).ok()?;
    let hello = hello(suites, &random)?;
    let answer = timeout(PATIENCE, async {
        let mut stream = dialer.connect(host, port, PATIENCE).await.ok()?;
        stream.write_all(&hello).await.ok()?;
        let mut header = [0; 5];
        stream.read_exact(&mut header).await.ok()?;
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let mut body = vec![0; length.min(HELLO_BYTES_MIN + SESSION_ID_BYTES_MAX)];
        stream.read_exact(&mut body).await.ok()?;
        Some((header[0], body))
    });
    let (kind, body) = answer.await.ok().flatten()?;
    picked(kind, &body)
}

/// Reads the picked suite from a record's type and the beginning of its content.
fn picked(kind: u8, body: &[u8]) -> Option<NegotiatedSuite> {
    const HANDSHAKE: u8 = 22;
    const SERVER_HELLO: u8 = 2;
    if kind != HANDSHAKE || body.first() != Some(&SERVER_HELLO) {
        return None;
    }
    let two = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
    let session_id = usize::from(*body.get(38)?);
    Some(NegotiatedSuite { version: two(4)?, suite: two(39 + session_id)? })
}

/// A client's hello in its record. It fits 16 bits however many suites of the table it has.
fn hello(suites: &[u16], random: &[u8; 32]) -> Option<Vec<u8>> {
    let with_length = |bytes: Vec<u8>| -> Option<Vec<u8>> {
        let length = u16::try_from(bytes.len()).ok()?;
        Some([length.to_be_bytes().as_slice(), &bytes].concat())
    };
    let suites: Vec<u8> = suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
    let mut extensions = Vec::new();
    for (name, content) in EXTENSIONS {
        extensions.extend_from_slice(&name.to_be_bytes());
        extensions.extend(with_length(content.to_vec())?);
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(random);
    // No session, the suites, no compression.
    body.push(0);
    body.extend(with_length(suites)?);
    body.extend_from_slice(&[1, 0]);
    body.extend(with_length(extensions)?);
    // The type of the handshake, and a length of three bytes.
    let message = [&[1, 0], with_length(body)?.as_slice()].concat();
    Some([&[22, 3, 1], with_length(message)?.as_slice()].concat())
}

/// Reads `bytes` as a handshake: an entry for fuzzing.
pub(super) fn check(bytes: &[u8]) {
    drop(picked(22, bytes).map(|picked| in_words(&[picked])));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_as_long_as_it_says() {
        let hello = hello(&[0x009d, 0x009c], &[7; 32]).unwrap();
        let length = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
        assert_eq!((hello[0], length(3)), (22, hello.len() - 5));
        assert_eq!((hello[5], hello[6], length(7)), (1, 0, hello.len() - 9));
        assert_eq!(&hello[44..50], &[0, 4, 0, 0x9d, 0, 0x9c]);
    }

    #[test]
    fn a_servers_hello_is_read_and_nothing_else_is() {
        let mut body = vec![2, 0, 0, 70, 3, 2];
        body.extend([9; 32]);
        body.push(4);
        body.extend([1, 2, 3, 4, 0x00, 0x35, 0]);
        assert_eq!(picked(22, &body), Some(NegotiatedSuite { version: 0x0302, suite: 0x35 }));
        assert_eq!(picked(21, &[2, 40]), None, "an alert");
        for end in 0..body.len() - 1 {
            assert_eq!(picked(22, &body[..end]), None, "{end}");
        }
        body[38] = 255;
        assert_eq!(picked(22, &body), None);
    }

    #[test]
    fn what_is_offered_is_named() {
        let of = |suite| NegotiatedSuite { version: 0x0303, suite };
        assert_eq!(
            in_words(&[of(0x009d), of(0x009c)]).as_deref(),
            Some("TLS 1.2 with the cipher suites TLS_RSA_WITH_AES_256_GCM_SHA384, TLS_RSA_WITH_AES_128_GCM_SHA256")
        );
        assert!(in_words(&[of(0x0035); NAMED_MAX]).unwrap().ends_with(" and perhaps others like these"));
        assert_eq!(in_words(&[]), None);
        for (at, (suite, name)) in OLD.iter().enumerate() {
            assert!(!OURS.contains(suite) && name.starts_with("TLS_"), "{name}");
            assert!(OLD[..at].iter().all(|(other, _)| other != suite), "{name} is there twice");
        }
    }
}
