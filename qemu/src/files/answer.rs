//! What an origin answers to one request, faults included. Pure.

use serde::{Deserialize, Serialize};

/// How an origin may misbehave, as scenario files write it. `at` is a place in the file: a fault is met
/// by answers that would hold this byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OriginFault {
    pub kind: OriginFaultKind,
    #[serde(default)]
    pub at: u64,
    /// The number of answers that meet it; without it, all.
    #[serde(default)]
    pub times: Option<u64>,
    /// Bytes that become others, or that a length is wrong by.
    #[serde(default = "one")]
    pub bytes: u64,
    /// The code of `status`.
    #[serde(default = "unavailable")]
    pub code: u16,
}

fn one() -> u64 {
    1
}

fn unavailable() -> u16 {
    503
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginFaultKind {
    /// An error status.
    Status,
    /// The connection ends before `at`.
    Cut,
    /// The connection is reset before `at`.
    Reset,
    /// Nothing more comes from `at` on.
    Stall,
    /// The file is called `at` bytes long, and is.
    Truncate,
    /// The length is stated `bytes` too long.
    WrongLength,
    /// `bytes` bytes from `at` on become others.
    Alter,
    /// No two answers have the same ETag.
    ChangeEtag,
    /// A range is answered with another range, and called the right one.
    WrongRange,
    /// No length, and no end.
    Endless,
}

impl OriginFaultKind {
    /// How an answer ends at the fault's place, if it does.
    fn end(self) -> Option<OriginResponseEnd> {
        match self {
            Self::Cut => Some(OriginResponseEnd::Close),
            Self::Reset => Some(OriginResponseEnd::Reset),
            Self::Stall => Some(OriginResponseEnd::Stall),
            Self::Status
            | Self::Truncate
            | Self::WrongLength
            | Self::Alter
            | Self::ChangeEtag
            | Self::WrongRange
            | Self::Endless => None,
        }
    }
}

/// A request, as far as an origin looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OriginRequest {
    pub(super) is_head: bool,
    pub(super) path: String,
    /// `bytes=N-`, with or without an end.
    pub(super) range: Option<(u64, Option<u64>)>,
    pub(super) if_range: Option<String>,
}

/// Reads a request's head. `None`: it is none that is served.
pub(super) fn read_head(head: &str) -> Option<OriginRequest> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let is_head = match words.next()? {
        "GET" => false,
        "HEAD" => true,
        _ => return None,
    };
    let mut asked = OriginRequest { is_head, path: words.next()?.to_owned(), ..OriginRequest::default() };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("range") {
            asked.range = value.strip_prefix("bytes=").and_then(|range| {
                let (first, last) = range.split_once('-')?;
                let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
                Some((first.parse().ok()?, last))
            });
        } else if name.eq_ignore_ascii_case("if-range") {
            asked.if_range = Some(value.to_owned());
        }
    }
    Some(asked)
}

/// What is sent: a head, a part of the file, and then an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OriginResponse {
    pub(super) head: String,
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Bytes of the file that become others.
    pub(super) altered: Vec<std::ops::Range<u64>>,
    pub(super) end: OriginResponseEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginResponseEnd {
    Close,
    Reset,
    Stall,
    /// The part is sent again and again.
    Again,
}

#[derive(Debug)]
pub(super) struct OriginFile {
    length: u64,
    faults: Vec<(OriginFault, u64)>,
    answers: u64,
}

impl OriginFile {
    pub(super) fn new(length: u64, faults: Vec<OriginFault>) -> Self {
        Self { length, faults: faults.into_iter().map(|fault| (fault, 0)).collect(), answers: 0 }
    }

