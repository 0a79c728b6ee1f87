#![allow(clippy::unwrap_used, reason = "tests")]
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const SECRET: &str = "k9?Z/ä\"q7&w";

fn found_of(secret: &str, text: &str) -> Vec<String> {
    let forms = SecretForms::new().unwrap();
    let search = SecretSearch::new(&BTreeSet::from([secret.as_bytes().to_vec()])).unwrap();
    let ranges = search.find(&forms, &UnpackBudget::default(), text.as_bytes());
    ranges.into_iter().map(|range| text[range].to_owned()).collect()
}

fn found(text: &str) -> Vec<String> {
    found_of(SECRET, text)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn a_value_is_found_in_each_encoding_and_what_is_around_it_stays() {
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let escaped = format!("{SECRET:?}");
    for encoded in [
        SECRET.to_owned(),
        json(SECRET),
        json(&json(SECRET)),
        json(&json(&json(SECRET))),
        SECRET.replace('ä', "\\u00e4"),
        escaped.trim_matches('"').to_owned(),
        percent(SECRET),
        percent(SECRET).to_lowercase(),
        hex(SECRET),
        hex(SECRET).to_uppercase(),
        STANDARD.encode(SECRET),
        URL_SAFE_NO_PAD.encode(SECRET),
        STANDARD.encode(STANDARD.encode(SECRET)),
        STANDARD.encode(json(SECRET)),
        json(&percent(SECRET)),
    ] {
        let text = format!("before <{encoded}> behind");
        assert_eq!(found(&text), [encoded.clone()], "{text}");
    }
}

#[test]
fn a_value_is_found_inside_of_a_longer_text_that_was_encoded() {
    for before in ["", "a", "ab", "abc"] {
        let whole = format!("{before}{SECRET} and more");
        for text in [STANDARD.encode(&whole), STANDARD.encode(STANDARD.encode(&whole))] {
            assert_eq!(found(&format!("x: {text}")), [text]);
        }
    }
    let packed = STANDARD.encode(gzip(format!("a: {SECRET}\n").as_bytes()));
    assert_eq!(found(&format!("\"{packed}\"")), [packed]);
    let key = "-----BEGIN PRIVATE KEY-----\nMHc=\n-----END PRIVATE KEY-----\n";
    assert_eq!(found(&STANDARD.encode(key)), [STANDARD.encode(key)], "a form that was encoded");
}

#[test]
fn other_texts_are_not_touched() {
    for text in [
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "a 100% full disk with \\ and \\q and %zz",
        "/var/lib/firesteel/images/0123456789abcdef",
        "",
    ] {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }
}

/// The sign of the padding was a letter: the name before it was decoded with the value, and shifted it.
#[test]
fn a_name_before_an_encoded_text_does_not_hide_it() {
    let key = "-----BEGIN PRIVATE KEY-----\nMHc=\n-----END PRIVATE KEY-----\n";
    let packed = STANDARD.encode(gzip(format!("a: {SECRET}\n").as_bytes()));
    for name in ["userdata=", "a=", "contents=", "ab/cd="] {
        for encoded in [packed.clone(), STANDARD.encode(key), STANDARD.encode(SECRET)] {
            assert_eq!(found(&format!("x {name}{encoded} y")), [encoded], "{name}");
        }
    }
    for path in ["a/", "ab/", "abc/", "files-"] {
        let joined = format!("{path}{packed}");
        assert_eq!(found(&joined), [joined.clone()], "letters of base64 before it");
        let joined = format!("{path}{}", STANDARD.encode(key));
        assert_eq!(found(&joined), [joined.clone()], "letters of base64 before it");
    }
}

#[test]
fn a_value_is_found_in_other_spellings() {
    let secret = "Two words+99";
    let hex = |sign: &str| secret.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(sign);
    for spelled in [
        "TWO WORDS+99".to_owned(),
        "two words+99".to_owned(),
        "Two+words%2B99".to_owned(),
        hex(":"),
        hex(" "),
        hex("-").to_uppercase(),
    ] {
        assert_eq!(found_of(secret, &format!("it is <{spelled}>.")), [spelled.clone()], "{spelled}");
    }
    let long = STANDARD.encode(format!("{}{SECRET}{}", "x".repeat(52), "y".repeat(40)));
    for end in ["\n", "\r\n", "\n    "] {
        let lines: Vec<&str> = long.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let wrapped = lines.join(end);
        assert_eq!(found(&format!("x: {wrapped}\nb")), [wrapped.clone()], "over the end of a line");
        let escaped = json(&wrapped);
        assert_eq!(found(&format!("x: {escaped} b")), [escaped.clone()], "escaped line ends");
    }
}

/// Both kinds were undone in one pass: `%41` of this value became `A`, and then it was another one.
#[test]
fn each_kind_of_escape_is_undone_by_itself() {
    let secret = "a\"b%41c99";
    for spelled in
        [format!("{secret:?}").trim_matches('"').to_owned(), json(secret), percent(secret), secret.to_owned()]
    {
        assert_eq!(found_of(secret, &format!("it is <{spelled}>.")), [spelled.clone()], "{spelled}");
    }
}

#[test]
fn what_cannot_be_unpacked_to_its_end_counts_as_a_secret() {
    let large = STANDARD.encode(gzip(&vec![b'x'; UNPACKED_BYTES_MAX + 1]));
    assert_eq!(found(&large), [large.clone()], "it may go on with anything");
    let fits = STANDARD.encode(gzip(&vec![b'x'; UNPACKED_BYTES_MAX - 1]));
    assert_eq!(found(&fits), Vec::<String>::new());
    let deep = (0..4).fold(SECRET.to_owned(), |inner, _| STANDARD.encode(gzip(inner.as_bytes())));
    assert_eq!(found(&deep), [deep.clone()], "a stream in a stream in a stream");

    let forms = SecretForms::new().unwrap();
    let search = SecretSearch::new(&BTreeSet::from([SECRET.as_bytes().to_vec()])).unwrap();
    let budget = UnpackBudget(Cell::new(1));
    assert!(search.find(&forms, &budget, fits.as_bytes()).is_empty());
    assert_eq!(search.find(&forms, &budget, fits.as_bytes()), [0..fits.len()], "the budget is spent");
}

#[test]
fn the_beginning_of_a_value_before_a_cut_is_found() {
    let secret = "hunter22-longer";
    for (text, expected) in [
        ("it was hunter22-lo…", &["hunter22-lo"][..]),
        ("it was HUNTER… and more", &["HUNTER"]),
        ("it was hunter22\u{fffd}…", &["hunter22\u{fffd}"]),
        ("it was hunte… and more", &[]),
        ("it was unter22… and more", &[]),
    ] {
        assert_eq!(found_of(secret, text), expected, "{text}");
    }
    let many = "…".repeat(CUTS_MAX + 1);
    assert_eq!(found_of(secret, &many), ["…"], "what is behind the bound counts as a secret");
}

#[test]
fn values_over_ends_of_lines_are_found_in_the_whole_text() {
    let forms = SecretForms::new().unwrap();
    let values = BTreeSet::from([b"correct\nhorse99".to_vec(), b"hunter22".to_vec()]);
    let search = SecretSearch::new(&values).unwrap();
    let text = b"a hunter22 correct\nhorse99 b";
    assert_eq!(search.find_across_lines(&forms, &UnpackBudget::default(), text), [11..26]);
}

#[test]
fn too_many_values_are_refused() {
    let long = BTreeSet::from([vec![b'x'; VALUES_BYTES_MAX + 1]]);
    let error = SecretSearch::new(&long).err().unwrap().to_string();
    assert_eq!(
        error,
        "could not make a bundle: Secrets and configs hold too many values, and at most 200000 of 8388608 bytes together \
         are looked for; delete Secrets and MachineConfigs that are not used any more"
    );
}
