use super::{authority, endpoint};
use crate::fixtures::{assert_valid, authority_of, certificate, json, stub};
use crate::stub::managed_stub::{CONFIG_PORT, Endpoint, MakeError, StubSpec, managed};
use crate::{PemError, StubAuthority};

/// S1.18
#[test]
fn stubs_are_upstreams_for_names_and_both_families() {
    let cases = [
        ("v3-worker-dns.json", "api-int.cluster.example.com", "worker", StubSpec::V3_2),
        ("v3-master-vip-ipv4.json", "192.0.2.10", "master", StubSpec::V3_2),
        ("v3-worker-vip-ipv6.json", "2001:db8::10", "worker", StubSpec::V3_2),
        ("v3-worker-vip-ipv6.json", "[2001:db8:0:0::10]", "worker", StubSpec::V3_2),
        ("v2-worker.json", "API-INT.cluster.example.com", "worker", StubSpec::V2_2),
    ];
    for (name, host, pool, spec) in cases {
        let Some(wanted) = stub(name) else { return };
        let made = managed(pool, &endpoint(host), &authority(&authority_of(&wanted)), spec).unwrap();
        assert_eq!(json(made.as_bytes()), json(&wanted), "{name}");
    }
}

#[test]
fn a_managed_stub_has_upstreams_bytes() {
    for (name, host, spec) in [
        ("secret.worker-user-data-managed.v3.json", "192.0.2.10", StubSpec::V3_2),
        ("secret.worker-user-data.v2.json", "api-int.cluster.example.com", StubSpec::V2_2),
    ] {
        let Some(secret) = stub(name) else { return };
        let data = json(&secret)["data"]["userData"].as_str().unwrap().to_owned();
        let wanted = crate::data_url::decode(&format!("data:;base64,{data}")).unwrap();
        let made = managed("worker", &endpoint(host), &authority(&authority_of(&wanted)), spec).unwrap();
        assert_eq!(made.as_bytes(), wanted, "{name}");
    }
}

#[test]
fn what_is_made_is_valid() {
    for host in ["config.example", "192.0.2.1", "fd00::1"] {
        let made = managed("web.1", &endpoint(host), &authority(&certificate("a")), StubSpec::V3_2).unwrap();
        assert_valid(&json(made.as_bytes()));
    }
}

#[test]
fn hosts_and_pools_cannot_break_out_of_the_url() {
    let hosts =
        ["", "a/b", "a:1", "https://a", "a b", "a\"", "-a", "a..b", "[192.0.2.1]", "[a]", "1.2.3.4.5", "fe80::1%1"];
    for host in hosts {
        assert_eq!(Endpoint::new(host, CONFIG_PORT), Err(MakeError::Host), "{host}");
    }
    for pool in ["", "a/b", "..", "a\"b", "A", "a?b", "ä"] {
        let made = managed(pool, &endpoint("a.example"), &authority(&certificate("a")), StubSpec::V3_2);
        assert_eq!(made, Err(MakeError::Pool), "{pool}");
    }
}

#[test]
fn an_authority_is_certificates_and_nothing_else() {
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let bundle = format!("# a comment\n{}{}", certificate("new"), certificate("old"));
    assert_eq!(authority(&bundle).bundle(), bundle, "it goes into stubs as it is");
    assert_eq!(StubAuthority::new("", &[]), Err(PemError::Empty));
    assert_eq!(StubAuthority::new(&format!("{}{key}", certificate("a")), &[]), Err(PemError::Other));
    assert_eq!(
        StubAuthority::new("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &[]),
        Err(PemError::Damaged)
    );
    assert_eq!(StubAuthority::new(&certificate("a")[..50], &[]), Err(PemError::Damaged));
    assert_eq!(StubAuthority::new(&certificate("a").repeat(1000), &[]), Err(PemError::Many));
}
