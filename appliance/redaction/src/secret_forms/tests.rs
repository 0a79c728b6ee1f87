#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

fn clean(text: &str) -> String {
    let mut found = SecretForms::new().unwrap().find(text.as_bytes());
    found.sort_by_key(|form| (form.range.start, form.range.end));
    let (mut clean, mut end) = (String::new(), 0);
    for FoundForm { range, .. } in found {
        if range.start >= end {
            clean += &text[end..range.start];
            clean += REMOVED;
        }
        end = end.max(range.end);
    }
    clean + &text[end..]
}

#[test]
fn each_form_of_a_secret_is_removed_and_what_is_around_it_stays() {
    for (text, expected) in [
        ("redfish://admin:pa55@10.0.0.1/x", "redfish://(removed)@10.0.0.1/x"),
        ("redfish://admin:p@55@10.0.0.1/x", "redfish://(removed)@10.0.0.1/x"),
        ("https://m.example/a.qcow2?sig=AbC&x=1 ok", "https://m.example/a.qcow2?(removed) ok"),
        ("https://m.example/a#frag", "https://m.example/a#(removed)"),
        ("GET /config/worker?token=abc 200", "GET /config/worker?(removed) 200"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: (removed)"),
        ("authorization=\"Basic YWRtaW46cGFzcw==\" x", "authorization=\"(removed)\" x"),
        ("Set-Cookie: a=b; Path=/", "Set-Cookie: (removed)"),
        ("sent bearer abcdefghijkl to it", "sent bearer (removed) to it"),
        ("sent Basic YWRtaW46cGFzcw== to it", "sent Basic (removed) to it"),
        (r#"bmcPassword: "two words" and"#, r#"bmcPassword: "(removed)" and"#),
        (r#"{\"password\":\"two words\",\"a\":1}"#, r#"{\"password\":\"(removed)\",\"a\":1}"#),
        ("--metrics-token=abcd1234 --log info", "--metrics-token=(removed) --log info"),
        ("error: token=abc", "error: token=(removed)"),
        ("FIRESTEEL_REPORT_TOKEN=abcdef\n", "FIRESTEEL_REPORT_TOKEN=(removed)\n"),
        ("client-key-data: LS0tLS1CRUdJ\n", "client-key-data: (removed)\n"),
        ("got eyJhbGciOiJI.eyJzdWIiOiIx.c2ln today", "got (removed) today"),
        ("root:$6$rounds=5000$abcdefgh$ijklmnop:1", "root:(removed):1"),
        ("$2y$10$abcdefghijklmnopqrstuv", "(removed)"),
        ("source: data:text/plain;base64,aGFsbG8=\n", "source: data:text/plain;base64,(removed)\n"),
        ("join abcdef.0123456789abcdef now", "join (removed) now"),
    ] {
        assert_eq!(clean(text), expected, "{text}");
        assert_eq!(clean(expected), expected, "a clean text stays");
    }
    let key = "a\n-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI\n-----END EC PRIVATE KEY-----\nb";
    assert_eq!(clean(key), "a\n(removed)\nb");
    let two = format!("{}\n-----BEGIN PRIVATE KEY-----\nMHcCAQEEI", &key[2..key.len() - 2]);
    assert_eq!(clean(&two), "(removed)\n(removed)", "a key that is cut behind a whole one");
    let cut = "\"-----BEGIN PRIVATE KEY-----\\nMHcCAQEEI\\nAAAA\" b";
    assert_eq!(clean(cut), "\"(removed)\" b");
}

/// Lists, objects, blocks and options with a space were seen as nothing, or lost their first sign alone.
#[test]
fn values_of_more_than_a_word_are_removed_as_a_whole() {
    for (text, expected) in [
        (r#"{"tokens":["abcdef","x"],"a":1}"#, r#"{"tokens":["(removed)"],"a":1}"#),
        (r#""password":{"value":"x"},"a":1"#, r#""password":(removed),"a":1"#),
        (r#"{"secret":{"name":"a","password":"x"}}"#, r#"{"secret":{"name":"a","password":"(removed)"}}"#),
        ("password: |\n  hunter22\n\n  second\nb: 1", "password: (removed)\nb: 1"),
        (r"password: |\n  hunter22", "password: (removed)"),
        ("passwords:\n- abc\n- def\nb: 1", "passwords:\n(removed)\nb: 1"),
        ("password:\n  value: x\nb: 1", "password:\n  (removed)\nb: 1"),
        (r#"{"X-Auth-Token":["abc"]}"#, r#"{"X-Auth-Token":["(removed)"]}"#),
        (r#"{"Cookie":"SESSION=abc"}"#, r#"{"Cookie":"(removed)"}"#),
        ("Cookie: a=\"bcd\"; e=f", "Cookie: (removed)"),
        ("run --password hunter22 --verbose", "run --password (removed) --verbose"),
        ("run --bmc-password 'two words' x", "run --bmc-password '(removed)' x"),
        ("ipmitool -H 10.0.0.1 -U a -P x power", "ipmitool -H 10.0.0.1 -U a -P (removed) power"),
        ("curl -k -u a:b https://x", "curl -k -u (removed) https://x"),
        ("pwd=abc", "pwd=(removed)"),
        ("credentialsName: password=abc", "credentialsName: password=(removed)"),
        ("password_sha256=abc", "password_sha256=(removed)"),
        ("x\nMIIEow\n-----END RSA PRIVATE KEY-----\nb", "(removed)\nb"),
        ("it was: MIIEow\\nAAAA\\n-----END PRIVATE KEY-----\\n", "it was: (removed)\\n"),
    ] {
        assert_eq!(clean(text), expected, "{text}");
        assert_eq!(clean(expected), expected, "a clean text stays");
    }
}

#[test]
fn what_is_no_secret_stays() {
    for text in [
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "https://mirror.example/rhcos.raw.zst",
        "52:54:00:12:34:56 10.77.0.1:8443",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "credentialsName: bmc-7, secretName: x, token_type=abc, tokenCount: 5",
        "it is driven by Basic authentication",
        "what is it? nothing",
        "firesteel_credentials_missing_total{host=\"a\"} 1",
        "run --token-file /etc/token, or curl -k https://x",
        "password: \"\"",
    ] {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn user_data_and_fields_are_found_in_what_was_encoded() {
    let forms = SecretForms::new().unwrap();
    for text in ["#cloud-config\na: b", "{\"password\":\"x\"}", "MIME-Version: 1.0\n\n", "#!/bin/sh\necho x"] {
        assert!(forms.are_in_decoded(text.as_bytes()), "{text}");
    }
    for text in ["a plain text", "#!", "{\"secretName\":\"x\"}"] {
        assert!(!forms.are_in_decoded(text.as_bytes()), "{text}");
    }
    let key = b"\xf3-----BEGIN PRIVATE KEY-----\nMHc=\n-----END PRIVATE KEY-----\n";
    assert!(forms.are_in_decoded(key), "behind the bytes of a name");
}

#[test]
fn many_names_of_references_are_read_in_bounded_time() {
    let forms = SecretForms::new().unwrap();
    let text = "tokenName: - ".repeat(20_000);
    assert!(!forms.find(text.as_bytes()).is_empty(), "what is behind the bound counts as a secret");
}
