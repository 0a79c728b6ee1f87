//! Whether what was acknowledged was on the disk first: calls in, findings out. Pure.
//!
//! ```text
//!   request taken ─► data written ─► its commit written ─► fdatasync ─► answer given
//!        cause                                             begun after,    begun after
//!                                                          successful      that ended
//! ```
//!
//! Knows the two shapes of files that it looks at: SQLite's write-ahead log, where a transaction
//! counts from the frame on that names the size of the database (<https://sqlite.org/walformat.html>),
//! and DHCP packets (RFC 2131).

use std::collections::BTreeSet;

use crate::trace::Call;

/// A promise that the appliance gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) what: String,
    /// Bytes that are part of what was promised and of nothing before it.
    pub(crate) mark: Vec<u8>,
    /// The line on which the request had been taken.
    pub(crate) cause: usize,
    /// The line on which the answer began.
    pub(crate) answer: usize,
}

/// What is wrong with one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Problem {
    /// No request in the trace.
    NoRequest,
    /// No answer in the trace.
    NoAnswer,
    /// What was promised was not written, or only after the promise.
    NotWritten,
    /// No part of it that counts was told to the disk before the promise.
    NotSynced,
    /// The disk was told, and had not said that it is done.
    SyncedTooLate,
    /// The data is on the disk, and the name of its file need not be.
    NameNotSynced,
}

/// One request of one client, which had no other under way on this connection.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) what: String,
    pub(crate) mark: Vec<u8>,
    /// The client's port.
    pub(crate) port: u16,
    /// The wall clock before the request was sent, in microseconds.
    pub(crate) begun_at: u64,
    /// The same after the answer had come.
    pub(crate) ended_at: u64,
}

const RECEIVE: &[&str] = &["read", "readv", "recvfrom", "recvmsg"];
const SEND: &[&str] = &["write", "writev", "sendto", "sendmsg", "sendmmsg"];
const WRITE: &[&str] = &["write", "writev", "pwrite64", "pwritev"];
const SYNC: &[&str] = &["fsync", "fdatasync"];

fn is(call: &Call, names: &[&str]) -> bool {
    names.contains(&call.name.as_str())
}

/// Finds an exchange over TCP, whatever its bytes are (TLS): all that arrived before the first byte
/// went out is the request.
pub(crate) fn find(calls: &[Call], exchange: &Exchange) -> Result<Acknowledgement, Problem> {
    let port = format!("sin_port=htons({})", exchange.port);
    let accepted = calls.iter().filter(|call| call.name.starts_with("accept") && call.arguments.contains(&port));
    let socket = accepted.map(Call::made).find(|socket| !socket.is_empty()).ok_or(Problem::NoRequest)?;
    let during = |call: &&Call| (exchange.begun_at..=exchange.ended_at).contains(&call.begun_at);
    let on_it = || calls.iter().filter(|call| call.target() == socket).filter(during);
    let answer = on_it().find(|call| is(call, SEND)).ok_or(Problem::NoAnswer)?.begun;
    let taken = on_it().rfind(|call| is(call, RECEIVE) && call.ended < answer && call.result() > Some(0));
    let cause = taken.ok_or(Problem::NoRequest)?.ended;
    Ok(Acknowledgement { what: exchange.what.clone(), mark: exchange.mark.clone(), cause, answer })
}

/// Every lease that was granted: each ACK with the REQUEST that it answers. The mark is the MAC.
pub(crate) fn leases(calls: &[Call]) -> Vec<Result<Acknowledgement, Problem>> {
    let packets = |names, message_type| {
        calls.iter().filter(move |call| is(call, names) && call.result() != Some(0)).filter_map(move |call| {
            let packet = Dhcp::find(&call.bytes())?;
            (packet.message_type == message_type).then_some((call, packet))
        })
    };
    packets(SEND, Dhcp::ACK)
        .filter(|(_, ack)| ack.yiaddr != [0; 4])
        .map(|(answer, ack)| {
            let mut requests = packets(RECEIVE, Dhcp::REQUEST);
            let asked = requests.find(|(call, request)| request.xid == ack.xid && call.ended < answer.begun);
            let what = format!("the lease of {:?} for {:02x?}", ack.yiaddr, ack.mac);
            let cause = asked.ok_or(Problem::NoRequest)?.0.ended;
            Ok(Acknowledgement { what, mark: ack.mac.to_vec(), cause, answer: answer.begun })
        })
        .collect()
}

