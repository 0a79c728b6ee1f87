//! A server of images that lies: each path misbehaves in its own way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// What a path answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The bytes, whole, or the part that was asked for.
    Sound(Vec<u8>),
    /// So many bytes, then a proper end before the stated length, and nothing more of the rest.
    Truncated(Vec<u8>, usize),
    /// So many bytes, then a reset; each time the same.
    Reset(Vec<u8>, usize),
    /// So many bytes, then nothing, on an open connection.
    Stalled(Vec<u8>, usize),
    /// Breaks off once; what is resumed has another ETag.
    Changed(Vec<u8>, usize),
    /// Breaks off; the part that is sent then begins elsewhere.
    WrongPart(Vec<u8>, usize),
    /// States a length of its own.
    Length(Vec<u8>, usize),
    Status(u16),
    /// A body without end and without a length.
    Endless,
}

impl Answer {
    /// What the owner takes the image for.
    pub(crate) fn body(&self) -> &[u8] {
        match self {
            Self::Sound(body)
            | Self::Truncated(body, _)
            | Self::Reset(body, _)
            | Self::Stalled(body, _)
            | Self::Changed(body, _)
            | Self::WrongPart(body, _)
            | Self::Length(body, _) => body,
            Self::Status(_) | Self::Endless => &[],
        }
    }
}

pub(crate) struct Origin(String);

impl Origin {
    pub(crate) fn start(paths: Vec<(&'static str, Answer)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let paths = Arc::new(paths);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let paths = Arc::clone(&paths);
                // The client may hang up in the middle; that is its right.
                thread::spawn(move || drop(serve(&stream, &paths)));
            }
        });
        Self(base)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.0)
    }
}

fn serve(stream: &TcpStream, paths: &[(&'static str, Answer)]) -> std::io::Result<()> {
    let lines = BufReader::new(stream).lines();
    let head: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().trim_start_matches('/');
    let range = head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
    let from: Option<usize> = range.and_then(|range| range.trim_end_matches('-').parse().ok());
    let Some((_, answer)) = paths.iter().find(|(name, _)| *name == path) else {
        return write!(&*stream, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    };
    respond(stream, answer, from)
}

fn respond(mut stream: &TcpStream, answer: &Answer, from: Option<usize>) -> std::io::Result<()> {
    match (answer, from) {
        (Answer::Status(code), _) => {
            write!(stream, "HTTP/1.1 {code} Sorry\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        }
        (Answer::Endless, _) => {
            write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            let block = vec![0x5a; 1 << 20];
            loop {
                stream.write_all(&block)?;
            }
        }
        (Answer::Sound(body), None) => send(stream, body, body.len(), body.len()),
        (Answer::Length(body, stated), _) => send(stream, body, *stated, body.len()),
        (Answer::Sound(body), Some(from)) => part(stream, body, from, &body[from..], "one"),
        (Answer::Changed(body, _), Some(from)) => part(stream, body, from, &body[from..], "two"),
        (Answer::WrongPart(body, _), Some(from)) => part(stream, body, from - 1, &body[from - 1..], "one"),
        (Answer::Truncated(body, sent) | Answer::Changed(body, sent) | Answer::WrongPart(body, sent), None) => {
            send(stream, body, body.len(), *sent)
        }
        (Answer::Truncated(body, _), Some(from)) => part(stream, body, from, &[], "one"),
        (Answer::Reset(body, sent), from) => {
            match from {
                None => send(stream, body, body.len(), *sent)?,
                Some(from) => part(stream, body, from, &[], "one")?,
            }
            reset(stream)
        }
        (Answer::Stalled(body, sent), from) => {
            match from {
                None => send(stream, body, body.len(), *sent)?,
                Some(from) => part(stream, body, from, &[], "one")?,
            }
            loop {
                thread::park();
            }
        }
    }
}

/// The head of the whole, which states a length, and its first bytes.
fn send(mut stream: &TcpStream, body: &[u8], length: usize, sent: usize) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\netag: \"one\"\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")?;
    stream.write_all(&body[..sent])
}

/// The head of the part that begins at `from`, and some bytes.
fn part(mut stream: &TcpStream, body: &[u8], from: usize, sent: &[u8], etag: &str) -> std::io::Result<()> {
    let (last, total, length) = (body.len() - 1, body.len(), body.len() - from);
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\netag: \"{etag}\"\r\ncontent-range: bytes {from}-{last}/{total}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    stream.write_all(sent)
}

/// Closes so that the other side sees a reset.
fn reset(stream: &TcpStream) -> std::io::Result<()> {
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(stream, nix::sys::socket::sockopt::Linger, &linger)?;
    stream.shutdown(std::net::Shutdown::Both)
}
