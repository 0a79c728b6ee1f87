//! What is hidden in a console's lines: pure. Firmware and iPXE show the URLs that they load from, and with them the
//! boot's token; an OS may show anything.
//!
//! | hidden | how it is known |
//! |---|---|
//! | sealed tokens | by their place in a boot URL, else as base64url without sense: letters of both cases and digits, changing as words do not; over ends of lines, where a screen has wrapped them |
//! | a BMC's password | as it is |
//! | other secrets | by their names before `:` or `=` (`password`, `token`, …), in a URL before `@`, as a private key in PEM |
//!
//! What cannot be known: a BMC's password that a screen has wrapped, other secrets without a name before them, and
//! some scrap of a token of under [`RUN_CHARS_MIN`] characters, which opens nothing.

use std::ops::Range;

use firesteel_boot::token::TOKEN_CHARS_MAX;

/// Stands for what is hidden; the same word as in the agent's log.
pub(crate) const INSTEAD: &str = "[redacted]";
/// A shorter password would blank out ordinary words.
const SECRET_BYTES_MIN: usize = 6;
/// A shorter run of letters and digits says too little of how it was made.
const RUN_CHARS_MIN: usize = 20;
/// Neighbouring letters and digits of which one changes class to the other, in percent: of random base64 it is 62,
/// of identifiers of disks and units below 35.
const CHANGES_PERCENT_MIN: usize = 40;
/// A key is no longer; an end of it that was lost must not hide the rest of a boot.
const KEY_LINES_MAX: usize = 120;
/// Names whose value is hidden: up to the next space, or for those of `WHOLE_LINE` to the end of the line.
const NAMES: [&str; 9] =
    ["password", "passwd", "passphrase", "secret", "token", "api-key", "apikey", "authorization", "cookie"];
const WHOLE_LINE: [&str; 2] = ["authorization", "cookie"];

/// One console.
#[derive(Debug, Default)]
pub(crate) struct Mask {
    secrets: Vec<String>,
    /// Characters of a token so far that ended with its line: the next line may begin with the rest.
    carried: usize,
    /// Lines so far of a private key that has not ended.
    key_lines: Option<usize>,
}

impl Mask {
    /// Makes a mask. `secrets`: texts that are always hidden, whatever stands around them.
    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|text| text.len() >= SECRET_BYTES_MIN).collect();
        // One that has another in it goes whole.
        secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self { secrets, ..Self::default() }
    }

    /// Returns the next line as it may be shown.
    pub(crate) fn line(&mut self, line: &str) -> String {
        let mut hidden = Vec::new();
        self.key(line, &mut hidden);
        for secret in &self.secrets {
            hidden.extend(line.match_indices(secret.as_str()).map(|(at, text)| at..at + text.len()));
        }
        named(line, &mut hidden);
        logins(line, &mut hidden);
        self.runs(line, &mut hidden);
        mask_ranges(line, hidden)
    }

    /// Private keys in PEM (RFC 7468), from their first line to their last.
    fn key(&mut self, line: &str, hidden: &mut Vec<Range<usize>>) {
        let begins = line.find("-----BEGIN ").filter(|at| line[*at..].contains("PRIVATE KEY"));
        if let Some(at) = begins {
            hidden.push(at..line.len());
            self.key_lines = Some(0);
        } else if let Some(lines) = self.key_lines {
            hidden.push(0..line.len());
            self.key_lines = Some(lines + 1).filter(|lines| *lines < KEY_LINES_MAX);
        }
        if line.contains("-----END ") {
            self.key_lines = None;
        }
    }

    /// Hides tokens, whole and wrapped.
    fn runs(&mut self, line: &str, hidden: &mut Vec<Range<usize>>) {
        let carried = std::mem::take(&mut self.carried);
        for run in all_runs(line) {
            let is_rest = run.start == 0 && carried > 0;
            if !(is_rest || is_in_url(line, &run) || is_random(line, &run)) {
                continue;
            }
            let length = run.len() + if is_rest { carried } else { 0 };
            if run.end == line.len() && length < TOKEN_CHARS_MAX {
                self.carried = length;
            }
            hidden.push(run);
        }
    }
}

