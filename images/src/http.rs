//! One HTTP download that survives broken connections: bounded, checked against the lengths that
//! the server states, resumed by range requests (RFC 9110 sections 13.1.5 and 14.2) only where it is
//! certain that the bytes are still the same. Knows no image and no file. No error names more of an address than may be
//! shown, or anything of a body.

mod client;
mod error;
mod minimum_rate;

use std::io::{self, Read};
use std::time::{Duration, Instant};

use bytes::Bytes;
use firesteel_facts::shown_url;
use reqwest::StatusCode;
use reqwest::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_RANGE, LAST_MODIFIED, RANGE,
};
use serde::{Deserialize, Serialize};

pub use client::DownloadClient;
use client::DownloadResponse;
pub use error::{Cause, HttpError};
use minimum_rate::Trickle;

/// Bounds of one download.
#[derive(Clone, Copy, Debug)]
pub struct DownloadLimits {
    /// The body must not be longer.
    pub bytes_max: u64,
    /// A connection that delivers nothing for this long counts as broken.
    pub stall: Duration,
    /// One that delivers next to nothing for this long is given up.
    pub trickle: Duration,
    /// Attempts in a row that bring nothing before the download fails.
    pub attempts_max: u32,
    /// Pause before the second attempt; doubles each time.
    pub pause: Duration,
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self {
            // Larger than any published OS image by two orders of magnitude.
            bytes_max: 256 << 30,
            // A server that reads from a cold archive answers within this; a dead one never.
            stall: Duration::from_secs(30),
            trickle: Duration::from_mins(5),
            attempts_max: 6,
            pause: Duration::from_millis(500),
        }
    }
}

/// What a server calls the bytes that it sends: the same name promises the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Validator {
    /// A strong one; weak tags (RFC 9110 section 8.8.1) do not promise equal bytes.
    ETag(String),
    /// A date promises less (a file can change twice in a second), so it is used only where the digest of the whole
    /// is known and checked in the end.
    LastModified(String),
}

impl Validator {
    fn of(headers: &HeaderMap, digest_known: bool) -> Option<Self> {
        let date = || headers.get(LAST_MODIFIED)?.to_str().ok().map(str::to_owned).filter(|date| !date.is_empty());
        let by_date = || date().filter(|_| digest_known).map(Self::LastModified);
        strong_etag(headers).map(Self::ETag).or_else(by_date)
    }

    fn if_range(&self) -> &str {
        match self {
            Self::ETag(value) | Self::LastModified(value) => value,
        }
    }

    /// Whether a part comes from the same file. A part repeats the ETag, but need not repeat the date (RFC 9110
    /// section 15.3.7), for `If-Range` vouches for it.
    fn allows(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::ETag(tag) => strong_etag(headers).as_ref() == Some(tag),
            Self::LastModified(date) => {
                headers.get(LAST_MODIFIED).is_none_or(|found| found.as_bytes() == date.as_bytes())
            }
        }
    }
}

/// A download in progress.
#[derive(Debug)]
pub struct Download {
    client: DownloadClient,
    url: String,
    /// The address as people see it.
    shown: String,
    limits: DownloadLimits,
    /// The caller knows the digest of the whole and will check it: any resumption is safe.
    digest_known: bool,
    response: Option<DownloadResponse>,
    validator: Option<Validator>,
    total_bytes: Option<u64>,
    position: u64,
    trickle: Trickle,
    failures: u32,
    is_resumed: bool,
}

impl Download {
    /// Prepares a download; nothing is sent yet. `expected_bytes`: the length, where it is known.
    pub fn new(
        client: impl Into<DownloadClient>,
        url: &str,
        limits: DownloadLimits,
        expected_bytes: Option<u64>,
        digest_known: bool,
    ) -> Result<Self, HttpError> {
        let parsed = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if parsed.is_none() {
            return Err(HttpError::Address { url: shown_url(url) });
        }
        Ok(Self {
            client: client.into(),
            url: url.to_owned(),
            shown: shown_url(url),
            limits,
            digest_known,
            response: None,
            validator: None,
            total_bytes: expected_bytes,
            position: 0,
            trickle: Trickle::default(),
            failures: 0,
            is_resumed: false,
        })
    }

    /// Goes on where an earlier download of this address ended. The caller has the bytes before `position`.
    #[must_use]
    pub fn from_position(self, position: u64, validator: Option<Validator>, total_bytes: Option<u64>) -> Self {
        Self { position, validator, total_bytes, ..self }
    }

