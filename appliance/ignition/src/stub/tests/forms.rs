use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use crate::CONFIG_BYTES_MAX;
use crate::fixtures::{json, stub};
use crate::stub::form::{
    Base64Layout, NotIgnition, ParsedUserData, USER_DATA_BYTES_MAX, UserDataError, UserDataForm, for_cloud_init, read,
    write,
};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const JSON: &str = "{\"ignition\": {\"version\": \"3.2.0\"}}\n";

#[test]
fn every_form_is_read_and_written_back() {
    let lines = |width, ended| Some(Base64Layout { width, ended });
    for gzip in [false, true] {
        for base64 in [None, lines(None, false), lines(None, true), lines(Some(76), true)] {
            let form = UserDataForm { gzip, base64 };
            // Long enough for several lines.
            let text = format!("{{\"x\": \"{}\"}}", "3.2.0 ".repeat(if gzip { 1 } else { 40 }));
            let packed = write(&text, form);
            let ParsedUserData::Json { text: again, form: found } = read(&packed).unwrap() else { panic!("{form:?}") };
            assert_eq!(again, text);
            assert_eq!(found.gzip, gzip);
            assert_eq!(write(&again, found), packed, "{form:?}");
        }
    }
}

#[test]
fn upstreams_forms_are_read() {
    let names = ["v3-worker-dns.json", "v3-worker-dns.json.gz", "v3-worker-dns.json.gz.b64"];
    let Some(forms) = names.iter().map(|name| stub(name)).collect::<Option<Vec<_>>>() else { return };
    for (name, bytes) in names.iter().zip(&forms) {
        let ParsedUserData::Json { text, form } = read(bytes).unwrap() else { panic!("{name}") };
        assert_eq!(json(text.as_bytes()), json(&forms[0]), "{name}");
        assert_eq!((form.gzip, form.base64.is_some()), (name.contains(".gz"), name.ends_with("b64")), "{name}");
    }
}

#[test]
fn what_is_for_cloud_init_is_told_apart() {
    let cases = [
        ("#cloud-config\nhostname: a\n", NotIgnition::CloudConfig),
        ("#cloud-config-archive\n- a\n", NotIgnition::CloudConfig),
        ("#!/bin/sh\necho\n", NotIgnition::Script),
        ("Content-Type: multipart/mixed; boundary=\"x\"\nMIME-Version: 1.0\n\n--x", NotIgnition::Multipart),
        ("MIME-Version: 1.0\nContent-Type: multipart/mixed\n", NotIgnition::Multipart),
        ("## template: jinja\n#cloud-config\n", NotIgnition::Template),
        ("#include\nhttps://example.com/a\n", NotIgnition::Include),
        ("#cloud-boothook\n#!/bin/sh\n", NotIgnition::Part),
    ];
    for (text, what) in cases {
        for bytes in [
            text.as_bytes().to_vec(),
            gzip(text.as_bytes()),
            write(text, UserDataForm { gzip: true, base64: Some(Base64Layout { width: None, ended: false }) }),
        ] {
            assert_eq!(read(&bytes), Ok(ParsedUserData::NotIgnition(what)), "{text}");
        }
    }
}

#[test]
fn one_layer_of_each_and_no_more() {
    let base64 = |bytes: &[u8]| {
        write(
            std::str::from_utf8(bytes).unwrap(),
            UserDataForm { gzip: false, base64: Some(Base64Layout { width: None, ended: true }) },
        )
    };
    let packed = write(JSON, UserDataForm { gzip: true, base64: Some(Base64Layout { width: None, ended: true }) });
    let cases = [
        (gzip(&gzip(JSON.as_bytes())), UserDataError::Nested),
        (gzip(&base64(JSON.as_bytes())), UserDataError::Nested),
        (base64(&base64(JSON.as_bytes())), UserDataError::Nested),
        (base64(&packed), UserDataError::Nested),
        (gzip(&vec![b' '; CONFIG_BYTES_MAX + 1]), UserDataError::Long),
        (gzip(&gzip(&vec![0; 100 << 20])), UserDataError::Nested),
        (gzip(&vec![0; 100 << 20]), UserDataError::Long),
        (gzip(JSON.as_bytes())[..30].to_vec(), UserDataError::Gzip),
        ([gzip(JSON.as_bytes()), b"rest".to_vec()].concat(), UserDataError::Gzip),
        (vec![b'{'; USER_DATA_BYTES_MAX + 1], UserDataError::Large(USER_DATA_BYTES_MAX + 1)),
        (vec![b' '; USER_DATA_BYTES_MAX], UserDataError::Empty),
        (vec![b'{'; CONFIG_BYTES_MAX + 1], UserDataError::Long),
        (b"  \n".to_vec(), UserDataError::Empty),
        (b"hostname: a".to_vec(), UserDataError::Unknown),
        (base64(b"hostname: a"), UserDataError::Unknown),
        (gzip(b"hostname: a"), UserDataError::Unknown),
        (b"{\xff}".to_vec(), UserDataError::Unknown),
    ];
    for (bytes, error) in cases {
        assert_eq!(read(&bytes), Err(error));
    }
}