/// The few fields of a DHCP packet that tell which answer belongs to which question.
struct Dhcp {
    xid: [u8; 4],
    yiaddr: [u8; 4],
    mac: [u8; 6],
    message_type: u8,
}

impl Dhcp {
    const REQUEST: u8 = 3;
    const ACK: u8 = 5;
    const MAGIC_AT: usize = 236;
    const MESSAGE_TYPE: u8 = 53;

    /// In the bytes of a datagram, or of an IP packet around it.
    fn find(bytes: &[u8]) -> Option<Self> {
        let magic = bytes.windows(4).position(|window| window == [0x63, 0x82, 0x53, 0x63])?;
        let packet = bytes.get(magic.checked_sub(Self::MAGIC_AT)?..)?;
        let mut options = packet.get(Self::MAGIC_AT + 4..)?;
        let mut message_type = None;
        while let [code, rest @ ..] = options {
            options = rest;
            match code {
                0 => continue,
                255 => break,
                _ => {}
            }
            let [length, rest @ ..] = options else { break };
            let (value, rest) = rest.split_at_checked(usize::from(*length))?;
            if *code == Self::MESSAGE_TYPE {
                message_type = value.first().copied();
            }
            options = rest;
        }
        Some(Self {
            xid: packet.get(4..8)?.try_into().ok()?,
            yiaddr: packet.get(16..20)?.try_into().ok()?,
            mac: packet.get(28..34)?.try_into().ok()?,
            message_type: message_type?,
        })
    }
}

/// What is wrong with an acknowledgement that is kept in a SQLite database.
pub(crate) fn check(calls: &[Call], given: &Acknowledgement, database: &str) -> BTreeSet<Problem> {
    let log = format!("{database}-wal");
    let mut problems = BTreeSet::new();
    let writes: Vec<&Call> = calls.iter().filter(|call| is(call, WRITE) && call.target() == log).collect();
    let holds =
        |call: &Call| call.begun > given.cause && call.bytes().windows(given.mark.len()).any(|w| w == given.mark);
    let commits: Vec<usize> = (0..writes.len())
        .filter(|index| holds(writes[*index]))
        .filter_map(|index| commit_after(&writes, index))
        .filter(|line| *line < given.answer)
        .collect();
    let syncs = || calls.iter().filter(|call| is(call, SYNC) && call.target() == log && call.result() == Some(0));
    let after_a_commit = |sync: &&Call| commits.iter().any(|commit| sync.begun > *commit);
    if commits.is_empty() {
        problems.insert(Problem::NotWritten);
    } else if !syncs().filter(after_a_commit).any(|sync| sync.ended < given.answer) {
        let begun = syncs().filter(after_a_commit).any(|sync| sync.begun < given.answer);
        problems.insert(if begun { Problem::SyncedTooLate } else { Problem::NotSynced });
    }
    let nameless = [database, log.as_str()].into_iter().any(|file| !is_name_synced(calls, file, given.answer));
    if nameless {
        problems.insert(Problem::NameNotSynced);
    }
    problems
}

/// Where the transaction that this write to a log belongs to was complete. A frame is written as 24
/// bytes of header and one page; the last frame of a transaction names the size of the database.
fn commit_after(writes: &[&Call], index: usize) -> Option<usize> {
    (index..writes.len()).find_map(|page| {
        let header = writes.get(page.checked_sub(1)?)?.bytes();
        let is_commit = header.len() == 24 && header[4..8] != [0; 4];
        (is_commit && writes[page].result().is_some()).then_some(writes[page].ended)
    })
}