    /// What the server calls these bytes, once it answered.
    #[must_use]
    pub fn validator(&self) -> Option<&Validator> {
        self.validator.as_ref()
    }

    /// Whether the bytes came in more than one part: only a digest proves that these are of one file, where the server
    /// gave no strong ETag.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Bytes received so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Length of the whole, once the server stated it.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// The next bytes; `None` at the proper end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            match self.advance().await {
                Ok(Some(bytes)) => {
                    self.failures = 0;
                    return Ok(Some(bytes));
                }
                Ok(None) => return Ok(None),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<Bytes>, HttpError> {
        let response = match &mut self.response {
            Some(response) => response,
            // Everything was there already; a range of nothing cannot be asked for.
            None if self.position > 0 && self.total_bytes == Some(self.position) => return Ok(None),
            None => {
                let response = self.request().await?;
                self.response.insert(response)
            }
        };
        let (url, at) = (|| self.shown.clone(), self.position);
        let asked_at = Instant::now();
        let next = tokio::time::timeout(self.limits.stall, response.chunk(&self.shown, at)).await;
        let chunk = next.map_err(|_| HttpError::Stalled { url: url(), at, seconds: self.limits.stall.as_secs() })??;
        match chunk {
            Some(bytes) => {
                self.position += bytes.len() as u64;
                let span = self.limits.trickle;
                if self.trickle.came(bytes.len() as u64, asked_at.elapsed(), span) {
                    return Err(HttpError::Trickles { url: url(), at: self.position, seconds: span.as_secs() });
                }
                let max = self.total_bytes.unwrap_or(self.limits.bytes_max);
                if self.position > max {
                    return Err(HttpError::TooLarge { url: url(), bytes: self.position, max });
                }
                Ok(Some(bytes))
            }
            None => match self.total_bytes {
                Some(expected) if at < expected => Err(HttpError::Truncated { url: url(), at, expected }),
                Some(_) | None => Ok(None),
            },
        }
    }

    async fn request(&mut self) -> Result<DownloadResponse, HttpError> {
        let mut headers = HeaderMap::new();
        if self.position > 0 {
            headers.insert(RANGE, header_value(&format!("bytes={}-", self.position))?);
            if let Some(validator) = &self.validator {
                headers.insert(IF_RANGE, header_value(validator.if_range())?);
            }
        }
        let bytes_max = self.total_bytes.unwrap_or(self.limits.bytes_max);
        let asked = self.client.get(&self.url, headers, bytes_max, &self.shown);
        let sent = tokio::time::timeout(self.limits.stall, asked).await;
        let seconds = self.limits.stall.as_secs();
        let stalled = |_| HttpError::Stalled { url: self.shown.clone(), at: self.position, seconds };
        let response = sent.map_err(stalled)??;
        if self.position > 0 {
            self.check_resumed(&response)?
        } else {
            self.check_first(&response)?
        }
        Ok(response)
    }

    fn check_first(&mut self, response: &DownloadResponse) -> Result<(), HttpError> {
        let url = || self.shown.clone();
        if response.status() != StatusCode::OK {
            return Err(HttpError::Status { url: url(), status: response.status() });
        }
        let stated = number(response.headers(), &CONTENT_LENGTH);
        match (self.total_bytes, stated) {
            (Some(expected), Some(found)) if expected != found => {
                return Err(HttpError::Length { url: url(), expected, found });
            }
            (_, Some(bytes)) if bytes > self.limits.bytes_max => {
                return Err(HttpError::TooLarge { url: url(), bytes, max: self.limits.bytes_max });
            }
            (None, stated) => self.total_bytes = stated,
            (Some(_), _) => {}
        }
        self.validator = Validator::of(response.headers(), self.digest_known);
        Ok(())
    }