    pub(super) fn answer(&mut self, asked: &OriginRequest) -> OriginResponse {
        self.answers += 1;
        let length = match self.meet(OriginFaultKind::Truncate, 0..u64::MAX) {
            Some(fault) => fault.at.min(self.length),
            None => self.length,
        };
        let version = self.meet(OriginFaultKind::ChangeEtag, 0..u64::MAX).map_or(0, |_| self.answers);
        let etag = format!("\"{}-{version}\"", self.length);
        let same = asked.if_range.as_ref().is_none_or(|wanted| *wanted == etag);
        let (status, start, end) = match asked.range.filter(|_| same) {
            Some((first, _)) if first >= length => (416, length, length),
            Some((first, last)) => (206, first, last.map_or(length, |last| last.saturating_add(1).min(length))),
            None => (200, 0, length),
        };
        if let Some(fault) = self.meet(OriginFaultKind::Status, 0..u64::MAX) {
            return OriginResponse::of_status(fault.code);
        }
        let mut stated = end - start;
        if let Some(fault) = self.meet(OriginFaultKind::WrongLength, 0..u64::MAX) {
            stated += fault.bytes;
        }
        let mut head = format!("HTTP/1.1 {status} {}\r\nConnection: close\r\nETag: {etag}\r\n", reason(status));
        let endless = self.meet(OriginFaultKind::Endless, 0..u64::MAX).is_some();
        if !endless {
            head.push_str(&format!("Accept-Ranges: bytes\r\nContent-Length: {stated}\r\n"));
        }
        let mut from = start;
        if status == 206 {
            head.push_str(&format!("Content-Range: bytes {start}-{}/{length}\r\n", end.saturating_sub(1)));
            if self.meet(OriginFaultKind::WrongRange, 0..u64::MAX).is_some() {
                from = start.saturating_sub(1);
            }
        }
        head.push_str("\r\n");
        let mut answer = OriginResponse {
            head,
            start: from,
            bytes: end - start,
            altered: Vec::new(),
            end: OriginResponseEnd::Close,
        };
        if asked.is_head {
            answer.bytes = 0;
            return answer;
        }
        if endless {
            answer.end = OriginResponseEnd::Again;
        }
        if let Some(fault) = self.meet(OriginFaultKind::Alter, start..end) {
            answer.altered.push(fault.at..fault.at + fault.bytes);
        }
        if let Some((at, how)) = self.meet_end(start..end) {
            answer.bytes = at - start;
            answer.end = how;
        }
        answer
    }

    /// The end that an answer with these bytes comes to first, with its place; counts it. Those behind it are not met.
    fn meet_end(&mut self, range: std::ops::Range<u64>) -> Option<(u64, OriginResponseEnd)> {
        let ends = self.faults.iter_mut().filter_map(|(fault, met)| {
            let how = fault.kind.end().filter(|_| range.contains(&fault.at))?;
            fault.times.is_none_or(|times| *met < times).then_some((fault.at, how, met))
        });
        let (at, how, met) = ends.min_by_key(|(at, ..)| *at)?;
        *met += 1;
        Some((at, how))
    }

    /// The fault of this kind that an answer with these bytes meets, if any; counts it.
    fn meet(&mut self, kind: OriginFaultKind, range: std::ops::Range<u64>) -> Option<OriginFault> {
        let found = self.faults.iter_mut().find(|(fault, met)| {
            fault.kind == kind
                && fault.times.is_none_or(|times| *met < times)
                && (kind != OriginFaultKind::Alter || range.contains(&fault.at))
        });
        let (fault, met) = found?;
        *met += 1;
        Some(fault.clone())
    }
}

impl OriginResponse {
    pub(super) fn of_status(status: u16) -> Self {
        let head = format!("HTTP/1.1 {status} {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", reason(status));
        Self { head, start: 0, bytes: 0, altered: Vec::new(), end: OriginResponseEnd::Close }
    }
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn fault(kind: OriginFaultKind, at: u64) -> OriginFault {
        OriginFault { kind, at, times: None, bytes: 1, code: 503 }
    }

    fn asked(range: Option<(u64, Option<u64>)>) -> OriginRequest {
        OriginRequest { path: "/x".to_owned(), range, ..OriginRequest::default() }
    }

