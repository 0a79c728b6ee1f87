//! A web server with files that cut, change, stall, lie and never end, on loopback.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Where the bytes of a file come from.
#[derive(Clone)]
pub(crate) enum Content {
    Bytes(Arc<Vec<u8>>),
    /// Blocks that differ from each other and compress like the files of a system.
    Generated {
        bytes: u64,
    },
}

pub(crate) const BLOCK_BYTES: u64 = 64 << 10;

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Generated { bytes } => *bytes,
        }
    }

    /// The rest of the block that holds this offset.
    pub(crate) fn from(&self, offset: u64) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap();
                bytes[start..bytes.len().min(start + (64 << 10))].to_vec()
            }
            Self::Generated { bytes } => {
                let (block, skip) = (offset / BLOCK_BYTES, usize::try_from(offset % BLOCK_BYTES).unwrap());
                let mut state = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                let mut words = Vec::with_capacity(1 << 16);
                while words.len() < 1 << 16 {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    // A third is noise.
                    words.extend_from_slice(&state.to_le_bytes());
                    words.extend_from_slice(&[0; 16]);
                }
                if block == 0 {
                    // A boot sector: bytes that mean nothing are no image.
                    words[510..512].copy_from_slice(&[0x55, 0xaa]);
                }
                let end = usize::try_from((bytes - block * BLOCK_BYTES).min(BLOCK_BYTES)).unwrap();
                words[skip..end].to_vec()
            }
        }
    }

    pub(crate) fn sha256(&self) -> firesteel_facts::Sha256 {
        let mut hasher = firesteel_facts::Hasher::new();
        let mut offset = 0;
        while offset < self.len() {
            let block = self.from(offset);
            hasher.update(&block);
            offset += block.len() as u64;
        }
        hasher.finish()
    }
}

/// What happens to one connection once so many bytes of the file (counted from its start) were sent.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    Cut(u64),
    /// Nothing more comes, and the connection stays.
    Hold(u64),
}

#[derive(Clone)]
pub(crate) struct File {
    pub(crate) content: Content,
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
    pub(crate) ranges: bool,
    /// Without it the body ends with the connection.
    pub(crate) states_length: bool,
    /// For the requests to come, one each.
    pub(crate) faults: VecDeque<Fault>,
}

impl File {
    pub(crate) fn new(content: Content) -> Self {
        Self {
            content,
            etag: Some("\"one\"".to_owned()),
            last_modified: None,
            ranges: true,
            states_length: true,
            faults: VecDeque::new(),
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::new(Content::Bytes(Arc::new(bytes.to_vec())))
    }

    pub(crate) fn with(self, faults: &[Fault]) -> Self {
        Self { faults: faults.iter().copied().collect(), ..self }
    }
}

/// One request: the path and the headers in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
}

#[derive(Clone)]
pub(crate) struct FileServer {
    address: String,
    files: Arc<Mutex<HashMap<String, File>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl FileServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server =
            Self { address: listener.local_addr().unwrap().to_string(), files: Arc::default(), seen: Arc::default() };
        let own = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, own) = (stream.unwrap(), own.clone());
                // A client that hangs up is within its rights.
                thread::spawn(move || drop(own.answer(&stream)));
            }
        });
        server
    }

    pub(crate) fn put(&self, path: &str, file: File) -> String {
        self.files.lock().unwrap().insert(path.to_owned(), file);
        self.url(path)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Requests for a path, in order.
    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|seen| seen.path == path).cloned().collect()
    }

    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next().unwrap_or(Ok(String::new()))?;
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = HashMap::new();
        for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap_or_default();
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        self.seen.lock().unwrap().push(Seen { path: path.clone(), headers: headers.clone() });
        let (file, fault) = {
            let mut files = self.files.lock().unwrap();
            match files.get_mut(&path) {
                None => {
                    drop(files);
                    let mut out = stream;
                    return write!(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                }
                Some(file) => {
                    let fault = file.faults.pop_front();
                    (file.clone(), fault)
                }
            }
        };
        send(stream, &file, &headers, fault)
    }
}

fn send(
    mut stream: &TcpStream,
    file: &File,
    headers: &HashMap<String, String>,
    fault: Option<Fault>,
) -> std::io::Result<()> {
    let total = file.content.len();
    let is_same = |condition: &String| {
        [file.etag.as_ref(), file.last_modified.as_ref()].into_iter().flatten().any(|name| name == condition)
    };
    let asked = headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let start: u64 = asked.filter(|_| file.ranges && headers.get("if-range").is_none_or(is_same)).unwrap_or(0);
    let mut head = if start >= total && start > 0 {
        format!("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{total}\r\nContent-Length: 0\r\n")
    } else if start > 0 {
        format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{}/{total}\r\n", total - 1)
    } else {
        "HTTP/1.1 200 OK\r\n".to_owned()
    };
    if file.states_length && start < total {
        head += &format!("Content-Length: {}\r\n", total - start);
    }
    if let Some(etag) = &file.etag {
        head += &format!("ETag: {etag}\r\n");
    }
    // A part need not repeat it.
    if let (Some(date), 0) = (&file.last_modified, start) {
        head += &format!("Last-Modified: {date}\r\n");
    }
    write!(stream, "{head}Connection: close\r\n\r\n")?;
    let mut offset = start;
    while offset < total {
        let mut block = file.content.from(offset);
        let stop = match fault {
            Some(Fault::Cut(at) | Fault::Hold(at)) => at.max(start),
            None => total,
        };
        if offset + block.len() as u64 >= stop && fault.is_some() {
            block.truncate(usize::try_from(stop - offset).unwrap());
            stream.write_all(&block)?;
            if let Some(Fault::Hold(_)) = fault {
                // Until the client is killed, or gives up.
                thread::sleep(Duration::from_secs(600));
            }
            return Ok(());
        }
        stream.write_all(&block)?;
        offset += block.len() as u64;
    }
    Ok(())
}