    fn check_resumed(&mut self, response: &DownloadResponse) -> Result<(), HttpError> {
        let url = self.shown.clone();
        let changed = |why| HttpError::Changed { url: url.clone(), why };
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK => return Err(changed("the server sent the whole again")),
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(changed("it became shorter")),
            status => return Err(HttpError::Status { url: self.shown.clone(), status }),
        }
        let headers = response.headers();
        match &self.validator {
            Some(validator) if validator.allows(headers) => {}
            None if strong_etag(headers).is_none() => {}
            Some(Validator::ETag(_)) | None => return Err(changed("its ETag is another")),
            Some(Validator::LastModified(_)) => return Err(changed("its date is another")),
        }
        let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
        let Some((start, total)) = range.and_then(parse_content_range) else {
            return Err(changed("the server does not say which part it sends"));
        };
        if start != self.position {
            return Err(changed("the server sends another part than the one asked for"));
        }
        if self.total_bytes.is_some_and(|expected| expected != total) {
            return Err(changed("its length is another"));
        }
        self.total_bytes = Some(total);
        self.is_resumed = true;
        Ok(())
    }

    /// Prepares another attempt, or gives the error back where none can help.
    async fn recover(&mut self, error: HttpError) -> Result<(), HttpError> {
        self.response = None;
        self.failures += 1;
        let transient = match &error {
            HttpError::Stalled { .. }
            | HttpError::Broken { .. }
            | HttpError::Truncated { .. }
            | HttpError::Request { .. } => true,
            HttpError::Status { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            HttpError::Address { .. }
            | HttpError::UserInformation { .. }
            | HttpError::Client { .. }
            | HttpError::Refused { .. }
            | HttpError::Redirect { .. }
            | HttpError::Excess { .. }
            | HttpError::Slow { .. }
            | HttpError::Trickles { .. }
            | HttpError::TooLarge { .. }
            | HttpError::Length { .. }
            | HttpError::Changed { .. }
            | HttpError::CannotResume { .. } => false,
        };
        if !transient || self.failures >= self.limits.attempts_max {
            return Err(error);
        }
        if self.position > 0 && self.validator.is_none() && !self.digest_known {
            return Err(HttpError::CannotResume { url: self.shown.clone(), at: self.position });
        }
        tracing::debug!(url = self.shown, at = self.position, %error, "a download broke off; it is tried again");
        tokio::time::sleep(self.limits.pause * 2_u32.saturating_pow(self.failures - 1)).await;
        Ok(())
    }
}

/// What a server sent as a header, or digits: it is one again.
fn header_value(text: &str) -> Result<HeaderValue, HttpError> {
    HeaderValue::from_str(text).map_err(|error| HttpError::Client { source: error.into() })
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn strong_etag(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    (tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2).then(|| tag.to_owned())
}

/// Start and total of `bytes START-END/TOTAL`, where END is the last byte of all.
fn parse_content_range(text: &str) -> Option<(u64, u64)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end, total): (u64, u64, u64) = (start.parse().ok()?, end.parse().ok()?, total.parse().ok()?);
    (start <= end && end.checked_add(1)? == total).then_some((start, total))
}

/// Reads any bytes as the headers that decide whether a download goes on, for fuzzing.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some((start, total)) = parse_content_range(text) {
        assert!(start < total, "a part that is sent has bytes");
    }
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        headers.insert(ETAG, value.clone());
        headers.insert(CONTENT_LENGTH, value);
    }
    if let Some(tag) = strong_etag(&headers) {
        assert!(!tag.starts_with("W/") && tag.len() > 2, "a weak tag promises nothing");
    }
    let _length = number(&headers, &CONTENT_LENGTH);
}

/// A download as a blocking reader, for threads of their own. Runs its own small runtime.
#[derive(Debug)]
pub struct HttpReader {
    runtime: tokio::runtime::Runtime,
    download: Download,
    chunk: Bytes,
    position: usize,
}

impl HttpReader {
    /// Starts reading; the request goes out with the first read. Must not be read on a thread
    /// that runs asynchronous tasks.
    pub fn new(download: Download) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, download, chunk: Bytes::new(), position: 0 })
    }
}

impl Read for HttpReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.chunk.len() {
            match self.runtime.block_on(self.download.next()) {
                Ok(Some(chunk)) => (self.chunk, self.position) = (chunk, 0),
                Ok(None) => return Ok(0),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let rest = &self.chunk[self.position..];
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.position += bytes;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_range_must_reach_the_end() {
        assert_eq!(parse_content_range("bytes 5-9/10"), Some((5, 10)));
        for bad in ["bytes 5-8/10", "bytes 5-9/*", "5-9/10", "bytes 9-5/10", "bytes -/", ""] {
            assert_eq!(parse_content_range(bad), None, "{bad}");
        }
    }
}