/// A file that was made outlives a power cut when its folder was told to the disk after that.
fn is_name_synced(calls: &[Call], file: &str, by: usize) -> bool {
    let made = calls.iter().filter(|call| call.name == "openat" && call.made() == file);
    let Some(made) = made.into_iter().find(|call| call.arguments.contains("O_CREAT") && call.ended < by) else {
        return true;
    };
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    calls.iter().any(|call| {
        is(call, SYNC)
            && call.target() == folder
            && call.result() == Some(0)
            && call.begun > made.ended
            && call.ended < by
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace;

    /// One request and its answer, as strace showed them; strings are shortened.
    const HONEST: [&str; 13] = [
        r#"31 openat(AT_FDCWD</>, "/d/r.db", O_RDWR|O_CREAT|O_NOFOLLOW|O_CLOEXEC, 0644) = 6</d/r.db>"#,
        r#"31 openat(AT_FDCWD</>, "/d/r.db-wal", O_RDWR|O_CREAT|O_NOFOLLOW|O_CLOEXEC, 0644) = 7</d/r.db-wal>"#,
        "31 fdatasync(8</d>) = 0",
        r#"30 accept4(10<socket:[800]>, {sa_family=AF_INET, sin_port=htons(4001), sin_addr=inet_addr("10.77.0.2")}, [128 => 16], SOCK_CLOEXEC|SOCK_NONBLOCK) = 12<socket:[901]>"#,
        r#"30 recvfrom(12<socket:[901]>, "\x17\x03\x03\x00\x55", 4096, 0, NULL, NULL) = 90"#,
        "30 recvfrom(12<socket:[901]>, 0x7f00, 4096, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)",
        r#"31 pwrite64(7</d/r.db-wal>, "\x00\x00\x00\x02\x00\x00\x00\x00\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", 24, 32) = 24"#,
        r#"31 pwrite64(7</d/r.db-wal>, "\r\0\0\0{\"mark\":\"M-1\"}", 4096, 56) = 4096"#,
        r#"31 pwrite64(7</d/r.db-wal>, "\x00\x00\x00\x05\x00\x00\x00\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", 24, 4152) = 24"#,
        r#"31 pwrite64(7</d/r.db-wal>, "meta", 4096, 4176) = 4096"#,
        "31 fdatasync(7</d/r.db-wal> <unfinished ...>",
        "31 <... fdatasync resumed>) = 0",
        r#"30 writev(12<socket:[901]>, [{iov_base="\x17\x03\x03", iov_len=3}], 1) = 3"#,
    ];
    const SYNC_BEGINS: usize = 10;
    const SYNC_ENDS: usize = 11;

    fn findings(lines: &[&str]) -> BTreeSet<Problem> {
        let text: String = lines
            .iter()
            .enumerate()
            .filter_map(|(number, line)| line.split_once(' ').map(|(id, call)| format!("{id} 5.{number:06} {call}\n")))
            .collect();
        let exchange = Exchange {
            what: "POST".into(),
            mark: b"M-1".to_vec(),
            port: 4001,
            begun_at: 5_000_002,
            ended_at: 6_000_000,
        };
        let calls = trace::read(&text);
        match find(&calls, &exchange) {
            Ok(given) => check(&calls, &given, "/d/r.db"),
            Err(problem) => BTreeSet::from([problem]),
        }
    }

    fn changed(change: impl FnOnce(&mut Vec<&'static str>)) -> BTreeSet<Problem> {
        let mut lines = HONEST.to_vec();
        change(&mut lines);
        findings(&lines)
    }

    #[test]
    fn an_honest_answer_is_found_good() {
        assert_eq!(findings(&HONEST), BTreeSet::new());
        let whole = changed(|lines| {
            lines[SYNC_BEGINS] = "31 fsync(7</d/r.db-wal>) = 0";
            lines.remove(SYNC_ENDS);
        });
        assert_eq!(whole, BTreeSet::new(), "fsync says as much");
    }

    #[test]
    fn no_sync_of_this_file_between_the_write_and_the_answer_is_found() {
        let not_synced = BTreeSet::from([Problem::NotSynced]);
        assert_eq!(changed(|lines| drop(lines.drain(SYNC_BEGINS..=SYNC_ENDS))), not_synced, "none at all");
        let earlier = changed(|lines| {
            let sync: Vec<_> = lines.drain(SYNC_BEGINS..=SYNC_ENDS).collect();
            lines.splice(5..5, sync);
        });
        assert_eq!(earlier, not_synced, "before the write");
        let between = changed(|lines| {
            let sync: Vec<_> = lines.drain(SYNC_BEGINS..=SYNC_ENDS).collect();
            lines.splice(8..8, sync);
        });
        assert_eq!(between, not_synced, "after the data and before the frame that makes it count");
        assert_eq!(
            changed(|lines| lines[SYNC_BEGINS] = "31 fdatasync(6</d/r.db> <unfinished ...>"),
            not_synced,
            "another"
        );
        let failed = changed(|lines| lines[SYNC_ENDS] = "31 <... fdatasync resumed>) = -1 EIO (Input/output error)");
        assert_eq!(failed, not_synced, "it failed");
        assert_eq!(changed(|lines| lines.swap(SYNC_BEGINS, 12)), not_synced, "after the answer");
    }

    #[test]
    fn an_answer_that_does_not_wait_for_the_disk_is_found() {
        assert_eq!(changed(|lines| lines.swap(SYNC_ENDS, 12)), BTreeSet::from([Problem::SyncedTooLate]));
    }

    #[test]
    fn data_that_is_not_this_requests_does_not_count() {
        let not_written = BTreeSet::from([Problem::NotWritten]);
        let other = r#"31 pwrite64(7</d/r.db-wal>, "{\"mark\":\"M-2\"}", 4096, 56) = 4096"#;
        assert_eq!(changed(|lines| lines[7] = other), not_written, "the mark is missing");
        let earlier = changed(|lines| {
            let data = lines.remove(7);
            lines.insert(3, data);
        });
        assert_eq!(earlier, not_written, "it was there before the request");
        let late = changed(|lines| {
            let answer = lines.remove(12);
            lines.insert(7, answer);
        });
        assert_eq!(late, not_written, "after the answer");
        let elsewhere = r#"31 pwrite64(9</d/log>, "{\"mark\":\"M-1\"}", 4096, 56) = 4096"#;
        assert_eq!(changed(|lines| lines[7] = elsewhere), not_written, "in another file");
    }

    #[test]
    fn a_file_whose_name_may_be_lost_is_found() {
        let nameless = BTreeSet::from([Problem::NameNotSynced]);
        assert_eq!(changed(|lines| drop(lines.drain(2..=2))), nameless);
        assert_eq!(changed(|lines| lines.swap(1, 2)), nameless, "the folder was synced before the file was made");
    }

    #[test]
    fn a_trace_without_the_exchange_is_no_proof() {
        assert_eq!(changed(|lines| drop(lines.drain(3..=3))), BTreeSet::from([Problem::NoRequest]));
        assert_eq!(changed(|lines| drop(lines.drain(4..=4))), BTreeSet::from([Problem::NoRequest]));
        assert_eq!(changed(|lines| drop(lines.drain(12..=12))), BTreeSet::from([Problem::NoAnswer]));
        assert_eq!(findings(&[]), BTreeSet::from([Problem::NoRequest]));
    }

    /// A packet of DHCP as strace shows it, after so many bytes of other headers.
    fn packet(before: usize, op: u8, xid: u8, yiaddr: u8, message_type: u8) -> String {
        let mut bytes = vec![0x45; before];
        bytes.extend([op, 1, 6, 0, 0, 0, 0, xid]);
        bytes.resize(before + 16, 0);
        bytes.extend([yiaddr; 4]);
        bytes.resize(before + 28, 0);
        bytes.extend([2, 0, 0, 0, 0, xid]);
        bytes.resize(before + 236, 0);
        bytes.extend([0x63, 0x82, 0x53, 0x63, 12, 1, 65, 53, 1, message_type, 255, 0, 0]);
        bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    #[test]
    fn each_ack_is_a_promise_to_the_client_that_asked_first() {
        let lines = [
            format!(r#"1 5.1 recvfrom(4<socket:[1]>, "{}", 4097, 0, {{}}, [16]) = 249"#, packet(0, 1, 7, 0, 1)),
            format!(r#"1 5.2 sendto(5<socket:[2]>, "{}", 277, 0, {{}}, 20) = 277"#, packet(28, 2, 7, 9, 2)),
            format!(r#"1 5.3 recvfrom(4<socket:[1]>, "{}", 4097, 0, {{}}, [16]) = 249"#, packet(0, 1, 7, 0, 3)),
            format!(r#"1 5.4 recvfrom(4<socket:[1]>, "{}", 4097, 0, {{}}, [16]) = 249"#, packet(0, 1, 7, 0, 3)),
            format!(r#"1 5.5 sendto(5<socket:[2]>, "{}", 277, 0, {{}}, 20) = 277"#, packet(28, 2, 7, 9, 5)),
            format!(r#"1 5.6 sendto(5<socket:[2]>, "{}", 277, 0, {{}}, 20) = 277"#, packet(28, 2, 8, 9, 5)),
            format!(r#"1 5.7 sendto(5<socket:[2]>, "{}", 277, 0, {{}}, 20) = 277"#, packet(28, 2, 9, 0, 5)),
        ];
        let found = leases(&trace::read(&lines.join("\n")));
        let [Ok(first), Err(Problem::NoRequest)] = found.as_slice() else {
            panic!("an ACK that answers a request, one that does not, and one that grants nothing: {found:?}")
        };
        assert_eq!((first.cause, first.answer, first.mark.as_slice()), (2, 4, [2, 0, 0, 0, 0, 7].as_slice()));
    }
}
