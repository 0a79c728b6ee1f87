//! Texts that are almost what they should be: URLs, data URLs, unit files, paths. Put together from pieces, with a
//! character changed now and then.

use serde_json::{Value, json};

use super::random::Random;

/// A text, and where it goes.
pub(crate) fn strange(random: &mut Random) -> (&'static str, Value) {
    let unit = |contents: &str| json!({"name": "strange.service", "contents": contents});
    match random.below(6) {
        0 | 1 => ("/storage/files/-", json!({"path": "/strange", "contents": {"source": changed(random, url)}})),
        2 => ("/storage/files/-", json!({"path": "/strange", "contents": {"source": changed(random, data_url)}})),
        3 => ("/systemd/units/-", unit(&changed(random, unit_file))),
        4 => ("/systemd/units/-", unit(&changed(random, long_unit_file))),
        _ => ("/storage/directories/-", json!({"path": changed(random, path)})),
    }
}

fn changed(random: &mut Random, text: fn(&mut Random) -> String) -> String {
    let mut text = text(random);
    if random.one_in(3) {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let at = places[random.below(places.len())];
        if random.one_in(2) && at < text.len() {
            text.remove(at);
        } else {
            text.insert_str(
                at,
                random.pick(&["%", ":", "/", "?", "#", "[", "]", "\"", "\\", " ", "\n", "ä", "@", ";", ",", "="]),
            );
        }
    }
    text
}

fn pieces(random: &mut Random, lists: &[&[&'static str]]) -> String {
    lists.iter().map(|list| random.pick(list)).collect()
}

fn url(random: &mut Random) -> String {
    pieces(
        random,
        &[
            &["http", "https", "HTTP", "s3", "tftp", "gs", "S3", "1http", "x.y-z+", "oem", ""],
            &[":", ":", ":", ":", "", "::"],
            &["//", "//", "//", "//", "/", "", "///"],
            &["", "", "", "a@", "a:b@", "a:%41@", "ä@", "a@b@", "%zz@", "[@"],
            &[
                "host",
                "192.0.2.1",
                "[2001:db8::1]",
                "[fe80::1%25eth0]",
                "[fe80::1%eth0]",
                "[x",
                "x]",
                "%41",
                "%C3%A4",
                "%25",
                "ä",
                "a b",
                "a<b>",
                "a{b",
                "",
            ],
            &["", "", ":80", ":", ":x", ":8 0", ":80:90"],
            &["", "/", "/path", "/a%20b", "/a%zz", "/a b", "/%", "/ä"],
            &[
                "",
                "",
                "?",
                "?a=b",
                "?versionId=",
                "?versionId=3",
                "?versionId",
                "?versionId=%zz",
                "?a;versionId=",
                "?a&versionId=",
                "?version%49d=",
                "?versionId=1&versionId=",
                "??",
            ],
            &["", "", "#", "#x", "#%zz", "#a#b"],
        ],
    )
}

fn data_url(random: &mut Random) -> String {
    pieces(
        random,
        &[
            &["data:", "data:", "data:", "DATA:", "data"],
            &[
                "",
                "",
                "text/plain",
                "text/",
                "/plain",
                "text",
                "x-own/a",
                "X-own/b",
                "x/a",
                "applicationx/a",
                "font/a",
                "TEXT/plain",
                "image/a(b",
            ],
            &[
                "",
                "",
                ";charset=utf-8",
                ";a=",
                ";a=\"\"",
                ";a=\"b\\\"c\"",
                ";a=\"\\q\"",
                ";a=\"\\x41\\u00e4\\101\"",
                ";a=%41",
                ";a=%zz",
                ";a",
                "; a=b",
                ";a=b c",
            ],
            &["", "", ";b=%zz", ";b=c"],
            &["", "", ";base64", ";base64", ";BASE64"],
            &[",", ",", ",", ",", ""],
            &[
                "", "QQ==", "QR==", "QUJD", "QQ", "QQ=", "a%20b", "a b", "%zz", "a,b", "a-b_c", "<x>", "a^b", "a#b",
                "ä", "QQ==QQ==",
            ],
        ],
    )
}

fn unit_file(random: &mut Random) -> String {
    let line = |random: &mut Random| {
        random.pick(&[
            "[Unit]\n",
            "[Unit]\n",
            "[Install]\n",
            "[Service] \r\n",
            "[Unit]x\n",
            "[Unit\n",
            "A=b\n",
            "A=b\n",
            "A = b \\\n",
            "A=b\\\r\n",
            "A=\n",
            "=x\n",
            "A\n",
            "# A\\\n",
            "; A\\ \n",
            "  A=b\n",
            "\n",
            "\u{a0}",
            "ä=ö\n",
            "\\\n",
            "A=b",
        ])
    };
    (0..random.below(7)).map(|_| line(random)).collect()
}

/// Where lines end matters: they are looked at through a buffer of 4,096 bytes.
fn long_unit_file(random: &mut Random) -> String {
    let mut text = String::from("[Unit]\n");
    for _ in 0..=random.below(6) {
        let length = [10, 500, 1500, 2030, 2048, 2060, 3000, 4090, 5000][random.below(9)] + random.below(8);
        let filler = random.pick(&["x", "x", "ä", "€"]).repeat(length / 2);
        text += &match random.below(6) {
            0 => format!("# {filler}\n"),
            1 => format!("{filler}=b\n"),
            2 => format!("A={filler}\\\n{filler}\n"),
            3 => "\n".repeat(length),
            _ => format!("A={filler}{filler}\n"),
        };
    }
    text
}

fn path(random: &mut Random) -> String {
    pieces(
        random,
        &[
            &["/", "/", "/", "", "//"],
            &["a", "..", ".", "a.b", "...", "", " "],
            &["", "/", "/b", "/..", "/.", "//", "/..b"],
        ],
    )
}