/// Base64url.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn all_runs(line: &str) -> Vec<Range<usize>> {
    let (mut runs, mut begin) = (Vec::new(), None);
    for (at, byte) in line.bytes().chain([b' ']).enumerate() {
        match (is_token(byte), begin) {
            (true, None) => begin = Some(at),
            (false, Some(start)) => {
                runs.push(start..at);
                begin = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    runs
}

/// Says whether a run stands in a URL as in `http://10.0.0.1:8080/boot/TOKEN/initramfs`.
fn is_in_url(line: &str, run: &Range<usize>) -> bool {
    let before = &line[..run.start];
    let word = before.rsplit(' ').next().unwrap_or_default();
    before.ends_with("/boot/") && word.contains("://")
}

fn is_random(line: &str, run: &Range<usize>) -> bool {
    let text = &line.as_bytes()[run.clone()];
    let class = |byte: u8| match byte {
        b'a'..=b'z' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    };
    let has = |wanted: u8| text.iter().any(|byte| class(*byte) == Some(wanted));
    // A fingerprint is there to be compared.
    if text.len() < RUN_CHARS_MIN || !(has(0) && has(1) && has(2)) || line[..run.start].ends_with("SHA256:") {
        return false;
    }
    let pairs = text.windows(2).filter_map(|pair| class(pair[0]).zip(class(pair[1])));
    let (count, changes) =
        pairs.fold((0, 0), |(count, changes), (one, other)| (count + 1, changes + usize::from(one != other)));
    changes * 100 >= count * CHANGES_PERCENT_MIN
}

/// `password: x`, `"token" = "x"`.
fn named(line: &str, hidden: &mut Vec<Range<usize>>) {
    let lower = line.to_ascii_lowercase();
    for name in NAMES {
        for (at, _) in lower.match_indices(name) {
            let rest = &line[at + name.len()..];
            let value = rest.trim_start_matches(['"', '\'', ' ']);
            let Some(value) = value.strip_prefix([':', '=']) else { continue };
            let value = value.trim_start_matches(['"', '\'', ' ']);
            let begin = line.len() - value.len();
            let length = if WHOLE_LINE.contains(&name) { None } else { value.find([' ', '"', '\'', ',', ';', '&']) };
            hidden.push(begin..begin + length.unwrap_or(value.len()));
        }
    }
}

/// `https://user:password@host`.
fn logins(line: &str, hidden: &mut Vec<Range<usize>>) {
    for (at, mark) in line.match_indices("://") {
        let begin = at + mark.len();
        let word = line[begin..].split([' ', '/', '"']).next().unwrap_or_default();
        if let Some(end) = word.rfind('@') {
            hidden.push(begin..begin + end);
        }
    }
}

fn mask_ranges(line: &str, mut hidden: Vec<Range<usize>>) -> String {
    hidden.retain(|range| !range.is_empty());
    hidden.sort_by_key(|range| range.start);
    let (mut told, mut end) = (String::with_capacity(line.len()), 0);
    for range in hidden {
        if range.start > end || end == 0 {
            told.push_str(&line[end..range.start]);
            told.push_str(INSTEAD);
        }
        end = end.max(range.end);
    }
    told.push_str(&line[end..]);
    told
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "tests")]
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use firesteel_boot::{BootAsker, BootSeal, BootTokenClaims, Purpose, Sealer};
    use firesteel_facts::Sha256;
    use proptest::prelude::*;
    use ring::digest::{SHA256, digest};

    use super::*;

    fn told(lines: &[&str]) -> Vec<String> {
        let mut mask = Mask::new(["correct horse".to_owned(), "on".to_owned()]);
        lines.iter().map(|line| mask.line(line)).collect()
    }

    fn token() -> String {
        let claims = BootTokenClaims {
            purpose: Purpose::Agent,
            subject: "421a9f10-5e2c-4b77-9120-525400010203".to_owned(),
            attempt: 7,
            expires_s: 1_800_000_000,
            boot: Some(BootSeal {
                grant: 1_800_000_000_000,
                asker: BootAsker::Leased([10, 77, 0, 100].into()),
                kernel: Sha256([1; 32]),
                initramfs: Sha256([2; 32]),
                agent: Some(Sha256([3; 32])),
            }),
        };
        Sealer::new(&[7; 32]).seal(&claims).expect("sealed").into_string()
    }

    #[test]
    fn secrets_are_hidden() {
        for (line, expected) in [
            ("login on ttyS0 with correct horse!", "login on ttyS0 with [redacted]!"),
            ("Password: hunter2 is set", "Password: [redacted] is set"),
            ("password = \"hunter2\", more", "password = \"[redacted]\", more"),
            ("{\"token\": \"abc\"}", "{\"token\": \"[redacted]\"}"),
            ("root=/dev/sda1 db_passwd=x&y=1", "root=/dev/sda1 db_passwd=[redacted]&y=1"),
            ("Authorization: Basic YTpi and more", "Authorization: [redacted]"),
            ("GET https://me:pw@host/x", "GET https://[redacted]@host/x"),
            ("Password: ", "Password: "),
            ("Enter the password of disk one", "Enter the password of disk one"),
        ] {
            assert_eq!(told(&[line]), [expected], "{line}");
        }
        let key = ["x -----BEGIN RSA PRIVATE KEY-----", "MIIE", "-----END RSA PRIVATE KEY-----", "after"];
        assert_eq!(told(&key), ["x [redacted]", INSTEAD, INSTEAD, "after"]);
        let lost: Vec<&str> = std::iter::once(key[0]).chain(std::iter::repeat_n("text", 2 * KEY_LINES_MAX)).collect();
        assert_eq!(told(&lost).last().map(String::as_str), Some("text"), "its end was lost");
    }

    #[test]
    fn what_only_looks_long_is_told() {
        for line in [
            "nvme-Samsung_SSD_970_EVO_Plus_1TB_S4EWNX0N123456A",
            "scsi-0QEMU_QEMU_HARDDISK_drive-scsi0-0-0-0",
            "BOOT_IMAGE=(hd0,gpt3)/boot/vmlinuz-6.1.0-28-amd64 root=UUID=421a9f10-5e2c-4b77-9120-525400010203",
            "D2E4F1A0-5E2C-4B77-9120-525400010203",
            "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8 root@host",
            "systemd[1]: Starting systemd-tmpfiles-setup-dev-early.service",
            "--------------------------------------------------",
            "PciRoot(0x0)/Pci(0x1,0x1)/Ata(Primary,Master,0x0)",
            "/usr/lib/x86_64-linux-gnu/libSystemConfiguration2Helper.so",
        ] {
            assert_eq!(told(&[line]), [line]);
        }
    }

    #[test]
    fn what_follows_a_token_is_told_again() {
        let token = token();
        let line = format!("http://10.0.0.1:8080/boot/{token}/kernel... ok");
        assert_eq!(told(&[&line, "next one"]), ["http://10.0.0.1:8080/boot/[redacted]/kernel... ok", "next one"]);
        assert_eq!(told(&[&format!("token is {token}")]), ["token is [redacted]"]);
        // A line of one word may be the rest of a token, but not one after the other without end.
        let url = format!("http://10.0.0.1:8080/boot/{token}");
        let words: Vec<&str> = std::iter::once(url.as_str()).chain(std::iter::repeat_n("a-word", 100)).collect();
        assert_eq!(told(&words).last().map(String::as_str), Some("a-word"));
    }

    /// Tokens of the same length as real ones, the same in each run.
    fn samples() -> Vec<String> {
        let bytes = |number: u8| (0..7).flat_map(move |part| digest(&SHA256, &[number, part]).as_ref().to_vec());
        let token = |number| URL_SAFE_NO_PAD.encode([1].into_iter().chain(bytes(number)).take(204).collect::<Vec<_>>());
        (0..8).map(token).collect()
    }

    #[test]
    fn a_token_is_hidden_however_a_screen_wraps_it() {
        assert_eq!(samples()[0].len(), token().len());
        for token in samples() {
            for (before, width, indent) in (40..200).step_by(3).flat_map(|width| {
                let url = (0..14).map(move |indent| ("http://10.0.0.1:8080/boot/", width, indent));
                // Without its URL before it, a piece has to be long to be known.
                url.chain(
                    (0..14)
                        .filter(move |indent| indent + 75 < width)
                        .map(move |indent| ("its token is ", width, indent)),
                )
            }) {
                let text = format!("{}{before}{token}/initramfs... ok", " ".repeat(indent));
                let mut mask = Mask::default();
                let lines = text.as_bytes().chunks(width).map(|line| String::from_utf8_lossy(line).into_owned());
                let told: Vec<String> = lines.map(|line| mask.line(&line)).collect();
                let all = told.concat();
                for part in token.as_bytes().windows(RUN_CHARS_MIN / 2) {
                    let part = String::from_utf8_lossy(part);
                    assert!(!all.contains(&*part), "{part} of {token} in {told:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(lines in prop::collection::vec("\\PC{0,80}", 0..8), secret in "\\PC{0,12}") {
            let mut mask = Mask::new([secret]);
            for line in lines {
                drop(mask.line(&line));
            }
        }
    }
}