    #[test]
    fn an_end_behind_another_is_met_by_a_later_answer() {
        let once = |kind, at| OriginFault { times: Some(1), ..fault(kind, at) };
        let faults = vec![once(OriginFaultKind::Cut, 700), once(OriginFaultKind::Stall, 300)];
        let mut origin = OriginFile::new(1000, faults);
        let mut from = |start: u64| {
            let answer = origin.answer(&asked(Some((start, None))));
            (answer.bytes, answer.end)
        };
        assert_eq!(
            [from(0), from(300), from(700)],
            [(300, OriginResponseEnd::Stall), (400, OriginResponseEnd::Close), (300, OriginResponseEnd::Close)]
        );
    }

    #[test]
    fn a_sound_origin_serves_the_whole_and_ranges() {
        let mut origin = OriginFile::new(1000, Vec::new());
        let whole = origin.answer(&asked(None));
        assert_eq!((whole.start, whole.bytes, whole.end), (0, 1000, OriginResponseEnd::Close));
        assert!(whole.head.starts_with("HTTP/1.1 200 OK\r\n") && whole.head.contains("Content-Length: 1000\r\n"));
        let part = origin.answer(&asked(Some((990, None))));
        assert_eq!((part.start, part.bytes), (990, 10));
        assert!(part.head.contains("206") && part.head.contains("Content-Range: bytes 990-999/1000\r\n"));
        assert!(origin.answer(&asked(Some((1000, None)))).head.contains("416"));
        let other = OriginRequest { if_range: Some("\"other\"".to_owned()), ..asked(Some((990, None))) };
        assert_eq!(origin.answer(&other).bytes, 1000);
        let head = "GET /x HTTP/1.1\r\nHost: a\r\nrange: bytes=5-9\r\nIf-Range: \"q\"\r\n";
        let read = read_head(head).unwrap();
        assert_eq!((read.range, read.if_range.as_deref()), (Some((5, Some(9))), Some("\"q\"")));
        assert!(read_head("POST /x HTTP/1.1\r\n").is_none());
    }

    #[test]
    fn each_fault_does_what_it_says_and_as_often_as_it_says() {
        let answer = |kind, at, range| OriginFile::new(1000, vec![fault(kind, at)]).answer(&asked(range));
        let cut = answer(OriginFaultKind::Cut, 400, None);
        assert_eq!((cut.bytes, cut.end), (400, OriginResponseEnd::Close));
        assert!(cut.head.contains("Content-Length: 1000"));
        assert_eq!(answer(OriginFaultKind::Reset, 400, Some((300, None))).bytes, 100);
        assert_eq!(answer(OriginFaultKind::Stall, 400, Some((500, None))).end, OriginResponseEnd::Close);
        let short = answer(OriginFaultKind::Truncate, 10, None);
        assert!(short.bytes == 10 && short.head.contains("Content-Length: 10\r\n"));
        assert!(answer(OriginFaultKind::WrongLength, 0, None).head.contains("Content-Length: 1001"));
        assert_eq!(answer(OriginFaultKind::Alter, 7, None).altered.first(), Some(&(7..8)));
        assert_eq!(answer(OriginFaultKind::WrongRange, 0, Some((10, None))).start, 9);
        let endless = answer(OriginFaultKind::Endless, 0, None);
        assert!(endless.end == OriginResponseEnd::Again && !endless.head.contains("Content-Length"));
        assert!(answer(OriginFaultKind::Status, 0, None).head.starts_with("HTTP/1.1 503"));

        let mut once = OriginFile::new(1000, vec![OriginFault { times: Some(1), ..fault(OriginFaultKind::Cut, 1) }]);
        assert_eq!([(); 2].map(|()| once.answer(&asked(None)).bytes), [1, 1000]);
        let mut changing = OriginFile::new(1000, vec![fault(OriginFaultKind::ChangeEtag, 0)]);
        assert_ne!(changing.answer(&asked(None)).head, changing.answer(&asked(None)).head);
    }
}
