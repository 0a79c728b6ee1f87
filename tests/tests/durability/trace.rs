//! What `strace -f -ttt -y` wrote, as calls: in which order they began and ended, on what, with which
//! bytes. Pure: text in, values out.
//!
//! Order is that of the lines. strace writes a line's start when a call is about to begin and its end
//! when it has ended, and splits the line (`<unfinished ...>`, `<... resumed>`) when another thread
//! did something in between; so "ended before the other began" is true of the calls themselves.

use std::collections::HashMap;

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// What stands between the parentheses, put together where the line was split.
    pub(crate) arguments: String,
    /// What stands after the `=`: a number, and for descriptors their file.
    pub(crate) returned: String,
    pub(crate) begun: usize,
    /// `usize::MAX`: it had not ended when the trace did.
    pub(crate) ended: usize,
    /// Microseconds of the wall clock.
    pub(crate) begun_at: u64,
}

/// All calls in the order in which they began.
pub(crate) fn read(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut unfinished: HashMap<&str, usize> = HashMap::new();
    for (line, content) in text.lines().enumerate() {
        let Some((thread, at, event)) = split(content) else { continue };
        if let Some(resumed) = event.strip_prefix("<... ") {
            let Some(call) = unfinished.remove(thread).map(|index| &mut calls[index]) else { continue };
            let Some((_, rest)) = resumed.split_once(" resumed>") else { continue };
            let (arguments, returned) = end(rest);
            call.arguments.push_str(arguments);
            returned.clone_into(&mut call.returned);
            call.ended = line;
        } else if let Some((name, rest)) = event.split_once('(')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            let mut call = Call {
                name: name.to_owned(),
                arguments: String::new(),
                returned: String::new(),
                begun: line,
                ended: line,
                begun_at: at,
            };
            if let Some(start) = rest.strip_suffix(" <unfinished ...>") {
                start.clone_into(&mut call.arguments);
                call.ended = usize::MAX;
                unfinished.insert(thread, calls.len());
            } else {
                let (arguments, returned) = end(rest);
                arguments.clone_into(&mut call.arguments);
                returned.clone_into(&mut call.returned);
            }
            calls.push(call);
        }
    }
    calls
}

/// Thread, time and event of a line.
fn split(line: &str) -> Option<(&str, u64, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let (at, event) = rest.trim_start().split_once(' ')?;
    let (seconds, micros) = at.split_once('.')?;
    Some((thread, seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?, event))
}

/// `…) = 5</a/file>` in its two halves. Strings may hold anything, so the last `=` counts.
fn end(rest: &str) -> (&str, &str) {
    let (arguments, returned) = rest.rsplit_once(" = ").unwrap_or((rest, ""));
    (arguments.trim_end().strip_suffix(')').unwrap_or(arguments), returned)
}

impl Call {
    /// The number that it returned; none when it failed or did not end.
    pub(crate) fn result(&self) -> Option<u64> {
        let digits = self.returned.split(|c: char| !c.is_ascii_digit() && c != '-').next()?;
        digits.parse().ok()
    }

    /// The file or socket of its first argument.
    pub(crate) fn target(&self) -> &str {
        of_descriptor(&self.arguments)
    }

    /// The file or socket that it made.
    pub(crate) fn made(&self) -> &str {
        of_descriptor(&self.returned)
    }

    /// The bytes that it took or gave.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.arguments.contains("iov_base=") {
            for part in self.arguments.split("iov_base=").skip(1) {
                bytes.extend(quoted(part));
            }
        } else {
            bytes.extend(quoted(&self.arguments));
        }
        bytes
    }
}

/// `name` of `5<name>, …`.
fn of_descriptor(text: &str) -> &str {
    let Some((number, rest)) = text.split_once('<') else { return "" };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number { "" } else { rest.split_once('>').map_or("", |(name, _)| name) }
}

/// The first string in C's notation.
fn quoted(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some((_, rest)) = text.split_once('"') else { return bytes };
    let mut rest = rest.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, rest) {
            (b'"', _) => break,
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0);
                bytes.extend(u8::try_from(digit(high) * 16 + digit(low)));
                rest = tail;
            }
            (b'\\', [b'0'..=b'7', ..]) => {
                let count = rest.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let value = rest[..count].iter().fold(0, |value, byte| value * 8 + u32::from(byte - b'0'));
                bytes.extend(u8::try_from(value));
                rest = &rest[count..];
            }
            (b'\\', [escaped, tail @ ..]) => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'f' => 12,
                    b'v' => 11,
                    other => *other,
                });
                rest = tail;
            }
            _ => bytes.push(*byte),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as strace 6.1 writes them, shortened.
    const SNIPPET: &str = r#"17    1763711000.000001 openat(AT_FDCWD</x>, "/x/a.db-wal", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 7</x/a.db-wal>
17    1763711000.000100 recvfrom(12<socket:[901]>,  <unfinished ...>
18    1763711000.000101 pwrite64(7</x/a.db-wal>, "7\177\6\202\0-\342\30 ) = 1\n\"", 4096, 32) = 4096
17    1763711000.000102 <... recvfrom resumed>"\x01\x01\x06\x00", 4096, 0, NULL, NULL) = 4
18    1763711000.000200 fdatasync(7</x/a.db-wal>) = -1 EIO (Input/output error)
17    1763711000.000300 sendmsg(9<socket:[12]>, {msg_name={sa_family=AF_INET, sin_addr=inet_addr("10.0.0.1")}, msg_iov=[{iov_base="ab", iov_len=2}, {iov_base="\x63", iov_len=1}]}, 0 <unfinished ...>
18    1763711000.000301 --- SIGCHLD {si_signo=SIGCHLD} ---
17    1763711000.000302 <... sendmsg resumed>)    = 3
18    1763711000.000303 fdatasync(7</x/a.db-wal> <unfinished ...>
18    1763711000.000400 +++ exited with 0 +++
"#;

    #[test]
    fn split_lines_become_one_call_with_both_its_ends() {
        let calls = read(SNIPPET);
        let seen: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.begun, call.ended)).collect();
        let lost = ("fdatasync", 8, usize::MAX);
        let whole = [("openat", 0, 0), ("recvfrom", 1, 3), ("pwrite64", 2, 2), ("fdatasync", 4, 4), ("sendmsg", 5, 7)];
        assert_eq!(seen, [whole.as_slice(), &[lost]].concat());
        assert_eq!(calls[1].begun_at, 1_763_711_000_000_100);
        assert_eq!(
            calls.iter().map(Call::result).collect::<Vec<_>>(),
            [Some(7), Some(4), Some(4096), None, Some(3), None]
        );
    }

    #[test]
    fn targets_and_bytes_are_read_out() {
        let calls = read(SNIPPET);
        assert_eq!((calls[0].target(), calls[0].made()), ("", "/x/a.db-wal"));
        assert_eq!((calls[1].target(), calls[1].bytes()), ("socket:[901]", vec![1, 1, 6, 0]));
        assert_eq!(calls[2].target(), "/x/a.db-wal");
        assert_eq!(calls[2].bytes(), b"7\x7f\x06\x82\0-\xe2\x18 ) = 1\n\"");
        assert_eq!(calls[4].bytes(), b"abc", "the address is no part of it");
        assert_eq!(calls[5].bytes(), b"");
    }
}