#[test]
fn a_config_of_the_greatest_size_is_read() {
    let text = format!("{{{}", " ".repeat(CONFIG_BYTES_MAX - 1));
    for form in [UserDataForm::PLAIN, UserDataForm { gzip: true, base64: None }] {
        assert_eq!(read(&write(&text, form)), Ok(ParsedUserData::Json { text: text.clone(), form }));
    }
    assert_eq!(USER_DATA_BYTES_MAX, 3 << 20);
}

#[test]
fn lines_before_base64_are_no_lines_of_it() {
    let base64 = Some(Base64Layout { width: None, ended: false });
    let packed = [b"\n".to_vec(), write(JSON, UserDataForm { gzip: false, base64 })].concat();
    let form = UserDataForm { gzip: false, base64 };
    assert_eq!(read(&packed), Ok(ParsedUserData::Json { text: JSON.to_owned(), form }));
}

#[test]
fn cloud_init_gets_its_data_without_base64_and_with_gzip() {
    let script = b"#!/bin/sh\n";
    let packed = |bytes: &[u8]| STANDARD.encode(bytes).into_bytes();
    for (bytes, wanted) in [
        (script.to_vec(), script.to_vec()),
        (gzip(script), gzip(script)),
        (packed(script), script.to_vec()),
        (packed(&gzip(script)), gzip(script)),
        // A message, of which base64 could be read too.
        (b"From nobody Monday".to_vec(), b"From nobody Monday".to_vec()),
        (b"hostname: a".to_vec(), b"hostname: a".to_vec()),
    ] {
        assert_eq!(for_cloud_init(&bytes), wanted);
    }
}

#[test]
fn what_is_no_config_is_named() {
    let named = [
        (NotIgnition::CloudConfig, "cloud-init's configuration, not Ignition's"),
        (NotIgnition::Script, "a script, no Ignition config"),
        (NotIgnition::Multipart, "a multipart message for cloud-init, no Ignition config"),
        (NotIgnition::Template, "a template for cloud-init, no Ignition config"),
        (NotIgnition::Include, "a list of addresses for cloud-init, no Ignition config"),
        (NotIgnition::Part, "a part for cloud-init, no Ignition config"),
    ];
    for (what, text) in named {
        assert_eq!(what.to_string(), text);
    }
}

#[test]
fn a_config_does_not_show_in_debug_output() {
    let shown = |bytes: &[u8]| format!("{:?}", read(bytes).unwrap());
    let form = "UserDataForm { gzip: false, base64: None }";
    assert_eq!(shown(b"{\"password\": 1}"), format!("Json of 15 bytes, {form}"));
    assert_eq!(shown(b"#!/bin/sh\nsecret"), "Script");
}

proptest! {
    #[test]
    fn what_was_read_is_written_the_same(text in "\\{\\PC{0,200}", gzip: bool, base64: bool, width in 4_usize..80, ended: bool) {
        let form = UserDataForm { gzip, base64: base64.then_some(Base64Layout { width: Some(width), ended }) };
        let packed = write(&text, form);
        let ParsedUserData::Json { text: again, form } = read(&packed).unwrap() else { panic!("{text}") };
        prop_assert_eq!(&again, &text);
        prop_assert_eq!(write(&again, form), packed);
    }

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(read(&bytes));
        drop(read(&gzip(&bytes)));
        drop(read(&[&[0x1f, 0x8b, 8, 0][..], &bytes].concat()));
    }
}
