//! A plain HTTP server for image files, the "somewhere else" that a host's `image.url` names: in
//! the lab nothing else is reachable. One connection, one answer. It misbehaves on request
//! ([`OriginFault`]): that is why it writes its answers itself, byte by byte.

mod answer;

use std::collections::HashMap;
use std::io::{self, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use answer::{OriginFault, OriginFaultKind};
use answer::{OriginFile, OriginResponse, OriginResponseEnd, read_head};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// The bytes that are read from disk and sent at once; large enough that the cost of a call does not show.
const CHUNK_BYTES: usize = 256 * 1024;
/// A client's request is a few hundred bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Requests for one file that are remembered; no scenario looks at more.
const STARTS_MAX: usize = 1000;
/// A stall is longer than any wait for its end.
const STALL: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct PublishedFile {
    file: PathBuf,
    origin: OriginFile,
    /// The first byte of each answer, in the order of the requests.
    starts: Vec<u64>,
}

type All = Arc<Mutex<HashMap<String, PublishedFile>>>;

/// Serves until dropped.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
    published: All,
    task: AbortHandle,
}

impl FileServer {
    pub async fn start(address: Ipv4Addr) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let published = All::default();
        let task = tokio::spawn(accept(listener, published.clone())).abort_handle();
        Ok(Self { address, published, task })
    }

    /// Publishes a file under its own name in a folder of its own (or in none), with faults, and gives
    /// its URL.
    pub fn publish_below(&self, folder: &str, path: &Path, faults: Vec<OriginFault>) -> io::Result<String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let place = if folder.is_empty() { format!("/{name}") } else { format!("/{folder}/{name}") };
        let origin = OriginFile::new(path.metadata()?.len(), faults);
        lock(&self.published)
            .insert(place.clone(), PublishedFile { file: path.to_owned(), origin, starts: Vec::new() });
        Ok(format!("http://{}{place}", self.address))
    }

    /// The first byte of each answer to requests for this URL; HEAD apart.
    #[must_use]
    pub fn starts(&self, url: &str) -> Vec<u64> {
        let place = url.strip_prefix(&format!("http://{}", self.address)).unwrap_or_default();
        lock(&self.published).get(place).map(|published| published.starts.clone()).unwrap_or_default()
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(published: &All) -> MutexGuard<'_, HashMap<String, PublishedFile>> {
    published.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, published: All) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let published = published.clone();
        connections.spawn(async move {
            // A client that hangs up is no event.
            drop(serve(stream, &published).await);
        });
    }
}

async fn serve(mut stream: TcpStream, published: &All) -> io::Result<()> {
    let Some(head) = head(&mut stream).await? else { return Ok(()) };
    let asked = read_head(&head);
    let found = asked.as_ref().and_then(|asked| {
        let mut published = lock(published);
        let found = published.get_mut(&asked.path)?;
        let answer = found.origin.answer(asked);
        if !asked.is_head && found.starts.len() < STARTS_MAX {
            found.starts.push(answer.start);
        }
        Some((found.file.clone(), answer))
    });
    let (file, answer) = match (asked, found) {
        (_, Some((file, answer))) => (file, answer),
        (Some(_), None) => (PathBuf::new(), OriginResponse::of_status(404)),
        (None, _) => (PathBuf::new(), OriginResponse::of_status(405)),
    };
    stream.write_all(answer.head.as_bytes()).await?;
    loop {
        if answer.bytes > 0 {
            send(&mut stream, &file, &answer).await?;
        }
        match answer.end {
            OriginResponseEnd::Close => return stream.shutdown().await,
            // What lies in the socket's buffer is thrown away with the connection.
            OriginResponseEnd::Reset => return socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)),
            OriginResponseEnd::Stall => {
                stream.flush().await?;
                tokio::time::sleep(STALL).await;
                return Ok(());
            }
            OriginResponseEnd::Again => {}
        }
    }
}

/// The request without its empty line; `None` where there is no whole one.
async fn head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while head.len() < HEAD_BYTES_MAX {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok(Some(String::from_utf8_lossy(&head[..end]).into_owned()));
        }
    }
    Ok(None)
}

async fn send(stream: &mut TcpStream, file: &Path, answer: &OriginResponse) -> io::Result<()> {
    let mut file = File::open(file).await?;
    file.seek(SeekFrom::Start(answer.start)).await?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut at, end) = (answer.start, answer.start + answer.bytes);
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let read = file.read(&mut chunk[..wanted]).await?;
        if read == 0 {
            break;
        }
        let part = &mut chunk[..read];
        for range in &answer.altered {
            let inside = (range.start.max(at), range.end.min(at + read as u64));
            for offset in inside.0..inside.1 {
                part[usize::try_from(offset - at).unwrap_or(0)] ^= 0xff;
            }
        }
        stream.write_all(part).await?;
        at += read as u64;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// What a client gets of a file of 1000 bytes, and whether the connection was ended in order.
    async fn fetch(faults: Vec<OriginFault>, range: &str) -> (String, Vec<u8>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image.raw");
        std::fs::write(&file, [7; 1000]).unwrap();
        let server = FileServer::start(Ipv4Addr::LOCALHOST).await.unwrap();
        let url = server.publish_below("below", &file, faults).unwrap();
        let path = url.split_once("/below").unwrap().1;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(format!("GET /below{path} HTTP/1.1\r\n{range}\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer).await.is_ok();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(answer.len());
        let body = answer.get(end + 4..).unwrap_or_default().to_vec();
        (String::from_utf8_lossy(&answer[..end]).into_owned(), body, ended)
    }

    fn fault(kind: OriginFaultKind, at: u64) -> Vec<OriginFault> {
        vec![OriginFault { kind, at, times: None, bytes: 2, code: 503 }]
    }

    #[tokio::test]
    async fn a_client_gets_what_the_faults_leave() {
        let (head, body, ended) = fetch(Vec::new(), "").await;
        assert!(head.starts_with("HTTP/1.1 200 OK") && body == [7; 1000] && ended);
        let (head, body, _) = fetch(Vec::new(), "Range: bytes=990-994\r\n").await;
        assert!(head.contains("bytes 990-994/1000") && body.len() == 5, "{head}");
        let (_, body, ended) = fetch(fault(OriginFaultKind::Cut, 400), "").await;
        assert_eq!((body.len(), ended), (400, true));
        let (_, _, ended) = fetch(fault(OriginFaultKind::Reset, 400), "").await;
        assert!(!ended, "the connection was closed in order");
        let (_, body, _) = fetch(fault(OriginFaultKind::Alter, 500), "").await;
        assert_eq!(body[499..503], [7, 0xf8, 0xf8, 7]);
        let (head, body, _) = fetch(fault(OriginFaultKind::Status, 0), "").await;
        assert!(head.starts_with("HTTP/1.1 503") && body.is_empty());
    }
}
